"""What the sensitivity analysis proves of a planned release, and the exact table it stands for."""

from __future__ import annotations

from dp_sql.dataclass import dataclass
from dp_sql.privacy.contribution import Change, ContributionSet
from dp_sql.privacy.unit import PrivacyUnit


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
    """

    weight: int
    groups: int
    cells: int | None
    rule: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What is proved of a whole planned release.

    unit: what is protected. groups: how many groups one unit touches at most (L0). cells: how many
    groups can be released, None where unknown. vectors: aligned with the planned release's.
    owner: the owner of a row in words, for EXPLAIN. histograms: aligned with the planned release's.
    """

    unit: PrivacyUnit
    groups: int
    cells: int | None
    vectors: tuple[VectorFacts, ...]
    owner: str
    rows: str  # rows per unit, in words
    histograms: tuple[HistogramFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class ExactTable:
    """The true sums by group. keys: one tuple a group. columns: one list of integers a column."""

    keys: list[tuple[object, ...]]
    columns: list[list[int]]
