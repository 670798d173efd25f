"""Casts that give different values for different values."""

from __future__ import annotations

from dp_sql.plan.expression import Cast, Column, Expression, Ref
from dp_sql.schema.sqltype import INTEGER_BITS, Kind, SqlType

_TEXTS = (*INTEGER_BITS, Kind.DATE, Kind.UUID)  # types whose texts tell their values
_EXACT = 2**53  # up to here a DOUBLE has every whole number


def injective_column(expression: Expression) -> Column | None:
    """Return the column that an expression is under casts that lose nothing; None for all others.

    Claim:   for two different values of the column the expression has different values, or NULL for
             one of them: no more rows are equal to one value in the expression than in the column.
    Why:     step by step. A whole number stays itself in every type of whole numbers and decimals
             that has it, and up to 2^53 as a DOUBLE; a decimal with as many places or more, a FLOAT
             as a DOUBLE, a date as its midnight. The texts of whole numbers, dates and UUIDs tell
             them. What doesn't fit is NULL. All other casts may make one value of several: a larger
             number as a DOUBLE, a text as a number ('1' and '01'), a timestamp as a date.
    Assumes: a value that a cast can't give is NULL, and casts are canonical (`plan.conversion`).
    Source:  IEEE 754, 5.3: integers of 53 bits are exact in binary64.
    """
    steps = []
    while isinstance(expression, Cast):
        steps.append(expression.type)
        expression = expression.operand
    if not isinstance(expression, Ref):
        return None
    now = expression.column.type
    for target in reversed(steps):
        if not _is_injective(now, target):
            return None
        now = target
    return expression.column


def _is_injective(source: SqlType, target: SqlType) -> bool:
    if source == target:
        return True
    match source.kind, target.kind:
        case (Kind.DATE, Kind.TIMESTAMP) | (Kind.FLOAT, Kind.DOUBLE):
            return True
        case (Kind.DECIMAL, Kind.DECIMAL):
            return target.scale >= source.scale
        case (kind, Kind.VARCHAR):
            return kind in _TEXTS
        case (kind, Kind.DOUBLE) if kind in INTEGER_BITS:
            return all(abs(end) <= _EXACT for end in INTEGER_BITS[kind])
        case (kind, other):
            return kind in INTEGER_BITS and (other in INTEGER_BITS or other is Kind.DECIMAL)
    return False
