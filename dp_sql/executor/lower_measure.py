"""Lowers measures: a row's argument becomes one integer on the measure's grid.

What is summed of it, and how its sums make the components, is in `lower_sums`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from dp_sql.errors import InternalError, UnsupportedSQLError
from dp_sql.plan.conversion import decimal_of_steps
from dp_sql.plan.functions import step_of
from dp_sql.plan.relation import (
    CountMeasure,
    Measure,
    MomentMeasure,
    PresenceMeasure,
    SumMeasure,
)
from dp_sql.plan.sql_text import literal, once
from dp_sql.schema.sqltype import BIGINT, DOUBLE, HUGEINT, INTEGER, INTEGER_BITS, Kind, SqlType

_BIG = 2**63 - 1  # the largest BIGINT
_EXACT = 2**50  # numbers that survive a division by 10^scale and its reverse in DOUBLE
_MOST_MOVES = 64  # DOUBLEs that an end is moved by at most: a few are enough
_MOST_SCALE = 22  # 10^22 is the largest power of ten that is a DOUBLE


@dataclass(frozen=True, slots=True)
class _Affine:
    """The integer of a value x on a line: x * slope + offset, rounded, between two ends.

    Outside [low, high] it is the nearer end. slope is above 0, or 0 for a range of one point.
    """

    low: Fraction
    high: Fraction
    slope: Fraction
    offset: Fraction
    ends: tuple[int, int]


def grid(measure: Measure, argument: tuple[str, SqlType] | None) -> str:
    """Return the text of a row's integer, NULL where the row gives nothing to the measure.

    argument: the lowered argument and its type; None for a measure of whole rows.
    The integer of a count is 1; of a sum the number of steps; of a moment vector lies in 0..cells.

    Raises:
        InternalError: for an argument that isn't a number, or one missing.
        UnsupportedSQLError: for bounds beyond the range of DOUBLE.
    """
    match measure:
        case CountMeasure() | PresenceMeasure():
            return "1" if argument is None else f"(CASE WHEN {argument[0]} IS NOT NULL THEN 1 END)"
        case SumMeasure(low=low, high=high, step=step):
            line = _Affine(low, high, 1 / step, Fraction(0), measure.ends)
        case MomentMeasure(low=low, high=high, cells=cells):
            slope = Fraction(0) if low == high else cells / (high - low)
            line = _Affine(low, high, slope, -low * slope, (0, cells))
        case _:
            assert_never(measure)
    if argument is None:
        raise InternalError("a sum or a moment takes an argument")
    return _placed(*argument, line)


def _placed(text: str, type_: SqlType, line: _Affine) -> str:
    match type_.kind:
        case Kind.NULL:
            return literal(None, BIGINT)
        case Kind.BOOLEAN:
            return _placed(f"CAST({text} AS INTEGER)", INTEGER, line)
        case Kind.DOUBLE:
            return _placed_float(text, line)
    if not type_.is_numeric:
        raise InternalError(f"a measure takes a number, not {type_}")
    exact = None if type_.is_float else _placed_exactly(text, type_, line)
    return _placed_float(f"CAST({text} AS DOUBLE)", line) if exact is None else exact


def _clamped(
    text: str, low: str, high: str, line: _Affine, body: Callable[[str], str], *, nan: bool
) -> str:
    """Return `body` between two constants, the ends of the line outside, NULL for NULL.

    nan: whether the value could be NaN, which gives NULL too. The order of the conditions is the
    fastest that was measured: a row inside passes one test.
    """
    kind = _holding(line)
    least, most = (literal(end, kind) for end in line.ends)

    def chosen(x: str) -> str:
        missing = f"{x} IS NULL OR isnan({x})" if nan else f"{x} IS NULL"
        return (
            f"(CASE WHEN {x} BETWEEN {low} AND {high} THEN {body(x)} WHEN {missing} THEN NULL "
            f"WHEN {x} < {low} THEN {least} ELSE {most} END)"
        )

    return once(text, chosen)


def _holding(line: _Affine) -> SqlType:
    return BIGINT if max(map(abs, line.ends)) <= _BIG else HUGEINT


def _placed_float(text: str, line: _Affine) -> str:
    """Return the integer of a DOUBLE.

    Claim:   the result lies between the line's ends for every value, infinities and NaN (NULL) too.
    Why:     x - origin, the product with a positive factor and the rounding never fall as x grows,
             in IEEE arithmetic as in the reals; at `low` and `high` Python computed them as DuckDB
             does and found them between the ends; outside, the result is an end.
    Assumes: DuckDB keeps the order of the two operations and casts DOUBLE to whole numbers by
             rounding half to even (both tested bit by bit).
    Source:  [IEEE754]
    """
    slope = _float(line.slope)
    origin = 0.0 if line.slope == 0 else _float(-line.offset / line.slope)

    def image(x: float) -> int:
        return round((x - origin) * slope if origin else x * slope)

    low, high = _float_ends(line, image)
    factor = literal(slope, DOUBLE)
    kind = _holding(line)

    def body(x: str) -> str:
        moved = f"({x} - {literal(origin, DOUBLE)})" if origin else x
        return f"CAST({moved} * {factor} AS {kind})"

    return _clamped(text, literal(low, DOUBLE), literal(high, DOUBLE), line, body, nan=True)


def _float_ends(line: _Affine, image: Callable[[float], int]) -> tuple[float, float]:
    """Return the largest range of DOUBLEs inside [low, high] whose integers lie between the ends.

    The lower may be above the higher: then every value is at an end.

    Raises:
        InternalError: where the grid is so fine that rounding leads far beyond its ends.
    """
    low, high = _float(line.low), _float(line.high)
    for _ in range(_MOST_MOVES):
        below = low < line.low or image(low) < line.ends[0]
        above = high > line.high or image(high) > line.ends[1]
        if not below and not above:
            return low, high
        low = math.nextafter(low, math.inf) if below else low
        high = math.nextafter(high, -math.inf) if above else high
    raise InternalError("a grid that DOUBLE can't hold")


def _float(value: Fraction) -> float:
    """Return the nearest DOUBLE. Raises UnsupportedSQLError for numbers beyond its range."""
    try:
        return float(value)
    except OverflowError:
        raise UnsupportedSQLError(
            "the bounds of this aggregate are beyond the range of DOUBLE.",
            hint="declare narrower bounds, or CLAMP(…, low, high) in the query",
        ) from None


def _placed_exactly(text: str, type_: SqlType, line: _Affine) -> str | None:
    """Return the integer of a whole number or DECIMAL whose own steps lie on the grid, else None.

    Claim:   the result is x * slope + offset, exactly, between the line's ends.
    Why:     x is n steps of its type, n whole, and each is `factor` steps of the grid: the result
             is n * factor + start in whole numbers, which never falls as n grows; at the first and
             last n it was computed here and found between the ends.
    Assumes: the numbers fit a BIGINT and the type, which is checked here; else None.
    """
    unit = step_of(type_)
    if unit is None:
        raise InternalError("an exact type has a step")
    factor, start = line.slope * unit, line.offset
    if factor.denominator != 1 or start.denominator != 1 or factor == 0:
        return None

    def image(n: int) -> int:
        return int(n * factor + start)

    if type_.kind is Kind.DECIMAL:
        least, most = 1 - 10**type_.precision, 10**type_.precision - 1
    else:
        least, most = INTEGER_BITS[type_.kind]
    first = max(math.ceil(line.low / unit), least)
    last = min(math.floor(line.high / unit), most)
    if first > last or image(first) < line.ends[0] or image(last) > line.ends[1]:
        return None
    largest = max(abs(first), abs(last))
    if max(largest * int(factor), abs(int(start)), *map(abs, line.ends)) > _BIG // 2:
        return None

    def body(x: str) -> str:
        steps = _steps(x, type_, largest)
        scaled = steps if factor == 1 else f"{steps} * {literal(int(factor), BIGINT)}"
        return scaled if start == 0 else f"{scaled} + {literal(int(start), BIGINT)}"

    low, high = (_value(n, type_) for n in (first, last))
    return _clamped(text, low, high, line, body, nan=False)


def _value(steps: int, type_: SqlType) -> str:
    if type_.kind is Kind.DECIMAL:
        return literal(decimal_of_steps(steps, type_.scale), type_)
    return literal(steps, type_)


def _steps(text: str, type_: SqlType, most: int) -> str:
    """Return how many steps of its type a number is, at most `most` either way, as a BIGINT."""
    if type_.kind is Kind.DECIMAL and type_.scale > 0:
        if most < _EXACT and type_.scale <= _MOST_SCALE:
            # x = n / 10^scale, rounded twice on the way: less than a quarter away from n
            power = literal(float(10**type_.scale), DOUBLE)
            return f"CAST(CAST({text} AS DOUBLE) * {power} AS BIGINT)"
        return f"CAST(replace(CAST({text} AS VARCHAR), '.', '') AS BIGINT)"
    return text if type_ == BIGINT else f"CAST({text} AS BIGINT)"
