"""What the parser refuses: each with its class, a caret where there is a place, and a way out."""

from __future__ import annotations

import pytest
from small_catalog import CATALOG

from dp_sql.errors import EngineError, NotPrivateError, QueryError, UnsupportedSQLError
from dp_sql.parser.dialect import require_readable
from dp_sql.parser.statement import parse

REFUSED = [
    ("", QueryError),
    ("   ; ", QueryError),
    ("SELEC 1", QueryError),
    ("SELECT COUNT(*) FROM visits WHERE", QueryError),
    ("SELECT 'abc", QueryError),
    ("SELECT 1; SELECT 2", UnsupportedSQLError),
    ("SELECT " + "(" * 41 + "1" + ")" * 41, QueryError),
    ("SELECT 1" + "+1" * 60_000, QueryError),
    ("SELECT " + "NOT " * 50 + "TRUE", QueryError),
    ("DELETE FROM visits", UnsupportedSQLError),
    ("SET threads = 4", UnsupportedSQLError),
    ("PRAGMA version", UnsupportedSQLError),
    ("SUMMARIZE visits", UnsupportedSQLError),
    ("DESCRIBE visits", UnsupportedSQLError),
    ("SHOW TABLES", UnsupportedSQLError),
    ("PIVOT visits ON region USING SUM(amount)", UnsupportedSQLError),
    ("SELECT * FROM visits", NotPrivateError),
    ("FROM visits", NotPrivateError),
    ("TABLE visits", NotPrivateError),
    ("SELECT amount FROM visits", NotPrivateError),
    ("SELECT visits FROM visits", NotPrivateError),
    ("SELECT user_id, COUNT(*) FROM visits GROUP BY user_id", NotPrivateError),
    ("SELECT COUNT(*) FROM visit", QueryError),
    ("SELECT COUNT(*) FROM other.visits", QueryError),
    ("SELECT COUNT(*) FROM 'visits.parquet'", QueryError),
    ("SELECT COUNT(*) FROM read_csv('x.csv')", UnsupportedSQLError),
    ("SELECT COUNT(*) FROM query_table('visits')", UnsupportedSQLError),
    ("SELECT SUM(amout) FROM visits", QueryError),
    ("SELECT SUM(category) FROM visits", QueryError),
    ("SELECT SUM(user_id) FROM visits", NotPrivateError),
    ("SELECT COUNT(*) FROM visits WHERE amount = 'abc'", QueryError),
    ("SELECT COUNT(*) FROM visits WHERE amount", QueryError),
    ("SELECT COUNT(*) FROM visits WHERE COUNT(*) > 1", QueryError),
    ("SELECT region FROM visits GROUP BY category", QueryError),
    ("SELECT region, COUNT(*) FROM visits", QueryError),
    ("SELECT COUNT(*) FROM visits GROUP BY 3", QueryError),
    ("SELECT COUNT(*) FROM visits GROUP BY ROLLUP(user_id)", NotPrivateError),
    ("SELECT COUNT(*) FROM visits GROUP BY GROUPING SETS ((region), (user_id))", NotPrivateError),
    ("SELECT MEDIAN(region) FROM visits", NotPrivateError),
    ("SELECT MIN(region) FROM visits", NotPrivateError),
    ("SELECT MAX(user_id) FROM visits", NotPrivateError),
    ("SELECT MEDIAN(DISTINCT amount) FROM visits", UnsupportedSQLError),
    ("SELECT MAX(amount, 2) FROM visits", UnsupportedSQLError),
    ("SELECT QUANTILE_CONT(amount, 1.5) FROM visits", QueryError),
    ("SELECT QUANTILE_CONT(amount, amount) FROM visits", UnsupportedSQLError),
    ("SELECT QUANTILE_CONT(amount, 0.12345) FROM visits", QueryError),
    ("SELECT QUANTILE_CONT(amount, []) FROM visits", UnsupportedSQLError),
    ("SELECT APPROX_QUANTILES(amount, 0) FROM visits", QueryError),
    ("SELECT MAX(SUM(amount)) FROM visits", QueryError),
    ("SELECT SAMPLE_AND_AGGREGATE('median', amount, 0, 1) FROM visits", UnsupportedSQLError),
    ("SELECT SAMPLE_AND_AGGREGATE('list', amount, 0, 1, 9) FROM visits", UnsupportedSQLError),
    ("SELECT SAMPLE_AND_AGGREGATE(amount, amount, 0, 1, 9) FROM visits", UnsupportedSQLError),
    ("SELECT SAMPLE_AND_AGGREGATE('median', SUM(amount), 0, 1, 9) FROM visits", QueryError),
    ("SELECT SAMPLE_AND_AGGREGATE('median', amount, 1, 1, 9) FROM visits", QueryError),
    ("SELECT SAMPLE_AND_AGGREGATE('median', amount, 0, amount, 9) FROM visits", QueryError),
    ("SELECT SAMPLE_AND_AGGREGATE('median', amount, 0, 1e16, 9) FROM visits", QueryError),
    ("SELECT SAMPLE_AND_AGGREGATE('median', amount, 0, 1, 0) FROM visits", QueryError),
    ("SELECT SAMPLE_AND_AGGREGATE('median', amount, 0, 1, 0.5) FROM visits", QueryError),
    ("SELECT SAMPLE_AND_AGGREGATE('median', region, 0, 1, 9) FROM visits", QueryError),
    ("SELECT SAMPLE_AND_AGGREGATE('mode', region, 0, 1, 9) FROM visits", QueryError),
    ("SELECT SAMPLE_AND_AGGREGATE('mode', user_id, 0, 1, 9) FROM visits", NotPrivateError),
    ("SELECT SAMPLE_AND_AGGREGATE('sum', amount, 0, 1, 9, contribution_bounds_per_row => (0, 1)) FROM visits",
     UnsupportedSQLError),
    (("SELECT r.region, SAMPLE_AND_AGGREGATE('sum', 1, 0, 1, 9) FROM regions r "
      "LEFT JOIN visits USING (region) GROUP BY r.region"), NotPrivateError),
    ("SELECT FIRST(amount) FROM visits", UnsupportedSQLError),
    ("SELECT STRING_AGG(category, ',') FROM visits", UnsupportedSQLError),
    ("SELECT SUM(DISTINCT amount) FROM visits", UnsupportedSQLError),
    ("SELECT COUNT(region, category) FROM visits", UnsupportedSQLError),
    ("SELECT SUM(COUNT(*)) FROM visits", QueryError),
    ("SELECT COUNT(*) FROM visits, users", NotPrivateError),
    ("SELECT COUNT(*) FROM visits WHERE date() = DATE '2016-05-01'", QueryError),
    ("SELECT COUNT(*) FROM visits FULL JOIN regions USING (region)", NotPrivateError),
    ("SELECT COUNT(*) FROM regions LEFT JOIN visits USING (region)", NotPrivateError),
    ("SELECT COUNT(*) FROM visits POSITIONAL JOIN regions", UnsupportedSQLError),
    ("SELECT COUNT(*) FROM visits TABLESAMPLE 10%", UnsupportedSQLError),
    ("SELECT COUNT(*) FROM visits USING SAMPLE 10%", UnsupportedSQLError),
    ("SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 3)", NotPrivateError),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT region FROM visits) JOIN regions USING (region)",
     NotPrivateError),
    ("SELECT COUNT(*) FROM (SELECT region FROM visits UNION SELECT region FROM visits)",
     NotPrivateError),
    ("SELECT COUNT(*) FROM visits WHERE random() < 0.5", UnsupportedSQLError),
    ("SELECT COUNT(*) FROM visits WHERE sleep_ms(100) IS NULL", UnsupportedSQLError),
    ("SELECT COUNT(*) FROM visits WHERE error('x')", UnsupportedSQLError),
    ("SELECT COUNT(*) FROM visits WHERE category LIKE 'x' ESCAPE 'é'", QueryError),
    ("SELECT COUNT(*) FROM visits WHERE row_number() OVER () = 1", QueryError),
    ("SELECT COUNT(*) FROM visits WHERE amount NOT IN (1, 2) = TRUE", UnsupportedSQLError),
    ("SELECT SUM(@amount) FROM visits", UnsupportedSQLError),
    ("SELECT COUNT(*) FROM visits WHERE amount > ?", UnsupportedSQLError),
    ("SELECT COUNT(*) FROM visits WHERE amount > 0x10", QueryError),
    ("SELECT #1 FROM visits", UnsupportedSQLError),
    ("SELECT * EXCLUDE (amount) FROM visits", NotPrivateError),
    ("SELECT COUNT(*) + (SELECT amount FROM visits) FROM visits", NotPrivateError),
    ("SELECT EXISTS (SELECT 1 FROM visits)", NotPrivateError),
    ("WITH RECURSIVE t AS (SELECT amount FROM visits UNION ALL FROM t) SELECT COUNT(*) FROM t",
     NotPrivateError),
    ("SELECT current_setting('threads')", UnsupportedSQLError),
    ("SELECT getenv('HOME'), COUNT(*) FROM visits", UnsupportedSQLError),
    ("WITH regions AS (SELECT * FROM visits) SELECT * FROM regions", NotPrivateError),
    ("SELECT VECTOR_SUM([amount]) FROM visits", UnsupportedSQLError),
    ("SELECT VECTOR_SUM(amount, 1) FROM visits", UnsupportedSQLError),
    ("SELECT VECTOR_SUM([amount], 1, 2) FROM visits", UnsupportedSQLError),
    ("SELECT VECTOR_SUM([], 1) FROM visits", UnsupportedSQLError),
    (f"SELECT VECTOR_SUM([{', '.join(['amount'] * 257)}], 1) FROM visits", UnsupportedSQLError),
    ("SELECT VECTOR_SUM([amount], amount) FROM visits", QueryError),
    ("SELECT VECTOR_SUM([amount], 0) FROM visits", QueryError),
    ("SELECT VECTOR_SUM([amount], -1) FROM visits", QueryError),
    ("SELECT VECTOR_SUM([amount], 1e101) FROM visits", QueryError),
    ("SELECT VECTOR_SUM([amount, category], 1) FROM visits", QueryError),
    ("SELECT VECTOR_SUM([amount, user_id], 1) FROM visits", NotPrivateError),
    ("SELECT VECTOR_SUM([amount, SUM(amount)], 1) FROM visits", QueryError),
    ("SELECT VECTOR_SUM([amount], 1, contribution_bounds_per_row => (0, 1)) FROM visits",
     UnsupportedSQLError),
    ("SELECT VECTOR_SUM([1], 1) FROM regions LEFT JOIN visits USING (region)", NotPrivateError),
    ("SELECT VECTOR_SUM([amount], 1) OVER () FROM visits", QueryError),
    ("SELECT COUNT(*) FROM visits WHERE VECTOR_SUM([amount], 1)[1] > 2", QueryError),
    ("SELECT user_id, VECTOR_SUM([amount], 1) AS v FROM visits GROUP BY user_id", QueryError),
    ("SELECT AVG(v[1]) FROM (SELECT user_id, VECTOR_SUM([amount], 1) AS v FROM visits GROUP BY user_id)",
     QueryError),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "kind"), REFUSED)
