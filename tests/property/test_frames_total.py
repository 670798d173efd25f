"""RANGE frames with a distance never raise, and hold what plain arithmetic says, for extreme values."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import duckdb
import pytest
from extremes import extreme_values

from dp_sql.executor.lower_expression import canonical
from dp_sql.executor.lower_row_aggregate import window_sql
from dp_sql.executor.lower_rows import name
from dp_sql.parser.frames import measured
from dp_sql.parser.scope import Statement
from dp_sql.plan.expression import Column, Ref
from dp_sql.plan.rows import Order, WindowFunction
from dp_sql.schema.sqltype import BIGINT, Kind, SqlType

TYPES = (
    *(SqlType(kind) for kind in (Kind.TINYINT, Kind.INTEGER, Kind.BIGINT, Kind.UBIGINT)),
    *(SqlType(kind) for kind in (Kind.FLOAT, Kind.DOUBLE, Kind.DATE, Kind.TIMESTAMP)),
    SqlType(Kind.DECIMAL, 18, 0),
    SqlType(Kind.DECIMAL, 18, 18),
)
DISTANCES = ("0", "1", "1000000")


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_a_frame_of_distances_never_raises(type_: SqlType) -> None:
    con: Any = duckdb.connect()
    con.execute(f"CREATE TABLE t (v {type_})")
    texts = [*extreme_values(type_), None]
    con.execute(f"INSERT INTO t SELECT TRY_CAST(unnest(?) AS {type_})", [texts])
    column = Column(1, "v", type_)
    key = measured(Statement("", None), Ref(column), None)  # type: ignore[arg-type]  no error is told
    rows = f"(SELECT {canonical('v', type_)} AS {name(column)} FROM t)"
    for distance in DISTANCES:
        frame = f"RANGE BETWEEN {distance} PRECEDING AND {distance} FOLLOWING"
        order = (Order(key, descending=False, nulls_first=False),)
        counted = WindowFunction("count", (), (), order, frame, Column(2, "n", BIGINT))
        texts = (
            window_sql(
                WindowFunction("any_value", (key,), (), order, "ROWS CURRENT ROW", column), name
            ),
            window_sql(counted, name),
        )
        found = con.execute(f"SELECT {', '.join(texts)} FROM {rows}").fetchall()
        if type_.is_float:
            continue
        values = [None if v is None else Fraction(v) for v, _ in found]
        for value, count in zip(values, (n for _, n in found), strict=True):
            near = [w for w in values if _near(value, w, int(distance))]
            assert count == len(near), f"{value} +- {distance}"


def _near(a: Fraction | None, b: Fraction | None, distance: int) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= distance
