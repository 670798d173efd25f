"""Forms of FROM that are read as others: joins within joins, and subqueries that read their neighbours."""

from __future__ import annotations

from sqlglot import exp

from dp_sql.parser.own_names import Names, is_join, sources
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
        own = Names(item, env, catalog)
        if any(
            not isinstance(column.this, exp.Star)
            and not own.knows(column, aliases=True)
            and any(_certainly(names, other, column) for other in before)
            for column in item.find_all(exp.Column)
        ):
            alias = item.args.get("alias")
            item.set("alias", None)
            join.set("this", exp.Lateral(this=item, alias=alias))


def _certainly(names: Names, item: exp.Expr, column: exp.Column) -> bool:
    return bool(column.table or names.columns(item) is not None) and names.gives(item, column)
