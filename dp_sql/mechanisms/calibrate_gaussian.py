"""The scale of Gaussian noise that gives (epsilon, delta) for an L2 change of 1."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dp_sql.mechanisms.normal import log_density, log_of, mills, mills_slope

LEAST_SIGMA = 1024  # in lattice units: what `sigma1` assumes of every coordinate's noise
MOST_COORDINATES = 10**6  # that a neighbour can change: what `sigma1` assumes of the vector

MOST_EPSILON = Fraction(100)  # that `sigma1` handles
_LEAST_EPSILON = Fraction(1, 10**9)
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
             one; also where some coordinates are drawn after others were released, and what changes
             there depends on these, if each part keeps to a bound of its own and the bounds add up to
             1 / sigma1^2.
    Why:     discrete noise is, all but exactly, a function of continuous noise. Take a normal y of
             variance sigma^2 - 4 around an integer c and round it to the integer k with a
             probability in proportion to exp(-(k - y)^2 / 8). The normal density convolved with that
             weight is the normal density of variance sigma^2 at k - c; what the weights add up to is
             by Poisson summation within 1 +- 2.1 e^(-8 pi^2) of a constant, and what that density
             adds up to over the integers is so too. So k has the law of the discrete noise around c
             within a factor of 1 +- 2e-34, and 10^6 changed coordinates together within 1 +- 1e-27
             (the others are drawn as they are). The normal's sigma is sigma sqrt(1 - 4 / sigma^2), at
             least sigma (1 - 2e-6). Continuous parts one after another, with bounds fixed beforehand,
             are no easier to tell apart than one normal whose squared change is their sum. So the
             discrete delta at epsilon is at most (1 + 1e-26) times that of a change of
             w = (1 + 2e-6) / ((1 + 1e-5) sigma) at epsilon - 1e-26. With g = epsilon / w - w / 2 and
             the normal density phi, delta grows by phi(g) dw, and by phi(g) R(g + w) < 4 phi(g) for
             each unit that epsilon falls by; w >= 1e-9 / 40, so the 8e-6 w that the margin leaves is
             far more than what the factors take.
    Assumes: sigma_i >= 1024; no more than 10^6 changed coordinates.
    Source:  [BalleWang2018] for the continuous delta, [CanonneKamathSteinke2020] for the law,
             [Dong2022] theorem 3.2 and corollary 3.3 for parts that depend on each other.
    """
    if not _LEAST_EPSILON <= epsilon <= MOST_EPSILON or delta < _LEAST_DELTA:
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
