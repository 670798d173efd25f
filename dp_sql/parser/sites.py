"""Where an item of FROM stands in a statement's text."""

from __future__ import annotations

from sqlglot import exp

from dp_sql.parser.scope import Statement
from dp_sql.parser.spans import name_span
from dp_sql.parser.text import position_of
from dp_sql.plan.rows import Site


def site_of(statement: Statement, node: exp.Expr, alias: str) -> Site:
    """Return where an item stands, with its span where it is a table by its name."""
    text, position = statement.text, position_of(statement.text, node)
    name = alias or "this relation"
    named = node.args.get("alias")
    found = name_span(node) if isinstance(node, exp.Table) else None
    last = found if named is None else name_span(named.this)
    if found is None or last is None or (named is not None and named.args.get("columns")):
        return Site(text, position, name)
    return Site(text, position, name, text[slice(*found)], (found[0], last[1]))
