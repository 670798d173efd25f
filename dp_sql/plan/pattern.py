"""Regular expressions as constants of a statement: which ones DuckDB can read, and what they match.

DuckDB reads a pattern when it meets the first row, and raises there if it can't: whether it raises
would tell whether there are rows. So a pattern is read here first, by a grammar that is a part of
RE2's, and everything outside it is refused.
"""

from __future__ import annotations

import re
import string

from dp_sql.dataclass import dataclass

LONGEST = 1_000  # characters of a pattern
_MOST_PARTS = 1_000  # of a pattern with every {n} written out; RE2 stops at a repetition of 1000
_DEEPEST = 30  # groups within groups
_FLAGS = re.compile(r"\?[imsU]*(?:-[imsU]+)?(?=[:)])")
_COUNT = re.compile(r"\{(\d{1,4})(?:(,)(\d{1,4})?)?\}")
_CLASSES = frozenset("dDwWsS")
_CONTROLS = frozenset("ntrfv")
_EDGES = frozenset("bBAz")
_POSIX = re.compile(
    r"\[:\^?(?:alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit):\]"
)


class PatternProblem(Exception):  # noqa: N818  (the typing of the function says which one it is)
    """A pattern isn't in the grammar: says what stands in the way in a clause."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is known of a pattern.

    groups: number of capturing groups.
    least: the fewest bytes of a match.
    """

    groups: int
    least: int


def read_pattern(text: str) -> Pattern:
    """Return what a pattern is.

    Claim:   DuckDB reads every pattern that is returned from, so that no row decides whether one is.
    Why:     the grammar below is a part of RE2's syntax; repetitions multiplied out stay below its
             limit of 1000 and its memory.
    Assumes: RE2 reads its documented syntax (tried on random patterns).
    Source:  [Cox2010]

    Raises:
        PatternProblem: for a pattern outside the grammar, or too long or too deep a one.
    """
    if len(text) > LONGEST:
        raise PatternProblem(f"it has more than {LONGEST} characters")
    reader = _Reader(text)
    part = reader.alternatives(0)
    if reader.at < len(text):
        raise PatternProblem("a ) closes nothing")
    if part.parts > _MOST_PARTS:
        raise PatternProblem("it repeats too many parts too often")
    return Pattern(reader.groups, part.least)


@dataclass(frozen=True, slots=True)
class _Part:
    least: int  # bytes
    parts: int


class _Reader:
    """Reads one pattern from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.groups = 0

    def alternatives(self, depth: int) -> _Part:
        found = [self.sequence(depth)]
        while self._take("|"):
            found.append(self.sequence(depth))
        return _Part(min(p.least for p in found), 1 + sum(p.parts for p in found))

    def sequence(self, depth: int) -> _Part:
        least, parts = 0, 0
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            piece = self._piece(depth)
            least, parts = least + piece.least, parts + piece.parts
        return _Part(least, parts)

    def _take(self, text: str) -> bool:
        found = self.text.startswith(text, self.at)
        self.at += len(text) if found else 0
        return found

    def _next(self) -> str:
        if self.at >= len(self.text):
            raise PatternProblem("it ends too early")
        self.at += 1
        character = self.text[self.at - 1]
        if character == "\0":
            raise PatternProblem("it holds a NUL")
        return character

    def _piece(self, depth: int) -> _Part:
        """Read one part and how often it stands there."""
        atom = self._atom(depth)
        if self.text[self.at : self.at + 1] not in ("*", "+", "?", "{"):
            return atom or _Part(0, 1)
        if atom is None:
            raise PatternProblem(f"there is nothing that {self.text[self.at]} could repeat")
        sign = self._next()
        low, high = {"*": (0, 1), "+": (1, 1), "?": (0, 1)}.get(sign, (0, 0))
        if sign == "{":
            low, high = self._count()
        self._take("?")
        if self.text[self.at : self.at + 1] in ("*", "+", "?", "{"):
            raise PatternProblem(f"{self.text[self.at]} repeats what is repeated already")
        return _Part(atom.least * low, max(1, atom.parts) * max(1, high) + 1)

    def _count(self) -> tuple[int, int]:
        match = _COUNT.match(self.text, self.at - 1)
        if match is None:
            raise PatternProblem("a { is written \\{ unless it counts, as in {2,3}")
        self.at = match.end()
        low = int(match.group(1))
        high = low if match.group(2) is None else int(match.group(3) or low)
        if not low <= high <= _MOST_PARTS:
            raise PatternProblem("the numbers in { } go from the smaller to the larger, up to 1000")
        return low, high

    def _atom(self, depth: int) -> _Part | None:
        """Read one part; None for one that can't be repeated."""
        character = self._next()
        match character:
            case "(":
                return self._group(depth)
            case "[":
                return self._class()
            case "\\":
                return self._escape()
            case "^" | "$":
                return None
            case "*" | "+" | "?" | "{":
                raise PatternProblem(f"there is nothing that {character} could repeat")
            case "]" | "}":
                raise PatternProblem(f"a {character} is written \\{character}")
            case _:
                return _Part(1, 1)

    def _group(self, depth: int) -> _Part | None:
        if depth >= _DEEPEST:
            raise PatternProblem(f"it has more than {_DEEPEST} groups within groups")
        flags = _FLAGS.match(self.text, self.at)
        if flags is None:
            if self.text[self.at : self.at + 1] == "?":
                raise PatternProblem("groups have no names, and nothing looks ahead or behind")
            self.groups += 1
        else:
            self.at = flags.end()
            if self._take(")"):
                if flags.group() == "?":
                    raise PatternProblem("a (?) says nothing")
                return None
            self._take(":")
        inner = self.alternatives(depth + 1)
        if not self._take(")"):
            raise PatternProblem("a ( isn't closed")
        return inner

    def _escape(self) -> _Part | None:
        character = self._next()
        if character in _EDGES:
            return None
        if character in _CLASSES or character in _CONTROLS or character in string.punctuation:
            return _Part(1, 1)
        raise PatternProblem(f"\\{character} isn't known")

    def _class(self) -> _Part:
        """Read what follows a [, to its ]."""
        self._take("^")
        previous: str | None = None  # a character that may begin a range
        items = 0
        while not self._take("]"):
            items += 1
            posix = _POSIX.match(self.text, self.at)
            if posix is not None:
                self.at, previous = posix.end(), None
                continue
            character = self._next()
            last = self.text[self.at : self.at + 1] == "]"
            if character == "-" and items > 1 and not last:
                self._range(previous)
                previous = None
            elif character == "[":
                raise PatternProblem("a [ within [ ] is written \\[")
            elif character == "\\":
                previous = self._escaped_in_class()
            else:
                previous = character
        if not items:
            raise PatternProblem("a [ ] holds nothing")
        return _Part(1, 1)

    def _escaped_in_class(self) -> str | None:
        character = self._next()
        if character in _CLASSES or character in _CONTROLS:
            return None
        if character in string.punctuation:
            return character
        raise PatternProblem(f"\\{character} isn't known within [ ]")

    def _range(self, first: str | None) -> None:
        last = self._next()
        if last == "\\":
            last = self._escaped_in_class() or ""
        if first is None or last in ("", "[") or not first <= last:
            raise PatternProblem("a - within [ ] stands between two characters, or is written \\-")
