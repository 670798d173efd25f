"""Rows of text as a table of box-drawing characters, folded to the width of a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from dp_sql.cli.values import visible

_NARROWEST = 8  # columns that a folded cell keeps, where it has as many


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    width: int | None = None,
) -> str:
    """Return rows of text as a table that ends with a line break.

    numeric: which columns are set to the right. width: what the table is folded to, None for no
    limit; where the columns can't get that narrow it stays wider.
    """
    cells = [[visible(cell) for cell in row] for row in (columns, *rows)]
    natural = [max(map(_width, column), default=0) for column in zip(*cells, strict=True)]
    widths = natural if width is None else _fitted(natural, width - 3 * len(natural) - 1)
    lines = [_rule("╭", "┬", "╮", widths)]
    lines += _row(cells[0], widths, [False] * len(widths))
    lines.append(_rule("├", "┼", "┤", widths))
    for row in cells[1:]:
        lines += _row(row, widths, numeric)
    lines.append(_rule("╰", "┴", "╯", widths))
    return "\n".join(lines) + "\n"


def _rule(left: str, middle: str, right: str, widths: Sequence[int]) -> str:
    return left + middle.join("─" * (width + 2) for width in widths) + right


def _row(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> Iterator[str]:
    """Yield the lines of one row: several where a cell is folded."""
    folded = [list(_fold(cell, width)) for cell, width in zip(cells, widths, strict=True)]
    for parts in zip_longest(*folded, fillvalue=""):
        padded = (
            " " * (width - _width(part)) + part if right else part + " " * (width - _width(part))
            for part, width, right in zip(parts, widths, numeric, strict=True)
        )
        yield "│ " + " │ ".join(padded) + " │"


def _fitted(natural: Sequence[int], room: int) -> list[int]:
    """Return widths whose sum is at most `room`, if that can be: the widest columns give way."""
    least = [min(width, _NARROWEST) for width in natural]
    low, high = _NARROWEST, max(natural, default=0)
    while low < high:  # the largest limit at which all columns fit
        limit = (low + high + 1) // 2
        if sum(min(width, limit) for width in natural) <= room:
            low = limit
        else:
            high = limit - 1
    return [max(few, min(width, low)) for few, width in zip(least, natural, strict=True)]


def _fold(cell: str, width: int) -> Iterator[str]:
    if _width(cell) <= width:
        yield cell
        return
    part, used = "", 0
    for character in cell:
        more = _width(character)
        if part and used + more > width:
            yield part
            part, used = "", 0
        part += character
        used += more
    yield part


def _width(text: str) -> int:
    """Return the columns that a terminal gives a text: two for a wide character."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
