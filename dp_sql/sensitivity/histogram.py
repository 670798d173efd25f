"""What one unit does to a histogram, a count of distinct values or an aggregate over blocks."""

from __future__ import annotations

from dp_sql.errors import InternalError
from dp_sql.plan.distinct import Distinct
from dp_sql.plan.expression import Ref
from dp_sql.plan.facts import HistogramFacts, VectorFacts
from dp_sql.plan.histogram import Histogram
from dp_sql.plan.public import PublicFacts
from dp_sql.plan.relation import BoundGroups, KeepKeys, MeasureRows, Relation, SpreadRows
from dp_sql.plan.sampled import Sampled
from dp_sql.privacy.contribution import Box
from dp_sql.privacy.unit import Level, PrivacyUnit
from dp_sql.sensitivity.delta import change, unchanged
from dp_sql.sensitivity.fan_out import bounded_rows
from dp_sql.sensitivity.locality import require_local
from dp_sql.sensitivity.motion import Motion
from dp_sql.sensitivity.multiplicity import rows_per_unit
from dp_sql.sensitivity.ownership import is_protected, owners_of


def derive_histogram(
    histogram: Histogram, cells: int | None, unit: PrivacyUnit, public: PublicFacts
) -> HistogramFacts:
    """Return what the finished plan proves of one histogram, or raise.

    cells: how many groups can be released, None where that is unknown.

    Claim:   a unit adds non-negative weights of `weight` in all at most to each of `groups` groups
             at most, and nothing elsewhere.
    Why:     at event level a unit is one row of the protected table, `rows_per_unit` rows of the
             joined ones, each of weight 1 in one group. At user level SpreadRows lets a unit's c values
             of a group weigh max_rows * 2^low_bits together, since each place's share is truncated,
             and BoundGroups keeps so many groups, chosen by the unit and the group alone.
    Assumes: the lowered SQL does what SpreadRows and BoundGroups say.
    Source:  [Wilson2020]

    Raises NotPrivateError where nothing bounds a unit, InternalError where the plan breaks a rule
    that the planner promises.
    """
    relation, most, spread = histogram.relation, None, None
    if isinstance(relation, BoundGroups):
        most, relation = relation.max_groups, relation.source
    if isinstance(relation, SpreadRows):
        spread, relation = relation, relation.source
    measured, rows = _measured(relation, unit, public)
    if measured.measures != (histogram.measure,) or histogram.measure.rows is not None:
        raise InternalError("a histogram counts the rows of one measure")
    if unit.level is Level.EVENT:
        if spread is not None or most is not None or histogram.unit != 1:
            raise InternalError("rows have no owner to be bounded by")
        weight = bounded_rows(measured.source, unit.level, public)
    elif spread is None or spread.max_rows < 1 or histogram.unit != 1 << spread.low_bits:
        raise InternalError("a unit's values are bounded in each group")
    else:
        weight = spread.max_rows << spread.low_bits
    groups = _groups(most, rows, cells, keyed=bool(measured.keys))
    many = f" in each of {groups} groups" if groups > 1 else ""
    rule = f"values that weigh at most {weight // histogram.unit} rows{many}"
    return HistogramFacts(weight, groups, cells, rule)


def derive_distinct(
    distinct: Distinct, cells: int | None, unit: PrivacyUnit, public: PublicFacts
) -> HistogramFacts:
    """Return what the finished plan proves of a count of distinct values, or raise.

    Claim:   a unit that comes or goes changes a group's count by `weight` at most at event level, and
             by the cap at user level, times a weight of 1; and it changes `groups` groups at most.
    Why:     one row has one value, and a count of distinct values changes by one at most for each value
             that comes or goes. Of a unit `mechanisms.distinct.matched` proves it. BoundGroups keeps
             so many groups, chosen by the unit and the group alone.
    Assumes: the lowered SQL orders units and values by themselves, as `executor.lower_distinct` says.
    Source:  [KnopSteinke2023]

    Raises NotPrivateError where nothing bounds a unit, InternalError where the plan breaks a rule
    that the planner promises.
    """
    relation, most = distinct.relation, None
    if isinstance(relation, BoundGroups):
        most, relation = relation.max_groups, relation.source
    measured, rows = _measured(relation, unit, public)
    keys = measured.keys[: len(measured.keys) - len(distinct.values)]
    if (*keys, *distinct.values) != measured.keys or not distinct.values:
        raise InternalError("the values that are counted follow the keys")
    if unit.level is Level.EVENT:
        if most is not None or distinct.caps:
            raise InternalError("rows have no owner to be bounded by")
        weight = bounded_rows(measured.source, unit.level, public)
    elif not distinct.caps or min(distinct.caps) < 1:
        raise InternalError("a unit vouches for a bounded number of values")
    else:
        weight = 1
    groups = _groups(most, rows, cells, keyed=bool(keys))
    caps = " or ".join(map(str, distinct.caps)) or str(weight)
    many = f" in each of {groups} groups" if groups > 1 else ""
    return HistogramFacts(weight, groups, cells, f"vouches for at most {caps} values{many}")


