"""Statements that are answered, with the analyst's own names: what an error shows beside its hint."""

from __future__ import annotations

from dp_sql.plan.relation import Relation
from dp_sql.schema.catalog import Catalog, TableSpec, ascii_lower
from dp_sql.schema.sqltype import Kind
from dp_sql.sensitivity.ownership import all_scans


def general(catalog: Catalog, text: str) -> str | None:
    """Return a plain aggregate over the first protected table that a text names, or over any."""
    words = ascii_lower(text)
    protected = [spec for spec in catalog.tables.values() if not spec.public]
    named = [spec for spec in protected if ascii_lower(spec.name) in words]
    first = next(iter([*named, *protected]), None)
    return None if first is None else counted(first)


def counted(spec: TableSpec) -> str:
    """Return a count, and a mean where a column has bounds."""
    bounded = next(
        (
            c.name
            for c in spec.columns.values()
            if c.type.is_numeric and c.low is not None and c.high is not None
        ),
        None,
    )
    mean = "" if bounded is None else f", AVG({_written(bounded)})"
    return f"SELECT COUNT(*){mean} FROM {_written(spec.name)}"


def joined(left: Relation, right: Relation, catalog: Catalog) -> str | None:
    """Return a join of two protected tables on their owner."""
    first, second = _owned(left, catalog), _owned(right, catalog)
    if first is None or second is None:
        return None
    (a, x), (b, y) = first, second
    kinds = {_kind(catalog, a, x), _kind(catalog, b, y)}
    if len(kinds) > 1:
        return None
    return f"SELECT COUNT(*) FROM {a} AS a JOIN {b} AS b ON a.{x} = b.{y}"


def _kind(catalog: Catalog, table: str, column: str) -> Kind | None:
    """Return the kind of a column, one for all integers; None where the schema has no such column."""
    spec = catalog.table(table)
    found = None if spec is None else spec.columns.get(ascii_lower(column))
    if found is None:
        return None
    return Kind.BIGINT if found.type.is_integer else found.type.kind


def among(left: Relation, right: Relation, catalog: Catalog) -> str | None:
    """Return a count of rows whose owner has rows in another table."""
    first, second = _owned(left, catalog), _owned(right, catalog)
    if first is None or second is None:
        return None
    (a, x), (b, y) = first, second
    if _kind(catalog, a, x) != _kind(catalog, b, y):
        return None
    return f"SELECT COUNT(*) FROM {a} WHERE {x} IN (SELECT {y} FROM {b})"


def first_rows(rows: Relation, catalog: Catalog) -> str | None:
    """Return a count over some rows of each person."""
    found = _owned(rows, catalog)
    if found is None:
        return None
    table, owner = found
    return (
        f"SELECT COUNT(*) FROM (SELECT * FROM {table} QUALIFY row_number() OVER "
        f"(PARTITION BY {owner} ORDER BY {owner}) <= 3)"
    )


def distinct(rows: Relation, catalog: Catalog) -> str | None:
    """Return a count over each person's distinct rows."""
    found = _owned(rows, catalog)
    if found is None:
        return None
    table, owner = found
    return f"SELECT COUNT(*) FROM (SELECT DISTINCT {owner} FROM {table})"


def per_person(rows: Relation, catalog: Catalog) -> str | None:
    """Return a mean over persons."""
    found = _owned(rows, catalog)
    if found is None:
        return None
    table, owner = found
    return f"SELECT AVG(n) FROM (SELECT {owner}, COUNT(*) AS n FROM {table} GROUP BY {owner})"


def _owned(rows: Relation, catalog: Catalog) -> tuple[str, str] | None:
    """Return the written name of the first table below that has an owner column, and that column's."""
    for scan in all_scans(rows):
        spec = catalog.tables[scan.table]
        if isinstance(spec.owner, str) and not spec.public:
            return _written(spec.name), _written(spec.columns[spec.owner].name)
    return None


def _written(name: str) -> str:
    """Return a name as it has to be written: quoted unless it is a plain word."""
    plain = name.replace("_", "a").isalnum() and not name[:1].isdigit()
    return name if plain else '"' + name.replace('"', '""') + '"'
