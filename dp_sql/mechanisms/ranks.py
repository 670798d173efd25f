"""Values chosen by their ranks: quantiles, and the smallest and largest, from histograms.

Candidates are public: the points of a grid. A candidate's score is how far its rank is from the one
asked, in weights of rows, so a unit's rows change every score by little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_sql.errors import InternalError
from dp_sql.mechanisms.chooser import Chooser, Weights
from dp_sql.mechanisms.sampler import Integers, Rate, Sampler
from dp_sql.plan.histogram import Choice, Extreme, Histogram, Quantile, Rank
from dp_sql.schema.catalog import ChoiceKind

_BONUS = 64  # units of score for one weight
_HALVED = 2**12  # candidates at least where a histogram is halved
_PARTS = (
    64  # of a place at least, on grids of up to so many candidates, and a quarter of them on larger
)
_FINE_GRID = 2**12
_MOST_BELOW = 1000  # denominators of ranks inside a half


def ranked(
    histogram: Histogram, weights: Weights, chooser: Chooser, sampler: Sampler
) -> dict[Choice, Integers]:
    """Return the candidate of each rank in every group. weights: by group and place."""
    ranks = [c for c in histogram.choices if isinstance(c, Quantile | Extreme)]
    found: dict[Choice, Integers] = {}
    if histogram.together:
        fractions = _fractions(histogram)
        several = _halved(histogram, weights, fractions, chooser, sampler)
        for rank in ranks:
            if isinstance(rank, Quantile):
                found[rank] = several[fractions.index(rank.fraction)]
    for rank in ranks:
        if rank not in found:
            found[rank] = _single(histogram, rank, weights, chooser, sampler)
    return found


def require_drawable(histogram: Histogram, chooser: Chooser) -> None:
    """Raise UnsupportedSQLError where some rank can't be chosen at a rate that a sampler draws at."""
    for rank in histogram.choices:
        if isinstance(rank, Quantile | Extreme):
            _rate(rank, chooser)
    if histogram.together:
        for _, _, wanted in _cuts(_fractions(histogram)):
            _cut_rate(histogram, wanted, chooser)


def _fractions(histogram: Histogram) -> list[Fraction]:
    """Return the places of the quantiles that are asked, in order, each once."""
    return sorted({c.fraction for c in histogram.choices if isinstance(c, Quantile)})


def _cut_rate(histogram: Histogram, wanted: Fraction, chooser: Chooser) -> Rate:
    """Return the rate at which the cut of a part is chosen."""
    one = spread_of(histogram) * max(wanted.numerator, wanted.denominator - wanted.numerator)
    return chooser.rate(one, 2 * one, 0)


def factor_of(histogram: Histogram) -> int:
    """Return what weights are multiplied by at most on the way to scores."""
    largest = max(
        (_moves(rank)[3] for rank in histogram.choices if isinstance(rank, Quantile)), default=1
    )
    return 4 * max(_BONUS * largest, _MOST_BELOW * spread_of(histogram))


