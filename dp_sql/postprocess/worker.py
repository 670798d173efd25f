"""The SQL above the releases in a process of its own, apart from the rows and from the one that connects."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dp_sql.errors import EngineError
from dp_sql.executor import spawn
from dp_sql.executor.held import HeldWorker
from dp_sql.executor.worker import plain
from dp_sql.plan.release import Residual
from dp_sql.postprocess import exchange
from dp_sql.postprocess.processor import PostProcessor, exceeded
from dp_sql.postprocess.released import Answer, Columns, ReleasedColumn
from dp_sql.schema.catalog import Catalog, WorkerSpec
from dp_sql.schema.sqltype import SqlType

if TYPE_CHECKING:
    from numpy.typing import NDArray


class WorkerPostProcessor(HeldWorker, PostProcessor):
    """What is above the releases, in a worker that has opened public files alone.

    Claim:   whatever an analyst writes takes no more memory, processor time and time than the limits
             say, and neither the process that connects nor the rows are within its reach.
    Why:     it runs in a process whose limits the kernel keeps, which inherited no file, opens none
             but public tables, and got no row but released ones. What it says is read as JSON and
             numbers, and no more of it than its own memory.
    Assumes: the kernel has these walls: `confined` says which. [Landlock2025]
    Source:  [Haeberlen2011]
    """

    def __init__(
        self,
        catalog: Catalog,
        files: Mapping[str, str],
        public_columns: Callable[[str], Mapping[str, NDArray[Any]]],
        limits: WorkerSpec,
    ) -> None:
        """Open a worker. The arguments are those of `DuckDBPostProcessor`."""
        PostProcessor.__init__(self)
        HeldWorker.__init__(self, spawn.ABOVE, limits, spills=False)
        self._catalog = plain(catalog)
        self._files = dict(files)
        self._public_columns = public_columns
        self._lock = threading.RLock()
        self._sent: set[str] = set()  # the public tables that the worker has
        try:
            self._confined = self._open()
        except BaseException:
            self.close()
            raise

    def _opening(self, spill: str | None) -> bytes:  # noqa: ARG002  nothing is spilled
        self._sent = set(self._files)
        return pickle.dumps((self._catalog, self._files, self._limits))

    def _exceeded(self) -> EngineError:
        return exceeded()

    @property
    def confined(self) -> tuple[str, ...]:
        """What the first worker took from itself; the others do the same."""
        return self._confined

    def _ask(
        self, do: str, public_tables: Sequence[str], *arguments: object
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Return what a method of the worker's answers. Raises what it raises there."""
        with self._lock:
            process = self._ready()
            wanted = [name for name in public_tables if name not in self._sent]
            columns = {name: dict(self._public_columns(name)) for name in wanted}
            answer = self._exchange(process, {"do": do}, [pickle.dumps((arguments, columns))])
            self._sent.update(wanted)
        with self._whole():
            error = exchange.error_in(answer[0])
        if error is not None:
            raise error
        return answer

    def _describe(
        self, residual: Residual, tables: Mapping[str, Sequence[tuple[str, SqlType]]]
    ) -> Columns:
        answer = self._ask("describe", residual.public_tables, residual, dict(tables))
        with self._whole():
            return exchange.read_columns(*answer)

    def _run(
        self,
        residual: Residual,
        tables: Mapping[str, Sequence[ReleasedColumn]],
        names: tuple[str, ...],
    ) -> Answer:
        answer = self._ask("run", residual.public_tables, residual, dict(tables), names)
        with self._whole():
            return exchange.read_answer(*answer)

    def texts(
        self,
        sql: str,
        public_tables: tuple[str, ...],
        tables: Mapping[str, Sequence[ReleasedColumn]],
        width: int,
    ) -> list[tuple[str | None, ...]]:
        """Return the rows of a text above the releases, each of `width` values as text."""
        answer = self._ask("texts", public_tables, sql, public_tables, dict(tables), width)
        with self._whole():
            return exchange.read_texts(*answer)

    def spread(
        self,
        items: Sequence[str],
        table: str,
        columns: Sequence[ReleasedColumn],
        level: float,
    ) -> dict[int, list[tuple[float, float] | None]]:
        """Return, by group number, the central interval of each item over redrawn released rows."""
        answer = self._ask("spread", (), items, table, columns, level)
        with self._whole():
            return exchange.read_spread(*answer)
