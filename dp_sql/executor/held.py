"""A worker that is held: asked within its limits, and started anew after it has ended."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dp_sql.errors import EngineError, SchemaError
from dp_sql.executor import spawn, wire
from dp_sql.executor.clock import within
from dp_sql.executor.database import STOPPED
from dp_sql.schema.catalog import WorkerSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPENING = 600.0  # seconds to open, which no statement reads yet
_BROKEN = (EOFError, OSError, ValueError, LookupError, TypeError, RecursionError, MemoryError)


class HeldWorker(ABC):
    """What talks with a worker: one call at a time, each within the worker's limits."""

    def __init__(self, program: str, limits: WorkerSpec, *, spills: bool) -> None:
        """Start nothing yet. program: as `spawn` names it. spills: it has a folder for what it spills."""
        self._limits = limits
        self._guard = threading.RLock()
        self._running: object | None = None  # the call that the worker answers now
        self._stopped = False
        self._killed = False  # the worker, in the call that runs or ran last
        self._closed = False
        self._held = _Held(program, spills=spills)
        self._ended = weakref.finalize(self, self._held.end)

    @abstractmethod
    def _opening(self, spill: str | None) -> bytes:
        """Return the first message to a worker."""

    @abstractmethod
    def _exceeded(self) -> EngineError:
        """Return the error of a call that came to no end."""

    def _open(self) -> tuple[str, ...]:
        """Take a worker and have it open what it works on. Returns what it took from itself, in words."""
        process = self._held.begin()
        opening = self._opening(self._held.spill)
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
                "a process for the database ended before it was open.", hint=spawn.NO_WORKER
            ) from None
        kind = SchemaError if said["error"] == SchemaError.code else EngineError
        raise kind(str(said["message"]), hint=said["hint"])

    def _ready(self) -> spawn.WorkerProcess:
        """Return a worker that is open: a new one where the last has ended."""
        if self._closed:
            raise EngineError("the connection is closed.")
        process = self._held.process
        if process is None or not process.runs:
            self._held.end()
            try:
                self._open()
            except (EngineError, SchemaError):
                self._held.end()
                raise (EngineError(STOPPED) if self._stopped else self._exceeded()) from None
        assert self._held.process is not None  # noqa: S101  it was opened
        return self._held.process

    def _exchange(
        self,
        process: spawn.WorkerProcess,
        request: dict[str, object],
        blobs: Sequence[bytes] = (),
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Return the answer to a request.

        Claim:   a statement runs at most once.
        Why:     nothing is sent again: a worker that ends after a request was sent fails the request.
        Assumes: -
        Source:  [Haeberlen2011]
        """
        with self._call(process, self._limits.seconds):
            wire.send(process.requests, request, blobs)
            return wire.receive(process.answers, self._limits.memory)

    @contextmanager
    def _call(self, process: spawn.WorkerProcess, seconds: float) -> Iterator[None]:
        """Let the body talk with a worker for at most so many seconds.

        Where the body doesn't come to its end the worker is ended: the next words on the pipe would
        be the answer to another question.
        """
        call = object()
        with self._guard:
            self._running, self._stopped, self._killed = call, False, False
        done = False
        try:
            with within(seconds, lambda: self._kill(call, process)):
                yield
            done = True
        except _BROKEN:
            raise (EngineError(STOPPED) if self._stopped else self._exceeded()) from None
        finally:
            with self._guard:
                self._running = None
                whole = (
                    done and not self._killed
                )  # a stop that came late is for this call, not the next
            if not whole:
                self._held.end()

    def _kill(self, call: object, process: spawn.WorkerProcess) -> None:
        """Stop a worker that still answers that call."""
        with self._guard:
            if self._running is call:
                self._killed = True
                process.kill()

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Make what is no answer the same failure as none."""
        try:
            yield
        except _BROKEN:
            raise self._exceeded() from None

    def interrupt(self) -> None:
        """Stop the statement that runs now, with its worker."""
        with self._guard:
            if self._running is not None and self._held.process is not None:
                self._stopped = self._killed = True
                self._held.process.kill()

    def close(self) -> None:
        """End the worker."""
        self._closed = True
        self._ended()


class _Held:
    """A worker and the folder for what it spills."""

    def __init__(self, program: str, *, spills: bool) -> None:
        self._owner = os.getpid()
        self._program = program
        self._spills = spills
        self.process: spawn.WorkerProcess | None = None
        self.spill: str | None = None

    def begin(self) -> spawn.WorkerProcess:
        """Take a worker, which has opened nothing yet."""
        if self._spills:
            self.spill = tempfile.mkdtemp(prefix="dpsql-")  # mode 0700: what spills is protected
        self.process = spawn.take(self._program)
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
