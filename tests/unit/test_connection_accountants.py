"""Each accountant of a schema on a connection: prices, shares, EXPLAIN, refusals and `budget()`."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

import dp_sql
from dp_sql.budget.accountant import EPSILON_UNITS
from dp_sql.errors import BudgetExceededError

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {level: user, unit: person}
mechanisms: {noise: NOISE}
tables:
  people:
    source: people.csv
    owner: id
    budget: BUDGET
    limits: {max_groups: 2, max_rows_per_group: 3}
    columns:
      id: {type: integer}
      city: {type: varchar, values: [oslo, rome, bonn], nullable: false}
      kind: {type: varchar, values: [a, b], nullable: false}
      pay: {type: double, bounds: [-5, 10]}
"""
COUNT = "SELECT COUNT(*) FROM people"
Open = Callable[..., dp_sql.Connection]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    def connect(budget: str, noise: str = "[laplace, gaussian]") -> dp_sql.Connection:
        (tmp_path / "people.csv").write_text("id,city,kind,pay\n1,oslo,a,3\n2,oslo,b,4\n")
        text = SCHEMA.replace("NOISE", noise).replace("BUDGET", budget)
        (tmp_path / "people.yaml").write_text(text, encoding="utf-8")
        return dp_sql.connect(tmp_path / "people.yaml", ledger=":memory:", reuse=False)

    return connect


@pytest.mark.parametrize(
    ("accountant", "taken", "shown"),
    [
        ("pure", "takes epsilon 0.1 (10 %); 10 like it fit", "epsilon: 10 % used, 0.9 left"),
        ("sequential", "takes epsilon 0.1 (10 %); 10 like it fit", "epsilon: 10 % used, 0.9 left"),
        (
            "advanced",
            "takes squares of epsilon 0.01 (30 %); 3 like it fit",
            "squares of epsilon: 30 % used, 0.0233233 left",
        ),
        ("zcdp", "takes zCDP 0.005 (21.8 %); 4 like it fit", "zCDP: 21.8 % used, 0.0179374 left"),
        (
            "renyi",
            "takes epsilon 0.1 (10 %), Rényi 0.0702845 (13.2 %); 10 like it fit",
            "epsilon: 10 % used, 0.9 left",
        ),
    ],
)
def test_explain_and_budget_tell_what_each_accountant_takes(
    opened: Open, accountant: str, taken: str, shown: str
) -> None:
    with opened(f"{{epsilon: 1, delta: 1e-6, accountant: {accountant}}}") as connection:
        text = connection.explain(COUNT, epsilon="0.1")
        assert f"  {taken}\n  budget: epsilon 1, delta 1e-06 ({accountant} accountant)" in text
        connection.sql(COUNT, epsilon="0.1")
        lines = connection.budget()["people"].lines()
        assert shown in lines
        fit = int(taken.split("; ")[1].split(maxsplit=1)[0])
        assert lines[-1] == f"{fit - 1} more like the last statement fit"
        for _ in range(fit - 1):
            connection.sql(COUNT, epsilon="0.1")
        with pytest.raises(BudgetExceededError):
            connection.sql(COUNT, epsilon="0.1")


@pytest.mark.parametrize(
    ("accountant", "noise"),
    [
        ("advanced", "[laplace]"),
        ("zcdp", "[laplace]"),
        ("sequential", "[gaussian]"),
        ("advanced", "[gaussian]"),
    ],
)
@pytest.mark.parametrize(
    "sql", [COUNT, "SELECT city, COUNT(*), AVG(pay) FROM people GROUP BY city"]
)
def test_the_epsilon_that_a_refusal_names_fits(
    opened: Open, accountant: str, noise: str, sql: str
) -> None:
    with opened(f"{{epsilon: 1, delta: 1e-6, accountant: {accountant}}}", noise) as connection:
        connection.sql(COUNT, epsilon="0.05", delta="1e-8")
        with pytest.raises(BudgetExceededError) as caught:
            connection.sql(sql, epsilon=1, delta="1e-7")
        assert caught.value.hint is not None
        fitting = caught.value.hint.removeprefix("epsilon = ").removesuffix(" would fit")
        with pytest.raises(BudgetExceededError):
            connection.sql(sql, epsilon=float(fitting) * 1.02, delta="1e-7")
        connection.sql(sql, epsilon=fitting, delta="1e-7")


def test_sets_of_keys_that_share_gaussian_noise_are_one_step_of_advanced_composition(
    opened: Open,
) -> None:
    sql = "SELECT city, kind, COUNT(*) FROM people GROUP BY ROLLUP(city, kind)"
    with opened("{epsilon: 9, delta: 1e-3, accountant: advanced}", "[gaussian]") as connection:
        epsilon = connection.sql(sql, epsilon="0.2", delta="1e-6").cost["people"].epsilon
        assert epsilon == Fraction(1, 5)
        assert connection.budget()["people"].spent.rdp == EPSILON_UNITS // 25


def test_releases_of_one_statement_are_steps_of_advanced_composition(opened: Open) -> None:
    sql = "SELECT (SELECT COUNT(*) FROM people) AS n, (SELECT SUM(pay) FROM people) AS s"
    with opened("{epsilon: 9, delta: 1e-3, accountant: advanced}", "[gaussian]") as connection:
        connection.sql(sql, epsilon="0.2", delta="1e-6")
        assert connection.budget()["people"].spent.rdp == 2 * EPSILON_UNITS // 100
