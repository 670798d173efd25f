"""Answers by several sets of keys that add up: weighted least squares over released values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dp_sql.mechanisms.nesting import Links, nesting, settle
from dp_sql.mechanisms.noise import NoiseKind, VectorNoise
from dp_sql.mechanisms.readout import Floats, Numbers, linear_form, nearest, read
from dp_sql.mechanisms.release import AnyIntegers, Released, peak
from dp_sql.plan.block import BlockMeasure
from dp_sql.plan.relation import PresenceMeasure
from dp_sql.plan.release import CountReadout, PlannedRelease, SumReadout
from dp_sql.schema.sqltype import BIGINT

_SAFE = 2**62  # sums up to here are computed in int64
_STEPS = 500  # of the conjugate gradients
_PRECISION = 1e-12  # of their residual, relative to the first
_VISIBLE = 0.5  # a noise from which rounding each value alone would move totals

Part = tuple[PlannedRelease, Released]


def consistent(parts: Sequence[Part]) -> list[Released]:
    """Return the released values of one release's sets of keys, changed so that totals add up.

    Every component of a count or of a sum moves by the least sum of squares, weighted by the inverse
    variance of its noise, for which each group is the sum of its parts in every finer set that has
    them. Whole lattice steps remain, so that the sums are exact (see `nesting.settle`).
    COUNT(DISTINCT owner) stays as it is: a person counts in several parts, and once in their total. So
    do means of blocks.

    Claim:   this costs no privacy, and no value gets a larger variance.
    Why:     it reads released values and the law of the noise alone. The projection of independent
             noise, in the metric of its inverse covariance, has no larger variance in any direction.
    Assumes: that the values without noise add up is only a matter of accuracy: where limits cut more
             of a person in one set than in another, the difference is spread over all of them.
    Source:  [Dwork2006], [Hay2010]
    """
    links = nesting([plan for plan, _ in parts], [released.keys for _, released in parts])
    if not links:
        return [released for _, released in parts]
    system = _System.of(links, [len(released.keys) for _, released in parts])
    vectors = [list(released.vectors) for _, released in parts]
    noises = [list(released.measurement.noises) for _, released in parts]
    for measure in dict.fromkeys(v.measure for plan, _ in parts for v in plan.vectors):
        places = [_place(part, measure) for part in parts]
        if isinstance(measure, PresenceMeasure | BlockMeasure) or any(
            place is None for place in places
        ):
            continue
        found = [place for place in places if place is not None]
        before = [noise[at] for noise, at in zip(noises, found, strict=True)]
        lattice = max(noise.lattice for noise in before)
        factors = [lattice // noise.lattice for noise in before]
        finer = [_on(noise, factor) for noise, factor in zip(before, factors, strict=True)]
        count = len(vectors[0][found[0]])
        components = [
            system.adjusted(
                [_times(v[at][i], f) for v, at, f in zip(vectors, found, factors, strict=True)],
                [_variance(noise) for noise in finer],
            )
            for i in range(count)
        ]
        for part, at in enumerate(found):
            if before[part].kind is not NoiseKind.NONE:
                vectors[part][at] = [component[part] for component in components]
                noises[part][at] = finer[part]
    return [
        replace(r, vectors=vector, measurement=replace(r.measurement, noises=tuple(noise)))
        for (_, r), vector, noise in zip(parts, vectors, noises, strict=True)
    ]


def read_sets(parts: Sequence[Part]) -> list[list[Numbers]]:
    """Return what `readout.read` gives for each set of keys, with whole numbers that add up too.

    Whole counts and sums are rounded in the finest set, with the rounding error carried from one
    group to the next, so that totals, which are sums of rounded parts, stay within one or so of what
    they were. Where every set has noise, but below half a row, each value is rounded alone.
    """
    columns = [read(plan, released) for plan, released in parts]
    links = nesting([plan for plan, _ in parts], [released.keys for _, released in parts])
    if not links:
        return columns
    first = parts[0][0]
    for place, (aggregate, readout) in enumerate(
        zip(first.release.aggregates, first.readouts, strict=True)
    ):
        if (
            isinstance(readout, CountReadout | SumReadout)
            and aggregate.type == BIGINT
            and not isinstance(first.vectors[readout.vector].measure, PresenceMeasure)
        ):
            totals = [_totals(part, place) for part in parts]
            alone = all(0 < found.spread < _VISIBLE for found in totals)
            settled = settle(
                links,
                [len(released.keys) for _, released in parts],
                partial(_rounded, totals, alone),
            )
            for column, values in zip(columns, settled, strict=True):
                column[place] = nearest(values, 1)
    return columns


@dataclass(frozen=True, slots=True, eq=False)
class _Totals:
    """Numbers before the division by `denominator`. spread: the deviation of their noise, after it."""

    numerators: AnyIntegers
    denominator: int
    spread: float


def _rounded(
    totals: Sequence[_Totals],
    alone: bool,  # noqa: FBT001  a fact of the noise, no switch
    part: int,
    groups: NDArray[np.intp],
) -> AnyIntegers:
    """Return the whole numbers of some groups of a set, each rounded alone or with what is carried."""
    denominator = totals[part].denominator
    some = totals[part].numerators[groups]
    if alone:
        return nearest(some, denominator)
    big = peak(some) * max(1, some.size) >= _SAFE
    sums = np.cumsum(some.astype(object) if big else some)
    return np.diff(nearest(sums, denominator), prepend=0)


def _totals(part: Part, place: int) -> _Totals:
    plan, released = part
    readout = plan.readouts[place]
    if not isinstance(readout, CountReadout | SumReadout):
        raise TypeError("only counts and sums have totals")
    form = linear_form(plan, released.measurement, readout)
    noise = released.measurement.noises[readout.vector]
    length = sum(weight * weight for weight in form.weights) ** 0.5
    spread = _variance(noise) ** 0.5 * float(length) / form.denominator
    return _Totals(form.total(released.vectors[readout.vector]), form.denominator, spread)


def _place(part: Part, measure: object) -> int | None:
    """Return which vector of a set has this measure and was released, or None."""
    plan, released = part
    for i, vector in enumerate(plan.vectors):
        if vector.measure == measure and released.vectors[i]:
            return i
    return None


def _on(noise: VectorNoise, factor: int) -> VectorNoise:
    """Return the noise in the steps of a lattice that is `factor` times as fine."""
    if noise.kind is NoiseKind.NONE:
        return noise
    return VectorNoise(noise.kind, noise.lattice * factor, noise.scale * factor)


def _times(values: AnyIntegers, factor: int) -> AnyIntegers:
    big = peak(values) * factor >= _SAFE
    scaled: AnyIntegers = (values.astype(object) if big else values) * factor
    return scaled


def _variance(noise: VectorNoise) -> float:
    """Return the noise's variance in lattice steps, up to a relative 1e-6."""
    return float(noise.scale) ** 2 * (2 if noise.kind is NoiseKind.LAPLACE else 1)


