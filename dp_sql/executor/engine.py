"""The seam between the plan and a database: what every engine does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dp_sql.dataclass import dataclass
from dp_sql.plan.facts import ExactTable, PairTable
from dp_sql.plan.public import Image, PublicFacts
from dp_sql.plan.release import PlannedRelease, StageTable
from dp_sql.privacy.sealed import Sealed

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Sums:
    """What the statements of a release give.

    table: the exact table. selection: that of the key selection where it is apart. histograms: as
    the plan has them, one row a cell that is held, its columns the place and the weight. distincts:
    the pairs of unit and value, or at event level the number of values of each group. sampled: a row
    a group, the sum of its blocks.
    """

    table: Sealed[ExactTable]
    selection: Sealed[ExactTable] | None
    histograms: tuple[Sealed[ExactTable], ...] = ()
    distincts: tuple[Sealed[PairTable | ExactTable], ...] = ()
    sampled: tuple[Sealed[ExactTable], ...] = ()


class Engine(PublicFacts, Protocol):
    """Runs planned releases over protected data."""

    def statements(self, plan: PlannedRelease) -> tuple[str, ...]:
        """Return the SQL that answers a release: first sums, then key selection where it is apart.

        Then come histograms and distinct values, and last a second round of the selection.
        Raises UnsupportedSQLError for a plan that can't be lowered.
        """

    def execute(
        self,
        plan: PlannedRelease,
        statements: tuple[str, ...],
        stages: Sequence[StageTable] = (),
    ) -> Sums:
        """Run a release's statements but a second round; return what they give, sealed.

        stages: what the release reads of earlier ones.

        Raises EngineError, whose text doesn't depend on the data.
        """

    def image(
        self, image: Image, limit: int, stages: Sequence[StageTable] = ()
    ) -> tuple[tuple[object, ...], ...] | None:
        """Return the tuples of an image as `PublicFacts` says; `stages` are those that it reads."""

    def execute_second(
        self, plan: PlannedRelease, statements: tuple[str, ...], stages: Sequence[StageTable]
    ) -> Sealed[ExactTable]:
        """Run the second round of a release's selection; return its table, sealed.

        stages: what the release reads, again, since others may have run in between, and the keys that
        the first round showed. Raises EngineError as `execute`.
        """

    def identity(self, table: str) -> str:
        """Return what the ledger knows a table by: its real path and name, or its declared id."""

    def place(self, table: str) -> str:
        """Return what the ledger knows a table by that has no `id`: where its data lie."""

    def has(self, table: str) -> bool:
        """Return whether the database has a table or view of a name, whatever its case."""

    @property
    def version(self) -> str:
        """Name and version of the database, on which the value of an expression may depend."""

    def content(self, table: str) -> str:
        """Return a text that changes when a public table's declared columns hold other rows."""

    def public_columns(self, table: str) -> Mapping[str, np.ndarray[Any, Any]]:
        """Return a public table's declared columns, for the part above the releases."""

    def interrupt(self) -> None:
        """Stop the statement that runs now, if there is one."""

    def close(self) -> None:
        """Close the database. Closing twice does nothing."""
