"""Small planned releases, facts and exact tables for the tests of the mechanisms."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dp_sql.mechanisms.measurement import Measurement
from dp_sql.mechanisms.noise import EXACT, VectorNoise
from dp_sql.mechanisms.selection import Selection
from dp_sql.plan.expression import Column, Literal, Ref
from dp_sql.plan.facts import ExactTable, Facts, VectorFacts
from dp_sql.plan.pair import Axis, PairMeasure
from dp_sql.plan.relation import (
    CountMeasure,
    Measure,
    MomentMeasure,
    PresenceMeasure,
    SumMeasure,
    width,
)
from dp_sql.plan.release import (
    Aggregate,
    AggregateKind,
    CountReadout,
    Key,
    KeySpace,
    MeanReadout,
    PlannedRelease,
    Readout,
    Release,
    SumReadout,
    Vector,
)
from dp_sql.plan.rows import Scan
from dp_sql.privacy.contribution import Box, Change, ContributionSet, Simplex
from dp_sql.privacy.cost import FREE
from dp_sql.privacy.sealed import Sealed
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.sqltype import BIGINT, DOUBLE, VARCHAR, SqlType

ARGUMENT = Literal(1.0, DOUBLE)
COUNT = CountMeasure(None)
PRESENCE = PresenceMeasure(None)


def moments(
    low: float = 0,
    high: float = 100,
    *,
    cells: int = 2**16,
    degree: int = 1,
    null_component: bool = False,
) -> MomentMeasure:
    return MomentMeasure(ARGUMENT, Fraction(low), Fraction(high), cells, degree, null_component)


def products(
    first: tuple[float, float],
    second: tuple[float, float],
    *,
    cells: tuple[int, int] = (2**15, 2**15),
    degrees: tuple[int, int] = (2, 2),
    null_component: bool = False,
) -> PairMeasure:
    one, two = (
        Axis(ARGUMENT, Fraction(ends[0]), Fraction(ends[1]), count, degree)
        for ends, count, degree in zip((first, second), cells, degrees, strict=True)
    )
    return PairMeasure((one, two), null_component)


def pair_columns(
    measure: PairMeasure, rows: Sequence[tuple[float | None, float | None]]
) -> list[int]:
    """Return the summed components of rows of two values, from the definition."""
    sums = [0] * measure.size
    for row in rows:
        if None in row:
            if measure.null_component:
                sums[-1] += measure.total
            continue
        sides = []
        for axis, value in zip(measure.axes, row, strict=True):
            place = (Fraction(value or 0) - axis.low) / (axis.high - axis.low)
            a = round(max(Fraction(0), min(Fraction(1), place)) * axis.cells)
            b = axis.cells - a
            sides.append([b, a] if axis.degree == 1 else [b * b, 2 * a * b, a * a])
        for i, (one, two) in enumerate(itertools.product(*sides)):
            sums[i] += one * two
    return sums


def total(low: float = 0, high: float = 100, step: Fraction | int = 1) -> SumMeasure:
    return SumMeasure(ARGUMENT, Fraction(low), Fraction(high), Fraction(step))


def planned(
    *measures: Measure,
    readouts: tuple[Readout, ...] | None = None,
    types: tuple[SqlType, ...] | None = None,
    keys: int = 0,
    public: tuple[KeySpace, ...] = (),
    private: tuple[int, ...] = (),
    selection: int | None = None,
    shares: tuple[Fraction, ...] | None = None,
    units: tuple[int, ...] | None = None,
) -> PlannedRelease:
    """Return a plan with these vectors; by default each is read in the plainest way."""
    numbers = itertools.count()
    key_columns = tuple(Column(next(numbers), f"k{i}", VARCHAR) for i in range(keys))
    scan = Scan("t", public=False, columns=key_columns, sources=(), owner=None)
    vectors = tuple(
        Vector(m, tuple(Column(next(numbers), f"v{i}", BIGINT) for i in range(width(m))), unit)
        for m, unit in zip(measures, units or map(unit_of, measures), strict=True)
    )
    readouts = readouts or tuple(plain_readout(i, m) for i, m in enumerate(measures))
    types = types or tuple(DOUBLE if isinstance(r, MeanReadout) else BIGINT for r in readouts)
    aggregates = tuple(
        Aggregate(f"a{i}", AggregateKind.COUNT_STAR, None, type_) for i, type_ in enumerate(types)
    )
    names = tuple(Key(c.name, Ref(c)) for c in key_columns)
    even = tuple(Fraction(1, len(measures)) for _ in measures)
    return PlannedRelease(
        release=Release("r0", scan, names, aggregates, ("t",)),
        relation=scan,
        keys=key_columns,
        public=public,
        private=private,
        vectors=vectors,
        readouts=readouts,
        selection=selection,
        selection_relation=scan if public and private else None,
        shares=shares or even,
    )


def unit_of(measure: Measure) -> int:
    return measure.total if isinstance(measure, MomentMeasure | PairMeasure) else 1


def plain_readout(index: int, measure: Measure) -> Readout:
    if isinstance(measure, MomentMeasure):
        return MeanReadout(index)
    return (
        SumReadout(index)
        if isinstance(measure, SumMeasure)
        else CountReadout(index, with_null=False)
    )


def contribution_of(measure: Measure) -> ContributionSet:
    if isinstance(measure, MomentMeasure | PairMeasure):
        return Simplex(measure.size, measure.total)
    if isinstance(measure, SumMeasure):
        low, high = measure.ends
        return Box((min(low, 0),), (max(high, 0),))
    return Box((0,), (1,))


def facts_of(
    plan: PlannedRelease,
    *,
    groups: int = 1,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    group_size: int = 1,
    changes: tuple[Change, ...] | None = None,
) -> Facts:
    """Return facts with one row a unit and group; substitution doubles the groups that change."""
    unit = PrivacyUnit(Level.USER, adjacency, group_size)
    sides = 1 if adjacency is Adjacency.ADD_REMOVE else 2
    sets = [contribution_of(v.measure) for v in plan.vectors]
    changes = changes or tuple(
        Change((((_largest(s) * group_size, groups * sides),),)) for s in sets
    )
    vectors = tuple(VectorFacts(s, c, "a test") for s, c in zip(sets, changes, strict=True))
    return Facts(unit, groups, plan.cells, vectors, "owner", "1")


def _largest(contribution: ContributionSet) -> int:
    if isinstance(contribution, Simplex):
        return contribution.total
    return max(*contribution.high, *(-a for a in contribution.low))


def public(*values: object) -> KeySpace:
    """Return one public key column, the first, with these values."""
    return KeySpace((0,), tuple((value,) for value in values))


def sealed(keys: list[tuple[object, ...]], *columns: list[int]) -> Sealed[ExactTable]:
    return Sealed(ExactTable(keys, list(columns)))


def silent(plan: PlannedRelease, threshold: int | None = None) -> Measurement:
    """Return a measurement without noise, for tests of everything else."""
    selection = None
    if plan.selection is not None and threshold is not None:
        selection = Selection(plan.selection, threshold)
    return Measurement(tuple(EXACT for _ in plan.vectors), selection, FREE)


def measured(plan: PlannedRelease, *noises: VectorNoise) -> Measurement:
    """Return a measurement with these noises and no selection."""
    assert len(noises) == len(plan.vectors)
    return Measurement(noises, None, FREE)


class ScriptedSampler:
    """Returns prepared noise and writes down what it was asked for."""

    name = "scripted"

    def __init__(self, *batches: list[int]) -> None:
        self.batches = list(batches)
        self.calls: list[tuple[str, int, int]] = []

    def laplace(self, scale: int, size: int) -> np.ndarray:
        return self._next("laplace", scale, size)

    def gaussian(self, sigma: int, size: int) -> np.ndarray:
        return self._next("gaussian", sigma, size)

    def _next(self, kind: str, scale: int, size: int) -> np.ndarray:
        self.calls.append((kind, scale, size))
        batch = self.batches.pop(0) if self.batches else [0] * size
        assert len(batch) == size
        return np.array(batch, dtype=np.int64)
