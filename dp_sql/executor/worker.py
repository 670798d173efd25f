"""The tables of a catalog in a process of its own, which can exceed its limits without harm to this one."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dp_sql.errors import EngineError
from dp_sql.executor import spawn, wire
from dp_sql.executor.database import Pairs, Row
from dp_sql.executor.held import HeldWorker
from dp_sql.executor.sources import Sources
from dp_sql.schema.catalog import Catalog, WorkerSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Claim:   the message of a failure tells no more than that: not why, not where, not how far it came.
# Why:     the worker says nothing but answers, and this is the one text for every other end of it.
# Assumes: that there is a failure, and when, may depend on the data; README says so.  Source: [Haeberlen2011]
EXCEEDED = (
    "the statement failed in the database, or needed more than the limits of its worker; what it read "
    "stays charged."
)


class WorkerDatabase(HeldWorker):
    """The tables of a catalog in a worker, which is started anew after each that ended."""

    def __init__(self, catalog: Catalog, sources: Sources, limits: WorkerSpec) -> None:
        """Open the data in a worker. Raises EngineError and SchemaError as DuckDBEmbedded does."""
        super().__init__(spawn.DATA, limits, spills=True)
        self._sources = sources
        self._catalog = plain(catalog)
        self._files = sources.state()
        try:
            self._confined = self._open()
        except BaseException:
            self.close()
            raise

    def _opening(self, spill: str | None) -> bytes:
        return pickle.dumps((self._catalog, self._sources, spill, self._limits))

    def _exceeded(self) -> EngineError:
        return EngineError(EXCEEDED)

    @property
    def confined(self) -> tuple[str, ...]:
        """What the first worker took from itself; the others do the same."""
        return self._confined

    def _ready(self) -> spawn.WorkerProcess:
        """Return a worker that has the data open.

        Claim:   what planning learnt of public tables holds of the rows that are read.
        Why:     a worker that opens the data anew, or a path, finds the files of the first.
        Assumes: whoever writes a file changes its time.
        Source:  [Python2025]
        """
        if not self._closed and self._sources.state() != self._files:
            self._held.end()
            raise EngineError(
                "the files of the data have changed since they were opened; what was charged stays "
                "charged.",
                hint="dp_sql.connect(…) again",
            )
        return super()._ready()

    def _ask(self, do: str, **arguments: object) -> tuple[dict[str, Any], list[bytes]]:
        return self._exchange(self._ready(), {"do": do, **arguments})

    def rows(self, sql: str) -> list[Row]:
        """Return the rows of a query."""
        answer = self._ask("rows", sql=sql)
        with self._whole():
            return wire.read_rows(*answer)

    def pairs(self, sql: str, keys: int) -> Pairs:
        """Return the pairs of a query."""
        answer = self._ask("pairs", sql=sql, keys=keys)
        with self._whole():
            return wire.read_pairs(*answer)

    def arrays(self, sql: str) -> Mapping[str, NDArray[Any]]:
        """Return the columns of a query; dates and texts are texts."""
        answer = self._ask("arrays", sql=sql)
        with self._whole():
            return wire.read_arrays(*answer)

    def stage(
        self,
        target: str,
        types: Sequence[str],
        rows: Sequence[tuple[str | None, ...]],
        unique: Sequence[int],
    ) -> None:
        """Make or replace a table from rows of texts."""
        self._ask("stage", target=target, types=types, rows=rows, unique=unique)


def plain(catalog: Catalog) -> Catalog:
    """Return a catalog whose mappings can be sent, without the ledger's place: a URL holds a password."""
    tables = {
        name: replace(spec, columns=dict(spec.columns)) for name, spec in catalog.tables.items()
    }
    return replace(catalog, tables=tables, ledger=None)
