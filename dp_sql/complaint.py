"""What DuckDB says against the analyst's SQL above the releases: its message, place and proposals."""

from __future__ import annotations

import json
import re

from dp_sql.dataclass import dataclass
from dp_sql.errors import Position

_LONGEST = 200  # characters of a message
_SHOWN = 3  # signatures
_SIGNATURE = re.compile(r"\t\w+\(.*\) -> ")  # of a function, not of an operator
_NUMBERS = re.compile(r"\d+")  # of columns and types, which two forms of a statement count apart


@dataclass(frozen=True, slots=True)
class Complaint:
    """One error of DuckDB, read under `errors_as_json`.

    message: its first line. kind: as DuckDB names it. name: the function or column it is about, or
    None. place: (first byte, bytes) in the text that was run, or None. hint: what to write, or None.
    """

    message: str
    kind: str
    name: str | None
    place: tuple[int, int] | None
    hint: str | None

    def same(self, other: Complaint) -> bool:
        """Return whether two complaints, of two forms of one statement, are about the same thing."""
        return (self.kind, self._about()) == (other.kind, other._about())

    def _about(self) -> str:
        return self.name or _NUMBERS.sub("", self.message)


def read_complaint(error: Exception) -> Complaint:
    """Return what an error says; its text alone where it isn't JSON."""
    kind, _, rest = str(error).partition(": ")
    try:
        found = json.loads(rest)
        message = str(found["exception_message"])
    except (ValueError, TypeError, KeyError):
        first = (rest or kind).split("\n", maxsplit=1)[0]
        return Complaint(first[:_LONGEST], kind, None, None, None)
    first, *others = message.split("\n")
    return Complaint(
        first[:_LONGEST],
        str(found.get("exception_type")),
        found.get("name"),
        _place(str(found.get("location", ""))),
        _hint(str(found.get("error_subtype", "")), str(found.get("candidates", "")), others),
    )


def position_in(text: str, complaint: Complaint, before: int) -> Position | None:
    """Return where in `text`, which followed `before` bytes of ours, a complaint points, or None."""
    if complaint.place is None:
        return None
    data, start = text.encode(), complaint.place[0] - before
    if not 0 <= start < len(data):
        return None
    ahead = data[:start].decode(errors="ignore")
    length = len(data[start : start + complaint.place[1]].decode(errors="ignore"))
    return Position(ahead.count("\n") + 1, len(ahead) - (ahead.rfind("\n") + 1) + 1, max(1, length))


def _place(location: str) -> tuple[int, int] | None:
    parts = location.strip("[]").split(",")
    if len(parts) != 2 or not all(part.strip().isdigit() for part in parts):
        return None
    return int(parts[0]), int(parts[1])


def _hint(subtype: str, candidates: str, lines: list[str]) -> str | None:
    if subtype == "MISSING_ENTRY" and candidates:
        return f"{candidates.split(',', maxsplit=1)[0]}(…)"
    signatures = [line.strip() for line in lines if _SIGNATURE.match(line)]
    if signatures:
        return " or ".join(signatures[:_SHOWN])
    return None
