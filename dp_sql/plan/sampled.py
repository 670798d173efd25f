"""The rows of an aggregate over random blocks of units."""

from __future__ import annotations

from dp_sql.dataclass import dataclass
from dp_sql.plan.block import BlockMeasure
from dp_sql.plan.expression import Column
from dp_sql.plan.relation import Relation
from dp_sql.plan.rows import RowAggregate


@dataclass(frozen=True, slots=True)
class Sampled:
    """One SAMPLE_AND_AGGREGATE: its rows, and what is computed of each block.

    relation: MeasureRows whose keys are the release's, then `value`, then `content`, with what keeps
        them public and bounds the groups of a unit. aggregate: over `value`.
    content: where rows are units, the columns that decide in which block a row is; empty where the
        owner does. hash_key: 63 random bits, fresh for each release.
    """

    relation: Relation
    measure: BlockMeasure
    aggregate: RowAggregate
    value: Column
    content: tuple[Column, ...]
    hash_key: int
