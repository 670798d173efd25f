"""How the groups of several sets of keys lie in each other, and whole numbers that add up over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from dp_sql.mechanisms.release import AnyIntegers, Key, peak
from dp_sql.plan.release import PlannedRelease

_SAFE = 2**62  # sums up to here are computed in int64


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """Two sets of keys of which the finer divides groups of the coarser one into all their parts.

    up: for each group of the finer set the coarser group that it is a part of, -1 for none. direct:
    where no third set lies between the two groups.
    """

    up: NDArray[np.intp]
    direct: NDArray[np.bool_]


Links = Mapping[tuple[int, int], Link]
"""By the numbers of the coarser and the finer set."""


def nesting(plans: Sequence[PlannedRelease], keys: Sequence[Sequence[Key]]) -> Links:
    """Return the links between sets of keys of one release.

    keys: the groups of each set. Two sets are linked where the finer one's further keys are public:
    then all parts of a group are among its groups, or none is.
    """
    names = [tuple(key.name for key in plan.release.keys) for plan in plans]
    pairs = [
        (coarse, fine)
        for coarse, fine in permutations(range(len(plans)), 2)
        if set(names[coarse]) < set(names[fine])
        and {names[fine][i] for i in plans[fine].private} <= set(names[coarse])
    ]
    found: dict[tuple[int, int], Link] = {}
    for coarse, fine in sorted(pairs, key=lambda p: len(names[p[1]]) - len(names[p[0]])):
        up = np.full(len(keys[fine]), -1, dtype=np.intp)
        for middle in range(len(plans)):
            lower, upper = found.get((coarse, middle)), found.get((middle, fine))
            if lower is not None and upper is not None:
                through = np.where(upper.up >= 0, lower.up[upper.up], -1)
                up = np.where(up < 0, through, up)
        direct = up < 0
        if direct.any():
            places = {key: group for group, key in enumerate(keys[coarse])}
            kept = [names[fine].index(name) for name in names[coarse]]
            for group in np.flatnonzero(direct).tolist():
                whole = tuple([keys[fine][group][i] for i in kept])
                up[group] = places.get(whole, -1)
        if (up >= 0).any():
            found[coarse, fine] = Link(up, direct & (up >= 0))
    return found


def settle(
    links: Links,
    sizes: Sequence[int],
    rounded: Callable[[int, NDArray[np.intp]], AnyIntegers],
) -> list[AnyIntegers]:
    """Return integers for the groups of each set, of which totals are the sums of their parts.

    sizes: the number of groups of each set. rounded: gives the integers of some groups of a set.
    Groups without parts are rounded, the finest sets first; every other one is the sum of its parts.
    Where a set is rounded whose totals are fixed already, by the parts of another set, the
    difference is spread over each total's parts. That holds for one coarser set alone: where sets
    overlap in a ring, as (a, b), (b, c) and (a, c) do, the others miss by what rounding leaves.
    """
    values: list[AnyIntegers] = [np.zeros(size, dtype=np.int64) for size in sizes]
    settled = [np.zeros(size, dtype=np.bool_) for size in sizes]
    for fine in _finest_first(links, len(sizes)):
        open_ = np.flatnonzero(~settled[fine])
        values[fine] = _put(values[fine], open_, rounded(fine, open_))
        coarser = _finest_first(links, len(sizes), below=fine)
        for coarse in coarser:
            up = links[coarse, fine].up
            mine = open_[(up[open_] >= 0) & settled[coarse][up[open_]]]
            if mine.size:
                missing = values[coarse] - _sums(values[fine], up, sizes[coarse])
                spread = _spread(missing, up[mine])
                values[fine] = _put(values[fine], mine, values[fine][mine] + spread)
                break
        settled[fine][:] = True
        for coarse in coarser:
            up = links[coarse, fine].up
            whole = np.unique(up[up >= 0])
            whole = whole[~settled[coarse][whole]]
            sums = _sums(values[fine], up, sizes[coarse])
            values[coarse] = _put(values[coarse], whole, sums[whole])
            settled[coarse][whole] = True
    return values


def _finest_first(links: Links, sets: int, below: int | None = None) -> list[int]:
    """Return the sets, or those coarser than `below`, each before the sets coarser than itself."""
    depth = [sum(coarse == one for coarse, _ in links) for one in range(sets)]
    chosen = [one for one in range(sets) if below is None or (one, below) in links]
    return sorted(chosen, key=lambda one: depth[one])


def _put(values: AnyIntegers, where: NDArray[np.intp], some: AnyIntegers) -> AnyIntegers:
    """Return the values with `some` in place of those at `where`."""
    kind = np.result_type(values.dtype, some.dtype)
    changed: AnyIntegers = values.astype(kind)
    changed[where] = some
    return changed


def _sums(values: AnyIntegers, up: NDArray[np.intp], size: int) -> AnyIntegers:
    """Return the sum of the parts of each of `size` groups, without overflow."""
    inside = up >= 0
    kind = np.int64 if peak(values) * max(1, values.size) < _SAFE else object
    sums: AnyIntegers = np.zeros(size, dtype=kind)
    np.add.at(sums, up[inside], values[inside].astype(kind))
    return sums


def _spread(missing: AnyIntegers, up: NDArray[np.intp]) -> AnyIntegers:
    """Return what to add to parts, so that each group's gain what is missing: as even as can be."""
    counts = np.bincount(up, minlength=len(missing))
    order = np.argsort(up, kind="stable")
    first = np.cumsum(counts) - counts
    rank = np.empty(len(up), dtype=np.int64)
    rank[order] = np.arange(len(up)) - first[up[order]]
    each, rest = missing[up] // counts[up], missing[up] % counts[up]
    added: AnyIntegers = each + (rank < rest)
    return added
