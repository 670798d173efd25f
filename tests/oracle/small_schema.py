"""The small schema of the oracle: one protected table with every kind of column, two public ones."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

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
from dp_sql.schema.sqltype import Kind, SqlType

INF, NAN = float("inf"), float("nan")

COLUMNS = (
    ColumnSpec("uid", SqlType(Kind.BIGINT)),
    ColumnSpec("x", SqlType(Kind.INTEGER), -3, 5),
    ColumnSpec("n", SqlType(Kind.INTEGER), 0, 3, nullable=False),
    ColumnSpec("p", SqlType(Kind.TINYINT), 2, 4),
    ColumnSpec("f", SqlType(Kind.DOUBLE), -1.5, 2.0),
    ColumnSpec("m", SqlType(Kind.DECIMAL, 6, 2), Decimal("-1.25"), Decimal("2.50")),
    ColumnSpec("z", SqlType(Kind.BIGINT)),
    ColumnSpec("b", SqlType(Kind.BOOLEAN)),
    ColumnSpec("s", SqlType(Kind.VARCHAR), values=("a", "b"), nullable=False),
    ColumnSpec("t", SqlType(Kind.VARCHAR)),
    ColumnSpec("d", SqlType(Kind.DATE), date(2024, 1, 30), date(2024, 2, 2)),
)
"""uid is the owner at user level, a plain column at event level."""

POOLS: dict[str, tuple[object, ...]] = {
    "x": (-3, 5, 0, 2, None, 9, -(2**31), 2**31 - 1),
    "n": (0, 3, 1, None, 7, -5),
    "p": (2, 4, None, 127, -128),
    "f": (-1.5, 2.0, 0.25, -0.0, None, NAN, INF, -INF, 1e300, 0.1),
    "m": (Decimal("-1.25"), Decimal("2.50"), Decimal("0.07"), None, Decimal("-9999.99")),
    "z": (0, 4, -7, None, 2**63 - 1, -(2**63)),
    "b": (True, False, None),
    "s": ("a", "b", None, "c", "A"),
    "t": ("k1", "k2", None, "", "k3 "),
    "d": (date(2024, 1, 30), date(2024, 2, 2), date(2024, 2, 1), None, date(1, 1, 1)),
}
"""What a protected column may hold: in its bounds, at their ends, far outside, NULL."""

PUBLIC: dict[str, tuple[tuple[ColumnSpec, ...], tuple[tuple[object, ...], ...]]] = {
    "regions": (
        (
            ColumnSpec("t", SqlType(Kind.VARCHAR), unique=True),
            ColumnSpec("area", SqlType(Kind.VARCHAR), nullable=False),
            ColumnSpec("pop", SqlType(Kind.INTEGER), -2, 6, nullable=False),
        ),
        (("k1", "north", 6), ("k2", "south", -2), ("k9", "south", 1)),
    ),
    "pairs": (
        (
            ColumnSpec("n", SqlType(Kind.INTEGER)),
            ColumnSpec("half", SqlType(Kind.VARCHAR)),
            ColumnSpec("w", SqlType(Kind.DOUBLE), -1.0, 3.0),
        ),
        ((0, "l", 3.0), (0, "r", -1.0), (1, "l", 0.5), (3, None, 3.0), (None, "r", 1.0)),
    ),
}
"""Public tables: columns and rows. A row of `visits` finds at most one region, up to two pairs."""


def small_catalog(
    level: Level = Level.USER,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    *,
    group_size: int = 1,
    max_groups: int = 1,
    max_rows: int = 1,
) -> Catalog:
    budget = BudgetSpec(Fraction(10**9), Fraction(1, 10), AccountantKind.RENYI, Fraction(1, 20))
    tables = {
        "visits": TableSpec(
            "visits",
            {c.name: c for c in COLUMNS},
            owner="uid" if level is Level.USER else None,
            budget=budget,
            limits=Limits(max_groups, max_rows),
        )
    }
    for name, (columns, _) in PUBLIC.items():
        tables[name] = TableSpec(name, {c.name: c for c in columns}, public=True)
    return Catalog(
        Path("small.yaml"),
        "duckdb://",
        PrivacyUnit(level, adjacency, group_size),
        PrivacyDefaults(None, None, None, None),
        tables,
    )
