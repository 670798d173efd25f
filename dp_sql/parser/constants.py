"""Constants of the text: numbers, texts, dates, intervals and type names."""

from __future__ import annotations

import re
from decimal import Decimal

from sqlglot import exp

from dp_sql.parser.scope import Statement
from dp_sql.plan.expression import IntervalValue, Literal
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import INTEGER_BITS, Kind, SqlType

_KINDS = {
    exp.DType.BOOLEAN: Kind.BOOLEAN,
    exp.DType.TINYINT: Kind.TINYINT,
    exp.DType.SMALLINT: Kind.SMALLINT,
    exp.DType.INT: Kind.INTEGER,
    exp.DType.BIGINT: Kind.BIGINT,
    exp.DType.INT128: Kind.HUGEINT,
    exp.DType.UTINYINT: Kind.UTINYINT,
    exp.DType.USMALLINT: Kind.USMALLINT,
    exp.DType.UINT: Kind.UINTEGER,
    exp.DType.UBIGINT: Kind.UBIGINT,
    exp.DType.FLOAT: Kind.FLOAT,
    exp.DType.DOUBLE: Kind.DOUBLE,
    exp.DType.TEXT: Kind.VARCHAR,
    exp.DType.VARCHAR: Kind.VARCHAR,
    exp.DType.DATE: Kind.DATE,
    exp.DType.TIMESTAMP: Kind.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: Kind.TIMESTAMP,
}

_UNITS = {
    "microsecond": (0, 0, 1),
    "millisecond": (0, 0, 1_000),
    "second": (0, 0, 1_000_000),
    "minute": (0, 0, 60_000_000),
    "hour": (0, 0, 3_600_000_000),
    "day": (0, 1, 0),
    "week": (0, 7, 0),
    "month": (1, 0, 0),
    "quarter": (3, 0, 0),
    "year": (12, 0, 0),
    "decade": (120, 0, 0),
}
_PARTS = re.compile(r"\s*([+-]?\d{1,9})\s*([a-zA-Z]+)\s*")
_MOST = 1_000_000  # of any unit in an interval


def number(statement: Statement, node: exp.Literal, *, negative: bool = False) -> Literal:
    """Return a number of the text as DuckDB types it: INTEGER, BIGINT, HUGEINT, DECIMAL or DOUBLE."""
    text = node.name
    sign = "-" if negative else ""
    try:
        if "e" in text.lower():
            value = float(sign + text)
            if value in (float("inf"), float("-inf")):
                raise OverflowError
            return Literal(value, sqltype.DOUBLE)
        decimal = Decimal(sign + text)
        near = float(decimal)
        if near in (float("inf"), float("-inf")):
            raise OverflowError
    except (ArithmeticError, ValueError):
        raise statement.wrong(
            "this number can't be read or is too large.", node, hint="a number below 1.8e308"
        ) from None
    if "." not in text:
        whole = int(decimal)
        for kind in (Kind.INTEGER, Kind.BIGINT, Kind.HUGEINT):
            low, high = INTEGER_BITS[kind]
            if low <= whole <= high:
                return Literal(whole, SqlType(kind))
        return Literal(near, sqltype.DOUBLE)
    scale = len(text.split(".", 1)[1])
    digits = max(len(text.replace(".", "").lstrip("0")), scale, 1)
    if digits > 38:
        return Literal(near, sqltype.DOUBLE)
    return Literal(decimal, SqlType(Kind.DECIMAL, digits, scale))


def type_of(statement: Statement, node: exp.DataType) -> SqlType:
    """Return the type that the text names, or raise QueryError for one that isn't supported."""
    if node.this in (exp.DType.DECIMAL, exp.DType.BIGDECIMAL):
        parameters = [p.this for p in node.expressions if isinstance(p, exp.DataTypeParam)]
        numbers = [int(p.name) for p in parameters if isinstance(p, exp.Literal) and p.is_int]
        if len(numbers) != len(node.expressions) or len(numbers) > 2:
            raise statement.wrong("a DECIMAL is written DECIMAL(precision, scale).", node)
        precision, scale = (*numbers, *(18, 3)[len(numbers) :])[:2] if numbers else (18, 3)
        if len(numbers) == 1:
            scale = 0
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise statement.wrong("a DECIMAL has precision 1 to 38 and scale 0 to precision.", node)
        return SqlType(Kind.DECIMAL, precision, scale)
    kind = _KINDS.get(node.this)
    if kind is None or (node.expressions and kind is not Kind.VARCHAR):
        raise statement.unsupported(
            f"the type {node.sql(dialect='duckdb')} isn't answered.",
            node,
            hint="BOOLEAN, INTEGER, BIGINT, DECIMAL, DOUBLE, VARCHAR, DATE or TIMESTAMP",
        )
    return SqlType(kind)


def interval(statement: Statement, node: exp.Interval) -> Literal:
    """Return a constant interval such as INTERVAL 3 DAY or INTERVAL '1 year 2 months'."""
    amount, unit = node.this, node.args.get("unit")
    sign = 1
    while isinstance(amount, exp.Paren | exp.Neg):
        sign = -sign if isinstance(amount, exp.Neg) else sign
        amount = amount.this
    if not isinstance(amount, exp.Literal):
        raise statement.unsupported(
            f"INTERVAL (…) {node.text('unit').upper()} of a column isn't answered.",
            node,
            hint="a unit from SECOND to YEAR, as in INTERVAL (x) DAY",
        )
    text = f"{amount.name} {unit.name}" if isinstance(unit, exp.Var) else amount.name
    parts = list(_PARTS.finditer(text))
    if not parts or "".join(p.group() for p in parts) != text:
        raise statement.wrong("this interval can't be read.", node, hint="INTERVAL '1 month'")
    months = days = micros = 0
    for part in parts:
        count, name = sign * int(part.group(1)), part.group(2).lower()
        factors = _UNITS.get(name) or _UNITS.get(name.removesuffix("s"))
        if factors is None or abs(count) > _MOST:
            raise statement.wrong("this interval can't be read.", node, hint="INTERVAL '1 month'")
        months += count * factors[0]
        days += count * factors[1]
        micros += count * factors[2]
    if max(abs(months), abs(days)) > _MOST or abs(micros) > _MOST * 3_600_000_000:
        raise statement.wrong("this interval is too long.", node)
    return Literal(IntervalValue(months, days, micros), sqltype.INTERVAL)
