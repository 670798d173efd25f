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
from dp_sql.sensitivity.delta import blocks_moved, unchanged
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
             at most, and nothing elsewhere; where rows are units, `weight` to all groups together.
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
    event = unit.level is Level.EVENT
    rule = f"values that weigh at most {weight // histogram.unit} rows{_in_words(groups, event)}"
    return HistogramFacts(weight, groups, cells, rule, shared=event)


def derive_distinct(
    distinct: Distinct, cells: int | None, unit: PrivacyUnit, public: PublicFacts
) -> HistogramFacts:
    """Return what the finished plan proves of a count of distinct values, or raise.

    Claim:   a unit that comes or goes changes a group's count by `weight` at most at event level, and
             by the cap at user level, times a weight of 1; and it changes `groups` groups at most,
             at event level by `weight` in all groups together.
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
    event = unit.level is Level.EVENT
    rule = f"vouches for at most {caps} values{_in_words(groups, event)}"
    return HistogramFacts(weight, groups, cells, rule, shared=event)


def derive_sampled(
    sampled: Sampled, cells: int | None, unit: PrivacyUnit, public: PublicFacts, motion: Motion
) -> VectorFacts:
    """Return what the finished plan proves of an aggregate over blocks, or raise.

    Claim:   the rows of a unit lie in one block of each of `groups` groups at most; where rows are
             units, in as many blocks as a row is repeated, all groups together. No other block's
             integer depends on them, and each moves by w at most, w = `width` of the measure.
    Why:     a block's integer depends on the rows of its block alone and lies between ends that are w
             apart. The owner decides the block, so all rows of a unit lie in one block of each
             group, however many there are, and no number of them needs a limit; BoundGroups keeps so
             many groups, chosen by the unit and the group alone. Where rows are units, what a join or
             UNION ALL makes of one of them is r rows that may differ: in their groups, in what decides
             their blocks, or in neither. Each lies in one block of one group: r blocks in all, of one
             group or of r. `delta.blocks_moved` says how far the sums move. Joins keep the owner
             (`locality`), so they change nothing of this.
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
    if unit.level is Level.EVENT:
        if most is not None or not sampled.content:
            raise InternalError("rows have no owner to be bounded by")
        pieces = most_in_one = max(1, bounded_rows(measured.source, unit.level, public))
    else:
        if sampled.content:
            raise InternalError("a unit's rows lie in one block")
        pieces, most_in_one = _groups(most, rows, cells, keyed=bool(keys)), 1
    width, blocks = sampled.measure.width, sampled.measure.blocks
    furthest = min(most_in_one, blocks) * width
    one = Box((-furthest,), (furthest,))
    if motion.steps == 0:
        return VectorFacts(one, unchanged(), "it reads nothing that a neighbour changes")
    if cells == 0:
        return VectorFacts(one, unchanged(), "the public keys have no value, so there is no group")
    moved = blocks_moved(width, blocks, pieces, most_in_one, cells, unit)
    if unit.level is Level.EVENT:
        reached = f"{pieces} block{'s' * (pieces > 1)}, of {blocks} in each group,"
        rule = f"moves {reached} by at most {width} steps"
    else:
        rule = f"moves one block of {blocks} by at most {width} steps in each of {pieces} group"
        rule += "s" * (pieces > 1)
    return VectorFacts(one, moved, rule)


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


def _in_words(groups: int, event: bool) -> str:  # noqa: FBT001  a fact of the schema
    if groups == 1:
        return ""
    return f" in {groups} groups together" if event else f" in each of {groups} groups"


def _groups(most: int | None, rows: int | None, cells: int | None, *, keyed: bool) -> int:
    """Return how many groups a unit touches at most."""
    known = [n for n in (most, rows, cells) if n is not None]
    if keyed and not known:
        raise InternalError("nothing bounds the groups of a unit")
    return max(1, min(known)) if keyed else 1
