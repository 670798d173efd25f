"""The privacy unit of a schema: which columns a neighbour changes, and how far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import assert_never

from dp_sql.privacy.unit import Adjacency, Level, Named, PrivacyUnit
from dp_sql.schema import models
from dp_sql.schema.catalog import ColumnSpec, OwnerThrough, TableSpec, ascii_lower
from dp_sql.schema.document import Document, Where, dotted

Tables = Mapping[str, TableSpec]
_TURN = {"latitude": 90, "longitude": 360}  # degrees either way that make sense


def privacy_unit(document: Document, model: models.SchemaFile, tables: Tables) -> PrivacyUnit:
    """Return the unit of a checked schema; raise SchemaError where its keys don't go together.

    tables: by lower-cased name, with owners that are checked.
    """
    privacy = model.privacy
    level, adjacency = Level(privacy.level), Adjacency(privacy.adjacency)
    name = privacy.unit or ("row" if level is Level.EVENT else "unit")
    for where, table, column in _declared(model):
        _check_flags(document, where, table, column, adjacency)
    if (privacy.radius is not None) != (adjacency is Adjacency.METRIC):
        raise document.error(
            ("privacy", "adjacency" if privacy.radius is None else "radius"),
            "privacy.adjacency: metric needs a `radius`, in metres."
            if privacy.radius is None
            else f"privacy.radius belongs to adjacency metric; this is {adjacency}.",
            hint="radius: 100, with adjacency: metric and level: event",
            key=privacy.radius is not None,
        )
    if adjacency is Adjacency.METRIC and level is not Level.EVENT:
        raise document.error(
            ("privacy", "adjacency"),
            "privacy.adjacency: metric moves the place of one row, so it needs level event.",
            hint="level: event, or adjacency: zero_out for whole users",
        )
    unit = PrivacyUnit(level, adjacency, privacy.group_size, name, radius=privacy.radius)
    match adjacency:
        case Adjacency.ADD_REMOVE | Adjacency.SUBSTITUTION:
            return unit
        case Adjacency.ZERO_OUT:
            return replace(unit, kept=_kept(document, model, tables))
        case Adjacency.METRIC:
            latitudes, longitudes = (
                _places(document, model, tables, flag) for flag in ("latitude", "longitude")
            )
            return replace(unit, latitudes=latitudes, longitudes=longitudes)
        case _:
            assert_never(adjacency)


def _declared(model: models.SchemaFile) -> Iterator[tuple[Where, models.Table, models.Column]]:
    for table_name, table in model.tables.items():
        for column_name, column in table.columns.items():
            yield ("tables", table_name, "columns", column_name), table, column


def _check_flags(
    document: Document,
    where: Where,
    table: models.Table,
    column: models.Column,
    adjacency: Adjacency,
) -> None:
    """Raise SchemaError for a flag that this adjacency or a public table has no meaning for."""
    for flag, its in (
        ("protected", Adjacency.ZERO_OUT),
        ("latitude", Adjacency.METRIC),
        ("longitude", Adjacency.METRIC),
    ):
        if flag in column.model_fields_set and (adjacency is not its or table.public):
            why = f"the adjacency is {adjacency}" if adjacency is not its else "the table is public"
            raise document.error(
                (*where, flag),
                f"{dotted((*where, flag))} belongs to protected tables and adjacency {its}; {why}.",
                hint="remove it",
                key=True,
            )


def _kept(document: Document, model: models.SchemaFile, tables: Tables) -> frozenset[Named]:
    """Return the columns that zero_out leaves as they are.

    Claim:   no neighbour changes whose a row is.
    Why:     owner columns, foreign keys of owners and the columns that they point to are among them,
             whatever the file says.
    Assumes: ownership was checked.
    Source:  [Kotsogiannis2019]
    """
    keys = _keys(tables)
    found = set(keys)
    for where, table, column in _declared(model):
        _, table_name, _, column_name = (str(step) for step in where)
        named = ascii_lower(table_name), ascii_lower(column_name)
        if column.protected and named in keys:
            raise document.error(
                (*where, "protected"),
                f"{dotted(where)} says whose a row is, so zero_out can't protect it.",
                hint="remove `protected`, or use adjacency: add_remove to hide whose rows there are",
            )
        if column.protected is False and not table.public:
            found.add(named)
    return frozenset(found)


def _keys(tables: Tables) -> set[Named]:
    found = set[Named]()
    for name, table in tables.items():
        match table.owner:
            case str(owner):
                found.add((name, owner))
            case OwnerThrough(table=parent, pairs=pairs):
                found |= {(name, child) for child, _ in pairs}
                found |= {(parent, column) for _, column in pairs}
            case None:
                pass
    return found


def _places(
    document: Document, model: models.SchemaFile, tables: Tables, flag: str
) -> frozenset[Named]:
    """Return the latitudes or the longitudes: one column of each protected table."""
    found = set[Named]()
    for table_name, table in model.tables.items():
        if table.public:
            continue
        named = ascii_lower(table_name)
        columns = [
            name
            for name, column in table.columns.items()
            if (column.latitude if flag == "latitude" else column.longitude)
        ]
        if len(columns) != 1:
            raise document.error(
                ("tables", table_name),
                f"tables.{table_name} has {len(columns) or 'no'} columns with `{flag}: true`; under "
                "adjacency metric a protected table has one latitude and one longitude.",
                hint=f"{flag}: true at the column that holds it; or public: true if the table has "
                "no place",
            )
        (name,) = columns
        where = ("tables", table_name, "columns", name)
        if table.columns[name].latitude and table.columns[name].longitude:
            raise document.error(
                where, f"{dotted(where)} is both latitude and longitude.", hint="remove one of them"
            )
        _check_degrees(document, where, tables[named].columns[ascii_lower(name)], flag)
        found.add((named, ascii_lower(name)))
    return frozenset(found)


def _check_degrees(document: Document, where: Where, spec: ColumnSpec, flag: str) -> None:
    most = _TURN[flag]
    if not spec.type.is_numeric:
        raise document.error(
            (*where, "type"),
            f"{dotted(where)}: a {flag} is a number of degrees, not a {spec.type}.",
            hint="type: double",
        )
    ends = [end for end in (spec.low, spec.high) if isinstance(end, int | float | Decimal)]
    if any(not -most <= end <= most for end in ends):
        raise document.error(
            (*where, "bounds"),
            f"{dotted(where)}: a {flag} lies between {-most} and {most} degrees.",
            hint=f"bounds: [{-most}, {most}]",
        )
