"""Which names inside a subquery are its own, as far as names tell: those of its blocks' sources."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dp_sql.parser.scope import Environment, OpenName, PrivateRows
from dp_sql.schema.catalog import Catalog, ascii_lower

_Known = frozenset[str] | None  # lower-cased names of columns; None: any


class Names:
    """The names that the blocks inside a query have: aliases, and columns where they are known."""

    def __init__(self, query: exp.Expr, env: Environment, catalog: Catalog) -> None:
        self._query = query
        self._env = env
        self._catalog = catalog

    def knows(self, column: exp.Column, *, aliases: bool = False) -> bool:
        """Return whether some block around a column, up to the query, has what it names.

        aliases: whether a name of a select list counts, where an expression may use it.
        """
        below: exp.Expr = column
        node: exp.Expr | None = column
        while node is not None:
            if isinstance(node, exp.Select) and (
                any(self.gives(item, column) for item in sources(node))
                or (aliases and _is_alias(node, below, column))
            ):
                return True
            if isinstance(node, exp.SetOperation) and below.arg_key in ("order", "limit", "offset"):
                return True
            if node is self._query:
                return False
            below, node = node, node.parent
        return False

    def gives(self, item: exp.Expr, column: exp.Column) -> bool:
        """Return whether an item of FROM has what a column names."""
        if column.table:
            return ascii_lower(item.alias_or_name) == ascii_lower(column.table)
        known = self.columns(item)
        return known is None or ascii_lower(column.name) in known

    def columns(self, item: exp.Expr) -> _Known:
        """Return the names of the columns of an item of FROM; None where any may be one."""
        alias = item.args.get("alias")
        listed = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
        if listed:
            return frozenset(ascii_lower(name.name) for name in listed)
        inner = item.this if isinstance(item, exp.Lateral) else item
        if inner.args.get("pivots"):
            return None
        if isinstance(inner, exp.Subquery):
            return self._outputs(inner.this)
        if not isinstance(inner, exp.Table) or not isinstance(inner.this, exp.Identifier):
            return None
        spec = self._catalog.table(inner.name)
        if not inner.db:
            written = self._written(inner)
            if written is not None:
                return self._columns_of(written)
            cte = self._env.ctes.get(ascii_lower(inner.name))
            if isinstance(cte, PrivateRows):
                return frozenset(ascii_lower(named.name) for named in cte.columns)
            if isinstance(cte, OpenName):
                return None if cte.recursive else self._columns_of(cte.cte)
        return None if spec is None else frozenset(spec.columns)

    def _columns_of(self, cte: exp.CTE) -> _Known:
        listed = cte.args["alias"].args.get("columns")
        if listed:
            return frozenset(ascii_lower(name.name) for name in listed)
        return self._outputs(cte.this)

    def _written(self, table: exp.Table) -> exp.CTE | None:
        """Return the CTE inside the query that a table means, the nearest; None for none."""
        node: exp.Expr | None = table
        while node is not None:
            clause = node.args.get("with_")
            ctes: list[exp.CTE] = [] if clause is None else clause.expressions
            for cte in ctes:
                if ascii_lower(cte.alias) == ascii_lower(table.name):
                    return cte
            if node is self._query:
                return None
            node = node.parent
        return None

    def _outputs(self, query: exp.Expr) -> _Known:
        """Return the names of the columns that a query gives."""
        while isinstance(query, exp.Subquery):
            query = query.this
        if isinstance(query, exp.SetOperation):
            return self._outputs(query.this)
        if not isinstance(query, exp.Select):
            return None
        found = set[str]()
        for item in query.expressions:
            if isinstance(item, exp.Alias) or (
                isinstance(item, exp.Column) and not isinstance(item.this, exp.Star)
            ):
                found.add(ascii_lower(item.alias_or_name))
            elif item.find(exp.Star) and not isinstance(item, exp.AggFunc):
                return None
        return frozenset(found)


def sources(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the items of a block's FROM, those of joins in parentheses one by one."""
    clause = select.args.get("from_")
    if clause is not None:
        yield from _items(clause.this)
    for join in select.args.get("joins") or []:
        yield from _items(join.this)


def _items(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Subquery) and is_join(node):
        yield from _items(node.this)
    else:
        yield node
    for join in node.args.get("joins") or []:
        yield from _items(join.this)


def outside(part: exp.Expr, env: Environment, catalog: Catalog) -> list[exp.Column]:
    """Return the names in a condition that aren't those of its subqueries."""
    own = Names(part, env, catalog)
    return [
        column
        for column in part.find_all(exp.Column)
        if not isinstance(column.this, exp.Star) and not own.knows(column, aliases=True)
    ]


def is_join(node: exp.Subquery) -> bool:
    """Return whether parentheses in FROM hold a table or a join, not a query."""
    inner = node.this
    if not isinstance(inner, exp.Subquery):
        return not isinstance(inner, exp.Query)
    return bool(inner.args.get("joins") or inner.args.get("alias")) or is_join(inner)


def _is_alias(select: exp.Select, below: exp.Expr, column: exp.Column) -> bool:
    """Return whether a name stands for an item of the select list, for what stands after it."""
    if column.table:
        return False
    before = select.expressions
    if below.arg_key == "expressions":
        before = before[: below.index]
    return any(
        isinstance(item, exp.Alias) and ascii_lower(item.alias) == ascii_lower(column.name)
        for item in before
    )
