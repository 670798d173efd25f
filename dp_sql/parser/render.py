"""Writes a tree down again, as text for the DuckDB above the releases."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dp_sql.errors import QueryError, UnsupportedSQLError
from dp_sql.parser.dialect import BOUNDS, Reading

_CLOCKS: dict[type[exp.Expr], str] = {
    exp.CurrentDate: "current_date",
    exp.CurrentTimestamp: "get_current_timestamp",
    exp.Localtime: "current_localtime",
    exp.Localtimestamp: "current_localtimestamp",
}  # words that DuckDB takes for the column of that name where a select list makes one
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = re.compile(r"[A-Za-z0-9_ ]*")


def render(tree: exp.Expr) -> str:
    """Return the text of a tree, which is used up.

    Claim:   DuckDB reads in the text what the parser saw in the tree.
    Why:     the library writes most words as they are: a name that is no plain word gets quotes
             here, and any other word of more than letters (of a type, an argument, a unit) is
             refused.
    Assumes: the library escapes what it writes between quotes. (`postprocess` asks DuckDB itself
             whether the text is one query.)
    """
    for node in tree.walk():
        if BOUNDS in node.args:
            raise UnsupportedSQLError(
                "contribution bounds and proposals belong to an aggregate of protected rows.",
                hint="the aggregate without them",
            )
        if isinstance(node, exp.Identifier):
            if not is_word(node.name):
                node.set("quoted", True)  # noqa: FBT003  a property of the node
        elif not isinstance(node, exp.Literal | exp.RawString | exp.JSONPathPart):
            for value in node.args.values():
                if isinstance(value, str) and not _WORDS.fullmatch(value):
                    raise QueryError(
                        f"{value!r} can't be the name of a type, unit or argument.",
                        hint="a plain word without quotes",
                    )
    for node in list(tree.find_all(*_CLOCKS)):
        node.replace(exp.Anonymous(this=_CLOCKS[type(node)]))
    try:
        return tree.sql(dialect=Reading, comments=False, copy=False)
    except (SqlglotError, ValueError, RecursionError):
        raise QueryError("the part above the aggregates can't be written down again.") from None


def is_word(name: str) -> bool:
    """Return whether a name is a plain word, which reads the same with quotes and without."""
    return _WORD.fullmatch(name) is not None
