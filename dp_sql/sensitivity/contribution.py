"""The contribution set: what one unit can add to one group, derived from the finished plan."""

from __future__ import annotations

from typing import assert_never

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError
from dp_sql.plan.facts import Facts, VectorFacts
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.public import PublicFacts
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
)
from dp_sql.plan.release import PlannedRelease
from dp_sql.plan.rows import Project, Scan
from dp_sql.plan.vector import NormMeasure
from dp_sql.privacy.contribution import Ball, Box, Change, ContributionSet, Divided, Simplex
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.sensitivity.delta import change, change_of_copies, nudged, unchanged
from dp_sql.sensitivity.fan_out import bounded_rows
from dp_sql.sensitivity.histogram import derive_distinct, derive_histogram, derive_sampled
from dp_sql.sensitivity.locality import require_local
from dp_sql.sensitivity.motion import Motion, motions_of
from dp_sql.sensitivity.multiplicity import rows_per_unit
from dp_sql.sensitivity.ownership import is_protected, owner_of, owners_of
from dp_sql.sensitivity.sampling import sample_rate


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What one unit has in a relation at or above the measure.

    groups: groups it touches, None unknown. sets: by measure, None while nothing bounds it.
    """

    measures: tuple[Measure, ...]
    groups: int | None
    sets: tuple[ContributionSet | None, ...]
    per_unit: bool  # one row per (unit, group)


def derive(plan: PlannedRelease, unit: PrivacyUnit, public: PublicFacts) -> Facts:
    """Return what the finished plan proves about one unit, or raise.

    Raises NotPrivateError where nothing bounds a unit, InternalError where the plan breaks a rule
    that the planner promises.
    """
    main = _bounds(plan.relation, unit, public)
    apart = _apart(plan)
    cells = plan.cells
    groups = _groups(main.groups, cells, keyed=bool(plan.keys))
    motions = motions_of(plan.relation, unit)
    facts = []
    position = 0
    for index, vector in enumerate(plan.summed):
        own = apart.get(index)
        bounds, at = (main, position) if own is None else (_bounds(own, unit, public), 0)
        position += 1 if own is None else 0
        measure = bounds.measures[at]
        if measure != vector.measure:
            raise InternalError("a vector that the plan doesn't hold")
        contribution = bounds.sets[at]
        if contribution is None:
            raise InternalError("a vector that nothing bounds")
        reach = _groups(bounds.groups, cells if own is None else None, keyed=bool(plan.keys))
        motion = (motions if own is None else motions_of(own, unit))[at]
        rows = 1 if bounds.groups is None else bounds.groups
        alone = own is not None
        facts.append(_vector(plan, measure, contribution, reach, cells, alone, unit, motion, rows))
    blocks = plan.vectors[len(plan.summed) :]
    for vector, sampled in zip(blocks, plan.sampled, strict=True):
        if vector.measure != sampled.measure or len(vector.columns) != 1 or vector.unit != 1:
            raise InternalError("a vector that the plan doesn't hold")
        (moved,) = motions_of(sampled.relation, unit)
        facts.append(derive_sampled(sampled, cells, unit, public, moved))
    owner = owner_of(plan.relation)
    return Facts(
        unit,
        groups,
        cells,
        tuple(facts),
        "the row itself" if owner is None else owner.name,
        "1" if unit.level is Level.EVENT else _rows_in_words(plan.relation),
        tuple(derive_histogram(h, cells, unit, public) for h in plan.histograms),
        tuple(derive_distinct(d, cells, unit, public) for d in plan.distincts),
        sample_rate(plan, unit, public),
    )


def _apart(plan: PlannedRelease) -> dict[int, Relation]:
    """Return the relations of the vectors that select keys from a table of their own."""
    relations = (plan.selection_relation, plan.second_relation)
    found = dict(zip(plan.selections, relations, strict=False))
    return {index: own for index, own in found.items() if own is not None}


def _vector(
    plan: PlannedRelease,
    measure: Measure,
    contribution: ContributionSet,
    groups: int,
    cells: int | None,
    apart: bool,  # noqa: FBT001  a fact of the vector, no switch
    unit: PrivacyUnit,
    motion: Motion,
    rows: int,
) -> VectorFacts:
    moved: Change
    if isinstance(measure, PresenceMeasure) and measure.weight:
        _require_divided(measure, groups)
    if _always_one(plan, measure, unit):
        moved, rule = unchanged(), "every row counts once and the number of rows is public"
    elif cells == 0 and not apart:
        moved, rule = unchanged(), "the public keys have no value, so there is no group"
    elif motion.steps == 0:
        moved, rule = unchanged(), "it reads nothing that a neighbour changes"
    else:
        bound = None if apart else cells
        if unit.level is Level.EVENT:
            moved = change_of_copies(contribution, bound, unit, in_place=motion.in_place)
            many = f"{groups} groups together" if groups > 1 else "each of 1 group"
        else:
            moved = change(contribution, groups, bound, unit, in_place=motion.in_place)
            many = f"each of {groups} group{'s' * (groups > 1)}"
        rule = f"{_set_in_words(contribution)} in {many}"
        if motion.steps is not None:
            near = nudged(measure, motion.steps, rows, unit)
            if near.l1 <= moved.l1 and near.l2_squared <= moved.l2_squared:
                moved, rule = (
                    near,
                    f"a value that moves by at most {motion.steps} steps in its group",
                )
    return VectorFacts(contribution, moved, rule)


def _require_divided(measure: PresenceMeasure, groups: int) -> None:
    """Raise InternalError unless a unit's weight is divided over as many groups as it may have.

    The lowered SQL gives a unit of more than `most` groups what one of `most` has in each: its squares,
    or its numbers, would then add up to more than `Divided` says.
    """
    if measure.most < groups or measure.argument is not None:
        raise InternalError("a unit may have more groups than its weight is divided over")


def _always_one(plan: PlannedRelease, measure: Measure, unit: PrivacyUnit) -> bool:
    """Return whether a count is the public number of rows.

    Claim:   under substitution at event level COUNT(*) without anything that drops, repeats or
             groups rows is the number of units, which is public.
    Why:     every unit is one row before and after.
    Assumes: at event level a scan drops no row.
    Source:  [Dwork2014]
    """
    if unit.level is not Level.EVENT or unit.adjacency is not Adjacency.SUBSTITUTION:
        return False
    if plan.keys or measure != CountMeasure(None) or not isinstance(plan.relation, MeasureRows):
        return False
    source = plan.relation.source
    while isinstance(source, Project):
        source = source.source
    return isinstance(source, Scan)


def _bounds(relation: Relation, unit: PrivacyUnit, public: PublicFacts) -> _Bounds:
    match relation:
        case MeasureRows(source=source, measures=measures):
            if not is_protected(source):
                raise InternalError("a release of public rows")
            require_local(source, unit.level)
            if unit.level is Level.EVENT:
                count = bounded_rows(source, unit.level, public)
                sets = tuple(_times(_row_set(m), count) for m in measures)
                return _Bounds(measures, count, sets, per_unit=False)
            if not owners_of(source):
                raise InternalError("private rows without an owner")
            rows = rows_per_unit(source, unit.level, public)
            return _Bounds(measures, rows, tuple(None for _ in measures), per_unit=False)
        case KeepKeys(source=source):
            return _bounds(source, unit, public)
        case DropKeys(source=source):
            below = _bounds(source, unit, public)
            if not below.per_unit:
                raise InternalError("groups are dropped per unit")
            return below
        case SumPerUnit(source=source):
            below = _bounds(source, unit, public)
            if unit.level is Level.EVENT:
                raise InternalError("rows have no owner to be summed by")
            return _Bounds(
                below.measures, below.groups, tuple(None for _ in below.sets), per_unit=True
            )
        case BoundRows(source=source, max_rows=max_rows, low_bits=low_bits):
            below = _bounds(source, unit, public)
            if not below.per_unit or max_rows < 1 or len(low_bits) != len(below.measures):
                raise InternalError("rows are bounded per unit and group")
            sets = tuple(
                _bounded_set(m, max_rows, bits)
                for m, bits in zip(below.measures, low_bits, strict=True)
            )
            return _Bounds(below.measures, below.groups, sets, per_unit=True)
        case BoundGroups(source=source, max_groups=max_groups):
            below = _bounds(source, unit, public)
            if not below.per_unit or max_groups < 1:
                raise InternalError("groups are bounded per unit")
            groups = max_groups if below.groups is None else min(max_groups, below.groups)
            return _Bounds(below.measures, groups, below.sets, per_unit=True)
        case _:
            raise InternalError("a release needs measured rows")


def _row_set(measure: Measure) -> ContributionSet:
    """Return what one row can add: the integers of plan.relation's measures, or 0."""
    if _per_unit(measure):
        raise InternalError("a row has no bounds of a unit")
    match measure:
        case CountMeasure() | PresenceMeasure():
            return Box((0,), (1,))
        case SumMeasure():
            low, high = measure.ends
            return Box((min(low, 0),), (max(high, 0),))
        case MomentMeasure() | PairMeasure():
            return _parts(measure.size, measure.total)
        case NormMeasure():
            return Ball(measure.size, measure.radius)
        case _:
            assert_never(measure)


