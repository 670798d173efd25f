"""What the sensitivity analysis proves of a planned release, and the exact table it stands for."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dp_sql.dataclass import dataclass
from dp_sql.privacy.contribution import Change, ContributionSet
from dp_sql.privacy.unit import PrivacyUnit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class VectorFacts:
    """What one unit does to one vector. `rule`: the reasoning in a line, for EXPLAIN."""

    contribution: ContributionSet
    change: Change
    rule: str


@dataclass(frozen=True, slots=True)
class HistogramFacts:
    """What one unit does to one histogram: it adds up to `weight` in each of `groups` groups.

    cells: how many groups can be released, None where unknown. rule: the reasoning in a line.
    shared: whether all that it adds is up to `weight`, in all groups together.
    """

    weight: int
    groups: int
    cells: int | None
    rule: str
    shared: bool = False

    @property
    def full(self) -> int:
        """In how many groups a unit can add `weight` at once."""
        return 1 if self.shared else self.groups

    def times(self, factor: int) -> HistogramFacts:
        """Return what a unit does if each of its weights counts `factor` times."""
        return replace(self, weight=self.weight * factor)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is proved of a whole planned release.

    unit: what is protected. groups: how many groups one unit touches at most (L0). cells: how many
    groups can be released, None where unknown. vectors: aligned with the planned release's.
    owner: the owner of a row in words, for EXPLAIN. histograms, distincts: aligned with
    the planned release's. sample_rate: of the Poisson sample of units that is read, None for all;
    what is said of one unit is said of one that is in it.
    """

    unit: PrivacyUnit
    groups: int
    cells: int | None
    vectors: tuple[VectorFacts, ...]
    owner: str
    rows: str  # rows per unit, in words
    histograms: tuple[HistogramFacts, ...] = ()
    distincts: tuple[HistogramFacts, ...] = ()
    sample_rate: Fraction | None = None


@dataclass(frozen=True, slots=True)
class ExactTable:
    """The true sums by group. keys: one tuple a group. columns: one list of integers a column."""

    keys: list[tuple[object, ...]]
    columns: list[list[int]]


@dataclass(frozen=True, slots=True)
class PairTable:
    """Which unit has which value in which group: 16 bytes a pair.

    keys: one tuple a group. ends: where each group's pairs end. units, values: keyed 64-bit hashes,
    sorted by group, unit and value, each pair once.
    """

    keys: list[tuple[object, ...]]
    ends: list[int]
    units: NDArray[np.uint64]
    values: NDArray[np.uint64]
