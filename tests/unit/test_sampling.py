"""Statements over a Poisson sample: who is in it, what it costs, and what isn't answered."""

from __future__ import annotations

import hashlib
import math
import re
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.budget.accountant import filter_of, order_of, price
from dp_sql.errors import BudgetExceededError, ParameterError, QueryError, UnsupportedSQLError
from dp_sql.privacy.event import (
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SampledEvent,
    pure_epsilon,
)
from dp_sql.privacy.renyi import rdp

SCHEMA = """
version: 1
database: duckdb:///rows.duckdb
privacy: {level: user, adjacency: add_remove, unit: person, caps: {epsilon: 1e12}}
tables:
  visits:
    owner: uid
    budget: {epsilon: 1e9, delta: 0.1, accountant: renyi}
    limits: {max_groups: 3, max_rows_per_group: 4}
    columns:
      uid: {type: bigint}
      g: {type: integer, values: [0, 1, 2], nullable: false}
      x: {type: integer, bounds: [0, 10]}
      free: {type: varchar}
  regions:
    public: true
    columns:
      g: {type: integer}
      name: {type: varchar, values: [a, b, c]}
"""
UNITS = 3000


def opened(folder: Path, *changes: tuple[str, str]) -> dp_sql.Connection:
    """Return a connection to rows of 3,000 persons, three each: one a group."""
    text = SCHEMA
    for old, new in changes:
        text = re.sub(old, new, text)
    (folder / "schema.yaml").write_text(text)
    file = folder / "rows.duckdb"
    if not file.exists():
        with duckdb.connect(str(file)) as con:
            con.execute(
                "CREATE TABLE visits AS SELECT CAST(u AS BIGINT) AS uid, CAST(g AS INTEGER) AS g, "
                f"CAST((u + g) % 11 AS INTEGER) AS x, 'x' AS free FROM range({UNITS}) AS a(u), "
                "range(3) AS b(g)"
            )
            con.execute(
                "CREATE TABLE regions AS SELECT CAST(g AS INTEGER) AS g, 'a' AS name FROM range(3) AS b(g)"
            )
    return dp_sql.connect(folder / "schema.yaml", ledger=":memory:", reuse=False)


EVENT = (
    ("level: user", "level: event"),
    ("unit: person, ", ""),
    ("    owner: uid\n", ""),
    ("    limits.*\n", ""),
)
COUNTED = "SELECT g, COUNT(*) AS n FROM visits GROUP BY g ORDER BY g"


