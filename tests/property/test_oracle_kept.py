"""The oracle where the rows stay: zero_out and metric.

It knows what a neighbour is and what the lowered SQL gives. What is said to be free may not move at
all, whatever the protected columns hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from random import Random

import numpy as np
import pytest
from oracle.judge import compare, released
from oracle.kept import moved, quantized, some_columns, tie, zeroed, zeroing
from oracle.neighbours import database, rows_of
from oracle.small_engine import Row, SmallEngine, Totals
from oracle.small_schema import INF, NAN, PUBLIC, small_catalog
from oracle.statements import pick, statement

from dp_sql.errors import DPSQLError, InternalError
from dp_sql.parser.statement import parse
from dp_sql.plan.facts import Facts
from dp_sql.plan.relation import SumMeasure
from dp_sql.plan.release import PlannedRelease
from dp_sql.planner.plan import plan_release
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.catalog import (
    AccountantKind,
    BudgetSpec,
    Catalog,
    ColumnSpec,
    Limits,
    PrivacyDefaults,
    TableSpec,
)
from dp_sql.schema.sqltype import DOUBLE, INTEGER, VARCHAR, Kind, SqlType
from dp_sql.sensitivity import drift, motion
from dp_sql.sensitivity.contribution import derive

COUNTS: Counter[str] = Counter()
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(1000))


@cache
def engine() -> SmallEngine:
    return SmallEngine(small_catalog(), {name: rows for name, (_, rows) in PUBLIC.items()})


def sums(engine: SmallEngine, plan: PlannedRelease) -> tuple[Totals, Totals | None]:
    return released(plan, engine.totals(plan)), engine.chosen(plan)


def planned(
    r: Random, sql: str, catalog: Catalog, engine: SmallEngine
) -> list[tuple[PlannedRelease, Facts]]:
    """Return the releases of a statement and what is derived of them; none where it is refused."""
    COUNTS["statements"] += 1
    try:
        query = parse(sql, catalog)
        plans = [plan_release(x, catalog, engine, pick(r, EPSILONS)) for x in query.releases]
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
    before = [sums(engine, plan) for plan, _ in found]
    for part in range(1, len(parts)):
        engine.use(table, part)
        for (plan, fact), old in zip(found, before, strict=True):
            shown = partial("{}\nD : {}\nD': {}".format, told, parts[0], parts[part])
            compare(plan, fact, old, sums(engine, plan), shown, COUNTS)


def examine_zeroed(r: Random) -> None:
    user = r.random() < 0.6
    plain = small_catalog(
        Level.USER if user else Level.EVENT,
        group_size=pick(r, (1, 1, 2)),
        max_groups=pick(r, (1, 2, 3)),
        max_rows=pick(r, (1, 2, 3)),
    )
    catalog = zeroing(plain, some_columns(r, plain, pick(r, (0.3, 0.7, 0.9))))
    sql = statement(r, user=user)
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
    for index in range(220):
        examine_zeroed(Random(f"zero-{index}"))
    report("zero_out")
    assert COUNTS["plans"] >= 180
    assert COUNTS["exact"] >= 200
    assert COUNTS["reached"] >= 25


def report(name: str) -> None:
    shown = {k: v for k, v in COUNTS.items() if not k.startswith("refused: ")}
    print(f"\noracle, {name}: {shown}")  # noqa: T201  counts belong to the test's output


LATITUDES: dict[str, SqlType] = {
    "double": DOUBLE,
    "float": SqlType(Kind.FLOAT),
    "decimal": SqlType(Kind.DECIMAL, 8, 5),
    "integer": INTEGER,
}
RADII = (Fraction(1), Fraction(100), Fraction(111_319), Fraction(50_001, 2), Fraction(20_000_000))
COARSE = (Fraction(111_319), Fraction(500_000), Fraction(20_000_000))
BOUNDS = {
    (-90, 90): (0.0, -0.0, 41.0, 89.9999, -90.0, 90.0, -12.345, 40.99999),
    (40, 42): (41.0, 41.05, 40.99999, 40.0, 41.5, 42.5),
    (0, 1): (0.5, 0.25, 0.0, -0.0, 1.0, 0.7),
}


def places_catalog(
    kind: str, radius: Fraction, bounds: tuple[int, int] = (-90, 90), group_size: int = 1
) -> Catalog:
    """Return a table of rows with a place; a latitude of one of the types."""
    low, high = bounds
    columns = (
        ColumnSpec("lat", LATITUDES[kind], low, high),
        ColumnSpec("lon", DOUBLE, -180.0, 180.0),
        ColumnSpec("x", INTEGER, -3, 5),
        ColumnSpec("f", DOUBLE, -1.5, 2.0),
        ColumnSpec("s", VARCHAR, values=("a", "b")),
        ColumnSpec("t", VARCHAR),
    )
    budget = BudgetSpec(Fraction(10**9), Fraction(1, 10), AccountantKind.RENYI, Fraction(1, 20))
    tables = {
        "places": TableSpec(
            "places", {c.name: c for c in columns}, budget=budget, limits=Limits(1, 1)
        ),
        "regions": TableSpec("regions", {c.name: c for c in PUBLIC["regions"][0]}, public=True),
        "pairs": TableSpec(
            "pairs",
            {
                c.name: replace(c, max_frequency=2) if c.name == "n" else c
                for c in PUBLIC["pairs"][0]
            },
            public=True,
        ),
    }
    unit = PrivacyUnit(
        Level.EVENT,
        Adjacency.METRIC,
        group_size,
        "row",
        latitudes=frozenset({("places", "lat")}),
        longitudes=frozenset({("places", "lon")}),
        radius=radius,
    )
    none = PrivacyDefaults(None, None, None, None)
    return Catalog(Path("places.yaml"), "duckdb://", unit, none, tables)


class PlacesEngine(SmallEngine):
    """Knows that a row finds at most two pairs."""

    def frequency(self, table: str, columns: tuple[str, ...]) -> int | None:
        return 2 if (table, columns) == ("pairs", ("n",)) else super().frequency(table, columns)


@cache
def places_engine(kind: str) -> SmallEngine:
    public = {name: rows for name, (_, rows) in PUBLIC.items()}
    return PlacesEngine(places_catalog(kind, Fraction(1)), public)


SMOOTH = (
    "lat", "-lat", "lat * 2", "lat * -0.5", "lat / 3", "lat / 7", "3 * lat - lat", "ABS(lat)", "lat + lat",
    "CAST(lat AS DOUBLE) * 1000", "(lat - 41) * 100", "lat - 90", "CAST(lat AS DECIMAL(6,1))",
    "FLOOR(lat)", "CEIL(lat * 10)", "lat + CLAMP(f, -1, 1)",
)  # fmt: skip
ARGUMENTS = (
    *SMOOTH, "lat / 0.25e0", "CLAMP(lat, 10, 41)", "LEAST(lat, 41.5)", "GREATEST(lat, 0, 40)", "ROUND(lat)",
    "TRUNC(lat / 2)", "CAST(lat AS INTEGER)", "CAST(lat AS FLOAT)", "CAST(lat AS UTINYINT)",
    "CAST(lat AS DECIMAL(3,1))", "lat * CLAMP(x, -2, 3)", "lat + x", "lat * f", "lat * lat", "lon",
    "lat + lon", "x", "f", "SIGN(lat)", "lat % 1", "NULLIF(lat, 41)", "COALESCE(lat, 7)",
    "CASE WHEN s = 'a' THEN lat ELSE 1 END", "CASE WHEN lat > 41 THEN 1 ELSE 0 END",
    "CASE WHEN x > 0 THEN lat WHEN f < 1 THEN lat / 2 END", "IF(t = 'k', lat, f)", "SQRT(ABS(lat))",
    "CASE WHEN lat IS NULL THEN 3 ELSE 1 END", "(lat + 0.1) * 1.5", "lat // 1", "ROUND(lat, 1)",
    "CAST(CAST(lat AS VARCHAR) AS DOUBLE)", "(lat + 1e17) - 1e17",
)  # fmt: skip
FILTERS = (
    "x > 0",
    "s = 'a'",
    "t IS NULL",
    "lat > 41",
    "lon < 0",
    "lat IS NOT NULL",
    "f < 1 OR x = 2",
)
KEYS = ("s", "t", "x", "(x % 2)", "FLOOR(lat)", "(lon > 0)", "(f > 0)", "(lat > 41)", "g.area")


def place_statement(r: Random) -> str:
    """Return an aggregate over places: some read the place nowhere but in an argument."""
    if r.random() < 0.35:
        call = pick(r, ("SUM", "SUM", "SUM", "AVG", "VAR_POP"))
        return f"SELECT {call}({pick(r, SMOOTH)}) AS a0 FROM places"
    rows = pick(r, (
        "places", "places", "(SELECT * FROM places WHERE x < 4) AS q",
        "(SELECT lat * 2 AS lat, lon, x, f, s, t FROM places) AS q",
        "(SELECT lon AS lat, lat AS lon, x, f, s, t FROM places) AS q",
        "places LEFT JOIN regions g USING (t)", "places JOIN regions g USING (t)",
        "places p JOIN pairs h ON p.x = h.n", "places p JOIN pairs h ON p.x = h.n AND p.lat > h.w",
    ))  # fmt: skip
    keys = [pick(r, KEYS) for _ in range(pick(r, (0, 0, 1, 1, 2)))]
    if " g " not in rows:
        keys = [key for key in keys if key != "g.area"]
    calls = [_place_call(r) for _ in range(pick(r, (1, 1, 2)))]
    items = [f"{key} AS k{i}" for i, key in enumerate(keys)]
    items += [f"{call} AS a{i}" for i, call in enumerate(calls)]
    where = f" WHERE {pick(r, FILTERS)}" if r.random() < 0.25 else ""
    group = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
    return f"SELECT {', '.join(items)} FROM {rows}{where}{group}"


def _place_call(r: Random) -> str:
    argument = pick(r, ARGUMENTS)
    low, high = pick(r, (("-90", "90"), ("-90", "90"), ("0", "42"), ("-1", "1"), ("-1e4", "1e4")))
    clamped = f"CLAMP({argument}, {low}, {high})"
    call = pick(r, (
        "COUNT(*)", f"COUNT({argument})", f"SUM({clamped})", f"SUM({clamped})", f"SUM({argument})",
        f"AVG({clamped})", f"AVG({argument})", f"VAR_POP({clamped})",
    ))  # fmt: skip
    return f"{call} FILTER (WHERE {pick(r, FILTERS)})" if r.random() < 0.15 else call


def place_rows(
    r: Random, kind: str, pool: Sequence[float], plans: list[tuple[PlannedRelease, Facts]]
) -> list[Row]:
    """Return rows with latitudes anywhere, and beside the ties of the plans' grids."""
    steps = [
        vector.measure.step
        for plan, _ in plans
        for vector in plan.vectors
        if isinstance(vector.measure, SumMeasure)
    ]
    floats = [*pool, *pool]
    for step in steps:
        number = int(Fraction(pick(r, pool)) / step)
        floats += [tie(step, number + n, below=below) for n in (0, 1) for below in (True, False)]
    found = []
    for _ in range(1 + r.randrange(4)):
        latitude: object = pick(r, floats)
        if r.random() < 0.15:
            latitude = pick(r, (None, NAN, INF, 91.0, -1e300))
        found.append((
            _typed(latitude, kind),
            pick(r, (0.0, -180.0, 12.5, 179.9, None)),
            pick(r, (-3, 5, 0, 1, 3, None, 9)),
            pick(r, (-1.5, 2.0, 0.25, None, INF)),
            pick(r, ("a", "b", None, "c")),
            pick(r, ("k1", "k2", None, "k")),
        ))  # fmt: skip
    return found


def _typed(latitude: object, kind: str) -> object:
    if not isinstance(latitude, float) or kind == "double":
        return latitude
    if kind == "float":
        return float(np.float32(latitude)) if not 1e38 < abs(latitude) < INF else None
    if not abs(latitude) <= 91:
        return None
    return quantized(latitude) if kind == "decimal" else int(latitude)


def examine_moved(r: Random) -> None:
    kind = pick(r, ("double", "double", "float", "decimal", "integer"))
    size = pick(r, (1, 1, 1, 2))
    bounds = pick(r, ((-90, 90), (-90, 90), *BOUNDS))
    radius = pick(r, COARSE if kind == "integer" else RADII)
    catalog = places_catalog(kind, radius, bounds, size)
    sql = place_statement(r)
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
    for index in range(260):
        examine_moved(Random(f"metric-{index}"))
    report("metric")
    assert COUNTS["plans"] >= 200
    assert COUNTS["exact"] >= 30
    assert COUNTS["reached"] >= 20


MUTANTS: dict[str, tuple[Callable[[Random], None], object, str, object]] = {
    "conditions aren't read": (examine_zeroed, motion, "_if_still", lambda _, drifts: drifts),
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
