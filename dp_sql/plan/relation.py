"""What the planner puts between private rows and a release.

`MeasureRows` turns a row into small integers on a grid; `KeepKeys`, `SumPerUnit`, `DropKeys`,
`BoundRows`, `SpreadRows` and `BoundGroups` enforce the contribution set.
"""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from dp_sql.dataclass import dataclass
from dp_sql.plan.expression import Column, Expression
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.rows import (
    Filter,
    GroupRows,
    Join,
    Mark,
    Project,
    Rows,
    Scan,
    SetRows,
    StageScan,
    WindowRows,
)
from dp_sql.plan.vector import NormMeasure

MOST_ROWS = 2**45  # more rows than any database holds


@dataclass(frozen=True, slots=True)
class CountMeasure:
    """1 for every row (argument None) or every row whose argument is not NULL, else 0.

    per_unit: the ends of a unit's count in a group, in place of 0 and max_rows; user level only.
    """

    argument: Expression | None
    per_unit: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class SumMeasure:
    """The argument, clamped to [low, high] and rounded once to a multiple of `step`: that multiple.

    NULL and NaN give 0. The integers lie in [round(low/step), round(high/step)].
    per_unit: the ends of a unit's sum in a group, in steps, in place of max_rows times the row's
    range; user level only.
    """

    argument: Expression
    low: Fraction
    high: Fraction
    step: Fraction
    per_unit: tuple[int, int] | None = None

    @property
    def ends(self) -> tuple[int, int]:
        """The smallest and largest integer that a row may give."""
        return round_half_even(self.low / self.step), round_half_even(self.high / self.step)


@dataclass(frozen=True, slots=True)
class MomentMeasure:
    """The Bernstein polynomials of degree 0, 1 or 2 of the argument's place in [low, high].

    The place is rounded once to an integer a in 0..cells. Degree 0, of a range of one point, gives
    (1); degree 1 gives (cells - a, a); degree 2 gives ((cells-a)^2, 2a(cells-a), a^2). A row whose
    argument is NULL or NaN gives zeros, and cells^degree in one more component when `null_component`.

    rows: where a unit's average in a group is clamped to [low, high] and not each row: the places
    from which and to which a row's is clamped, at most 0 and at least cells; degree 1 and user level
    only. Of n rows with a value the places, summed, are clamped to [0, n * cells].

    Claim:   the components are non-negative integers that add up to cells^degree for each row with a
             value, and to 0 or cells^degree for the others.
    Why:     they are the terms of (cells - a + a)^degree, all in integers; with `rows`, those of
             n * cells - s + s for the n rows of a unit.
    Assumes: 0 <= a <= cells, or 0 <= s <= n * cells, which the lowered SQL enforces.
    Source:  [Bernstein1912]
    """

    argument: Expression
    low: Fraction
    high: Fraction
    cells: int
    degree: int
    null_component: bool
    rows: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        """How many components a row gives."""
        return self.degree + 1 + int(self.null_component)

    @property
    def total(self) -> int:
        """What the components of one row add up to at most."""
        return int(self.cells**self.degree)


@dataclass(frozen=True, slots=True)
class PresenceMeasure:
    """1 for a unit that has a row (whose argument, if there is one, is not NULL), else 0.

    weight: where it isn't 0, floor(weight / sqrt(m)) for a unit of m groups, in place of 1, or
    floor(weight / m) where it is divided `evenly`; then there is no argument, and `most` is the number
    of groups that a unit may have.
    """

    argument: Expression | None
    weight: int = 0
    most: int = 0
    evenly: bool = False


Measure = CountMeasure | SumMeasure | MomentMeasure | PairMeasure | PresenceMeasure | NormMeasure


def arguments(measure: Measure) -> tuple[Expression, ...]:
    """Return what a measure reads of a row, nothing for a measure of whole rows."""
    match measure:
        case PairMeasure(axes=axes):
            return tuple(axis.argument for axis in axes)
        case NormMeasure(arguments=found_all):
            return found_all
        case CountMeasure(argument=found) | PresenceMeasure(argument=found):
            return () if found is None else (found,)
        case SumMeasure(argument=found) | MomentMeasure(argument=found):
            return (found,)
        case _:
            assert_never(measure)


def width(measure: Measure) -> int:
    """Return the number of integer columns that a measure gives."""
    match measure:
        case CountMeasure() | SumMeasure() | PresenceMeasure():
            return 1
        case MomentMeasure() | PairMeasure() | NormMeasure():
            return measure.size
        case _:
            assert_never(measure)


@dataclass(frozen=True, slots=True)
class Sample:
    """A Poisson sample of the units: each is in it with probability `rate`, alone.

    key: 64 hexadecimal digits, secret and fresh for each release, from which the coins are tossed.
    """

    rate: Fraction
    key: str


