"""The measure of a vector of numbers: each row's is scaled down to a bounded length."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from dp_sql.dataclass import dataclass
from dp_sql.plan.expression import Expression

MOST_ENTRIES = 256
"""How many entries a vector may have."""
MOST_SQUARES = 2**62
"""What a row's squares add up to is at most this: then their sum is a BIGINT whatever the row is."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What an aggregate asks of a vector: the sum of one entry.

    place: from 0. max_norm: above 0; a row's vector that is longer (L2) is scaled down to it.
    """

    place: int
    max_norm: Fraction


@dataclass(frozen=True, slots=True)
class NormMeasure:
    """A row's vector, scaled down to the length `limit` where it is longer: integers in steps.

    ends: what each argument is clamped to first. A row where an argument is NULL or NaN gives nothing.

    Claim:   the integers of a row have squares that add up to radius^2 at most.
    Why:     the lowered SQL adds up the squares of the integers themselves, exactly, and a row that
             fails the test gives nothing: nothing rests on how floats round. No row that isn't longer
             than `limit` fails: its vector has limit / step steps at most, and rounding every entry to
             the nearest integer adds a vector of length sqrt(d) / 2 at most; `radius` is larger than
             both together by one step at least, which is more than the floats' error.
    Assumes: DuckDB's sums and products of BIGINT are exact where they don't overflow, and here they
             can't: an entry is at most limit / step + 1 in size.
    Source:  [Dwork2006]
    """

    arguments: tuple[Expression, ...]
    ends: tuple[tuple[Fraction, Fraction], ...]
    limit: Fraction
    step: Fraction

    def __post_init__(self) -> None:
        if not 1 <= len(self.arguments) <= MOST_ENTRIES or len(self.ends) != len(self.arguments):
            raise ValueError("a vector has 1 to 256 entries, each between two ends")
        if self.limit <= 0 or self.step <= 0 or self.size * self.radius**2 > MOST_SQUARES:
            raise ValueError("a vector's length is above 0, and its squares fit a BIGINT")

    @property
    def size(self) -> int:
        """How many entries a vector has."""
        return len(self.arguments)

    @property
    def radius(self) -> int:
        """The length that a row's integers have at most."""
        return int(self.limit / self.step) + isqrt(self.size) // 2 + 3
