"""Conditions with constants put anywhere into random plans, and rows outside of what they name.

A row of a block that isn't debited may be anything at all: the answer keeps every bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from oracle.family_schema import KEYS, TAME, WILD
from oracle.small_engine import Row
from oracle.small_schema import POOLS
from oracle.statements import pick

from dp_sql.plan import functions
from dp_sql.plan.expression import Column, Expression, Literal, Ref
from dp_sql.plan.relation import output
from dp_sql.plan.rows import Filter, Join, Rows, Scan, StageScan
from dp_sql.schema.catalog import ColumnSpec
from dp_sql.schema.sqltype import Kind
from dp_sql.sensitivity.ownership import all_scans

UIDS = (1, 2, 3, 4, 50)
NAMED = {Kind.BIGINT, Kind.INTEGER, Kind.TINYINT, Kind.VARCHAR, Kind.DATE, Kind.BOOLEAN}


def may_be_blocks(columns: Sequence[ColumnSpec]) -> list[str]:
    """Return the columns whose values may be blocks."""
    return [c.name for c in columns if c.type.kind in NAMED]


def pool(r: Random, column: str) -> Sequence[object]:
    """Return what the column holds, but NULL and infinity, which no constant is; seldom all of it."""
    found = UIDS if column == "uid" else KEYS.get(column) or TAME.get(column) or POOLS[column]
    wild = WILD.get(column, ()) if r.random() < 0.1 else ()
    return [v for v in (*found, *wild) if v is not None and "infinity" not in str(v)]


def name_of(value: object) -> str | None:
    """Return the name of the block of a value; None for NULL, which has none."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def changed(
    r: Random, rows: Sequence[Row], blocks: frozenset[str], place: int, fresh: Callable[[], Row]
) -> tuple[Row, ...]:
    """Return other rows of a table, the same ones in the debited blocks.

    place: of the column that holds the block. fresh: makes a row.
    """
    kept = [x for x in rows if name_of(x[place]) in blocks or r.random() < 0.3]
    more = [fresh() for _ in range(4)]
    return (*kept, *(x for x in more if name_of(x[place]) not in blocks))


def restricted(r: Random, rows: Rows, table: str, column: str, share: float) -> Rows:
    """Return a plan with conditions on a table's column, its scans with a chance of `share`."""
    own = {
        c.number: c
        for scan in all_scans(rows)
        if scan.table == table
        for c, s in zip(scan.columns, scan.sources, strict=True)
        if s == column
    }

    def walk(node: Rows) -> Rows:
        if not isinstance(node, Scan | StageScan):
            sides = {
                n: walk(getattr(node, n)) for n in ("source", "left", "right") if n in dir(node)
            }
            node = replace(node, **sides)
        seen = [c for c in output(node) if c.number in own]
        if not seen or r.random() >= (share if isinstance(node, Scan) else 0.4):
            return node
        more = condition(r, pick(r, seen), column, 2)
        if isinstance(node, Join) and r.random() < 0.5:
            return replace(node, condition=functions.call("and", (node.condition, more)))
        return Filter(node, more)

    return walk(rows)


def condition(r: Random, at: Column, column: str, depth: int) -> Expression:
    """Return a random condition on one column and constants, now and then with another part."""
    if depth and r.random() < 0.4:
        parts = tuple(condition(r, at, column, depth - 1) for _ in range(2))
        if r.random() < 0.1:
            parts = (parts[0], functions.call("is_null", (Ref(at),)))
        return functions.call(pick(r, ("and", "or", "or")), parts)
    ref = Ref(at)
    values = pool(r, column)
    found = [pick(r, values) for _ in range(2)]
    if r.random() < 0.7:
        found.sort()  # type: ignore[type-var]
    a, b = (Literal(value, at.type) for value in found)  # type: ignore[arg-type]
    wide = ("in", "between", "between", "ends", "ends")
    kind = pick(r, (*wide, "=", "is_not_distinct_from", "swapped", "<>"))
    match kind:
        case "in":
            return functions.call("in", (ref, a, b))
        case "between":
            return functions.call("between", (ref, a, b))
        case "swapped":
            return functions.call(pick(r, ("=", ">=", "<")), (a, ref))
        case "ends":
            ends = (functions.call(">", (ref, a)), functions.call("<=", (ref, b)))
            return functions.call("and", ends)
        case _:
            return functions.call(kind, (ref, a))
