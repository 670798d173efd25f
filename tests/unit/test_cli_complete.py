from __future__ import annotations

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from dp_sql.cli.commands import COMMANDS, completions
from dp_sql.cli.complete import ShellCompleter, candidates
from dp_sql.demo import SCHEMA
from dp_sql.schema.loader import load

CATALOG = load(SCHEMA)
WORDS = completions(CATALOG)


def words(before: str, after: str = "") -> list[str]:
    return [c.text for c in candidates(before, after, CATALOG, WORDS)[1]]


def test_tables_follow_from_and_join() -> None:
    assert words("SELECT COUNT(*) FROM ") == ["purchases"]
    assert words("SELECT COUNT(*) FROM pur") == ["purchases"]
    assert words("SELECT COUNT(*) FROM purchases p JOIN ") == ["purchases"]
    assert words("SELECT COUNT(*) FROM purchases p, ") == ["purchases"]


def test_columns_come_first_elsewhere() -> None:
    assert words("SELECT SUM(do") == ["dollars"]
    assert words("SELECT COUNT(*) FROM purchases WHERE ")[:4] == [
        "customer_id",
        "day",
        "cds",
        "dollars",
    ]


def test_a_table_or_its_alias_gives_its_columns() -> None:
    assert words("SELECT COUNT(*) FROM purchases AS p WHERE p.d") == ["day", "dollars"]
    assert words("SELECT SUM(purchases.", ") FROM purchases") == [
        "customer_id",
        "day",
        "cds",
        "dollars",
    ]
    assert words("SELECT SUM(q.", ") FROM purchases") == []


def test_keywords_functions_and_aggregates_follow_the_case_of_what_is_typed() -> None:
    assert words("sel") == ["select"]
    assert words("SEL") == ["SELECT"]
    assert "coalesce(" in words("SELECT SUM(coal")
    assert words("SELECT STDDEV_P") == ["STDDEV_POP("]
    assert words("select stddev_p") == ["stddev_pop("]


def test_commands_and_what_follows_them() -> None:
    assert words("\\") == list(COMMANDS)
    assert words("\\b") == ["\\budget"]
    assert words("\\d ") == ["purchases"]
    assert words("\\set i") == ["intervals"]
    assert words("\\format ") == ["table", "csv", "json", "md"]


def test_nothing_is_offered_before_a_word_has_begun() -> None:
    completer = ShellCompleter(CATALOG, WORDS)
    typing, asked = CompleteEvent(text_inserted=True), CompleteEvent(completion_requested=True)
    assert list(completer.get_completions(Document("SELECT "), typing)) == []
    assert list(completer.get_completions(Document("SELECT "), asked)) != []
    (found,) = completer.get_completions(Document("SELECT SUM(do"), typing)
    assert (found.text, found.start_position) == ("dollars", -2)


@pytest.mark.parametrize("before", ["'", '"', "\\nothing ", "SELECT .", "FROM (", "\x00", "é"])
def test_odd_text_is_no_error(before: str) -> None:
    candidates(before, "", CATALOG, WORDS)
