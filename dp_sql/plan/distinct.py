"""COUNT(DISTINCT x): how many values a group's rows have, with each unit vouching for few of them."""

from __future__ import annotations

from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.plan.expression import Column
from dp_sql.plan.relation import Relation


@dataclass(frozen=True, slots=True)
class Distinct:
    """One count of distinct values.

    relation: MeasureRows whose keys are the release's and then `values`, with what keeps them public
        and bounds the groups of a unit.
    known: rows whose first value is NULL have none; otherwise a NULL is a value like others.
    caps: for how many values of a group one unit may vouch, where there are units; of several, one is
        chosen by the data, privately. Empty at event level, where a row has one value.
    share: of the release's epsilon, the choice of the cap included.
    """

    relation: Relation
    values: tuple[Column, ...]
    known: bool
    caps: tuple[int, ...]
    hash_key: int  # 63 random bits, fresh for each release
    share: Fraction
