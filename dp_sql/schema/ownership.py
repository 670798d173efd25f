"""Whose row it is: owner columns and the foreign keys that lead to them."""

from __future__ import annotations

from collections.abc import Mapping

from dp_sql.privacy.unit import Level
from dp_sql.schema import models
from dp_sql.schema.catalog import ColumnSpec, OwnerThrough, TableSpec, ascii_lower
from dp_sql.schema.document import Document, Where, dotted, suggestion
from dp_sql.schema.typename import KEY_TYPES, can_own, key_family

Columns = Mapping[str, ColumnSpec]


def find_column(
    document: Document, where: Where, name: str, table: str, columns: Columns, *, key: bool = False
) -> str:
    """Return the lower-cased name of a declared column of `table`.

    Raises SchemaError at `where` for any other name; `key`: the name stands there as a key.
    """
    folded = ascii_lower(name)
    if folded not in columns:
        names = (column.name for column in columns.values())
        raise document.error(
            where,
            f"{dotted(where)}: {table} declares no column `{name}`. {suggestion(name, names)}",
            key=key,
        )
    return folded


def owner_of(
    document: Document, where: Where, level: Level, table: models.Table, columns: Columns
) -> str | OwnerThrough | None:
    """Return the owner of a table's rows: a column, a path, or None at level event.

    where: the table's place. Column and table names come back lower-cased. What a path leads to is
    checked by `check_ownership`, once all tables are known.
    """
    owner = table.owner
    if level is Level.EVENT:
        if owner is not None:
            raise document.error(
                (*where, "owner"),
                f"{dotted(where)}: at level event each row is its own unit, so it has no owner.",
                hint="remove `owner`, or protect users: privacy: {level: user}",
                key=True,
            )
        return None
    name = str(where[-1])
    match owner:
        case None:
            raise document.error(
                where,
                f"{dotted(where)}: at level user a protected table needs an `owner`.",
                hint="owner: the column that says whose row it is; or public: true",
            )
        case str():
            place = (*where, "owner")
            folded = find_column(document, place, owner, name, columns)
            _check_key_type(document, place, columns[folded])
            return folded
        case models.Through():
            return _through(document, (*where, "owner"), owner, name, columns)


def _through(
    document: Document, where: Where, owner: models.Through, table: str, columns: Columns
) -> OwnerThrough:
    """Return the path whose own half, the child's columns, is declared."""
    mapped = isinstance(owner.on, dict)
    on = owner.on if isinstance(owner.on, dict) else {owner.on: owner.on}
    pairs = list[tuple[str, str]]()
    for child, parent in on.items():
        place = (*where, "on", child) if mapped else (*where, "on")
        folded = find_column(document, place, child, table, columns, key=mapped)
        _check_key_type(document, place, columns[folded], key=mapped)
        if any(folded == known for known, _ in pairs):
            raise document.error(place, f"{dotted(place)}: `{child}` stands here twice.", key=True)
        pairs.append((folded, ascii_lower(parent)))
    return OwnerThrough(ascii_lower(owner.through), tuple(pairs))


def _check_key_type(
    document: Document, where: Where, column: ColumnSpec, *, key: bool = False
) -> None:
    """Raise SchemaError where the column's type has no exact equality to rest ownership on."""
    if not can_own(column.type):
        raise document.error(
            where,
            f"{dotted(where)}: `{column.name}` is a {column.type}, which can't say whose row it "
            f"is. Keys are {KEY_TYPES}.",
            hint="declare the type that the key really has, or store it as text or an integer",
            key=key,
        )


def check_ownership(document: Document, tables: Mapping[str, TableSpec]) -> None:
    """Raise SchemaError unless every path of ownership ends at an owner column.

    Claim:   every row of a protected table leads, by declared columns, to one kind of owner.
    Why:     each step goes to a declared, protected table over declared columns of one family of
             types, and no table is met twice, so the steps end where a column is the owner.
    Assumes: every protected table has an owner (`owner_of`).
    Source:  [Kotsogiannis2019]
    """
    for table in tables.values():
        if isinstance(table.owner, OwnerThrough):
            _check_step(document, table, table.owner, tables)
    for table in tables.values():
        _check_ends(document, table, tables)


def _check_step(
    document: Document, table: TableSpec, owner: OwnerThrough, tables: Mapping[str, TableSpec]
) -> None:
    """Check one step of a path: the parent's table, its columns and their types."""
    where = ("tables", table.name, "owner")
    parent = tables.get(owner.table)
    if parent is None:
        names = (other.name for other in tables.values() if not other.public and other is not table)
        raise document.error(
            (*where, "through"),
            f"{dotted(where)}: the schema declares no table `{owner.table}`. "
            f"{suggestion(owner.table, names)}",
        )
    if parent.public:
        raise document.error(
            (*where, "through"),
            f"{dotted(where)}: {parent.name} is public, so its rows belong to nobody.",
            hint="go through a protected table, or name a column as the owner",
        )
    for child_name, parent_name in owner.pairs:
        place = _pair_place(document, (*where, "on"), child_name)
        find_column(document, place, parent_name, parent.name, parent.columns)
        child, other = table.columns[child_name], parent.columns[parent_name]
        _check_key_type(document, place, other)
        if key_family(child.type) != key_family(other.type):
            raise document.error(
                place,
                f"{dotted(where)}: `{child.name}` is a {child.type} and {parent.name}.{other.name} "
                f"a {other.type}; a foreign key and what it points to have one type.",
                hint="declare both with the type that they really have",
            )


def _pair_place(document: Document, where: Where, child: str) -> Where:
    """Return the place of the pair of a lower-cased child column, however the file spells it."""
    for key in document.keys(where):
        if ascii_lower(key) == child:
            return (*where, key)
    return where


def _check_ends(document: Document, table: TableSpec, tables: Mapping[str, TableSpec]) -> None:
    """Follow one path of ownership and refuse a circle."""
    names, step = [table.name], table
    while isinstance(step.owner, OwnerThrough):
        step = tables[step.owner.table]
        names.append(step.name)
        if len(names) > len(tables):
            raise document.error(
                ("tables", table.name, "owner", "through"),
                f"tables.{table.name}.owner goes round in a circle: "
                f"{' -> '.join(names[:8])}, and never reaches an owner column.",
                hint="give one of these tables a column as its owner",
            )
