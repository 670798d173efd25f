"""Types that meet: the common type of several expressions, casts, and constants read as another type.

The common types are DuckDB's. What DuckDB converts silently but may fail on a row (a text column
compared with a number) is refused; a constant of the statement is converted here, or refused here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

from dp_sql.plan.expression import Cast, Expression, Literal, LiteralValue
from dp_sql.plan.signature import TypeProblem, described
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import INTEGER_BITS, Kind, SqlType

INTEGER_DIGITS = {  # decimal digits that hold every value of the kind; 38 is all that DECIMAL has
    Kind.TINYINT: 3,
    Kind.SMALLINT: 5,
    Kind.INTEGER: 10,
    Kind.BIGINT: 19,
    Kind.HUGEINT: 38,
    Kind.UTINYINT: 3,
    Kind.USMALLINT: 5,
    Kind.UINTEGER: 10,
    Kind.UBIGINT: 20,
}
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (a TIMESTAMP has no zone)
DAY_MICROSECONDS = 86_400_000_000
_SIGNED = (Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.HUGEINT)
_UNSIGNED = (Kind.UTINYINT, Kind.USMALLINT, Kind.UINTEGER, Kind.UBIGINT)
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}")
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?")
_FLOATS_FROM = 10**38  # every number below is in the range of FLOAT
_EXACT_FLOAT = 2**53  # integers up to here are DOUBLEs


def is_null(expression: Expression) -> bool:
    """Return True for the constant NULL, of whatever type."""
    return isinstance(expression, Literal) and expression.value is None


def decimal_of(type_: SqlType) -> SqlType:
    """Return the DECIMAL that DuckDB takes an integer type for, and a DECIMAL as it is."""
    if type_.kind is Kind.DECIMAL:
        return type_
    return SqlType(Kind.DECIMAL, INTEGER_DIGITS[type_.kind], 0)


def common_type(first: SqlType, second: SqlType) -> SqlType:
    """Return the type that values of both types are compared in.

    Raises:
        TypeProblem: where there is none that every value converts to by itself.
    """
    if first == second or second.kind is Kind.NULL:
        return first
    if first.kind is Kind.NULL:
        return second
    kinds = {first.kind, second.kind}
    if first.is_integer and second.is_integer:
        return SqlType(_common_integer(first.kind, second.kind))
    if first.is_numeric and second.is_numeric:
        if Kind.DOUBLE in kinds:
            return sqltype.DOUBLE
        if Kind.FLOAT in kinds:
            return SqlType(Kind.FLOAT)
        one, two = decimal_of(first), decimal_of(second)
        scale = max(one.scale, two.scale)
        whole = max(one.precision - one.scale, two.precision - two.scale)
        return SqlType(Kind.DECIMAL, min(38, whole + scale), scale)
    if kinds == {Kind.DATE, Kind.TIMESTAMP}:
        return sqltype.TIMESTAMP
    if Kind.BOOLEAN in kinds and (first.is_integer or second.is_integer):
        return first if first.is_integer else second
    raise TypeProblem(f"{described(first)} and {described(second)} don't go together")


def chosen_type(first: SqlType, second: SqlType) -> SqlType:
    """Return the type of a value that is one of either: as `common_type`, but decimals keep digits.

    Two DECIMALs that need more than 38 digits give up decimal places, where a comparison gives up
    whole digits.
    """
    shared = common_type(first, second)
    if first.kind is second.kind is Kind.DECIMAL:
        whole = max(first.precision - first.scale, second.precision - second.scale)
        return SqlType(Kind.DECIMAL, shared.precision, min(shared.scale, 38 - whole))
    return shared


def _common_integer(first: Kind, second: Kind) -> Kind:
    for family in (_SIGNED, _UNSIGNED):
        if first in family and second in family:
            return max(first, second, key=family.index)
    signed, unsigned = (first, second) if first in _SIGNED else (second, first)
    return max(signed, _SIGNED[_UNSIGNED.index(unsigned) + 1], key=_SIGNED.index)


def unify(
    args: Sequence[Expression],
    *,
    what: str,
    meet: Callable[[SqlType, SqlType], SqlType] = common_type,
) -> tuple[tuple[Expression, ...], SqlType]:
    """Return the arguments as their common type, and that type.

    Constant texts become constants of the type of the others. `what` begins the message; `meet`
    gives the type of two types.

    Raises:
        TypeProblem: where they don't go together, or a constant text can't be read.
    """
    others = [a.type for a in args if not _is_text(a)]
    type_ = sqltype.NULL
    try:
        for other in others:
            type_ = meet(type_, other)
    except TypeProblem as problem:
        raise TypeProblem(f"{what}: {problem}") from None
    if type_.kind is Kind.NULL and len(others) < len(args):
        type_ = sqltype.VARCHAR
    return tuple(cast(read(a, type_), type_) for a in args), type_


def _is_text(expression: Expression) -> bool:
    return isinstance(expression, Literal) and isinstance(expression.value, str)


def read(expression: Expression, type_: SqlType) -> Expression:
    """Return a constant text as a constant of `type_`; everything else as it is.

    Raises:
        TypeProblem: for a text that is no value of that type.
    """
    if not isinstance(expression, Literal) or not isinstance(expression.value, str):
        return expression
    if type_.kind is Kind.VARCHAR:
        return expression
    try:
        return Literal(_parse(expression.value.strip(), type_), type_)
    except (ValueError, KeyError, ArithmeticError):
        raise TypeProblem(f"'{expression.value}' is not {_noun(type_)}") from None


def _noun(type_: SqlType) -> str:
    bits = INTEGER_BITS.get(type_.kind)
    if bits is not None:
        return f"a whole number from {bits[0]} to {bits[1]}"
    nouns = {
        Kind.DATE: "a date",
        Kind.TIMESTAMP: "a timestamp",
        Kind.TIME: "a time",
        Kind.BOOLEAN: "true or false",
        Kind.FLOAT: "a number",
        Kind.DOUBLE: "a number",
    }
    return nouns.get(type_.kind, f"of the type {type_}")


def _parse(text: str, type_: SqlType) -> LiteralValue:
    match type_.kind:
        case Kind.DATE:
            return _parse_date(text)
        case Kind.TIMESTAMP:
            day, _, rest = text.replace("T", " ").partition(" ")
            return datetime.combine(_parse_date(day), _parse_time(rest.strip() or "00:00"))
        case Kind.TIME:
            return _parse_time(text)
        case Kind.BOOLEAN:
            return {"true": True, "t": True, "false": False, "f": False}[text.lower()]
        case Kind.UUID:
            return str(UUID(text))
        case Kind.DECIMAL:
            return _fitting(Decimal(text), type_)
        case Kind.FLOAT | Kind.DOUBLE:
            value = float(Decimal(text))
            if value in (float("inf"), float("-inf")):
                raise ValueError
            return value + 0.0
        case kind if kind in INTEGER_BITS:
            whole = Decimal(text)
            low, high = INTEGER_BITS[kind]
            if whole != int(whole) or not low <= whole <= high:
                raise ValueError
            return int(whole)
        case _:
            raise ValueError
    raise ValueError


def _parse_date(text: str) -> date:
    if not _DATE.fullmatch(text):
        raise ValueError
    year, month, day = (int(part) for part in text.split("-"))
    return date(year, month, day)


def _parse_time(text: str) -> time:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError
    hour, minute, second, fraction = match.groups()
    return time(int(hour), int(minute), int(second or 0), int((fraction or "0").ljust(6, "0")))


def _fitting(value: Decimal, type_: SqlType) -> Decimal:
    """Return the value with the scale of a DECIMAL. Raises ValueError where it isn't one of its."""
    steps = Fraction(value) * 10**type_.scale if value.is_finite() else None
    if steps is None or steps.denominator != 1 or abs(steps) >= 10**type_.precision:
        raise ValueError
    return decimal_of_steps(int(steps), type_.scale)


