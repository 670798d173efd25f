"""Where a name or a call stands in a statement's text, and the text with something else there."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from dp_sql.parser.dot_calls import BEHIND

_QUOTES = "'\"`"
_COMMENTS = ("--", "/*")

_CALLED = re.compile(r"(\w+)\s*\(\s*$")
_NO_CALLS = (exp.Binary, exp.Case, exp.Cast, exp.If)

Span = tuple[int, int]


def name_span(node: exp.Expr) -> Span | None:
    """Return the start and end of a column's name, or of a function's without its arguments."""
    named = node.this if isinstance(node, exp.Column | exp.Table) else node
    start, end = named.meta.get("start"), named.meta.get("end")
    if not isinstance(start, int) or not isinstance(end, int):
        return None
    return start, end + 1


def function_span(text: str, node: exp.Expr) -> Span | None:
    """Return where the name of a function stands, also where the parser library doesn't say so."""
    if not isinstance(node, exp.Func):
        return None
    found = name_span(node)
    if found is not None or isinstance(node, _NO_CALLS):
        return found
    starts = [s for part in node.walk() if isinstance(s := part.meta.get("start"), int)]
    before = _CALLED.search(text[: min(starts)]) if starts else None
    return None if before is None else before.span(1)


def call_span(text: str, node: exp.Expr) -> tuple[Span, tuple[str, ...]] | None:
    """Return where a call stands with its arguments, and these as they are written.

    None where that isn't clear: for what is written as no call or behind a dot, and with comments between.
    """
    found = None if node.meta.get(BEHIND) else function_span(text, node)
    if found is None:
        return None
    start, end = found
    opened = end + len(text[end:]) - len(text[end:].lstrip())
    if text[opened : opened + 1] != "(":
        return found, ()
    depth, quote, parts, last = 0, "", [], opened + 1
    for place in range(opened, len(text)):
        sign = text[place]
        if quote:
            quote = "" if sign == quote else quote
        elif sign in _QUOTES:
            quote = sign
        elif text[place : place + 2] in _COMMENTS or sign == "$":
            return None
        else:
            depth += (sign in "([{") - (sign in ")]}")
            if (sign == "," and depth == 1) or not depth:
                parts.append(" ".join(text[last:place].split()))
                last = place + 1
        if not depth:
            return (start, place + 1), tuple(part for part in parts if part)
    return None


def replaced(text: str, spans: Iterable[tuple[Span, str]]) -> str:
    """Return a text with other words in the places of some, none of which overlap."""
    for (start, end), new in sorted(spans, reverse=True):
        text = text[:start] + new + text[end:]
    return text
