"""`dpsql check`: the schema file, the data it names and the ledger, without asking anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dp_sql.cli.describe import budget_text, owner_text
from dp_sql.cli.failures import message_of
from dp_sql.connection import ledger_place
from dp_sql.errors import DPSQLError
from dp_sql.executor.duckdb_engine import DuckDBEngine
from dp_sql.schema.catalog import Catalog, TableSpec
from dp_sql.schema.loader import load


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found, line by line, and how many of them are errors."""

    lines: tuple[str, ...]
    errors: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found. An advice says what can't be asked; an error, what keeps the schema shut."""

    text: str
    error: bool = False


def check_schema(
    schema: Path,
    *,
    database: str | None = None,
    data_dir: Path | None = None,
    ledger: str | os.PathLike[str] | None = None,
) -> Report:
    """Return what holds of a schema file, its data and its ledger. Writes nothing, reads no rows.

    Raises SchemaError where the file itself is wrong: then nothing else can be said.
    """
    catalog = load(schema, database=database)
    lines = [f"{schema}: {len(catalog.tables)} tables"]
    errors = 0
    for name, spec in catalog.tables.items():
        lines.append(f"{spec.name}: {_summary(spec, catalog)}")
        found = [_data(catalog, name, spec, database, data_dir), *_missing(spec)]
        errors += sum(finding.error for finding in found)
        lines += [f"  {line}" for finding in found for line in finding.text.splitlines()]
    return Report(tuple(lines), errors)


def _summary(spec: TableSpec, catalog: Catalog) -> str:
    if spec.public:
        return f"public, {len(spec.columns)} columns"
    owner = owner_text(spec, catalog)
    return f"protected, {len(spec.columns)} columns, owner: {owner}, budget: {budget_text(spec.budget)}"


def _data(
    catalog: Catalog, name: str, spec: TableSpec, database: str | None, data_dir: Path | None
) -> Finding:
    """Return whether the data of one table are there, with its columns."""
    alone = replace(catalog, tables={name: spec})
    try:
        DuckDBEngine(alone, data_dir=data_dir, database=database).close()
    except DPSQLError as error:
        return Finding(message_of(error), error=True)
    return Finding("data: there, with every column")


def _missing(spec: TableSpec) -> Iterator[Finding]:
    """Yield what the owner may want to declare."""
    if spec.public:
        return
    unbounded = [
        column.name
        for column in spec.columns.values()
        if column.type.is_numeric
        and column.low is None
        and column.values is None
        and not column.unique
        and not (isinstance(spec.owner, str) and spec.owner.lower() == column.name.lower())
    ]
    if unbounded:
        yield Finding(
            f"no bounds: {', '.join(unbounded)} can be counted and filtered, not summed or averaged"
        )
