"""A Poisson sample of the units: the planned release over it."""

from __future__ import annotations

import secrets
from dataclasses import replace
from fractions import Fraction

from dp_sql.errors import InternalError
from dp_sql.plan.relation import (
    BoundGroups,
    BoundRows,
    KeepKeys,
    MeasureRows,
    Relation,
    Sample,
    SumPerUnit,
)
from dp_sql.plan.release import PlannedRelease


def over_sample(plan: PlannedRelease, rate: Fraction | None) -> PlannedRelease:
    """Return the planned release over a fresh sample of the units, or as it is where there is no rate.

    Whether its privacy is that of a sample is up to `sensitivity.sampling`.
    """
    if rate is None:
        return plan
    return replace(plan, relation=_sampled(plan.relation, Sample(rate, secrets.token_hex(32))))


def _sampled(relation: Relation, sample: Sample) -> Relation:
    match relation:
        case MeasureRows():
            return replace(relation, sample=sample)
        case KeepKeys() | SumPerUnit() | BoundRows() | BoundGroups():
            return replace(relation, source=_sampled(relation.source, sample))
        case _:
            raise InternalError("a release needs measured rows")
