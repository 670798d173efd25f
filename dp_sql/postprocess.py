"""The analyst's SQL above the releases, run by a DuckDB that holds released and public values only."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import duckdb
import numpy as np

from dp_sql.complaint import Complaint, position_in, read_complaint
from dp_sql.dataclass import dataclass
from dp_sql.errors import EngineError, QueryError
from dp_sql.executor.database import STOPPED, within
from dp_sql.mechanisms.planar import PlanarLaplace
from dp_sql.mechanisms.sampler import Sampler
from dp_sql.plan.release import GROUP_NUMBER, Residual
from dp_sql.plan.sql_text import identifier, text_literal
from dp_sql.schema.catalog import Catalog
from dp_sql.schema.sqltype import BIGINT, DOUBLE, Kind, SqlType

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SETTINGS = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET python_enable_replacements = false",
    "SET error_on_division_by_zero = false",
    "SET errors_as_json = true",
    "SET memory_limit = '4GB'",
)
_CLOSED = (
    "SET temp_directory = ''",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_NUMBERS = ((BIGINT, np.dtype(np.int64)), (DOUBLE, np.dtype(np.float64)))  # DuckDB gives them back
_FEW = 500  # rows of a released table that go as parameters; more are scanned as arrays
_MOST_BOUND = 1000  # residuals whose columns are kept
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
_Columns: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]  # names, types


@dataclass(frozen=True, slots=True)
class ReleasedColumn:
    """One column of a released table: a key (`values` are Python values) or noisy numbers."""

    name: str
    type: SqlType
    values: Sequence[object] | NDArray[Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a residual. types: DuckDB's names. groups: by row, or empty where rows aren't groups."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    groups: tuple[int, ...]


def new_database() -> Any:
    """Return a connection to a database that is still empty and open, for a `PostProcessor`."""
    connection = duckdb.connect(":memory:")
    for statement in (
        *_SETTINGS,
        "CREATE SCHEMA released",
        'CREATE SCHEMA "public"',
        _CLAMP,
        *_INTERVALS,
    ):
        connection.execute(statement)
    return connection


class PostProcessor:
    """One kept connection for everything above the release boundary. Safe to share between threads."""

    def __init__(
        self,
        catalog: Catalog,
        public_file: Callable[[str], str | None],
        public_columns: Callable[[str], Mapping[str, NDArray[Any]]],
        database: Any,
        sampler: Sampler,
    ) -> None:
        """Make a new database this one's. The callables give a public table's file, or its columns.

        database: from `new_database`. sampler: draws the noise of points (PLANAR_LAPLACE).
        """
        self._catalog = catalog
        self._public_columns = public_columns
        self._loaded: set[str] = set()
        self._lock = threading.RLock()
        self._shapes: dict[str, _Shape] = {}  # the released tables that there are
        self._bound: dict[tuple[str, tuple[tuple[str, _Shape], ...]], _Columns] = {}
        self._parsed: dict[str, Sequence[Any]] = {}
        self._connection = database
        self._sampler = sampler
        self._moves_points = False
        run = database.execute
        files = {
            name: file
            for name, spec in catalog.tables.items()
            if spec.public and (file := public_file(name)) is not None
        }
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
                    f"FROM read_parquet({text_literal(files[name])})"
                )
                self._loaded.add(name)
        run(f"SET allowed_paths = [{', '.join(text_literal(f) for f in files.values())}]")
        for setting in _CLOSED:
            run(setting)

    def describe(
        self, residual: Residual, tables: Mapping[str, Sequence[tuple[str, SqlType]]]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the answer's column names and types, from binding over empty tables.

        Raises QueryError where DuckDB can't bind the statement. Nothing is read, nothing depends on
        protected values.
        """
        with self._lock:
            if not self._moves_points and _PLANAR in residual.sql.lower():
                self._define_planar()
            if residual.shown:
                (columns,) = tables.values()
                kinds = {name: str(kind) for name, kind in columns}
                names = tuple(name for _, name in residual.shown)
                types = tuple(kinds[column] for column, _ in residual.shown)
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

    def _define_planar(self) -> None:
        """Define PLANAR_LAPLACE, for which DuckDB's driver takes a tenth of a second to get ready."""
        self._connection.create_function(
            _PLANAR,
            PlanarLaplace(self._sampler).__call__,
            ["DOUBLE"] * 3,
            duckdb.struct_type({"lat": "DOUBLE", "lon": "DOUBLE"}),
            null_handling="special",
            side_effects=True,
        )
        self._moves_points = True

    def _columns(self, residual: Residual, tables: Mapping[str, _Shape]) -> _Columns:
        """Return names and types as the residual has them: anew where it reads public tables."""
        known = (residual.sql, tuple(tables.items()))
        if known in self._bound and not residual.public_tables:
            return self._bound[known]
        self._load(residual.public_tables)
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
        if residual.row_items:
            found = found[0][:-1], found[1][:-1]
        if len(self._bound) >= _MOST_BOUND:
            self._bound.clear()
        self._bound[known] = found
        return found

    def _bind(self, sql: str) -> _Columns:
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
            f"what reads public data and results alone can't be run: {told.message}",
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

    def run(
        self,
        residual: Residual,
        tables: Mapping[str, Sequence[ReleasedColumn]],
        names: tuple[str, ...],
    ) -> Answer:
        """Return the answer over released tables. Raises EngineError where DuckDB fails."""
        numbers = _numbers(residual, tables)
        if numbers is not None:
            return Answer(names, *numbers)
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
                text = f"SELECT {items} FROM ({select}) AS {identifier(name)}{residual.order}"
                with self._lock:
                    return self._fetched(text, parameters)
        with self._released(tables):
            self._load(residual.public_tables)
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
        with self._lock, within(self._catalog.worker.seconds, self._connection.interrupt):
            try:
                yield
            except duckdb.InterruptException:
                raise EngineError(STOPPED) from None
            except duckdb.Error as error:  # the values are released, so the text may be shown
                text = read_complaint(error).message
                raise EngineError(
                    f"what reads public data and results alone failed: {text}",
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

    def interrupt(self) -> None:
        """Stop the statement that runs now."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()


def _numbers(
    residual: Residual, tables: Mapping[str, Sequence[ReleasedColumn]]
) -> tuple[tuple[str, ...], list[tuple[Any, ...]], tuple[int, ...]] | None:
    """Return types, rows and groups where the answer is released numbers as they are, else None."""
    if not residual.shown or residual.order:
        return None
    (columns,) = tables.values()
    numbers = {
        c.name: (str(c.type), c.values.tolist())
        for c in columns
        if isinstance(c.values, np.ndarray) and (c.type, c.values.dtype) in _NUMBERS
    }
    if any(column not in numbers for column, _ in residual.shown):
        return None
    types, values = zip(*(numbers[column] for column, _ in residual.shown), strict=True)
    return types, list(zip(*values, strict=True)), tuple(numbers[GROUP_NUMBER][1])


def _sent(columns: Sequence[ReleasedColumn]) -> tuple[str, list[list[Any]]]:
    """Return a query of a released table's rows, and its parameters."""
    values = [_array(c) for c in columns]
    items = ", ".join(
        f"CAST(unnest(CAST(? AS {_list_type(v)})) AS {c.type}) AS {identifier(c.name)}"
        for c, v in zip(columns, values, strict=True)
    )
    return f"SELECT {items}", [v.tolist() for v in values]


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


def number_column(count: int) -> ReleasedColumn:
    """Return the column that numbers the groups of a released table."""
    return ReleasedColumn(GROUP_NUMBER, BIGINT, np.arange(count, dtype=np.int64))


def array_type(kind: SqlType) -> type[np.int64 | np.float64]:
    """Return the numpy type of an aggregate's column."""
    return np.int64 if kind.kind is Kind.BIGINT else np.float64
