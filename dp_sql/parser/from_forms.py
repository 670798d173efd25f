"""Forms of FROM that are read as others: joins within joins, and subqueries that read their neighbours."""

from __future__ import annotations

from sqlglot import exp

from dp_sql.parser.own_names import Names, is_join, outside, sources
from dp_sql.parser.scope import Environment
from dp_sql.schema.catalog import Catalog


def spread(select: exp.Select) -> None:
    """Move the joins that the parser library hangs below an item to where they belong.

    Those of the first item (FROM a JOIN b ON … SELECT …) are the block's first; those of another
    (a JOIN b JOIN c ON … ON …) stand in parentheses with it.
    """
    clause = select.args.get("from_")
    if clause is None:
        return
    first, joins = clause.this, list(select.args.get("joins") or [])
    if first.args.get("joins") and not (isinstance(first, exp.Subquery) and is_join(first)):
        select.set("joins", [join.pop() for join in list(first.args["joins"])] + joins)
        first.set("joins", None)
    for join in select.args.get("joins") or []:
        item = join.this
        if item.args.get("joins") and not (isinstance(item, exp.Subquery) and is_join(item)):
            join.set("this", exp.Subquery(this=item.copy()))


def with_laterals(select: exp.Select, env: Environment, catalog: Catalog) -> None:
    """Make a subquery of FROM that reads an item before it a LATERAL one, as DuckDB does."""
    names = Names(select, env, catalog)
    items = list(sources(select))
    for join in select.args.get("joins") or []:
        item = join.this
        if not isinstance(item, exp.Subquery) or is_join(item):
            continue
        before = items[: next(i for i, other in enumerate(items) if other is item)]
        if any(
            _certainly(names, other, column)
            for column in outside(item, env, catalog)
            for other in before
        ):
            alias = item.args.get("alias")
            item.set("alias", None)
            join.set("this", exp.Lateral(this=item, alias=alias))


def tests_in_items(select: exp.Select, env: Environment, catalog: Catalog) -> None:
    """Move the conditions of a LEFT JOIN that hold a subquery into its right side, if they read that alone.

    Claim:   the block has the same rows.
    Why:     a left join keeps every row of its left side, with the rows of the right side for which ON
             is true: a condition on these alone says which of them there are to be met.
    Assumes: nothing for privacy. Names are sure to be the right side's.  Source: SQL's left join.
    """
    names = Names(select, env, catalog)
    items = list(sources(select))
    for join in select.args.get("joins") or []:
        item, on = join.this, join.args.get("on")
        if join.side != "LEFT" or join.method or join.kind not in ("", "OUTER") or on is None:
            continue
        if not isinstance(item, exp.Table | exp.Subquery) or not item.alias_or_name:
            continue
        others = [other for other in items if other is not item]
        parts = list(on.flatten()) if isinstance(on, exp.And) else [on]
        moved = [
            part
            for part in parts
            if part.find(exp.Query) is not None
            and all(
                _certainly(names, item, column)
                and (column.table or not any(names.gives(other, column) for other in others))
                for column in outside(part, env, catalog)
            )
        ]
        if moved:
            rest = [part for part in parts if part not in moved] or [exp.true()]
            join.set("on", exp.and_(*rest, copy=False))
            alias = exp.TableAlias(this=exp.to_identifier(item.alias_or_name, quoted=True))
            kept = exp.Select(expressions=[exp.Star()], from_=exp.From(this=item))
            kept.set("where", exp.Where(this=exp.and_(*moved, copy=False)))
            join.set("this", exp.Subquery(this=kept, alias=alias))


def unpivoted(node: exp.Subquery) -> tuple[exp.Subquery, list[exp.Pivot]]:
    """Return a subquery of FROM without what PIVOT or UNPIVOT make of it, and these."""
    pivots = node.args.get("pivots") or []
    if not pivots:
        return node, []
    bare = node.copy()
    bare.set("pivots", None)
    return bare, pivots


def pivot_alias(pivots: list[exp.Pivot]) -> str:
    """Return the name that stands behind the last PIVOT, or nothing."""
    return pivots[-1].alias if pivots else ""


def _certainly(names: Names, item: exp.Expr, column: exp.Column) -> bool:
    return bool(column.table or names.columns(item) is not None) and names.gives(item, column)


def as_query(tree: exp.Expr) -> exp.Expr:
    """Return what an item of FROM over open data gives, as a query."""
    if isinstance(tree, exp.Subquery) and not tree.args.get("pivots"):
        inner: exp.Expr = tree.this
        return inner
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=tree))


def alias_columns(node: exp.Expr) -> list[exp.Identifier]:
    """Return the names of columns that stand after an item's alias."""
    alias = node.args.get("alias")
    return list(alias.args.get("columns") or []) if isinstance(alias, exp.TableAlias) else []
