"""Exact interval arithmetic on domains. Ends are Fractions; outward where a function is irrational.

Dates are days and timestamps microseconds since 1970-01-01, booleans 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from dp_sql.plan.domain import UNKNOWN, Domain

WIDER = Fraction(1, 10**12)  # relative, of an end that was computed in floating point
Number = Fraction | None
_LARGEST, _FINEST, _LONG = (
    1100,
    600,
    4096,
)  # bits: of an end, behind its point, of one that is shortened


def interval(low: int | Fraction, high: int | Fraction, step: int | Fraction | None = 1) -> Domain:
    """Return [low, high] in multiples of `step`."""
    return Domain(Fraction(low), Fraction(high), None if step is None else Fraction(step))


def hull(domains: Iterable[Domain]) -> Domain:
    """Return the smallest domain that holds all of at least one."""
    first, *rest = domains
    for other in rest:
        first = Domain(
            _pick(min, first.low, other.low),
            _pick(max, first.high, other.high),
            common_step(first.step, other.step),
            None
            if first.max_length is None or other.max_length is None
            else max(first.max_length, other.max_length),
        )
    return first


def _pick(choose: Callable[[Fraction, Fraction], Fraction], a: Number, b: Number) -> Number:
    return None if a is None or b is None else choose(a, b)


def common_step(first: Number, second: Number) -> Number:
    """Return the largest number that both steps are multiples of."""
    if first is None or second is None:
        return None
    return Fraction(
        math.gcd(first.numerator * second.denominator, second.numerator * first.denominator),
        first.denominator * second.denominator,
    )


def intersect(first: Domain, second: Domain) -> Domain:
    """Return the part of the first inside the ends of the second; the first where that is empty."""
    lows = [end for end in (first.low, second.low) if end is not None]
    highs = [end for end in (first.high, second.high) if end is not None]
    low, high = max(lows, default=None), min(highs, default=None)
    if low is not None and high is not None and low > high:
        return first
    return Domain(low, high, first.step, first.max_length)


def add(a: Domain, b: Domain) -> Domain:
    """Return the domain of x + y."""
    low = None if a.low is None or b.low is None else a.low + b.low
    high = None if a.high is None or b.high is None else a.high + b.high
    return Domain(low, high, common_step(a.step, b.step))


def negate(a: Domain) -> Domain:
    """Return the domain of -x."""
    return Domain(None if a.high is None else -a.high, None if a.low is None else -a.low, a.step)


def subtract(a: Domain, b: Domain) -> Domain:
    """Return the domain of x - y."""
    return add(a, negate(b))


def multiply(a: Domain, b: Domain) -> Domain:
    """Return the domain of x * y."""
    step = None if a.step is None or b.step is None else a.step * b.step
    ends = [_times(x, y) for x in _ends(a) for y in _ends(b)]
    return _from_ends(min(ends), max(ends), step)


def divide(a: Domain, b: Domain) -> Domain:
    """Return the domain of x / y: unbounded where y may be 0."""
    low, high = _ends(b)
    if low <= 0 <= high:
        return UNKNOWN
    return multiply(a, _from_ends(_inverse(high), _inverse(low), None))


def without_zero(a: Domain) -> tuple[Domain, ...]:
    """Return the parts of a domain below and above 0; one step away from it where there is a step."""
    low, high = _ends(a)
    nearest = Fraction(0) if a.step is None else a.step
    parts = []
    if low < 0:
        parts.append(_from_ends(low, min(high, -nearest), a.step))
    if high > 0:
        parts.append(_from_ends(max(low, nearest), high, a.step))
    return tuple(
        part for part in parts if part.low is None or part.high is None or part.low <= part.high
    )


def magnitude(a: Domain) -> Number:
    """Return the largest absolute value, None where there is none."""
    if a.low is None or a.high is None:
        return None
    return max(abs(a.low), abs(a.high))


def monotone(a: Domain, image: Callable[[Fraction], Number], step: Number = None) -> Domain:
    """Return the domain of a function that never falls; `image` gives None where it has no value."""
    low = None if a.low is None else image(a.low)
    high = None if a.high is None else image(a.high)
    return Domain(low, high, step)


def widened(a: Domain) -> Domain:
    """Return the domain a little wider: its ends come from floating point."""
    return Domain(
        None if a.low is None else a.low - abs(a.low) * WIDER,
        None if a.high is None else a.high + abs(a.high) * WIDER,
        a.step,
        a.max_length,
    )


def short(a: Domain) -> Domain:
    """Return the domain with ends and a step of a few hundred digits at most, no narrower.

    Products of products double the digits of an exact end at each level. No value of any type is as
    large as 2^_LARGEST; what is nearer to 0 than 2^-_FINEST counts as that.
    """
    exact = [n for n in (a.low, a.high, a.step) if n is not None]
    if all(n.numerator.bit_length() + n.denominator.bit_length() < _LONG for n in exact):
        return a
    low = None if a.low is None else Fraction(math.floor(a.low * 2**_FINEST), 2**_FINEST)
    high = None if a.high is None else Fraction(math.ceil(a.high * 2**_FINEST), 2**_FINEST)
    return Domain(
        None if low is None or abs(low) > 2**_LARGEST else low,
        None if high is None or abs(high) > 2**_LARGEST else high,
        None,
        a.max_length,
    )


def real(function: Callable[[float], float], value: Fraction) -> Number:
    """Return a floating function of a number, None where it has no finite value."""
    try:
        result = function(float(value))
    except (ValueError, OverflowError):
        return None
    return Fraction(result) if math.isfinite(result) else None


_End = Fraction | float  # a float is an infinity


def _ends(a: Domain) -> tuple[_End, _End]:
    return (-math.inf if a.low is None else a.low, math.inf if a.high is None else a.high)


def _from_ends(low: _End, high: _End, step: Number) -> Domain:
    return Domain(
        low if isinstance(low, Fraction) else None,
        high if isinstance(high, Fraction) else None,
        step,
    )


def _times(x: _End, y: _End) -> _End:
    if x == 0 or y == 0:
        return Fraction(0)
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        return x * y
    return math.inf if (x > 0) == (y > 0) else -math.inf


def _inverse(x: _End) -> _End:
    return Fraction(1) / x if isinstance(x, Fraction) else Fraction(0)
