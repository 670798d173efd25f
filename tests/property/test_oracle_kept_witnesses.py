"""Witnesses for zero_out and metric: neighbours that move the answer as far as the rule says, by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import pytest
from oracle.kept import METRES, zeroing
from oracle.places import PlacesEngine, places_catalog
from oracle.small_engine import Row, SmallEngine
from oracle.small_schema import COLUMNS, POOLS, PUBLIC, small_catalog

from dp_sql.parser.statement import parse
from dp_sql.plan.facts import Facts
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.relation import SumMeasure
from dp_sql.plan.release import PlannedRelease
from dp_sql.planner.plan import plan_release
from dp_sql.privacy.unit import Level
from dp_sql.schema.catalog import Catalog
from dp_sql.sensitivity.contribution import derive

USER, EVENT = Level.USER, Level.EVENT


def row(uid: int, **values: object) -> Row:
    return (uid, *(values.get(column) for column in POOLS))


@dataclass(frozen=True)
class Zeroed:
    """A statement, one person's rows, the columns that stay; L1 and L2 squared that are reached."""

    sql: str
    rows: list[Row]
    kept: str
    l1: int
    l2_squared: int
    level: Level = USER
    groups: int = 1
    most_rows: int = 1


EVERY = [row(1, t=t, s="a", x=5) for t in "kl"]

ZEROED = [
    # free: nothing that is read may change
    Zeroed("SELECT COUNT(*) FROM visits", EVERY, "", 0, 0),
    Zeroed("SELECT s, COUNT(DISTINCT uid) FROM visits GROUP BY s", EVERY, "s", 0, 0),
    Zeroed("SELECT t, COUNT(*), SUM(x) FROM visits WHERE x > 0 GROUP BY t", EVERY, "t x", 0, 0),
    Zeroed("SELECT COUNT(*) FROM visits", EVERY, "", 0, 0, EVENT),
    Zeroed("SELECT n, COUNT(*) FROM visits GROUP BY n", EVERY, "n", 0, 0, EVENT),
    Zeroed(
        "SELECT COUNT(*) FROM (SELECT uid, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY s) AS w "
        "FROM (SELECT uid, s FROM visits)) AS q WHERE w = 1", EVERY, "s", 0, 0,
    ),
    Zeroed(
        "SELECT COUNT(*) FROM (SELECT uid, COUNT(*) AS c, SUM(x) AS y FROM visits GROUP BY uid) AS q "
        "WHERE c > 1", EVERY, "", 0, 0,
    ),
    # a condition, a key, a join, a subquery: a person's rows come and go
    Zeroed("SELECT COUNT(*) FROM visits WHERE x > 0", EVERY, "", 2, 4, most_rows=2),
    Zeroed("SELECT COUNT(*) FROM visits v JOIN regions g USING (t)", [row(1, t="k1")], "", 1, 1),
    Zeroed(
        "SELECT COUNT(*) FROM (SELECT uid, SUM(x) AS y FROM visits GROUP BY uid) AS q WHERE y > 9",
        EVERY, "", 1, 1,
    ),
    Zeroed(
        "SELECT COUNT(*) FROM visits v WHERE EXISTS "
        "(SELECT 1 FROM visits w WHERE w.uid = v.uid AND w.t = 'k')", EVERY, "", 2, 4, most_rows=2,
    ),
    Zeroed("SELECT t, COUNT(*) FROM visits GROUP BY t", [row(1, t="k")], "", 2, 2),
    Zeroed("SELECT t, COUNT(*) FROM visits GROUP BY t", [row(1, t="k")], "", 2, 2, EVENT),
    # an argument: the same groups move, each by its width
    Zeroed("SELECT s, COUNT(x) FROM visits GROUP BY s", [row(1, s="a", x=1)], "s", 1, 1),
    Zeroed("SELECT t, COUNT(x) FROM visits GROUP BY t", EVERY, "t", 2, 2, groups=2),
    Zeroed(
        "SELECT t, SUM(COALESCE(x, -3)) FROM visits GROUP BY t", EVERY, "t", 16, 128, groups=2
    ),
    Zeroed("SELECT SUM(COALESCE(x, -3)) FROM visits", [row(1, x=5)], "", 8, 64, EVENT),
    Zeroed("SELECT CORR(x, n) FROM visits", [row(1, x=5, n=3)], "x n", 0, 0, EVENT),
    Zeroed(
        "SELECT COVAR_POP(COALESCE(x, -3), n) FROM visits", [row(1, x=5, n=3)], "n", 48, 1152, EVENT
    ),
]  # fmt: skip


def prepared(sql: str, catalog: Catalog, engine: SmallEngine) -> tuple[PlannedRelease, Facts]:
    (release,) = parse(sql, catalog).releases
    plan = plan_release(release, catalog, engine, Fraction(1))
    return plan, derive(plan, catalog.unit, engine)


def moves(
    engine: SmallEngine, table: str, plan: PlannedRelease, before: list[Row], after: list[Row]
) -> list[int]:
    """Return how far each coordinate of the first vector moves."""
    count = len(plan.vectors[0].columns)
    answers = []
    for rows in (before, after):
        engine.load(table, rows)
        answers.append({k: v[:count] for k, v in engine.totals(plan).items()})
    old, new = answers
    nothing = (0,) * count
    return [
        abs(a - b)
        for key in old.keys() | new.keys()
        for a, b in zip(old.get(key, nothing), new.get(key, nothing), strict=True)
    ]


