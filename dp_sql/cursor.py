"""A PEP 249 cursor, for programs that speak to databases through one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dp_sql.errors import EngineError, UnsupportedSQLError
from dp_sql.parser.parameters import with_values
from dp_sql.result import Result

Description = tuple[str, str, None, None, None, None, None]


class Cursor:
    """Runs statements one after the other and hands out the rows of the last.

    Attributes:
        arraysize: how many rows `fetchmany` returns when not told.
        description: name and type of each column of the last answer, or None.
        rowcount: its number of rows, or -1.
    """

    def __init__(self, run: Callable[..., Result]) -> None:
        self.arraysize = 1
        self.description: tuple[Description, ...] | None = None
        self.rowcount = -1
        self._run = run
        self._rows: Iterator[tuple[Any, ...]] | None = None
        self._closed = False

    def execute(self, operation: str, parameters: Sequence[object] = ()) -> Cursor:
        """Answer one statement. parameters: a value for each `?` of its text, in order.

        Raises what `Connection.sql` raises, and ParameterError for values that don't fit the text.
        """
        self._check()
        result = self._run(with_values(operation, parameters) if parameters else operation)
        self.description = tuple(
            (name, kind, None, None, None, None, None)
            for name, kind in zip(result.columns, result.types, strict=True)
        )
        self.rowcount = len(result)
        self._rows = iter(result)
        return self

    def executemany(self, operation: str, parameters: Sequence[object]) -> Cursor:  # noqa: ARG002
        """Raise UnsupportedSQLError: PEP 249 gives no meaning to many queries' answers."""
        self._check()
        raise UnsupportedSQLError(
            "executemany is for statements without an answer.", hint="execute(…) for each"
        )

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Do nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing, as PEP 249 allows."""

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None after the last."""
        return next(self._iterator(), None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return the next rows, `size` at most."""
        rows = self._iterator()
        wanted = self.arraysize if size is None else size
        return [row for _, row in zip(range(wanted), rows, strict=False)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows that are left."""
        return list(self._iterator())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._iterator()

    def close(self) -> None:
        """Close the cursor; the connection stays open."""
        self._closed = True
        self._rows = None

    def _check(self) -> None:
        if self._closed:
            raise EngineError("the cursor is closed.")

    def _iterator(self) -> Iterator[tuple[Any, ...]]:
        self._check()
        if self._rows is None:
            raise EngineError("there is no answer to fetch.", hint="cursor.execute(…) first")
        return self._rows
