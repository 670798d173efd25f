"""Starts the processes in which DuckDB runs, apart from everything else that this one has."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dp_sql.errors import EngineError

_PROGRAM = (
    "import sys; sys.path += sys.argv[2:]; "
    "from importlib import import_module; import_module(sys.argv[1]).serve()"
)
DATA = "dp_sql.executor.worker_process"  # the program of the process that reads the data
ABOVE = "dp_sql.postprocess.process"  # and of that which runs what analysts write above releases
_PACKAGES = ("dp_sql", "duckdb", "numpy")
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "LANG", "LC_ALL", "TZ")
_SET = {"OPENBLAS_NUM_THREADS": "1"}  # numpy's start takes half the time; nothing here multiplies
NO_WORKER = "worker: {in_process: true} in the schema, if the process that connects is trusted"


class WorkerProcess:
    """A Python that loads the database and waits for a schema on its standard input."""

    def __init__(self, program: str) -> None:
        """Start it. program: a module that serves. Raises EngineError where the system starts none."""
        self._owner = os.getpid()
        flags = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
        try:
            # Claim:   the worker has no file of this process but its two pipes, and none of its
            #          secrets: no variable but those that a Python needs to start.
            # Why:     all other files are closed; the environment is a list of what stays.
            # Assumes: those variables hold no secret.  Source: [Python2025]
            self._process = subprocess.Popen(  # noqa: S603  our own program, with folders of packages
                [sys.executable, *flags, "-c", _PROGRAM, program, *_folders()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=Path(sys.executable).anchor,
                env={n: os.environ[n] for n in _KEPT if n in os.environ} | _SET,
                close_fds=True,
                start_new_session=True,  # Ctrl-C in a terminal is for this process alone
            )
        except (OSError, ValueError):
            raise EngineError(
                "a process for the database can't be started.", hint=NO_WORKER
            ) from None

    @property
    def requests(self) -> BinaryIO:
        """What the worker reads."""
        assert self._process.stdin is not None  # noqa: S101  it was asked for
        return self._process.stdin  # type: ignore[return-value]

    @property
    def answers(self) -> BinaryIO:
        """What the worker writes."""
        assert self._process.stdout is not None  # noqa: S101  it was asked for
        return self._process.stdout  # type: ignore[return-value]

    @property
    def number(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it hasn't ended."""
        return self._process.poll() is None

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that started it, whose pipes these are."""
        return os.getpid() != self._owner

    def kill(self) -> None:
        """Stop it at once. Whoever reads its answers finds their end."""
        if not self.forked:
            self._process.kill()

    def end(self) -> None:
        """Stop it and leave nothing of it; a fork of the process that started it lets it be."""
        if self.forked:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # a request that it didn't read to the end
                continue


def _folders() -> list[str]:
    """Return the folders in which the worker finds the packages that it needs; none is loaded."""
    found = dict[str, None]()
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            found[str(Path(spec.origin).resolve().parents[1])] = None
    return list(found)


_lock = threading.Lock()
_spare: dict[str, WorkerProcess] = {}


def prepare() -> None:
    """Start workers that the next connection takes: they load while this process does something else."""
    with _lock:
        for program in (DATA, ABOVE):
            found = _spare.get(program)
            if found is None or not found.runs or found.forked:
                _spare[program] = WorkerProcess(program)


def take(program: str) -> WorkerProcess:
    """Return the worker that was prepared, or a new one."""
    with _lock:
        found = _spare.pop(program, None)
    usable = found is not None and not found.forked and found.runs
    return found if found is not None and usable else WorkerProcess(program)


@contextmanager
def prepared(*, wanted: bool) -> Iterator[None]:
    """Have workers ready for a connection that the body may make; those that aren't taken are ended."""
    if wanted:
        prepare()
    try:
        yield
    finally:
        _discard()


def _discard() -> None:
    with _lock:
        found = list(_spare.values())
        _spare.clear()
    for process in found:
        process.end()
