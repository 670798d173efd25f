"""Attacks C on what one person's rows are: groups of other keys, sketches, tables said to be public."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from attack.scene import VISITS, bounded, scene, schema, write
from oracle.small_engine import Row

import dp_sql
from dp_sql.errors import NotPrivateError, SchemaError

WITHOUT_TWO = [row for row in VISITS if row[0] != 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scene")


def test_c46_a_sketch_is_the_same_private_count_by_another_name(folder: Path) -> None:
    with scene(folder, "event") as opened:
        costs = []
        for call in ("approx_count_distinct(name)", "COUNT(DISTINCT name)"):
            costs.append(opened.connection.sql(f"SELECT {call} FROM people", epsilon=1).cost)
            sent = " ".join(opened.connection._engine.statements(opened.ran[-1]))
            assert "approx" not in sent
        assert costs[0] == costs[1]


BY_UID = "SELECT uid AS {}, COUNT(*) AS c FROM visits GROUP BY uid"
TWICE = f"({BY_UID.format('b')} UNION ALL {BY_UID.format('b')})"
OWN = [
    # a person's one row meets two: both count
    (f"SELECT COUNT(*) FROM ({BY_UID.format('a')}) x JOIN {TWICE} y ON x.a = y.b", 2),
    # the outer group of each: the person's own rows, whatever else the key holds
    ("SELECT COUNT(*) FROM visits p WHERE (SELECT COUNT(*) FROM visits v WHERE v.uid = p.uid) > 5", 3),
    ("SELECT COUNT(*) FROM (SELECT uid, page, COUNT(*) AS c FROM visits GROUP BY uid, page)", 3),
    ("SELECT SUM(CLAMP(c, 0, 9)) FROM (SELECT uid, page, COUNT(*) AS c FROM visits GROUP BY ALL)", 9),
    ("SELECT SUM(t) FROM (SELECT uid, day, SUM(amount) AS t FROM visits GROUP BY uid, day)", None),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "delta"), OWN)
def test_c64_c74_groups_of_a_person_are_bounded_together(
    sql: str, delta: int | None, folder: Path
) -> None:
    found = bounded(folder, sql, "user")
    if delta is not None:
        assert found.delta == delta
    more: list[Row] = [(2, f"q{i}", 100.0, f"2024-01-{1 + i % 31:02}") for i in range(90)]
    assert 0 < found.moved(VISITS, WITHOUT_TWO) <= found.delta
    assert 0 < found.moved([*VISITS, *more], WITHOUT_TWO) <= found.delta


OTHERS = [
    "SELECT COUNT(*) FROM visits p WHERE (SELECT COUNT(*) FROM visits v WHERE v.page = p.page) > 5",
    "SELECT COUNT(*) FROM visits p WHERE (SELECT MAX(amount) FROM visits v WHERE v.day = p.day) > 5",
    "SELECT COUNT(*) FROM visits p WHERE p.amount > (SELECT v.amount FROM visits v WHERE v.page = p.page)",
]


@pytest.mark.parametrize("sql", OTHERS)
def test_c64_rows_of_others_decide_nothing(sql: str, folder: Path) -> None:
    with scene(folder, "user") as opened:
        opened.refuse(sql)


def test_c58_a_table_is_protected_unless_its_owner_says_that_it_is_public(tmp_path: Path) -> None:
    """There is no table that is neither: one that isn't public has to have a budget."""
    silent = schema("event").replace("cities: {public: true, ", "cities: {")
    with pytest.raises(SchemaError, match="budget"):
        dp_sql.connect(write(tmp_path, silent), ledger=":memory:")
    guarded = schema("event").replace(
        "cities: {public: true, ", "cities: {budget: {epsilon: 1, delta: 0.001}, "
    )
    with dp_sql.connect(write(tmp_path, guarded), ledger=":memory:") as connection:
        cost = connection.sql("SELECT COUNT(*) FROM cities", epsilon="0.5").cost
        assert cost["cities"].epsilon == Fraction(1, 2)
        with pytest.raises(NotPrivateError):
            connection.sql("SELECT * FROM cities", epsilon="0.5")
