"""Values chosen from the histograms of a release: by rank, or by how many rows have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.mechanisms import local, ranks, tree
from dp_sql.mechanisms.chooser import Chooser, Counted
from dp_sql.mechanisms.popular import bins, heaviest
from dp_sql.mechanisms.sampler import Sampler
from dp_sql.plan.histogram import Bin, Choice, Extreme, Histogram, Popular, Quantile
from dp_sql.privacy.event import ApproximateEvent, Event, PureEvent
from dp_sql.schema.catalog import ChoiceKind

_CELLS = 2**20  # numbers at once


def require_drawable(histogram: Histogram, chooser: Chooser) -> None:
    """Raise UnsupportedSQLError where a choice needs more noise than a sampler draws."""
    if histogram.kind.is_local:
        local.require_drawable(histogram, chooser)
        return
    if histogram.kind is ChoiceKind.TREE:
        tree.require_drawable(histogram, chooser)
        return
    ranks.require_drawable(histogram, chooser)
    if any(isinstance(choice, Popular | Bin) for choice in histogram.choices):
        if histogram.kind is ChoiceKind.NOISY_MAX_LAPLACE:
            chooser.laplace()
        else:
            chooser.growing()


def events_of(histogram: Histogram, chooser: Chooser) -> list[Event]:
    """Return what the ledger stores of a histogram's choices."""
    if histogram.kind is ChoiceKind.TREE:
        return [tree.event_of(histogram, chooser)]
    if histogram.kind is ChoiceKind.NOISY_MAX_LAPLACE:
        return [chooser.event(1)]
    one: Event = PureEvent(chooser.epsilon)
    if histogram.kind.is_local:
        one = ApproximateEvent(chooser.epsilon, chooser.delta)
    return [one] * histogram.runs


def rank_error(histogram: Histogram, rank: Quantile, chooser: Chooser, risk: float) -> float:
    """Return how many rows a quantile's rank is off by at most, but for a probability of `risk`."""
    if histogram.kind is ChoiceKind.TREE:
        return tree.rank_error(histogram, chooser, risk)
    return ranks.rank_error(histogram, rank, chooser, risk)


def beyond(histogram: Histogram, rank: Extreme, chooser: Chooser) -> float:
    """Return how many rows are to lie beyond the largest or below the smallest value."""
    if histogram.kind is ChoiceKind.TREE:
        return tree.beyond(histogram, chooser)
    return ranks.beyond(histogram, rank, chooser)


def choose(
    histogram: Histogram, counted: Counted, groups: int, chooser: Chooser, sampler: Sampler
) -> list[NDArray[Any]]:
    """Return, for each choice of a histogram, the candidate chosen in each of so many groups.

    `local.NOTHING` stands for NULL. Of a bin it is the noisy weight, times the noise's lattice.
    """
    chosen: list[NDArray[Any]] = [
        np.empty(groups, dtype=object if isinstance(choice, Bin) else np.int64)
        for choice in histogram.choices
    ]
    places = histogram.measure.cells + 1
    by_tree = histogram.kind is ChoiceKind.TREE
    width = max(places * ranks.spread_of(histogram), histogram.measure.cells * histogram.fine + 1)
    size = max(1, _CELLS // (2 * places if by_tree else width))
    factor = tree.factor_of(histogram, chooser) if by_tree else ranks.factor_of(histogram)
    for start in range(0, groups, size):
        weights = counted.dense(places, start, min(groups, start + size), factor=factor)
        found: dict[Choice, NDArray[Any]] = {}
        if histogram.kind.is_local:
            found.update(local.chosen(histogram, weights, chooser, sampler))
        elif by_tree:
            found.update(tree.ranked(histogram, weights, chooser, sampler))
        else:
            found.update(ranks.ranked(histogram, weights, chooser, sampler))
            found.update(heaviest(histogram, weights, chooser, sampler))
            found.update(bins(histogram, weights, chooser, sampler))
        for choice, values in zip(histogram.choices, chosen, strict=True):
            values[start : start + size] = found[choice]
    return chosen
