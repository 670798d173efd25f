"""Whether a release reads a Poisson sample of the units, and whether privacy gains from it."""

from __future__ import annotations

from fractions import Fraction

from dp_sql.errors import InternalError, UnsupportedSQLError
from dp_sql.plan.public import PublicFacts
from dp_sql.plan.relation import MeasureRows, Relation, Sample, inputs
from dp_sql.plan.release import PlannedRelease
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.sensitivity.multiplicity import rows_per_unit


def sample_rate(plan: PlannedRelease, unit: PrivacyUnit, public: PublicFacts) -> Fraction | None:
    """Return the rate at which a release samples units, None where it reads all of them.

    Claim:   all that the release reads of protected rows is what it reads of the data without the units
             that aren't in the sample, and that holds each unit with probability `rate` at most, alone.
    Why:     what a relation holds of a unit depends on that unit's rows alone (`sensitivity.locality`),
             so leaving units out at the boundary is leaving them out of the data. At user level the
             coin of a unit is one keyed hash of its owner, the same for all its rows; at event level a
             unit has one row there at most, and each row has a coin of its own. There is one relation.
    Assumes: the lowered SQL tosses the coin of each (`lower_relation`), and the key is fresh and secret.
    Source:  [BalleBartheGaboardi2018]

    Raises UnsupportedSQLError for an adjacency or a release whose privacy on a sample isn't proved.
    """
    sample = _sample(plan.relation)
    others = [h.relation for h in plan.histograms] + [d.relation for d in plan.distincts]
    others += [r for r in (plan.selection_relation, plan.second_relation) if r is not None]
    others += [sampled.relation for sampled in plan.sampled]
    if any(_sample(other) is not None for other in others):
        raise InternalError("one relation of a release is sampled")
    if sample is None:
        return None
    if unit.adjacency is not Adjacency.ADD_REMOVE or unit.group_size > 1:
        raise _refused(
            "a sample is answered where neighbours differ by one unit that is there or not.",
            "leave sample_rate out, or adjacency: add_remove and group_size: 1 in the schema",
        )
    if plan.histograms or plan.distincts or plan.sampled:
        raise _refused(
            "quantiles, MODE, TOP_K, HISTOGRAM, COUNT(DISTINCT x) and SAMPLE_AND_AGGREGATE aren't answered "
            "over a sample.",
            "leave sample_rate out, or COUNT, SUM, AVG, VAR_*, CORR, REGR_* or VECTOR_SUM",
        )
    if plan.private:
        raise _refused(
            "private keys aren't answered over a sample.",
            "keys whose values the schema lists, or leave sample_rate out",
        )
    rows = rows_per_unit(_measured(plan.relation).source, unit.level, public)
    if unit.level is Level.EVENT and rows != 1:
        raise _refused(
            "rows that a join or UNION ALL repeats aren't answered over a sample.",
            "leave sample_rate out, or the join on a unique key",
        )
    return sample.rate


def _sample(relation: Relation) -> Sample | None:
    return _measured(relation).sample


def _measured(relation: Relation) -> MeasureRows:
    while not isinstance(relation, MeasureRows):
        below = inputs(relation)
        if len(below) != 1:
            raise InternalError("a release needs measured rows")
        (relation,) = below
    return relation


def _refused(message: str, hint: str) -> UnsupportedSQLError:
    return UnsupportedSQLError(message, hint=hint)
