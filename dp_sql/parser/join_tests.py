"""Tests by subquery in the ON of a join, which stand as well in WHERE."""

from __future__ import annotations

from sqlglot import exp


def tests_in_where(node: exp.Select) -> None:
    """Move the conditions of a block's last join that hold a subquery to its WHERE, where it is inner.

    Claim:   the block has the same rows.
    Why:     an inner join keeps the pairs for which ON is true, WHERE the rows for which it is, and
             nothing stands between the two: no further join pads a row or adds a name that could mean
             something else.
    Assumes: nothing.  Source: SQL's inner join.
    """
    joins: list[exp.Join] = node.args.get("joins") or []
    last = joins[-1] if joins else None
    if last is None or last.side or last.method or last.kind not in ("", "INNER"):
        return
    on = last.args.get("on")
    if on is None or node.args.get("laterals"):
        return
    parts = list(on.flatten()) if isinstance(on, exp.And) else [on]
    moved = [part for part in parts if part.find(exp.Query) is not None]
    if not moved:
        return
    rest = [part for part in parts if part not in moved] or [exp.true()]
    last.set("on", exp.and_(*rest, copy=False))
    where = node.args.get("where")
    before = [] if where is None else [where.this]
    node.set("where", exp.Where(this=exp.and_(*before, *moved, copy=False)))