@dataclass(frozen=True, slots=True)
class MeasureRows:
    """One row a row: the group keys and, for each measure, its integers.

    keys: the key columns; key_expressions are aligned with them. vectors: the integer columns of
    each measure, aligned with `measures`. sample: which units have rows here, None for all.
    """

    source: Rows
    keys: tuple[Column, ...]
    key_expressions: tuple[Expression, ...]
    measures: tuple[Measure, ...]
    vectors: tuple[tuple[Column, ...], ...]
    sample: Sample | None = None


@dataclass(frozen=True, slots=True)
class KeepKeys:
    """The rows whose values in `columns` are one of `values`: rows outside a public domain stay out."""

    source: Relation
    columns: tuple[Column, ...]
    values: tuple[tuple[object, ...], ...]  # Python values, None for NULL


@dataclass(frozen=True, slots=True)
class SumPerUnit:
    """One row per (unit, group): the number of rows and the sums of every integer column.

    partners: where rows are pairs of a join on the owner and its sides are summed before they meet
        (`sensitivity.sides`): one side's sums count once for each row of the other side, of which
        more than `partners` tell nothing new. None where the pairs themselves are summed.
    """

    source: Relation
    count: Column
    partners: int | None = None


@dataclass(frozen=True, slots=True)
class DropKeys:
    """The (unit, group) pairs whose group isn't one that the first round of a selection showed.

    stage: the table of these groups, its columns aligned with the keys below; it holds released keys
    alone, so what a unit has here depends on its own rows and on what is known.
    """

    source: Relation
    stage: str


@dataclass(frozen=True, slots=True)
class BoundRows:
    """What one unit adds to one group, bounded: at most as if it had `max_rows` rows there.

    One row per (unit, group) in and out. A vector of moments, of one argument or two, is multiplied
    by 2^low_bits and, where the unit has c > max_rows rows, by max_rows / c, truncated; a count becomes
    min(count, max_rows); a sum is clamped to max_rows times the row's range; the sum of a unit's vectors
    is scaled down to max_rows times the length of a row's; a presence becomes 0 or 1.
    """

    source: Relation
    max_rows: int
    low_bits: tuple[int, ...]  # one for each measure below; 0 for what isn't a moment vector


@dataclass(frozen=True, slots=True)
class BoundGroups:
    """Keep at most `max_groups` groups of each unit, chosen by a keyed hash of (unit, group).

    One row per (unit, group) in and out. Which groups stay depends on that unit's own rows and the
    key alone.
    """

    source: Relation
    max_groups: int
    hash_key: int  # 63 random bits, fresh for each release


@dataclass(frozen=True, slots=True)
class SpreadRows:
    """One row per (unit, group, place): the weight of a unit's values there.

    Rows whose argument is NULL are left out. A unit with c <= max_rows values in a group weighs
    2^low_bits each, one with more max_rows * 2^low_bits / c each, summed by place and truncated: its
    weight in a group is at most max_rows * 2^low_bits.
    """

    source: Relation
    max_rows: int
    low_bits: int


Bounded = MeasureRows | KeepKeys | SumPerUnit | DropKeys | BoundRows | BoundGroups | SpreadRows
Relation = Rows | Bounded


def round_half_even(value: Fraction) -> int:
    """Return the nearest integer, halves to even, as the lowered SQL and Python both round."""
    return round(value)


def output(relation: Relation) -> tuple[Column, ...]:
    """Return the columns of a relation of private rows, in order."""
    match relation:
        case Scan() | StageScan() | Project() | SetRows():
            return relation.columns
        case Filter(source=source):
            return output(source)
        case Join(left=left, right=right, owner=owner):
            return (*output(left), *output(right), *(() if owner is None else owner[:1]))
        case Mark(left=left, column=column):
            return (*output(left), column)
        case GroupRows(keys=keys, aggregates=aggregates):
            return (*keys, *(a.column for a in aggregates))
        case WindowRows(source=source, functions=functions):
            return (*output(source), *(f.column for f in functions))
        case MeasureRows(keys=keys, vectors=vectors):
            return (*keys, *(column for vector in vectors for column in vector))
        case (
            KeepKeys(source=source)
            | DropKeys(source=source)
            | BoundRows(source=source)
            | BoundGroups(source=source)
            | SpreadRows(source=source)
        ):
            return output(source)
        case SumPerUnit(source=source, count=count):
            return (count, *output(source))
        case _:
            assert_never(relation)


def inputs(relation: Relation) -> tuple[Relation, ...]:
    """Return the relations directly below."""
    match relation:
        case Scan() | StageScan():
            return ()
        case Join() | Mark() | SetRows():
            return (relation.left, relation.right)
        case (
            Filter()
            | GroupRows()
            | WindowRows()
            | Project()
            | MeasureRows()
            | KeepKeys()
            | SumPerUnit()
            | DropKeys()
            | BoundRows()
            | BoundGroups()
            | SpreadRows()
        ):
            return (relation.source,)
        case _:
            assert_never(relation)
