"""From sealed exact sums to released values: the only place that opens a seal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain, product
from typing import Any, TypeAlias, assert_never
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from dp_sql.errors import InternalError
from dp_sql.mechanisms.choice import choose
from dp_sql.mechanisms.chooser import Counted
from dp_sql.mechanisms.distinct import Counter, DistinctValues, count, with_noise
from dp_sql.mechanisms.measurement import Measurement
from dp_sql.mechanisms.noise import NoiseKind, VectorNoise
from dp_sql.mechanisms.sampler import Integers, Sampler
from dp_sql.mechanisms.selection import Coins, Selection
from dp_sql.plan.expression import IntervalValue
from dp_sql.plan.facts import ExactTable, PairTable
from dp_sql.plan.release import PlannedRelease
from dp_sql.privacy.seal_open import open_sealed
from dp_sql.privacy.sealed import Sealed

AnyIntegers: TypeAlias = NDArray[Any]
"""An array of int64, or an object array of Python integers where a value passes 2^60."""

_FITS = 2**60  # values up to here stay int64: four of them can be added up without overflow

Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """Noisy values of the groups that may be seen, in lattice units, sorted by key.

    keys: one tuple a group, Python values, None for NULL. vectors: for each vector of the plan one
    array a component, one entry a group; empty for a vector that only selects keys, from a table of its
    own or by coins. measurement: the noise in them. chosen: for each histogram of the plan one array a
    rank, the candidate of each group, or a noisy weight. distinct: the noisy numbers of distinct values.
    """

    keys: list[Key]
    vectors: list[list[AnyIntegers]]
    measurement: Measurement
    chosen: list[list[AnyIntegers]] = field(default_factory=list)
    distinct: list[DistinctValues] = field(default_factory=list)

    def kept(self, rows: NDArray[np.intp]) -> Released:
        """Return some of the groups, by their places."""
        return Released(
            [self.keys[row] for row in rows],
            [[component[rows] for component in vector] for vector in self.vectors],
            self.measurement,
            [[values[rows] for values in ranks] for ranks in self.chosen],
            [values.kept(rows) for values in self.distinct],
        )


def release(
    plan: PlannedRelease,
    measurement: Measurement,
    sealed: Sealed[ExactTable],
    sampler: Sampler,
    *,
    selection_table: Sealed[ExactTable] | None = None,
    before: Sequence[Key] | None = None,
    histograms: Sequence[Sealed[ExactTable]] = (),
    distincts: Sequence[Sealed[PairTable | ExactTable]] = (),
    sampled: Sequence[Sealed[ExactTable]] = (),
) -> Released:
    """Open the seal, add noise to every group, keep the groups whose keys may show.

    sealed: one row a group, the columns of the vectors in the plan's order. selection_table: where
    the plan has a relation for it, one row a combination of private keys, and one column with its number
    of units, which `sealed` then doesn't hold; else None. Of two rounds it is the second one's, and
    `before` are the keys that the first one showed. histograms: one row a cell
    that is held: its place and its weight. distincts: pairs of unit and value, or numbers of values.
    sampled: one row a group, the sum of its blocks.

    Claim:   the result is what `measurement` says that it is.
    Why:     a group gets noise whether it has rows or not and whether it will be shown or not: the
             rows are every combination of public values, times the private combinations, or, where
             these are selected apart, those that show. Noise is
             drawn for all of them after aggregation, one draw a vector, and added on the integer
             lattice. Private combinations show by their number of units alone, through noise and a
             threshold or through a coin; what a coin reads is not in the result. Order and
             number types come from what is shown. Of a histogram one candidate a rank is chosen in
             every group that is shown, whether it has rows or not.
    Assumes: the lowered SQL leaves out rows whose keys aren't public. A group with such a key is
             left out here too, without an error, because an error would tell that it exists.
    Source:  [Dwork2006]
    """
    if (selection_table is not None) != (plan.selection_relation is not None):
        raise InternalError("keys that are selected apart, and only they, have a selection table")
    if (before is not None) != (plan.second_relation is not None):
        raise InternalError("two rounds, and only they, have keys of a first one")
    table = open_sealed(sealed)
    private = table.keys
    if selection_table is not None:
        last = measurement.second if before is not None else measurement.selection
        private = selected(last, measurement, selection_table, sampler)
        private = list(dict.fromkeys([*(before or ()), *private]))
    groups = _groups(plan, private)
    rows = _rows(table, groups)
    vectors: list[list[AnyIntegers]] = []
    shown = None
    position = 0
    for i, vector in enumerate(plan.summed):
        selects = i in plan.selections
        count = 0 if selects and selection_table is not None else len(vector.columns)
        exact = [_aligned(c, rows) for c in table.columns[position : position + count]]
        position += count
        tossed = selects and isinstance(measurement.selection, Coins)
        vectors.append([] if tossed else _noisy(exact, measurement.noises[i], sampler))
        if selects and selection_table is None:
            (units,) = exact if tossed else vectors[i]
            shown = _shown(measurement.selection, units)
    if position != len(table.columns):
        raise InternalError("the exact table has other columns than the plan")
    for i, blocks in enumerate(map(open_sealed, sampled), start=len(vectors)):
        where, nothing = _rows(blocks, groups), plan.vectors[i].nothing
        exact = [_aligned(column, where, nothing) for column in blocks.columns]
        vectors.append(_noisy(exact, measurement.noises[i], sampler))
    if len(vectors) != len(plan.vectors):
        raise InternalError("the exact tables are of other vectors than the plan's")
    kept = range(len(groups)) if shown is None else np.flatnonzero(shown)
    order = np.array(sorted(kept, key=lambda row: _sort_key(groups[row])), dtype=np.intp)
    keys = [groups[row] for row in order]
    return Released(
        keys,
        [[canonical(component[order]) for component in vector] for vector in vectors],
        measurement,
        [
            choose(histogram, _counted(open_sealed(cells), keys), len(keys), chooser, sampler)
            for histogram, cells, chooser in zip(
                plan.histograms, histograms, measurement.choosers, strict=True
            )
        ],
        [
            _distinct(counter, open_sealed(table), keys, sampler)
            for counter, table in zip(measurement.counters, distincts, strict=True)
        ],
    )


def _distinct(
    counter: Counter, table: PairTable | ExactTable, keys: list[Key], sampler: Sampler
) -> DistinctValues:
    """Return the noisy numbers of distinct values of the groups with these keys."""
    numbers = {key: number for number, key in enumerate(keys)}
    groups = np.array([numbers.get(key, -1) for key in table.keys], dtype=np.intp)
    if isinstance(table, PairTable):
        return count(counter, table, groups, len(keys), sampler)
    return with_noise(
        counter, 1, dict(zip(groups.tolist(), table.columns[0], strict=True)), len(keys), sampler
    )


def _counted(table: ExactTable, keys: list[Key]) -> Counted:
    """Return the weights of the groups with these keys; those of other groups are left out."""
    numbers = {key: number for number, key in enumerate(keys)}
    groups = np.array([numbers.get(key, -1) for key in table.keys], dtype=np.intp)
    order = np.argsort(groups, kind="stable")
    order = order[groups[order] >= 0]
    places, weights = (_integers(column)[order] for column in table.columns)
    return Counted(groups[order], places.astype(np.intp), weights)


def selected(
    selection: Selection | Coins | None,
    measurement: Measurement,
    sealed: Sealed[ExactTable],
    sampler: Sampler,
) -> list[Key]:
    """Return the private keys that one round shows, sorted.

    sealed: one row a combination of private keys, one column with its number of units or their weight.
    """
    if selection is None:
        raise InternalError("private keys that nothing selects")
    table = open_sealed(sealed)
    exact = [_integers(column) for column in table.columns]
    noise = measurement.noises[selection.vector]
    (units,) = exact if isinstance(selection, Coins) else _noisy(exact, noise, sampler)
    kept = np.flatnonzero(_shown(selection, units))
    return sorted((table.keys[row] for row in kept), key=_sort_key)


def _groups(plan: PlannedRelease, private: list[Key]) -> list[Key]:
    """Return the keys of all groups, of these private parts where there are any."""
    if plan.private and not plan.public:
        return private
    private = private if plan.private else [()]
    combinations = product(*(space.values for space in plan.public))
    cells = [tuple(chain.from_iterable(combination)) for combination in combinations]
    # where the value of each key position stands in a private part followed by a cell
    order = [*plan.private, *(p for space in plan.public for p in space.positions)]
    places = [order.index(position) for position in range(len(plan.keys))]
    merged = (some + cell for some in private for cell in cells)
    return [tuple([values[place] for place in places]) for values in merged]


def _rows(table: ExactTable, groups: list[Key]) -> NDArray[np.intp]:
    """Return where each group stands in a table, -1 for one without rows."""
    places = {key: row for row, key in enumerate(table.keys)}
    return np.array([places.get(group, -1) for group in groups], dtype=np.intp)


def _aligned(column: list[int], rows: NDArray[np.intp], nothing: int = 0) -> AnyIntegers:
    """Return the column's entries at `rows`, `nothing` where a row is -1: a group without rows."""
    aligned: AnyIntegers = _integers([*column, nothing])[rows]
    return aligned


