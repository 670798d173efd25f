"""Attacks A: statements whose true sensitivity is larger than a careless engine thinks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest
from attack.scene import PEOPLE, VISITS, bounded, person, scene, schema, write
from oracle.small_engine import Row

import dp_sql
from dp_sql.errors import NotPrivateError, QueryError, SchemaError, UnsupportedSQLError
from dp_sql.plan.relation import MomentMeasure

WITHOUT_BOB = [row for row in PEOPLE if row[1] != "bob"]
WITHOUT_TWO = [row for row in VISITS if row[0] != 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the scene: the database is written once, the schema for each case."""
    return tmp_path_factory.mktemp("scene")


@dataclass(frozen=True)
class Attack:
    number: str
    sql: str
    delta: int | Fraction  # what the analysis has to say, in the argument's unit
    level: str = "event"
    extra: tuple[Row, ...] = ()  # rows that D has and D' lacks, beside bob or unit 2
    adjacency: str = "add_remove"


RICH = person(uid=9, salary=1e9, age=9999)
BOUNDED = [
    Attack("A01", "SELECT SUM(CLAMP(age, 0, 90) - 80) FROM people", 80, extra=(person(age=0),)),
    Attack("A02", "SELECT SUM(CLAMP(age, 50, 60)) FROM people", 60),
    Attack("A04", "SELECT SUM(salary) FROM people", 100_000, extra=(RICH,)),
    Attack("A07", "SELECT SUM(CASE WHEN name = 'bob' THEN 1e12 ELSE 0 END) FROM people", 10**12),
    Attack("A08", "SELECT SUM(age + salary) FROM people", 100_120, extra=(RICH,)),
    Attack("A10", "SELECT SUM(age - salary) FROM people", 100_000, extra=(RICH,)),
    Attack("A10", "SELECT SUM(-salary) FROM people", 100_000, extra=(RICH,)),
    Attack("A11", "SELECT SUM(CLAMP(1 / (age - 51), -2, 2)) FROM people", 2),
    Attack("A13", "SELECT SUM(CLAMP(LENGTH(name), 0, 2)) FROM people", 2),
    Attack("A14", "SELECT SUM(CLAMP(TRY_CAST(age::VARCHAR || '000000' AS DOUBLE), 0, 7)) FROM people", 7),
    Attack("A16", "SELECT SUM(LEAST(GREATEST(age, 100), 10)) FROM people", 10),
    Attack("A19", "SELECT SUM(salary) FROM people", 100_000, extra=(person(salary=float("inf")),)),
    Attack("A20", "SELECT SUM(CLAMP(age * age * 2147483647, 0, 9)) FROM people", 9,
           extra=(person(age=2147483647),)),
    Attack("A28", "SELECT COUNT(DISTINCT uid) FROM visits", 1, "user"),
    Attack("A31", "SELECT COUNT(*), COUNT(*), COUNT(*) FROM people", 1),
    Attack("A32", "SELECT SUM(amount) FROM visits", 300, "user"),
    Attack("A32", "SELECT COUNT(*) FROM visits", 3, "user"),
    Attack("A34", "SELECT page, COUNT(*) FROM visits GROUP BY page", 6, "user"),
    Attack("A34", "SELECT day, SUM(amount) FROM visits GROUP BY day", 600, "user"),
    Attack("A37", "SELECT city, COUNT(*) FROM people GROUP BY city", 2, adjacency="substitution"),
    Attack("A37", "SELECT SUM(age) FROM people WHERE salary > 0", 120, adjacency="substitution"),
    Attack("A37", "SELECT page, COUNT(*) FROM visits GROUP BY page", 12, "user", adjacency="substitution"),
    Attack("A40", "SELECT SUM(CASE WHEN age > 50 THEN 5 ELSE 5 END) FROM people", 5),
    Attack("A40", "SELECT SUM(CLAMP(age, 5, 5)) FROM people", 5),
    Attack("A46", "SELECT COUNT(*) FROM people WHERE age >= 0", 1, adjacency="substitution"),
]  # fmt: skip


@pytest.mark.parametrize("case", BOUNDED, ids=lambda c: f"{c.number}: {c.sql}")
def test_a_change_is_bounded_and_enforced(case: Attack, folder: Path) -> None:
    found = bounded(folder, case.sql, case.level, adjacency=case.adjacency)
    assert abs(found.delta - case.delta) <= case.delta / Fraction(
        10_000
    )  # a float's grid is coarse
    base, short = (PEOPLE, WITHOUT_BOB) if case.level == "event" else (VISITS, WITHOUT_TWO)
    if case.adjacency == "substitution":
        longer = [*short, *(VISITS[:1] if case.level == "user" else [WITHOUT_BOB[0]])]
        pairs = [(base, longer)]
    else:
        pairs = [(base, short), *(([*base, row], base) for row in case.extra)]
    for before, after in pairs:
        assert found.moved(before, after) <= found.delta