def test_persons_are_in_a_sample_with_all_their_rows_and_each_sample_is_fresh(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as connection:
        seen = set()
        for _ in range(5):
            rows = connection.sql(COUNTED, epsilon=10**8, sample_rate=0.3).fetchall()
            (count,) = {n for _, n in rows}
            assert abs(count - 0.3 * UNITS) < 6 * math.sqrt(0.21 * UNITS)
            seen.add(count)
        assert len(seen) > 1


def test_at_event_level_each_row_has_its_own_coin(tmp_path: Path) -> None:
    with opened(tmp_path, *EVENT) as connection:
        seen = set()
        for _ in range(4):
            rows = connection.sql(COUNTED, epsilon=10**8, sample_rate="0.3").fetchall()
            for _, count in rows:
                assert abs(count - 0.3 * UNITS) < 6 * math.sqrt(0.21 * UNITS)
                seen.add(count)
        assert len(seen) > 3


def test_the_coin_of_a_person_is_a_keyed_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dp_sql.planner.sampling.secrets.token_hex", lambda size: "7f" * size)
    key, most = "7f" * 32, int(Fraction(1, 10) * 2**256)
    inside = [
        u for u in range(UNITS) if int(hashlib.sha256(f"{key}{u}".encode()).hexdigest(), 16) < most
    ]
    with opened(tmp_path) as connection:
        ((n, total),) = connection.sql(
            "SELECT COUNT(*), SUM(x) FROM visits", epsilon=10**8, sample_rate="0.1"
        ).fetchall()
    assert n == 3 * len(inside)
    assert total == sum((u + g) % 11 for u in inside for g in range(3))


VECTOR = "SELECT VECTOR_SUM([x, 1, x * x], 5) AS v FROM visits"


def test_a_sample_costs_what_is_asked_and_has_less_noise_than_its_share(tmp_path: Path) -> None:
    with opened(tmp_path) as connection:
        cost = connection.sql(VECTOR, epsilon=1, delta="1e-6", sample_rate="0.01").cost["visits"]
        assert (cost.epsilon, cost.delta) == (1, Fraction(1, 10**6))
        (event,) = cost.events
        assert isinstance(event, SampledEvent)
        assert event.rate == Fraction(1, 100)
        whole = connection.sql(VECTOR, epsilon=1, delta="1e-6").cost["visits"]
        spec = connection.catalog.tables["visits"].budget
        assert spec is not None
        rule = filter_of(spec, order_of(spec))
        assert 0 < price(rule, cost).rdp < price(rule, whole).rdp  # type: ignore[operator]
        error = re.search(r"± ([\d.]+)", connection.explain(VECTOR, epsilon=1, delta="1e-6"))
        less = re.search(
            r"± ([\d.]+)", connection.explain(VECTOR, epsilon=1, delta="1e-6", sample_rate="0.01")
        )
        assert error is not None
        assert less is not None
        assert float(less[1]) < 0.5 * float(error[1])


def test_all_vectors_of_a_release_are_one_event_on_one_sample(tmp_path: Path) -> None:
    with opened(tmp_path) as connection:
        sql = "SELECT AVG(x), VECTOR_SUM([x, 1, x * x], 5) FROM visits"
        cost = connection.sql(sql, epsilon=1, delta="1e-6", sample_rate="0.1").cost["visits"]
        (event,) = cost.events
        assert isinstance(event, SampledEvent)
        assert len(event.noises) == 2
        two = connection.sql(
            "SELECT (SELECT AVG(x) FROM visits), (SELECT COUNT(*) FROM visits WHERE x > 2)",
            epsilon=1,
            delta="1e-6",
            sample_rate="0.1",
        )
        assert len(two.cost["visits"].events) == 2  # each release has a sample of its own


@pytest.mark.parametrize(
    ("budget", "epsilon", "rate", "kind"),
    [
        ("epsilon: 1, delta: 1e-6, accountant: renyi", "0.1", "0.01", GaussianEvent),
        ("epsilon: 1, delta: 1e-6, accountant: renyi", "0.5", "0.01", LaplaceEvent),
        ("epsilon: 1, delta: 1e-6, accountant: renyi", "0.1", "0.001", LaplaceEvent),
        ("epsilon: 10, delta: 1e-6, accountant: renyi", "0.5", "0.01", GaussianEvent),
        ("epsilon: 10, delta: 1e-6, accountant: sequential", "0.5", "0.01", LaplaceEvent),
    ],
)
def test_the_noise_on_a_sample_is_what_costs_the_accountant_least_for_its_size(
    tmp_path: Path, budget: str, epsilon: str, rate: str, kind: type
) -> None:
    """Without `cheaper` the second statement would cost seven times the table's whole budget."""
    with opened(tmp_path, ("epsilon: 1e9, delta: 0.1, accountant: renyi", budget)) as connection:
        sql = "SELECT COUNT(DISTINCT uid) FROM visits"
        result = connection.sql(sql, epsilon=epsilon, delta="1e-8", sample_rate=rate)
        (event,) = result.cost["visits"].events
    assert isinstance(event, SampledEvent)
    assert [type(noise) for noise in event.noises] == [kind]


def test_without_delta_noise_is_laplace_and_pure_privacy_is_amplified(tmp_path: Path) -> None:
    with opened(tmp_path, ("accountant: renyi", "accountant: pure")) as connection:
        result = connection.sql(COUNTED, epsilon=1, sample_rate="0.01")
        (event,) = result.cost["visits"].events
        loss = pure_epsilon(event)
        assert loss is not None
        assert Fraction(99, 100) < loss <= 1  # the scale is whole
        assert rdp(event, 3) < rdp(PureEvent(loss), 3) / 5
        assert result.cost["visits"].delta == 0
        text = connection.explain(COUNTED, epsilon=1, sample_rate="0.01")
    # 3 groups of 4 rows, at ln(1 + 100 (e - 1)) on the sample
    scale = 12 / math.log1p(100 * math.expm1(1))
    assert float(re.search(r"Laplace of scale ([\d.]+)", text)[1]) == pytest.approx(scale, rel=1e-2)  # type: ignore[index]


def test_where_gaussian_noise_is_out_of_range_it_is_laplace(tmp_path: Path) -> None:
    with opened(tmp_path) as connection:
        cost = connection.sql(COUNTED, epsilon=10**6, delta="1e-6", sample_rate="0.1").cost[
            "visits"
        ]
        assert Fraction(9, 10) < (pure_epsilon(cost.events[0]) or 0) / 10**6 <= 1


def test_the_budget_refuses_a_step_too_many_and_says_what_is_left(tmp_path: Path) -> None:
    with opened(tmp_path, ("epsilon: 1e9, delta: 0.1", "epsilon: 1, delta: 1e-5")) as connection:
        steps = []

        def train() -> None:
            while True:
                connection.sql(VECTOR, epsilon="0.3", delta="1e-6", sample_rate="0.5")
                steps.append(1)

        with pytest.raises(BudgetExceededError, match="by the Rényi rule"):
            train()
    assert 1 < len(steps) < 50


def test_the_answer_and_explain_say_that_it_is_a_sample(tmp_path: Path) -> None:
    with opened(tmp_path) as connection:
        said = "a sample that holds each unit with probability 0.25"
        assert any(said in n for n in connection.sql(COUNTED, epsilon=1, sample_rate=0.25).notes)
        text = connection.explain(COUNTED, epsilon=1, sample_rate=0.25)
        assert said in text
        assert "of a sample of units at rate 0.25" in text
        rows = connection.sql(f"EXPLAIN {COUNTED}", epsilon=1, sample_rate=0.25).fetchall()
        assert any(said in line for (line,) in rows)


def test_the_privacy_clause_asks_for_a_sample_too(tmp_path: Path) -> None:
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1e8, sample_rate = 0.5) COUNT(*) FROM visits"
    with opened(tmp_path) as connection:
        ((n,),) = connection.sql(sql).fetchall()
        assert abs(n - 1.5 * UNITS) < 6 * 3 * math.sqrt(0.25 * UNITS)
        ((n,),) = connection.sql(sql, sample_rate="0.01").fetchall()  # the call wins
        assert n < 0.2 * UNITS


