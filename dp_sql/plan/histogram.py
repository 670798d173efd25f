"""Histograms: where a group's values lie on a public grid, and which of them are chosen."""

from __future__ import annotations

import math
from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.plan.relation import MomentMeasure, Relation
from dp_sql.schema.catalog import ChoiceKind


@dataclass(frozen=True, slots=True)
class Quantile:
    """The value below which `fraction` of a group's values lie, 0 <= fraction <= 1.

    continuous: between two values it is interpolated, as QUANTILE_CONT does; else it is one of them:
    of n values in order the one at ceil(fraction * n), counted from the largest where `from_top`.
    proposed: how far one step of a neighbour may move it, for PROPOSE_TEST_RELEASE; else None.
    """

    fraction: Fraction
    continuous: bool
    from_top: bool = False
    proposed: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Extreme:
    """A value that few of a group's lie beyond: an upper quantile for MAX, a lower one for MIN."""

    largest: bool


@dataclass(frozen=True, slots=True)
class Popular:
    """The value that comes `place`-th by its weight, from 0, where the `of` heaviest are asked."""

    place: int
    of: int


@dataclass(frozen=True, slots=True)
class Bin:
    """How much weight a place has, from 0, where all `of` of them are asked."""

    place: int
    of: int


Rank = Quantile | Extreme
Choice = Rank | Popular | Bin


@dataclass(frozen=True, slots=True)
class Histogram:
    """The weights of a group's values on a grid, and what is asked of them.

    relation: MeasureRows of `measure` alone, with what keeps and bounds its rows. measure: its places
        0..cells are the grid. unit: the weight of one whole row.
    fine: candidates in one step of the grid. A value is `measure.low` + step * candidate / fine.
    choices: ranks, or heaviest values. kind: how they are chosen.
    together: the quantiles are found by halving the histogram, all at one price a level; else each
        is chosen by itself.
    share: of the release's epsilon, for all choices together.
    dates: values are days since 1970-01-01. values: what the places stand for, if not for numbers.
    ratios: the ends of the values where steps have one ratio: the measure's numbers are logarithms.
    """

    relation: Relation
    measure: MomentMeasure
    unit: int
    fine: int
    choices: tuple[Choice, ...]
    kind: ChoiceKind
    together: bool
    share: Fraction
    dates: bool = False
    values: tuple[object, ...] = ()
    ratios: tuple[Fraction, Fraction] | None = None

    @property
    def runs(self) -> int:
        """How many choices share the histogram's epsilon."""
        return runs_of(self.choices, self.kind, together=self.together)

    def value(self, candidate: int) -> Fraction:
        """Return the value of a candidate."""
        found = self.measure.low + self._step * candidate / self.fine
        if self.ratios is None:
            return found
        low, high = self.ratios
        if candidate in (0, self.measure.cells * self.fine):
            return high if candidate else low
        return min(max(Fraction(math.exp(found)), low), high)

    def candidate(self, value: Fraction) -> int:
        """Return the candidate nearest to a value, halves to even; the last or first beyond them."""
        if self.ratios is not None:
            low, high = self.ratios
            value = Fraction(math.log(min(max(value, low), high)))
        place = round((value - self.measure.low) / self._step * self.fine) if self._step else 0
        return min(max(place, 0), self.measure.cells * self.fine)

    def between(self, low: int, high: int, share: Fraction) -> int:
        """Return the candidate at or before a share of the way from one place's value to another's."""
        if self.ratios is None or low == high:
            return math.floor((low + share * (high - low)) * self.fine)
        first, last = self.value(low), self.value(high)
        return self.candidate(first + share * (last - first))

    @property
    def _step(self) -> Fraction:
        return (self.measure.high - self.measure.low) / self.measure.cells


def runs_of(choices: tuple[Choice, ...], kind: ChoiceKind, *, together: bool) -> int:
    """Return how many choices in a row one value may take part in."""
    if kind in (ChoiceKind.NOISY_MAX_LAPLACE, ChoiceKind.TREE):
        return 1
    quantiles = sum(isinstance(choice, Quantile) for choice in choices)
    popular = max((c.of for c in choices if isinstance(c, Popular)), default=0)
    extremes = sum(isinstance(choice, Extreme) for choice in choices)
    return extremes + popular + (levels(quantiles) if together else quantiles)


def levels(quantiles: int) -> int:
    """Return how often a histogram is halved until each of so many quantiles is found."""
    return quantiles.bit_length()
