"""Where the declared tables are: files below the data folder, or tables of a DuckDB database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dp_sql.dataclass import dataclass
from dp_sql.errors import EngineError, SchemaError
from dp_sql.plan.sql_text import identifier, text_literal
from dp_sql.schema.catalog import Catalog, TableSpec
from dp_sql.schema.sqltype import Kind

_MEMORY = "duckdb://"
_PATTERN = frozenset("*?[\\")
_APART = ("a", "A", "a ", "\u00e1", "a\u0301", "\uff41", "a\u0001", "a\u00ad", "ss", "\u00df")
"""Texts that some collation takes for another of them: case, accent, composed, wide, ignored, sharp s."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The places of a schema's data: a database file or None, and the file of each table that has one."""

    database: Path | None
    files: dict[str, Path]  # by lower-cased table name; absolute, links resolved

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every file that is read: those of the tables, and the database with its log, where it has one."""
        if self.database is None:
            return tuple(self.files.values())
        log = self.database.with_name(f"{self.database.name}.wal")
        return (*self.files.values(), self.database, *([log] if log.exists() else []))

    def state(self) -> tuple[tuple[int, ...] | None, ...]:
        """Return which files the tables have now, and when each was written last."""
        return tuple(_number(path) for path in (*self.files.values(), self.database) if path)

    def public_parquet(self, catalog: Catalog) -> dict[str, str]:
        """Return the Parquet files of public tables, by table."""
        return {
            name: str(file)
            for name, file in self.files.items()
            if file.suffix.lower() == ".parquet" and catalog.tables[name].public
        }

    def identity(self, table: str, spec: TableSpec) -> str:
        """Return what the ledger knows a table by."""
        if spec.identity is not None:
            return f"id:{spec.identity}"
        where = self.files.get(table, self.database)
        return f"{where}#{table}" if table not in self.files else f"{where}"


def _number(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def locate(catalog: Catalog, data_dir: Path | None, database: str | None) -> Sources:
    """Return where the data of a catalog are.

    data_dir: the folder of `source` files; by default the folder that `database` names, or that of
    the schema file. database: overrides the schema's.

    Raises SchemaError for a table without a place, a source outside the folder or a place that
    isn't supported or whose path is a pattern; EngineError for a file that doesn't exist.
    """
    url = database if database is not None else catalog.database
    if "://" in url and not url.startswith(_MEMORY):
        raise SchemaError(
            f"the database {url.split('://')[0]}:// isn't supported.",
            hint="duckdb:///file.duckdb, duckdb:// or a folder",
        )
    file = database_file(catalog, url)
    folder = data_folder(catalog, url, data_dir)
    if file is not None and not file.is_file():
        raise EngineError(
            f"the database file {file.name!r} doesn't exist.", hint=f"look at {file.parent}"
        )
    if file is not None:
        read_as_written(file)
    files: dict[str, Path] = {}
    for name, spec in catalog.tables.items():
        if spec.source is None:
            if file is None:
                raise SchemaError(
                    f"the table {spec.name!r} has no place: the database is in memory.",
                    hint=f"add `source: {spec.name}.parquet`, or name a database file",
                )
            continue
        path = _real(folder / spec.source)
        if not path.is_relative_to(folder):
            raise SchemaError(
                f"the source of {spec.name!r} lies outside the data folder.",
                hint="a file below the data folder",
            )
        if path.suffix.lower() not in (".parquet", ".csv"):
            raise SchemaError(
                f"the source of {spec.name!r} is neither .parquet nor .csv.", hint="x.parquet"
            )
        if not path.is_file():
            raise EngineError(
                f"the file {spec.source!r} of table {spec.name!r} doesn't exist.",
                hint=f"look at {folder}, or name another folder: data_dir=…, --data-dir …",
            )
        read_as_written(path)
        files[name] = path
    _check_distinct(catalog, files)
    return Sources(file, files)


def data_folder(catalog: Catalog, url: str, data_dir: Path | None) -> Path:
    """Return the folder of `source` files. url: of the database; the others: as `locate` has them."""
    if data_dir is not None:
        return _real(data_dir)
    if url.startswith(_MEMORY) or database_file(catalog, url) is not None:
        return _real(catalog.path.parent)
    return _resolve(catalog, url)


def read_as_written(path: Path) -> None:
    """Raise SchemaError where DuckDB would read other files than `path`. path: with links resolved.

    Claim:   exactly the declared file is read.
    Why:     DuckDB takes a path with *, ? or [ for a pattern, whichever folder's name it stands in,
             and a backslash for a step into a folder; [*], which it takes for one star, it refuses
             where `allowed_paths` and `enable_external_access` close the other files off.
    Assumes: no other character of an absolute path has a meaning to it.
    Source:  [DuckDB2025]
    """
    found = next((character for character in path.as_posix() if character in _PATTERN), None)
    if found is not None:
        raise SchemaError(
            f"the path of {path.name!r} holds {found!r}, so DuckDB would read it as a pattern of files.",
            hint=f"rename the file or its folder, without {found}: {path}",
        )


def _check_distinct(catalog: Catalog, files: dict[str, Path]) -> None:
    """Raise SchemaError where a protected table's file is another table's too, under a link.

    Claim:   no file is read through two declared tables unless both are public.
    Why:     a file is its device and inode, whatever symbolic or hard link leads to it.
    Assumes: copies of a file are the owner's to avoid.
    Source:  [Dwork2006b]
    """
    seen: dict[tuple[int, int], TableSpec] = {}
    for name, path in files.items():
        status, table = path.stat(), catalog.tables[name]
        twin = seen.setdefault((status.st_dev, status.st_ino), table)
        if twin is not table and not (twin.public and table.public):
            raise SchemaError(
                f"the sources of {twin.name!r} and {table.name!r} are links to one file, so the same "
                "rows would have two budgets.",
                hint=f"remove {table.name!r} from the schema",
            )


def require_bitwise(connection: Any, view: str, spec: TableSpec) -> None:
    """Raise SchemaError for a column of texts that are equal though their bits differ.

    view: what the engine reads of a table of a database.

    Claim:   two owners, and two keys, are one where their bits are the same, and nowhere else.
    Why:     a column's collation decides which texts are one group; it goes with the column through
             a view and a union, so texts of ours that are grouped as the column's show it. No row of
             the table is read.
    Assumes: a collation that tells apart no other texts tells apart these, or none of these.
    Source:  [DuckDB2025]
    """
    texts = [name for name, c in spec.columns.items() if c.type.kind is Kind.VARCHAR]
    values = ", ".join(f"({text_literal(text)})" for text in _APART)
    probes = ", ".join(
        f"(SELECT count(*) FROM (SELECT v FROM (SELECT {identifier(name)} AS v FROM {view} "
        f"WHERE false UNION ALL VALUES {values}) GROUP BY v))"
        for name in texts
    )
    counts = connection.execute(f"SELECT {probes}").fetchone() if texts else ()
    for name, count in zip(texts, counts, strict=True):
        if count < len(_APART):
            raise SchemaError(
                f"the column {name!r} of {spec.name!r} has a collation that takes different texts for "
                "one, so two persons or groups could be taken for one.",
                hint=f'a view of the table with {name} COLLATE "POSIX", declared in its place',
            )


def require_one_row(connection: Any, spec: TableSpec) -> None:
    """Raise SchemaError unless the database sees to it that each owner has one row of a table.

    Claim:   two rows of the table never have one owner.
    Why:     a PRIMARY KEY or UNIQUE constraint over the owner's column alone is on the table itself,
             and the column is read as it is stored: no cast makes one owner of two.
    Assumes: DuckDB enforces its constraints, and the owner's column is bitwise (`require_bitwise`).
    Source:  [DuckDB2025]
    """
    owner = spec.columns[str(spec.owner)]
    here = "database_name = 'source_' AND schema_name = 'main' AND lower(table_name) = ?"
    keys = connection.execute(
        f"SELECT constraint_column_names FROM duckdb_constraints() WHERE {here} "
        "AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')",
        [spec.name.lower()],
    ).fetchall()
    types = connection.execute(
        f"SELECT data_type FROM duckdb_columns() WHERE {here} AND lower(column_name) = ?",
        [spec.name.lower(), owner.name.lower()],
    ).fetchall()
    alone = any([name.lower() for name in names] == [owner.name.lower()] for (names,) in keys)
    if not alone or [str(kind).replace(" ", "") for (kind,) in types] != [str(owner.type)]:
        raise SchemaError(
            f"{spec.name!r} has blocks of another column than the owner's, so each owner must have one "
            f"row, and nothing in the data sees to that.",
            hint=f"a table of a DuckDB database with PRIMARY KEY ({owner.name}), its type {owner.type}",
        )


def database_file(catalog: Catalog, url: str) -> Path | None:
    """Return the file that a database is, absolute, or None where it is in memory or a folder.

    url: `duckdb:///file`, with a fourth slash for an absolute path, or the path of a file; both are
    below the schema's folder unless absolute. The file of a URL need not exist.
    """
    if url.startswith(_MEMORY):
        rest = url.removeprefix(_MEMORY).removeprefix("/")
        return _resolve(catalog, rest) if rest else None
    place = _resolve(catalog, url)
    return place if place.is_file() else None


def _resolve(catalog: Catalog, text: str) -> Path:
    try:
        path = Path(text).expanduser()
    except RuntimeError:  # nobody of that name has a home
        raise EngineError(f"{text!r} is no folder.", hint="write the whole path") from None
    return _real(path if path.is_absolute() else catalog.path.parent / path)


def _real(path: Path) -> Path:
    """Return where links lead; a ring of them leads to itself, which is no file."""
    return Path(os.path.realpath(path))
