"""SET and RESET on a connection, notes, EXPLAIN with a clause, and carets above a release."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dp_sql
from dp_sql.errors import EngineError, ParameterError, QueryError

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {level: user, unit: person, defaults: {epsilon: 0.25}, caps: {epsilon: 1e7}}
tables:
  people:
    source: people.csv
    owner: id
    budget: {epsilon: 1e12, delta: 0.1, accountant: sequential}
    limits: {max_groups: 2, max_rows_per_group: 3}
    columns:
      id: {type: integer}
      city: {type: varchar, values: [oslo, rome, bonn], nullable: false}
      pay: {type: double, bounds: [-5, 10]}
"""
COUNT = "SELECT COUNT(*) FROM people"


@pytest.fixture
def people(tmp_path: Path) -> Iterator[dp_sql.Connection]:
    (tmp_path / "people.csv").write_text("id,city,pay\n1,oslo,3\n2,oslo,4\n", encoding="utf-8")
    path = tmp_path / "people.yaml"
    path.write_text(SCHEMA, encoding="utf-8")
    with dp_sql.connect(path, ledger=":memory:", reuse=False) as connection:
        yield connection


def cost(connection: dp_sql.Connection, sql: str = COUNT, **amounts: str) -> Fraction:
    return connection.sql(sql, **amounts).cost["people"].epsilon  # type: ignore[arg-type]


def test_set_holds_until_reset_and_gives_way_to_statement_and_call(
    people: dp_sql.Connection,
) -> None:
    assert cost(people) == Fraction(1, 4)
    result = people.sql("SET epsilon = 0.5;")
    assert (result.columns, result.fetchall(), result.cost) == (["Success"], [], {})
    assert cost(people) == Fraction(1, 2)
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 2) COUNT(*) FROM people"
    assert cost(people, clause) == 2
    assert cost(people, clause, epsilon="3") == 3
    people.sql("RESET epsilon")
    assert cost(people) == Fraction(1, 4)


def test_a_cursor_shares_the_session(people: dp_sql.Connection) -> None:
    cursor = people.cursor()
    assert cursor.execute("SET epsilon = 4").fetchall() == []
    assert cost(people) == 4


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SET epsilon = 0", ParameterError),
        ("SET epsilon = -1", ParameterError),
        ("SET epsilon = '1/2'", ParameterError),
        ("SET epsilon = 1e8", ParameterError),
        ("SET delta = 1", ParameterError),
        ("SET threads = 1", QueryError),
        ("SET epsilon = 1; SELECT 1", QueryError),
    ],
)
def test_a_set_that_is_refused_changes_nothing(
    text: str, kind: type[QueryError], people: dp_sql.Connection
) -> None:
    with pytest.raises(kind):
        people.sql(text)
    assert people.session == dp_sql.amounts.Amounts()
    assert people.budget()["people"].statements == 0


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("SET epsilon = 0", "SET epsilon = 0.5"),
        ("SET epsilon = 'abc'", "SET epsilon = 0.5"),
        ("SET epsilon = 1e8", "SET epsilon = 0.5"),
        ("SET delta = 1", "SET delta = 1e-9"),
        ("SET LOCAL epsilon = 0.6;", "SET epsilon = 0.6"),
        ("SET GLOBAL delta = 7", "SET delta = 1e-9"),
        ("RESET GLOBAL epsilon", "RESET epsilon"),
        ("SET threads = 1", "SET epsilon = 0.5"),
        ("SET", "SET epsilon = 0.5"),
    ],
)
def test_a_set_that_is_refused_shows_one_that_is_taken(
    text: str, example: str, people: dp_sql.Connection
) -> None:
    with pytest.raises(QueryError) as refused:
        people.sql(text)
    assert refused.value.example == example
    assert "^" in str(refused.value) or text == "SET"
    people.sql(example)


def test_a_session_s_setting_is_the_setting(people: dp_sql.Connection) -> None:
    people.sql("SET SESSION epsilon = 4")
    assert cost(people) == 4
    people.sql("RESET SESSION epsilon")
    assert cost(people) == Fraction(1, 4)


def test_a_note_says_what_null_groups_mean(people: dp_sql.Connection) -> None:
    sql = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = NULL)
             city, COUNT(*) FROM people GROUP BY city"""
    (note,) = people.sql(sql).notes
    assert "the schema's limit holds" in note
    assert people.explain(sql).startswith(f"Note: {note}")
    assert "at most 2 of a unit" in people.explain(sql)
    assert people.sql(COUNT).notes == ()


def test_explain_shows_the_clauses_limits_and_amounts(people: dp_sql.Connection) -> None:
    sql = """EXPLAIN SELECT WITH DIFFERENTIAL_PRIVACY
             OPTIONS(epsilon = 2, max_groups_contributed = 1, privacy_unit_column = id)
             city, SUM(pay, contribution_bounds_per_group => (0, 8)) FROM people GROUP BY city"""
    text = "\n".join(line for (line,) in people.sql(sql))
    assert "at most 1 of a unit" in text
    assert "of a unit in [0, 8]" in text
    assert "epsilon 2" in text
    assert people.budget()["people"].statements == 0


ABOVE = [
    ("SELECT rount(COUNT(*)) FROM people", "rount", "round(…)"),
    ("SELECT city,\n  rount(COUNT(*)) FROM people GROUP BY city", "rount", "round(…)"),
    ("SELECT 'ä', COUNT(*) + 'abc'::DATE FROM people", "+", None),
    ("SELECT round(city) FROM people GROUP BY city", "round(city)", "round(x"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) rount(COUNT(*)) FROM `people`", "rount", "round"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "word", "hint"), ABOVE, ids=[case[0] for case in ABOVE])
def test_what_duckdb_cant_bind_above_a_release_has_a_caret_and_a_hint(
    sql: str, word: str, hint: str | None, people: dp_sql.Connection
) -> None:
    with pytest.raises(QueryError, match="public data and results alone") as caught:
        people.sql(sql)
    place = caught.value.position
    assert place is not None
    assert sql.splitlines()[place.line - 1][place.column - 1 :].startswith(word)
    assert caught.value.hint
    assert hint is None or hint in caught.value.hint
    assert re.search(r"\^", str(caught.value))
    assert "exception_message" not in str(caught.value)
    assert people.budget()["people"].statements == 0


def test_what_fails_on_released_values_says_it_in_words(people: dp_sql.Connection) -> None:
    sql = "SELECT CAST(city AS INTEGER), COUNT(*) FROM people GROUP BY city"
    with pytest.raises(EngineError, match="Could not convert string") as caught:
        people.sql(sql)
    assert caught.value.hint
    assert "exception_message" not in str(caught.value)


@pytest.mark.parametrize("epsilon", [np.float64(0.5), np.float32(0.5), np.int64(2), np.uint8(2)])
def test_numpys_numbers_are_numbers(epsilon: float, people: dp_sql.Connection) -> None:
    assert people.sql(COUNT, epsilon=epsilon).cost["people"].epsilon == Fraction(float(epsilon))


def test_names_that_stand_twice_become_distinct_in_data_frames(people: dp_sql.Connection) -> None:
    sql = "SELECT COUNT(*) AS a, 2 AS A, 3 AS a_1, 4 AS a, 5 AS b FROM people"
    result = people.sql(sql)
    assert result.columns == ["a", "A", "a_1", "a", "b"]
    wanted = ["a", "A_1", "a_1_1", "a_2", "b"]
    assert result.arrow().column_names == wanted
    assert list(result.pl().columns) == wanted
    assert list(result.df().columns) == wanted
    assert result.pl().row(0)[1:] == (2, 3, 4, 5)
