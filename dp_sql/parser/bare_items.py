"""The items of a select list that have no name, as a text of their own that tells their names."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dp_sql.parser.text import CLOSING, OPENING
from dp_sql.plan.release import BareItems

_ENDS = {  # what may follow FROM
    TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY, TokenType.WINDOW,
    TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH, TokenType.SEMICOLON,
}  # fmt: skip


def bare_items(
    tree: exp.Expr, plain: str, tokens: Sequence[Token], own_names: Sequence[int]
) -> BareItems | None:
    """Return the items without a name of one SELECT, None where their text isn't found.

    plain: the statement's text as DuckDB reads it. own_names: the places of items whose names the
    engine gives.
    """
    if not isinstance(tree, exp.Select) or tokens[0].token_type != TokenType.SELECT:
        return None
    depth, source, end = 0, None, len(plain)
    cuts = [tokens[0].end + 1]
    for token in tokens[1:]:
        kind = token.token_type
        depth += int(kind in OPENING) - int(kind in CLOSING)
        if depth:
            continue
        if source is None and kind == TokenType.COMMA:
            cuts.append(token.start + 1)
        elif source is None and kind == TokenType.FROM:
            source = token.start
        elif kind in _ENDS:
            end = token.start
            break
    if source is None or len(cuts) != len(tree.expressions):
        return None
    ends = [*(cut - 1 for cut in cuts[1:]), source]
    places = tuple(
        i
        for i, item in enumerate(tree.expressions)
        if not isinstance(item, exp.Alias) and i not in own_names
    )
    items = "\n, ".join(
        plain[cuts[i] : ends[i]].strip() for i in places
    )  # a comment ends with its line
    return BareItems(f"SELECT {items}\n{plain[source:end].strip()}\nGROUP BY ALL", places)
