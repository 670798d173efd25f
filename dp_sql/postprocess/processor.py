"""The seam between statements and where the SQL above their releases runs: here, or in a worker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from dp_sql.errors import EngineError, QueryError
from dp_sql.plan.release import Residual
from dp_sql.postprocess.released import (
    Answer,
    Columns,
    ReleasedColumn,
    shown_columns,
    shown_rows,
)
from dp_sql.schema.sqltype import SqlType

_MOST_DESCRIBED = 1000  # residuals whose columns are kept
ABOVE = "what reads public data and results alone"

_Shape: TypeAlias = tuple[tuple[str, SqlType], ...]  # names and types of a table's columns


def exceeded() -> EngineError:
    """Return the one error for everything that ends the process, or needs more than it may take."""
    return EngineError(
        f"{ABOVE} failed in the database, or needed more than its limits; what was charged stays charged.",
        hint="fewer rows or shorter texts; `worker:` in the schema sets the limits",
    )


class PostProcessor(ABC):
    """Runs everything above the release boundary. Safe to share between threads.

    Claim:   nothing that it is given, or answers, depends on protected rows but by released values.
    Why:     it gets released tables, public tables, and text; the process that it runs in with a
             worker has opened no protected file, and can't.
    Assumes: with `in_process`, the text is confined by DuckDB's settings alone.
    Source:  [Dwork2014]
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._described: dict[tuple[Residual, tuple[tuple[str, _Shape], ...]], Columns] = {}
        self._names: dict[str, tuple[str, ...] | None] = {}

    def describe(
        self, residual: Residual, tables: Mapping[str, Sequence[tuple[str, SqlType]]]
    ) -> Columns:
        """Return the answer's column names and types, from binding over empty tables.

        Raises QueryError where DuckDB can't bind the statement. Nothing is read, nothing depends on
        protected values.
        """
        if residual.shown:
            known = self._shown(residual, tables)
            if known is not None:
                return known
        asked = residual, tuple((name, tuple(columns)) for name, columns in tables.items())
        found = self._described.get(asked)
        if found is None:
            found = self._describe(residual, tables)
            if not residual.public_tables:  # whose files could change
                if len(self._described) >= _MOST_DESCRIBED:
                    self._described.clear()
                self._described[asked] = found
        return found

    def _shown(
        self, residual: Residual, tables: Mapping[str, Sequence[tuple[str, SqlType]]]
    ) -> Columns | None:
        """Return what `describe` does for released columns as they are, None where it takes more."""
        names, types = shown_columns(residual, tables)
        if residual.named:
            return names, types
        found = None if residual.bare is None else self._names_of(residual.bare.sql)
        if residual.bare is None or found is None or len(found) != len(residual.bare.places):
            return None
        own = dict(zip(residual.bare.places, found, strict=True))
        return tuple(own.get(place, name) for place, name in enumerate(names)), types

    def _names_of(self, sql: str) -> tuple[str, ...] | None:
        """Return the column names of a query over empty tables, None where it can't be bound."""
        known = self._names
        if sql in known:
            return known[sql]
        try:
            found = self._describe(Residual(sql, sql, sql, (), named=True), {})[0]
        except QueryError:
            found = None
        if len(self._names) >= _MOST_DESCRIBED:
            self._names = {}
        self._names[sql] = found
        return found

    def columns(
        self,
        sql: str,
        public_tables: tuple[str, ...],
        tables: Mapping[str, Sequence[tuple[str, SqlType]]],
    ) -> tuple[tuple[str, str], ...]:
        """Return the column names and types of a text above the releases, as `describe` does."""
        nameless = Residual(sql, sql, sql, public_tables, named=True)
        names, types = self.describe(nameless, tables)
        return tuple(zip(names, types, strict=True))

    def run(
        self,
        residual: Residual,
        tables: Mapping[str, Sequence[ReleasedColumn]],
        names: tuple[str, ...],
    ) -> Answer:
        """Return the answer over released tables. Raises EngineError where DuckDB fails."""
        return shown_rows(residual, tables, names) or self._run(residual, tables, names)

    @abstractmethod
    def _describe(
        self, residual: Residual, tables: Mapping[str, Sequence[tuple[str, SqlType]]]
    ) -> Columns:
        """Return what `describe` does, of what has to be bound."""

    @abstractmethod
    def _run(
        self,
        residual: Residual,
        tables: Mapping[str, Sequence[ReleasedColumn]],
        names: tuple[str, ...],
    ) -> Answer:
        """Return what `run` does, of what has to be run."""

    @abstractmethod
    def texts(
        self,
        sql: str,
        public_tables: tuple[str, ...],
        tables: Mapping[str, Sequence[ReleasedColumn]],
        width: int,
    ) -> list[tuple[str | None, ...]]:
        """Return the rows of a text above the releases, each of `width` values as text."""

    @abstractmethod
    def spread(
        self,
        items: Sequence[str],
        table: str,
        columns: Sequence[ReleasedColumn],
        level: float,
    ) -> dict[int, list[tuple[float, float] | None]]:
        """Return, by group number, the central interval of each item over redrawn released rows.

        columns: a released table in which every group stands many times, once a redraw.
        """

    @property
    @abstractmethod
    def confined(self) -> tuple[str, ...]:
        """What the process took from itself before it saw a text; empty for this one."""

    @abstractmethod
    def interrupt(self) -> None:
        """Stop the statement that runs now, from another thread; without one do nothing."""

    @abstractmethod
    def close(self) -> None:
        """Close the database. Closing twice does nothing."""
