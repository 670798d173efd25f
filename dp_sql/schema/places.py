"""Where the data are: the forms that `database` and `source` may have."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from dp_sql.errors import SchemaError
from dp_sql.schema.catalog import TableSpec
from dp_sql.schema.document import Document, Problem, Where, shorten

IN_MEMORY = "duckdb://"
_FILE = "duckdb:///"
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):")  # one letter is a Windows drive
_LATER = frozenset({"postgresql", "postgres", "spark"})
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FORMS = '"duckdb://" (in memory), "duckdb:///shop.duckdb" or a folder of Parquet and CSV files'


def check_database(declared: str | None, document: Document, given: str | None) -> str:
    """Return where the data are: `given` if there is one, else what the file declares.

    Raises SchemaError where there is neither, or its form is unknown or not supported yet.
    """
    if given is not None:
        try:
            return _database(given)
        except Problem as problem:
            raise SchemaError(f"database=: {problem.message}", hint=problem.hint) from None
    if declared is None:
        raise document.error((), "the schema needs the key `database`.", hint=f"database: {_FORMS}")
    with document.at(("database",)):
        return _database(declared)


def _database(text: str) -> str:
    """Return `text` if it is a form of `database`; raise Problem otherwise."""
    if not isinstance(text, str) or not text.strip() or _CONTROL.search(text):
        raise Problem("this is not the place of a database.", hint=_FORMS)
    if ":memory:" in text:
        raise Problem("a database in memory has another name.", hint=f'"{IN_MEMORY}"')
    if text == IN_MEMORY or (text.startswith(_FILE) and text != _FILE):
        return text
    if found := _SCHEME.match(text):
        scheme = found["scheme"].lower()
        if scheme in _LATER:
            raise Problem(f"{scheme} databases are not supported yet.", hint=_FORMS)
        what = "has no file" if scheme == "duckdb" else "is no database that dp_sql knows"
        raise Problem(f"{shorten(text)} {what}.", hint=_FORMS)
    return text


def check_source(document: Document, where: Where, source: str | None, database: str) -> None:
    """Raise SchemaError unless `source` names one file at or below the data folder, or is absent.

    where: the table's place. A table without a source must be in a database that holds tables.

    Claim:   the text leads to no file outside of the data folder.
    Why:     it is relative, has no step upwards, no scheme, no home folder and no pattern.
    Assumes: the executor follows links and checks the real path again.
    Source:  [CWE22]
    """
    if source is None:
        if database == IN_MEMORY:
            raise document.error(
                where,
                f"{where[-1]} has no `source`, and a database in memory holds no tables.",
                hint=f"source: {where[-1]}.parquet, or name a database file",
            )
        return
    with document.at((*where, "source")):
        _check_source(source)


def _check_source(source: str) -> None:
    """Raise Problem unless `source` names one Parquet or CSV file below a folder."""
    steps = re.split(r"[/\\]", source)
    if _CONTROL.search(source) or not source.strip():
        raise Problem("this is not the name of a file.", hint="source: orders.parquet")
    if _SCHEME.match(source):
        raise Problem(
            f"{shorten(source)} is an address; a source is a file below the data folder.",
            hint="copy the file into the data folder",
        )
    if source[0] in "/\\~" or re.match(r"[A-Za-z]:", source):
        raise Problem(
            f"{shorten(source)} is no path below the data folder.",
            hint="write it without the leading folder, and name that as the data folder",
        )
    if ".." in steps:
        raise Problem(
            f"{shorten(source)} climbs out of its folder with `..`.",
            hint="put the file below the data folder",
        )
    if re.search(r"[*?\[\]]", source):
        raise Problem(
            f"{shorten(source)} is a pattern; a source is exactly one file.",
            hint="join the files into one, or make them a table of a DuckDB file",
        )
    if not re.search(r"[^/\\]\.(parquet|csv)$", source, re.IGNORECASE):
        raise Problem(
            f"{shorten(source)} is neither a .parquet nor a .csv file.",
            hint="write the data as Parquet: source: orders.parquet",
        )


def check_distinct_data(document: Document, tables: Mapping[str, TableSpec]) -> None:
    """Raise SchemaError where two tables, one of them protected, are the same data.

    Claim:   no row is read through two declared tables of one file, as far as their texts tell.
    Why:     each table has its own budget; what two of them spend on the same rows adds up, and a
             public twin has none.
    Assumes: links and copies of files are the owner's to avoid.
    Source:  [Dwork2006b]
    """
    sources: dict[str, TableSpec] = {}
    ids: dict[str, TableSpec] = {}
    for table in tables.values():
        if table.source is not None:
            path = posixpath.normpath(table.source.replace("\\", "/"))
            twin = sources.setdefault(path, table)
            if twin is not table and not (twin.public and table.public):
                raise document.error(
                    ("tables", table.name, "source"),
                    f"{table.name} reads the same file as {twin.name}, so the same rows would have "
                    "two budgets.",
                    hint="declare the file once",
                )
        if table.identity is not None and ids.setdefault(table.identity, table) is not table:
            raise document.error(
                ("tables", table.name, "id"),
                f"{table.name} has the same id as {ids[table.identity].name}, so the ledger could "
                "not tell them apart.",
                hint="give each table an id of its own",
            )