def test_refused(sql: str, kind: type[QueryError]) -> None:
    with pytest.raises(kind) as caught:
        parse(sql, CATALOG)
    error = caught.value
    assert error.message
    assert error.position is None or "^" in str(error)


@pytest.mark.parametrize("value", [None, 3, b"SELECT 1", ["SELECT 1"]])
def test_a_statement_is_a_text(value: object) -> None:
    with pytest.raises(QueryError, match="a statement is a text"):
        parse(value, CATALOG)  # type: ignore[arg-type]


def test_a_typo_gets_the_nearest_name_and_a_caret_under_it() -> None:
    with pytest.raises(QueryError) as caught:
        parse("SELECT region,\n       SUM(amout) FROM visits GROUP BY region", CATALOG)
    assert str(caught.value).splitlines() == [
        "no column is called 'amout' here.",
        "         SUM(amout) FROM visits GROUP BY region",
        "             ^^^^^",
        "Instead: amount",
    ]


@pytest.mark.parametrize(
    "file", [None, "/x/sqlglot/parser.cpython-311-x86_64-linux-gnu.so", "parser.pyd"]
)
def test_a_compiled_parser_library_is_refused_by_name(file: str | None) -> None:
    with pytest.raises(EngineError, match="sqlglotc"):
        require_readable(file)


