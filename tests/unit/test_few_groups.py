"""Which groups of a unit stay, also where hashes tie, and which keys a second round leaves out."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import isqrt
from random import Random
from typing import TYPE_CHECKING

import duckdb
import pytest
from test_joined import planned

from dp_sql.executor import lower_relation
from dp_sql.plan.relation import BoundGroups, BoundRows
from dp_sql.planner.selection import WEIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator

SQL = "SELECT category, COUNT(*) FROM visits GROUP BY category"
UNITS, LETTERS = 50, [None, *"abcdefghijkl"]


@pytest.fixture
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute("CREATE SCHEMA data")
        con.execute("CREATE SCHEMA stage")
        con.execute("CREATE TABLE data.visits (user_id BIGINT, category VARCHAR)")
        random = Random(5)
        rows = [
            (unit, letter)
            for unit in range(UNITS)
            for letter in random.choices(LETTERS, k=random.choice([1, 2, 3, 6, 40]))
        ]
        con.executemany("INSERT INTO data.visits VALUES (?, ?)", rows)
        yield con


def bound() -> BoundGroups:
    relation = planned(SQL).relation
    assert isinstance(relation, BoundRows)
    assert isinstance(relation.source, BoundGroups)
    return relation.source


def by_unit(pairs: list[tuple[int, str | None]]) -> dict[int, set[str | None]]:
    found: dict[int, set[str | None]] = defaultdict(set)
    for unit, letter in pairs:
        found[unit].add(letter)
    return found


@pytest.mark.parametrize("hashes", [1, 2, 5, 2**63])
def test_of_each_unit_those_stay_that_are_below_the_first_hash_that_has_no_room(
    hashes: int, duck: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few different hashes most units have groups that tie. The reference is Python's."""
    whole = lower_relation._hash
    monkeypatch.setattr(
        lower_relation, "_hash", lambda *parts: f"CAST({whole(*parts)} % {hashes} AS UBIGINT)"
    )
    groups = bound()
    key = lower_relation.name(lower_relation.measured_rows(groups).keys[0])
    text = whole(groups, [key]).replace(key, "category").replace("u,", "user_id,")
    hashed: dict[int, dict[str | None, int]] = defaultdict(dict)
    for unit, letter, found in duck.sql(
        f"SELECT DISTINCT user_id, category, {text} % {hashes} FROM data.visits"
    ).fetchall():
        hashed[unit][letter] = found
    expected = {}
    for unit, letters in hashed.items():
        least = sorted(letters.values())[groups.max_groups :]
        expected[unit] = {k for k, h in letters.items() if not least or h < least[0]}
        assert len(expected[unit]) <= groups.max_groups
    first = f"SELECT u, {key} FROM {lower_relation._few(groups)}"
    for order in ("user_id", "category DESC", "hash(user_id, category)"):
        duck.execute(f"CREATE OR REPLACE TABLE data.visits AS FROM data.visits ORDER BY {order}")
        found = by_unit(duck.sql(first).fetchall())
        assert {unit: found[unit] for unit in expected} == expected
    full = sum(len(found[unit]) == groups.max_groups for unit in expected)
    assert full > UNITS / 2 if hashes > 5 else full < UNITS


@pytest.mark.parametrize("shown", [[], ["a"], [None], [None, *"abcdefgh"], LETTERS])
def test_the_second_round_weighs_the_groups_that_are_left(
    shown: list[str | None], duck: duckdb.DuckDBPyConnection
) -> None:
    """A unit spreads its weight over those of its groups that the first round didn't show."""
    plan = planned(SQL)
    duck.execute("CREATE TABLE stage.r0_shown (v0 VARCHAR)")
    for letter in shown:
        duck.execute("INSERT INTO stage.r0_shown VALUES (?)", [letter])
    most = bound().max_groups
    pairs = duck.sql("SELECT DISTINCT user_id, category FROM data.visits").fetchall()
    left = {unit: letters - {*shown} for unit, letters in by_unit(pairs).items()}
    weights = dict(duck.sql(lower_relation.second_sql(plan)).fetchall())
    assert weights.keys() == {letter for letters in left.values() for letter in letters}
    parts = Counter(min(most, len(letters)) for letters in left.values() if letters)
    whole = sum(m * isqrt(WEIGHT**2 // m) * units for m, units in parts.items())
    assert sum(weights.values()) == whole


def test_keys_are_left_out_before_rows_are_grouped() -> None:
    text = lower_relation.second_sql(planned(SQL))
    assert text.index("ANTI JOIN") < text.index("GROUP BY")