@pytest.mark.parametrize("case", ZEROED, ids=lambda c: f"{c.level}-{c.kept}-{c.sql}")
def test_a_zeroed_person_moves_the_answer_as_far_as_the_rule_says(case: Zeroed) -> None:
    plain = small_catalog(case.level, max_groups=case.groups, max_rows=case.most_rows)
    kept = frozenset(("visits", name) for name in case.kept.split())
    catalog = zeroing(plain, kept)
    engine = SmallEngine(plain, {name: rows for name, (_, rows) in PUBLIC.items()})
    plan, facts = prepared(case.sql, catalog, engine)
    change = facts.vectors[0].change
    assert (change.l1, change.l2_squared) == (case.l1, case.l2_squared)
    stays = {"uid"} | set(case.kept.split())
    after = [
        tuple(v if c.name in stays else None for c, v in zip(COLUMNS, values, strict=True))
        for values in case.rows
    ]
    found = moves(engine, "visits", plan, case.rows, after)
    assert (sum(found), sum(n * n for n in found)) == (case.l1, case.l2_squared)


@pytest.mark.parametrize("factor", [1, 3, -2])
@pytest.mark.parametrize("radius", [1, 100, 25_000])
@pytest.mark.parametrize("size", [1, 2])
def test_a_moved_row_moves_a_sum_by_the_radius_and_one_step(
    factor: int, radius: int, size: int
) -> None:
    """floor(C r / g) + 1 steps: from just below one tie to just above another."""
    catalog = places_catalog("double", Fraction(radius), (-90, 90), size)
    engine = PlacesEngine(catalog, {name: rows for name, (_, rows) in PUBLIC.items()})
    plan, facts = prepared(f"SELECT SUM({factor} * lat) FROM places", catalog, engine)
    measure = plan.vectors[0].measure
    assert isinstance(measure, SumMeasure)
    way = Fraction(radius) / METRES
    steps = math.floor(abs(factor) * way / measure.step) + 1
    assert facts.vectors[0].change.profiles == (((steps * size, 1),),)
    start = (math.floor(41 / measure.step) + Fraction(1, 2)) * measure.step / abs(factor)
    start -= way / 10**6
    rows, after = [
        [(float(at), 0.0, 1, 0.5, "a", "k")] * size
        for at in (start, start + way * (1 - Fraction(1, 10**9)))
    ]
    assert all(Fraction(b[0]) - Fraction(a[0]) <= way for a, b in zip(rows, after, strict=True))  # type: ignore[arg-type]
    assert moves(engine, "places", plan, list(rows), list(after)) == [steps * size]


@pytest.mark.parametrize("radius", [1, 100, 25_000])
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("call", ["COVAR_POP(lat, x)", "COVAR_POP(x, lat)"])
def test_a_moved_row_moves_two_products_by_the_radius_and_one_step(
    radius: int, size: int, call: str
) -> None:
    """Where x is at an end of 8 steps, each step of the latitude moves two products by 8."""
    catalog = places_catalog("double", Fraction(radius), (-90, 90), size)
    engine = PlacesEngine(catalog, {name: rows for name, (_, rows) in PUBLIC.items()})
    plan, facts = prepared(f"SELECT {call} FROM places", catalog, engine)
    measure = plan.vectors[0].measure
    assert isinstance(measure, PairMeasure)
    (place,) = (axis for axis in measure.axes if axis.cells != 8)
    way, step = Fraction(radius) / METRES, Fraction(180, place.cells)
    steps = math.floor(way / step) + 1
    assert facts.vectors[0].change.profiles == (((steps * 8 * size, 2),),)
    start = (math.floor(41 / step) + Fraction(1, 2)) * step - way / 10**6
    rows, after = [
        [(float(at), 0.0, 5, 0.5, "a", "k")] * size
        for at in (start, start + way * (1 - Fraction(1, 10**9)))
    ]
    found = moves(engine, "places", plan, list(rows), list(after))
    assert sorted(found) == [0, 0, steps * 8 * size, steps * 8 * size]


@pytest.mark.parametrize(
    ("sql", "l1"),
    [
        ("SELECT COUNT(*) FROM places", 0),
        ("SELECT CORR(x, f), COUNT(*) FROM places WHERE x > 0", 0),
        ("SELECT COUNT(lat) FROM places WHERE x > 0", 0),
        ("SELECT t, COUNT(*), SUM(x) FROM places GROUP BY t", 0),
        ("SELECT COUNT(*) FROM places WHERE lat > 41", 1),
        ("SELECT (lon > 0) AS east, COUNT(*) FROM places GROUP BY 1", 2),
        ("SELECT SUM(CASE WHEN lon > 0 THEN 3 ELSE -2 END) FROM places", 5),
    ],
)
def test_what_reads_no_place_is_free(sql: str, l1: int) -> None:
    catalog = places_catalog("double", Fraction(20_000_000))
    engine = PlacesEngine(catalog, {name: rows for name, (_, rows) in PUBLIC.items()})
    plan, facts = prepared(sql, catalog, engine)
    assert facts.vectors[0].change.l1 == l1
    before, after = [(90.0, -170.0, 5, 0.5, "a", "k")], [(-80.0, 170.0, 5, 0.5, "a", "k")]
    assert sum(moves(engine, "places", plan, before, after)) == l1


def test_a_row_finds_two_rows_and_moves_both() -> None:
    catalog = places_catalog("double", Fraction(100))
    engine = PlacesEngine(catalog, {name: rows for name, (_, rows) in PUBLIC.items()})
    sql = "SELECT SUM(lat) FROM places p JOIN pairs h ON p.x = h.n"
    plan, facts = prepared(sql, catalog, engine)
    measure = plan.vectors[0].measure
    assert isinstance(measure, SumMeasure)
    steps = math.floor(Fraction(100) / METRES / measure.step) + 1
    assert facts.vectors[0].change.l1 == 2 * steps