@pytest.mark.parametrize("word", ["CURRENT_DATE", "current_timestamp", "localtimestamp"])
def test_a_word_without_parentheses_has_a_caret_under_it(word: str) -> None:
    with pytest.raises(UnsupportedSQLError) as caught:
        parse(f"SELECT COUNT(*) FROM visits WHERE amount > 1 AND {word} > NULL", CATALOG)
    message, text, carets, hint = str(caught.value).splitlines()
    assert (
        message
        == f"{word} isn't answered over protected rows: an answer doesn't depend on when it is asked."
    )
    assert text[carets.index("^") : carets.rindex("^") + 1] == word
    assert hint.startswith(("Instead: DATE '", "Instead: TIMESTAMP '"))


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("VECTOR_SUM([amount, minutes])", "VECTOR_SUM([amount, minutes], 1)"),
        ("VECTOR_SUM(amount, 5)", "VECTOR_SUM([amount], 1)"),
        ("VECTOR_SUM([amount], 0)", "VECTOR_SUM([amount], 1)"),
        ("VECTOR_SUM()", "VECTOR_SUM([x, y], 1)"),
    ],
)
def test_a_vector_that_is_written_wrong_is_shown_right(call: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(f"SELECT {call} FROM visits", CATALOG)
    assert caught.value.hint == hint
    if "x, y" not in hint:
        assert parse(f"SELECT {hint} FROM visits", CATALOG).releases


def test_a_sample_is_refused_with_a_way_out() -> None:
    with pytest.raises(UnsupportedSQLError) as caught:
        parse("SELECT COUNT(*) FROM visits USING SAMPLE 10%", CATALOG)
    assert "id % 10 = 0" in (caught.value.hint or "")
