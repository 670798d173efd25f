"""What an aggregate's argument is in the statement's own text, for a hint that can be run."""

from __future__ import annotations

import re

from dp_sql.errors import Position

_NAME = re.compile(r"\w+\s*\(")
_QUOTES = "'\""


def written_argument(text: str | None, position: Position | None) -> str | None:
    """Return the one argument of the call at `position`, as it is written; None where it isn't clear.

    A line and a column count as in `Position`. Comments, and several arguments, aren't clear.
    """
    if text is None or position is None:
        return None
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: position.line - 1])) + position.column - 1
    call = _NAME.match(text, start)
    if call is None:
        return None
    depth, place, quote = 1, call.end(), ""
    while place < len(text) and depth:
        sign = text[place]
        if quote:
            quote = "" if sign == quote else quote
        elif sign in _QUOTES:
            quote = sign
        elif (
            text[place : place + 2] in ("--", "/*", "=>")
            or sign == "$"
            or (depth == 1 and sign == ",")
        ):
            return None
        else:
            depth += (sign in "([{") - (sign in ")]}")
        place += 1
    found = " ".join(text[call.end() : place - 1].split())
    plain = found and not depth and not re.match(r"(DISTINCT|ALL)\b", found, re.IGNORECASE)
    return found if plain else None