def _integers(values: Sequence[int]) -> AnyIntegers:
    """Return an int64 array, or an object array where a value doesn't fit."""
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array(values, dtype=object)


def _noisy(exact: list[AnyIntegers], noise: VectorNoise, sampler: Sampler) -> list[AnyIntegers]:
    """Return lattice * exact + fresh noise for each component, drawn at once."""
    if not exact:
        return []
    draws = draw(noise, len(exact) * exact[0].size, sampler).reshape(len(exact), -1)
    return [plus(values, noise.lattice, some) for values, some in zip(exact, draws, strict=True)]


def draw(noise: VectorNoise, size: int, sampler: Sampler) -> Integers:
    """Return `size` independent draws of a vector's noise, zeros where it has none."""
    match noise.kind:
        case NoiseKind.NONE:
            return np.zeros(size, dtype=np.int64)
        case NoiseKind.LAPLACE:
            return sampler.laplace(noise.scale, size)
        case NoiseKind.GAUSSIAN:
            return sampler.gaussian(noise.scale, size)
        case _:
            assert_never(noise.kind)


def plus(exact: AnyIntegers, lattice: int, noise: Integers) -> AnyIntegers:
    """Return lattice * exact + noise without overflow, in Python integers where it needs them."""
    fits = lattice < 2**63 and lattice * peak(exact) + peak(noise) < 2**63
    if exact.dtype != object and fits:
        total: AnyIntegers = exact * lattice + noise
        return total
    big: AnyIntegers = exact.astype(object) * lattice + noise.astype(object)
    return big


