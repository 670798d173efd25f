from __future__ import annotations

import pytest

from dp_sql.cli.statements import is_complete, next_statement, skip_blanks


@pytest.mark.parametrize(
    ("text", "statement", "rest"),
    [
        ("SELECT 1;", "SELECT 1", ""),
        ("SELECT 1; SELECT 2", "SELECT 1", " SELECT 2"),
        ("SELECT ';' AS a;x", "SELECT ';' AS a", "x"),
        ("SELECT 'it''s;' ;", "SELECT 'it''s;' ", ""),
        ('SELECT 1 AS "a;""b";', 'SELECT 1 AS "a;""b"', ""),
        ("SELECT `a;b`;", "SELECT `a;b`", ""),
        ("SELECT 1 -- a; b\n;", "SELECT 1 -- a; b\n", ""),
        ("SELECT 1 /* a; ' b */;", "SELECT 1 /* a; ' b */", ""),
        ("SELECT $$a;b$$;", "SELECT $$a;b$$", ""),
        ("SELECT $x$a;$$;b$x$;", "SELECT $x$a;$$;b$x$", ""),
        (r"SELECT e'it\';s';", r"SELECT e'it\';s'", ""),
        ("SELECT 'a\\';b", "SELECT 'a\\'", "b"),  # a backslash is nothing in a plain string
        ("-- it's\nSELECT 1;", "-- it's\nSELECT 1", ""),
        (";", "", ""),
    ],
)
def test_a_semicolon_outside_quotes_ends_a_statement(text: str, statement: str, rest: str) -> None:
    assert next_statement(text) == (statement, rest)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT 'a;",
        'SELECT "a;',
        "SELECT 1 -- ;",
        "SELECT /* ;",
        "SELECT $$ ;",
        "",
        "`;",
    ],
)
def test_what_is_not_closed_does_not_end(text: str) -> None:
    assert next_statement(text) is None
    assert text == "" or not is_complete(text)


@pytest.mark.parametrize(
    "text",
    ["", "  \n", "-- nothing", "/* nothing */ ", "SELECT 1;", "SELECT 1;\n-- end\n", "\\d", ";"],
)
def test_what_waits_for_nothing_is_complete(text: str) -> None:
    assert is_complete(text)


@pytest.mark.parametrize("text", ["SELECT 1; SELECT", "SELECT 1; 'x", "SELECT\n\\d"])
def test_what_waits_for_more_is_not(text: str) -> None:
    assert not is_complete(text)


def test_blanks_and_comments_are_skipped_only_at_the_beginning() -> None:
    assert skip_blanks(" -- a\n/* b\n */\n SELECT 1 -- c") == "SELECT 1 -- c"
    assert skip_blanks("-- only a comment") == ""
