"""From how many units on a private key may show: exact integer thresholds in lattice units.

A key is kept iff lattice * units + noise >= threshold. All functions work with the logarithm of
delta, so that no delta is too small for them, and round outward: a threshold may come out one part
in 10^13 too high, never too low.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dp_sql.mechanisms.normal import log_of, upper_quantile
from dp_sql.privacy.unit import Adjacency

_MARGIN = Fraction(1, 10**13)  # relative; covers the rounding of the logarithms


def log_delta_per_group(
    delta: Fraction, epsilon: Fraction, *, groups: int, group_size: int, adjacency: Adjacency
) -> float:
    """Return the logarithm of the probability at which one neighbour's own key may show.

    delta, epsilon: of the whole release, for the schema's adjacency; 0 < delta < 1, where a delta
    above one half is read as one half. groups: how many one unit touches at most.

    Claim:   if each key that only the changed units have shows with this probability or less, the
             selection adds at most `delta` to the release's own (epsilon, delta).
    Why:     k = group_size units have at most k * groups keys of their own, with independent noise:
             1 - (1 - p)^(k groups) <= delta_1. Where none of them shows, the outputs on the common
             keys are (epsilon, .)-close. Any adjacency but add_remove is one removal and one
             addition, each with half of epsilon: (1 + e^(epsilon/2)) * delta_1 = delta.
    Assumes: the selection counts a unit at most once in a key; noise of the keys is independent.
    Source:  [Wilson2020]
    """
    log_delta = log_of(min(delta, Fraction(1, 2)))
    if adjacency is not Adjacency.ADD_REMOVE:
        half = float(epsilon) / 2
        log_delta -= half + math.log1p(math.exp(-half))
    shares = groups * group_size
    if log_delta < -30:
        return log_delta - math.log(shares)  # 1 - (1 - d)^(1/n) >= d/n
    return math.log(-math.expm1(math.log1p(-math.exp(log_delta)) / shares))


def laplace_threshold(scale: int, log_delta: float, *, start: int) -> int:
    """Return the least integer threshold with P[start + Z >= threshold] <= exp(log_delta).

    Z is discrete Laplace of `scale`; `start`: what the changed units count together, in lattice
    units; the threshold is above it.

    P[Z >= n] = e^(-n/t) / (1 + e^(-1/t)) for n >= 1, the sum of the geometric series.
    Source: [Ghosh2009].
    """
    exponent = -log_delta - math.log1p(math.exp(-1 / scale))
    return start + max(1, math.ceil(scale * _outward(exponent, abs(log_delta) + 1)))


def gaussian_threshold(sigma: int, log_delta: float, *, start: int) -> int:
    """Return an integer threshold with P[start + Z >= threshold] <= exp(log_delta).

    Z is discrete Gaussian of `sigma`; `start` as in `laplace_threshold`. At most one lattice unit
    above the least one, up to rounding: P[Z >= n] <= P[N(0, sigma^2) >= n - 1].
    Source: [CanonneKamathSteinke2020].
    """
    quantile = upper_quantile(log_delta)
    return start + 1 + math.ceil(sigma * _outward(quantile, quantile))


def _outward(value: float, size: float) -> Fraction:
    """Return the exact value of a float plus a margin relative to `size`."""
    return Fraction(value) + Fraction(size) * _MARGIN
