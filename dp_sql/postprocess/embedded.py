"""A kept DuckDB that holds released and public values only, and runs the analyst's SQL over them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import duckdb
import numpy as np

from dp_sql.complaint import Complaint, position_in, read_complaint
from dp_sql.errors import EngineError, QueryError
from dp_sql.executor.clock import within
from dp_sql.executor.database import STOPPED
from dp_sql.mechanisms.planar import PlanarLaplace
from dp_sql.mechanisms.sampler import Sampler
from dp_sql.plan.release import GROUP_NUMBER, Residual, ShownOrder
from dp_sql.plan.sql_text import identifier, parquet_rows, text_literal
from dp_sql.postprocess.processor import ABOVE, PostProcessor, exceeded
from dp_sql.postprocess.released import Answer, Columns, ReleasedColumn, shown_columns
from dp_sql.schema.catalog import Catalog
from dp_sql.schema.sqltype import SqlType

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SETTINGS = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET python_enable_replacements = false",
    "SET error_on_division_by_zero = false",
    "SET errors_as_json = true",
)
_CLOSED = (
    "SET temp_directory = ''",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_FEW = 500  # rows of a released table that go as parameters; more are scanned as arrays
_MOST_STAGED = 1_000_000  # rows of a stage, which are Python values
_MOST_READ = 100  # texts whose trees are kept
_DESCRIBE = "DESCRIBE "
_PLANAR = "planar_laplace"
_INTERVALS = tuple(  # they only give the columns of the analyst's text their types and names
    f"CREATE MACRO {name}(x) AS CAST(NULL AS DOUBLE), (x, level) AS CAST(NULL AS DOUBLE)"
    for name in ("dp_interval_low", "dp_interval_high")
)
_CLAMP = "CREATE MACRO clamp(x, lo, hi) AS CASE WHEN x < lo THEN lo WHEN x > hi THEN hi ELSE x END"


_Shape: TypeAlias = tuple[tuple[str, SqlType], ...]  # names and types of a table's columns


_MEMORY = 4 * 10**9  # bytes


class DuckDBPostProcessor(PostProcessor):
    """One kept connection for everything above the release boundary."""

    def __init__(
        self,
        catalog: Catalog,
        files: Mapping[str, str],
        public_columns: Callable[[str], Mapping[str, NDArray[Any]]],
        sampler: Sampler,
        *,
        memory: int = _MEMORY,
        seconds: float | None = None,
    ) -> None:
        """Open a database of its own.

        files: of the public tables that are Parquet files, by table. public_columns: gives the columns
        of the others. sampler: draws the noise of points (PLANAR_LAPLACE). memory: bytes that DuckDB
        may hold. seconds: that a statement may take, None where somebody else stops it.
        """
        super().__init__()
        self._catalog = catalog
        self._public_columns = public_columns
        self._loaded: set[str] = set()
        self._lock = threading.RLock()
        self._shapes: dict[str, _Shape] = {}  # the released tables that there are
        self._parsed: dict[str, Sequence[Any]] = {}
        self._connection = _new_database(memory)
        self._sampler = sampler
        self._seconds = seconds
        self._moves_points = False
        run = self._connection.execute
        for name, spec in catalog.tables.items():
            columns = ", ".join(f"{identifier(c.name)} {c.type}" for c in spec.columns.values())
            run(
                f"CREATE TABLE main.{identifier(spec.name)} ({columns})"
            )  # empty: it gives names and types
            if name in files:
                items = ", ".join(
                    f"TRY_CAST({identifier(k)} AS {c.type}) AS {identifier(c.name)}"
                    for k, c in spec.columns.items()
                )
                run(
                    f'CREATE VIEW "public".{identifier(name)} AS SELECT {items} '
                    f"FROM {parquet_rows(files[name])}"
                )
                self._loaded.add(name)
        run(f"SET allowed_paths = [{', '.join(text_literal(f) for f in files.values())}]")
        for setting in _CLOSED:
            run(setting)

    def _describe(
        self, residual: Residual, tables: Mapping[str, Sequence[tuple[str, SqlType]]]
    ) -> Columns:
        """Return names and types of an answer, of which the analyst's own text may give the names."""
        with self._lock:
            if residual.shown:
                names, types = shown_columns(residual, tables)
            else:
                names, types = self._columns(residual, {n: tuple(c) for n, c in tables.items()})
            if not residual.named:
                with contextlib.suppress(duckdb.Error):  # GoogleSQL's forms aren't DuckDB's
                    if self._is_one_query(residual.plain):
                        original, _ = self._bind(residual.plain)
                        if len(original) == len(names):
                            own = residual.own_names
                            names = tuple(n if i in own else o for i, (n, o) in enumerate(
                                zip(names, original, strict=True)
                            ))  # fmt: skip
            return names, types

    def _define_planar(self, sql: str) -> None:
        """Define PLANAR_LAPLACE for a text that has it; it takes longer than anything else here."""
        if self._moves_points or _PLANAR not in sql.lower():
            return
        self._connection.create_function(
            _PLANAR,
            PlanarLaplace(self._sampler).__call__,
            ["DOUBLE"] * 3,
            duckdb.struct_type({"lat": "DOUBLE", "lon": "DOUBLE"}),
            null_handling="special",
            side_effects=True,
        )
        self._moves_points = True

    def _columns(self, residual: Residual, tables: Mapping[str, _Shape]) -> Columns:
        """Return names and types as the residual has them."""
        self._load(residual.public_tables)
        self._define_planar(residual.sql)
        self._drop(self._shapes.keys() - tables.keys())
        for name, columns in tables.items():
            if self._shapes.get(name) != columns:
                listed = ", ".join(f"{identifier(c)} {t}" for c, t in columns)
                self._connection.execute(
                    f"CREATE OR REPLACE TABLE released.{identifier(name)} ({listed})"
                )
                self._shapes[name] = columns
        try:
            if not self._is_one_query(residual.sql):
                raise QueryError("the part above the aggregates is no single query.")
            found = self._bind(residual.sql)
        except duckdb.Error as error:
            raise self._cant_bind(residual, read_complaint(error)) from None
        return (found[0][:-1], found[1][:-1]) if residual.row_items else found

    def _bind(self, sql: str) -> Columns:
        """Return names and types of a query, which is bound and not run. Raises duckdb.Error."""
        try:
            relation = self._connection.sql(*self._read(sql))
        except duckdb.Error:  # its errors tell no place; those of DESCRIBE do
            found = self._connection.execute(_DESCRIBE + sql).fetchall()
            return tuple(str(row[0]) for row in found), tuple(str(row[1]) for row in found)
        return tuple(map(str, relation.columns)), tuple(map(str, relation.types))

    def _read(self, sql: str) -> Sequence[Any]:
        """Return the statements that DuckDB reads in a text. Raises duckdb.Error."""
        if sql not in self._parsed:
            if len(self._parsed) >= _MOST_READ:
                self._parsed.clear()
            self._parsed[sql] = self._connection.extract_statements(sql)
        return self._parsed[sql]

    def texts(
        self,
        sql: str,
        public_tables: tuple[str, ...],
        tables: Mapping[str, Sequence[ReleasedColumn]],
        width: int,
    ) -> list[tuple[str | None, ...]]:
        """Return the rows of a text above the releases, each of `width` values as text."""
        names = ", ".join(f"c{i}" for i in range(width))
        items = ", ".join(f"CAST(c{i} AS VARCHAR)" for i in range(width))
        with self._failures(), self._released(tables):
            self._load(public_tables)
            self._define_planar(sql)
            found: list[tuple[str | None, ...]] = self._connection.execute(
                f"SELECT {items} FROM ({sql}) AS stage_({names}) LIMIT {_MOST_STAGED + 1}"
            ).fetchall()
        if len(found) > _MOST_STAGED:
            raise EngineError(f"a subquery gave more than {_MOST_STAGED:,} rows.", hint="a LIMIT")
        return found

    def _cant_bind(self, residual: Residual, found: Complaint) -> QueryError:
        """Return the error for a residual that DuckDB can't bind.

        The text that failed is ours. Where the analyst's own text fails for the same reason over the
        empty tables, its message and place are told.
        """
        told, position = found, None
        try:
            if self._is_one_query(residual.plain):
                self._connection.execute(_DESCRIBE + residual.plain).fetchall()
        except duckdb.Error as error:
            own = read_complaint(error)
            if own.same(found):
                told, position = own, position_in(residual.plain, own, len(_DESCRIBE))
        return QueryError(
            f"{ABOVE} can't be run: {told.message}",
            hint=told.hint or "what DuckDB has, with CAST where the types differ",
            text=residual.original,
            position=position,
        )

    def _is_one_query(self, sql: str) -> bool:
        """Return whether DuckDB, too, reads a text as one query.

        The parser read it already; where both readers differ, what comes after a semicolon would run.
        Raises duckdb.Error for text that DuckDB can't read.
        """
        found = self._read(sql)
        return len(found) == 1 and found[0].type == duckdb.StatementType.SELECT

    def _run(
        self,
        residual: Residual,
        tables: Mapping[str, Sequence[ReleasedColumn]],
        names: tuple[str, ...],
    ) -> Answer:
        """Return types, rows and groups of an answer under the names that it has."""
        with self._failures():
            types, rows = self._answer(residual, tables)
        if not residual.row_items:
            return Answer(names, types, rows, ())
        groups = tuple(int(row[-1]) for row in rows)
        return Answer(names, types[:-1], [row[:-1] for row in rows], groups)

    def _answer(
        self, residual: Residual, tables: Mapping[str, Sequence[ReleasedColumn]]
    ) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Return types and rows of a residual. Few rows of one table are sent with their order."""
        if residual.shown:
            ((name, columns),) = tables.items()
            if len(columns[0].values) <= _FEW:
                shown = [column for column, _ in residual.shown]
                items = ", ".join(identifier(column) for column in (*shown, GROUP_NUMBER))
                select, parameters = _sent(columns)
                text = f"SELECT {items} FROM ({select}) AS {identifier(name)}"
                order = ", ".join(_place(place) for place in residual.order)
                with self._lock:
                    return self._fetched(f"{text} ORDER BY {order}" if order else text, parameters)
        with self._released(tables):
            self._load(residual.public_tables)
            self._define_planar(residual.sql)
            return self._fetched(residual.sql)

    def _fetched(
        self, sql: str, parameters: Sequence[object] = ()
    ) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Return types and rows of a query."""
        (statement,) = self._read(sql)
        cursor = self._connection.execute(statement, parameters)
        return tuple(str(d[1]) for d in cursor.description), cursor.fetchall()

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
        low, high = (1 - level) / 2, (1 + level) / 2
        parts = ", ".join(
            f"quantile_cont(TRY_CAST({item} AS DOUBLE), [{low}, {high}])" for item in items
        )
        name = identifier(table)
        with self._failures(), self._released({table: columns}):
            rows = self._connection.execute(
                f"SELECT {GROUP_NUMBER}, {parts} FROM released.{name} AS {name} GROUP BY ALL"
            ).fetchall()
        return {
            int(row[0]): [None if ends is None else (ends[0], ends[1]) for ends in row[1:]]
            for row in rows
        }

    @contextlib.contextmanager
    def _released(self, tables: Mapping[str, Sequence[ReleasedColumn]]) -> Iterator[None]:
        """Fill released tables for the body. Small ones stay until other statements' replace them."""
        with self._lock:
            self._drop(self._shapes.keys() - tables.keys())
            for name, columns in tables.items():
                self._create(name, columns)
            try:
                yield
            finally:
                self._drop({name for name, c in tables.items() if len(c[0].values) > _FEW})

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self._connection.execute(f"DROP TABLE IF EXISTS released.{identifier(name)}")
            self._shapes.pop(name, None)

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Tell what failed in the body, which has as long as a statement over the data."""
        clock = (
            contextlib.nullcontext()
            if self._seconds is None
            else within(self._seconds, self.interrupt)
        )
        with self._lock, clock:
            try:
                yield
            except duckdb.InterruptException:
                raise EngineError(STOPPED) from None
            except duckdb.OutOfMemoryException:
                raise exceeded() from None
            except duckdb.Error as error:  # the values are released, so the text may be shown
                text = read_complaint(error).message
                raise EngineError(
                    f"{ABOVE} failed: {text}",
                    hint="TRY_CAST, or a condition that keeps such values out",
                ) from None

    def _create(self, name: str, columns: Sequence[ReleasedColumn]) -> None:
        target = f"CREATE OR REPLACE TABLE released.{identifier(name)}"
        if len(columns[0].values) <= _FEW:
            select, parameters = _sent(columns)
            (made,) = self._read(f"{target} AS {select}")
            self._connection.execute(made, parameters)
        else:
            items = ", ".join(
                f"CAST(s{i} AS {c.type}) AS {identifier(c.name)}" for i, c in enumerate(columns)
            )
            self._connection.register(
                "staged_", {f"s{i}": _array(c) for i, c in enumerate(columns)}
            )
            try:
                self._connection.execute(f"{target} AS SELECT {items} FROM staged_")
            finally:
                self._connection.unregister("staged_")
        self._shapes[name] = tuple((c.name, c.type) for c in columns)

    def _load(self, tables: Sequence[str]) -> None:
        """Copy public tables that aren't files of their own, each once."""
        for name in tables:
            if name in self._loaded:
                continue
            spec = self._catalog.tables[name]
            staged = {f"s{i}": v for i, v in enumerate(self._public_columns(name).values())}
            items = ", ".join(
                f"TRY_CAST(s{i} AS {c.type}) AS {identifier(c.name)}"
                for i, c in enumerate(spec.columns.values())
            )
            self._connection.register("staged_", staged)
            try:
                self._connection.execute(
                    f'CREATE TABLE "public".{identifier(name)} AS SELECT {items} FROM staged_'
                )
            finally:
                self._connection.unregister("staged_")
            self._loaded.add(name)

    @property
    def confined(self) -> tuple[str, ...]:
        """Nothing: this is the process that connects, or the worker, which knows itself."""
        return ()

    def interrupt(self) -> None:
        """Stop the statement that runs now."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()


def _new_database(memory: int) -> Any:
    connection = duckdb.connect(":memory:")
    for statement in (
        *_SETTINGS,
        f"SET memory_limit = '{memory}B'",
        "CREATE SCHEMA released",
        'CREATE SCHEMA "public"',
        _CLAMP,
        *_INTERVALS,
    ):
        connection.execute(statement)
    return connection


def _sent(columns: Sequence[ReleasedColumn]) -> tuple[str, list[list[Any]]]:
    """Return a query of a released table's rows, and its parameters."""
    values = [_array(c) for c in columns]
    items = ", ".join(
        f"CAST(unnest(CAST(? AS {_list_type(v)})) AS {c.type}) AS {identifier(c.name)}"
        for c, v in zip(columns, values, strict=True)
    )
    return f"SELECT {items}", [v.tolist() for v in values]


def _place(place: ShownOrder) -> str:
    """Return a place of an ORDER BY."""
    end = "DESC" if place.descending else "ASC"
    return f"{identifier(place.column)} {end} NULLS {'FIRST' if place.nulls_first else 'LAST'}"


def _array(column: ReleasedColumn) -> NDArray[Any]:
    values = column.values
    return values if isinstance(values, np.ndarray) else _texts(values)


def _texts(values: Sequence[object]) -> NDArray[Any]:
    """Return key values as texts that DuckDB casts back to the key's type; None stays NULL."""
    result = np.empty(len(values) or 0, dtype=object)
    for index, value in enumerate(values):
        result[index] = (
            None if value is None else (repr(value) if isinstance(value, float) else str(value))
        )
    return result


def _list_type(values: NDArray[Any]) -> str:
    match values.dtype.kind:
        case "i":
            return "BIGINT[]"
        case "f":
            return "DOUBLE[]"
        case _:
            return "VARCHAR[]"