@dataclass(frozen=True, slots=True, eq=False)
class _System:
    """The equations that each total is the sum of its parts, over the groups of all sets in a row.

    whole: the total of each equation. part, row: the parts, and the equation that each stands in.
    """

    links: Links
    sizes: tuple[int, ...]
    whole: NDArray[np.intp]
    part: NDArray[np.intp]
    row: NDArray[np.intp]

    @classmethod
    def of(cls, links: Links, sizes: Sequence[int]) -> _System:
        """Return the equations of nested sets of so many groups."""
        first = np.concatenate([[0], np.cumsum(sizes)])
        whole, part, row = [], [], []
        equations = 0
        for (coarse, fine), link in links.items():
            groups = np.flatnonzero(link.direct)
            totals, rows = np.unique(link.up[groups], return_inverse=True)
            whole.append(first[coarse] + totals)
            part.append(first[fine] + groups)
            row.append(equations + rows)
            equations += len(totals)
        return cls(
            links, tuple(sizes), np.concatenate(whole), np.concatenate(part), np.concatenate(row)
        )

    def adjusted(
        self, values: Sequence[AnyIntegers], variances: Sequence[float]
    ) -> list[AnyIntegers]:
        """Return the nearest integers of each set that add up. variances: of each set's noise.

        x = y - V A' (A V A')^-1 A y for values y with covariance V and equations A x = 0, by
        conjugate gradients. Source: [Hestenes1952].
        """
        joined = np.concatenate(values)
        weights = np.repeat(np.asarray(variances, dtype=np.float64), self.sizes)
        largest = weights.max(initial=0.0)
        weights = weights / largest if largest else weights
        moved = weights * self._back(self._solved(self._missing(joined), weights))
        split = np.split(moved, np.cumsum(self.sizes)[:-1])

        def rounded(part: int, groups: NDArray[np.intp]) -> AnyIntegers:
            steps = np.diff(np.rint(np.cumsum(split[part][groups])), prepend=0.0)
            some: AnyIntegers = values[part][groups]
            if steps.size and np.abs(steps).max() < _SAFE and peak(some) < _SAFE:
                less: AnyIntegers = some - steps.astype(np.int64)
                return less
            big: AnyIntegers = some.astype(object) - np.array([int(s) for s in steps], dtype=object)
            return big

        return settle(self.links, self.sizes, rounded)

    def _missing(self, values: AnyIntegers) -> Floats:
        """Return each total less the sum of its parts: exact integers, as floats in the end."""
        kind = np.int64 if peak(values) * max(1, values.size) < _SAFE else object
        left: AnyIntegers = values[self.whole].astype(kind)
        np.subtract.at(left, self.row, values[self.part].astype(kind))
        return left.astype(np.float64)

    def _forth(self, values: Floats) -> Floats:
        sums = np.bincount(self.row, values[self.part], minlength=len(self.whole))
        less: Floats = values[self.whole] - sums
        return less

    def _back(self, multipliers: Floats) -> Floats:
        size = sum(self.sizes)
        spread = np.zeros(size)
        spread += np.bincount(self.whole, multipliers, minlength=size)
        spread -= np.bincount(self.part, multipliers[self.row], minlength=size)
        return spread

    def _solved(self, missing: Floats, weights: Floats) -> Floats:
        """Return multipliers m with A V A' m = missing, or as near as steps allow."""
        scale = weights[self.whole]
        scale += np.bincount(self.row, weights[self.part], minlength=len(self.whole))
        inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        found = np.zeros_like(missing)
        rest = missing.copy()
        better = inverse * rest
        direction = better
        size = float(rest @ better)
        target = size * _PRECISION**2
        for _ in range(_STEPS):
            if size <= target:
                break
            image = self._forth(weights * self._back(direction))
            bend = float(direction @ image)
            if bend <= 0:
                break
            found = found + (size / bend) * direction
            rest = rest - (size / bend) * image
            better = inverse * rest
            before, size = size, float(rest @ better)
            direction = better + (size / before) * direction
        return found