def _bounded_set(measure: Measure, max_rows: int, low_bits: int) -> ContributionSet:
    """Return what a unit can add to a group after BoundRows.

    Claim:   a moment vector, of one argument or two, stays a simplex of total max_rows * total *
             2^low_bits, or a range up to it where it has one component; a count or sum
             with ends of its own lies between them, or is 0 for a unit that isn't in the group; a sum
             of vectors is no longer than max_rows vectors of one row.
    Why:     c rows add up to c * total at most; multiplied by max_rows / c where c > max_rows, each
             component truncated toward zero, the sum is no more than max_rows * total.
    Assumes: the lowered SQL multiplies before it divides, in integers that can't overflow, clamps
             what has ends of its own to just these, and gives nothing of a vector whose squares,
             added up in integers, are too many.
    Source:  [Wilson2020]
    """
    match measure:
        case CountMeasure() | SumMeasure() if measure.per_unit is not None:
            least, most = measure.per_unit
            return Box((min(least, 0),), (max(most, 0),))
        case MomentMeasure() | PairMeasure():
            return _parts(measure.size, measure.total * max_rows << low_bits)
        case _:
            row = _row_set(measure)
    if isinstance(measure, PresenceMeasure) and measure.weight:
        return Divided(measure.weight, measure.evenly)
    match row:
        case Box(low=low, high=high):
            if isinstance(measure, PresenceMeasure):
                return row
            return Box(tuple(a * max_rows for a in low), tuple(b * max_rows for b in high))
        case Divided() | Simplex():
            raise InternalError("what a row adds of this measure is said above")
        case Ball(size=size, radius=radius):
            return Ball(size, radius * max_rows)
        case _:
            assert_never(row)


