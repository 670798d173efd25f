"""COUNT over DISTINCT rows of several persons: the oracle, at both levels, and every wrong turn it takes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
import test_oracle
from oracle.small_schema import small_catalog
from oracle.statements import Writer, pick

from dp_sql.errors import DPSQLError
from dp_sql.parser.statement import parse
from dp_sql.plan.rows import GroupRows, Rows
from dp_sql.sensitivity import locality

COLUMNS = {c: c for c in ("x", "n", "p", "f", "m", "z", "b", "s", "t", "d")}


def statement(r: Random, *, user: bool) -> str:
    """Return a count over distinct rows, as DISTINCT or GROUP BY, nested, as a CTE, or by a key."""
    assert user in (True, False)  # the rows are the same at both levels
    below = Writer(r, COLUMNS)
    first, second = r.sample(("t", "n", "b", "s", "p"), 2)
    where = f" WHERE {below.condition(1)}" if r.random() < 0.4 else ""
    rows = pick(r, (
        f"SELECT DISTINCT {first} AS n, {second} AS s FROM visits{where}",
        f"SELECT {first} AS n, {second} AS s FROM visits{where} GROUP BY ALL",
        f"SELECT DISTINCT n, s, 1 FROM (SELECT DISTINCT {first} AS n, {second} AS s, d FROM visits{where})",
    ))  # fmt: skip
    call = pick(r, ("COUNT(*)", "COUNT(n)", "COUNT(*) FILTER (WHERE s IS NOT NULL)"))
    key = pick(r, ("", "", "n", "s"))
    items, group = (f"{key}, {call}", f" GROUP BY {key}") if key else (call, "")
    if r.random() < 0.3:
        return f"WITH q AS ({rows}) SELECT {items} FROM q{group}"
    return f"SELECT {items} FROM ({rows}) AS q{group}"


def test_no_neighbour_moves_a_count_of_distinct_rows_further_than_derived() -> None:
    test_oracle.COUNTS.clear()
    for index in range(30):
        test_oracle.examine(Random(f"distinct-{index}"), write=statement)
    assert test_oracle.COUNTS["distincts"] >= 60
    assert test_oracle.COUNTS["vouched"] >= 8


REFUSED = (
    "SELECT SUM(x) FROM (SELECT DISTINCT x FROM visits)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT t FROM visits) d JOIN regions g ON g.t = d.t",
    "SELECT COUNT(*) FROM (SELECT s FROM (SELECT DISTINCT s, t FROM visits))",
    "SELECT COUNT(*) FROM (SELECT DISTINCT t FROM visits UNION ALL SELECT t FROM regions)",
    "SELECT COUNT(*) FROM regions g WHERE g.t IN (SELECT q.t FROM (SELECT DISTINCT t FROM visits) q)",
    "SELECT COUNT(*) FROM visits v WHERE x > (SELECT 1 FROM (SELECT DISTINCT t FROM visits) WHERE t = v.t)",
    "WITH q AS (SELECT DISTINCT t FROM visits) SELECT COUNT(*) FROM q, LATERAL (SELECT t AS u) AS l",
    "SELECT COUNT(*) FROM (SELECT t, row_number() OVER (ORDER BY t) FROM (SELECT DISTINCT t FROM visits))",
)


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_no_count_of_them_is_refused(sql: str) -> None:
    with pytest.raises(DPSQLError) as caught:
        parse(sql, small_catalog())
    assert "over the rows of several persons" in caught.value.message


@pytest.mark.parametrize("index", range(6))
def test_no_group_of_several_persons_is_in_a_plan(index: int) -> None:
    release = parse(statement(Random(f"shape-{index}"), user=True), small_catalog()).releases[0]
    groups: list[Rows] = []

    def walk(rows: Rows, found: Callable[[Rows], None]) -> None:
        found(rows)
        for name in ("source", "left", "right"):
            inner = getattr(rows, name, None)
            if inner is not None:
                walk(inner, found)

    walk(release.source, groups.append)
    assert not any(isinstance(rows, GroupRows) for rows in groups)
    locality.require_local(release.source, small_catalog().unit.level)
