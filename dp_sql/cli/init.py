"""`dpsql init`: a first schema file from what a database says about itself, for a person to finish."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from dp_sql.errors import SchemaError
from dp_sql.executor.inventory import (
    DATA_FILES,
    ForeignKey,
    FoundColumn,
    FoundTable,
    inventory,
)
from dp_sql.schema.document import Problem
from dp_sql.schema.sqltype import VARCHAR, Kind, SqlType
from dp_sql.schema.typename import can_own, parse_type
from dp_sql.schema.undecided import MARK, undecided

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMEABLE = re.compile(r"[\x20-\x7e]{1,255}")  # as `schema.build` has it
_ENDS = (Kind.DATE, Kind.TIMESTAMP)  # which have bounds beside the numbers


def write_schema(database: Path, output: Path | None) -> str:
    """Write a first schema of what lies at `database`; return what to say about it.

    output: a new file; None is beside the data, with their name. Raises SchemaError where it is
    there already, and EngineError where there are no data.
    """
    target = output if output is not None else _beside(database)
    tables = inventory(database)
    text = schema_text(database, target, tables)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SchemaError(
            f"{str(target)!r} is there already, and is left as it is.", hint="--output FILE"
        ) from None
    except OSError as error:
        raise SchemaError(f"{str(target)!r} can't be written: {error.strerror}.") from None
    count = len(undecided(text))
    return (
        f"wrote {target}: {len(tables)} table{'' if len(tables) == 1 else 's'}, all protected\n"
        f"{count} lines say {MARK}: decide them, then ask `dpsql check {target}`\n"
    )


def schema_text(database: Path, target: Path, tables: Sequence[FoundTable]) -> str:
    """Return the text of a first schema. target: where it will lie, which the data are named from."""
    folder = database if database.is_dir() else database.parent
    where = _from(target, folder)
    if tables[0].file is None:
        where = f"duckdb:///{_from(target, database)}"
    lines = [
        f"# Written by `dpsql init` from {_comment(database.name)}, of which no row was read. What is marked",
        "# below is yours to decide, from what you know without looking at the data; `dpsql check` names",
        "# what is left. A marked comment may be removed instead.",
        "version: 1",
        f"database: {json.dumps(where, ensure_ascii=False)}",
        "privacy:",
        "  level: user  # all rows of one person are protected; `event` protects single rows",
        f"  unit: {MARK}  # what one unit is called in messages, such as customer or patient",
        f"  # {MARK} defaults: {{epsilon: 0.1}}  # of a statement that names none",
        "tables:",
    ]
    names = {table.name for table in tables}
    for table in tables:
        lines += _table(table, names)
    return "".join(f"{line}\n" for line in lines)


def _table(table: FoundTable, names: set[str]) -> Iterator[str]:
    if not _NAMEABLE.fullmatch(table.name):
        yield f"  # {_comment(table.name)}: has a name that no schema can hold"
        return
    yield f"  {_key(table.name)}:"
    if table.file is not None:
        yield f"    source: {json.dumps(table.file.name, ensure_ascii=False)}"
        if table.file.suffix.lower() == ".csv":
            yield f"    # {MARK} see that the first line of the file names its columns, and is no row"
    yield f"    owner: {MARK}  # whose row it is: {_owner_hint(table, names)}; or public: true"
    yield f"    budget: {MARK}  # {{epsilon: 1, delta: 1e-6}}, for all statements together"
    cut = "of one unit: what has more is cut; dpsql tune proposes some"
    yield f"    # {MARK} limits: {{max_groups: 1, max_rows_per_group: 1}}  # {cut}"
    several = [key for key in (table.primary, *table.unique) if len(key) > 1]
    if several:
        yield f"    unique: {json.dumps([list(key) for key in several])}"
    yield "    columns:"
    for column in table.columns:
        yield f"      {_column(column, table)}"


def _owner_hint(table: FoundTable, names: set[str]) -> str:
    """Return the ways to an owner that the keys suggest, or any column that could be one."""
    hints = [_through(key) for key in table.foreign if key.table in names]
    if len(table.primary) == 1:
        hints.append(f"{_key(table.primary[0])} (the primary key) where each row is one person")
    hints += [f"{_key(key[0])} (unique)" for key in table.unique if len(key) == 1]
    if not hints:
        able = [c.name for c in table.columns if (kind := _type(c)) is not None and can_own(kind)]
        hints = [f"one of {', '.join(map(_key, able))}" if able else "a column of it"]
    return "; ".join(hints)


def _through(key: ForeignKey) -> str:
    pairs = zip(key.columns, key.parents, strict=True)
    mapped = ", ".join(f"{_key(child)}: {_key(parent)}" for child, parent in pairs)
    alone = f"{_key(key.columns[0])}, or " if len(key.columns) == 1 else ""
    return f"{alone}{{through: {_key(key.table)}, on: {{{mapped}}}}}"


def _column(column: FoundColumn, table: FoundTable) -> str:
    name, kind = _key(column.name), _type(column)
    if not _NAMEABLE.fullmatch(column.name):
        return f"# {_comment(column.name)}: has a name that no schema can hold"
    if kind is None:
        return f"# {name}: {_comment(column.type or '')} is no type that statements can read"
    quoted = json.dumps(str(kind).lower()) if kind.kind is Kind.DECIMAL else str(kind).lower()
    keys = [f"type: {quoted}"]
    if not column.nullable:
        keys.append("nullable: false")
    if (column.name,) in (table.primary, *table.unique):
        keys.append("unique: true")
    return f"{name}: {{{', '.join(keys)}}}{_left_open(column, table, kind)}"


def _left_open(column: FoundColumn, table: FoundTable, kind: SqlType) -> str:
    """Return the comment on what the catalog doesn't say of a column."""
    keys = (table.primary, *table.unique, *(key.columns for key in table.foreign))
    if column.type is None:
        return f"  # {MARK} type, and bounds if it is a number"
    if column.type == "ENUM":
        return f"  # {MARK} values: [...], where they are known without the data"
    if (kind.is_numeric or kind.kind in _ENDS) and all(column.name not in key for key in keys):
        return f"  # {MARK} bounds: [lowest, highest]"
    return ""


def _type(column: FoundColumn) -> SqlType | None:
    if column.type in (None, "ENUM"):
        return VARCHAR
    try:
        return parse_type(column.type or "")
    except Problem:
        return None


def _key(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _comment(text: str) -> str:
    """Return a text as it may stand in a comment: on one line."""
    return "".join(c if c.isprintable() else "?" for c in text)[:200]


def _beside(database: Path) -> Path:
    if database.is_dir():
        return database / "schema.yaml"
    files = (*DATA_FILES, ".duckdb", ".db")
    named = database.suffix.lower() in files
    return database.with_suffix(".yaml") if named else database.with_name(f"{database.name}.yaml")


def _from(target: Path, place: Path) -> str:
    """Return the path of a place as a schema at `target` names it: from its folder, if it is below."""
    folder, there = Path(os.path.realpath(target)).parent, Path(os.path.realpath(place))
    if not there.is_relative_to(folder):
        return str(there)
    return os.path.relpath(there, folder)
