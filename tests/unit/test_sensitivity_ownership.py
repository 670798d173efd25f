"""Which casts of an owner still tell owners apart: DuckDB says for every pair of integer types."""

from __future__ import annotations

import duckdb
import pytest

from dp_sql.plan.expression import Cast, Column, Ref
from dp_sql.schema.sqltype import Kind, SqlType
from dp_sql.sensitivity.ownership import holds_owner

SIGNED = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
UNSIGNED = {"UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64}
ENDS = {
    **{name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in SIGNED.items()},
    **{name: (0, 2**bits - 1) for name, bits in UNSIGNED.items()},
}


@pytest.mark.parametrize("inner", ENDS)
def test_a_cast_of_an_owner_is_one_where_it_loses_no_value(inner: str) -> None:
    """A value that the type hasn't becomes NULL, and so would other owners: they'd be one."""
    column = Column(1, "uid", SqlType(Kind[inner]))
    for outer in ENDS:
        kept = duckdb.sql(
            " UNION ALL ".join(
                f"SELECT TRY_CAST(CAST('{end}' AS {inner}) AS {outer}) IS NOT NULL"
                for end in ENDS[inner]
            )
        ).fetchall()
        cast = Cast(Ref(column), SqlType(Kind[outer]))
        assert holds_owner(cast, {1}) == all(one for (one,) in kept), outer
        assert not holds_owner(cast, {2})
