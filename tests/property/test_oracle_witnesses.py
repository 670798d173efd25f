"""Witnesses: for each rule a pair of neighbours that moves the answer as far as the rule says.

The numbers in the table are computed by hand from SENSITIVITY.md, section 4; a rule that is looser
or tighter fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import pytest
from oracle.small_engine import Row, SmallEngine, Totals
from oracle.small_schema import INF, NAN, POOLS, PUBLIC, small_catalog

from dp_sql.parser.statement import parse
from dp_sql.plan.facts import Facts
from dp_sql.plan.release import PlannedRelease
from dp_sql.planner.plan import plan_release
from dp_sql.privacy.unit import Adjacency, Level
from dp_sql.schema.catalog import Catalog
from dp_sql.sensitivity.contribution import derive

ADD, SWAP = Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION
USER, EVENT = Level.USER, Level.EVENT


def r(uid: int | None = 1, times: int = 1, **values: object) -> list[Row]:
    """Return a row of visits, so many times; what isn't named is NULL."""
    assert not set(values) - set(POOLS)
    return [(uid, *(values.get(column) for column in POOLS))] * times


@dataclass(frozen=True)
class Witness:
    """A statement, neighbours that reach the rule, and what the rule has to say: L1 and L2 squared."""

    sql: str
    pairs: list[tuple[list[Row], list[Row]]]
    l1: int
    l2_squared: int
    level: Level = USER
    adjacency: Adjacency = ADD
    groups: int = 1
    rows: int = 1
    group_size: int = 1


BIT = 2**15  # low bits that a moment vector of three cells carries through the division
PAIR = 576 << 23  # the same of 3 and 8 cells, squared: 2^32 at least

