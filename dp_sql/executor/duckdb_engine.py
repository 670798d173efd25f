"""DuckDB, embedded: opened read-only, closed to everything but the declared tables, then locked."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np

from dp_sql.errors import EngineError, SchemaError
from dp_sql.executor import lower_public, lower_relation, lower_rows, staging
from dp_sql.executor.csv_file import read_header
from dp_sql.executor.engine import Sums
from dp_sql.executor.lower_distinct import distinct_sql
from dp_sql.executor.lower_expression import identifier, text_literal
from dp_sql.executor.lower_histogram import histogram_sql
from dp_sql.executor.lower_sampled import sampled_sql
from dp_sql.executor.sources import Sources, locate, require_bitwise, require_one_row
from dp_sql.plan.facts import ExactTable, PairTable
from dp_sql.plan.public import Image
from dp_sql.plan.release import PlannedRelease, StageTable
from dp_sql.privacy.sealed import Sealed
from dp_sql.schema.catalog import Catalog, TableSpec
from dp_sql.schema.sqltype import Kind, SqlType

# Claim:   which expressions raise, and what they give, was measured under these settings.
# Why:     a setting that turns a NULL into an error would make one row visible. So does the optimizer
#          `type_pushdown`: it has the CSV reader do a TRY_CAST's work, and the reader raises; and
#          `outer_join_simplification`: it makes an anti join of LEFT JOIN … IS NULL, and where a
#          join above reads the padded side, fails, but not over tables without rows.
# Assumes: the configuration is locked right after.
PINNED = (
    "SET error_on_division_by_zero = false",
    "SET ieee_floating_point_ops = true",
    "SET integer_division = false",
    "SET preserve_insertion_order = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET python_enable_replacements = false",
    "SET disabled_optimizers = 'type_pushdown,outer_join_simplification'",
)
_CLOSED = ("SET enable_external_access = false", "SET lock_configuration = true")
_Fetched = TypeVar("_Fetched")
_BATCH = 2**16  # pairs that are Python values at a time
_FAILED = "the statement failed in the database; what it read stays charged."


class DuckDBEngine:
    """One hardened connection over the tables of a catalog. Safe to share between threads."""

    def __init__(
        self, catalog: Catalog, *, data_dir: Path | None = None, database: str | None = None
    ) -> None:
        """Open the data of `catalog`.

        Raises EngineError where a file is missing, in use or no database, SchemaError where a
        declared table or column isn't there.
        """
        self._catalog = catalog
        self._sources: Sources = locate(catalog, data_dir, database)
        self._lock = threading.RLock()
        self._images: dict[Image, tuple[tuple[object, ...], ...] | None] = {}
        self._frequencies: dict[tuple[str, tuple[str, ...]], int] = {}
        self._contents: dict[str, str] = {}
        self._spill = tempfile.mkdtemp(prefix="dpsql-")  # mode 0700: what spills is protected
        self._closed = False
        try:
            self._connection = self._open()
        except BaseException:
            shutil.rmtree(self._spill, ignore_errors=True)
            raise

    def _open(self) -> Any:
        connection = duckdb.connect(":memory:", config={"temp_directory": self._spill})
        try:
            for setting in PINNED:
                connection.execute(setting)
            for schema in (lower_rows.DATA, lower_rows.STAGE):
                connection.execute(f"CREATE SCHEMA {schema}")
            if self._sources.database is not None:
                self._attach(connection, self._sources.database)
            for name, spec in self._catalog.tables.items():
                self._declare(connection, name, spec)
            files = [str(p) for p in self._sources.files.values() if p.suffix.lower() == ".parquet"]
            listed = ", ".join(text_literal(f) for f in files)
            connection.execute(f"SET allowed_paths = [{listed}]")
            for setting in _CLOSED:
                connection.execute(setting)
        except BaseException:
            connection.close()
            raise
        return connection

    def _attach(self, connection: Any, file: Path) -> None:
        try:
            connection.execute(f"ATTACH {text_literal(str(file))} AS source_ (READ_ONLY)")
        except duckdb.Error:
            raise EngineError(
                f"the database {file.name!r} can't be opened: it is in use elsewhere, in this process "
                "or in another that writes it, or it is no DuckDB database.",
                hint="close it there, or open a copy",
            ) from None

    def _declare(self, connection: Any, name: str, spec: TableSpec) -> None:
        """Create the view (for CSV: the table) that a scan of a declared table reads."""
        file = self._sources.files.get(name)
        csv = None
        if file is not None and file.suffix.lower() == ".csv":
            csv = read_header(file, spec)
            source = csv.source
            there = {key: (f"c{place}", "VARCHAR") for key, place in csv.places.items()}
        else:
            source, there = self._columns(connection, file, spec)
        items = []
        for key, column in spec.columns.items():
            if key not in there:
                raise SchemaError(
                    f"the table {spec.name!r} has no column {column.name!r}.",
                    hint=f"one of {', '.join(n for n, _ in there.values())}",
                )
            text, physical = identifier(there[key][0]), there[key][1]
            same = physical.replace(" ", "") == str(column.type).replace(" ", "")
            items.append(
                f"{text if same else f'TRY_CAST({text} AS {column.type})'} AS {identifier(key)}"
            )
        kind = "VIEW" if csv is None else "TABLE"
        target = f"{lower_rows.DATA}.{identifier(name)}"
        try:
            connection.execute(f"CREATE {kind} {target} AS SELECT {', '.join(items)} FROM {source}")
        except duckdb.Error:
            if csv is not None:
                raise csv.malformed() from None
            raise EngineError(f"{spec.name!r} can't be read as it is declared.") from None
        if file is None:
            require_bitwise(connection, target, spec)
        blocks = None if spec.budget is None else spec.budget.block_column
        if blocks is not None and spec.owner not in (None, blocks):
            require_one_row(connection, spec)

    def _columns(
        self, connection: Any, file: Path | None, spec: TableSpec
    ) -> tuple[str, dict[str, tuple[str, str]]]:
        """Return what stands in FROM for a table, and name and type of its columns by lower case."""
        if file is None:
            source = f"source_.main.{identifier(spec.name)}"
        else:
            source = f"read_parquet({text_literal(str(file))})"
        try:
            found = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        except duckdb.CatalogException:
            raise SchemaError(
                f"the database has no table {spec.name!r}.", hint="declare the tables that it has"
            ) from None
        except duckdb.Error:
            what = spec.name if file is None else file.name
            raise EngineError(f"{what!r} can't be read as a table.") from None
        return source, {str(row[0]).lower(): (str(row[0]), str(row[1])) for row in found}

    def _run(self, sql: str) -> list[tuple[object, ...]]:
        """Return the rows of a lowered statement."""
        return self._read(sql, lambda cursor: list(cursor.fetchall()))

    def _read(self, sql: str, fetch: Callable[[Any], _Fetched]) -> _Fetched:
        """Return what is fetched of a lowered statement; every failure is one and the same error."""
        with self._lock:
            if self._closed:
                raise EngineError("the connection is closed.")
            try:
                return fetch(self._connection.execute(sql))
            except duckdb.InterruptException:
                raise EngineError("the statement was stopped; it stays charged.") from None
            except (duckdb.Error, MemoryError, OverflowError, ValueError):
                raise EngineError(_FAILED) from None

    def statements(self, plan: PlannedRelease) -> tuple[str, ...]:
        """Return the SQL that answers a release."""
        sums: list[str] = []
        if plan.in_table:
            sums.append(lower_relation.release_sql(plan))
        if plan.selection_relation is not None:
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
            results = iter([self._run(sql) for sql in statements[:count]])
            distincts = [
                self._distinct(sql, [key.type for key in plan.keys], pairs=bool(distinct.caps))
                for sql, distinct in zip(statements[count:end], plan.distincts, strict=True)
            ]
        kinds = [key.type for key in plan.keys]
        columns = sum(len(v.columns) for v in plan.in_table)
        table = Sealed(_exact(next(results) if plan.in_table else [], kinds, columns))
        apart = plan.selection_relation is not None
        selection = Sealed(_exact(next(results), _private(plan), 1)) if apart else None
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
            rows = self._run(statements[-1])
        return Sealed(_exact(rows, _private(plan), 1))

    def _distinct(
        self, sql: str, keys: list[SqlType], *, pairs: bool
    ) -> Sealed[PairTable | ExactTable]:
        """Return the pairs of unit and value by group, or at event level the values' numbers."""
        if not pairs:
            return Sealed(_exact(self._run(sql), keys, 1))
        return Sealed(self._read(sql, lambda cursor: _pairs(cursor, keys)))

    def _stage(self, table: StageTable) -> None:
        if self._closed:
            raise EngineError("the connection is closed.")
        target = f"{lower_rows.STAGE}.{identifier(table.stage.name)}"
        try:
            staging.load(
                self._connection, target, table.stage.columns, table.rows, table.stage.unique
            )
        except duckdb.Error:
            raise EngineError(_FAILED) from None

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
            rows = self._run(lower_public.image_sql(image, limit))
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
            [(most,)] = self._run(lower_public.frequency_sql(table, columns))
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
        counts = [int(str(self._run(question.sql)[0][0])) for question in asked]
        return [(q.words, n) for q, n in zip(asked, counts, strict=True) if n]

    def identity(self, table: str) -> str:
        """Return what the ledger knows a table by."""
        return self._sources.identity(table, self._catalog.tables[table])

    @property
    def version(self) -> str:
        """Name and version of the database."""
        return f"duckdb {duckdb.__version__}"

    def content(self, table: str) -> str:
        """Return a text of a public table's rows, read once: files stay as they are while it is open."""
        spec = self._catalog.tables[table]
        if not spec.public:
            raise EngineError("only public tables can be read as they are.")
        if table not in self._contents:
            [numbers] = self._run(lower_public.content_sql(table, tuple(spec.columns)))
            self._contents[table] = " ".join(map(str, numbers))
        return self._contents[table]

    def public_file(self, table: str) -> str | None:
        """Return the Parquet file of a public table, or None."""
        file = self._sources.files.get(table)
        parquet = file is not None and file.suffix.lower() == ".parquet"
        return str(file) if parquet and self._catalog.tables[table].public else None

    def public_columns(self, table: str) -> Mapping[str, np.ndarray[Any, Any]]:
        """Return a public table's declared columns."""
        if not self._catalog.tables[table].public:
            raise EngineError("only public tables can be read as they are.")
        with self._lock:
            try:
                cursor = self._connection.execute(
                    f"SELECT * FROM {lower_rows.DATA}.{identifier(table)}"
                )
                found: Mapping[str, np.ndarray[Any, Any]] = cursor.fetchnumpy()
            except duckdb.Error:
                raise EngineError("a public table can't be read.") from None
            return found

    def interrupt(self) -> None:
        """Stop the statement that runs now."""
        if not self._closed:
            self._connection.interrupt()

    def close(self) -> None:
        """Close the database and remove what it spilled. Closing twice does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._connection.close()
                shutil.rmtree(self._spill, ignore_errors=True)


def _private(plan: PlannedRelease) -> list[SqlType]:
    """Return the types of a release's private keys."""
    return [plan.keys[i].type for i in plan.private]


def _pairs(cursor: Any, keys: list[SqlType]) -> PairTable:
    """Return the fetched pairs of unit and value, 16 bytes each; with keys, some rows at a time."""
    if not keys:
        columns = cursor.fetchnumpy()
        units, values = (np.asarray(columns[name], np.uint64) for name in ("unit_", "value_"))
        some = bool(units.size)
        return PairTable([()] * some, [units.size] * some, units, values)
    found: list[tuple[object, ...]] = []
    ends: list[int] = []
    blocks = [np.empty((0, 2), dtype=np.uint64)]
    done = 0
    while rows := cursor.fetchmany(_BATCH):
        for number, row in enumerate(rows):
            key = _key(row[: len(keys)], keys)
            if not found or key != found[-1]:
                ends.append(done + number)
                found.append(key)
        done += len(rows)
        blocks.append(np.array([row[len(keys) :] for row in rows], dtype=np.uint64))
    both = np.concatenate(blocks)
    return PairTable(found, [*ends[1:], done] if found else [], both[:, 0], both[:, 1])


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
