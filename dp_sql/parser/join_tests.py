"""Tests by subquery in the ON of a join, which stand as well in WHERE."""

from __future__ import annotations

from sqlglot import exp

from dp_sql.parser.own_names import outside
from dp_sql.parser.scope import Environment
from dp_sql.schema.catalog import Catalog


def tests_in_where(node: exp.Select, env: Environment, catalog: Catalog) -> None:
    """Move the conditions of a block's inner joins that hold a subquery to its WHERE.

    Claim:   the block has the same rows.
    Why:     an inner join keeps the pairs for which ON is true, WHERE the rows for which it is. Further
             inner and left joins keep each of these rows' values, whether it is dropped before them or
             after; what isn't the last join's names its columns with their tables, so that none of a
             further join is meant.
    Assumes: nothing.  Source: SQL's joins.
    """
    if node.args.get("laterals"):
        return
    joins: list[exp.Join] = node.args.get("joins") or []
    moved: list[exp.Expr] = []
    for join in reversed(joins):
        inner = not join.side and join.kind in ("", "INNER", "CROSS")
        left = join.side == "LEFT" and join.kind in ("", "OUTER")
        if join.method or not (inner or left):
            break
        on = join.args.get("on")
        if on is None or not inner:
            continue
        parts = list(on.flatten()) if isinstance(on, exp.And) else [on]
        some = [
            part
            for part in parts
            if part.find(exp.Query) is not None
            and (join is joins[-1] or all(c.table for c in outside(part, env, catalog)))
        ]
        if some:
            rest = [part for part in parts if part not in some] or [exp.true()]
            join.set("on", exp.and_(*rest, copy=False))
            moved = [*some, *moved]
    if not moved:
        return
    where = node.args.get("where")
    before = [] if where is None else [where.this]
    node.set("where", exp.Where(this=exp.and_(*before, *moved, copy=False)))