WITNESSES = [
    # event level: one row comes or goes
    Witness("SELECT COUNT(*) FROM visits", [(r(), [])], 1, 1, EVENT),
    Witness("SELECT COUNT(x) FROM visits WHERE x > 0", [(r(x=1), [])], 1, 1, EVENT),
    Witness("SELECT SUM(x) FROM visits", [(r(x=99), [])], 5, 25, EVENT),
    Witness("SELECT SUM(-x) FROM visits", [(r(x=99), [])], 5, 25, EVENT),
    Witness("SELECT SUM(p) FROM visits", [(r(p=127), [])], 4, 16, EVENT),
    Witness("SELECT SUM(m) FROM visits", [(r(m=Decimal("99.5")), [])], 250, 62500, EVENT),
    Witness("SELECT SUM(x * p) FROM visits", [(r(x=5, p=4), [])], 20, 400, EVENT),
    Witness("SELECT SUM(x - p) FROM visits", [(r(x=-3, p=4), [])], 7, 49, EVENT),
    Witness("SELECT SUM(CLAMP(z, -9, 4)) FROM visits", [(r(z=-(2**63)), [])], 9, 81, EVENT),
    Witness(
        "SELECT SUM(CASE WHEN t = 'k' THEN 1000 ELSE 0 END) FROM visits",
        [(r(t="k"), [])], 1000, 10**6, EVENT,
    ),
    Witness(
        "SELECT SUM(CASE WHEN x > 1 THEN 5 ELSE 5 END) FROM visits", [(r(x=2), [])], 5, 25, EVENT
    ),
    Witness("SELECT s, COUNT(*) FROM visits GROUP BY s", [(r(s="a"), [])], 1, 1, EVENT),
    Witness("SELECT t, COUNT(*) FROM visits GROUP BY t", [(r(t="k"), [])], 1, 1, EVENT),
    Witness(
        "SELECT g.area, SUM(g.pop) FROM visits v JOIN regions g ON v.t = g.t GROUP BY 1",
        [(r(t="k1"), [])], 6, 36, EVENT,
    ),
    Witness("SELECT AVG(n) FROM visits", [(r(n=3), [])], 3, 9, EVENT),
    Witness("SELECT VAR_POP(n), COUNT(*) FROM visits", [(r(n=9), [])], 9, 81, EVENT),
    Witness("SELECT COVAR_POP(n, x) FROM visits", [(r(n=9, x=-9), [])], 24, 576, EVENT),
    Witness("SELECT COVAR_POP(n, x), COUNT(*) FROM visits", [(r(n=3), [])], 24, 576, EVENT),
    Witness("SELECT CORR(x, n) FROM visits", [(r(n=9, x=9), [])], 576, 576**2, EVENT),
    Witness("SELECT REGR_SLOPE(x, n), COUNT(*) FROM visits", [(r(x=9), [])], 72, 72**2, EVENT),
    Witness("SELECT REGR_COUNT(x, z) FROM visits", [(r(x=9, z=2**62), [])], 1, 1, EVENT),
    # event level: one row is replaced
    Witness("SELECT CORR(x, n) FROM visits", [(r(n=0, x=9), r(n=9, x=9))], 1152, 2 * 576**2, EVENT, SWAP),
    Witness("SELECT COUNT(*) FROM visits", [(r(x=1), r(x=2))], 0, 0, EVENT, SWAP),
    Witness("SELECT COUNT(*) FROM visits WHERE x > 1", [(r(x=1), r(x=2))], 1, 1, EVENT, SWAP),
    Witness("SELECT COUNT(x) FROM visits", [(r(), r(x=2))], 1, 1, EVENT, SWAP),
    Witness("SELECT SUM(x) FROM visits", [(r(x=-3), r(x=5))], 8, 64, EVENT, SWAP),
    Witness("SELECT SUM(p) FROM visits", [(r(), r(p=4))], 4, 16, EVENT, SWAP),
    Witness("SELECT s, COUNT(*) FROM visits GROUP BY s", [(r(s="a"), r(s="b"))], 2, 2, EVENT, SWAP),
    Witness("SELECT t, COUNT(*) FROM visits GROUP BY t", [(r(t="k"), r(t="l"))], 2, 2, EVENT, SWAP),
    Witness(  # apart costs more in L1, in one group costs more in L2
        "SELECT s, SUM(x) FROM visits GROUP BY s",
        [(r(s="a", x=5), r(s="b", x=5)), (r(s="a", x=-3), r(s="a", x=5))], 10, 64, EVENT, SWAP,
    ),
    Witness("SELECT AVG(n) FROM visits", [(r(n=0), r(n=3))], 6, 18, EVENT, SWAP),
    # user level: all rows of a person come or go
    Witness("SELECT COUNT(*) FROM visits", [(r(1, 9), [])], 3, 9, rows=3),
    Witness("SELECT COUNT(DISTINCT uid) FROM visits", [(r(1, 9), [])], 1, 1, rows=3),
    Witness("SELECT SUM(x) FROM visits", [(r(1, 9, x=5), [])], 15, 225, rows=3),
    Witness("SELECT SUM(CLAMP(x, -3, 2)) FROM visits", [(r(1, 9, x=-3), [])], 9, 81, rows=3),
    Witness("SELECT AVG(n) FROM visits", [(r(1, 9, n=3), [])], 9 * BIT, (9 * BIT) ** 2, rows=3),
    Witness(
        "SELECT CORR(n, x) FROM visits", [(r(1, 9, n=3, x=5), [])],
        3 * PAIR, (3 * PAIR) ** 2, rows=3,
    ),
    Witness(
        "SELECT s, CORR(n, x) FROM visits GROUP BY s",
        [(r(1, 9, n=3, x=5, s="a") + r(1, 9, n=0, x=-3, s="b"), [])],
        6 * PAIR, 2 * (3 * PAIR) ** 2, groups=2, rows=3,
    ),
    Witness(
        "SELECT n, COUNT(*) FROM visits GROUP BY n",
        [(r(1, 9, n=0) + r(1, 9, n=1) + r(1, 9, n=2), [])], 6, 18, groups=2, rows=3,
    ),
    Witness(  # three cells are all there are
        "SELECT b, COUNT(*) FROM visits GROUP BY b",
        [(r(1, 9, b=True) + r(1, 9, b=False) + r(1, 9), [])], 9, 27, groups=5, rows=3,
    ),
    Witness(
        "SELECT t, SUM(x) FROM visits GROUP BY t",
        [(r(1, 9, t="k", x=5) + r(1, 9, t="l", x=5), [])], 20, 200, groups=2, rows=2,
    ),
    Witness(
        "SELECT COUNT(*) FROM visits v JOIN pairs h ON v.n = h.n", [(r(1, 1, n=0), [])], 2, 4, rows=2
    ),
    # user level: the statement bounds what a person adds to a group
    Witness(
        "SELECT SUM(x, contribution_bounds_per_group => (-2, 7)) FROM visits",
        [(r(1, 9, x=5), [])], 7, 49, rows=3,
    ),
    Witness(
        "SELECT SUM(x, contribution_bounds_per_group => (-9, 7)) FROM visits",
        [(r(1, 9, x=-3), [])], 9, 81, rows=3,
    ),
    Witness(  # whoever is there adds 2 at least
        "SELECT COUNT(*, contribution_bounds_per_group => (2, 4)) FROM visits",
        [(r(1, 9), [])], 4, 16, rows=3,
    ),
    Witness(
        "SELECT COUNT(x, contribution_bounds_per_group => (0, 2)) FROM visits",
        [(r(1, 9, x=1), [])], 2, 4, rows=3,
    ),
    Witness(
        "SELECT SUM(z, contribution_bounds_per_group => (0, 6)) FROM visits",
        [(r(1, 1, z=2**62), [])], 6, 36, rows=3,
    ),
    Witness(  # one cell of 2^16 points from 1 to 2
        "SELECT AVG(n, contribution_bounds_per_group => (1, 2)) FROM visits",
        [(r(1, 9, n=3), [])], 3 * 2**16, (3 * 2**16) ** 2, rows=3,
    ),
    Witness(
        "SELECT SUM(x, contribution_bounds_per_row => (-1, 2)) FROM visits",
        [(r(1, 9, x=5), [])], 6, 36, rows=3,
    ),
    Witness(
        "SELECT SUM(x, contribution_bounds_per_group => (-1, 2)) FROM visits",
        [(r(x=5), [])], 2, 4, EVENT,
    ),
    Witness(  # from nobody to the upper end
        "SELECT SUM(x, contribution_bounds_per_group => (2, 7)) FROM visits WHERE x > 0",
        [(r(1, 9), r(1, 9, x=5))], 7, 49, adjacency=SWAP, rows=3,
    ),
    Witness(
        """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 1)
           n, COUNT(*, contribution_bounds_per_group => (0, 3)) FROM visits GROUP BY n""",
        [(r(1, 9, n=0) + r(1, 9, n=1) + r(1, 9, n=2), [])], 3, 9, groups=4, rows=9,
    ),
    # user level: a person is replaced
    Witness(
        "SELECT COUNT(*) FROM visits WHERE x > 0", [(r(1, 9), r(1, 9, x=1))], 3, 9,
        adjacency=SWAP, rows=3,
    ),
    Witness(
        "SELECT SUM(x) FROM visits", [(r(1, 9, x=-3), r(1, 9, x=5))], 24, 576,
        adjacency=SWAP, rows=3,
    ),
    Witness(
        "SELECT t, COUNT(*) FROM visits GROUP BY t",
        [(r(1, 1, t="k") + r(1, 1, t="l"), r(1, 1, t="m") + r(1, 1, t="n"))], 4, 4,
        adjacency=SWAP, groups=2,
    ),
    Witness(  # two cells, one group each
        "SELECT s, COUNT(*) FROM visits GROUP BY s", [(r(1, 1, s="a"), r(1, 1, s="b"))], 2, 2,
        adjacency=SWAP,
    ),
    Witness(  # two cells, two groups: both are shared
        "SELECT s, COUNT(*) FROM visits GROUP BY s",
        [(r(1, 1, s="z"), r(1, 1, s="a") + r(1, 1, s="b"))], 2, 2, adjacency=SWAP, groups=2,
    ),
    Witness(  # both cells are shared and move by the width
        "SELECT s, SUM(x) FROM visits GROUP BY s",
        [(r(1, 1, s="a", x=-3) + r(1, 1, s="b", x=-3), r(1, 1, s="a", x=5) + r(1, 1, s="b", x=5))],
        16, 128, adjacency=SWAP, groups=2,
    ),
    # two units at once
    Witness(
        "SELECT COVAR_POP(n, x) FROM visits", [(r(1, 2, n=3, x=5), [])], 48, 48**2, EVENT,
        group_size=2,
    ),
    Witness(
        "SELECT SUM(x) FROM visits", [(r(1, 9, x=5) + r(2, 9, x=5), [])], 30, 900,
        rows=3, group_size=2,
    ),
    Witness("SELECT SUM(x) FROM visits", [(r(1, 2, x=5), [])], 10, 100, EVENT, group_size=2),
    Witness(
        "SELECT SUM(x) FROM visits", [(r(1, 2, x=-3), r(1, 2, x=5))], 16, 256, EVENT, SWAP,
        group_size=2,
    ),
]  # fmt: skip


