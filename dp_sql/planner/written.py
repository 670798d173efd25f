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
    found = _argument(text, position)
    return None if found is None or text is None else " ".join(text[slice(*found)].split())


def with_argument(text: str | None, position: Position | None, new: str) -> str | None:
    """Return the text with another argument in the call at `position`; None where it isn't clear."""
    found = _argument(text, position)
    return None if found is None or text is None else text[: found[0]] + new + text[found[1] :]


def _argument(text: str | None, position: Position | None) -> tuple[int, int] | None:
    """Return where the argument of a call starts and ends in the text."""
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
    return (call.end(), place - 1) if plain else None
