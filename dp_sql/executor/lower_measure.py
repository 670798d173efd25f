"""Lowers measures: a row's argument becomes one integer on the measure's grid.

What is summed of it, and how its sums make the components, is in `lower_sums`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError, UnsupportedSQLError
from dp_sql.plan.conversion import decimal_of_steps
from dp_sql.plan.functions import step_of
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.relation import (
    CountMeasure,
    Measure,
    MomentMeasure,
    PresenceMeasure,
    SumMeasure,
)
from dp_sql.plan.sql_text import literal, once
from dp_sql.plan.vector import NormMeasure
from dp_sql.schema.sqltype import BIGINT, DOUBLE, HUGEINT, INTEGER, INTEGER_BITS, Kind, SqlType

_BIG = 2**63 - 1  # the largest BIGINT
Simple = CountMeasure | SumMeasure | MomentMeasure | PresenceMeasure
_MOST_MOVES = 64  # DOUBLEs that an end is moved by at most: a few are enough


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


def grid(measure: Simple, argument: tuple[str, SqlType] | None) -> str:
    """Return the text of a row's integer, NULL where the row gives nothing to the measure.

    argument: the lowered argument and its type; None for a measure of whole rows.
    The integer of a count is 1; of a sum the number of steps; of a moment vector lies in 0..cells,
    or between the ends of its `rows`.

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
            line = _line(low, high, cells, measure.rows or (0, cells))
        case _:
            assert_never(measure)
    if argument is None:
        raise InternalError("a sum or a moment takes an argument")
    return _placed(*argument, line)


def grids(measure: Measure, arguments: Sequence[tuple[str, SqlType]]) -> tuple[str, ...]:
    """Return the texts of a row's integers: two for a measure of two arguments, else one.

    arguments: the lowered arguments, aligned with `plan.relation.arguments`. Each is as in `grid`.
    """
    if isinstance(measure, NormMeasure):
        raise InternalError("a vector has integers of its own")
    if not isinstance(measure, PairMeasure):
        return (grid(measure, arguments[0] if arguments else None),)
    return tuple(
        _placed(*argument, _line(axis.low, axis.high, axis.cells, (0, axis.cells)))
        for axis, argument in zip(measure.axes, arguments, strict=True)
    )


def clamped_double(text: str, type_: SqlType, low: Fraction, high: Fraction) -> str:
    """Return a number as a DOUBLE between two ends, NULL for NULL and NaN."""
    match type_.kind:
        case Kind.NULL:
            return literal(None, DOUBLE)
        case Kind.BOOLEAN:
            text = f"CAST(CAST({text} AS INTEGER) AS DOUBLE)"
        case Kind.DOUBLE:
            pass
        case _:
            text = f"CAST({text} AS DOUBLE)"
    return _clamped_float(text, literal(_float(low), DOUBLE), literal(_float(high), DOUBLE))


def _line(low: Fraction, high: Fraction, cells: int, ends: tuple[int, int]) -> _Affine:
    """Return the line of a place in [low, high] on a grid of `cells`, cut at `ends`."""
    slope = Fraction(0) if low == high else cells / (high - low)
    width = (high - low) / cells
    first, last = ends
    return _Affine(low + first * width, low + last * width, slope, -low * slope, ends)


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


def _clamped(text: str, low: str, high: str) -> str:
    """Return a value between two constants, NULL for NULL.

    The form is the fastest that was measured where some rows are NULL or outside: a vector without
    rows outside passes as it is. What is computed from it is computed for whole vectors.
    """
    return once(
        text,
        lambda x: f"(CASE WHEN {x} > {high} THEN {high} WHEN {x} < {low} THEN {low} ELSE {x} END)",
    )


def _clamped_float(text: str, low: str, high: str) -> str:
    """Return a DOUBLE between two constants, NULL for NULL and for NaN, which is above infinity."""
    largest = literal(math.inf, DOUBLE)
    return once(
        text,
        lambda x: (
            f"(CASE WHEN {x} > {high} THEN CASE WHEN {x} <= {largest} THEN {high} END "
            f"WHEN {x} < {low} THEN {low} ELSE {x} END)"
        ),
    )


