"""The oracle where the rows stay: zero_out and metric.

It knows what a neighbour is and what the lowered SQL gives. What is said to be free may not move at
all, whatever the protected columns hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial
from random import Random

import pytest
from oracle.judge import compare, compare_sampled, released
from oracle.kept import moved, some_columns, zeroed, zeroing
from oracle.neighbours import database, rows_of
from oracle.places import (
    BOUNDS,
    COARSE,
    RADII,
    cell_statement,
    place_rows,
    place_statement,
    places_catalog,
    places_engine,
)
from oracle.small_engine import Row, SmallEngine, Sums
from oracle.small_schema import PUBLIC, small_catalog
from oracle.statements import pick, statement

from dp_sql.errors import DPSQLError, InternalError
from dp_sql.parser.statement import parse
from dp_sql.plan.facts import Facts
from dp_sql.plan.release import PlannedRelease
from dp_sql.planner.sets import plan_sets
from dp_sql.privacy.unit import Level
from dp_sql.schema.catalog import Catalog
from dp_sql.sensitivity import drift, motion
from dp_sql.sensitivity.contribution import derive

COUNTS: Counter[str] = Counter()
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(1000))


@cache
def engine() -> SmallEngine:
    return SmallEngine(small_catalog(), {name: rows for name, (_, rows) in PUBLIC.items()})


def sums(engine: SmallEngine, plan: PlannedRelease) -> Sums:
    return released(plan, engine.totals(plan)), engine.chosen(plan)


def planned(
    r: Random, sql: str, catalog: Catalog, engine: SmallEngine
) -> list[tuple[PlannedRelease, Facts]]:
    """Return the releases of a statement and what is derived of them; none where it is refused."""
    COUNTS["statements"] += 1
    try:
        query = parse(sql, catalog)
        plans = [
            plan
            for release in query.releases
            for plan in plan_sets(release, catalog, engine, pick(r, EPSILONS))
        ]
        return [(plan, derive(plan, catalog.unit, engine)) for plan in plans]
    except InternalError as error:
        pytest.fail(f"{error}\n{sql}")
    except DPSQLError as error:
        COUNTS["refused"] += 1
        COUNTS["refused: " + error.message[:60]] += 1
        return []


def judge(
    engine: SmallEngine,
    table: str,
    found: list[tuple[PlannedRelease, Facts]],
    parts: Sequence[Sequence[Row]],
    told: str,
) -> None:
    """Hold the first rows against all others."""
    COUNTS["plans"] += len(found)
    COUNTS["neighbours"] += len(parts) - 1
    engine.stage(table, parts)
    engine.use(table, 0)
    before = [(sums(engine, plan), engine.sampled(plan)) for plan, _ in found]
    for part in range(1, len(parts)):
        engine.use(table, part)
        for (plan, fact), (old, blocks) in zip(found, before, strict=True):
            shown = partial("{}\nD : {}\nD': {}".format, told, parts[0], parts[part])
            compare(plan, fact, old, sums(engine, plan), shown, COUNTS)
            compare_sampled(plan, fact, blocks, engine.sampled(plan), shown, COUNTS)


def examine_zeroed(r: Random, write: Callable[..., str] = statement) -> None:
    user = r.random() < 0.6
    plain = small_catalog(
        Level.USER if user else Level.EVENT,
        group_size=pick(r, (1, 1, 2)),
        max_groups=pick(r, (1, 2, 3)),
        max_rows=pick(r, (1, 2, 3)),
    )
    catalog = zeroing(plain, some_columns(r, plain, pick(r, (0.3, 0.7, 0.9))))
    sql = write(r, user=user)
    found = planned(r, sql, catalog, engine())
    if not found:
        return
    unit = catalog.unit
    data = database(r, user=user)
    near = zeroed(r, data, unit.kept, group_size=unit.group_size)
    parts = [rows_of(d) for d in (data, *near)]
    told = f"{sql}\n{unit}\n{catalog.tables['visits'].limits}"
    judge(engine(), "visits", found, parts, told)


def test_no_zeroed_column_moves_a_vector_further_than_derived() -> None:
    COUNTS.clear()
    for index in range(54):
        examine_zeroed(Random(f"zero-{index}"))
    report("zero_out")
    assert COUNTS["plans"] >= 44
    assert COUNTS["exact"] >= 64
    assert COUNTS["reached"] >= 4


def test_no_zeroed_column_moves_blocks_further_than_derived() -> None:
    COUNTS.clear()
    for index in range(12):
        examine_zeroed(Random(f"zero-sampled-{index}"), write=partial(statement, sampled=True))
    report("zero_out, blocks")
    assert COUNTS["sampled"] >= 12


def report(name: str) -> None:
    shown = {k: v for k, v in COUNTS.items() if not k.startswith("refused: ")}
    print(f"\noracle, {name}: {shown}")  # noqa: T201  counts belong to the test's output


def examine_moved(r: Random, write: Callable[[Random], str] = place_statement) -> None:
    kind = pick(r, ("double", "double", "float", "decimal", "integer"))
    size = pick(r, (1, 1, 1, 2))
    bounds = pick(r, ((-90, 90), (-90, 90), *BOUNDS))
    radius = pick(r, COARSE if kind == "integer" else RADII)
    catalog = places_catalog(kind, radius, bounds, size)
    sql = write(r)
    found = planned(r, sql, catalog, places_engine(kind))
    if not found:
        return
    rows = place_rows(r, kind, BOUNDS[bounds], found)
    near = list(moved(r, rows, radius, group_size=size, single=kind == "float"))
    if near:
        told = f"{sql}\n{kind}, radius {radius}, {size} at once"
        judge(places_engine(kind), "places", found, [rows, *near], told)


def test_no_moved_place_moves_a_vector_further_than_derived() -> None:
    COUNTS.clear()
    for index in range(95):
        examine_moved(Random(f"metric-{index}"))
    report("metric")
    assert COUNTS["plans"] >= 70
    assert COUNTS["exact"] >= 9
    assert COUNTS["reached"] >= 7


def test_no_moved_place_moves_cells_further_than_derived() -> None:
    COUNTS.clear()
    for index in range(25):
        examine_moved(Random(f"cells-{index}"), cell_statement)
    report("cells")
    assert COUNTS["plans"] >= 15
    assert COUNTS["reached"] >= 5
    assert COUNTS["sampled"] >= 1


MUTANTS: dict[str, tuple[Callable[[Random], None], object, str, object]] = {
    "conditions aren't read": (examine_zeroed, motion, "_if_still", lambda _, drifts: drifts),
    "a cell isn't left": (
        partial(examine_moved, write=cell_statement), motion, "_all_still", lambda *_: True,
    ),
    "keys aren't read": (examine_zeroed, motion, "_all_still", lambda *_: True),
    "a rounding is forgotten": (
        examine_moved, motion, "_rounded", lambda moved, step: max(1, int(moved // step)),
    ),
    "a degree is longer": (
        examine_moved, motion, "_reach",
        lambda found, unit: found.slope * unit.degrees * Fraction(9, 10) + found.slack,
    ),
    "longitude is smooth": (
        examine_moved, motion, "_scanned",
        lambda scan, unit: {
            c.number: drift.LATITUDE
            for c, s in zip(scan.columns, scan.sources, strict=True)
            if not scan.public and unit.changes(scan.table, s)
        },
    ),
    "nothing overflows": (examine_moved, drift, "_computed", lambda found, _: found),
    "a product moves like one factor": (
        examine_moved, motion, "pair_steps",
        lambda pair, *rest: max(
            (motion._place_steps(axis, *rest) or 0) * axis.total // axis.cells for axis in pair.axes
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_the_oracle_finds_a_wrong_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    examine, *mutant = MUTANTS[name]
    monkeypatch.setattr(*mutant)

    def search() -> None:
        for index in range(300):
            examine(Random(f"mutant-{index}"))

    with pytest.raises(AssertionError):
        search()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_no_neighbour_that_keeps_rows_moves_a_vector_further_long(seed: int) -> None:
    for index in range(600):
        examine_zeroed(Random(f"{seed}-zero-{index}"))
        examine_moved(Random(f"{seed}-metric-{index}"))
        if index % 6 == 0:
            examine_zeroed(
                Random(f"{seed}-zero-sampled-{index}"), write=partial(statement, sampled=True)
            )
            examine_moved(Random(f"{seed}-cells-{index}"), cell_statement)
