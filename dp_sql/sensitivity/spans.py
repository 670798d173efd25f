"""Sets of values of one column: those for which a condition can be true."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import timedelta
from fractions import Fraction

from dp_sql.plan.conversion import DAY_MICROSECONDS, EPOCH, position
from dp_sql.plan.expression import Call, Cast, Column, Expression, Literal, Ref
from dp_sql.schema.sqltype import Kind, SqlType

_SAME = "is_not_distinct_from"
End = int | float  # a float is an infinity
Spans = tuple[tuple[End, End], ...]
"""Whole numbers from one end to the other, both included; in order, with a number between any two."""
Values = Spans | frozenset[str]
"""Values that aren't NULL: texts, or whole numbers, which stand for dates as days since 1970-01-01."""

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", _SAME: _SAME}


def values_where(condition: Expression, column: Column) -> Values | None:
    """Return the values of a column for which a condition can be true; None for any, NULL too.

    Claim:   on each row for which the condition is true the column has one of these values, not NULL.
    Why:     AND is true where all of its parts are, OR where one is. A comparison with a constant is
             true of the values that satisfy it and never of NULL, as equality of texts is equality
             of their bits, and whole numbers and dates are compared exactly: a cast of them to
             another exact type, or of a date to its midnight, keeps the order or gives NULL.
             Everything else is taken to be true of every value.
    Assumes: the engine refuses columns whose collation takes different texts for one
             (`executor.sources.require_bitwise`), and the column's type is one of `can_be_block`.
    Source:  [DuckDB2025]
    """
    match condition:
        case Ref(column=found) if found == column and column.type.kind is Kind.BOOLEAN:
            return ((1, 1),)
        case Call(function="not", args=(Ref(column=found),)) if found == column:
            return ((0, 0),)
        case Call(function="and", args=args):
            parts = [v for arg in args if (v := values_where(arg, column)) is not None]
            return all_of(parts)
        case Call(function="or", args=args):
            branches = [values_where(arg, column) for arg in args]
            known = [v for v in branches if v is not None]
            return any_of(known, column.type) if len(known) == len(branches) else None
        case Call(function="in", args=(operand, *listed)):
            found_all = [_compared("=", operand, one, column) for one in listed if not _null(one)]
            known = [v for v in found_all if v is not None]
            return any_of(known, column.type) if len(known) == len(found_all) else None
        case Call(function="between", args=(operand, low, high)):
            ends = (_compared(">=", operand, low, column), _compared("<=", operand, high, column))
            return None if None in ends else all_of([end for end in ends if end is not None])
        case Call(function=sign, args=(left, right)) if sign in _FLIPPED:
            direct = _compared(sign, left, right, column)
            return _compared(_FLIPPED[sign], right, left, column) if direct is None else direct
        case _:
            return None


def all_of(sets: Iterable[Values]) -> Values | None:
    """Return what is in each of some sets of one kind; None where there are none."""
    found: Values | None = None
    for one in sets:
        found = one if found is None else _both(found, one)
    return found


def any_of(sets: Iterable[Values], type_: SqlType) -> Values:
    """Return what is in one of some sets of values of a type."""
    if _is_text(type_):
        return frozenset(text for one in sets if isinstance(one, frozenset) for text in one)
    return _in_order(span for one in sets if isinstance(one, tuple) for span in one)


def names_of(values: Values, type_: SqlType, most: int) -> frozenset[str] | None:
    """Return the names of the blocks of some values of a type; None for more than `most`."""
    if isinstance(values, frozenset):
        return values if len(values) <= most else None
    if sum(high - low + 1 for low, high in values) > most:
        return None
    numbers = (n for low, high in values for n in range(int(low), int(high) + 1))
    return frozenset(_name(number, type_) for number in numbers)


def open_end(values: Values) -> str:
    """Return which end of a set is missing, "" for none."""
    if isinstance(values, frozenset) or not values:
        return ""
    missing = {"lower": values[0][0], "upper": values[-1][1]}
    return " and ".join(word for word, end in missing.items() if math.isinf(end))


def _name(number: int, type_: SqlType) -> str:
    match type_.kind:
        case Kind.DATE:
            return (EPOCH + timedelta(days=number)).date().isoformat()
        case Kind.BOOLEAN:
            return "true" if number else "false"
        case _:
            return str(number)


def _is_text(type_: SqlType) -> bool:
    return type_.kind in (Kind.VARCHAR, Kind.UUID)


def _null(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is None


def _compared(sign: str, operand: Expression, other: Expression, column: Column) -> Values | None:
    """Return the column's values for which `operand sign other` is true, None where any may be."""
    if not isinstance(other, Literal):
        return None
    if _is_text(column.type):
        same = operand == Ref(column) and other.type == column.type and sign in ("=", _SAME)
        return frozenset({other.value}) if same and isinstance(other.value, str) else None
    unit, place = _unit(operand, column), position(other)
    if unit is None or place is None or other.type.is_float:
        return None
    return _number_spans(sign, place / unit)


def _unit(operand: Expression, column: Column) -> int | None:
    """Return by how much `operand` grows where the column grows by 1; None where it isn't the column."""
    if operand == Ref(column):
        return 1
    if not isinstance(operand, Cast) or operand.operand != Ref(column):
        return None
    own, other = column.type, operand.type
    if own.is_numeric and other.is_numeric and not other.is_float:
        return 1
    return DAY_MICROSECONDS if (own.kind, other.kind) == (Kind.DATE, Kind.TIMESTAMP) else None


def _number_spans(sign: str, place: Fraction) -> Spans:
    down, up = math.floor(place), math.ceil(place)
    match sign:
        case "<":
            return ((-math.inf, up - 1),)
        case "<=":
            return ((-math.inf, down),)
        case ">":
            return ((down + 1, math.inf),)
        case ">=":
            return ((up, math.inf),)
        case _:
            return _in_order([(up, down)])


def _both(one: Values, other: Values) -> Values:
    if isinstance(one, frozenset) or isinstance(other, frozenset):
        texts = [s for s in (one, other) if isinstance(s, frozenset)]
        return frozenset.intersection(*texts)
    found, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        found.append((max(one[i][0], other[j][0]), min(one[i][1], other[j][1])))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return _in_order(found)


def _in_order(spans: Iterable[tuple[End, End]]) -> Spans:
    """Return the same numbers in order; what is empty is left out, what meets is one span."""
    found: list[tuple[End, End]] = []
    for low, high in sorted(spans):
        if low > high:
            continue
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)
