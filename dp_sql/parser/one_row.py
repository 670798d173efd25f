"""Subqueries that find one row at most, by the keys that the schema declares unique."""

from __future__ import annotations

from dp_sql.parser.links import is_unique
from dp_sql.plan.expression import Call, Expression, Ref, columns_of
from dp_sql.plan.relation import output
from dp_sql.plan.rows import Filter, GroupRows, Join, JoinKind, Mark, Project, Rows, Scan, StageScan
from dp_sql.schema.catalog import Catalog
from dp_sql.sensitivity.ownership import conjuncts


def one_row(rows: Rows, given: frozenset[int], catalog: Catalog) -> bool:
    """Return whether at most one of the rows has given values in the columns with these numbers.

    Claim:   DuckDB doesn't raise where the rows are a value, and the value is the row's.
    Why:     a unique key with given values is one row's. Of a join, one side has one row, and its
             values with the condition give the values of a key of the other.
    Assumes: nothing for privacy: only meaning rests on what the schema declares.
    """
    match rows:
        case Scan(table=table, columns=columns, sources=sources):
            names = tuple(s for c, s in zip(columns, sources, strict=True) if c.number in given)
            return bool(names) and is_unique(catalog.tables[table], names)
        case StageScan(single=single, unique=unique):
            return single or (bool(unique) and all(c.number in given for c in unique))
        case Filter(source=source, predicate=predicate):
            return one_row(source, _with_equal(given, predicate), catalog)
        case Mark(left=left):
            return one_row(left, given, catalog)
        case Project(source=source, columns=columns, expressions=expressions):
            pairs = zip(columns, expressions, strict=True)
            below = {e.column.number for c, e in pairs if c.number in given and isinstance(e, Ref)}
            return one_row(source, frozenset(below), catalog)
        case GroupRows(keys=keys):
            return all(key.number in given for key in keys)
        case Join(kind=JoinKind.INNER | JoinKind.LEFT, left=left, right=right):
            orders = [(left, right)]
            orders += [(right, left)] if rows.kind is JoinKind.INNER else []
            return any(_in_turn(first, second, rows, given, catalog) for first, second in orders)
        case _:
            return False


def _in_turn(
    first: Rows, second: Rows, join: Join, given: frozenset[int], catalog: Catalog
) -> bool:
    """Return whether one side of a join has one row, and with its values the other side has one."""
    if join.kind is JoinKind.INNER:
        given = _with_equal(given, join.condition)
    known = given | {c.number for c in output(first)}
    return one_row(first, given, catalog) and one_row(
        second, _with_equal(known, join.condition), catalog
    )


def _with_equal(given: frozenset[int], condition: Expression) -> frozenset[int]:
    """Return the columns that have given values where a condition is true."""
    found = set(given)
    equal = [p.args for p in conjuncts(condition) if isinstance(p, Call) and p.function == "="]
    for _ in equal:
        for a, b in [*equal, *(pair[::-1] for pair in equal)]:
            if isinstance(a, Ref) and all(c.number in found for c in columns_of(b)):
                found.add(a.column.number)
    return frozenset(found)
