"""GoogleSQL's places in a list, x[OFFSET(0)] and its kin: which of DuckDB's, from 1, each one is."""

from __future__ import annotations

from sqlglot import exp

from dp_sql.dataclass import dataclass

_FIRST = {"OFFSET": 0, "ORDINAL": 1, "SAFE_OFFSET": 0, "SAFE_ORDINAL": 1}
_MOST = 2**31  # DuckDB's places are whole numbers; no list is so long
_MISSING = 0  # a place that no list has: NULL


class NoPlace(Exception):  # noqa: N818  (`dialect` makes it a refusal)
    """A place that has no equal here. hint: what to write; new: the words in the place of the old."""

    def __init__(self, message: str, hint: str, new: str = "") -> None:
        super().__init__(message)
        self.message, self.hint, self.new = message, hint, new


@dataclass(frozen=True, slots=True)
class Asked:
    """A place as it is written. node: what stands in the brackets; word: None for a bare number."""

    node: exp.Expr
    word: str | None
    number: int | None


def asked_of(node: exp.Bracket, *, google: bool) -> Asked | None:
    """Return the place that brackets ask for in GoogleSQL's words, None where they are DuckDB's.

    google: whether the statement has GoogleSQL's form, in which a bare number counts from 0.
    """
    if len(node.expressions) != 1:
        return None
    inside = node.expressions[0]
    if isinstance(inside, exp.Anonymous) and inside.name.upper() in _FIRST:
        values = inside.expressions
        return Asked(inside, inside.name.upper(), _whole(values[0]) if len(values) == 1 else None)
    is_key = isinstance(inside, exp.Slice) or (isinstance(inside, exp.Literal) and inside.is_string)
    return Asked(inside, None, _whole(inside)) if google and not is_key else None


def place(asked: Asked, of: exp.Expr) -> int:
    """Return DuckDB's place in the list `of`. Raises NoPlace where it has none with that meaning.

    An error of GoogleSQL, a place past the end, is one here: it is refused where the statement says how
    long the list is, and so are all places of a list where it doesn't. SAFE_ places are NULL there.
    """
    word, number, length = asked.word or "OFFSET", asked.number, _length(of)
    first, safe = _FIRST[word], word.startswith("SAFE_")
    if number is None and asked.word is None:
        start = "" if length else "SAFE_"
        raise NoPlace(
            "a place in brackets is a whole number that is constant.",
            f"[{start}OFFSET(0)], or [{start}ORDINAL(1)]",
            f"{start}OFFSET(0)",
        )
    if number is None:
        constant = f"SAFE_{word.removeprefix('SAFE_')}({first})"
        raise NoPlace(f"{word} takes a whole number that is constant.", f"x[{constant}]", constant)
    inside = first <= number < (_MOST if length is None else length + first)
    if safe:
        return number + 1 - first if inside else _MISSING
    if asked.word is None and length is None:
        raise NoPlace(
            f"[{number}] is counted from 0 in GoogleSQL and from 1 in DuckDB.",
            f"[SAFE_OFFSET({number})], or [SAFE_ORDINAL({number})]",
            f"SAFE_OFFSET({number})",
        )
    if length is None:
        raise NoPlace(
            f"{word} would stop the statement where the list is shorter; how long it is isn't written here.",
            f"SAFE_{word}({number}), which is NULL there",
            f"SAFE_{word}({number})",
        )
    if not inside:
        last = f"{word}({length - 1 + first})"
        raise NoPlace(
            f"{word}({number}) is outside of the list: it has {length} elements.",
            f"{word}({first}) to {last}, or SAFE_{word}({number}), which is NULL",
            last if length else f"SAFE_{word}({number})",
        )
    return number + 1 - first


def _whole(node: exp.Expr) -> int | None:
    if isinstance(node, exp.Neg):
        found = _whole(node.this)
        return None if found is None else -found
    is_whole = isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()
    return int(node.name) if is_whole else None


def _length(of: exp.Expr) -> int | None:
    """Return how many elements a list has, None where its text doesn't say so."""
    while isinstance(of, exp.Paren | exp.Filter):
        of = of.this
    if isinstance(of, exp.ApproxQuantiles):
        parts = None if of.expression is None else _whole(of.expression)
        return None if parts is None else parts + 1
    if isinstance(of, exp.Array) and not any(isinstance(e, exp.Query) for e in of.expressions):
        return len(of.expressions)
    return None
