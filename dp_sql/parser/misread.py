"""Other databases' grammar in a text that can't be read: what it is called, and what is written here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from dp_sql.dataclass import dataclass

_STARTS = ("SELECT", "WITH", "FROM", "EXPLAIN", "SET", "RESET")
_TOP = re.compile(
    r"^(\s*SELECT\s+(?:DISTINCT\s+)?)TOP\s*\(?\s*(\d+)\s*\)?\s+(.*?);?\s*$",
    re.IGNORECASE | re.DOTALL,
)
_BRACKETS = re.compile(r"(?<=[\s.])\[(\w+)\]")
_THOUSANDS = re.compile(r"(?<![\w.'])(\d{1,3}(?:,\d{3})+)(?![\w'])")


@dataclass(frozen=True, slots=True)
class Misread:
    """hint: what is written instead, None where nothing is known; tries: statements with it."""

    hint: str | None
    tries: tuple[str, ...] = ()


def misread(text: str, words: Sequence[str]) -> Misread:
    """Return what a text that can't be read may mean. words: its tokens, in order."""
    first = words[0].upper() if words else ""
    top = _TOP.match(text)
    if top is not None:
        return Misread("LIMIT at the end, over groups", (f"{top[1]}{top[3]} LIMIT {top[2]}",))
    if _BRACKETS.search(text):
        plain = _BRACKETS.sub(r'"\1"', text)
        return Misread('names in double quotes, not in brackets: "name"', (plain,))
    if "{{" in text or "}}" in text:
        return Misread("the value itself: a template isn't filled in here")
    if _THOUSANDS.search(text):
        plain = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)
        return Misread("numbers without commas: 1000", (plain,))
    if first and first not in _STARTS:
        close = difflib.get_close_matches(first, _STARTS, n=1, cutoff=0.7)
        if close:
            tries = (text.replace(words[0], close[0], 1),)
            return Misread(f"{close[0]}, for {words[0][:20]}", tries)
    opened = sum((word == "(") - (word == ")") for word in words)
    if opened:
        missing, sign = ("closed", ")") if opened > 0 else ("opened", "(")
        closed = text + sign * opened  # as it stands where there are too many
        return Misread(f"{abs(opened)} more {sign}: not every parenthesis is {missing}", (closed,))
    if words and words[-1].upper() in ("AND", "OR", "WHERE", "BY", "ON", ",", "=", "<", ">"):
        return Misread(f"something after {words[-1].upper()}, or leave it out")
    return Misread(None)