def derive_sampled(
    sampled: Sampled, cells: int | None, unit: PrivacyUnit, public: PublicFacts, motion: Motion
) -> VectorFacts:
    """Return what the finished plan proves of an aggregate over blocks, or raise.

    Claim:   the sums of a group's blocks move as if a unit that comes or goes added a number in
             [-w, w] to each of `groups` groups, w = `width` of the measure; where rows are units, one
             in [-r w, r w] to one group, for a unit of r rows.
    Why:     a block's integer depends on the rows of its block alone and lies between ends that are w
             apart. The owner decides the block, so all rows of a unit lie in one block of each
             group, however many there are, and no number of them needs a limit; BoundGroups keeps so
             many groups, chosen by the unit and the group alone. A unit that changes for another
             leaves one block and enters another, of the same sum: 2 w where they share a group,
             which `delta.change` makes of [-w, w]. Where rows are units, each of r rows lies in one
             block of one group, so the sums move by r w in all: in any convex cost most in one group.
             Joins keep the owner (`locality`), so they change nothing of this.
    Assumes: the lowered SQL clamps each block's integer and finds the block from owner or row alone.
    Source:  [NissimRS2007], [Mohan2012]

    Raises NotPrivateError where nothing bounds a unit, InternalError where the plan breaks a rule
    that the planner promises.
    """
    relation, most = sampled.relation, None
    if isinstance(relation, BoundGroups):
        most, relation = relation.max_groups, relation.source
    measured, rows = _measured(relation, unit, public)
    keys = measured.keys[: len(measured.keys) - 1 - len(sampled.content)]
    if (*keys, sampled.value, *sampled.content) != measured.keys:
        raise InternalError("the value of a block and what decides on it follow the keys")
    if sampled.aggregate.read != (Ref(sampled.value),) or sampled.measure.blocks < 1:
        raise InternalError("an aggregate of blocks reads their values")
    many, groups = 1, 1
    if unit.level is Level.EVENT:
        if most is not None or not sampled.content:
            raise InternalError("rows have no owner to be bounded by")
        many = min(bounded_rows(measured.source, unit.level, public), sampled.measure.blocks)
    else:
        if sampled.content:
            raise InternalError("a unit's rows lie in one block")
        groups = _groups(most, rows, cells, keyed=bool(keys))
    width = many * sampled.measure.width
    one = Box((-width,), (width,))
    if motion.steps == 0:
        return VectorFacts(one, unchanged(), "it reads nothing that a neighbour changes")
    if cells == 0:
        return VectorFacts(one, unchanged(), "the public keys have no value, so there is no group")
    rule = f"moves {'one block' if many == 1 else f'{many} blocks'} of {sampled.measure.blocks}"
    rule += (
        f" by at most {sampled.measure.width} steps in each of {groups} group{'s' * (groups > 1)}"
    )
    return VectorFacts(one, change(one, groups, cells, unit), rule)


def _measured(
    relation: Relation, unit: PrivacyUnit, public: PublicFacts
) -> tuple[MeasureRows, int | None]:
    """Return the measured rows below kept keys, and how many of them a unit has at most."""
    while isinstance(relation, KeepKeys):
        relation = relation.source
    if not isinstance(relation, MeasureRows) or not is_protected(relation.source):
        raise InternalError("a histogram of other rows than private ones")
    require_local(relation.source, unit.level)
    if unit.level is Level.USER and not owners_of(relation.source):
        raise InternalError("private rows without an owner")
    return relation, rows_per_unit(relation.source, unit.level, public)


def _groups(most: int | None, rows: int | None, cells: int | None, *, keyed: bool) -> int:
    """Return how many groups a unit touches at most."""
    known = [n for n in (most, rows, cells) if n is not None]
    if keyed and not known:
        raise InternalError("nothing bounds the groups of a unit")
    return max(1, min(known)) if keyed else 1