REFUSED = [
    ("A05", "SELECT SUM(uid) FROM people", NotPrivateError),
    ("A05", "SELECT AVG(LENGTH(note)) FROM people", NotPrivateError),
    ("A11", "SELECT SUM(salary / age) FROM people", NotPrivateError),
    ("A11", "SELECT SUM(1 / (age - 51)) FROM people", NotPrivateError),
    ("A13", "SELECT SUM(hash(name)) FROM people", UnsupportedSQLError),
    ("A13", "SELECT SUM(gamma(age)) FROM people", NotPrivateError),
    ("A13", "SELECT SUM(epoch(joined)) FROM people", QueryError),
    (
        "A14",
        "SELECT SUM(TRY_CAST(age::VARCHAR || '000000' AS DOUBLE)) FROM people",
        NotPrivateError,
    ),
    ("A16", "SELECT SUM(CLAMP(age, 100, 10)) FROM people", QueryError),
    ("A20", "SELECT sum_no_overflow(age) FROM people", UnsupportedSQLError),
    ("A29", "SELECT SUM(DISTINCT age) FROM people", UnsupportedSQLError),
    ("A29", "SELECT COUNT(DISTINCT uid || random()) FROM people", UnsupportedSQLError),
]


@pytest.mark.parametrize(("number", "sql", "expected"), REFUSED)
def test_what_nothing_bounds_is_refused(
    number: str, sql: str, expected: type[QueryError], folder: Path
) -> None:
    assert number
    with scene(folder, "event") as opened:
        opened.refuse(sql, expected)


def test_a17_null_is_in_neither_sum_nor_count_of_a_mean(folder: Path) -> None:
    found = bounded(folder, "SELECT AVG(CLAMP(salary, 10, 100)) FROM people", "event")
    nobody = person(uid=7)
    assert found.moved([*PEOPLE, nobody], PEOPLE) == 0


def test_a22_the_order_of_rows_changes_nothing(folder: Path) -> None:
    found = bounded(folder, "SELECT SUM(CLAMP(salary, -1e16, 1e16)) FROM people", "event")
    rows = [person(salary=v) for v in (1e16, 1.0, -1e16, 0.1, 1e15)]
    assert found.moved(rows, rows[::-1]) == 0


def test_a23_a_mean_is_noisy_sums_never_a_native_mean(folder: Path) -> None:
    for aggregate in ("AVG", "VAR_SAMP", "STDDEV"):
        found = bounded(folder, f"SELECT {aggregate}(age) FROM people", "event")
        assert isinstance(found.plan.vectors[0].measure, MomentMeasure)
        with scene(folder, "event") as opened:
            opened.connection.sql(f"SELECT {aggregate}(age) FROM people", epsilon=1)
            (plan,) = opened.ran
            sent = " ".join(opened.connection._engine.statements(plan)).lower()
            assert not any(f"{name}(" in sent for name in ("var_samp", "stddev", "variance"))
            assert sent.count("avg(") == sent.count(") export_state as struct")  # an exact sum


def test_a25_a26_a_mean_over_few_or_none_has_the_same_noise_and_is_a_number(folder: Path) -> None:
    with scene(folder, "event") as opened:
        for city in ("bonn", "oslo"):
            sql = f"SELECT AVG(salary) AS a, STDDEV(age) AS s FROM people WHERE city = '{city}'"
            result = opened.connection.sql(sql, epsilon="0.01")
            ((mean, spread),) = result.fetchall()
            assert 0 <= mean <= 100_000
            assert 0 <= spread <= 120
    costs = [
        bounded(folder, f"SELECT AVG(age) FROM people WHERE uid = {n}", "event") for n in (1, 8)
    ]
    assert costs[0].facts.vectors == costs[1].facts.vectors


def test_a31_many_aggregates_cost_what_was_asked_for(folder: Path) -> None:
    sql = "SELECT COUNT(*), SUM(age), AVG(salary), VAR_POP(age), COUNT(note), SUM(age * 2) FROM people"
    with scene(folder, "event") as opened:
        cost = opened.connection.sql(sql, epsilon="0.5").cost["people"]
        assert 0 < cost.epsilon <= Fraction(1, 2)


def test_a35_laplace_noise_uses_l1_and_gaussian_noise_l2(folder: Path) -> None:
    """Two groups of at most three rows: L1 is 6, the square of L2 is 18."""
    found = bounded(folder, "SELECT day, COUNT(*) FROM visits GROUP BY day", "user")
    change = found.facts.vectors[0].change
    assert (change.l1, change.l2_squared) == (6, 18)


def test_a35_group_size_multiplies(folder: Path) -> None:
    found = bounded(folder, "SELECT SUM(amount) FROM visits", "user", group_size=3)
    assert found.delta == 900


@pytest.mark.parametrize(
    "bounds", ["[120, 0]", "[.nan, 1]", "[0, .inf]", "[0, x]", "[1]", "[-.inf, 0]"]
)
def test_a16_a40_bounds_that_bound_nothing_are_refused(bounds: str, folder: Path) -> None:
    text = schema("event").replace("bounds: [0, 100000]", f"bounds: {bounds}")
    with pytest.raises(SchemaError):
        dp_sql.connect(write(folder, text), ledger=":memory:")


def test_a46_the_number_of_rows_is_exact_only_where_it_is_public(folder: Path) -> None:
    sql = "SELECT COUNT(*) FROM people"
    assert bounded(folder, sql, "event").delta == 1
    assert bounded(folder, sql, "event", adjacency="substitution").delta == 0
    user = bounded(folder, "SELECT COUNT(*) FROM visits", "user", adjacency="substitution")
    assert user.delta > 0