def _parts(size: int, total: int) -> Box | Simplex:
    """Return the set of `size` non-negative numbers that add up to at most `total`."""
    return Box((0,), (total,)) if size == 1 else Simplex(size, total)


def _per_unit(measure: Measure) -> bool:
    """Return whether a measure bounds what a unit adds to a group, not what a row adds."""
    match measure:
        case CountMeasure(per_unit=ends) | SumMeasure(per_unit=ends) | MomentMeasure(rows=ends):
            return ends is not None
        case PresenceMeasure() | PairMeasure() | NormMeasure():
            return False
        case _:
            assert_never(measure)


def _times(row: ContributionSet, count: int) -> ContributionSet:
    match row:
        case Box(low=low, high=high):
            return Box(tuple(a * count for a in low), tuple(b * count for b in high))
        case Simplex(size=size, total=total):
            return Simplex(size, total * count)
        case Ball(size=size, radius=radius):
            return Ball(size, radius * count)
        case Divided():
            raise InternalError("a row has no share of its unit's weight")
        case _:
            assert_never(row)


def _groups(groups: int | None, cells: int | None, *, keyed: bool) -> int:
    if not keyed:
        return 1
    known = [n for n in (groups, cells) if n is not None]
    if not known:
        raise InternalError("nothing bounds the groups of a unit")
    return max(1, min(known))


def _set_in_words(contribution: ContributionSet) -> str:
    match contribution:
        case Box(low=low, high=high):
            ends = " x ".join(f"[{a}, {b}]" for a, b in zip(low, high, strict=True))
            return f"a number of steps in {ends}"
        case Divided(weight=weight, evenly=evenly):
            return f"{weight} over {'' if evenly else 'the root of '}the number of its groups"
        case Simplex(size=size, total=total):
            return f"{size} non-negative numbers that add up to at most {total}"
        case Ball(size=size, radius=radius):
            return f"{size} numbers whose squares add up to at most {radius}^2"
        case _:
            assert_never(contribution)


def _rows_in_words(relation: Relation) -> str:
    if isinstance(relation, BoundRows):
        return f"any number, weighing as at most {relation.max_rows} in a group"
    return "any number"
