"""One value as text: exactly, for csv and json, or shortened to its error, for people."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

from dp_sql.result import Interval

_NUMERIC = frozenset(
    "TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT FLOAT "
    "DOUBLE".split()
)
_SYMMETRIC = Decimal(
    "0.01"
)  # both halves of an interval may differ by this share and be shown as one
_LONGEST = Decimal(10**15)  # from here on, nothing is rounded: floats hold no more digits


def exact_text(value: object) -> str:
    """Return a value with every digit it has, as DuckDB writes it; NULL is "NULL"."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case float():
            return _float_text(value)
        case Decimal():
            return format(value, "f")
        case datetime():
            return value.isoformat(sep=" ")
        case date() | time():
            return value.isoformat()
        case bytes():
            return "\\x" + value.hex()
        case Mapping():
            return (
                "{" + ", ".join(f"{exact_text(k)}: {exact_text(v)}" for k, v in value.items()) + "}"
            )
        case list() | tuple():
            return "[" + ", ".join(exact_text(v) for v in value) + "]"
        case _:
            return str(value)


def json_text(value: object) -> str:
    """Return a value as JSON: numbers with every digit, NaN and infinities as texts."""
    match value:
        case None | bool() | int():
            return json.dumps(value)
        case float():
            return repr(value) if math.isfinite(value) else json.dumps(_float_text(value))
        case Decimal():
            return format(value, "f")
        case Mapping():
            items = (f"{json_text(exact_text(k))}: {json_text(v)}" for k, v in value.items())
            return "{" + ", ".join(items) + "}"
        case list() | tuple():
            return "[" + ", ".join(json_text(v) for v in value) + "]"
        case _:
            return json.dumps(exact_text(value), ensure_ascii=False)


def with_interval(value: object, interval: Interval) -> str:
    """Return a value beside its interval: `123 ± 4`, or `123 [120, 130]` where it isn't symmetric.

    A value with an interval is rounded to the second digit of its error, and the interval outwards;
    csv and json give every digit.
    """
    number = _number(value)
    if number is None or interval is None or any(math.isnan(end) for end in interval):
        return exact_text(value)
    low, high = (Decimal(repr(end)) for end in interval)
    error = max(number - low, high - number)
    if error <= 0:
        return exact_text(value)
    if not error.is_finite() or abs(number) >= _LONGEST or error >= _LONGEST:
        return f"{exact_text(value)} [{exact_text(interval[0])}, {exact_text(interval[1])}]"
    digits = 1 - error.adjusted()  # after the point; negative: zeros before it
    tolerance = _SYMMETRIC * error
    if isinstance(value, int):
        digits = min(digits, 0)
        tolerance = max(tolerance, Decimal(1))  # the ends were rounded to whole numbers
    places = max(digits, 0)
    shown = _rounded(number, places, ROUND_HALF_EVEN)
    if abs((number - low) - (high - number)) <= tolerance:
        return f"{shown} ± {_rounded(error, digits, ROUND_CEILING)}"
    return (
        f"{shown} [{_rounded(low, places, ROUND_FLOOR)}, {_rounded(high, places, ROUND_CEILING)}]"
    )


def visible(text: str) -> str:
    """Return `text` with its control characters written out, so that no value steers a terminal."""
    return "".join(c if c.isprintable() or c == " " else _escaped(c) for c in text)


def is_numeric_type(kind: str) -> bool:
    """Return whether a column of this SQL type is set to the right."""
    return kind in _NUMERIC or (kind.startswith("DECIMAL(") and kind.endswith(")"))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _number(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return number if number.is_finite() else None


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)


def _rounded(number: Decimal, digits: int, rounding: str) -> str:
    rounded = number.quantize(Decimal(1).scaleb(-digits), rounding=rounding)
    return format(abs(rounded) if rounded == 0 else rounded, "f")
