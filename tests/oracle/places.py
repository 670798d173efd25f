"""Rows with a place: their schema under metric, statements over them, and their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from oracle.kept import quantized, tie
from oracle.small_engine import Row, SmallEngine
from oracle.small_schema import INF, NAN, PUBLIC
from oracle.statements import pick

from dp_sql.plan.facts import Facts
from dp_sql.plan.relation import SumMeasure
from dp_sql.plan.release import PlannedRelease
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


CELLS = (
    ("ROUND(lat, 1)", "ROUND(lon, 1)"),
    ("FLOOR(lat * 2)", "FLOOR(lon / 10)"),
    ("CAST(FLOOR(lat) AS INTEGER)", "CAST(FLOOR(lon) AS INTEGER)"),
    ("(lat > 41)", "s"),
)
"""Keys that a place which moves may leave."""


def cell_statement(r: Random) -> str:
    """Return aggregates for each cell of a grid of places."""
    calls = pick(r, (
        ("COUNT(*)",), ("SUM(f)", "COUNT(*)"), ("AVG(f)", "COUNT(*)"), ("AVG(lat)", "AVG(lon)"),
        ("VAR_POP(f)",), ("SUM(lat)",), ("SAMPLE_AND_AGGREGATE('max', x, 0, 1, 2)",),
    ))  # fmt: skip
    keys = pick(r, CELLS)
    items = [f"{text} AS c{i}" for i, text in enumerate((*keys, *calls))]
    where = f" WHERE {pick(r, FILTERS)}" if r.random() < 0.25 else ""
    return f"SELECT {', '.join(items)} FROM places{where} GROUP BY 1, 2"


def _place_call(r: Random) -> str:
    argument = pick(r, ARGUMENTS)
    low, high = pick(r, (("-90", "90"), ("-90", "90"), ("0", "42"), ("-1", "1"), ("-1e4", "1e4")))
    clamped = f"CLAMP({argument}, {low}, {high})"
    call = pick(r, (
        "COUNT(*)", f"COUNT({argument})", f"SUM({clamped})", f"SUM({clamped})", f"SUM({argument})",
        f"AVG({clamped})", f"AVG({argument})", f"VAR_POP({clamped})",
    ))  # fmt: skip
    if call.startswith("VAR_POP") and r.random() < 0.7:
        other = pick(r, ("x", "f", "lat", argument))
        call = f"{pick(r, ('COVAR_POP', 'REGR_SLOPE', 'CORR'))}({clamped}, {other})"
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
