"""DuckDB in a process of its own, with limits that it can exceed without harm to this one."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dp_sql.errors import EngineError, SchemaError
from dp_sql.executor import spawn, wire
from dp_sql.executor.database import STOPPED, Pairs, Row, within
from dp_sql.executor.sources import Sources
from dp_sql.schema.catalog import Catalog, WorkerSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

# Claim:   the message of a failure tells no more than that: not why, not where, not how far it came.
# Why:     the worker says nothing but answers, and this is the one text for every other end of it.
# Assumes: that there is a failure, and when, may depend on the data; README says so.  Source: [Haeberlen2011]
EXCEEDED = (
    "the statement failed in the database, or needed more than the limits of its worker; what it read "
    "stays charged."
)
_OPENING = 600.0  # seconds to open the data, which no statement reads yet
_BROKEN = (EOFError, OSError, ValueError, LookupError, TypeError, RecursionError, MemoryError)


class WorkerDatabase:
    """The tables of a catalog in a worker, which is started anew after each that ended."""

    def __init__(self, catalog: Catalog, sources: Sources, limits: WorkerSpec) -> None:
        """Open the data in a worker. Raises EngineError and SchemaError as DuckDBEmbedded does."""
        self._sources = sources
        self._limits = limits
        self._guard = threading.RLock()
        self._running: object | None = None  # the call that the worker answers now
        self._stopped = False
        self._closed = False
        self._catalog = _plain(catalog)
        self._files = sources.state()
        self._held = _Held()
        self._ended = weakref.finalize(self, self._held.end)
        try:
            self._confined = self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> tuple[str, ...]:
        """Take a worker and open the data. Returns what it took from itself, in words."""
        process = self._held.begin()
        spill = self._held.spill
        opening = pickle.dumps((self._catalog, self._sources, spill, self._limits))
        try:
            with self._call(process, _OPENING):
                wire.send_bytes(process.requests, opening)
                said, _ = wire.receive(process.answers, self._limits.memory)
                if "error" not in said:
                    return tuple(str(word) for word in said["confined"])
        except EngineError:
            if self._stopped:
                raise
            raise EngineError(
                "the process that reads the data ended before they were open.", hint=spawn.NO_WORKER
            ) from None
        kind = SchemaError if said["error"] == SchemaError.code else EngineError
        raise kind(str(said["message"]), hint=said["hint"])

    @property
    def confined(self) -> tuple[str, ...]:
        """What the first worker took from itself; the others do the same."""
        return self._confined

    def _ask(self, do: str, **arguments: object) -> tuple[dict[str, Any], list[bytes]]:
        """Return the answer to a request.

        Claim:   a statement runs at most once.
        Why:     nothing is sent again: a worker that ends after a request was sent fails the request.
        Assumes: -
        Source:  [Haeberlen2011]
        """
        process = self._ready()
        with self._call(process, self._limits.seconds):
            wire.send(process.requests, {"do": do, **arguments})
            return wire.receive(process.answers, self._limits.memory)

    def _ready(self) -> spawn.WorkerProcess:
        """Return a worker that has the data open: a new one where the last has ended."""
        if self._closed:
            raise EngineError("the connection is closed.")
        # Claim:   what planning learnt of public tables holds of the rows that are read.
        # Why:     a worker that opens the data anew, or a path, finds the files of the first.
        # Assumes: whoever writes a file changes its time.  Source: [Python2025]
        if self._sources.state() != self._files:
            self._held.end()
            raise EngineError(
                "the files of the data have changed since they were opened; what was charged stays "
                "charged.",
                hint="dp_sql.connect(…) again",
            )
        process = self._held.process
        if process is None or not process.runs:
            self._held.end()
            try:
                self._open()
            except (EngineError, SchemaError):
                self._held.end()
                raise EngineError(STOPPED if self._stopped else EXCEEDED) from None
        assert self._held.process is not None  # noqa: S101  it was opened
        return self._held.process

    @contextmanager
    def _call(self, process: spawn.WorkerProcess, seconds: float) -> Iterator[None]:
        """Let the body talk with a worker for at most so many seconds.

        Where the body doesn't come to its end the worker is ended: the next words on the pipe would
        be the answer to another question.
        """
        call = object()
        with self._guard:
            self._running, self._stopped = call, False
        done = False
        try:
            with within(seconds, lambda: self._kill(call, process)):
                yield
            done = True
        except _BROKEN:
            raise EngineError(STOPPED if self._stopped else EXCEEDED) from None
        finally:
            with self._guard:
                self._running = None
            if not done:
                self._held.end()

    def _kill(self, call: object, process: spawn.WorkerProcess) -> None:
        """Stop a worker that still answers that call."""
        with self._guard:
            if self._running is call:
                process.kill()

    def rows(self, sql: str) -> list[Row]:
        """Return the rows of a query."""
        answer = self._ask("rows", sql=sql)
        with _whole():
            return wire.read_rows(*answer)

    def pairs(self, sql: str, keys: int) -> Pairs:
        """Return the pairs of a query."""
        answer = self._ask("pairs", sql=sql, keys=keys)
        with _whole():
            return wire.read_pairs(*answer)

    def arrays(self, sql: str) -> Mapping[str, NDArray[Any]]:
        """Return the columns of a query; dates and texts are texts."""
        answer = self._ask("arrays", sql=sql)
        with _whole():
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

    def interrupt(self) -> None:
        """Stop the statement that runs now, with its worker."""
        with self._guard:
            if self._running is not None and self._held.process is not None:
                self._stopped = True
                self._held.process.kill()

    def close(self) -> None:
        """End the worker."""
        self._closed = True
        self._ended()


class _Held:
    """A worker and the folder for what it spills."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self.process: spawn.WorkerProcess | None = None
        self.spill: str | None = None

    def begin(self) -> spawn.WorkerProcess:
        """Take a worker, which has opened nothing yet."""
        self.spill = tempfile.mkdtemp(prefix="dpsql-")  # mode 0700: what spills is protected
        self.process = spawn.take()
        return self.process

    def end(self) -> None:
        """End the worker and remove what it spilled; a fork lets both be."""
        if os.getpid() != self._owner:
            return
        process, self.process = self.process, None
        spill, self.spill = self.spill, None
        if process is not None:
            process.end()
        if spill is not None:
            shutil.rmtree(spill, ignore_errors=True)


@contextmanager
def _whole() -> Iterator[None]:
    """Make what is no answer the same failure as none."""
    try:
        yield
    except _BROKEN:
        raise EngineError(EXCEEDED) from None


def _plain(catalog: Catalog) -> Catalog:
    """Return a catalog whose mappings can be sent, without the ledger's place: a URL holds a password."""
    tables = {
        name: replace(spec, columns=dict(spec.columns)) for name, spec in catalog.tables.items()
    }
    return replace(catalog, tables=tables, ledger=None)
