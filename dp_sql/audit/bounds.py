"""From samples of answers on two neighbours to a lower bound of epsilon, with a stated confidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Samples: TypeAlias = NDArray[Any]
"""Numbers that an attacker may look at: one row a run, one column a place where the unit may be."""

View: TypeAlias = Callable[[Samples], Samples]
"""A statistic: one number a run."""

_STEPS = 60  # of a bisection: far below what rounding does
_TERMS = 10_000  # of a continued fraction
_TINY = 1e-300
_PLACES = 99  # thresholds that are tried for each statistic
_NEAR = 1.7  # deviations, where an event is chosen


def at_least(hits: int, runs: int, alpha: float) -> float:
    """Return a bound that the chance of a hit is below with probability `alpha` at most.

    Source: [ClopperPearson1934].
    """
    if hits == 0:
        return 0.0
    low, high = 0.0, hits / runs
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _tail(hits, runs, middle) < alpha:
            low = middle
        else:
            high = middle
    return low


def at_most(hits: int, runs: int, alpha: float) -> float:
    """Return a bound that the chance of a hit is above with probability `alpha` at most."""
    return 1.0 - at_least(runs - hits, runs, alpha)


def epsilon_at_least(first: Samples, second: Samples, *, delta: float = 0.0, alpha: float) -> float:
    """Return an epsilon below which the laws of the two samples are not (epsilon, delta)-close.

    first, second: as many rows each; one-dimensional where a run is one number. Where the laws are
    (epsilon, delta)-close, the result is above epsilon with a probability of at most `alpha`. It is
    -inf where nothing was seen.

    Claim:   the bound holds with probability 1 - alpha.
    Why:     (epsilon, delta)-close laws have P(E) <= e^epsilon Q(E) + delta for each event. The event is
             chosen with the first half of the runs; on the second half, which is independent of it,
             both chances have Clopper-Pearson bounds, each wrong with probability alpha / 4, for
             either order of the two.
    Assumes: runs are independent.
    Source:  [ClopperPearson1934], [Jagielski2020]
    """
    half = len(first) // 2
    views = _views(first[:half], second[:half])
    found = []
    for one, other in ((first, second), (second, first)):
        view, sign, place = _best(views, one[:half], other[:half], delta)
        low, high = (int((sign * view(some[half:]) >= sign * place).sum()) for some in (one, other))
        runs, level = len(one) - half, alpha / 4
        likely = at_least(low, runs, level) - delta
        found.append(math.log(likely / at_most(high, runs, level)) if likely > 0 else -math.inf)
    return max(found)


def _best(
    views: Sequence[View], one: Samples, other: Samples, delta: float
) -> tuple[View, int, float]:
    """Return the event, a statistic at or beyond a threshold, that promises the largest bound.

    Chances are judged by a normal law here: any choice is a fair one.
    """
    found: list[tuple[float, int, int, float]] = []
    for number, view in enumerate(views):
        here, there = view(one), view(other)
        places = np.unique(
            np.quantile(np.concatenate((here, there)), np.linspace(0.01, 0.99, _PLACES))
        )
        for sign in (1, -1):
            p, q = (
                np.mean(sign * some >= sign * places[:, None], axis=1) for some in (here, there)
            )
            wide = [_NEAR * np.sqrt(c * (1 - c) / len(one)) + 1 / len(one) for c in (p, q)]
            likely = p - wide[0] - delta
            worth = np.where(likely > 0, likely, 0) / (q + wide[1])
            best = int(np.argmax(worth))
            found.append((float(worth[best]), number, sign, float(places[best])))
    _, number, sign, place = max(found)
    return views[number], sign, place


def _views(first: Samples, second: Samples) -> list[View]:
    """Return the statistics that are tried: the sum of a run's numbers, and one of cut ones.

    What Laplace noise tells of a shift is the number cut to the two centres that it may have.
    """
    if first.ndim == 1:
        return [lambda samples: samples]
    centres = np.median(first, axis=0), np.median(second, axis=0)
    low, high = np.minimum(*centres), np.maximum(*centres)
    signs = np.sign(centres[1] - centres[0])
    return [
        lambda samples: samples.sum(axis=1),
        lambda samples: (signs * np.clip(samples, low, high)).sum(axis=1),
    ]


def _tail(hits: int, runs: int, chance: float) -> float:
    """Return P[Bin(runs, chance) >= hits], which is the incomplete beta function; hits above 0."""
    a, b = float(hits), float(runs - hits + 1)
    if chance <= 0 or chance >= 1:
        return float(chance >= 1)
    if chance > (a + 1) / (a + b + 2):
        return 1 - _scaled(b, a, 1 - chance)
    return _scaled(a, b, chance)


def _scaled(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function by its continued fraction.

    x: at most about its mean, where the fraction converges fast. Source: [DLMF] 8.17.22.
    """
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _TERMS):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away(1 + factor * d)
            c = _away(1 + factor / c)
            found *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * found


def _away(value: float) -> float:
    """Return a number that one may divide by."""
    return value if abs(value) > _TINY else _TINY
