"""Local sensitivity: how far an exact quantile or mode could move from these very data.

The noise then follows from the data, or is tested on them first, which takes a delta. A *step* is one
unit that comes or goes in one group: rows of a weight of at most w there, all added or all removed.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dp_sql.dataclass import dataclass
from dp_sql.errors import UnsupportedSQLError
from dp_sql.mechanisms.chooser import Chooser, Weights
from dp_sql.mechanisms.normal import log_of
from dp_sql.mechanisms.ranks import exact
from dp_sql.mechanisms.sampler import MAX_SCALE, Integers, Sampler
from dp_sql.mechanisms.threshold import laplace_threshold
from dp_sql.plan.histogram import Choice, Histogram, Popular, Quantile
from dp_sql.privacy.unit import Adjacency
from dp_sql.schema.catalog import ChoiceKind

NOTHING = -1
"""The candidate that stands for NULL: the test failed."""

_MOST_EPSILON = Fraction(2**30)  # beyond it noise is far below a step of any grid
_FLATTEST = Fraction(1, 2**16)  # growth of the ladder of scales: below it there are too many rungs
_FINE = 2**40  # the ladder's growth is a whole number of these parts
_ROUNDS = 64  # rounding down takes one part in so many of the ladder's first step
_LEAST_SCALE = 2**10
_LEAST_MOVE = 16  # noise is never below that of a sixteenth of a candidate
_MARGIN = Fraction(1, 10**12)  # relative; covers the rounding of the logarithms
_FAR = 2**60  # steps that no histogram has


@dataclass(frozen=True, slots=True)
class Step:
    """What one choice may cost in one group for one step: (epsilon, e^log_delta). weight: w."""

    epsilon: Fraction
    log_delta: float
    weight: int


def step_of(chooser: Chooser) -> Step:
    """Return what a step may cost in one group, where a choice in all groups has the chooser's amounts.

    Claim:   mechanisms that are (e, d)-DP for a step, one in each group with independent noise, are
             (epsilon, delta)-DP together for the unit's adjacency and group size.
    Why:     a neighbour is k links away: one for each unit that comes or goes, and two, one that goes
             and one that comes, where it changes for another. A link is one step in each of L0 groups
             at most: (L0 e, L0 d) by basic composition. k links are (k L0 e, L0 d (1 + … +
             e^((k - 1) L0 e))), the last sum at most k e^((k - 1) L0 e); e = epsilon / (k L0) and
             d = delta / (k L0 e^((k - 1) L0 e)).
    Assumes: weights and groups of a unit are enforced in the SQL (`sensitivity.histogram`).
    Source:  [Dwork2006b]
    """
    unit, facts = chooser.unit, chooser.facts
    links = unit.group_size * (1 if unit.adjacency is Adjacency.ADD_REMOVE else 2)
    many = links * facts.groups
    epsilon = min(chooser.epsilon, _MOST_EPSILON)
    grown = float(epsilon * (links - 1) / links)
    log_delta = log_of(min(chooser.delta, Fraction(1, 2))) - math.log(many) - grown
    log_delta -= float(_MARGIN) * (1 + abs(log_delta))
    return Step(epsilon / many, log_delta, facts.weight)


def require_drawable(histogram: Histogram, chooser: Chooser) -> None:
    """Raise UnsupportedSQLError where a choice needs more noise than can be drawn."""
    step = step_of(chooser)
    for choice in histogram.choices:
        if histogram.kind is ChoiceKind.SMOOTH_SENSITIVITY:
            _scales(histogram, step)
        else:
            noise_of_test(choice, step)
        if histogram.kind is ChoiceKind.PROPOSE_TEST_RELEASE and isinstance(choice, Quantile):
            fixed_noise(histogram, choice, step)


def chosen(
    histogram: Histogram, weights: Weights, chooser: Chooser, sampler: Sampler
) -> dict[Choice, Integers]:
    """Return the candidate of each choice in every group, or NOTHING. weights: by group and place."""
    step = step_of(chooser)
    found: dict[Choice, Integers] = {}
    for choice in histogram.choices:
        if isinstance(choice, Popular):
            found[choice] = _tested_mode(weights, step, sampler)
        elif isinstance(choice, Quantile):
            smooth = histogram.kind is ChoiceKind.SMOOTH_SENSITIVITY
            by = _smooth if smooth else _tested_quantile
            found[choice] = by(histogram, choice, weights, step, sampler)
    return found


@dataclass(frozen=True, slots=True)
class Moves:
    """How far a quantile may move: from `steps[i]` steps away until the next, by `places[i]` at most.

    steps: rising, the first 0. places: steps of the grid; the last is all of it, and holds for good.
    """

    steps: NDArray[np.int64]
    places: NDArray[np.int64]

    def first_beyond(self, most: int) -> int:
        """Return after how many steps it may move by more than `most` places."""
        far = np.flatnonzero(self.places > most)
        return int(self.steps[far[0]]) if far.size else _FAR


def moves(line: NDArray[np.int64], rank: Quantile, unit: int, weight: int) -> Moves:
    """Return how far a quantile of a group may move, from every number of steps away.

    line: the group's weights, by place. unit: the weight of one whole row. weight: of a step.

    Claim:   A_t, the `places` that hold at t steps, is at least |f(D') - f(D'')| for all D' within t
             steps of D and D'' one step from D'; and A_t(D) <= A_(t+1)(E) for all E one step from D.
             f is the answer of `ranks.exact`.
    Why:     let G_D(r) be the first place up to which D weighs more than r, the grid's first place for
             r < 0 and its last where none is. Weights d that come give G_(D + d)(r) <= G_D(r) <=
             G_(D + d)(r + d), and likewise where they go. With q = a/b, N the weight of D and T at
             most N less a row, f lies between G_D(r) and G_D(r') for whole r >= q N - c and
             r' <= q N + c' (`_slack`). So with x of weight that comes and y that goes, x + y <= T,
             f(D') >= G_D(q (N + x - y) - c - x) >= G_D(l), l = q N - m T - c and m = max(q, 1 - q),
             and f(D') <= G_D(h), h = q N + m T + c'; weights are whole, so l is rounded up and h down.
             A_t is G_D(h) - G_D(l) at T = (t + 1) w: both D' and D'' lie in that ball. Where T leaves
             less than a row, A_t is the whole grid, which is all there is. From D to E, one step more
             moves h by m w, l by -m w, q N by q d and the places by d at most either way, d <= w: so
             the interval of E at t + 1 holds that of D at t, and E at t + 1 leaves less than a row
             where D at t does.
    Assumes: the first claim of `sensitivity.histogram`: a step moves no more than w in a group.
    Source:  [NissimRS2007] for n known rows; the bound for rows that come and go is derived here.
    """
    held = np.flatnonzero(line)
    top = line.size - 1
    upto = np.cumsum(line[held])
    total = int(upto[-1]) if held.size else 0
    whole = max(0, -(-(total - unit + 1) // weight) - 1)
    if whole == 0:
        return Moves(np.zeros(1, np.int64), np.full(1, top))
    a, b = rank.fraction.numerator, rank.fraction.denominator
    slope, (down, up) = max(a, b - a), _slack(rank, unit)
    if 8 * b * (total + weight + 2 * unit) >= 2**62:
        upto = upto.astype(object)
    above = -((a * total + up - b * upto) // slope)
    below = np.concatenate([upto[:1] * 0, upto])
    under = -((b * below - b + down - a * total) // slope)
    turns = np.concatenate([above, under])
    steps = np.unique(np.clip(-(-turns // weight) - 1, 0, whole).astype(np.int64))
    steps = np.unique(np.concatenate([np.array([0, whole]), steps]))
    far = (steps.astype(upto.dtype) + 1) * weight
    high = (a * total + up + slope * far) // b
    low = -((slope * far + down - a * total) // b)
    places = _first(held, upto, high, top) - _first(held, upto, low, top)
    places[-1] = top
    return Moves(steps, places)


def _slack(rank: Quantile, unit: int) -> tuple[int, int]:
    """Return b c and b c': how far from q N the weights lie, at most, between which the answer is.

    Interpolated, they are unit * floor and unit * ceil of q (N / unit - 1); else the one of them at
    ceil(q N / unit) - 1, or counted from the largest, in whole units.
    """
    a, b = rank.fraction.numerator, rank.fraction.denominator
    if rank.continuous:
        return unit * (a + b) - 1, unit * (b - a) - 1
    if rank.from_top:
        return b if unit == 1 else 2 * b * unit, 0
    return b * unit, -1


def _first(
    held: NDArray[np.intp], upto: Weights, ranks: NDArray[np.int64], top: int
) -> NDArray[np.int64]:
    """Return the first place up to which more than each rank is held; the grid's ends beyond."""
    index = np.searchsorted(upto, ranks, side="right")
    places = np.concatenate([held, [top]])[index]
    return np.where(ranks < 0, 0, places).astype(np.int64)


def _smooth(
    histogram: Histogram, rank: Quantile, weights: Weights, step: Step, sampler: Sampler
) -> Integers:
    """Return the exact quantile of every group with noise for its smooth sensitivity.

    The answer on a lattice of `parts` a candidate gets discrete Laplace noise of scale s_j; s_0, s_1, …
    is a public ladder that grows by at most a factor g from one rung to the next.

    Claim:   it is (e, d)-DP for a step, e and d those of `step`.
    Why:     j = max(0, max_t (rung(A_t) - t)) for A_t of `moves` and rung(A) the first one with
             s >= parts A 2 / e. A_t(D) <= A_(t+1)(E) and rungs rise with A, so j(D) <= j(E) + 1: the
             scales s of D and s' of E differ by a factor g at most. t = 0 gives that the answers differ
             by M <= s e / 2 and by s' e / 2. Let F be the law under D and F' that under E, both around
             their answers, z a draw of F. With c(s) = tanh(1 / 2s) the loss is
             ln(c(s) / c(s')) + |z - f'| / s' - |z - f| / s.
             s >= s': c(s) <= c(s'), so it is at most M / s' + (|z - f| / s)(g - 1), above e only where
             |z - f| > s (e / 2) / (g - 1) >= s ln(2 / d), by g - 1 <= e / (2 ln(2 / d)); which has a
             probability of at most 2 exp(-ln(2 / d)) = d.
             s < s': c(s) / c(s') <= s' / s <= g as tanh(x) / x falls; the loss is at most
             ln g + M / s' <= e, as ln(2 / d) >= 1.
             Rounding to a candidate and cutting at the grid's ends read nothing else.
    Assumes: `moves`; integer ladders make j exact.
    Source:  [NissimRS2007], lemma 2.9, for real noise and real scales.
    """
    scales, parts = smooth_scales(histogram, rank, weights, step)
    noise = np.zeros(len(weights), dtype=np.int64)
    for scale in np.unique(scales):
        some = np.flatnonzero(scales == scale)
        noise[some] = sampler.laplace(int(scale), some.size)
    last = histogram.measure.cells * histogram.fine
    return _rounded(exact(histogram, rank, weights), noise, parts, last)


def smooth_scales(
    histogram: Histogram, rank: Quantile, weights: Weights, step: Step
) -> tuple[NDArray[np.int64], int]:
    """Return the scale of the noise in every group, and the parts of a candidate that it counts."""
    scales, parts = _scales(histogram, step)
    ladder, wide = np.array(scales), _wide(histogram, step, parts)
    rungs = np.zeros(len(weights), dtype=np.int64)
    for group, line in enumerate(weights):
        found = moves(line, rank, histogram.unit, step.weight)
        needed = np.searchsorted(ladder, found.places * wide)
        rungs[group] = max(0, int((needed - found.steps).max()))
    return ladder[rungs], parts


def _rounded(answers: NDArray[np.intp], noise: Integers, parts: int, last: int) -> Integers:
    """Return the candidates nearest to answers with noise on a lattice of so many parts."""
    noisy = answers.astype(np.int64) * parts + noise
    nearest: Integers = np.clip((noisy + parts // 2) // parts, 0, last)
    return nearest


def _scales(histogram: Histogram, step: Step) -> tuple[tuple[int, ...], int]:
    """Return the ladder of scales of a step, and the parts of a candidate that they count."""
    odds = Fraction(math.log(2) - step.log_delta) * (1 + _MARGIN)  # ln(2 / d), rounded up
    growth = min(Fraction(1), step.epsilon / (2 * odds))
    if growth < _FLATTEST:
        raise _too_much()
    first = math.ceil(_ROUNDS / growth)
    parts = 1
    while parts * 2 < first * _LEAST_MOVE * step.epsilon:
        parts *= 2
    highest = histogram.measure.cells * _wide(histogram, step, parts)
    if max(first, highest) * 2 > MAX_SCALE:
        raise _too_much()
    return _ladder(int((1 + growth) * _FINE), first, highest), parts


def _wide(histogram: Histogram, step: Step, parts: int) -> int:
    """Return the scale, in parts, for a move by one place: 2 / epsilon times as far, rounded up."""
    return math.ceil(2 * parts * histogram.fine / step.epsilon)


@lru_cache(maxsize=32)
def _ladder(growth: int, first: int, highest: int) -> tuple[int, ...]:
    """Return integers from `first` to above `highest`, each at most growth / _FINE times the last."""
    rungs = [first]
    while rungs[-1] < highest:
        rungs.append(rungs[-1] * growth // _FINE)
    return tuple(rungs)


def _tested_quantile(
    histogram: Histogram, rank: Quantile, weights: Weights, step: Step, sampler: Sampler
) -> Integers:
    """Return the exact quantile of the groups that pass a test, with noise for the move proposed.

    Claim:   it is (e, d)-DP for a step, e and d those of `step`.
    Why:     the test reads how many steps away the quantile could move by more than is proposed.
             A_t(D) <= A_(t+1)(E) makes that count differ by one at most between D and E, and its noise
             has scale 2 / e. Where it is 0 under D, the test passes with a probability of d at most, and
             a NULL is e/2-close. Else A_0 <= proposed: the answers of D and E differ by no more, and
             the noise on them, for e/2, hides that, whatever the test says.
    Assumes: `moves`, and independent draws.
    Source:  [DworkLei2009]
    """
    most, scale, parts = fixed_noise(histogram, rank, step)
    distances = [
        moves(line, rank, histogram.unit, step.weight).first_beyond(most) for line in weights
    ]
    passed = _passes(np.array(distances, dtype=object), rank, step, sampler)
    noise = sampler.laplace(scale, len(weights))
    last = histogram.measure.cells * histogram.fine
    return np.where(
        passed, _rounded(exact(histogram, rank, weights), noise, parts, last), np.int64(NOTHING)
    )


def fixed_noise(histogram: Histogram, rank: Quantile, step: Step) -> tuple[int, int, int]:
    """Return the move proposed in places, rounded down, the scale for it, and the scale's parts."""
    measure = histogram.measure
    proposed, span = proposal(histogram, rank), measure.high - measure.low
    most = min(int(proposed * measure.cells / span), measure.cells) if span else measure.cells
    ratio = Fraction(max(1, most) * histogram.fine * 2) / step.epsilon
    parts = 1
    while parts * ratio < _LEAST_SCALE:
        parts *= 2
    scale = math.ceil(parts * ratio)
    if scale > MAX_SCALE:
        raise _too_much()
    return most, scale, parts


def proposal(histogram: Histogram, rank: Quantile) -> Fraction:
    """Return how far a step may move a quantile: as proposed, or a hundredth of the grid, or one place."""
    span = histogram.measure.high - histogram.measure.low
    if rank.proposed is not None:
        return rank.proposed
    return max(span / 100, span / histogram.measure.cells)


def _tested_mode(weights: Weights, step: Step, sampler: Sampler) -> Integers:
    """Return the heaviest place of the groups where it is far ahead of the second.

    Claim:   it is (e, d)-DP for a step, e and d those of `step`.
    Why:     let g be how much more the heaviest place weighs than the second. A step adds weights or
             takes them away, w in all, so it moves both in one direction by w at most, and g by w.
             Noise of scale w / e on g makes the test e-DP. Where g > w under D, the heaviest place is
             the same under E, a function of nothing that differs. Else the test passes with a
             probability of d at most, and a NULL is e-close.
    Assumes: nothing more.
    Source:  [SmithThakurta2013]
    """
    heaviest = np.partition(weights, weights.shape[1] - 2, axis=1)[:, -2:]
    ahead = (heaviest[:, 1] - heaviest[:, 0]).astype(object)
    passed = _passes(ahead, Popular(0, 1), step, sampler)
    return np.where(passed, weights.argmax(axis=1).astype(np.int64), np.int64(NOTHING))


def _passes(
    values: NDArray[np.object_], choice: Choice, step: Step, sampler: Sampler
) -> NDArray[np.bool_]:
    """Return which groups pass the test on integers that are above `start` where all is well."""
    lattice, scale, threshold = noise_of_test(choice, step)
    noisy = values * lattice + sampler.laplace(scale, values.size)
    passed: NDArray[np.bool_] = np.asarray(noisy >= threshold, dtype=np.bool_)
    return passed


def noise_of_test(choice: Choice, step: Step) -> tuple[int, int, int]:
    """Return the lattice of a test, the scale of its noise, and from where on it is passed.

    A quantile's test has half of the epsilon and is on a number of steps, above 0 where all is well;
    that of a mode has all of it and is on a weight, above w.
    """
    quantile = isinstance(choice, Quantile)
    ratio = 2 / step.epsilon if quantile else step.weight / step.epsilon
    lattice = 1
    while lattice * ratio < _LEAST_SCALE:
        lattice *= 2
    scale = math.ceil(lattice * ratio)
    if scale > MAX_SCALE:
        raise _too_much()
    start = 0 if quantile else lattice * step.weight
    return lattice, scale, laplace_threshold(scale, step.log_delta, start=start)


def _too_much() -> UnsupportedSQLError:
    return UnsupportedSQLError(
        "this choice would need noise beyond what can be drawn.",
        hint="a larger epsilon or delta, or smaller limits of rows and groups",
    )
