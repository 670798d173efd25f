"""The oracle's schema of several tables: three with an owner, two owned through keys, two public.

A line belongs to whoever has an order with its order key, a mark to whoever owns a line with both of
its keys: nobody, one person or several.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from oracle.small_engine import Row

from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.catalog import (
    AccountantKind,
    BudgetSpec,
    Catalog,
    ColumnSpec,
    Limits,
    OwnerThrough,
    PrivacyDefaults,
    TableSpec,
)
from dp_sql.schema.sqltype import Kind, SqlType

INF, NAN = float("inf"), float("nan")
DAYS = (date(2024, 1, 30), date(2024, 2, 1), date(2024, 2, 2), date(2024, 1, 31))
FIRST, LAST = min(DAYS), max(DAYS)

INT, BIG, TEXT = SqlType(Kind.INTEGER), SqlType(Kind.BIGINT), SqlType(Kind.VARCHAR)
DAY, REAL, TRUTH = SqlType(Kind.DATE), SqlType(Kind.DOUBLE), SqlType(Kind.BOOLEAN)
MONEY = SqlType(Kind.DECIMAL, 6, 2)

OWNED: dict[str, tuple[ColumnSpec, ...]] = {
    "visits": (
        ColumnSpec("uid", BIG),
        ColumnSpec("i", INT),
        ColumnSpec("x", INT, -3, 5),
        ColumnSpec("n", INT, 0, 3, nullable=False),
        ColumnSpec("f", REAL, -1.5, 2.0),
        ColumnSpec("b", TRUTH),
        ColumnSpec("s", TEXT, values=("a", "b"), nullable=False),
        ColumnSpec("city", TEXT),
        ColumnSpec("d", DAY, FIRST, LAST),
    ),
    "persons": (
        ColumnSpec("uid", BIG),
        ColumnSpec("age", INT, 0, 4),
        ColumnSpec("sex", TEXT, values=("a", "b")),
        ColumnSpec("since", DAY, FIRST, LAST),
    ),
    "orders": (
        ColumnSpec("uid", BIG),
        ColumnSpec("ok", INT),
        ColumnSpec("total", INT, 0, 6),
        ColumnSpec("st", TEXT, values=("a", "b", "c")),
        ColumnSpec("day", DAY, FIRST, LAST),
    ),
}
"""The tables that hold the privacy key, in `uid`."""

THROUGH: dict[str, tuple[OwnerThrough, tuple[ColumnSpec, ...]]] = {
    "lines": (
        OwnerThrough("orders", (("ok", "ok"),)),
        (
            ColumnSpec("ok", INT),
            ColumnSpec("lk", INT),
            ColumnSpec("qty", INT, 1, 3, nullable=False),
            ColumnSpec("price", MONEY, Decimal("-0.5"), Decimal("2.5")),
            ColumnSpec("shade", TEXT),
        ),
    ),
    "marks": (
        OwnerThrough("lines", (("ok", "ok"), ("lk", "lk"))),
        (
            ColumnSpec("ok", INT),
            ColumnSpec("lk", INT),
            ColumnSpec("mark", INT, -2, 2),
            ColumnSpec("tag", TEXT, values=("a", "b")),
        ),
    ),
}
"""The tables that are owned through a foreign key."""

PUBLIC: dict[str, tuple[tuple[ColumnSpec, ...], tuple[Row, ...]]] = {
    "regions": (
        (
            ColumnSpec("city", TEXT, unique=True),
            ColumnSpec("area", TEXT, nullable=False),
            ColumnSpec("pop", INT, -2, 6, nullable=False),
        ),
        (("k1", "north", 6), ("k2", "south", -2), ("k9", "south", 1)),
    ),
    "tiers": (
        (
            ColumnSpec("age", INT),
            ColumnSpec("tier", TEXT),
            ColumnSpec("w", REAL, -1.0, 3.0),
        ),
        ((0, "low", 3.0), (0, "high", -1.0), (1, "low", 0.5), (3, None, 3.0), (None, "high", 1.0)),
    ),
}
"""Public tables: columns and rows. One has a NULL among its keys."""

PROTECTED = (*OWNED, *THROUGH)
COLUMNS: dict[str, tuple[ColumnSpec, ...]] = {
    **OWNED,
    **{name: columns for name, (_, columns) in THROUGH.items()},
}

KEYS = {"i": (0, 1, 2, 3, 4, None), "ok": (1, 2, 3, None), "lk": (1, 2, None)}
"""Values that rows share: few, so that they meet."""

TAME: dict[str, tuple[object, ...]] = {
    "x": (-3, 5, 0, 2, None),
    "n": (0, 3, 1, 2),
    "f": (-1.5, 2.0, 0.25, None),
    "b": (True, False, None),
    "s": ("a", "b"),
    "city": ("k1", "k2", None, "k3"),
    "d": (*DAYS, None),
    "age": (0, 4, 1, None, 3),
    "sex": ("a", "b", None),
    "since": (*DAYS, None),
    "total": (0, 6, 2, None, 1),
    "st": ("a", "b", None, "c"),
    "day": (*DAYS, None),
    "qty": (1, 3, 2),
    "price": (Decimal("-0.50"), Decimal("2.50"), Decimal("0.25"), None),
    "shade": ("k1", "k2", None),
    "mark": (-2, 2, 0, None, 1),
    "tag": ("a", "b", None),
}
"""What a column may hold where it keeps to its bounds."""

WILD: dict[str, tuple[object, ...]] = {
    "x": (9, -(2**31), 2**31 - 1),
    "n": (None, 7, -5),
    "f": (-0.0, NAN, INF, -INF, 1e300, 0.1),
    "b": (),
    "s": (None, "c", "A"),
    "city": ("", "k3 "),
    "d": (date(1, 1, 1), "infinity"),
    "age": (-1, 2**31 - 1),
    "sex": ("x", ""),
    "since": (date(9999, 12, 31), "-infinity"),
    "total": (-(2**31), 7),
    "st": ("", "C"),
    "day": ("infinity",),
    "qty": (None, 0, -7, 2**31 - 1),
    "price": (Decimal("9999.99"), Decimal("-9999.99")),
    "shade": ("",),
    "mark": (3, -(2**31)),
    "tag": ("c", ""),
}
"""What else it may hold: values that the schema promises aren't there."""


def family_catalog(
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    *,
    group_size: int = 1,
    max_groups: int = 1,
    max_rows: int = 1,
    unique: bool = False,
) -> Catalog:
    """Return the schema at user level; `unique`: persons and orders are promised to have a key."""
    budget = BudgetSpec(Fraction(10**12), Fraction(1, 10), AccountantKind.RENYI, Fraction(1, 20))
    keys = {"persons": (("uid",),), "orders": (("ok",),)} if unique else {}
    tables = {}
    for name, columns in COLUMNS.items():
        tables[name] = TableSpec(
            name,
            {c.name: c for c in columns},
            owner=THROUGH[name][0] if name in THROUGH else "uid",
            unique=keys.get(name, ()),
            budget=budget,
            limits=Limits(max_groups, max_rows),
        )
    for name, (columns, _) in PUBLIC.items():
        tables[name] = TableSpec(name, {c.name: c for c in columns}, public=True)
    return Catalog(
        Path("family.yaml"),
        "duckdb://",
        PrivacyUnit(Level.USER, adjacency, group_size),
        PrivacyDefaults(None, None, None, None),
        tables,
    )
