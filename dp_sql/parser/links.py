"""Owners behind foreign keys: the joins that find them, and keys that belong to one owner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dp_sql.dataclass import dataclass
from dp_sql.parser.scope import Statement
from dp_sql.plan import functions
from dp_sql.plan.expression import Call, Column, Expression, Literal, Ref, columns_of
from dp_sql.plan.rows import GroupRows, Join, JoinKind, Link, Project, Rows, Scan
from dp_sql.plan.signature import TypeProblem
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import Catalog, OwnerThrough, TableSpec, ascii_lower
from dp_sql.sensitivity.conditions import always_true
from dp_sql.sensitivity.ownership import (
    equal_columns,
    link_of,
    owner_of,
    owner_or_null,
    owners_of,
    scans_of,
)

KeyIdentity = tuple[str, str]  # (table, column), lower-cased
_CHAIN = 16  # conditions that one AND after another joins


def resolved(statement: Statement, rows: Rows) -> Rows:
    """Return rows with their owner: those owned through a key are joined with what holds it.

    Rows whose owner can't be found drop out.
    """
    link = link_of(rows)
    if link is None:
        return rows
    lookup, keys = _lookup(statement, link)
    condition = conjunction(
        [functions.call("=", (Ref(own), Ref(keys[name]))) for own, name in link.pairs]
    )
    return Join(rows, lookup, JoinKind.INNER, condition)


def _lookup(statement: Statement, link: Link) -> tuple[Rows, dict[str, Column]]:
    """Return the (key, owner) pairs of a parent table, and its key columns by name."""
    spec = statement.catalog.tables[link.table]
    names = [name for _, name in link.pairs]
    through = spec.owner if isinstance(spec.owner, OwnerThrough) else None
    more = [own for own, _ in through.pairs] if through else [ascii_lower(str(spec.owner))]
    sources = tuple(dict.fromkeys([*names, *more]))
    scan = scan_of(statement, spec, sources)
    columns = dict(zip(sources, scan.columns, strict=True))
    parents = resolved(statement, scan)
    owner = owner_of(parents)
    assert owner is not None  # noqa: S101  the schema's paths end at an owner
    kept = tuple(dict.fromkeys([*(columns[n] for n in names), owner]))
    expressions = tuple(Ref(c) for c in kept)
    if is_unique(spec, tuple(names)):
        return Project(parents, kept, expressions), columns
    return GroupRows(parents, kept, expressions, ()), columns


def scan_of(statement: Statement, spec: TableSpec, sources: tuple[str, ...]) -> Scan:
    """Return a scan of some columns of a protected table at user level, or of any other table."""
    columns = tuple(
        statement.column(c.name, c.type, nullable=c.nullable)
        for c in (spec.columns[s] for s in sources)
    )
    by_name = dict(zip(sources, columns, strict=True))
    owner, link = None, None
    if isinstance(spec.owner, OwnerThrough):
        pairs = tuple((by_name[own], parent) for own, parent in spec.owner.pairs)
        link = Link(spec.owner.table, pairs)
    elif spec.owner is not None and not spec.public:
        owner = by_name[ascii_lower(spec.owner)]
    return Scan(ascii_lower(spec.name), spec.public, columns, sources, owner, link)


def is_unique(spec: TableSpec, columns: tuple[str, ...]) -> bool:
    """Return whether the schema declares columns of a table unique."""
    one = len(columns) == 1 and spec.columns[columns[0]].unique
    return one or any(set(names) <= set(columns) for names in spec.unique)


def belongs_to_one(rows: Rows, column: Column, catalog: Catalog) -> KeyIdentity | None:
    """Return which declared key a column holds whose every value leads to one owner, or None.

    A column that is unique in a protected table, or a foreign key to it. Only meaning rests on it:
    where such a key meets itself, the engine joins or groups by the owner too.
    """
    for scan in scans_of(rows):
        spec = catalog.tables[scan.table]
        for own, source in zip(scan.columns, scan.sources, strict=True):
            if own.number != column.number or scan.public:
                continue
            if scan.link is not None and len(scan.link.pairs) == 1:
                ((key, name),) = scan.link.pairs
                parent = catalog.tables[scan.link.table]
                if key.number == column.number and is_unique(parent, (name,)):
                    return scan.link.table, name
            if is_unique(spec, (source,)):
                return scan.table, source
    return None


@dataclass(frozen=True, slots=True)
class _Key:
    """Columns that lead to a row of a protected table: by (table, column) of that row.

    sure: every value leads to one owner, or the row itself has the key as a foreign one.
    """

    table: str
    columns: tuple[tuple[str, int], ...]
    sure: bool


def _keys(rows: Rows, catalog: Catalog) -> Iterator[_Key]:
    """Yield the keys that rows hold: foreign ones, those that foreign ones point to, unique ones."""
    for scan in scans_of(rows):
        if scan.public:
            continue
        places = dict(zip(scan.sources, (c.number for c in scan.columns), strict=True))
        if scan.link is not None:
            pairs = tuple(sorted((name, own.number) for own, name in scan.link.pairs))
            yield _Key(scan.link.table, pairs, sure=True)
        for spec in catalog.tables.values():
            owner = spec.owner
            if isinstance(owner, OwnerThrough) and owner.table == scan.table:
                names = sorted(name for _, name in owner.pairs)
                if all(name in places for name in names):
                    yield _Key(scan.table, tuple((n, places[n]) for n in names), sure=False)
        for name, number in places.items():
            if is_unique(catalog.tables[scan.table], (name,)):
                yield _Key(scan.table, ((name, number),), sure=True)


def shared_owner(
    left: Rows, right: Rows, condition: Expression, catalog: Catalog
) -> Expression | None:
    """Return that the owners are equal, where a condition compares a key that leads to an owner.

    left, right: rows whose owners are known. The key is foreign or unique on one side at least, and
    the same on the other: what the join means, for keys of one owner. Or the equality follows from
    others (`_follows`).
    """
    first, second = owner_of(left), owner_of(right)
    if first is None or second is None:
        return None
    try:
        same_owners = functions.call("=", (Ref(first), Ref(second)))
    except TypeProblem:  # one is the text of the key, the other the key
        return None
    if _follows(left, right, condition):
        return same_owners
    equal = {(a.number, b.number) for a, b in equal_columns(condition)}
    for a in _keys(left, catalog):
        for b in _keys(right, catalog):
            if (
                a.table == b.table
                and (a.sure or b.sure)
                and [n for n, _ in a.columns] == [n for n, _ in b.columns]
                and all(
                    (x, y) in equal for (_, x), (_, y) in zip(a.columns, b.columns, strict=True)
                )
            ):
                return same_owners
    return None


def _follows(left: Rows, right: Rows, condition: Expression) -> bool:
    """Return whether the owners are equal because both equal something else: a = p AND p = b.

    Claim:   where the condition is true the owners are equal: a join with that besides is the same.
    Why:     equality of columns is transitive, for the values as they are or as wider integers; what
             holds for every row of a side holds for those that meet. What equals something isn't
             NULL, and so the owner, where it is one or the other.
    Assumes: nothing for privacy: the engine adds the equality, and `sensitivity.locality` reads it.
    """
    same: dict[int, set[int]] = {}
    for part in (condition, *always_true(left), *always_true(right)):
        for a, b in equal_columns(part):
            joined = same.get(a.number, {a.number}) | same.get(b.number, {b.number})
            same.update(dict.fromkeys(joined, joined))
    first, second = (owners_of(side) | owner_or_null(side).keys() for side in (left, right))
    return any(known & first and known & second for known in same.values())


def conjunction(parts: list[Expression]) -> Expression:
    """Return the AND of conditions in order, TRUE for none; of many a bush, not a chain."""
    if not parts:
        return Literal(value=True, type=sqltype.BOOLEAN)
    if len(parts) > _CHAIN:
        half = len(parts) // 2
        return functions.call("and", (conjunction(parts[:half]), conjunction(parts[half:])))
    result = parts[0]
    for part in parts[1:]:
        result = functions.call("and", (result, part))
    return result


def computed_owner(left: Rows, right: Rows, conditions: Sequence[Expression]) -> bool:
    """Return whether a condition compares the owners of both sides, one of them in an expression."""
    sides = (owners_of(left), owners_of(right))
    return any(
        isinstance(part, Call)
        and part.function == "="
        and all({c.number for arg in part.args for c in columns_of(arg)} & side for side in sides)
        for part in conditions
    )
