"""A small catalog for tests that need names and types and no data."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import (
    AccountantKind,
    BudgetSpec,
    Catalog,
    ColumnSpec,
    Limits,
    PrivacyDefaults,
    TableSpec,
)
from dp_sql.schema.sqltype import SqlType

BUDGET = BudgetSpec(Fraction(10), Fraction(1, 10**6), AccountantKind.RENYI, Fraction(1, 2 * 10**6))


def _columns(**types: SqlType) -> dict[str, ColumnSpec]:
    return {name: ColumnSpec(name, kind) for name, kind in types.items()}


CATALOG = Catalog(
    Path("small.yaml"),
    "duckdb://",
    PrivacyUnit(Level.USER, Adjacency.ADD_REMOVE, name="user"),
    PrivacyDefaults(Fraction(1, 10), Fraction(1, 10**9), None, None),
    {
        "visits": TableSpec(
            "visits",
            {
                **_columns(user_id=sqltype.BIGINT, category=sqltype.VARCHAR, day=sqltype.DATE),
                "region": ColumnSpec("region", sqltype.VARCHAR, values=("n", "s", "w")),
                "amount": ColumnSpec("amount", sqltype.DOUBLE, low=0.0, high=200.0),
                "minutes": ColumnSpec("minutes", sqltype.INTEGER, low=0, high=480),
            },
            owner="user_id",
            budget=BUDGET,
            limits=Limits(2, 5),
        ),
        "users": TableSpec(
            "users",
            _columns(user_id=sqltype.BIGINT, plan=sqltype.VARCHAR),
            owner="user_id",
            budget=BUDGET,
            limits=Limits(1, 1),
        ),
        "regions": TableSpec(
            "regions", _columns(region=sqltype.VARCHAR, name=sqltype.VARCHAR), public=True
        ),
    },
)