def _shown(selection: Selection | Coins | None, units: AnyIntegers) -> NDArray[np.bool_]:
    """Return which private keys show, by their noisy number of units or for coins the exact one."""
    match selection:
        case Selection(threshold=threshold):
            return np.asarray(units >= threshold, dtype=np.bool_)
        case Coins(rule=rule):
            return rule.shown(units)
        case None:
            raise InternalError("private keys that nothing selects")
        case _:
            assert_never(selection)


def canonical(values: AnyIntegers) -> AnyIntegers:
    """Return the values as int64 where all of them fit, as Python integers elsewhere.

    The exact values decided how the sum was computed; only the noisy ones may decide its type.
    """
    if peak(values) <= _FITS:
        return values.astype(np.int64)
    return values.astype(object)


def peak(values: AnyIntegers) -> int:
    """Return the largest absolute value, 0 of none."""
    return max(int(values.max()), -int(values.min())) if values.size else 0


def _sort_key(key: Key) -> tuple[tuple[int, Any], ...]:
    """Return what sorts keys as ORDER BY over all columns does in DuckDB, NULLs last."""
    return tuple(_rank(value) for value in key)


def _rank(value: object) -> tuple[int, Any]:
    """Return a place in a total order over all key values: numbers by size, text by code points.

    NaN comes after all numbers, NULL last; False before True; intervals by length with months of
    30 days.
    """
    match value:
        case None:
            return 9, 0
        case bool() | int() | Decimal():
            return 0, value
        case float():
            return (0, value) if value == value else (1, 0)  # noqa: PLR0124 - NaN isn't itself
        case str():
            return 2, value
        case datetime():  # before date, whose subclass it is
            return 3, value
        case date():
            return 4, value
        case time():
            return 5, value
        case timedelta():
            return 6, value
        case IntervalValue(months=months, days=days, microseconds=microseconds):
            return 6, timedelta(days=months * 30 + days, microseconds=microseconds)
        case UUID():
            return 7, value
        case _:
            raise InternalError(f"a group key can't be a {type(value).__name__}")
