"""The rows of functions that compare texts: LIKE and GLOB, regular expressions, distances.

Patterns are constants that are read before any row is (`plan.pattern`). Distances cost time and
memory by the product of the lengths, so that they are NULL for a text of more than _LONGEST_COMPARED
bytes.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable
from fractions import Fraction

from dp_sql.plan.arguments import (
    LONGEST,
    as_texts,
    booleans,
    constant_texts,
    fixed,
    given_pattern,
    given_text,
    integer_of,
    text_domain,
    text_of,
    whole_constants,
)
from dp_sql.plan.conversion import cast
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Call
from dp_sql.plan.intervals import interval
from dp_sql.plan.pattern import read_pattern
from dp_sql.plan.signature import Args, Function, TypeProblem, arity
from dp_sql.plan.sql_text import once
from dp_sql.schema.sqltype import BIGINT, BOOLEAN, DOUBLE, INTEGER, VARCHAR, SqlType

_LONGEST_COMPARED = 1_000  # bytes of each text that a distance is taken of
_OPTIONS = re.compile(r"[cimnps]*")
_OPTIONS_OF_REPLACE = re.compile(r"[cgimnps]*")
_REFERENCE = re.compile(r"\\(.?)", re.DOTALL)
_MOST_GROUPS = 9


def _like(name: str) -> Function:
    word = name.upper()

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(word, args, 2)
        typed = as_texts(word, args, 2)
        constant_texts(word, typed[1:])
        return typed, BOOLEAN

    return Function(name, typing, booleans, lambda t, _call: f"({t[0]} {word} {t[1]})")


def _like_escape(name: str) -> Function:
    """Return LIKE or ILIKE with an ESCAPE: DuckDB raises where a pattern ends with it."""
    word = name.removesuffix("_escape").upper()

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(word, args, 3)
        pattern = given_text(word, args[1], "its pattern")
        escape = given_text(word, args[2], "its escape")
        if len(escape) != 1 or not escape.isascii() or not escape.isprintable():
            raise TypeProblem(f"{word} takes one ASCII character as its escape")
        if pattern.replace(2 * escape, "").endswith(escape):
            raise TypeProblem(f"{word} takes a pattern that doesn't end with its escape")
        return as_texts(word, args, 3), BOOLEAN

    return Function(name, typing, booleans, lambda t, _call: f"{name}({', '.join(t)})")


def _options(name: str, args: Args, known: re.Pattern[str]) -> None:
    for arg in args:
        if not known.fullmatch(given_text(name, arg, "its options")):
            listed = known.pattern.strip("[]*")
            raise TypeProblem(f"{name} knows the options {', '.join(listed)}")


def _matches(name: str) -> Function:
    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 2, 3)
        given_pattern(name, args[1])
        _options(name, args[2:], _OPTIONS)
        return as_texts(name, args, len(args)), BOOLEAN

    return Function(name, typing, booleans, lambda t, _call: f"{name}({', '.join(t)})")


def _extract_typing(args: Args) -> tuple[Args, SqlType]:
    name = "regexp_extract"
    arity(name, args, 2, 4)
    pattern = given_pattern(name, args[1])
    whole_constants(name, args[2:3], 0, _MOST_GROUPS)
    if len(args) > 2 and integer_of(args[2]) > pattern.groups:
        raise TypeProblem(
            f"{name} takes group {integer_of(args[2])}, but there are {pattern.groups}"
        )
    _options(name, args[3:], _OPTIONS)
    group = (cast(args[2], INTEGER),) if len(args) > 2 else ()
    return (*as_texts(name, args[:2], 2), *group, *args[3:]), VARCHAR


def _replacement(text: str, groups: int) -> tuple[str, int]:
    """Return what a replacement writes itself, and how many groups it repeats.

    Raises TypeProblem for a backslash before anything but a backslash or the number of a group.
    """
    copies = 0
    for match in _REFERENCE.finditer(text):
        following = match.group(1)
        if following == "\\":
            continue
        if not (following.isascii() and following.isdigit()) or int(following) > groups:
            raise TypeProblem(
                f"regexp_replace takes a replacement in which \\{following} is no group;"
                r" a backslash is written \\"
            )
        copies += 1
    return _REFERENCE.sub(lambda m: "\\" if m.group(1) == "\\" else "", text), copies


def _replace_typing(args: Args) -> tuple[Args, SqlType]:
    name = "regexp_replace"
    arity(name, args, 3, 4)
    pattern = given_pattern(name, args[1])
    _replacement(given_text(name, args[2], "its replacement"), pattern.groups)
    _options(name, args[3:], _OPTIONS_OF_REPLACE)
    return as_texts(name, args, len(args)), VARCHAR


def _replaced(args: Args, size: Callable[[str], int]) -> Callable[[int], int]:
    """Return the rule from the size of a text to the most that REGEXP_REPLACE makes of it.

    size: of a text, in bytes or in characters; the rule is of the same.
    A match takes away `least` at least and gives the written text, and what its groups repeat: all
    matches together no more than the whole text each time.
    """
    pattern = read_pattern(text_of(args[1]))
    written, copies = _replacement(text_of(args[2]), pattern.groups)
    more = max(0, size(written) - pattern.least)
    everywhere = len(args) > 3 and "g" in text_of(args[3])

    def most(length: int) -> int:
        matches = 1 if not everywhere else length // pattern.least if pattern.least else length + 1
        return length + matches * more + copies * length

    return most


def _replace_text(texts: tuple[str, ...], call: Call) -> str:
    most = _replaced(call.args, lambda text: len(text.encode()))
    rest = ", ".join(texts[1:])
    if most(LONGEST) <= LONGEST:
        return f"regexp_replace({texts[0]}, {rest})"
    limit = bisect.bisect_right(range(LONGEST + 1), LONGEST, key=most) - 1
    return once(
        texts[0],
        lambda x: f"(CASE WHEN strlen({x}) <= {limit} THEN regexp_replace({x}, {rest}) END)",
    )


def _replace_length(lengths: tuple[int | None, ...], args: Args) -> int | None:
    return None if lengths[0] is None else _replaced(args, len)(lengths[0])


def _compared(
    name: str, type_: SqlType, domain: Callable[[tuple[Domain, ...], Args], Domain], also: str = ""
) -> Function:
    """Return a distance or likeness of two texts; `also` is what else has to hold of {0} and {1}."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 2)
        return as_texts(name, args, 2), type_

    def body(x: str, y: str) -> str:
        short = f"strlen({x}) <= {_LONGEST_COMPARED} AND strlen({y}) <= {_LONGEST_COMPARED}"
        return f"(CASE WHEN {short}{also.format(x, y)} THEN {name}({x}, {y}) END)"

    def text(texts: tuple[str, ...], _call: Call) -> str:
        return once(texts[0], lambda x: once(texts[1], lambda y: body(x, y)))

    return Function(name, typing, domain, text)


