"""Attacks E on choices: a chosen value beside its number, and weights that no float could tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest
from attack.scene import Scene, scene, schema, write

import dp_sql


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("people"), "event") as opened:
        yield opened


BESIDE = [
    "SELECT city, COUNT(*) AS n FROM people GROUP BY city ORDER BY n DESC LIMIT 1",
    "SELECT MODE(age), COUNT(*) FROM people",
    "SELECT MODE(age), MEDIAN(age), COUNT(*), SUM(age), MAX(salary) FROM people",
    "SELECT TOP_K(age, 3), COUNT(DISTINCT age) FROM people",
]


@pytest.mark.parametrize("sql", BESIDE)
def test_e04_a_choice_and_the_numbers_beside_it_are_paid_together(sql: str, people: Scene) -> None:
    """The first has no choice at all: the largest of noisy counts is read from the counts."""
    cost = people.connection.sql(sql, epsilon="0.5").cost["people"]
    events = [part.epsilon for part in cost.parts]
    assert sum(events) == cost.epsilon <= Fraction(1, 2)
    several = sql.count("(") - ("GROUP BY" in sql)
    assert len(cost.events) >= min(several, 2) or "GROUP BY" in sql


@pytest.mark.parametrize("zeros", [1492, 40_000])
def test_e08_no_number_of_equal_rows_makes_a_choice_fail(zeros: int, tmp_path: Path) -> None:
    path = write(tmp_path, schema("event"))
    with duckdb.connect(str(tmp_path / "scene.duckdb")) as data:
        data.execute(f"INSERT INTO people (age, salary) SELECT 0, 0 FROM range({zeros})")
    calls = "MEDIAN(age), QUANTILE_CONT(salary, 0.99), MODE(age), MIN(age), MAX(salary)"
    with dp_sql.connect(path, ledger=":memory:") as connection:
        for epsilon in ("0.001", "10000"):
            (row,) = connection.sql(f"SELECT {calls} FROM people", epsilon=epsilon).fetchall()
            assert [type(v) for v in row] == [float, float, int, int, float]
            assert all(0 <= v <= 100_000 for v in row)
