"""What a neighbour moves of a release, under an adjacency that keeps the rows (zero_out, metric)."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import assert_never

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError
from dp_sql.plan.expression import Column, Expression
from dp_sql.plan.pair import Axis, PairMeasure
from dp_sql.plan.relation import (
    BoundGroups,
    BoundRows,
    CountMeasure,
    DropKeys,
    KeepKeys,
    Measure,
    MeasureRows,
    MomentMeasure,
    PresenceMeasure,
    Relation,
    SumMeasure,
    SumPerUnit,
    output,
)
from dp_sql.plan.rows import (
    Filter,
    GroupRows,
    Join,
    JoinKind,
    Mark,
    Project,
    Rows,
    Scan,
    SetKind,
    SetRows,
    StageScan,
    WindowFunction,
    WindowRows,
)
from dp_sql.plan.vector import NormMeasure
from dp_sql.privacy.unit import Adjacency, PrivacyUnit
from dp_sql.sensitivity.drift import LATITUDE, STILL, Drift, Drifts, drift_of, still
from dp_sql.sensitivity.ownership import owners_of


@dataclass(frozen=True, slots=True)
class Motion:
    """How far a neighbour moves what one row of a unit adds to a vector.

    in_place: it changes no rows and no keys, so a unit adds to the same groups. steps: of the
    measure's grid (of the sum, of the place in 0..cells, or of one product of two arguments); 0 where
    the vector stays, None where it moves in any way.
    """

    in_place: bool
    steps: int | None


def motions_of(relation: Relation, unit: PrivacyUnit) -> tuple[Motion, ...]:
    """Return how far a neighbour moves what each measure gives.

    Claim:   in place, D and D' give the same rows with the same owners and keys, and only rows of
             changed units add something else: where there are steps, by so many each.
    Why:     `drifts_of` finds the rows and keys unchanged; what bounds them (KeepKeys, SumPerUnit,
             DropKeys, BoundGroups) reads owners, keys and numbers of rows alone. Two values at a distance of
             d are rounded to steps of g at a distance of floor(d / g) + 1 at most; a value that is
             NULL stays NULL, and clamping moves two values no further apart.
    Assumes: limits cut by (unit, key) and the number of rows.
    Source:  [Chatzikokolakis2013]
    """
    measured = _measured(relation)
    drifts = drifts_in_place(measured.source, measured.key_expressions, unit)
    if drifts is None:
        return tuple(Motion(in_place=False, steps=None) for _ in measured.measures)
    return tuple(
        Motion(in_place=True, steps=_steps(measure, drifts, unit)) for measure in measured.measures
    )


def drifts_in_place(source: Rows, keys: tuple[Expression, ...], unit: PrivacyUnit) -> Drifts | None:
    """Return what a neighbour changes of rows in groups, None where it may change rows or groups."""
    drifts = drifts_of(source, unit) if unit.keeps_rows else None
    if drifts is None or owners_of(source) & drifts.keys() or not _all_still(keys, drifts):
        return None
    return drifts


def reach_of(expression: Expression, source: Rows, unit: PrivacyUnit) -> Fraction | None:
    """Return how far a neighbour moves an expression over `source`; None: in any way."""
    drifts = drifts_of(source, unit) if unit.adjacency is Adjacency.METRIC else None
    drift = None if drifts is None else drift_of(expression, drifts)
    return None if drift is None else _reach(drift, unit)


def _reach(drift: Drift, unit: PrivacyUnit) -> Fraction:
    return drift.slope * unit.degrees + drift.slack


def _measured(relation: Relation) -> MeasureRows:
    while isinstance(relation, KeepKeys | SumPerUnit | DropKeys | BoundRows | BoundGroups):
        relation = relation.source
    if not isinstance(relation, MeasureRows):
        raise InternalError("a release needs measured rows")
    return relation


def _steps(measure: Measure, drifts: Drifts, unit: PrivacyUnit) -> int | None:
    if isinstance(measure, PairMeasure):
        return pair_steps(measure, drifts, unit)
    if isinstance(measure, NormMeasure):
        return 0 if _all_still(measure.arguments, drifts) else None
    argument = measure.argument
    drift = STILL if argument is None else drift_of(argument, drifts)
    if drift is None:
        return None
    if drift.still:
        return 0
    match measure:
        case CountMeasure() | PresenceMeasure():
            return 0  # they read whether it is NULL
        case SumMeasure(low=low, high=high, step=step):
            width = measure.ends[1] - measure.ends[0]
        case MomentMeasure(low=low, high=high, cells=cells):
            if low == high:
                return 0  # there is one place
            step, width = (high - low) / cells, cells
        case _:
            assert_never(measure)
    return min(width, _rounded(_moved(drift, low, high, unit), step))


def pair_steps(measure: PairMeasure, drifts: Drifts, unit: PrivacyUnit) -> int | None:
    """Return how far a neighbour moves one component of what a row adds, None: in any way.

    Claim:   no component moves by more than m = d K^(d-1) p L^e + K^d e L^(e-1) q where the places
             move by p and q steps, and what grows grows by m at most in all.
    Why:     u'w' - u w = (u' - u) w' + u (w' - w) for two polynomials u and w. A polynomial of degree
             d moves by at most d K^(d-1) p and is at most K^d; what grows among those of one axis
             grows by as much in all (`delta.nudged`), and those of the other add up to L^e or K^d.
             The components of a row add up to the same before and after.
    Assumes: that a value is NULL stays as it is, as for one argument.
    Source:  [Bernstein1912]
    """
    one, two = measure.axes
    first, second = (_place_steps(axis, drifts, unit) for axis in measure.axes)
    if first is None or second is None:
        return None
    of_one = one.degree * int(one.cells ** (one.degree - 1)) * first
    of_two = two.degree * int(two.cells ** (two.degree - 1)) * second
    return min(measure.total, of_one * two.total + one.total * of_two)


def _place_steps(axis: Axis, drifts: Drifts, unit: PrivacyUnit) -> int | None:
    drift = drift_of(axis.argument, drifts)
    if drift is None or drift.still or not axis.degree:
        return None if drift is None else 0
    step = (axis.high - axis.low) / axis.cells
    return min(axis.cells, _rounded(_moved(drift, axis.low, axis.high, unit), step))


def _moved(drift: Drift, low: Fraction, high: Fraction, unit: PrivacyUnit) -> Fraction:
    """Return how far a value moves, with the floats on the way to its grid in [low, high]."""
    largest = max(abs(low), abs(high)) + high - low
    return _reach(drift, unit) + largest / 2**49


def _rounded(distance: Fraction, step: Fraction) -> int:
    """Return how many steps apart two values may be that are so far apart and rounded to steps."""
    return int(distance // step) + 1


def drifts_of(rows: Rows, unit: PrivacyUnit) -> Drifts | None:
    """Return the columns that a neighbour may change; None where it may change which rows there are.

    Claim:   unless None is returned, the rows of D and D' pair up, with the same values in every
             column that isn't listed and a distance as listed in the others.
    Why:     node by node. A scan keeps its rows. A filter, a join, a group, a mark and a window that
             read unchanged columns alone do the same to paired rows; an aggregate and a window over
             unchanged columns have the same input, and give the same bits. What reads a changed
             column, or a subquery whose rows may change, may change; DISTINCT and its kin read
             every column.
    Assumes: rows are unit-local (`sensitivity.locality`), and what it assumes; owners and the keys
             that lead to them don't change, which the schema enforces. A row that several owners
             share changes with none of them.
    Source:  [McSherry2009]
    """
    match rows:
        case Scan():
            return _scanned(rows, unit)
        case StageScan():
            return {}
        case Filter(source=source, predicate=predicate):
            return _if_still((predicate,), drifts_of(source, unit))
        case Project(source=source, columns=columns, expressions=expressions):
            below = drifts_of(source, unit)
            if below is None:
                return None
            values = (drift_of(expression, below) for expression in expressions)
            return _moving(zip(columns, values, strict=True))
        case Join():
            return _joined(rows, unit)
        case Mark():
            return _marked(rows, unit)
        case GroupRows(source=source, key_expressions=keys, aggregates=aggregates):
            below = _if_still(keys, drifts_of(source, unit))
            if below is None:
                return None
            return {a.column.number: None for a in aggregates if not _all_still(a.read, below)}
        case WindowRows(source=source, functions=functions):
            below = drifts_of(source, unit)
            if below is None:
                return None
            return {
                **below,
                **{f.column.number: None for f in functions if not _all_still(_read(f), below)},
            }
        case SetRows():
            return _combined(rows, unit)
        case _:
            assert_never(rows)


def _read(function: WindowFunction) -> tuple[Expression, ...]:
    order = (item.expression for item in function.order)
    return (*function.arguments, *function.partition, *order)


def _scanned(scan: Scan, unit: PrivacyUnit) -> Drifts:
    if scan.public:
        return {}
    latitude = LATITUDE if unit.adjacency is Adjacency.METRIC else None
    return {
        column.number: latitude if (scan.table, source) in unit.latitudes else None
        for column, source in zip(scan.columns, scan.sources, strict=True)
        if unit.changes(scan.table, source)
    }


def _joined(join: Join, unit: PrivacyUnit) -> Drifts | None:
    left, right = drifts_of(join.left, unit), drifts_of(join.right, unit)
    if left is None or right is None:
        return None
    if join.kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT) and right:
        return None  # it chooses among rows that differ in columns that may change
    return _if_still((join.condition,), {**left, **right})


def _marked(mark: Mark, unit: PrivacyUnit) -> Drifts | None:
    left, right = drifts_of(mark.left, unit), drifts_of(mark.right, unit)
    if left is None:
        return None
    read = tuple(e for e in (mark.condition, mark.operand, mark.value) if e is not None)
    if right is not None and _all_still(read, {**left, **right}):
        return left
    return {**left, mark.column.number: None}


def _combined(rows: SetRows, unit: PrivacyUnit) -> Drifts | None:
    left, right = drifts_of(rows.left, unit), drifts_of(rows.right, unit)
    if left is None or right is None:
        return None
    found: dict[int, Drift | None] = {}
    for column, a, b in zip(rows.columns, output(rows.left), output(rows.right), strict=True):
        if a.number in left or b.number in right:
            found[column.number] = None
    return found if rows.kind is SetKind.UNION_ALL or not found else None


def _all_still(expressions: Iterable[Expression], drifts: Drifts) -> bool:
    return all(still(expression, drifts) for expression in expressions)


def _if_still(expressions: Iterable[Expression], drifts: Drifts | None) -> Drifts | None:
    """Return the drifts where no neighbour changes what the expressions give, else None."""
    return drifts if drifts is not None and _all_still(expressions, drifts) else None


def _moving(found: Iterable[tuple[Column, Drift | None]]) -> Drifts:
    return {c.number: drift for c, drift in found if drift is None or not drift.still}
