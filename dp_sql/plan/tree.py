"""Trees over the places of a grid: how many children a node has, and how far off ranks in it are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

_MOST_LEVELS = 16
_AFTER_CUT = 0.79  # of the error of a rank remains once no count is below 0


@lru_cache(maxsize=256)
def branches(places: int) -> tuple[int, ...]:
    """Return the children of a node on each level, from the top, for at least so many leaves.

    The root holds everything and is not counted. Of the trees of equal branching below the top it is
    the one whose ranks err least.
    """
    found = [_even(places, levels) for levels in range(1, _MOST_LEVELS + 1)]
    return min(found, key=lambda tree: (_deviation(tree), len(tree)))


def rank_deviation(places: int) -> float:
    """Return by how many weights a rank is off for one unit of noise, as a standard deviation.

    A unit is weight over epsilon, for one weight that comes or goes. Nodes on each of h levels have
    noise of deviation sqrt(2) h. After least squares a child's estimate has the variance V_i = b V / (b
    V + 1), V being that of its own children, and 1 for leaves. A rank between children j and j + 1 of
    a node, at the share g of that child, takes V_i (j + g^2 - (j + g)^2 / b) from a level: over all j
    and g that is V_i (b - 1) / 6 on average. Levels are independent.
    Source: [Hay2010], [Qardaji2013]
    """
    return _AFTER_CUT * _deviation(branches(places))


def most_deviation(places: int) -> float:
    """Return the standard deviation of the worst rank, in the same units, before counts are cut at 0."""
    tree = branches(places)
    levels = list(_levels(tree))
    top = levels[-1][0] * levels[-1][1]  # the variance of the whole weight
    return math.sqrt(2 * (top + sum(v * b / 4 for b, v in levels))) * len(tree)


def _even(places: int, levels: int) -> tuple[int, ...]:
    wide = max(2, math.ceil(round(places ** (1 / levels), 9)))
    return (max(1, -(-places // wide ** (levels - 1))), *(wide for _ in range(levels - 1)))


def _deviation(tree: tuple[int, ...]) -> float:
    return len(tree) * math.sqrt(2 * sum(v * (b - 1) / 6 for b, v in _levels(tree)))


def _levels(tree: tuple[int, ...]) -> Iterator[tuple[int, float]]:
    """Yield the branching above each level and the variance of a node there, from the leaves up."""
    variance = 1.0
    for wide in reversed(tree):
        yield wide, variance
        variance = wide * variance / (wide * variance + 1)
