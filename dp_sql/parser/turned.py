"""PIVOT and UNPIVOT of a declared table: refused, with the aggregates or rows by name that say the same."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dp_sql.parser.aggregates import has_aggregate
from dp_sql.parser.dialect import Reading
from dp_sql.parser.names import is_plain_table
from dp_sql.parser.scope import Statement

_BY_NAME = (
    "the values by name: COUNT(*) FILTER (WHERE k = 'a') AS a, COUNT(*) FILTER (WHERE k = 'b') AS b"
)
_BY_PART = (
    "the columns by name: FROM (SELECT owner, 'a' AS name, a AS value FROM t WHERE a IS NOT NULL UNION ALL "
    "SELECT owner, 'b', b FROM t WHERE b IS NOT NULL)"
)


def check_turned(statement: Statement, node: exp.Expr) -> None:
    """Raise UnsupportedSQLError for a table in FROM that is turned, or a turned one as its subquery."""
    whole = isinstance(node, exp.Pivot)
    pivots = [node] if whole else node.args.get("pivots")
    if not pivots or not (whole or (isinstance(node, exp.Table) and is_plain_table(node))):
        return
    if pivots[0].args.get("unpivot"):
        raise statement.unsupported(
            "UNPIVOT of a table isn't answered: it makes several rows of each.",
            node,
            hint=_BY_PART,
            tries=() if whole else _unpivoted(node, pivots),
        )
    raise statement.unsupported(
        "PIVOT of a table isn't answered: it would make its columns of the rows.",
        node,
        hint=_BY_NAME,
        tries=() if whole else _pivoted(node, pivots),
    )


def _block(node: exp.Expr, pivots: list[exp.Expr]) -> exp.Select | None:
    """Return the whole statement if it reads one turned table alone."""
    found = node.parent_select
    alone = found is not None and found.parent is None and not found.args.get("joins")
    return found if alone and len(pivots) == 1 and len(pivots[0].args["fields"]) == 1 else None


def _unpivoted(node: exp.Expr, pivots: list[exp.Expr]) -> Iterator[str]:
    """Yield the statement over the union of the columns that UNPIVOT puts below each other."""
    block = _block(node, pivots)
    names, values = pivots[0].args["fields"][0], pivots[0].expressions
    if block is None or len(values) != 1:
        return
    columns = [item.unalias() for item in names.expressions]
    if not all(isinstance(column, exp.Column) for column in columns):
        return
    bare = node.copy()
    for key in ("pivots", "alias"):
        bare.set(key, None)
    rows: list[exp.Select] = []
    for item, column in zip(names.expressions, columns, strict=True):
        said = exp.Literal.string(item.alias or column.name)
        own = [exp.alias_(said, names.this.name), exp.alias_(column.copy(), values[0].name)]
        star = exp.Star(except_=[c.this.copy() for c in columns])
        part = exp.Select(expressions=[star, *own], from_=exp.From(this=bare.copy()))
        if not pivots[0].args.get("include_nulls"):
            known = exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))
            part.set("where", exp.Where(this=known))
        rows.append(part)
    union: exp.Query = rows[0]
    for part in rows[1:]:
        union = exp.Union(this=union, expression=part, distinct=False)
    tree = block.copy()
    alias = exp.TableAlias(this=exp.to_identifier(node.alias_or_name))
    tree.set("from_", exp.From(this=exp.Subquery(this=union, alias=alias)))
    yield tree.sql(dialect=Reading)


def _pivoted(node: exp.Expr, pivots: list[exp.Expr]) -> Iterator[str]:
    """Yield each aggregate of each named value as one with FILTER, over all rows."""
    block, chosen = _block(node, pivots), pivots[0].args["fields"][0]
    if block is None or not isinstance(chosen, exp.In):
        return
    made: list[exp.Expr] = []
    for value in chosen.expressions:
        for call in pivots[0].expressions:
            if not has_aggregate(call.unalias()):
                return
            equal = exp.EQ(this=chosen.this.copy(), expression=value.unalias().copy())
            inside = exp.Filter(this=call.unalias().copy(), expression=exp.Where(this=equal))
            named = value.alias or value.name
            several = len(pivots[0].expressions) > 1
            name = (
                f"{named}_{call.alias or call.unalias().sql(dialect=Reading)}" if several else named
            )
            made.append(exp.alias_(inside, name, quoted=True))
    tree, bare = block.copy(), node.copy()
    bare.set("pivots", None)
    for key in ("order", "limit", "offset", "group", "having", "distinct"):
        tree.set(key, None)
    tree.set("from_", exp.From(this=bare))
    tree.set("expressions", made)
    yield tree.sql(dialect=Reading)
