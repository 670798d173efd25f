"""What mechanisms whose noise is fixed before the first answer lose together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from dp_sql.mechanisms.calibrate_gaussian import MOST_COORDINATES, log_delta, sigma1
from dp_sql.privacy.event import (
    Event,
    GaussianEvent,
    KeySelectionEvent,
    SampledEvent,
    pure_epsilon,
    selection_delta,
)
from dp_sql.privacy.renyi import conversion, rdp

_UNIT = 2**160  # of squared distances: each is rounded up to one
_GRID = [1 + math.exp(step / 4) for step in range(-20, 40)]  # orders: from 1.007 to 17,000
_MUCH = Fraction(10**300)  # in place of a divergence that no float holds
_LATTICE = 1 + 1e-5  # of a change: what discrete noise and rounding take, as `sigma1` shows
_MOST_CHANGE = 20.0  # in deviations
_STEPS = 1000  # of losses, in all
_NEGLIGIBLE = 1e-12  # of delta: a smaller mass counts as delta itself
_MARGIN = 1e-6  # of delta: what floats may be off by
_NEAR = Fraction(1, 10**4)  # to what share the least epsilon for Gaussian noise is found


def joint_epsilon(events: Sequence[Event], delta: Fraction, coordinates: int) -> Fraction | None:
    """Return an epsilon at which mechanisms with these events are together (epsilon, delta)-DP.

    coordinates: how many values with Gaussian noise a neighbour can change, in all. None where no
    epsilon is found: delta is too small for what selects keys.

    Claim:   the mechanisms, run one after the other, each perhaps on what the ones before it gave,
             are (result, delta)-DP; the result is the least of four bounds, each of which holds.
    Why:     what the events' selection deltas cover is taken off delta, as an accountant may; so let
             every event be its noise, and d the delta that is left. All events are fixed beforehand.
             Pure: where all are pure, the loss is at most the sum of their epsilons.
             Rényi: divergences of one order add up, since each event bounds its mechanism for every
             past, and `conversion` turns the sum at any one order into (epsilon, d). The order may
             be chosen by the events: nothing of them depends on an answer.
             Gaussian: let p be the sum of the pure epsilons of the others. On every path their loss is
             at most p, so (1 - e^(epsilon - L))+ is at most that of the Gaussian noise alone at
             epsilon - p, and its mean is at most the delta of that noise: the others' answers, drawn
             by their law under the one neighbour, are coins that both neighbours could have tossed.
             All Gaussian noise is one mechanism with a squared distance of the sum of
             l2^2 / sigma^2, which is (epsilon - p, d)-DP where that sum is at most 1 / sigma1^2.
             Losses: an epsilon-DP mechanism is no easier to tell apart than randomised response of
             epsilon or more, and Gaussian noise than a normal; so all are no easier than those, one
             after the other, whatever is chosen on the way. The loss of the responses is a sum of
             independent ones, +e with probability e^e / (1 + e^e) and else -e; delta is the mean, over
             it, of that of the normal at epsilon minus it (`_delta_of`).
    Assumes: each event bounds its mechanism for the table's adjacency; all draws are independent; the
             noise is on a lattice as fine as `sigma1` assumes.
    Source:  [Dwork2006b], [Mironov2017], [CanonneKamathSteinke2020], [BalleWang2018], [Dong2022] as
             `sigma1` says and for the losses (theorem 3.2), [Kairouz2015] for randomised response.
    """
    rest = delta - sum(map(selection_delta, events), Fraction(0))
    noises = [e.noise if isinstance(e, KeySelectionEvent) else e for e in events]
    pure = [pure_epsilon(noise) for noise in noises]
    plain = sum((loss for loss in pure if loss is not None), Fraction(0))
    found = [plain] if None not in pure and rest >= 0 else []
    if rest > 0:
        ratio = _distance(noises)
        others = Counter[Event](noise for noise in noises if not isinstance(noise, GaussianEvent))
        found.append(_by_renyi(ratio, others, rest))
        apart = any(isinstance(e, SampledEvent) and pure_epsilon(e) is None for e in noises)
        if not apart and (ratio == 0 or coordinates <= MOST_COORDINATES):
            alone = _by_gaussian(ratio, rest) if ratio else None
            found += [] if alone is None else [plain + alone]
            found.append(_by_losses(ratio, [e for e in pure if e], rest, min(found)))
    return min(found, default=None)


def _distance(events: Iterable[Event]) -> Fraction:
    """Return the squared distance of neighbours in deviations of the Gaussian noise, rounded up."""
    squares = [(e.l2_squared, e.sigma**2) for e in events if isinstance(e, GaussianEvent)]
    return Fraction(sum(-(-square * _UNIT // variance) for square, variance in squares), _UNIT)


def _by_renyi(ratio: Fraction, others: Mapping[Event, int], delta: Fraction) -> Fraction:
    """Return the least epsilon that any order of a grid, or some between them, proves.

    ratio: the squared distance of all Gaussian noise. others: how often there is each other event.
    """

    def proved(alpha: float) -> Fraction:
        total = Fraction(alpha) * ratio / 2
        for noise, count in others.items():
            loss = rdp(noise, alpha)
            total += count * (Fraction(loss) if math.isfinite(loss) else _MUCH)
        return max(Fraction(0), total + Fraction(conversion(alpha, delta)))

    best = min(range(1, len(_GRID) - 1), key=lambda i: proved(_GRID[i]))
    low, high = _GRID[best - 1], _GRID[best + 1]
    return min(proved(low + (high - low) * step / 16) for step in range(17))


def _by_gaussian(ratio: Fraction, delta: Fraction) -> Fraction | None:
    """Return an epsilon, near the least, at which Gaussian noise of that squared distance is private.

    None where `sigma1` doesn't say.
    """
    high = Fraction(float(_by_renyi(ratio, {}, delta) * (1 + _NEAR)))
    low = high / 4
    if not _is_private(high, ratio, delta):
        return None
    while high - low > high * _NEAR:
        middle = Fraction(float((low + high) / 2))
        if _is_private(middle, ratio, delta):
            high = middle
        else:
            low = middle
    return high


def _by_losses(
    ratio: Fraction, pure: Sequence[Fraction], delta: Fraction, high: Fraction
) -> Fraction:
    """Return an epsilon at which randomised responses and Gaussian noise are private, or `high`.

    ratio: the squared distance of the Gaussian noise, which lies on the lattice that `sigma1` assumes;
    pure: the epsilons of the others. high: an epsilon at which they are.
    """
    change = math.sqrt(ratio) * _LATTICE
    if not pure or change > _MOST_CHANGE or len(pure) > _STEPS:
        return high
    most = max(pure)
    step = most / max(1, math.floor(most * _STEPS / sum(pure)))  # a part of the largest
    sizes = [math.ceil(epsilon / step) for epsilon in pure]
    law = np.ones(1)
    for size, count in Counter(sizes).items():
        yes = 1 / (1 + math.exp(-float(step * size)))
        for _ in range(count):
            longer = np.zeros(len(law) + size)
            longer[: len(law)] = law * (1 - yes)
            longer[size:] += law * yes
            law = longer
    places = np.flatnonzero(law > float(delta) * _NEGLIGIBLE)
    losses = [float(step * (2 * int(k) - sum(sizes))) for k in places]
    masses = law[places].tolist()
    least = max(0.0, 1 - math.fsum(masses)) + float(delta) * _MARGIN

    def is_private(epsilon: Fraction) -> bool:
        asked = float(epsilon) * (1 - 1e-9)
        pairs = zip(masses, losses, strict=True)
        found = math.fsum(mass * _delta_of(asked - loss, change) for mass, loss in pairs)
        return found + least <= float(delta)

    low = high * Fraction(3, 4)
    while high - low > high * _NEAR:
        middle = Fraction(float((low + high) / 2))
        if is_private(middle):
            high = middle
        else:
            low = middle
    return high


def _delta_of(epsilon: float, change: float) -> float:
    """Return the delta at any epsilon, also below 0, of a normal that moves by `change` deviations.

    It is E_P[(1 - e^(epsilon - L))+], which where P and Q are alike is, below 0,
    1 - e^epsilon + e^epsilon times that at -epsilon.
    """
    if epsilon < 0:
        return -math.expm1(epsilon) + math.exp(epsilon) * _delta_of(-epsilon, change)
    if change == 0:
        return 0.0
    return math.exp(log_delta(min(epsilon, 49 * change), change))  # it falls as epsilon grows


def _is_private(epsilon: Fraction, ratio: Fraction, delta: Fraction) -> bool:
    unit = sigma1(epsilon, delta)
    return unit is not None and Fraction(unit) ** 2 * ratio <= 1
