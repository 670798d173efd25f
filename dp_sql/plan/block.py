"""SAMPLE_AND_AGGREGATE: an aggregate over each of several random blocks of units, and their mean."""

from __future__ import annotations

from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.plan.expression import Expression
from dp_sql.plan.rows import RowAggregateKind


@dataclass(frozen=True, slots=True)
class Sample:
    """What a statement asks: an aggregate of so many blocks, each result clamped to [low, high]."""

    kind: RowAggregateKind
    low: Fraction
    high: Fraction
    blocks: int


@dataclass(frozen=True, slots=True)
class BlockMeasure:
    """A group's blocks: the sum of their results, each a number of steps.

    A block's result is clamped to [low, high] and rounded once to a multiple of `step`; that of a
    block without rows, and NULL and NaN, is `middle`. A group without rows is `blocks` such blocks.
    """

    kind: RowAggregateKind
    argument: Expression
    low: Fraction
    high: Fraction
    step: Fraction
    blocks: int

    @property
    def ends(self) -> tuple[int, int]:
        """The smallest and largest integer that a block may give."""
        return round(self.low / self.step), round(self.high / self.step)

    @property
    def middle(self) -> int:
        """The integer of a block that says nothing: it lies between the ends, and is public."""
        return sum(self.ends) // 2

    @property
    def width(self) -> int:
        """How far one block can move."""
        return self.ends[1] - self.ends[0]
