"""The seam between an engine and where its SQL runs: in this process, or in one of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dp_sql.dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Row = tuple[object, ...]

DATA = "data"  # the schema of the database that holds the declared tables
STAGE = "stage"  # and that of the results of earlier stages
STOPPED = "the statement was stopped; it stays charged."
FAILED = "the statement failed in the database; what it read stays charged."


@dataclass(frozen=True, slots=True)
class Pairs:
    """Fetched pairs of unit and value, sorted by group.

    keys: of each group, as fetched. ends: where its pairs end. units, values: keyed hashes.
    """

    keys: list[Row]
    ends: list[int]
    units: NDArray[np.uint64]
    values: NDArray[np.uint64]


class Database(Protocol):
    """Runs SQL of ours over the declared tables, one statement at a time.

    Every method but `interrupt` and `close` raises EngineError, whose text doesn't depend on the data.
    """

    @property
    def confined(self) -> tuple[str, ...]:
        """What the process took from itself before it opened the data; empty for this one."""

    def rows(self, sql: str) -> list[Row]:
        """Return the rows of a query."""

    def pairs(self, sql: str, keys: int) -> Pairs:
        """Return the pairs of a query whose first `keys` columns are the group."""

    def arrays(self, sql: str) -> Mapping[str, NDArray[Any]]:
        """Return the columns of a query by name."""

    def stage(
        self,
        target: str,
        types: Sequence[str],
        rows: Sequence[tuple[str | None, ...]],
        unique: Sequence[int],
    ) -> None:
        """Make or replace a table from rows of texts, as `staging.load` does."""

    def interrupt(self) -> None:
        """Stop the statement that runs now, from another thread; without one do nothing."""

    def close(self) -> None:
        """Close the database and remove what it spilled. Closing twice does nothing."""