def spread_of(histogram: Histogram) -> int:
    """Return into how many parts a place is cut where a histogram is halved."""
    if not histogram.together:
        return 1
    cells = histogram.measure.cells
    return max(_PARTS if cells <= _FINE_GRID else _PARTS // 4, _HALVED // cells)


def _single(
    histogram: Histogram, rank: Rank, weights: Weights, chooser: Chooser, sampler: Sampler
) -> Integers:
    """Return the candidate of one rank in every group.

    Claim:   a weight that comes or goes moves each score by `one` at most, one that goes elsewhere
             by `moved`; the exact answer's bonus adds what it is in a group, whatever changes.
    Why:     with h = q (N - W), N the weight of a group and W that of a row, a candidate's score is
             minus the larger of L - h - W and h - E, or 0: L is the weight below it, E up to it. A
             new weight adds 0 or 1 to L and E and q to h, so it moves both by max(q, 1 - q) at most;
             one that goes elsewhere leaves h and moves L and E by 1. The maximum moves no further.
             For the largest value the score is -|N - E - r|, r public, and likewise with L.
    Assumes: nothing more. A score of 0 is within a row of the rank asked.
    Source:  [Smith2011]
    """
    rate = _rate(rank, chooser)
    beyond = _beyond(histogram, rate)
    found = scores(histogram, rank, weights, beyond, _bonus(rank, chooser))
    gaps = rate.capped(found.max(axis=1, keepdims=True) - found)
    return sampler.choose(gaps, rate, exponential=histogram.kind is ChoiceKind.EXPONENTIAL)


def scores(histogram: Histogram, rank: Rank, weights: Weights, beyond: int, bonus: int) -> Weights:
    """Return the score of every candidate in every group.

    beyond: the weight that an extreme leaves out. bonus: what the exact answer has more.
    """
    _, _, a, b = _moves(rank)
    below, upto = _ranked(weights, histogram.fine)
    total = upto[:, -1:]
    if isinstance(rank, Extreme):
        distance = np.abs((total - upto if rank.largest else below) - beyond)
    else:
        asked = a * (total - histogram.unit)
        distance = np.maximum(b * (below - histogram.unit) - asked, asked - b * upto)
        distance = np.maximum(distance, 0)
    found: Weights = -_BONUS * distance
    found[np.arange(len(weights)), exact(histogram, rank, weights)] += bonus
    return found


def _bonus(rank: Rank, chooser: Chooser) -> int:
    """Return by how much the exact answer's score is raised: a 64th of what a unit changes it by.

    That is in one group, where it adds evenly to all that it can reach.
    """
    facts = chooser.facts
    weight = max(1, facts.weight // facts.groups) if facts.shared else facts.weight
    return weight * _moves(rank)[0]


def _rate(rank: Rank, chooser: Chooser) -> Rate:
    """Return the rate at which the candidates of one rank are chosen."""
    one, moved, _, _ = _moves(rank)
    return chooser.rate(_BONUS * one, _BONUS * moved, _bonus(rank, chooser))


def _beyond(histogram: Histogram, rate: Rate) -> int:
    """Return how much weight is to lie beyond the largest or below the smallest value.

    With less, a candidate that nobody reaches would be chosen as often: there are many of them.
    """
    candidates = histogram.measure.cells * histogram.fine + 1
    return int((math.log(candidates) + 3) / float(rate.value * _BONUS))


def beyond(histogram: Histogram, rank: Extreme, chooser: Chooser) -> float:
    """Return how many rows are to lie beyond the largest or below the smallest value."""
    return _beyond(histogram, _rate(rank, chooser)) / histogram.unit


def rank_error(histogram: Histogram, rank: Quantile, chooser: Chooser, risk: float) -> float:
    """Return how many rows a quantile's rank is off by at most, but for a probability of `risk`.

    Of C candidates permute-and-flip takes one whose score is ln(C / risk) / rate below the best with
    that probability. Where a histogram is halved, the errors of the levels add up.
    Source: [McKennaSheldon2020]
    """
    b = rank.fraction.denominator
    together = histogram.together
    spread = spread_of(histogram)
    rate = _cut_rate(histogram, rank.fraction, chooser) if together else _rate(rank, chooser)
    cells = histogram.measure.cells
    candidates = spread * (cells + 1) if together else cells * histogram.fine + 1
    scale = b * histogram.unit * (spread if together else _BONUS)
    runs = histogram.runs if together else 1
    return runs * math.log(candidates * runs / risk) / float(rate.value) / scale


def _moves(rank: Rank) -> tuple[int, int, int, int]:
    """Return how far a weight moves a score when it comes or moves, and the rank as a/b."""
    if isinstance(rank, Extreme):
        return 1, 1, 0, 1
    a, b = rank.fraction.numerator, rank.fraction.denominator
    if not 0 <= a <= b:
        raise InternalError("a quantile's place lies between 0 and 1")
    return max(a, b - a), b, a, b


def _ranked(weights: Weights, fine: int) -> tuple[Weights, Weights]:
    """Return the weight below each candidate, and up to it. Candidates between places hold none."""
    upto = np.cumsum(weights, axis=1)
    below = np.concatenate([np.zeros_like(upto[:, :1]), upto[:, :-1]], axis=1)
    if fine == 1:
        return below, upto
    last = upto.shape[1] - 1
    index = np.arange(last * fine + 1)
    place, between = index // fine, index % fine > 0
    return np.where(between, upto[:, place], below[:, place]), upto[:, place]


def exact(histogram: Histogram, rank: Rank, weights: Weights) -> NDArray[np.intp]:
    """Return the candidate that DuckDB's answer over the grid is nearest to, in every group.

    It breaks ties only, so where weights are no whole rows, or nobody is there, any answer will do:
    over nobody it is the value nearest to 0.
    """
    fine, unit = histogram.fine, histogram.unit
    found = np.empty(len(weights), dtype=np.intp)
    for row, line in enumerate(weights):
        held = np.flatnonzero(line)
        if not held.size:
            found[row] = histogram.candidate(Fraction(0))
        elif isinstance(rank, Extreme):
            found[row] = held[-1 if rank.largest else 0] * fine
        else:
            upto = np.cumsum(line[held])
            place = order_statistic(rank, Fraction(int(upto[-1]), unit))
            first = math.floor(place)
            ends = np.searchsorted(upto, [first * unit, (first + 1) * unit], side="right")
            low, high = (int(held[min(int(end), held.size - 1)]) for end in ends)
            found[row] = histogram.between(low, high, place - first)
    return found


def order_statistic(rank: Quantile, rows: Fraction) -> Fraction:
    """Return which of so many rows in order DuckDB takes, from 0; between two where it interpolates."""
    if rank.continuous:
        return max(Fraction(0), rank.fraction * (rows - 1))
    if rank.from_top:
        return Fraction(max(0, math.floor(rows) - max(1, math.ceil((1 - rank.fraction) * rows))))
    return Fraction(max(0, math.ceil(rank.fraction * rows) - 1))


def _halved(
    histogram: Histogram,
    weights: Weights,
    fractions: Sequence[Fraction],
    chooser: Chooser,
    sampler: Sampler,
) -> list[Integers]:
    """Return the candidates of several quantiles in every group, by halving its histogram.

    The middle quantile is chosen, then those on either side of it among the values on their side. A
    place's weight lies evenly over its `spread` parts, so a cut may go through a place that holds
    many values: one that holds a share p of the rows to p / spread of them.

    Claim:   all choices of one level together cost the epsilon of one choice.
    Why:     a level's parts are disjoint and fixed by what was chosen before, so a weight w of a unit
             is split among them, w = sum w_p. In part p the score -|b F(c) - a F|, F(c) the weight
             up to candidate c in its `spread` parts and F that of the whole part, moves by at most
             w_p * spread * max(a, b - a); its rate makes that cost epsilon * w_p / w. A weight that
             moves is one that goes and one that comes, twice that, which `moved` pays.
    Assumes: as `Chooser.rate`.
    Source:  [Kaplan2022]
    """
    spread, cells = spread_of(histogram), histogram.measure.cells
    parts = np.cumsum(np.repeat(weights, spread, axis=1), axis=1)
    upto = np.concatenate([np.zeros_like(parts[:, :1]), parts], axis=1)  # at each part's start
    found: list[Integers] = [np.empty(0, dtype=np.int64)] * len(fractions)
    low = np.zeros(len(weights), dtype=np.int64)
    high = np.full(len(weights), upto.shape[1] - 1, dtype=np.int64)
    ends = {(0, len(fractions)): (low, high)}
    for start, end, wanted in _cuts(fractions):
        low, high = ends[start, end]
        middle = (start + end) // 2
        cut = _cut(upto, (low, high), wanted, chooser, sampler, histogram)
        found[middle] = np.minimum(cut // spread, cells) * histogram.fine
        ends[start, middle] = low, cut
        ends[middle + 1, end] = cut, high
    return found


def _cuts(fractions: Sequence[Fraction]) -> Iterator[tuple[int, int, Fraction]]:
    """Yield the parts that are cut, as ranges of quantiles, each with the place of its cut in it."""
    waiting = [(0, len(fractions), Fraction(0), Fraction(1))]
    while waiting:
        start, end, least, most = waiting.pop()
        if start == end:
            continue
        asked = fractions[(start + end) // 2]
        wanted = (asked - least) / (most - least) if most > least else Fraction(1, 2)
        yield start, end, wanted.limit_denominator(_MOST_BELOW)
        waiting.append((start, (start + end) // 2, least, asked))
        waiting.append(((start + end) // 2 + 1, end, asked, most))


def _cut(
    upto: Weights,
    ends: tuple[Integers, Integers],
    wanted: Fraction,
    chooser: Chooser,
    sampler: Sampler,
    histogram: Histogram,
) -> Integers:
    """Return where a part of each group is cut, between its ends.

    Candidates outside the part are as far below the best as one can be (`Rate.capped`); one that is
    chosen all the same stands for the nearer end.
    """
    a, b = wanted.numerator, wanted.denominator
    rate = _cut_rate(histogram, wanted, chooser)
    low, high = (end[:, np.newaxis] for end in ends)
    first, last = (np.take_along_axis(upto, end, axis=1) for end in (low, high))
    distance = np.abs(b * (upto - first) - a * (last - first))
    index = np.arange(upto.shape[1])
    outside = (index < low) | (index > high)
    distance[outside] = distance.max(initial=0)
    gaps = rate.capped(distance - distance.min(axis=1, keepdims=True))
    gaps[outside] = rate.farthest
    chosen = sampler.choose(gaps, rate, exponential=histogram.kind is ChoiceKind.EXPONENTIAL)
    cut: Integers = np.clip(chosen, *ends)
    return cut