def decimal_of_steps(steps: int, scale: int) -> Decimal:
    """Return steps / 10^scale exactly, whatever the number of digits."""
    return Decimal((int(steps < 0), tuple(map(int, str(abs(steps)))), -scale))


def castable(source: SqlType, target: SqlType) -> bool:
    """Return True where a cast between the types exists (it may give NULL on a row)."""
    if source == target or source.kind is Kind.NULL or target.kind is Kind.VARCHAR:
        return target.kind is not Kind.NULL or source.kind is Kind.NULL
    if source.kind is Kind.VARCHAR:
        return target.kind not in (Kind.NULL, Kind.INTERVAL)
    numbers = source.is_numeric or source.kind is Kind.BOOLEAN
    if numbers and (target.is_numeric or target.kind is Kind.BOOLEAN):
        return True
    pairs = ((Kind.DATE, Kind.TIMESTAMP), (Kind.TIMESTAMP, Kind.DATE), (Kind.TIMESTAMP, Kind.TIME))
    return (source.kind, target.kind) in pairs


def cast(expression: Expression, type_: SqlType) -> Expression:
    """Return the expression as another type, a constant where a constant can be converted exactly.

    Raises:
        TypeProblem: where no value of its type has one in the other.
    """
    source = expression.type
    if source == type_:
        return expression
    if not castable(source, type_):
        raise TypeProblem(f"{described(source)} can't be cast to {described(type_)}")
    if isinstance(expression, Literal):
        value = _converted(expression.value, type_)
        if value is not None or expression.value is None:
            return Literal(value, type_)
    return Cast(expression, type_)


