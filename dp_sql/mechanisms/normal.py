"""The normal distribution's upper tail, far out too: its logarithm, quantiles and Mills ratio.

Plain floats. Relative errors stay below 1e-10 for x from -30 up (tests compare with mpmath), and
callers add more than that on the safe side. Source: [AbramowitzStegun] 26.2.
"""

from __future__ import annotations

import math
from fractions import Fraction

_FAR = 25.0  # from here on the asymptotic series with _TERMS terms is exact to double precision
_TERMS = 9


def log_density(x: float) -> float:
    """Return the logarithm of the standard normal density at x."""
    return -x * x / 2 - math.log(2 * math.pi) / 2


def log_upper_tail(x: float) -> float:
    """Return log P[N(0, 1) >= x], for x >= -30."""
    if x < _FAR:
        return math.log(math.erfc(x / math.sqrt(2)) / 2)
    return log_density(x) + math.log(mills(x))


def mills(x: float) -> float:
    """Return P[N(0, 1) >= x] over the density at x, for x >= -30."""
    if x < _FAR:
        return math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x / math.sqrt(2))
    return (1 - _series(x)) / x


def mills_slope(x: float) -> float:
    """Return how fast the Mills ratio falls at x: 1 - x * mills(x), above 0; for x >= -30."""
    return 1 - x * mills(x) if x < _FAR else _series(x)


def upper_quantile(log_tail: float) -> float:
    """Return a z >= 0, rounded up, with log P[N(0, 1) >= z] <= log_tail, which is below 0."""
    # P[N >= z] <= exp(-z^2/2)/2 for z >= 0, so the upper end holds
    low, high = 0.0, math.sqrt(-2 * log_tail)
    if log_upper_tail(low) <= log_tail:
        return 0.0
    for _ in range(70):
        middle = (low + high) / 2
        if log_upper_tail(middle) <= log_tail:
            high = middle
        else:
            low = middle
    return high * (1 + 1e-9)


def log_of(value: Fraction) -> float:
    """Return the natural logarithm of a positive fraction, however small or large its parts."""
    return math.log(value.numerator) - math.log(value.denominator)


def _series(x: float) -> float:
    """Return 1/x^2 - 3/x^4 + 15/x^6 - …, the asymptotic series of 1 - x * mills(x)."""
    term, total = 1.0, 0.0
    for n in range(_TERMS):
        term *= -(2 * n + 1) / (x * x)
        total -= term
    return total
