"""Trials of codes, pieces of texts, rounding to even, Julian days and intervals of a number."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from trials import DATED, DECIMALS, FAR, FLOATS, INTEGERS, Trial

from dp_sql.plan.functions_calendar import MOVES
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind, SqlType

TEXT = sqltype.VARCHAR
SEPARATORS = ("", ",", "a", "É", "👍", "xx")


def codes() -> Iterator[Trial]:
    for name, growth in (("hex", 2), ("bin", 8), ("url_encode", 3)):
        yield Trial(name, (TEXT,), f"{name}({{0}})", f"strlen({{0}}) > {10_000 // growth}")
    for name, type_ in itertools.product(("hex", "bin"), INTEGERS):
        yield Trial(name, (type_,), f"{name}({{0}})")
    for name in ("md5_number_lower", "md5_number_upper"):
        yield Trial(name, (TEXT,), f"{name}({{0}})")


def pieces() -> Iterator[Trial]:
    long = "strlen({0}) > 10000"
    for by in SEPARATORS:
        for place in (1, 2, 0, -1, 2**31 - 1):
            yield Trial("split_item", (TEXT, by, place), "string_split({0}, {1})[{2}]", long)
        yield Trial("split_count", (TEXT, by), "len(string_split({0}, {1}))", long)
        for other in ("", "b", TEXT):
            plain = "list_contains(string_split({0}, {1}), {2})"
            yield Trial("split_contains", (TEXT, by, other), plain, long)
    for pattern in ("", "a", "[a-z]+", "É|👍", "(a)(b)?", "^", "x*"):
        yield Trial("match_count", (TEXT, pattern), "len(regexp_extract_all({0}, {1}))", long)
    for place in (0, 1, 3, -1, 2**31 - 1, -(2**31) + 1):
        yield Trial("array_extract", (TEXT, place), "{0}[{1}]")
        for last in (0, 2, -1, 2**31 - 1):
            yield Trial("array_slice", (TEXT, place, last), "{0}[{1}:{2}]")


def graphemes() -> Iterator[Trial]:
    yield Trial("length_grapheme", (TEXT,), "length_grapheme({0})")
    for count in (0, 1, 2, -1, 2**31 - 1, -(2**31) + 1):
        for name in ("left_grapheme", "right_grapheme", "substring_grapheme"):
            yield Trial(name, (TEXT, count), f"{name}({{0}}, {{1}})")
        yield Trial("substring_grapheme", (TEXT, 2, count), "substring_grapheme({0}, {1}, {2})")


def paths() -> Iterator[Trial]:
    for name in ("parse_filename", "parse_dirname", "parse_dirpath"):
        yield Trial(name, (TEXT,), f"{name}({{0}})")
        for by in ("both_slash", "forward_slash", "backslash"):
            yield Trial(name, (TEXT, by), f"{name}({{0}}, {{1}})")
    for short in (True, False):
        yield Trial("parse_filename", (TEXT, short), "parse_filename({0}, {1})")
        yield Trial("parse_filename", (TEXT, short, "backslash"), "parse_filename({0}, {1}, {2})")


def overlays() -> Iterator[Trial]:
    for new, first in itertools.product(("", "xy", "É👍"), (1, 3, 0, -2, 2**31 - 1, -(2**31) + 1)):
        lost = "strlen({0}) > 9000"
        yield Trial("overlay", (TEXT, new, first), "overlay({0}, {1}, {2})", lost)
        for count in (0, 1, 2**31 - 1):
            plain = "overlay({0}, {1}, {2}, {3})"
            yield Trial("overlay", (TEXT, new, first, count), plain, lost)


def evens() -> Iterator[Trial]:
    for name, places in itertools.product(("round_even", "roundbankers"), (0, 1, 2, 11, 300, 400)):
        for type_ in (*FLOATS, *DECIMALS, *INTEGERS):
            yield Trial(name, (type_, places), f"{name}({{0}}, {{1}})")
    for name, places in itertools.product(("round_even", "roundbankers"), (-1, -2, -38, -400)):
        for type_ in (*DECIMALS, *INTEGERS):
            yield Trial(name, (type_, places), f"{name}({{0}}::DOUBLE, {{1}})")
        for type_ in FLOATS:
            yield Trial(name, (type_, places), f"{name}({{0}}, {{1}})")


def tens() -> Iterator[Trial]:
    """Yield what rounds to one digit more than its type has: 9995 to 10000."""
    for digits, places in itertools.product((2, 4, 9, 18, 37), (-1, -2, -9, -38)):
        type_ = SqlType(Kind.DECIMAL, digits, 0)
        yield Trial("round", (type_, places), "round({0}, {1})")


def moves() -> Iterator[Trial]:
    for type_ in DATED:
        yield Trial("julian", (type_,), "julian({0})", FAR)
    for (name, most), type_ in itertools.product(MOVES.items(), INTEGERS):
        plain = f"{name}(TRY_CAST({{0}} AS BIGINT))"
        yield Trial(name, (type_,), plain, f"abs({{0}}::DOUBLE) > {most}")


GROUPS = (codes, pieces, graphemes, paths, overlays, evens, tens, moves)
