r"""Cuts what is typed into statements at the semicolons that stand outside quotes and comments."""

from __future__ import annotations

import re

# one match is a piece in which a semicolon ends nothing, or a semicolon that ends a statement;
# what isn't closed runs to the end of the text
_PIECES = re.compile(
    r"""
    (?P<closed> (?<!\w)[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*`
              | --[^\n]*\n | /\*.*?\*/ | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ )
  | (?P<open> ' | " | ` | -- | /\* | \$\w*\$ )
  | (?P<end> ; )
    """,
    re.VERBOSE | re.DOTALL,
)
_BLANKS = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)


def next_statement(text: str) -> tuple[str, str] | None:
    """Return the first statement of `text` without its semicolon, and what follows it.

    None where no semicolon ends it.
    """
    position = 0
    while (piece := _PIECES.search(text, position)) is not None:
        if piece.lastgroup == "open":
            return None
        position = piece.end()
        if piece.lastgroup == "end":
            return text[: piece.start()], text[position:]
    return None


def skip_blanks(text: str) -> str:
    """Return `text` without the blanks and comments that it begins with."""
    found = _BLANKS.match(text)
    return text[found.end() :] if found else text


def is_complete(text: str) -> bool:
    r"""Return whether nothing of `text` waits for more: it is empty, a `\` command or ends with `;`."""
    rest = skip_blanks(text)
    while rest and not rest.startswith("\\"):
        found = next_statement(rest)
        if found is None:
            return False
        rest = skip_blanks(found[1])
    return True
