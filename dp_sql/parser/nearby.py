"""Statements near one that isn't answered, as texts to try: with an aggregate, a key or a subquery more.

Each may fail itself: whoever shows one reads it first (`parser.advice`).
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dp_sql.parser.aggregates import aggregate_name, has_aggregate
from dp_sql.parser.dialect import Reading

_OF_ROWS = ("order", "limit", "offset", "distinct", "qualify")


def _text(tree: exp.Expr) -> str:
    return tree.sql(dialect=Reading)


def _count() -> exp.Count:
    return exp.Count(this=exp.Star(), big_int=True)


def _is_plain(node: exp.Expr | None) -> bool:
    """Return whether a node is a whole statement that is one SELECT over rows."""
    if not isinstance(node, exp.Select) or node.parent is not None:
        return False
    return node.args.get("from_") is not None and not node.args.get("group")


def aggregated(node: exp.Expr | None) -> Iterator[str]:
    """Yield counts of the rows that a whole statement would return, first by its own columns."""
    if not _is_plain(node) or not isinstance(node, exp.Select):
        return
    items = node.expressions
    columns = all(isinstance(item.unalias(), exp.Column) and not item.is_star for item in items)
    if columns and node.args.get("where") is None:
        grouped = node.copy()
        grouped.set("distinct", None)
        grouped.select(_count(), copy=False)
        grouped.set("group", exp.Group(all=True))
        yield _text(grouped)
    counted = node.copy()
    for key in _OF_ROWS:
        counted.set(key, None)
    counted.set("expressions", [_count()])
    yield _text(counted)


def grouped_by(column: exp.Column) -> Iterator[str]:
    """Yield a whole statement with a column of its select list among its keys."""
    node = column.parent_select
    if not isinstance(node, exp.Select) or node.parent is not None:
        return
    tree = node.copy()
    group = tree.args.get("group")
    if group is None:
        tree.set("group", exp.Group(all=True))
    elif group.expressions:
        group.append("expressions", column.copy())
    yield _text(tree)


def after_aggregates(node: exp.Expr, part: exp.Expr) -> Iterator[str]:
    """Yield a whole statement without an aggregate in WHERE: in HAVING, or as a subquery's value.

    part: of its WHERE, the condition that holds the aggregate.
    """
    where = node.args.get("where")
    if not isinstance(node, exp.Select) or node.parent is not None or where is None:
        return
    found = [a for a in part.walk() if aggregate_name(a) is not None]
    inside = {id(column) for a in found for column in a.find_all(exp.Column)}
    if all(id(column) in inside for column in part.find_all(exp.Column)):
        parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
        rest = [p.copy() for p in parts if p is not part]
        tree = node.copy()
        tree.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
        tree.having(part.copy(), copy=False)
        yield _text(tree)
        return
    source = node.args.get("from_")
    tree, target = node.copy(), _text(part)
    same = next((p for p in tree.args["where"].walk() if _text(p) == target), None)
    for call in [] if same is None else [a for a in same.walk() if aggregate_name(a) is not None]:
        of_all = exp.Select(expressions=[call.copy()])
        of_all.set("from_", source.copy() if source is not None else None)
        call.replace(exp.Subquery(this=of_all))
    yield _text(tree)


def of_groups(window: exp.Window) -> Iterator[str]:
    """Yield an aggregate of each partition of a window over rows, as groups of the statement."""
    node, partition = window.parent_select, window.args.get("partition_by") or []
    if not isinstance(node, exp.Select) or not _is_plain(node) or not has_aggregate(window.this):
        return
    tree = node.copy()
    for key in _OF_ROWS:
        tree.set(key, None)
    tree.set("expressions", [*(key.copy() for key in partition), window.this.copy()])
    tree.set("group", exp.Group(all=True) if partition else None)
    yield _text(tree)


def collected(call: exp.Expr) -> Iterator[str]:
    """Yield a whole statement in which an aggregate collects the values that are shown as groups."""
    node = call.parent_select
    if not isinstance(node, exp.Select) or node.parent is not None:
        return
    keys = [item for item in node.expressions if not has_aggregate(item)]
    value = next(call.find_all(exp.Column), None)
    if value is None or len(keys) + 1 < len(node.expressions):
        return
    if any(not isinstance(key.unalias(), exp.Column) for key in keys):
        return
    inner, tree = node.copy(), exp.Select()
    for part in (*_OF_ROWS, "having"):
        inner.set(part, None)
    inner.set("expressions", [*(key.copy() for key in keys), value.copy()])
    inner.set("group", exp.Group(all=True))
    made = call.copy()
    tree.set("expressions", [*(exp.column(key.alias_or_name) for key in keys), made])
    for column in made.find_all(exp.Column):
        column.set("table", None)
    tree.set("from_", exp.From(this=exp.Subquery(this=inner)))
    if keys:
        tree.set("group", exp.Group(all=True))
    yield _text(tree)


def beside_public(column: exp.Column) -> Iterator[str]:
    """Yield a count of protected rows beside each public row that a subquery over them would read.

    column: of the public table, in the WHERE of the subquery.
    """
    inner, equal = column.parent_select, column.parent
    if inner is None or not isinstance(equal, exp.EQ):
        return
    other = equal.expression if equal.this is column else equal.this
    yield from _counted_beside(inner, column, other)


def of_members(test: exp.Expr | None) -> Iterator[str]:
    """Yield a count of protected rows beside each public row that `x IN (SELECT y …)` would pick."""
    query = test.args.get("query") if isinstance(test, exp.In) else None
    inner = None if query is None else query.unnest()
    if test is None or not isinstance(inner, exp.Select) or len(inner.expressions) != 1:
        return
    yield from _counted_beside(inner, test.this, inner.expressions[0])


def _counted_beside(inner: exp.Select, column: exp.Expr, other: exp.Expr) -> Iterator[str]:
    outer = inner.parent_select
    sides = [node.args.get("from_") for node in (outer, inner) if node is not None]
    if len(sides) < 2 or any(side is None for side in sides):
        return
    if any(node is not None and node.args.get("joins") for node in (outer, inner)):
        return
    if not isinstance(column, exp.Column) or not isinstance(other, exp.Column):
        return
    public, protected = (side.this.copy() for side in sides if side is not None)
    named = [
        exp.column(c.name, table=s.alias_or_name) for c, s in ((column, public), (other, protected))
    ]
    tree = exp.Select(expressions=[named[0], exp.Count(this=named[1], big_int=True)])
    tree.set("from_", exp.From(this=public))
    on = exp.EQ(this=named[0].copy(), expression=named[1].copy())
    tree.set("joins", [exp.Join(this=protected, side="LEFT", on=on)])
    tree.set("group", exp.Group(expressions=[named[0].copy()]))
    yield _text(tree)
