"""Lowers measures: a row's argument becomes one small integer, and that the vector's components.

The integer is written once, in an inner SELECT; the components read its column in the outer one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from dp_sql.errors import InternalError
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
_HUGE = 2**126  # well inside HUGEINT
_EXACT = 2**50  # numbers that survive a division by 10^scale and its reverse in DOUBLE
_MOST_SCALE = 22  # 10^22 is the largest power of ten that is a DOUBLE


@dataclass(frozen=True, slots=True)
class _Affine:
    """The integer of a value x on the line: floor(x * slope + offset), between two ends.

    Outside [low, high] it is the nearer end. slope is above 0; offset holds the half that makes the
    floor a rounding.
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
    """
    match measure:
        case CountMeasure() | PresenceMeasure():
            return "1" if argument is None else f"(CASE WHEN {argument[0]} IS NOT NULL THEN 1 END)"
        case SumMeasure(low=low, high=high, step=step):
            line = _Affine(low, high, 1 / step, Fraction(1, 2), measure.ends)
        case MomentMeasure(low=low, high=high, cells=cells):
            slope = Fraction(0) if low == high else cells / (high - low)
            line = _Affine(low, high, slope, Fraction(1, 2) - low * slope, (0, cells))
        case _:
            assert_never(measure)
    if argument is None:
        raise InternalError("a sum or a moment takes an argument")
    return _placed(*argument, line)


def components(measure: Measure, place: str) -> tuple[str, ...]:
    """Return the texts of a measure's components, never NULL, from the name of its integer's column."""
    match measure:
        case CountMeasure() | PresenceMeasure() | SumMeasure():
            return (f"coalesce({place}, 0)",)
        case MomentMeasure(cells=cells, degree=degree, null_component=null_component):
            a = place if cells**degree <= _BIG else f"CAST({place} AS HUGEINT)"
            rest = f"({cells} - {a})"
            squares = [f"{rest} * {rest}", f"2 * {a} * {rest}", f"{a} * {a}"]
            parts = [rest, a] if degree == 1 else squares
            texts = [f"coalesce({part}, 0)" for part in parts]
            if null_component:
                texts.append(f"CASE WHEN {place} IS NULL THEN {cells**degree} ELSE 0 END")
            return tuple(texts)
        case _:
            assert_never(measure)


def _placed(text: str, type_: SqlType, line: _Affine) -> str:
    if type_.kind is Kind.NULL:
        return literal(None, BIGINT)
    if type_.kind is Kind.BOOLEAN:
        return _placed(f"CAST({text} AS INTEGER)", INTEGER, line)
    if type_.kind is Kind.FLOAT:
        return _placed(f"CAST({text} AS DOUBLE)", DOUBLE, line)
    if type_.kind is Kind.DOUBLE:
        return _placed_float(text, line)
    if not type_.is_numeric:
        raise InternalError(f"a measure takes a number, not {type_}")
    exact = _placed_exactly(text, type_, line)
    return _placed_float(f"CAST({text} AS DOUBLE)", line) if exact is None else exact


def _clamped(text: str, low: str, high: str, line: _Affine, body: Callable[[str], str]) -> str:
    """Return `body` between two constants, the ends of the line outside, NULL for NULL and NaN.

    The order of the conditions is the fastest that was measured: rows inside pass one test.
    """
    kind = _holding(max(map(abs, line.ends)))
    least, most = (literal(end, kind) for end in line.ends)
    return once(
        text,
        lambda x: (
            f"(CASE WHEN {x} BETWEEN {low} AND {high} THEN {body(x)} "
            f"WHEN {x} IS NULL{_nan_test(x, low)} THEN NULL "
            f"WHEN {x} < {low} THEN {least} ELSE {most} END)"
        ),
    )


def _nan_test(text: str, low: str) -> str:
    return f" OR isnan({text})" if low.endswith("AS DOUBLE)") else ""


def _holding(most: int) -> SqlType:
    return BIGINT if most <= _BIG else HUGEINT


def _placed_float(text: str, line: _Affine) -> str:
    """Return the integer of a DOUBLE.

    Claim:   the result lies between the line's ends for every value, infinities and NaN (NULL) too.
    Why:     x - origin, the product with a positive factor and the rounding never fall as x grows,
             in IEEE arithmetic as in the reals; at `low` and `high` Python computed them as DuckDB
             does and found them between the ends; outside, the result is an end.
    Assumes: DuckDB keeps the order of the two operations and casts DOUBLE to BIGINT by rounding
             half to even (both tested bit by bit).
    Source:  [IEEE754]
    """
    slope = float(line.slope)
    origin = 0.0 if line.slope == 0 else float((Fraction(1, 2) - line.offset) / line.slope)
    kind = _holding(max(map(abs, line.ends)))

    def image(x: float) -> int:
        return round((x - origin) * slope if origin else x * slope)

    low, high = _float_ends(line, image)
    shift = "" if origin == 0 else f" - {literal(origin, DOUBLE)}"
    factor = literal(slope, DOUBLE)
    return _clamped(
        text,
        literal(low, DOUBLE),
        literal(high, DOUBLE),
        line,
        lambda x: f"CAST(({x}{shift}) * {factor} AS {kind})",
    )


def _float_ends(line: _Affine, image: Callable[[float], int]) -> tuple[float, float]:
    """Return the largest range of DOUBLEs inside [low, high] whose integers lie between the ends.

    Raises:
        InternalError: where the ends are further apart than DOUBLE can tell.
    """
    low, high = float(line.low), float(line.high)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InternalError("bounds beyond the range of DOUBLE")
    for _ in range(64):
        below = low < line.low or image(low) < line.ends[0]
        above = high > line.high or image(high) > line.ends[1]
        if not below and not above:
            return low, high
        low = math.nextafter(low, math.inf) if below else low
        high = math.nextafter(high, -math.inf) if above else high
    raise InternalError("a grid that DOUBLE can't hold")


def _placed_exactly(text: str, type_: SqlType, line: _Affine) -> str | None:
    """Return the integer of an integer or DECIMAL in whole numbers, None where 127 bits are too few.

    Claim:   the result is floor(x * slope + offset) exactly, and lies between the line's ends.
    Why:     x is n steps of its type; floor((p n + r) / q) is a quotient of whole numbers, taken of
             p (n - first) + rest, which isn't negative; it never falls as n grows, and at the first
             and last n it was computed here and found between the ends.
    Assumes: // of whole numbers that aren't negative rounds down.
    """
    unit = step_of(type_)
    if unit is None:
        raise InternalError("an exact type has a step")
    slope, offset = line.slope * unit, line.offset
    q = math.lcm(slope.denominator, offset.denominator)
    p, r = int(slope * q), int(offset * q)
    first, last = _first_and_last(type_, unit, line, lambda n: (p * n + r) // q)
    base, rest = divmod(p * first + r, q)
    factor, uneven = divmod(p, q)
    most = max(p * (last - first) + q, abs(first), abs(last), abs(base) + 1, *map(abs, line.ends))
    if not uneven:
        most = max(
            abs(first), abs(last), abs(base), abs(factor * (last - first)), *map(abs, line.ends)
        )
    if most > _HUGE:
        return None
    kind = _holding(2 * most)

    def body(x: str) -> str:
        n = _steps(x, type_, max(abs(first), abs(last)), kind)
        if not uneven:  # x lies on the grid already
            start = base - factor * first
            scaled = n if factor == 1 else f"{n} * {literal(factor, kind)}"
            if start == 0:
                return scaled
            if abs(start) <= _BIG or kind == HUGEINT:
                return f"{scaled} + {literal(start, kind)}"
        shifted = n if first == 0 else f"({n} - {literal(first, kind)})"
        scaled = f"({shifted} * {literal(p, kind)} + {literal(rest, kind)}) // {literal(q, kind)}"
        return scaled if base == 0 else f"{scaled} + {literal(base, kind)}"

    low, high = (_value(n, type_) for n in (first, last))
    return _clamped(text, low, high, line, body)


def _first_and_last(
    type_: SqlType, unit: Fraction, line: _Affine, image: Callable[[int], int]
) -> tuple[int, int]:
    """Return the first and last step inside [low, high] and the type, with images inside the ends.

    The first may be above the last: then every value is at an end.
    """
    if type_.kind is Kind.DECIMAL:
        least, most = 1 - 10**type_.precision, 10**type_.precision - 1
    else:
        least, most = INTEGER_BITS[type_.kind]
    first, last = math.ceil(line.low / unit), math.floor(line.high / unit)
    first, last = min(max(first, least), most), max(min(last, most), least)
    while first <= last and image(first) < line.ends[0]:
        first += 1
    while last >= first and image(last) > line.ends[1]:
        last -= 1
    return first, last


def _value(steps: int, type_: SqlType) -> str:
    if type_.kind is Kind.DECIMAL:
        return literal(decimal_of_steps(steps, type_.scale), type_)
    return literal(steps, type_)


def _steps(text: str, type_: SqlType, most: int, kind: SqlType) -> str:
    """Return how many steps of its type a number is, at most `most` either way."""
    if type_.kind is not Kind.DECIMAL:
        return text if type_ == kind else f"CAST({text} AS {kind})"
    if type_.scale == 0:
        return f"CAST({text} AS {kind})"
    if most < _EXACT and type_.scale <= _MOST_SCALE:
        # x = n / 10^scale, rounded twice on the way: less than a quarter away from n
        power = literal(float(10**type_.scale), DOUBLE)
        return f"CAST(CAST({text} AS DOUBLE) * {power} AS {kind})"
    return f"CAST(replace(CAST({text} AS VARCHAR), '.', '') AS {kind})"
