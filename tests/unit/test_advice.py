"""The epsilon that a refusal names: it is asked and answered, and what is just above it is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

import dp_sql
from dp_sql.advice import _Search
from dp_sql.errors import BudgetExceededError, ParameterError

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {{level: user, unit: person{people}}}
mechanisms: {{noise: {noise}}}
tables:
  people:
    source: people.csv
    owner: id
    budget: {budget}
    limits: {{max_groups: {groups}, max_rows_per_group: 3}}
    columns:
      id: {{type: integer}}
      city: {{type: varchar, values: [oslo, rome, bonn], nullable: false}}
      name: {{type: varchar}}
      pay: {{type: double, bounds: [-5, 10]}}
"""
COUNT = "SELECT COUNT(*) FROM people"
CITIES = "SELECT city, COUNT(*), AVG(pay) FROM people GROUP BY city"
NAMES = "SELECT name, COUNT(DISTINCT id) FROM people GROUP BY name"
MEDIAN = "SELECT MEDIAN(pay) FROM people"
BOTH = "[laplace, gaussian]"
TWO = f"SELECT ({COUNT}) AS a, (SELECT SUM(pay) FROM people) AS b"

Open = Callable[..., AbstractContextManager[dp_sql.Connection]]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    rows = [f"{i},{('oslo', 'rome')[i % 2]},n{i % 3},{i % 7}" for i in range(40)]
    (tmp_path / "people.csv").write_text("\n".join(["id,city,name,pay", *rows]) + "\n")

    @contextmanager
    def open_one(
        budget: str,
        noise: str = BOTH,
        people: str = "",
        groups: int = 2,
        analyst: str | None = None,
    ) -> Iterator[dp_sql.Connection]:
        path = tmp_path / "people.yaml"
        text = SCHEMA.format(budget=budget, noise=noise, people=people, groups=groups)
        path.write_text(text, encoding="utf-8")
        with dp_sql.connect(path, ledger=":memory:", analyst=analyst, reuse=False) as connection:
            yield connection

    return open_one


def named(
    connection: dp_sql.Connection, sql: str, epsilon: str, delta: str | None = "1e-7"
) -> Fraction:
    """Ask what doesn't fit; return the epsilon that the refusal names."""
    before = connection.budget()
    with pytest.raises(BudgetExceededError) as caught:
        connection.sql(sql, epsilon=epsilon, delta=delta)
    assert connection.budget() == before
    assert caught.value.fitting is not None
    hint = caught.value.hint or ""
    assert Fraction(hint.removeprefix("epsilon = ").removesuffix(" would fit")) == (
        caught.value.fitting
    )
    return caught.value.fitting


CASES = [("[gaussian]", CITIES), ("[laplace]", TWO), (BOTH, NAMES), (BOTH, MEDIAN)]
IN_CI = {("pure", TWO), ("sequential", MEDIAN), ("advanced", CITIES), ("zcdp", CITIES)} | {
    ("renyi", NAMES)
}


@pytest.mark.parametrize(
    ("accountant", "noise", "sql"),
    [
        pytest.param(a, n, q, marks=[] if (a, q) in IN_CI else pytest.mark.slow)
        for a in ("pure", "sequential", "advanced", "zcdp", "renyi")
        for n, q in CASES
        if (a, n) != ("pure", "[gaussian]")
    ],
)
def test_what_is_named_fits_and_what_is_five_percent_above_does_not(
    opened: Open, accountant: str, noise: str, sql: str
) -> None:
    with opened(f"{{epsilon: 2, delta: 1e-5, accountant: {accountant}}}", noise) as connection:
        for asked in ("9", "2"):  # of a fresh budget, then of what is left of it
            fitting = named(connection, sql, asked)
            assert fitting < Fraction(asked)
            with pytest.raises(BudgetExceededError):
                connection.sql(sql, epsilon=fitting * Fraction(21, 20), delta="1e-7")
            connection.sql(sql, epsilon=fitting / 2 if asked == "9" else fitting, delta="1e-7")


def test_all_accounts_are_looked_at(opened: Open) -> None:
    budget = "{epsilon: 5, delta: 1e-5, per_analyst: {epsilon: 1}}"
    with opened(budget, people=", budget: {epsilon: 3, delta: 1e-5}", analyst="ada") as connection:
        assert named(connection, COUNT, "4") == 1
    with opened(budget, people=", budget: {epsilon: 3, delta: 1e-5}") as connection:
        assert named(connection, COUNT, "4") == 3