def prepared(
    sql: str, catalog: Catalog, public: dict[str, tuple[Row, ...]] | None = None
) -> tuple[PlannedRelease, Facts, SmallEngine]:
    rows = {name: rows for name, (_, rows) in PUBLIC.items()} if public is None else public
    engine = SmallEngine(catalog, rows)
    (release,) = parse(sql, catalog).releases
    plan = plan_release(release, catalog, engine, Fraction(1))
    return plan, derive(plan, catalog.unit, engine), engine


def totals(engine: SmallEngine, plan: PlannedRelease, rows: list[Row]) -> Totals:
    engine.load("visits", rows)
    return engine.totals(plan)


def distance(before: Totals, after: Totals, count: int) -> tuple[int, int]:
    """Return the L1 distance and the square of the L2 distance over the first `count` columns."""
    nothing = (0,) * count
    moved = [
        abs(a - b)
        for key in before.keys() | after.keys()
        for a, b in zip(before.get(key, nothing), after.get(key, nothing), strict=True)
    ]
    return sum(moved), sum(s * s for s in moved)


@pytest.mark.parametrize("case", WITNESSES, ids=lambda c: f"{c.level}-{c.adjacency}-{c.sql}")
def test_the_rule_says_what_its_witness_shows(case: Witness) -> None:
    catalog = small_catalog(
        case.level,
        case.adjacency,
        group_size=case.group_size,
        max_groups=case.groups,
        max_rows=case.rows,
    )
    plan, facts, engine = prepared(case.sql, catalog)
    first, *others = zip(plan.vectors, facts.vectors, strict=True)
    assert all(plan.selection is not None for _ in others)  # beside the vector, the selection alone
    vector, fact = first
    assert (fact.change.l1, fact.change.l2_squared) == (case.l1, case.l2_squared)
    found = []
    for before, after in case.pairs:
        old, new = totals(engine, plan, before), totals(engine, plan, after)
        count = len(vector.columns)
        found.append(
            distance(
                {k: v[:count] for k, v in old.items()},
                {k: v[:count] for k, v in new.items()},
                count,
            )
        )
    assert max(l1 for l1, _ in found) == case.l1
    assert max(l2 for _, l2 in found) == case.l2_squared


