"""The SQL types that a column or an expression may have."""

from __future__ import annotations

from enum import StrEnum

from dp_sql.dataclass import dataclass


class Kind(StrEnum):
    """The families of types. Their values are DuckDB's names."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    HUGEINT = "HUGEINT"
    UTINYINT = "UTINYINT"
    USMALLINT = "USMALLINT"
    UINTEGER = "UINTEGER"
    UBIGINT = "UBIGINT"
    DECIMAL = "DECIMAL"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    VARCHAR = "VARCHAR"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    TIME = "TIME"
    INTERVAL = "INTERVAL"
    UUID = "UUID"
    NULL = "NULL"  # the type of a bare NULL before it meets another


INTEGER_BITS = {  # (smallest, largest) value of each integer kind
    Kind.TINYINT: (-(2**7), 2**7 - 1),
    Kind.SMALLINT: (-(2**15), 2**15 - 1),
    Kind.INTEGER: (-(2**31), 2**31 - 1),
    Kind.BIGINT: (-(2**63), 2**63 - 1),
    Kind.HUGEINT: (-(2**127), 2**127 - 1),
    Kind.UTINYINT: (0, 2**8 - 1),
    Kind.USMALLINT: (0, 2**16 - 1),
    Kind.UINTEGER: (0, 2**32 - 1),
    Kind.UBIGINT: (0, 2**64 - 1),
}


@dataclass(frozen=True, slots=True)
class SqlType:
    """One SQL type; `precision` and `scale` belong to DECIMAL alone (1 to 38, 0 to precision)."""

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __post_init__(self) -> None:
        decimal = self.kind is Kind.DECIMAL
        if decimal and not (1 <= self.precision <= 38 and 0 <= self.scale <= self.precision):
            raise ValueError("a DECIMAL has precision 1 to 38 and scale 0 to precision")
        if not decimal and (self.precision or self.scale):
            raise ValueError("only DECIMAL has a precision")

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision},{self.scale})"
        return self.kind.value

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers."""
        return self.kind in INTEGER_BITS

    @property
    def is_float(self) -> bool:
        """True for FLOAT and DOUBLE."""
        return self.kind in (Kind.FLOAT, Kind.DOUBLE)

    @property
    def is_numeric(self) -> bool:
        """True for integers, decimals and floats."""
        return self.is_integer or self.is_float or self.kind is Kind.DECIMAL


BOOLEAN = SqlType(Kind.BOOLEAN)
INTEGER = SqlType(Kind.INTEGER)
BIGINT = SqlType(Kind.BIGINT)
HUGEINT = SqlType(Kind.HUGEINT)
DOUBLE = SqlType(Kind.DOUBLE)
VARCHAR = SqlType(Kind.VARCHAR)
DATE = SqlType(Kind.DATE)
TIMESTAMP = SqlType(Kind.TIMESTAMP)
INTERVAL = SqlType(Kind.INTERVAL)
NULL = SqlType(Kind.NULL)
