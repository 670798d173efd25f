"""What a database says about its tables: names, types and keys, without reading a row of them.

Claim:   what is returned is the same whatever the rows are.
Why:     of a DuckDB file the catalog is read, of a Parquet file the names and types of its footer,
         of a CSV file the first line.
Assumes: the first line of a CSV file names its columns, and names of tables and columns are public.
         The values of an ENUM may have been read off the data: they are not returned.
Source:  [Dwork2006b]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from dp_sql.dataclass import dataclass
from dp_sql.errors import EngineError
from dp_sql.executor.csv_file import column_names
from dp_sql.executor.sources import read_as_written
from dp_sql.plan.sql_text import parquet_rows, text_literal

DATA_FILES = (".parquet", ".csv")


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column. type: as DuckDB writes it, None where no catalog says one."""

    name: str
    type: str | None
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns that refer to those of another table, pair by pair."""

    columns: tuple[str, ...]
    table: str
    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table. file: where it lies, None for a table of a database. unique: without the primary key."""

    name: str
    columns: tuple[FoundColumn, ...]
    file: Path | None = None
    primary: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    foreign: tuple[ForeignKey, ...] = ()


def inventory(place: Path) -> tuple[FoundTable, ...]:
    """Return the tables of a DuckDB file, of a Parquet or CSV file, or of a folder of such, by name.

    Raises EngineError where there is no such place, no table in it, or it can't be read, SchemaError
    where a path is a pattern.
    """
    if place.is_dir():
        files = [f for f in sorted(place.iterdir()) if f.suffix.lower() in DATA_FILES]
        found = tuple(_of_file(file) for file in files)
    elif not place.is_file():
        raise EngineError(
            f"there is no file or folder {str(place)!r}.", hint="shop.duckdb, or a folder of files"
        )
    elif place.suffix.lower() in DATA_FILES:
        found = (_of_file(place),)
    else:
        found = _of_database(place)
    if not found:
        raise EngineError(
            f"{str(place)!r} holds no table.", hint="a DuckDB file, or Parquet and CSV files"
        )
    return found


def _of_file(file: Path) -> FoundTable:
    read_as_written(file.resolve())
    if file.suffix.lower() == ".csv":
        columns = tuple(FoundColumn(name, None) for name in column_names(file))
        return FoundTable(file.stem, columns, file)
    with duckdb.connect(":memory:") as connection:
        try:
            rows = connection.execute(
                f"DESCRIBE SELECT * FROM {parquet_rows(str(file.resolve()))}"
            ).fetchall()
        except duckdb.Error:
            raise EngineError(f"{file.name!r} can't be read as a Parquet file.") from None
    columns = tuple(FoundColumn(str(row[0]), str(row[1])) for row in rows)
    return FoundTable(file.stem, columns, file)


def _of_database(file: Path) -> tuple[FoundTable, ...]:
    read_as_written(file.resolve())
    with duckdb.connect(":memory:") as connection:
        try:
            connection.execute(f"ATTACH {text_literal(str(file.resolve()))} AS source_ (READ_ONLY)")
        except duckdb.Error:
            raise EngineError(
                f"{file.name!r} can't be opened: it is in use elsewhere, or is no DuckDB database.",
                hint="close it there, or open a copy",
            ) from None
        names = _fetch(connection, "table_name", "duckdb_tables()")
        columns = _fetch(
            connection, "table_name, column_name, data_type, is_nullable", "duckdb_columns()"
        )
        keys = _fetch(
            connection,
            "table_name, constraint_type, constraint_column_names, referenced_table, "
            "referenced_column_names",
            "duckdb_constraints()",
        )
    return tuple(
        FoundTable(
            name,
            tuple(FoundColumn(c, _plain(kind), free) for t, c, kind, free in columns if t == name),
            None,
            next((tuple(c) for t, kind, c, _, _ in keys if (t, kind) == (name, "PRIMARY KEY")), ()),
            tuple(tuple(c) for t, kind, c, _, _ in keys if (t, kind) == (name, "UNIQUE")),
            tuple(
                ForeignKey(tuple(c), parent, tuple(parents))
                for t, kind, c, parent, parents in keys
                if (t, kind) == (name, "FOREIGN KEY")
            ),
        )
        for (name,) in sorted(names)
    )


def _fetch(connection: Any, columns: str, function: str) -> list[Any]:
    """Return what a function of the catalog says of the tables that statements can name."""
    rows: list[Any] = connection.execute(
        f"SELECT {columns} FROM {function} WHERE database_name = 'source_' AND schema_name = 'main'"
    ).fetchall()
    return rows


def _plain(kind: str) -> str:
    return "ENUM" if kind.startswith("ENUM") else kind