def _edits(domains: tuple[Domain, ...], _args: Args) -> Domain:
    """Return 0 to the length of the longer text: each of its characters is changed once at most."""
    longest = [d.max_length for d in domains]
    known = [n for n in longest if n is not None]
    high = Fraction(max(known)) if len(known) == len(longest) else None
    return Domain(Fraction(0), high, Fraction(1))


_LIKENESS = fixed(interval(0, 1, None))

ROWS = (
    _like("like"),
    _like("ilike"),
    _like("glob"),
    _like_escape("like_escape"),
    _like_escape("ilike_escape"),
    _matches("regexp_matches"),
    _matches("regexp_full_match"),
    Function(
        "regexp_extract",
        _extract_typing,
        text_domain(lambda n, _args: n[0]),
        lambda t, _call: f"regexp_extract({', '.join(t)})",
    ),
    Function("regexp_replace", _replace_typing, text_domain(_replace_length), _replace_text),
    _compared("levenshtein", BIGINT, _edits),
    _compared("damerau_levenshtein", BIGINT, _edits),
    _compared("hamming", BIGINT, _edits, " AND length({0}) = length({1}) AND {0} <> ''"),
    _compared("jaccard", DOUBLE, _LIKENESS, " AND {0} <> '' AND {1} <> ''"),
    _compared("jaro_similarity", DOUBLE, _LIKENESS),
    _compared("jaro_winkler_similarity", DOUBLE, _LIKENESS),
)
