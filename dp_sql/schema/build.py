"""The rules of a schema file: what its keys mean together, and the catalog they make."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from dp_sql.privacy.unit import Level
from dp_sql.schema import models
from dp_sql.schema.blocks import block_text, check_blocks
from dp_sql.schema.budgets import budget_spec, limits_spec, people_spec, privacy_defaults
from dp_sql.schema.catalog import (
    BudgetSpec,
    Catalog,
    ChoiceKind,
    ColumnSpec,
    KeyRule,
    LedgerPlace,
    Mechanisms,
    TableSpec,
    WorkerSpec,
    ascii_lower,
)
from dp_sql.schema.columns import column_spec
from dp_sql.schema.document import Document, Where, dotted, shorten
from dp_sql.schema.ownership import check_ownership, find_column, owner_of
from dp_sql.schema.places import check_database, check_distinct_data, check_source
from dp_sql.schema.protection import privacy_unit
from dp_sql.schema.support import refuse_unsupported

_NAME = re.compile(r"[\x20-\x7e]{1,255}")
_ROW_NUMBERS = frozenset({"rowid", "file_row_number"})  # DuckDB makes them up where there are none


def build(
    model: models.SchemaFile, document: Document, path: Path, database: str | None
) -> Catalog:
    """Return the catalog of a file whose shape is right; raise SchemaError where a rule is broken.

    path: absolute path of the file. database: what `load` was given in place of the file's key.
    """
    refuse_unsupported(model, document)
    where_data_are = check_database(model.database, document, database)
    level = Level(model.privacy.level)
    _check_names(document, ("tables",), model.tables, what="table")
    tables = {
        ascii_lower(name): _table(document, level, where_data_are, name, table)
        for name, table in model.tables.items()
    }
    check_distinct_data(document, tables)
    check_ownership(document, tables)
    unit = privacy_unit(document, model, tables)
    check_blocks(document, model, tables, unit)
    return Catalog(
        path=path,
        database=where_data_are,
        unit=unit,
        defaults=privacy_defaults(document, model.privacy),
        people=people_spec(document, model.privacy),
        tables=MappingProxyType(tables),
        ledger=None if model.ledger is None else LedgerPlace(model.ledger),
        sampler=model.sampler,
        consistent=model.privacy.consistent,
        mechanisms=Mechanisms(
            tuple(model.mechanisms.noise),
            tuple(map(ChoiceKind, model.mechanisms.quantiles)),
            tuple(map(ChoiceKind, model.mechanisms.mode)),
            tuple(map(KeyRule, model.mechanisms.keys)),
        ),
        worker=replace(WorkerSpec(), **model.worker.model_dump(exclude_unset=True)),
        bucketed=model.answer_time == "bucketed",
    )


def _table(
    document: Document, level: Level, database: str, name: str, table: models.Table
) -> TableSpec:
    """Return one table, checked but for what it says about other tables."""
    where = ("tables", name)
    _check_names(document, (*where, "columns"), table.columns, what="column")
    _check_publicity(document, where, table)
    check_source(document, where, table.source, database)
    columns = {
        ascii_lower(column_name): column_spec(
            document, (*where, "columns", column_name), column_name, column, public=table.public
        )
        for column_name, column in table.columns.items()
    }
    protected = not table.public
    return TableSpec(
        name=name,
        columns=MappingProxyType(columns),
        public=table.public,
        source=table.source,
        identity=table.id,
        owner=owner_of(document, where, level, table, columns) if protected else None,
        unique=_unique(document, where, table.unique, columns),
        budget=_budget(document, (*where, "budget"), table.budget, columns),
        limits=limits_spec(document, (*where, "limits"), table.limits, level)
        if protected
        else None,
        data_version=table.data_version,
        round_counts=table.round_counts,
    )


def _budget(
    document: Document, where: Where, budget: models.Budget | None, columns: dict[str, ColumnSpec]
) -> BudgetSpec | None:
    if budget is None:
        return None
    return budget_spec(document, where, budget, block_text(document, where, budget.blocks, columns))


def _check_publicity(document: Document, where: Where, table: models.Table) -> None:
    """Raise SchemaError for a protected table without a budget, a public one with protection."""
    if not table.public:
        if table.budget is None:
            raise document.error(
                where,
                f"{dotted(where)} is protected, so it needs a `budget`.",
                hint="budget: {epsilon: 5, delta: 1e-6}; or public: true if it is nobody's data",
            )
        return
    for key in ("owner", "budget", "limits"):
        if key in table.model_fields_set:
            raise document.error(
                (*where, key),
                f"{dotted(where)} is public, so `{key}` means nothing.",
                hint=f"remove `{key}`, or remove public: true to protect the table",
                key=True,
            )


def _unique(
    document: Document, where: Where, unique: list[list[str]], columns: dict[str, ColumnSpec]
) -> tuple[tuple[str, ...], ...]:
    """Return the lists of columns that are unique together, lower-cased."""
    lists = list[tuple[str, ...]]()
    for index, names in enumerate(unique):
        place = (*where, "unique", index)
        folded = tuple(
            find_column(document, (*place, i), name, str(where[-1]), columns)
            for i, name in enumerate(names)
        )
        if len(set(folded)) < len(folded):
            raise document.error(place, f"{dotted(place)} names a column twice.")
        lists.append(folded)
    return tuple(lists)


def _check_names(document: Document, where: Where, names: Iterable[str], *, what: str) -> None:
    """Raise SchemaError for names that DuckDB can't tell apart, or that no statement can use."""
    seen: dict[str, str] = {}
    for name in names:
        place = (*where, name)
        if not _NAME.fullmatch(name) or name != name.strip() or '"' in name:
            raise document.error(
                place,
                f"{shorten(name)} can't be the name of a {what}: names are 1 to 255 plain ASCII "
                "characters, without quotes or spaces at the ends.",
                hint="make a view with plain names in the database",
                key=True,
            )
        folded = ascii_lower(name)
        if folded in seen:
            raise document.error(
                place,
                f"the {what}s `{seen[folded]}` and `{name}` have the same name in SQL, which does "
                "not tell capitals apart.",
                hint="rename one of them in the database",
                key=True,
            )
        seen[folded] = name
        if what == "table" and "." in name:
            raise document.error(
                place,
                f"the table name {shorten(name)} has a point; tables of other database schemas are "
                "not supported yet.",
                hint="make a view in the main schema",
                key=True,
            )
        if what == "column" and folded in _ROW_NUMBERS:
            raise document.error(
                place,
                f"`{name}` is DuckDB's number of a row: it depends on everybody's rows.",
                hint="remove it",
                key=True,
            )
