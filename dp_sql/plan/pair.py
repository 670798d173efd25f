"""The measure of two arguments: one vector that covariances, correlations and regressions are read from."""

from __future__ import annotations

from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.plan.expression import Expression


@dataclass(frozen=True, slots=True)
class Axis:
    """One argument's place in [low, high], rounded once to an integer in 0..cells.

    degree: of its Bernstein polynomials, 0, 1 or 2, as in `relation.MomentMeasure`.
    """

    argument: Expression
    low: Fraction
    high: Fraction
    cells: int
    degree: int

    @property
    def total(self) -> int:
        """What the polynomials add up to."""
        return int(self.cells**self.degree)


@dataclass(frozen=True, slots=True)
class PairMeasure:
    """The products of the Bernstein polynomials of two arguments' places.

    Component i * (d + 1) + j, d being the second axis's degree, is polynomial i of the first place
    times polynomial j of the second. A row where either argument is NULL or NaN gives zeros, and
    `total` in one more component when `null_component`.

    Claim:   the components are non-negative integers that add up to `total` for each row with both
             values, and to 0 or `total` for the others.
    Why:     they are the terms of (K - a + a)^d (L - b + b)^e, multiplied out in integers.
    Assumes: 0 <= a <= K and 0 <= b <= L, which the lowered SQL enforces.
    Source:  [Bernstein1912]
    """

    axes: tuple[Axis, Axis]
    null_component: bool

    @property
    def products(self) -> int:
        """How many products there are."""
        first, second = self.axes
        return (first.degree + 1) * (second.degree + 1)

    @property
    def size(self) -> int:
        """How many components a row gives."""
        return self.products + int(self.null_component)

    @property
    def total(self) -> int:
        """What the components of one row add up to at most."""
        first, second = self.axes
        return first.total * second.total
