"""Planned releases as DuckDB's SQL: what to run, and what its rows mean."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import numpy as np

from dp_sql.errors import EngineError
from dp_sql.executor import lower_public, lower_relation
from dp_sql.executor.database import DATA, STAGE, Database, Row
from dp_sql.executor.engine import Sums
from dp_sql.executor.lower_distinct import distinct_sql
from dp_sql.executor.lower_expression import identifier
from dp_sql.executor.lower_histogram import histogram_sql
from dp_sql.executor.lower_joined import joined_sql
from dp_sql.executor.lower_sampled import sampled_sql
from dp_sql.executor.sources import Sources
from dp_sql.executor.worker import WorkerDatabase
from dp_sql.plan.facts import ExactTable, PairTable
from dp_sql.plan.public import Image
from dp_sql.plan.release import PlannedRelease, StageTable
from dp_sql.privacy.sealed import Sealed
from dp_sql.schema.catalog import Catalog, WorkerSpec
from dp_sql.schema.sqltype import Kind, SqlType


class DuckDBEngine:
    """The tables of a catalog in DuckDB. Safe to share between threads."""

    def __init__(
        self,
        catalog: Catalog,
        sources: Sources,
        worker: WorkerSpec | None = None,
    ) -> None:
        """Open the data of `catalog`, which lie at `sources`.

        worker: the limits of a process of its own for DuckDB, None to run it in this one.
        Raises EngineError where a file is in use or no database, SchemaError where a declared table
        or column isn't there.
        """
        self._catalog = catalog
        self._sources = sources
        self._lock = threading.RLock()
        self._images: dict[Image, tuple[tuple[object, ...], ...] | None] = {}
        self._frequencies: dict[tuple[str, tuple[str, ...]], int] = {}
        self._contents: dict[str, str] = {}
        self._version: str | None = None
        self._database: Database = (
            _here(catalog, sources) if worker is None else WorkerDatabase(catalog, sources, worker)
        )

    def statements(self, plan: PlannedRelease) -> tuple[str, ...]:
        """Return the SQL that answers a release."""
        joined = joined_sql(plan)
        sums = [] if joined is None else [joined]
        if joined is None and plan.in_table:
            sums.append(lower_relation.release_sql(plan))
        if joined is None and plan.selection_relation is not None:
            sums.append(lower_relation.selection_sql(plan))
        sums += [sampled_sql(sampled) for sampled in plan.sampled]
        sums += [histogram_sql(histogram) for histogram in plan.histograms]
        sums += [distinct_sql(distinct) for distinct in plan.distincts]
        if plan.second_relation is not None:
            sums.append(lower_relation.second_sql(plan))
        return tuple(sums)

    def execute(
        self,
        plan: PlannedRelease,
        statements: tuple[str, ...],
        stages: Sequence[StageTable] = (),
    ) -> Sums:
        """Return the sums of a release's statements, sealed."""
        if not statements:
            return Sums(Sealed(ExactTable([], [])), None)
        with self._lock:
            for stage in stages:
                self._stage(stage)
            end = len(statements) - (plan.second_relation is not None)
            count = end - len(plan.distincts)
            results = iter([self._database.rows(sql) for sql in statements[:count]])
            distincts = [
                self._distinct(sql, [key.type for key in plan.keys], pairs=bool(distinct.caps))
                for sql, distinct in zip(statements[count:end], plan.distincts, strict=True)
            ]
        kinds = [key.type for key in plan.keys]
        table, selection = _tables(plan, results)
        sampled = tuple(Sealed(_exact(next(results), kinds, 1)) for _ in plan.sampled)
        histograms = tuple(Sealed(_exact(rows, kinds, 2)) for rows in results)
        return Sums(table, selection, histograms, tuple(distincts), sampled)

    def execute_second(
        self, plan: PlannedRelease, statements: tuple[str, ...], stages: Sequence[StageTable]
    ) -> Sealed[ExactTable]:
        """Return the table of a selection's second round, sealed."""
        with self._lock:
            for stage in stages:
                self._stage(stage)
            rows = self._database.rows(statements[-1])
        return Sealed(_exact(rows, _private(plan), 1))

    def _distinct(
        self, sql: str, keys: list[SqlType], *, pairs: bool
    ) -> Sealed[PairTable | ExactTable]:
        """Return the pairs of unit and value by group, or at event level the values' numbers."""
        if not pairs:
            return Sealed(_exact(self._database.rows(sql), keys, 1))
        found = self._database.pairs(sql, len(keys))
        groups = [_key(key, keys) for key in found.keys]
        return Sealed(PairTable(groups, found.ends, found.units, found.values))

    def _stage(self, table: StageTable) -> None:
        stage = table.stage
        target = f"{STAGE}.{identifier(stage.name)}"
        types = [str(column.type) for column in stage.columns]
        self._database.stage(target, types, table.rows, stage.unique)

    def image(
        self, image: Image, limit: int, stages: Sequence[StageTable] = ()
    ) -> tuple[tuple[object, ...], ...] | None:
        """Return the tuples of a public image, or None where there are more than `limit`.

        stages: those that it reads; they are this statement's, so nothing is kept of such an image.
        """
        if image in self._images:
            return self._images[image]
        with self._lock:
            for stage in stages:
                self._stage(stage)
            rows = self._database.rows(lower_public.image_sql(image, limit))
        kinds = [e.type for e in image.expressions]
        found = None if len(rows) > limit else tuple(_key(row, kinds) for row in rows)
        if not stages:
            self._images[image] = found
        return found

    def frequency(self, table: str, columns: tuple[str, ...]) -> int | None:
        """Return how many rows of a public table may agree in `columns`, as `PublicFacts` says."""
        spec = self._catalog.tables[table]
        if not spec.public:
            return None
        key = (table, columns)
        if key not in self._frequencies:
            with self._lock:
                [(most,)] = self._database.rows(lower_public.frequency_sql(table, columns))
            self._frequencies[key] = int(str(most))
        most = self._frequencies[key]
        declared = spec.columns[columns[0]].max_frequency if len(columns) == 1 else None
        if most <= 1:
            return 1
        return declared if declared is not None and most <= declared else None

    def faults(self, table: str) -> list[tuple[str, int]]:
        """Return what the rows of a table break of its declaration, and how many of them.

        The counts are exact, so they are for the owner alone: nothing that answers statements asks.
        """
        from dp_sql.executor.data_check import questions  # noqa: PLC0415  for `dpsql check` alone

        asked = list(questions(self._catalog, table))
        with self._lock:
            counts = [int(str(self._database.rows(question.sql)[0][0])) for question in asked]
        return [(q.words, n) for q, n in zip(asked, counts, strict=True) if n]

    def identity(self, table: str) -> str:
        """Return what the ledger knows a table by."""
        return self._sources.identity(table, self._catalog.tables[table])

    def place(self, table: str) -> str:
        """Return what the ledger knows a table by that has no `id`: where its data lie."""
        return self._sources.identity(table, replace(self._catalog.tables[table], identity=None))

    def has(self, table: str) -> bool:
        """Return whether the database has a table or view of a name, whatever its case."""
        with self._lock:
            return bool(self._database.rows(lower_public.named_sql(table)))

    @property
    def version(self) -> str:
        """Name and version of the database, by its own word, wherever it runs."""
        if self._version is None:
            with self._lock:
                [(told,)] = self._database.rows("SELECT version()")
            self._version = f"duckdb {told}"
        return self._version

    def content(self, table: str) -> str:
        """Return a text of a public table's rows, read once: files stay as they are while it is open."""
        spec = self._catalog.tables[table]
        if not spec.public:
            raise EngineError("only public tables can be read as they are.")
        if table not in self._contents:
            with self._lock:
                [numbers] = self._database.rows(
                    lower_public.content_sql(table, tuple(spec.columns))
                )
            self._contents[table] = " ".join(map(str, numbers))
        return self._contents[table]

    def public_columns(self, table: str) -> Mapping[str, np.ndarray[Any, Any]]:
        """Return a public table's declared columns."""
        if not self._catalog.tables[table].public:
            raise EngineError("only public tables can be read as they are.")
        with self._lock:
            return self._database.arrays(f"SELECT * FROM {DATA}.{identifier(table)}")

    @property
    def confined(self) -> tuple[str, ...]:
        """What the worker took from itself, in words."""
        return self._database.confined

    def interrupt(self) -> None:
        """Stop the statement that runs now."""
        self._database.interrupt()

    def close(self) -> None:
        """Close the database. Closing twice does nothing."""
        with self._lock:
            self._database.close()


