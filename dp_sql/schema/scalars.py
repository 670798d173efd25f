"""Values of the file -> values of a column's type: bounds and public lists, exactly."""

from __future__ import annotations

import math
import re
import struct
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from dp_sql.privacy.decimals import decimal_text
from dp_sql.schema.catalog import Scalar
from dp_sql.schema.document import Problem, describe, shorten
from dp_sql.schema.sqltype import INTEGER_BITS, Kind, SqlType

Ordered = int | float | Decimal | date | datetime

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EXAMPLES = {
    Kind.DATE: "2020-01-31",
    Kind.TIMESTAMP: "2020-01-31 00:00:00",
    Kind.UUID: '"123e4567-e89b-12d3-a456-426614174000"',
}


def has_bounds(type_: SqlType) -> bool:
    """Return whether columns of the type may declare bounds: numbers, dates and timestamps."""
    return type_.is_numeric or type_.kind in (Kind.DATE, Kind.TIMESTAMP)


def typed(value: object, type_: SqlType) -> Scalar:
    """Return `value`, as the file gives it, as a value of the type; raise Problem if it is none.

    Integers are int, decimals Decimal with the type's scale, floats the nearest finite float (of
    the four bytes of FLOAT) and never -0.0, UUIDs their lower-case text.
    """
    match type_.kind:
        case Kind.BOOLEAN if isinstance(value, bool):
            return value
        case Kind.DECIMAL if _is_number(value):
            return _decimal(_finite(value, type_), type_)
        case Kind.FLOAT | Kind.DOUBLE if _is_number(value):
            return _float(_finite(value, type_), type_)
        case Kind.VARCHAR if isinstance(value, str):
            return value
        case Kind.DATE if isinstance(value, date) and not isinstance(value, datetime):
            return value
        case Kind.TIMESTAMP if isinstance(value, datetime):
            return value
        case Kind.UUID if isinstance(value, str) and _UUID.fullmatch(value.lower()):
            return value.lower()
        case kind if kind in INTEGER_BITS and _is_number(value):
            return _integer(_finite(value, type_), type_)
        case Kind.TIME:
            raise Problem(
                "columns of type TIME can't declare values.", hint="remove the key `values`"
            )
    raise _mismatch(value, type_)


def ordered(value: object, type_: SqlType) -> Ordered:
    """Return `value` as an end of the bounds of a column of the type, or raise Problem.

    Raises Problem for types without order, too; see `has_bounds`.
    """
    if not has_bounds(type_):
        raise Problem(
            f"columns of type {type_} have no bounds; numbers, dates and timestamps have.",
            hint="remove `bounds`, or list the public `values`",
        )
    found = typed(value, type_)
    assert not isinstance(found, bool | str)  # noqa: S101 -- what has_bounds leaves
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _finite(value: object, type_: SqlType) -> Decimal:
    """Return a number as a decimal, or raise Problem for NaN and infinities."""
    number = Decimal(str(value))
    if not number.is_finite():
        raise Problem(
            f"{'NaN' if number.is_nan() else 'an infinity'} is not a value that a {type_} column "
            "can have here.",
            hint="write a finite number",
        )
    return number


def _integer(number: Decimal, type_: SqlType) -> int:
    low, high = INTEGER_BITS[type_.kind]
    if not low <= number <= high:
        raise Problem(
            f"{_short(number)} is outside of {type_}, which reaches from {low} to {high}."
        )
    if number != (whole := int(number)):
        raise Problem(f"{_short(number)} is not a whole number, as {type_} wants.")
    return whole


def _decimal(number: Decimal, type_: SqlType) -> Decimal:
    if number.copy_abs() >= Decimal(10) ** (type_.precision - type_.scale):
        raise Problem(
            f"{_short(number)} is outside of {type_}, which has {type_.precision - type_.scale} "
            "digits before the point."
        )
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)  # noqa: S101 -- finite
    shift = exponent + type_.scale  # the number is digits * 10^shift steps of the scale
    whole = int("".join(map(str, digits)))
    if shift < 0 and whole % 10**-shift:
        raise Problem(
            f"{_short(number)} has more than the {type_.scale} digits after the point of {type_}."
        )
    steps = whole * 10**shift if shift >= 0 else whole // 10**-shift
    return Decimal((sign if steps else 0, tuple(map(int, str(steps))), -type_.scale))


def _float(number: Decimal, type_: SqlType) -> float:
    nearest = float(number)
    try:
        if type_.kind is Kind.FLOAT:
            (nearest,) = struct.unpack("<f", struct.pack("<f", nearest))
    except OverflowError:
        nearest = math.inf
    if math.isinf(nearest):
        raise Problem(f"{_short(number)} is outside of {type_}.")
    return nearest + 0.0  # no -0.0


def _short(number: Decimal) -> str:
    return shorten(str(number), 40)[1:-1]


def _mismatch(value: object, type_: SqlType) -> Problem:
    """Return the problem of a value whose YAML type isn't the column's."""
    if value is None:
        return Problem(
            f"a value of type {type_} is wanted here, not NULL.",
            hint="write the value, or in quotes if the text 'null' is meant"
            if type_.kind is Kind.VARCHAR
            else "write the value",
        )
    if type_.kind is Kind.VARCHAR and not isinstance(value, list | dict):
        return Problem(
            f"a text is wanted here, not {describe(value)}.",
            hint=f'put it in quotes: "{_yaml_word(value)}"',
        )
    if isinstance(value, str) and (type_.is_numeric or type_.kind in (Kind.BOOLEAN, Kind.DATE)):
        example = _EXAMPLES.get(type_.kind, "true" if type_.kind is Kind.BOOLEAN else "10")
        return Problem(
            f"a value of type {type_} is wanted here, not {describe(value)}.",
            hint=f"write it without quotes, such as {example}",
        )
    if type_.kind is Kind.TIMESTAMP:
        return Problem(
            f"a timestamp with its time and without a time zone is wanted here, "
            f"not {describe(value)}.",
            hint=f"write it without quotes, such as {_EXAMPLES[Kind.TIMESTAMP]}",
        )
    example = _EXAMPLES.get(type_.kind, "true" if type_.kind is Kind.BOOLEAN else "10")
    return Problem(
        f"a value of type {type_} is wanted here, not {describe(value)}.", hint=f"such as {example}"
    )


def _yaml_word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else shorten(str(value))[1:-1]


def as_typed(type_: SqlType, number: Fraction) -> int | float | Decimal:
    """Return a number as a type has it, cut off to a whole one for integers."""
    if type_.is_integer:
        return math.floor(number)
    return Decimal(decimal_text(number)) if type_.kind is Kind.DECIMAL else float(number)
