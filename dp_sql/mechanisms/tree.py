"""Quantiles from a tree of noisy counts: one release for however many of them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_sql.mechanisms.chooser import Chooser, Weights
from dp_sql.mechanisms.normal import upper_quantile
from dp_sql.mechanisms.ranks import order_statistic
from dp_sql.mechanisms.sampler import Integers, Sampler
from dp_sql.plan.histogram import Choice, Extreme, Histogram, Quantile
from dp_sql.plan.tree import branches, most_deviation, rank_deviation
from dp_sql.privacy.amount import show
from dp_sql.privacy.event import LaplaceEvent

Floats: TypeAlias = NDArray[np.float64]


def require_drawable(histogram: Histogram, chooser: Chooser) -> None:
    """Raise UnsupportedSQLError where the noise on a node is more than a sampler draws."""
    chooser.laplace(len(shape(histogram)))


def shape(histogram: Histogram) -> tuple[int, ...]:
    """Return the children of a node on each level of the tree over a histogram's places."""
    return branches(histogram.measure.cells + 1)


def described(histogram: Histogram, chooser: Chooser) -> str:
    """Return the choice in words, for EXPLAIN."""
    lattice, scale = chooser.laplace(len(shape(histogram)))
    levels = " by ".join(map(str, shape(histogram)))
    return (
        f"a tree of noisy counts, {levels}, epsilon {show(chooser.epsilon)} for all ranks, discrete "
        f"Laplace of scale {scale / lattice / histogram.unit:.6g} on each node"
    )


def factor_of(histogram: Histogram, chooser: Chooser) -> int:
    """Return what weights are multiplied by on the way to noisy ones."""
    return chooser.laplace(len(shape(histogram)))[0]


def event_of(histogram: Histogram, chooser: Chooser) -> LaplaceEvent:
    """Return what the release of a tree in every group is: a level's nodes hold each weight once."""
    return chooser.event(len(shape(histogram)))


def ranked(
    histogram: Histogram, weights: Weights, chooser: Chooser, sampler: Sampler
) -> dict[Choice, Integers]:
    """Return the candidate of each rank in every group. weights: by group and place."""
    counts = _counts(histogram, weights, chooser, sampler)
    asked = [c for c in histogram.choices if isinstance(c, Quantile | Extreme)]
    return {rank: _read(histogram, rank, counts, chooser) for rank in asked}


def rank_error(histogram: Histogram, chooser: Chooser, risk: float) -> float:
    """Return how many rows a rank is off by at most, but for a probability of `risk`.

    The noise of a rank is a sum over nodes, so it is near to normal; and it is that of the worst rank.
    """
    unit = float(chooser.moved() / chooser.epsilon) / histogram.unit
    return upper_quantile(math.log(risk / 2)) * unit * most_deviation(histogram.measure.cells + 1)


def beyond(histogram: Histogram, chooser: Chooser) -> int:
    """Return how many rows are to lie beyond the largest or below the smallest value.

    Twice the deviation of a rank: the end of what noise takes for values is then rarely beyond all.
    """
    unit = float(chooser.moved() / chooser.epsilon) / histogram.unit
    return int(2 * unit * rank_deviation(histogram.measure.cells + 1))


def _counts(histogram: Histogram, weights: Weights, chooser: Chooser, sampler: Sampler) -> Floats:
    """Return how many rows each place of every group holds, by all of its tree: none below 0.

    Each node's noisy weight is `lattice` times it and discrete Laplace noise, on integers. What follows
    reads nothing else: from the leaves up a node's estimate is the best mean of its own number and of
    its children's sum; from the top down children are moved to the nearest numbers, none below 0, that
    add up to their parent's.
    Source: [Hay2010]
    """
    tree, groups = shape(histogram), len(weights)
    lattice, scale = chooser.laplace(len(tree))
    sums = [np.zeros((groups, math.prod(tree)), dtype=weights.dtype)]
    sums[0][:, : weights.shape[1]] = weights
    for wide in reversed(tree[1:]):
        sums.append(sums[-1].reshape(groups, -1, wide).sum(axis=2))
    noisy = [_noisy(level, lattice, scale, sampler) / histogram.unit for level in sums]
    best, variance = [noisy[0]], 1.0
    for own, wide in zip(noisy[1:], reversed(tree[1:]), strict=True):
        below, spread = best[-1].reshape(groups, -1, wide).sum(axis=2), wide * variance
        best.append((spread * own + below) / (spread + 1))
        variance = spread / (spread + 1)
    whole: Floats = np.maximum(best[-1].sum(axis=1, keepdims=True), 0.0)
    for level, wide in zip(reversed(best), tree, strict=True):
        whole = _moved(level.reshape(groups, -1, wide), whole).reshape(groups, -1)
    return whole


def _noisy(exact: Weights, lattice: int, scale: int, sampler: Sampler) -> Floats:
    """Return the noisy weights: the noise is added on the lattice, and divided by it afterwards.

    exact: its integers times the lattice fit their type.
    """
    noise = sampler.laplace(scale, exact.size).reshape(exact.shape)
    shown = (exact * lattice + noise).astype(np.float64)
    found: Floats = shown / lattice
    return found


def _moved(children: Floats, whole: Floats) -> Floats:
    """Return the nearest numbers to each row of children, none below 0, that add up to `whole`.

    They are the children less one number, cut at 0. Source: [Duchi2008].
    """
    falling = -np.sort(-children, axis=-1)
    over = np.cumsum(falling, axis=-1) - whole[..., np.newaxis]
    kept = (falling * np.arange(1, children.shape[-1] + 1) > over).sum(axis=-1, keepdims=True)
    kept = np.maximum(kept, 1)
    less = np.take_along_axis(over, kept - 1, axis=-1) / kept
    cut: Floats = np.maximum(children - less, 0.0)
    return cut


def _read(
    histogram: Histogram, rank: Quantile | Extreme, counts: Floats, chooser: Chooser
) -> Integers:
    """Return the candidate of a rank by estimated counts: DuckDB's own, where these are whole."""
    upto = np.cumsum(counts, axis=1)
    last = histogram.measure.cells
    found = np.empty(len(counts), dtype=np.int64)
    for row, line in enumerate(upto):
        rows = round(float(line[-1]))
        if not rows:
            found[row] = histogram.candidate(Fraction(0))
            continue
        if isinstance(rank, Quantile):
            place = order_statistic(rank, Fraction(rows))
        else:
            inside = min(beyond(histogram, chooser), rows - 1)
            place = Fraction(rows - 1 - inside if rank.largest else inside)
        first = math.floor(place)
        low, high = np.searchsorted(line, [first + 0.5, first + 1.5]).clip(0, last).tolist()
        found[row] = histogram.between(low, high, place - first)
    return found