def _converted(value: LiteralValue, type_: SqlType) -> LiteralValue:
    """Return a constant as a value of `type_`, or None where only the engine can tell."""
    match value:
        case bool():
            return None
        case int() if type_.kind in INTEGER_BITS:
            low, high = INTEGER_BITS[type_.kind]
            return value if low <= value <= high else None
        case int() if type_.kind is Kind.DOUBLE:
            return float(value) if abs(value) <= _EXACT_FLOAT else None
        case int() | Decimal() if type_.kind is Kind.DECIMAL:
            try:
                return _fitting(Decimal(value), type_)
            except ValueError:
                return None
        case datetime():
            return None
        case date() if type_.kind is Kind.TIMESTAMP:
            return datetime.combine(value, time())
        case _:
            return None


def literal_decimal(expression: Expression) -> Expression:
    """Return a constant integer as the narrowest DECIMAL; everything else as its DECIMAL."""
    if isinstance(expression, Literal) and type(expression.value) is int:
        digits = min(38, max(1, len(str(abs(expression.value)))))
        return cast(expression, SqlType(Kind.DECIMAL, digits, 0))
    return cast(expression, decimal_of(expression.type))


def step_of(type_: SqlType) -> Fraction | None:
    """Return what every value of a type is a multiple of, None for floats, texts and the like."""
    if type_.kind is Kind.DECIMAL:
        return Fraction(1, 10**type_.scale)
    whole = type_.is_integer or type_.kind in (Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP)
    return Fraction(1) if whole else None


def position(expression: Expression) -> Fraction | None:
    """Return where a constant lies among the values of its domain; None for all but constants.

    Numbers stand for themselves, booleans are 0 and 1, dates are days and timestamps microseconds
    since 1970-01-01. Texts, times, intervals and NULL have no place.
    """
    match expression:
        case Cast(operand=operand, type=type_):
            inner = position(operand)
            if inner is None or not (type_.is_numeric and operand.type.is_numeric):
                return None
            if type_.is_integer:
                inner = Fraction(round(inner))
            return inner if _in_range(inner, type_) else None
        case Literal(value=bool() | int() | float() | Decimal() as value):
            return Fraction(value)
        case Literal(value=datetime() as value):
            return Fraction(microseconds_of(value))
        case Literal(value=date() as value):
            return Fraction(days_of(value))
        case _:
            return None


def _in_range(value: Fraction, type_: SqlType) -> bool:
    """Return True where a cast of the number to the type isn't NULL for its size."""
    if type_.kind in INTEGER_BITS:
        low, high = INTEGER_BITS[type_.kind]
        return low <= value <= high
    if type_.kind is Kind.DECIMAL:
        whole: int = 10 ** (type_.precision - type_.scale)
        return abs(value) <= whole - 1
    return abs(value) < _FLOATS_FROM


def microseconds_of(value: datetime) -> int:
    """Return microseconds since 1970-01-01."""
    return (value - EPOCH) // timedelta(microseconds=1)


def days_of(value: date) -> int:
    """Return days since 1970-01-01."""
    return value.toordinal() - EPOCH.toordinal()