def test_another_rule_for_keys_is_looked_at(opened: Open) -> None:
    # above epsilon 4 keys are selected in one round, below it in two, which is another price
    budget = "{epsilon: 3, delta: 1e-4, accountant: advanced}"
    with opened(budget, groups=12) as connection:
        fitting = named(connection, NAMES, "8", "1e-6")
        connection.sql(NAMES, epsilon=fitting, delta="1e-6")


def test_a_session_and_a_clause_are_kept(opened: Open) -> None:
    with opened("{epsilon: 1, delta: 1e-5}", "[gaussian]") as connection:
        connection.sql("SET delta = 1e-8")
        high = named(connection, COUNT, "3", None)
        connection.sql("SET delta = 1e-6")  # less noise at one epsilon
        assert named(connection, COUNT, "3", None) < high
        clause = COUNT.replace(
            "SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 3, delta = 1e-6)"
        )
        with pytest.raises(BudgetExceededError) as caught:
            connection.sql(clause)
        connection.sql(clause, epsilon=caught.value.fitting)


def test_nothing_is_promised_of_a_full_budget(opened: Open) -> None:
    with opened("{epsilon: 1, accountant: pure}") as connection:
        connection.sql(COUNT, epsilon=1)
        with pytest.raises(BudgetExceededError, match="No smaller epsilon fits either") as caught:
            connection.sql(COUNT, epsilon="0.5")
        assert caught.value.fitting is None


def test_too_little_delta_is_said_as_such(opened: Open) -> None:
    with opened("{epsilon: 5, delta: 1e-6, accountant: sequential}", "[gaussian]") as connection:
        with pytest.raises(BudgetExceededError) as caught:
            connection.sql(COUNT, epsilon="0.5", delta="1e-5")
        assert "a smaller delta" in (caught.value.hint or "")
        assert caught.value.fitting is None


@pytest.mark.parametrize(
    ("accountant", "noise"),
    [("pure", "[laplace]"), pytest.param("renyi", "[gaussian]", marks=pytest.mark.slow)],
)
def test_a_batch_is_told_what_fits(opened: Open, accountant: str, noise: str) -> None:
    with opened(f"{{epsilon: 1, delta: 1e-5, accountant: {accountant}}}", noise) as connection:
        before = connection.budget()
        with pytest.raises(BudgetExceededError) as caught:
            connection.batch([COUNT, CITIES], epsilon=3, delta="1e-7")
        fitting = caught.value.fitting
        assert fitting is not None
        assert connection.budget() == before
        with pytest.raises(BudgetExceededError):
            connection.batch([COUNT, CITIES], epsilon=fitting * Fraction(21, 20), delta="1e-7")
        connection.batch([COUNT, CITIES], epsilon=fitting, delta="1e-7")


@pytest.mark.parametrize("start", [None, "0.5", "0.0301", "0.02", "3"])
@pytest.mark.parametrize("limit", ["0.0301", "2", "0.00004"])
def test_the_search_ends_at_the_limit(start: str | None, limit: str) -> None:
    tried: list[Fraction] = []

    def fits(epsilon: Fraction) -> bool:
        tried.append(epsilon)
        return epsilon <= Fraction(limit)

    search = _Search(Fraction(3), fits)
    search.run(None if start is None else Fraction(start), 12)
    assert search.fits in tried
    assert search.fits is not None
    assert search.fits <= Fraction(limit) < search.fits * Fraction(21, 20)
    assert len(tried) <= 12


def test_what_cannot_be_answered_is_not_named() -> None:
    search = _Search(Fraction(1), lambda e: None if e < Fraction(1, 10) else e < Fraction(3, 10))
    search.run(None, 12)
    assert search.fits is not None
    assert Fraction(28, 100) < search.fits < Fraction(3, 10)
    nothing = _Search(Fraction(1), lambda e: None if e < Fraction(1, 2) else False)
    nothing.run(None, 12)
    assert nothing.fits is None
    assert not nothing.none_fits


def test_amounts_out_of_range_are_refused_before_any_search(opened: Open) -> None:
    with opened("{epsilon: 1, delta: 1e-5}") as connection, pytest.raises(ParameterError):
        connection.sql(COUNT, epsilon=0)