def _placed_float(text: str, line: _Affine) -> str:
    """Return the integer of a DOUBLE.

    Claim:   the result lies between the line's ends for every value, infinities too; it is NULL for
             NULL and NaN; and no operation raises.
    Why:     the value is clamped first. x - origin, the product with a positive factor and the
             rounding never fall as x grows, in IEEE arithmetic as in the reals; at `low` and `high`
             Python computed them as DuckDB does and found them between the ends.
    Assumes: DuckDB keeps the order of the operations and casts DOUBLE to whole numbers by rounding
             half to even, and that NaN is above infinity (tested bit by bit).
    Source:  [IEEE754]
    """
    slope = _float(line.slope)
    origin = 0.0 if line.slope == 0 else _float(-line.offset / line.slope)

    def image(x: float) -> int:
        return round((x - origin) * slope if origin else x * slope)

    low, high = _float_ends(line, image)
    value = _clamped_float(text, literal(low, DOUBLE), literal(high, DOUBLE))
    moved = f"({value} - {literal(origin, DOUBLE)})" if origin else value
    type_ = BIGINT if max(map(abs, line.ends)) <= _BIG else HUGEINT
    return f"CAST({moved} * {literal(slope, DOUBLE)} AS {type_})"


def _float_ends(line: _Affine, image: Callable[[float], int]) -> tuple[float, float]:
    """Return the largest range of DOUBLEs inside [low, high] whose integers lie between the ends.

    Where no DOUBLE lies inside it is a single one beside the range.

    Raises:
        InternalError: where the grid is so fine that rounding leads far beyond its ends.
    """
    low, high = _float(line.low), _float(line.high)
    least, most = line.ends
    for _ in range(_MOST_MOVES):
        below = low < line.low or image(low) < least
        above = high > line.high or image(high) > most
        if not below and not above:
            break
        low = math.nextafter(low, math.inf) if below else low
        high = math.nextafter(high, -math.inf) if above else high
    if low > high:
        low = high = next((x for x in (low, high) if least <= image(x) <= most), math.nan)
    if not least <= image(low) <= image(high) <= most:
        raise InternalError("a grid that DOUBLE can't hold")
    return low, high


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
    """Return the integer of a whole number or DECIMAL if its steps and bounds are on the grid.

    None for every other line.

    Claim:   the result is x * slope + offset, exactly, between the line's ends, and no operation
             raises.
    Why:     x, clamped first, is n steps of its type, n whole, each `factor` steps of the grid: the
             result is n * factor + start in whole numbers, which never falls as n grows; at the
             first and last n it was computed here and found between the ends.
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
    if (line.low / unit).denominator != 1 or (line.high / unit).denominator != 1:
        return None
    first, last = max(int(line.low / unit), least), min(int(line.high / unit), most)
    if first > last or image(first) < line.ends[0] or image(last) > line.ends[1]:
        return None
    largest = max(abs(first), abs(last))
    if max(largest * int(factor), abs(int(start)), *map(abs, line.ends)) > _BIG // 2:
        return None

    low, high = (_value(n, type_) for n in (first, last))
    steps = _steps(_clamped(text, low, high), type_, largest)
    scaled = steps if factor == 1 else f"{steps} * {literal(int(factor), BIGINT)}"
    return f"({scaled})" if start == 0 else f"({scaled} + {literal(int(start), BIGINT)})"


def _value(steps: int, type_: SqlType) -> str:
    if type_.kind is Kind.DECIMAL:
        return literal(decimal_of_steps(steps, type_.scale), type_)
    return literal(steps, type_)


def _steps(text: str, type_: SqlType, most: int) -> str:
    """Return how many steps of its type a number is, at most `most` either way, as a BIGINT."""
    scale = type_.scale
    if type_.kind is not Kind.DECIMAL or scale == 0:
        return text if type_ == BIGINT else f"CAST({text} AS BIGINT)"
    digits = 18 if type_.precision <= 18 else 38  # that DuckDB multiplies decimals in
    if scale < digits and most * 10**scale < 10**digits:
        return f"CAST({text} * {literal(Decimal(10**scale), SqlType(Kind.DECIMAL, scale + 1))} AS BIGINT)"
    return f"CAST(replace(CAST({text} AS VARCHAR), '.', '') AS BIGINT)"