def test_rows_without_an_owner_belong_to_nobody_and_are_dropped() -> None:
    catalog = small_catalog(max_groups=2, max_rows=9)
    for sql in ("SELECT COUNT(*) FROM visits", "SELECT t, SUM(x) FROM visits GROUP BY t"):
        plan, _, engine = prepared(sql, catalog)
        kept = totals(engine, plan, r(1, 2, x=1, t="k"))
        assert totals(engine, plan, r(1, 2, x=1, t="k") + r(None, 5, x=3, t="k")) == kept


@pytest.mark.parametrize("value", [None, NAN])
def test_null_and_nan_add_nothing_to_a_sum_or_mean(value: object) -> None:
    catalog = small_catalog(EVENT)
    for sql in (
        "SELECT SUM(f) FROM visits",
        "SELECT AVG(f), VAR_POP(f) FROM visits",
        "SELECT CORR(f, n) FROM visits",
        "SELECT COVAR_POP(n, f) FROM visits",
    ):
        plan, _, engine = prepared(sql, catalog)
        kept = totals(engine, plan, r(f=1.0, n=2))
        assert totals(engine, plan, r(f=1.0, n=2) + r(f=value, n=2)) == kept


@pytest.mark.parametrize(("outside", "end"), [(INF, 2.0), (-INF, -1.5), (1e300, 2.0), (-9.0, -1.5)])
def test_values_outside_the_bounds_count_as_the_nearest_end(outside: float, end: float) -> None:
    catalog = small_catalog(EVENT)
    for sql in (
        "SELECT SUM(f) FROM visits",
        "SELECT AVG(f), VAR_POP(f) FROM visits",
        "SELECT CORR(f, n) FROM visits",
    ):
        plan, _, engine = prepared(sql, catalog)
        assert totals(engine, plan, r(f=outside, n=3)) == totals(engine, plan, r(f=end, n=9))


