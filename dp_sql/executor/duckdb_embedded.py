"""DuckDB: opened read-only, closed to everything but the declared tables, then locked."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from dp_sql.errors import EngineError, SchemaError
from dp_sql.executor import staging
from dp_sql.executor.csv_file import read_header
from dp_sql.executor.database import DATA, FAILED, STAGE, STOPPED, Pairs, Row
from dp_sql.executor.sources import Sources, require_bitwise, require_one_row
from dp_sql.plan.sql_text import identifier, parquet_rows, text_literal
from dp_sql.schema.catalog import Catalog, TableSpec

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


class DuckDBEmbedded:
    """One hardened connection over the tables of a catalog."""

    def __init__(
        self,
        catalog: Catalog,
        sources: Sources,
        *,
        spill: str | None = None,
        memory: int | None = None,
    ) -> None:
        """Open the data of `catalog`, which lie at `sources`.

        spill: an empty folder of the caller's for what doesn't fit into memory, None for one of its
        own. memory: bytes that DuckDB may hold before it spills, None for most of the machine's.
        Raises EngineError where a file is in use or no database, SchemaError where a declared table
        or column isn't there.
        """
        self._catalog = catalog
        self._sources = sources
        self._closed = False
        self._spill = tempfile.mkdtemp(prefix="dpsql-") if spill is None else None  # mode 0700
        try:
            self._connection = self._open(spill or str(self._spill), memory)
        except BaseException:
            self._remove()
            raise

    @property
    def confined(self) -> tuple[str, ...]:
        """Nothing: this is the process that connects, or the worker, which knows itself."""
        return ()

    def _open(self, spill: str, memory: int | None) -> Any:
        config: dict[str, Any] = {"temp_directory": spill}
        if memory is not None:
            config["memory_limit"] = f"{memory}B"
        connection = duckdb.connect(":memory:", config=config)
        try:
            for setting in PINNED:
                connection.execute(setting)
            for schema in (DATA, STAGE):
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
        target = f"{DATA}.{identifier(name)}"
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
        own = f"source_.main.{identifier(spec.name)}"
        source = own if file is None else parquet_rows(str(file))
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

    def rows(self, sql: str) -> list[Row]:
        """Return the rows of a query."""
        return self._read(sql, lambda cursor: list(cursor.fetchall()))

    def pairs(self, sql: str, keys: int) -> Pairs:
        """Return the pairs of a query, 16 bytes each; with keys, fetched some rows at a time."""
        return self._read(sql, lambda cursor: _pairs(cursor, keys))

    def arrays(self, sql: str) -> Mapping[str, NDArray[Any]]:
        """Return the columns of a query."""
        return self._read(sql, lambda cursor: cursor.fetchnumpy())

    def stage(
        self,
        target: str,
        types: Sequence[str],
        rows: Sequence[tuple[str | None, ...]],
        unique: Sequence[int],
    ) -> None:
        """Make or replace a table from rows of texts."""
        with self._failures():
            staging.load(self._connection, target, types, rows, unique)

    def _read(self, sql: str, fetch: Callable[[Any], _Fetched]) -> _Fetched:
        """Return what is fetched of a query."""
        with self._failures():
            return fetch(self._connection.execute(sql))

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Make every failure one and the same error."""
        if self._closed:
            raise EngineError("the connection is closed.")
        try:
            yield
        except duckdb.InterruptException:
            raise EngineError(STOPPED) from None
        except (duckdb.Error, MemoryError, OverflowError, ValueError):
            raise EngineError(FAILED) from None

    def interrupt(self) -> None:
        """Stop the statement that runs now."""
        if not self._closed:
            self._connection.interrupt()

    def close(self) -> None:
        """Close the connection and remove the folder that is its own."""
        if not self._closed:
            self._closed = True
            self._connection.close()
            self._remove()

    def _remove(self) -> None:
        if self._spill is not None:
            shutil.rmtree(self._spill, ignore_errors=True)


def _pairs(cursor: Any, keys: int) -> Pairs:
    if not keys:
        columns = cursor.fetchnumpy()
        units, values = (np.asarray(columns[name], np.uint64) for name in ("unit_", "value_"))
        some = bool(units.size)
        return Pairs([()] * some, [units.size] * some, units, values)
    found: list[Row] = []
    ends: list[int] = []
    blocks = [np.empty((0, 2), dtype=np.uint64)]
    done = 0
    while rows := cursor.fetchmany(_BATCH):
        for number, row in enumerate(rows):
            key = row[:keys]
            if not found or key != found[-1]:
                ends.append(done + number)
                found.append(key)
        done += len(rows)
        blocks.append(np.array([row[keys:] for row in rows], dtype=np.uint64))
    both = np.concatenate(blocks)
    return Pairs(found, [*ends[1:], done] if found else [], both[:, 0], both[:, 1])
