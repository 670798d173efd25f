"""The values that most of a group's rows have, from histograms over public values."""

from __future__ import annotations

import numpy as np

from dp_sql.mechanisms.chooser import Chooser, Weights
from dp_sql.mechanisms.sampler import Integers, Sampler
from dp_sql.plan.histogram import Bin, Choice, Histogram, Popular
from dp_sql.schema.catalog import ChoiceKind


def heaviest(
    histogram: Histogram, weights: Weights, chooser: Chooser, sampler: Sampler
) -> dict[Choice, Integers]:
    """Return, for each heaviest value that is asked, the place chosen in every group.

    weights: by group and place. With Laplace noise all of them cost what one choice does, since an
    order of noisy weights is post-processing; else one value is chosen after another, each at the
    cost of one.
    """
    asked = [choice for choice in histogram.choices if isinstance(choice, Popular)]
    if not asked:
        return {}
    if histogram.kind is ChoiceKind.NOISY_MAX_LAPLACE:
        noisy = _noisy(weights, chooser, sampler)
        order = np.argsort(-noisy, axis=1, kind="stable")
    else:
        most = min(max(choice.of for choice in asked), weights.shape[1])
        order = _peeled(weights, most, chooser, sampler, histogram.kind)
    last = order.shape[1] - 1
    return {choice: order[:, min(choice.place, last)] for choice in asked}


def bins(
    histogram: Histogram, weights: Weights, chooser: Chooser, sampler: Sampler
) -> dict[Choice, Weights]:
    """Return the noisy weight of each place that is asked in every group, times the noise's lattice."""
    asked = [choice for choice in histogram.choices if isinstance(choice, Bin)]
    noisy = _noisy(weights, chooser, sampler) if asked else weights
    return {choice: noisy[:, choice.place] for choice in asked}


def _noisy(weights: Weights, chooser: Chooser, sampler: Sampler) -> Weights:
    """Return every weight times the lattice with noise of its own, in Python integers."""
    lattice, scale = chooser.laplace()
    noise = sampler.laplace(scale, weights.size).reshape(weights.shape)
    shown: Weights = weights.astype(object) * lattice + noise
    return shown


def _peeled(
    weights: Weights, most: int, chooser: Chooser, sampler: Sampler, kind: ChoiceKind
) -> Integers:
    """Return the places of every group that are chosen one after another."""
    rate = chooser.growing()
    left = weights.copy()
    taken = np.zeros(weights.shape, dtype=np.bool_)
    order = np.empty((len(weights), most), dtype=np.int64)
    rows = np.arange(len(weights))
    for place in range(most):
        gaps = rate.capped(left.max(axis=1, keepdims=True) - left)
        gaps[taken] = rate.farthest
        order[:, place] = sampler.choose(
            gaps, rate, exponential=kind is not ChoiceKind.PERMUTE_AND_FLIP
        )
        taken[rows, order[:, place]] = True
        left[rows, order[:, place]] = -1
    return order