def test_negative_zero_and_zero_are_one_key() -> None:
    plan, _, engine = prepared("SELECT f, COUNT(*) FROM visits GROUP BY f", small_catalog(EVENT))
    assert totals(engine, plan, r(f=0.0) + r(f=-0.0)) == {(0.0,): (2, 2)[: len(plan.vectors)]}


def test_rows_that_an_outer_join_pads_are_counted_though_the_column_is_never_null() -> None:
    catalog = small_catalog(EVENT)
    sql = "SELECT COUNT(*), AVG(g.pop) FROM visits v LEFT JOIN regions g ON v.t = g.t"
    plan, _, engine = prepared(sql, catalog)
    (vector,) = plan.vectors
    rows = totals(engine, plan, r(t="k1") + r(t="nowhere"))[()]
    assert sum(rows) == 2 * vector.unit


@pytest.mark.parametrize("level", Level)
def test_a_public_table_without_rows_gives_no_group_and_costs_nothing(level: Level) -> None:
    catalog = small_catalog(level)
    sql = "SELECT g.area, COUNT(*) FROM visits v JOIN regions g ON v.t = g.t GROUP BY g.area"
    plan, facts, engine = prepared(sql, catalog, {"regions": (), "pairs": ()})
    assert plan.cells == 0
    assert facts.vectors[0].change.l1 == 0
    assert totals(engine, plan, r(t="k1")) == {}


def test_a_hash_key_decides_alone_which_groups_of_a_unit_stay() -> None:
    """Google's differential-privacy PR 84: other units must not decide which values stay."""
    catalog = small_catalog(max_groups=2, max_rows=5)
    plan, _, engine = prepared("SELECT z, COUNT(*) FROM visits GROUP BY z", catalog)
    mine = [row for z in range(9) for row in r(2, 1, z=z)]
    alone = totals(engine, plan, mine)
    assert len(alone) == 2
    others = [
        row for uid in range(10, 30) for z in range(4) for row in r(uid, 1 + z, z=uid * z % 9)
    ]
    together, without = totals(engine, plan, mine + others), totals(engine, plan, others)
    gained = {
        key: tuple(a - b for a, b in zip(values, without.get(key, (0,) * len(values)), strict=True))
        for key, values in together.items()
    }
    assert {k: v for k, v in gained.items() if any(v)} == alone