def _tables(
    plan: PlannedRelease, results: Iterator[list[Row]]
) -> tuple[Sealed[ExactTable], Sealed[ExactTable] | None]:
    """Return the exact table and that of a selection apart, of one statement or of one each."""
    kinds = [key.type for key in plan.keys]
    columns = sum(len(v.columns) for v in plan.in_table)
    if joined_sql(plan) is not None:
        both = _exact(next(results), kinds, columns + 1)
        first, last = both.columns[:columns], both.columns[columns:]
        return Sealed(ExactTable(both.keys, first)), Sealed(ExactTable(both.keys, last))
    table = Sealed(_exact(next(results) if plan.in_table else [], kinds, columns))
    if plan.selection_relation is None:
        return table, None
    return table, Sealed(_exact(next(results), _private(plan), 1))


def _here(catalog: Catalog, sources: Sources) -> Database:
    from dp_sql.executor.duckdb_embedded import DuckDBEmbedded  # noqa: PLC0415  a worker loads it

    return DuckDBEmbedded(catalog, sources)


def _private(plan: PlannedRelease) -> list[SqlType]:
    """Return the types of a release's private keys."""
    return [plan.keys[i].type for i in plan.private]


def _exact(rows: list[tuple[object, ...]], keys: list[SqlType], width: int) -> ExactTable:
    """Return fetched rows as keys and columns of Python integers: HUGEINT never meets a float.

    A table without groups has its columns all the same: how many there are must not depend on data.
    """
    if not rows:
        return ExactTable([], [[] for _ in range(width)])
    values = zip(*(row[len(keys) :] for row in rows), strict=True)
    columns: list[list[int]] = [list(column) for column in values]
    return ExactTable([_key(row[: len(keys)], keys) for row in rows], columns)


def _key(values: tuple[object, ...], kinds: list[SqlType]) -> tuple[object, ...]:
    """Return a fetched key: texts of dates and timestamps as those, where Python has them."""
    if not any(kind.kind in (Kind.DATE, Kind.TIMESTAMP) for kind in kinds):
        return values
    return tuple(_moment(v, kind) for v, kind in zip(values, kinds, strict=True))


def _moment(value: object, kind: SqlType) -> object:
    if not isinstance(value, str) or kind.kind not in (Kind.DATE, Kind.TIMESTAMP):
        return value
    try:
        if kind.kind is Kind.DATE:
            return date.fromisoformat(value)
        return datetime.fromisoformat(value)
    except ValueError:  # infinite, or a year beyond Python's
        return value
