"""Regular expressions: which are read, which are refused and why, and that DuckDB reads them all."""

from __future__ import annotations

import random

import duckdb
import pytest

from dp_sql.plan.pattern import LONGEST, Pattern, PatternProblem, read_pattern
from dp_sql.plan.sql_text import text_literal


@pytest.mark.parametrize(
    ("text", "groups", "least"),
    [
        ("", 0, 0),
        ("abc", 0, 3),
        ("a|bcd", 0, 1),
        ("(a)(?:b)(c(d))", 3, 4),
        ("a{2}b{1,3}c{2,}d*e+f?", 0, 6),
        ("^É$", 0, 1),
        ("(?i)abc", 0, 3),
        ("(?i:a)(?s-m:b)", 0, 2),
        ("[^a-z\\]\\d_-]", 0, 1),
        ("[[:alpha:][:^digit:]-]", 0, 1),
        ("\\bword\\b", 0, 4),
        ("\\d{4}-\\d{2}", 0, 7),
        ("(a|)*", 1, 0),
    ],
)
def test_what_is_known_of_a_pattern(text: str, groups: int, least: int) -> None:
    assert read_pattern(text) == Pattern(groups, least)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(", "a \\( isn't closed"),
        ("a)", "closes nothing"),
        ("*a", "nothing that \\* could repeat"),
        ("a**", "repeats what is repeated"),
        ("^*", "nothing that \\* could repeat"),
        ("(?i)+", "nothing that \\+ could repeat"),
        ("a{2,1}", "from the smaller to the larger"),
        ("a{1001}", "up to 1000"),
        ("(a{40}){40}", "too many parts"),
        ("a{x}", "a { is written"),
        ("[", "ends too early"),
        ("[]", "holds nothing"),
        ("[z-a]", "stands between two characters"),
        ("[\\d-z]", "stands between two characters"),
        ("a]", "a \\] is written"),
        ("\\", "ends too early"),
        ("\\1", "isn't known"),
        ("\\pL", "isn't known"),
        ("[\\q]", "isn't known within"),
        ("(?P<x>a)", "groups have no names"),
        ("(?=a)", "nothing looks ahead"),
        ("(?)", "says nothing"),
        ("a\0", "a NUL"),
        ("(" * 31 + ")" * 31, "groups within groups"),
        ("a" * (LONGEST + 1), "more than 1000 characters"),
    ],
)
def test_what_is_refused(text: str, reason: str) -> None:
    with pytest.raises(PatternProblem, match=reason):
        read_pattern(text)


PIECES = (
    "a", "b", "É", "👍", "-", "]", "[", "^", "$", "(", ")", "|", "*", "+", "?", "{2}", "{1,3}", "{3,}",
    "{0}", "{40}", "\\d", "\\W", "\\b", "\\.", "[a-z]", "[^\\d]", "[[:alpha:]]", "(?:", "(?i)", "(?i:",
    ".", "\\", "{", "}", " ", "0", "[a-", "&&", "\\z", "\\A", "(?s-i:", "\\n", ",", "=", "!", "<", "#",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_duckdb_reads_every_pattern_that_is_read_here(seed: int) -> None:
    """The same grammar on both sides: no row's presence can show that a pattern is none."""
    rng = random.Random(seed)
    read = 0
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT unnest(['abc', '', 'É a-1', NULL]) AS x")
        for _ in range(4_000):
            text = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 9)))
            try:
                pattern = read_pattern(text)
            except PatternProblem:
                continue
            read += 1
            literal = text_literal(text)
            rows = con.execute(
                f"SELECT regexp_matches(x, {literal}), regexp_full_match(x, {literal}, 'ms'),"
                f" regexp_extract(x, {literal}, {min(pattern.groups, 9)}),"
                f" strlen(regexp_extract(x, {literal})), regexp_matches(x, {literal}) FROM t"
            ).fetchall()
            assert all(size >= pattern.least for *_, size, found in rows if found), text
    assert read > 500


def test_the_largest_patterns_have_room() -> None:
    with duckdb.connect() as con:
        for text in (
            "[^a]{900}",
            "(?i)[É-👍]{900}",
            "(?:\\W[^é]){300}",
            "(a|b|c){200}",
            "é" * (LONGEST - 1),
        ):
            read_pattern(text)
            con.execute(f"SELECT regexp_matches(x, '{text}') FROM (VALUES ('é')) t(x)").fetchall()
