"""Lowers relations of private rows to SELECTs of ours: one node at a time, canonical throughout."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError
from dp_sql.executor.database import DATA, STAGE
from dp_sql.executor.lower_expression import canonical, identifier, lower
from dp_sql.executor.lower_row_aggregate import aggregate_sql, window_sql
from dp_sql.plan.expression import Column
from dp_sql.plan.relation import output
from dp_sql.plan.rows import (
    Filter,
    GroupRows,
    Join,
    JoinKind,
    Mark,
    Project,
    Rows,
    Scan,
    SetRows,
    StageScan,
    WindowRows,
)


def name(column: Column) -> str:
    """Return the name of a column in lowered SQL: ours, unique in the statement."""
    return f"c{column.number}"


def rows_sql(rows: Rows) -> str:
    """Return a SELECT with the columns of a relation of private rows under their lowered names."""
    match rows:
        case Scan():
            return _scan(rows)
        case StageScan(name=stage, columns=columns):
            items = ", ".join(
                f"{canonical(f'v{i}', c.type)} AS {name(c)}" for i, c in enumerate(columns)
            )
            return f"SELECT {items} FROM {STAGE}.{identifier(stage)} AS stage_"
        case Filter():
            found = readable(rows, _floats(rows))
            items = ", ".join(_as(found.text(c), c) for c in output(rows))
            return f"SELECT {items}{found.clauses()}"
        case Project(source=source, columns=columns, expressions=expressions):
            found = readable(source, _floats(source))
            items = ", ".join(
                f"{lower(e, found.text)} AS {name(c)}"
                for c, e in zip(columns, expressions, strict=True)
            )
            return f"SELECT {items}{found.clauses()}"
        case Join():
            return _join(rows)
        case Mark():
            return _mark(rows)
        case GroupRows(source=source, keys=keys, key_expressions=expressions):
            found = readable(source, _floats(source))
            listed = [
                f"{canonical(lower(e, found.text), e.type)} AS {name(c)}"
                for c, e in zip(keys, expressions, strict=True)
            ]
            listed += [
                f"{aggregate_sql(a, found.text)} AS {name(a.column)}" for a in rows.aggregates
            ]
            groups = ", ".join(str(i + 1) for i in range(len(keys)))
            return f"SELECT {', '.join(listed)}{found.clauses()} GROUP BY {groups}"
        case WindowRows(source=source, functions=functions):
            windows = ", ".join(f"{window_sql(f, name)} AS {name(f.column)}" for f in functions)
            return f"SELECT *, {windows} FROM ({rows_sql(source)}) AS rows_"
        case SetRows(kind=kind, left=left, right=right, columns=columns):
            return f" {kind.value} ".join(f"({_renamed(s, columns)})" for s in (left, right))
        case _:
            assert_never(rows)


def _renamed(side: Rows, columns: tuple[Column, ...]) -> str:
    items = ", ".join(f"{name(a)} AS {name(b)}" for a, b in zip(output(side), columns, strict=True))
    return f"SELECT {items} FROM ({rows_sql(side)}) AS side_"


def _join(join: Join) -> str:
    condition, owner = lower(join.condition, name), ""
    if join.kind is JoinKind.FULL and join.owner is not None:
        new, first, second = join.owner
        owner = f", coalesce({name(first)}, {name(second)}) AS {name(new)}"
    return (
        f"SELECT *{owner} FROM ({rows_sql(join.left)}) AS left_ {join.kind.value} JOIN "
        f"({rows_sql(join.right)}) AS right_ ON {condition}"
    )


def _mark(mark: Mark) -> str:
    right = f"({rows_sql(mark.right)}) AS right_ WHERE {lower(mark.condition, name)}"
    if mark.operand is None:
        test = f"EXISTS (SELECT 1 FROM {right})"
    elif mark.value is None:
        raise InternalError("IN compares two values")
    else:
        test = f"({lower(mark.operand, name)} IN (SELECT {lower(mark.value, name)} FROM {right}))"
    return f"SELECT *, {test} AS {name(mark.column)} FROM ({rows_sql(mark.left)}) AS left_"


@dataclass(frozen=True, slots=True)
class Readable:
    """Rows that a SELECT reads: its FROM item, its conditions, and the text of a column there."""

    source: str
    where: tuple[str, ...]
    text: Callable[[Column], str]

    def clauses(self, *more: str) -> str:
        """Return FROM and WHERE, with further conditions."""
        conditions = " AND ".join((*self.where, *more))
        return f" FROM {self.source}" + (f" WHERE {conditions}" if conditions else "")


def readable(rows: Rows, floats: frozenset[int]) -> Readable:
    """Return rows as one SELECT can read them, filters over a scan in its WHERE.

    floats: the float columns that have to be canonical; one that isn't among them may be read as it
    lies in the table.
    """
    match rows:
        case Scan():
            if any(c.number in floats and c.type.is_float for c in rows.columns):
                return Readable(f"({_scan(rows)}) AS rows_", (), name)
            names = dict(zip(rows.columns, rows.sources, strict=True))
            where = () if rows.owner is None else (_owned(rows),)
            source = f"{DATA}.{identifier(rows.table)} AS scan_"
            return Readable(source, where, lambda c: identifier(names[c]))
        case Filter(source=source, predicate=predicate):
            found = readable(source, floats)
            return Readable(found.source, (*found.where, lower(predicate, found.text)), found.text)
        case _:
            return Readable(f"({rows_sql(rows)}) AS rows_", (), name)


def _floats(rows: Rows) -> frozenset[int]:
    return frozenset(c.number for c in output(rows) if c.type.is_float)


def _as(text: str, column: Column) -> str:
    return text if text == name(column) else f"{text} AS {name(column)}"


def _owned(scan: Scan) -> str:
    """Return the condition that a row has an owner."""
    owner = next(s for c, s in zip(scan.columns, scan.sources, strict=True) if c == scan.owner)
    return f"{identifier(owner)} IS NOT NULL"


def _scan(scan: Scan) -> str:
    """Lower a scan: canonical values, rows without an owner dropped."""
    items = ", ".join(
        f"{canonical(identifier(s), c.type)} AS {name(c)}"
        for c, s in zip(scan.columns, scan.sources, strict=True)
    )
    where = "" if scan.owner is None else f" WHERE {_owned(scan)}"
    return f"SELECT {items} FROM {DATA}.{identifier(scan.table)} AS scan_{where}"
