"""Calls behind their first argument, x.f(y) for f(x, y), and behind their schema, main.f(x)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from dp_sql.parser.aggregates import aggregate_name
from dp_sql.schema.catalog import ascii_lower

BEHIND = "behind"
"""What the meta of a call's node says of one whose first argument stands before its name."""

_SCHEMAS = frozenset({"main", "pg_catalog", "information_schema", "system", "temp", "memory"})
_SPECIAL = {"trim": exp.Trim, "floor": exp.Floor, "ceil": exp.Ceil}  # of one argument
_INSIDE = (
    exp.Func, exp.Binary, exp.Unary, exp.Paren, exp.Literal, exp.Boolean, exp.Null, exp.Identifier,
    exp.Column, exp.DataType, exp.Between, exp.Star,
)  # fmt: skip

MAX_DOTS = 30
"""How many names and calls may stand behind one another with dots: each is read with all before it."""

Builder = Callable[..., exp.Expr]


def in_front(tree: exp.Expr, builders: Mapping[str, Builder], dialect: Any) -> None:
    """Put what stands before the dot of each call into its parentheses, in place; drop DuckDB's schema.

    An aggregate, another schema's function and a call over more than an expression stay as they are.
    builders: of the parser's nodes, by the upper-cased name.
    """
    for dot in reversed(list(tree.find_all(exp.Dot))):  # the innermost first
        call, value = dot.expression, dot.this
        if not isinstance(call, exp.Anonymous) or aggregate_name(call) is not None:
            continue
        if any(arg.is_star for arg in call.expressions) or isinstance(dot.parent, exp.Window):
            continue
        args = [arg.copy() for arg in call.expressions]
        if [name.name.lower() for name in _path(value) or []] != ["main"]:
            first = _columns(value)
            if first is None:
                continue
            args.insert(0, first)
        made = _built(call, args, builders, dialect)
        if made is not None:
            made.meta.update(call.meta)
            made.meta[BEHIND] = True
            dot.replace(made)


def longest_chain(tree: exp.Expr) -> int:
    """Return how many dots stand behind one another at most."""
    longest = 0
    for dot in tree.find_all(exp.Dot):
        if isinstance(dot.parent, exp.Dot):
            continue
        node: exp.Expr = dot
        count = 0
        while isinstance(node, exp.Dot):
            node, count = node.this, count + 1
        longest = max(longest, count)
    return longest


def _built(
    call: exp.Anonymous, args: list[exp.Expr], builders: Mapping[str, Builder], dialect: Any
) -> exp.Expr | None:
    """Return the node of a call, None for one that its parser would read in another form."""
    name = call.name.upper()
    if call.name.lower() in _SPECIAL and len(args) == 1:
        return _SPECIAL[call.name.lower()](this=args[0])
    builder = builders.get(name)
    if builder is None:
        return exp.Anonymous(this=call.name, expressions=args)
    try:
        made = builder(args)
    except TypeError:
        made = builder(args, dialect=dialect)
    wrong = isinstance(made, exp.Func) and made.error_messages(args)
    return None if wrong or aggregate_name(made) is not None else made


def _columns(value: exp.Expr) -> exp.Expr | None:
    """Return an expression whose columns the parser library made parts of names; None if it isn't plain."""
    names = _path(value)
    if names is not None:
        return _column(names)
    nodes = list(value.walk(prune=lambda n: _path(n) is not None))
    if not all(isinstance(node, (*_INSIDE, exp.Dot)) for node in nodes):
        return None
    copy = value.copy()
    for node in list(copy.walk(prune=lambda n: _path(n) is not None)):
        path = _path(node)
        if path is None or isinstance(node.parent, exp.Column | exp.DataType):
            continue
        column = _column(path)
        if column is None:
            return None
        node.replace(column)
    return copy


def _column(names: list[exp.Identifier]) -> exp.Column | None:
    if len(names) > 2 or ascii_lower(names[0].name) in _SCHEMAS:
        return None
    last, *tables = names[::-1]
    return exp.Column(this=last.copy(), table=tables[0].copy() if tables else None)


def _path(node: exp.Expr) -> list[exp.Identifier] | None:
    """Return the parts of a name, None for every other node."""
    if isinstance(node, exp.Identifier):
        return [node]
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        before = _path(node.this)
        return None if before is None else [*before, node.expression]
    return None