@pytest.mark.parametrize(
    ("sql", "changes", "words"),
    [
        ("SELECT MEDIAN(x) FROM visits", (), "quantiles"),
        ("SELECT COUNT(DISTINCT x) FROM visits", (), "COUNT"),
        (
            "SELECT COUNT(*), SAMPLE_AND_AGGREGATE('sum', x, 0, 100, 10) FROM visits",
            (),
            "SAMPLE_AND_AGGREGATE",
        ),
        ("SELECT free, COUNT(*) FROM visits GROUP BY free", (), "private keys"),
        ("SELECT g, COUNT(*) FROM visits GROUP BY ROLLUP (g)", (), "several sets"),
        ("SELECT name FROM regions", (), "public data only"),
        (
            "SELECT COUNT(*) FROM visits",
            (("add_remove", "substitution"),),
            "one unit that is there",
        ),
        ("SELECT COUNT(*) FROM visits", (("add_remove", "zero_out"),), "one unit that is there"),
        (
            "SELECT COUNT(*) FROM visits",
            (("unit: person", "unit: person, group_size: 2"),),
            "one unit that is there",
        ),
        (
            "SELECT SUM(x) FROM (SELECT x FROM visits UNION ALL SELECT x FROM visits)",
            EVENT,
            "repeats",
        ),
    ],
)
def test_refused(
    tmp_path: Path, sql: str, changes: tuple[tuple[str, str], ...], words: str
) -> None:
    with opened(tmp_path, *changes) as connection:
        before = connection.budget()
        with pytest.raises(UnsupportedSQLError, match=words) as caught:
            connection.sql(sql, epsilon=1, delta="1e-6", sample_rate="0.1")
        assert connection.budget() == before
        assert caught.value.hint
        assert caught.value.example is not None
        assert connection.sql(caught.value.example, epsilon=1, delta="1e-6").fetchall()


def test_an_example_of_a_refusal_is_answered_over_a_sample(tmp_path: Path) -> None:
    with opened(tmp_path) as connection:
        with pytest.raises(UnsupportedSQLError) as caught:
            connection.sql("SELECT COUNT(*) FROM visits TABLESAMPLE 10%", epsilon=1)
        assert "sample_rate=0.1" in (caught.value.hint or "")
        clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sample_rate = 0.1)"
        assert connection.sql(f"{clause} COUNT(*) FROM visits", epsilon=1).fetchall()


@pytest.mark.parametrize(
    "more",
    [
        {"sample_rate": 0},
        {"sample_rate": 1},
        {"sample_rate": "a tenth"},
        {"sample_rate": "0.1", "delta": "0.2"},
        {"sample_rate": "0.1", "within": 100, "epsilon": None},
    ],
)
def test_a_rate_that_is_none(tmp_path: Path, more: dict[str, object]) -> None:
    with opened(tmp_path) as connection, pytest.raises(ParameterError):
        connection.sql("SELECT COUNT(*) FROM visits", **{"epsilon": 1, **more})  # type: ignore[arg-type]


def test_a_clause_with_a_rate_that_is_none_has_a_caret(tmp_path: Path) -> None:
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sample_rate = 2) COUNT(*) FROM visits"
    with opened(tmp_path) as connection, pytest.raises(QueryError) as caught:
        connection.sql(sql, epsilon=1)
    assert "^" in str(caught.value)
