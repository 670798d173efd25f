"""COLUMNS(…) in a select list: the item once for each column that it names, as DuckDB does."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dp_sql.errors import QueryError
from dp_sql.parser.render import render
from dp_sql.parser.scope import Scope
from dp_sql.schema.catalog import ascii_lower


def with_items(scope: Scope, node: exp.Select) -> exp.Select:
    """Return a block without COLUMNS in its select list.

    An item without an alias gets the name of its column. Raises QueryError for a name that no column
    has or a pattern finds, UnsupportedSQLError for columns by a function, and for two sets in one item.
    """
    if not any(item.find(exp.Columns) for item in node.expressions):
        return node
    made = node.copy()
    made.set("expressions", [each for item in made.expressions for each in _spread(scope, item)])
    return made


def _spread(scope: Scope, item: exp.Expr) -> Iterator[exp.Expr]:
    calls = [node for node in item.walk(prune=_inside) if isinstance(node, exp.Columns)]
    if not calls or any(call.args.get("unpack") for call in calls):
        yield item
        return
    if any(call != calls[0] for call in calls):
        raise scope.statement.unsupported(
            "one item has one set of COLUMNS.", calls[-1], hint="an item for each set"
        )
    if isinstance(item, exp.Alias) and "\\" in item.alias:
        raise scope.statement.unsupported(
            "a name that is made of what a pattern finds isn't answered.",
            calls[0],
            hint="the names that AVG(COLUMNS(…)) has by itself, or AVG(x) AS name for each",
        )
    for column in _columns(scope, calls[0]):
        made = item.copy()
        for call in [n for n in made.walk(prune=_inside) if isinstance(n, exp.Columns)]:
            made = _put(made, call, column.copy())
        name = exp.to_identifier(column.name, quoted=True)
        yield made if isinstance(made, exp.Alias) else exp.Alias(this=made, alias=name)


def _inside(node: exp.Expr) -> bool:
    """Return whether a node is a subquery: its COLUMNS are its own."""
    return isinstance(node, exp.Query)


def _put(item: exp.Expr, call: exp.Columns, column: exp.Column) -> exp.Expr:
    """Return an item with a column in a call's place; the caret of an error stays there."""
    column.meta.update(call.this.meta)
    if call is item:
        return column
    call.replace(column)
    return item


def _columns(scope: Scope, call: exp.Columns) -> list[exp.Column]:
    """Return what COLUMNS stands for, in the order of *."""
    listed = call.this
    star = listed.this if isinstance(listed, exp.Column) else listed
    if isinstance(star, exp.Star):
        table = listed.table if isinstance(listed, exp.Column) else ""
        return _starred(scope, star, table)
    if isinstance(listed, exp.Literal) and listed.is_string:
        return _matching(scope, call, listed)
    if not isinstance(listed, exp.Array) or not all(
        isinstance(name, exp.Literal) and name.is_string for name in listed.expressions
    ):
        raise scope.statement.unsupported(
            "COLUMNS by a function isn't answered over protected rows.",
            call,
            hint="a pattern, COLUMNS('^am'), or the names: COLUMNS(['amount', 'minutes'])",
        )
    wanted = {ascii_lower(name.name): name for name in listed.expressions}
    known = _visible(scope)
    for name, node in wanted.items():
        if all(ascii_lower(c.name) != name for c in known):
            raise scope.unknown(exp.column(node.name))
    return [c for c in known if ascii_lower(c.name) in wanted]


def _matching(scope: Scope, call: exp.Columns, pattern: exp.Expr) -> list[exp.Column]:
    """Return the columns whose names match a regular expression: DuckDB itself says which.

    It is asked about a made-up row with these names, so nothing of the data decides.
    """
    known, describe = _visible(scope), scope.statement.describe
    names = {ascii_lower(c.name): c.name for c in known}
    if describe is None:
        raise scope.statement.unsupported(
            "COLUMNS by a pattern can't be read here.", call, hint=_listed(known)
        )
    row = [exp.alias_(exp.null(), name, quoted=True) for name in names.values()]
    made = exp.Subquery(this=exp.Select(expressions=row))
    query = exp.Select(
        expressions=[exp.Columns(this=exp.Literal.string(pattern.name))], from_=exp.From(this=made)
    )
    try:
        found = {ascii_lower(name) for name, _ in describe(render(query), (), [])}
    except QueryError:
        raise scope.statement.wrong(
            "no column's name matches this pattern, or DuckDB can't read it.",
            call,
            hint=_listed(known),
        ) from None
    return [c for c in known if ascii_lower(c.name) in found]


def _listed(known: list[exp.Column]) -> str:
    names = ", ".join("'" + c.name.replace("'", "''") + "'" for c in known[:3])
    return f"the names: COLUMNS([{names}])"


def _starred(scope: Scope, star: exp.Star, table: str) -> list[exp.Column]:
    left = {ascii_lower(node.name): node for node in star.args.get("except_") or []}
    if any(v for k, v in star.args.items() if k != "except_"):
        raise scope.statement.unsupported(
            "this form of * isn't answered in COLUMNS.", star, hint="COLUMNS(* EXCLUDE (…))"
        )
    found = _visible(scope)
    if table:
        sources = [s for s in scope.sources if ascii_lower(s.alias) == ascii_lower(table)]
        if not sources:
            tables = ", ".join(s.alias for s in scope.sources)
            raise scope.statement.wrong(
                f"no table is called {table!r} here.", star, hint=f"one of {tables}"
            )
        named = sources[0].columns
        found = [exp.column(n.name, table=sources[0].alias, quoted=True) for n in named]
    for name, node in left.items():
        if all(ascii_lower(c.name) != name for c in found):
            names = ", ".join(c.name for c in found)
            raise scope.statement.wrong(f"* has no column {name!r}.", node, hint=f"one of {names}")
    return [c for c in found if ascii_lower(c.name) not in left]


def _visible(scope: Scope) -> list[exp.Column]:
    """Return the columns of *; the name of one that USING merged is its alone."""
    found = []
    for item in scope.named():
        merged = ascii_lower(item.name) in scope.merged
        source = next((s for s in scope.sources if item in s.columns), None)
        table = None if merged or source is None else source.alias or None
        found.append(exp.column(item.name, table=table, quoted=True))
    return found
