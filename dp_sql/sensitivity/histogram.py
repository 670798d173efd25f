"""What one unit can add to a histogram, derived from the finished plan."""

from __future__ import annotations

from dp_sql.errors import InternalError
from dp_sql.plan.facts import HistogramFacts
from dp_sql.plan.histogram import Histogram
from dp_sql.plan.public import PublicFacts
from dp_sql.plan.relation import BoundGroups, KeepKeys, MeasureRows, SpreadRows
from dp_sql.privacy.unit import Level, PrivacyUnit
from dp_sql.sensitivity.locality import require_local
from dp_sql.sensitivity.multiplicity import require_bounded, rows_per_unit
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
    while isinstance(relation, KeepKeys):
        relation = relation.source
    if not isinstance(relation, MeasureRows) or relation.measures != (histogram.measure,):
        raise InternalError("a histogram counts the rows of one measure")
    if histogram.measure.rows is not None or not is_protected(relation.source):
        raise InternalError("a histogram of other rows than private ones")
    require_local(relation.source, unit.level)
    rows = rows_per_unit(relation.source, unit.level, public)
    if unit.level is Level.EVENT:
        if spread is not None or most is not None or histogram.unit != 1:
            raise InternalError("rows have no owner to be bounded by")
        weight = require_bounded(rows)
    elif spread is None or spread.max_rows < 1 or histogram.unit != 1 << spread.low_bits:
        raise InternalError("a unit's values are bounded in each group")
    elif not owners_of(relation.source):
        raise InternalError("private rows without an owner")
    else:
        weight = spread.max_rows << spread.low_bits
    known = [n for n in (most, rows, cells) if n is not None]
    if relation.keys and not known:
        raise InternalError("nothing bounds the groups of a unit")
    groups = max(1, min(known)) if relation.keys else 1
    many = f" in each of {groups} groups" if groups > 1 else ""
    rule = f"values that weigh at most {weight // histogram.unit} rows{many}"
    return HistogramFacts(weight, groups, cells, rule)
