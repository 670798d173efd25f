"""What a schema that `dpsql init` wrote leaves to a person: marked with one word until it is decided."""

from __future__ import annotations

import re

from dp_sql.dataclass import dataclass

MARK = "DECIDE"
_MARKED = re.compile(rf"#.*\b{MARK}\b|:\s*{MARK}\s*(#|$)")  # in a comment, or a whole value


@dataclass(frozen=True, slots=True)
class Undecided:
    """A line that holds the mark. line: counts from 1."""

    line: int
    text: str


def undecided(text: str) -> tuple[Undecided, ...]:
    """Return the lines of a schema file that a person has still to decide: comments and values.

    In a list of values the word is a value like others.
    """
    lines = enumerate(text.splitlines(), 1)
    return tuple(Undecided(n, line.strip()) for n, line in lines if _MARKED.search(line))
