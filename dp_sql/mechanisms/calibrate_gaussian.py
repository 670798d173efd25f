"""The scale of Gaussian noise that gives (epsilon, delta) for an L2 change of 1."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dp_sql.mechanisms.normal import log_density, log_of, mills, mills_slope

LEAST_SIGMA = 1024  # in lattice units: what `sigma1` assumes of every coordinate's noise
MOST_COORDINATES = 10**6  # that a neighbour can change: what `sigma1` assumes of the vector

_EPSILONS = (Fraction(1, 10**9), Fraction(100))  # smallest and largest that sigma1 handles
_LEAST_DELTA = Fraction(1, 10**30)
_MOST_DELTA = Fraction(1, 2)  # a larger one is read as this one
_LATTICE = 1 + 1e-5

# five-point Gauss-Legendre rule on [-1, 1]: (node, weight). Source: [AbramowitzStegun] 25.4.30
_RULE = (
    (0.0, 0.568888888888888889),
    (-0.538469310105683091, 0.478628670499366468),
    (0.538469310105683091, 0.478628670499366468),
    (-0.906179845938663993, 0.236926885056189088),
    (0.906179845938663993, 0.236926885056189088),
)


@lru_cache(maxsize=256)
def sigma1(epsilon: Fraction, delta: Fraction) -> float | None:
    """Return the noise per unit of L2 change that is (epsilon, delta)-DP, rounded up.

    A vector of integers with independent discrete Gaussian noise of integers sigma_i >= LEAST_SIGMA
    on its coordinates is (epsilon, delta)-DP when every change c of a neighbour, of at most
    MOST_COORDINATES coordinates, has sum (c_i / sigma_i)^2 <= 1 / sigma1^2.

    None where it isn't applicable: epsilon outside [1e-9, 100] or delta below 1e-30.

    Claim:   the smallest sigma of the continuous mechanism, times 1 + 1e-5, does for the discrete
             one.
    Why:     let w = 1/sigma, g = epsilon/w - w/2 and phi the normal density. The continuous delta
             is the integral of f(x) = phi(x) - e^epsilon phi(x + w) over x > g, where f(g) = 0 and
             f'(g) = w phi(g) =: J. By Poisson summation the discrete delta is at most the
             sum over the points k of the dual lattice (spacing s = the least sigma_i) of
             exp(-2 pi^2 o_k^2) |F(2 pi a_k)|, a_k and o_k being the parts of k along and across
             the change, F the Fourier transform of f on x > g. k = 0 gives the continuous
             delta. Two integrations by parts give |F(y)| <= (J + V)/y^2, V the total variation of
             f'. Points with o_k < s/4 have their a_k at least 0.866 s apart, so together they give
             at most (J + V)/(9 s^2); the others give less than e^(-10^6). V <= 2 J where
             delta <= 1/2 (a test checks a grid), so the excess is below 4e-7 J. A sigma larger by
             1e-5 lowers delta by 1e-5 J, as the derivative of delta in w is phi(g).
    Assumes: s >= 1024; fewer than 10^6 changed coordinates.
    Source:  [BalleWang2018] for the continuous delta, [CanonneKamathSteinke2020] for the law.
    """
    if not _EPSILONS[0] <= epsilon <= _EPSILONS[1] or delta < _LEAST_DELTA:
        return None
    # floats at most the exact values; their relative distance, 1e-15, is inside the margin of 1e-5
    loss = math.nextafter(float(epsilon), 0.0)
    target = log_of(min(delta, _MOST_DELTA))
    # At the lower end g is above 39 and delta below phi(39) < 1e-300; at the upper one g is -1 and
    # delta above 0.6. Bisection on the logarithm: 80 halvings of at most ln(1e12).
    low, high = loss / 40, 1 + math.sqrt(1 + 2 * loss)
    for _ in range(80):
        middle = math.sqrt(low * high)
        if log_delta(loss, middle) <= target:
            low = middle
        else:
            high = middle
    return _LATTICE / low


def log_delta(epsilon: float, change: float) -> float:
    """Return the logarithm of the continuous Gaussian mechanism's delta at `epsilon`.

    `change`: the L2 change over the standard deviation, above 0, with epsilon/change <= 50 and
    change/2 <= 20. Without cancellation, from delta = phi(g) (R(g) - R(g + change)), where
    g = epsilon/change - change/2 and R is the Mills ratio. Source: [BalleWang2018] theorem 8.
    """
    start = epsilon / change - change / 2
    if change > 1 / 8:
        fall = mills(start) - mills(start + change)
    else:  # the two ratios are close: integrate the slope between them
        half = change / 2
        fall = half * sum(weight * mills_slope(start + half * (1 + node)) for node, weight in _RULE)
    return log_density(start) + math.log(fall)
