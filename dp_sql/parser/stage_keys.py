"""Which columns of a stage tell its rows apart."""

from __future__ import annotations

from sqlglot import exp

from dp_sql.parser.group_keys import grouping, names_of
from dp_sql.parser.release_block import RELEASED
from dp_sql.parser.scope import Environment, OpenName, Statement
from dp_sql.schema.catalog import ascii_lower
from dp_sql.schema.sqltype import SqlType

_MAKES_ROWS = (exp.Unnest, exp.Explode, exp.Posexplode, exp.Columns, exp.Anonymous)


def telling(
    statement: Statement, env: Environment, tree: exp.Expr, types: list[SqlType]
) -> tuple[int, ...]:
    """Return the positions of columns whose values together only one row of an open query has.

    They are the keys of a GROUP BY, or of the one release that the query reads. None where a key
    isn't among the columns or is a float, or where nothing says so. (The engine keeps one row of
    each: that groups are told apart by their keys is meaning, not privacy.)
    """
    tree = _opened(env, tree)
    if not isinstance(tree, exp.Select) or len(tree.expressions) != len(types):
        return ()
    if tree.is_star or any(item.find(*_MAKES_ROWS) for item in tree.expressions):
        return ()
    keys = _grouped(statement, env, tree) if tree.args.get("group") else _released(statement, tree)
    items = [item.unalias() for item in tree.expressions]
    places = [items.index(key) for key in keys if key in items]
    told = len(places) == len(keys) and not any(types[place].is_float for place in places)
    return tuple(places) if told else ()


def _opened(env: Environment, tree: exp.Expr) -> exp.Expr:
    """Return the query that a tree stands for: without parentheses, of a CTE what it is defined as."""
    while isinstance(tree, exp.Subquery):
        tree = tree.this
    if isinstance(tree, exp.Select) and {k for k, v in tree.args.items() if v} == {
        "expressions",
        "from_",
    }:
        table = tree.args["from_"].this
        named = env.ctes.get(ascii_lower(table.name)) if isinstance(table, exp.Table) else None
        plain = isinstance(named, OpenName) and not named.recursive and not table.db
        if tree.expressions == [exp.Star()] and plain and isinstance(named, OpenName):
            return _opened(env, named.cte.this)
    return tree


def _grouped(statement: Statement, env: Environment, tree: exp.Select) -> list[exp.Expr]:
    """Return the one set of keys that a query groups by, an alias as what it stands for."""
    keys, sets = grouping(statement, tree)
    if len(sets) > 1:
        return []
    known = names_of(tree, env, statement.catalog)
    aliases = {ascii_lower(i.alias): i.this for i in tree.expressions if isinstance(i, exp.Alias)}
    return [
        aliases.get(ascii_lower(key.name), key)
        if isinstance(key, exp.Column) and not key.table and not known.knows(key)
        else key
        for key in keys
    ]


def _released(statement: Statement, tree: exp.Select) -> list[exp.Expr]:
    """Return the keys of the one release that a query reads, as it names them."""
    clause = tree.args.get("from_")
    table = clause.this if isinstance(clause, exp.From) else None
    if not isinstance(table, exp.Table) or table.db != RELEASED or tree.args.get("joins"):
        return []
    release = next(r for r in statement.releases if r.name == table.name)
    if len(release.sets) > 1:
        return []
    alias = exp.to_identifier(table.alias_or_name, quoted=True)
    return [exp.column(exp.to_identifier(k.name, quoted=True), alias) for k in release.keys]
