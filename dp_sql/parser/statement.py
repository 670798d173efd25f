"""The entry of the parser: a statement's text to a `Query`, or an error with a caret."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dp_sql.errors import QueryError
from dp_sql.parser.blocks import Blocks
from dp_sql.parser.release_block import RELEASED
from dp_sql.parser.scope import Environment, OpenBlock, Statement
from dp_sql.parser.text import parse_text
from dp_sql.plan.release import GROUP_NUMBER, Query, Residual
from dp_sql.schema.catalog import Catalog

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = re.compile(r"[A-Za-z0-9_ ]*")


def parse(text: str, catalog: Catalog) -> Query:
    """Return the plan of the one query in `text`.

    Raises QueryError (UnsupportedSQLError, NotPrivateError) for text that can't be answered. Names
    are resolved against `catalog` alone; no data are read.
    """
    tree = parse_text(text)
    statement = Statement(text, catalog)
    bound = Blocks(statement).query(tree, Environment({}), top=True)
    if not isinstance(bound, OpenBlock):
        raise statement.not_private(
            "the rows of a protected table can't be returned.",
            tree,
            hint="aggregate them: SELECT COUNT(*) FROM …",
        )
    rendered, items = _aligned(bound.tree, len(statement.releases))
    return Query(
        tuple(statement.releases),
        Residual(_render(rendered), text, tuple(sorted(statement.public_tables)), items),
    )


def _aligned(tree: exp.Expr, releases: int) -> tuple[exp.Expr, tuple[str | None, ...]]:
    """Return the tree with the group's number as last column, and its items, where rows are groups."""
    if not isinstance(tree, exp.Select):
        return tree, ()
    source = tree.args.get("from_")
    if (
        source is None
        or releases != 1
        or tree.args.get("distinct") is not None
        or tree.args.get("with_") is not None
        or tree.args.get("joins")
        or not isinstance(source.this, exp.Table)
        or source.this.db != RELEASED
    ):
        return tree, ()
    items = tuple(
        None if item.find(exp.Window, exp.Query, exp.Subquery) else _render(item.unalias())
        for item in tree.expressions
    )
    number = exp.column(GROUP_NUMBER, table=source.this.name, quoted=True)
    return tree.select(number, copy=False), items


def _render(tree: exp.Expr) -> str:
    """Return the text of a tree.

    Claim:   DuckDB reads in the text what the parser saw in the tree.
    Why:     the library writes most words as they are: a name that is no plain word gets quotes
             here, and any other word of more than letters (of a type, an argument, a unit) is
             refused.
    Assumes: the library escapes what it writes between quotes. (`postprocess` asks DuckDB itself
             whether the text is one query.)
    """
    for node in tree.walk():
        if isinstance(node, exp.Identifier):
            if not _WORD.fullmatch(node.name):
                node.set("quoted", True)  # noqa: FBT003  a property of the node
        elif not isinstance(node, exp.Literal | exp.RawString | exp.JSONPathPart):
            for value in node.args.values():
                if isinstance(value, str) and not _WORDS.fullmatch(value):
                    raise QueryError(
                        f"{value!r} can't be the name of a type, unit or argument.",
                        hint="a plain word without quotes",
                    )
    try:
        return tree.sql(dialect="duckdb", comments=False)
    except (SqlglotError, ValueError, RecursionError):
        raise QueryError("the part above the aggregates can't be written down again.") from None
