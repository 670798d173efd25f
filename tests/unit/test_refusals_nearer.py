"""A refusal shows a statement near the analyst's own, in the analyst's words, and that one is answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from golden.shop import write_shop

import dp_sql
from dp_sql.errors import QueryError
from dp_sql.parser.leaner import leaner

GOOGLE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1e12, delta = 1e-9) "
NEARER = [
    (("SELECT COUNT(*) FROM visits v WHERE amount > (SELECT AVG(amount) FROM visits w WHERE w.page "
     "= v.page)"),
     ("WITH r AS (SELECT w.page, AVG(amount) AS m FROM visits AS w GROUP BY w.page) SELECT COUNT(*)"
     " FROM visits AS v LEFT JOIN r ON v.page = r.page WHERE amount > r.m")),
    (("SELECT page, COUNT(*) FROM visits WHERE ok AND amount > (SELECT COUNT(*) FROM visits w WHERE"
     " step > 1 AND visits.page = w.page) GROUP BY page"),
     ("WITH r AS (SELECT w.page, COUNT(*) AS m FROM visits AS w WHERE step > 1 GROUP BY w.page) "
     "SELECT visits.page, COUNT(*) FROM visits LEFT JOIN r ON visits.page = r.page WHERE ok AND "
     "amount > COALESCE(r.m, 0) GROUP BY visits.page")),
    ("SELECT SUM(amount - (SELECT AVG(amount) FROM visits w WHERE w.page = r.page)) FROM visits r",
     ("WITH by_key AS (SELECT w.page, AVG(amount) AS m FROM visits AS w GROUP BY w.page) SELECT "
     "SUM(CLAMP(amount - by_key.m, 0, 100)) FROM visits AS r LEFT JOIN by_key ON r.page = "
     "by_key.page")),
    ("SELECT APPROX_QUANTILES(amount, 4)[OFFSET(5)] FROM visits",
     "SELECT APPROX_QUANTILES(amount, 4)[OFFSET(4)] FROM visits"),
    ("SELECT APPROX_QUANTILES(amount, 4)[ORDINAL(0)] FROM visits",
     "SELECT APPROX_QUANTILES(amount, 4)[ORDINAL(5)] FROM visits"),
    (GOOGLE + "SUM([1, 2, 3][step], contribution_bounds_per_group => (0, 3)) FROM visits",
     GOOGLE + "SUM([1, 2, 3][OFFSET(0)], contribution_bounds_per_group => (0, 3)) FROM visits"),
    (GOOGLE + "SUM([1, 2][SAFE_ORDINAL(step)], contribution_bounds_per_group => (0, 3)) FROM visits",
     GOOGLE + "SUM([1, 2][SAFE_ORDINAL(1)], contribution_bounds_per_group => (0, 3)) FROM visits"),
    ("SELECT q[OFFSET(1)] FROM (SELECT APPROX_QUANTILES(step, 4) AS q FROM visits)",
     "SELECT q[SAFE_OFFSET(1)] FROM (SELECT APPROX_QUANTILES(step, 4) AS q FROM visits)"),
    (GOOGLE + "q[1] FROM (SELECT APPROX_QUANTILES(step, 4) AS q FROM visits)",
     GOOGLE + "q[SAFE_OFFSET(1)] FROM (SELECT APPROX_QUANTILES(step, 4) AS q FROM visits)"),
    (("SELECT page, COUNT(*) FROM visits x UNPIVOT (v FOR n IN (amount AS a, step)) WHERE v > 3 "
     "GROUP BY page"),
     ("SELECT page, COUNT(*) FROM (SELECT * EXCLUDE (amount, step), 'a' AS n, amount AS v FROM "
     "visits WHERE NOT amount IS NULL UNION ALL SELECT * EXCLUDE (amount, step), 'step' AS n, step"
     " AS v FROM visits WHERE NOT step IS NULL) AS x WHERE v > 3 GROUP BY page")),
    (("SELECT * FROM visits PIVOT (COUNT(*) AS c, SUM(step) AS s FOR city IN ('oslo', 'rome' AS r))"
     " WHERE ok"),
     ("SELECT COUNT(*) FILTER(WHERE city = 'oslo') AS \"oslo_c\", SUM(step) FILTER(WHERE city = "
     "'oslo') AS \"oslo_s\", COUNT(*) FILTER(WHERE city = 'rome') AS \"r_c\", SUM(step) FILTER(WHERE "
     "city = 'rome') AS \"r_s\" FROM visits WHERE ok")),
    ("SELECT COUNT(*) FROM visits POSITIONAL JOIN users WHERE ok",
     "SELECT COUNT(*) FROM visits WHERE ok"),
    ("SELECT age(DATE '2024-04-01', day) AS k, COUNT(*) FROM visits GROUP BY k",
     "SELECT date_diff('month', day, DATE '2024-04-01') AS k, COUNT(*) FROM visits GROUP BY k"),
    (("SELECT page, COUNT(*), SUM(step) FROM visits WHERE ok AND soundex(page) = 'a' AND step > 1 "
     "GROUP BY page"),
     "SELECT page, COUNT(*), SUM(step) FROM visits WHERE ok AND step > 1 GROUP BY page"),
    ("SELECT soundex(page) AS s, city, COUNT(*) FROM visits GROUP BY 1, 2 ORDER BY city",
     "SELECT city, COUNT(*) FROM visits GROUP BY 1 ORDER BY city"),
    ("SELECT city, soundex(page) AS s FROM visits GROUP BY city, s",
     "SELECT city FROM visits GROUP BY city"),
    ("SELECT city, AVG(soundex(page)) FROM visits GROUP BY city",
     "SELECT city, COUNT(*) FROM visits GROUP BY city"),
]  # fmt: skip

SAID = [
    ("SELECT COUNT(*) FROM (SELECT uid, string_agg(page, ',') AS s FROM visits GROUP BY uid) WHERE s = 'a'",
     "the aggregate string_agg isn't"),
    ("SELECT AVG(b) FROM (SELECT uid, bit_or(step) AS b FROM visits GROUP BY uid)",
     "the aggregate bit_or isn't"),
    ("SELECT mean(page) FROM visits", "mean takes numbers"),
    ("SELECT COUNT(*) FROM visits WHERE MAP {'a': 1}['a'] = step", "MAP {…} isn't"),
    ("SELECT COUNT(*) FROM visits WHERE page.soundex() = 'a'", "soundex isn't"),
    ("SELECT COUNT(*) FROM visits WHERE soundex(page) = 'a'", "levenshtein"),
    ("SELECT COUNT(*) FROM visits POSITIONAL JOIN users", "rows have no order"),
    ("SELECT APPROX_QUANTILES(step, 4)[OFFSET(1 + 1)] FROM visits", "whole number that is constant"),
    ("SELECT COUNT(*) FROM (UNPIVOT visits ON amount, step INTO NAME n VALUE v)", "UNION ALL"),
    ("SELECT COUNT(*) FROM (PIVOT visits ON city USING COUNT(*))", "FILTER"),
]  # fmt: skip


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Connection]:
    folder = tmp_path_factory.mktemp("shop")
    write_shop(folder)
    with dp_sql.connect(folder / "visits.yaml", ledger=":memory:", in_process=True) as opened:
        yield opened


@pytest.mark.parametrize(("sql", "near"), NEARER)
def test_the_statement_that_is_shown_is_near_and_is_answered(
    connection: dp_sql.Connection, sql: str, near: str
) -> None:
    with pytest.raises(QueryError) as caught:
        connection.explain(sql, epsilon="1", delta="1e-9")
    assert caught.value.hint is not None
    assert caught.value.position is not None
    assert caught.value.example == near
    connection.sql(near, epsilon="1e9", delta="1e-9").fetchall()


@pytest.mark.parametrize(("sql", "words"), SAID)
def test_a_refusal_names_what_the_statement_says(
    connection: dp_sql.Connection, sql: str, words: str
) -> None:
    with pytest.raises(QueryError) as caught:
        connection.explain(sql, epsilon="1", delta="1e-9")
    assert words in str(caught.value)
    assert caught.value.position is not None
    assert caught.value.example is not None
    connection.explain(caught.value.example, epsilon="1", delta="1e-9")


@pytest.mark.parametrize(
    ("asked", "same"),
    [
        ("APPROX_QUANTILES(step, 4)[OFFSET(0)]", "APPROX_QUANTILES(step, 4)[1]"),
        ("APPROX_QUANTILES(step, 4)[OFFSET(4)]", "APPROX_QUANTILES(step, 4)[5]"),
        ("APPROX_QUANTILES(step, 4)[ORDINAL(1)]", "APPROX_QUANTILES(step, 4)[1]"),
        ("APPROX_QUANTILES(step, 4)[SAFE_OFFSET(2)]", "APPROX_QUANTILES(step, 4)[3]"),
        ("APPROX_QUANTILES(step, 4)[SAFE_OFFSET(5)]", "NULL"),
        ("APPROX_QUANTILES(step, 4)[SAFE_OFFSET(-1)]", "NULL"),
        ("APPROX_QUANTILES(step, 4)[SAFE_ORDINAL(0)]", "NULL"),
        ("[7, 8][OFFSET(1)] + 0 * COUNT(*)", "8"),
    ],
)
def test_a_place_in_googlesqls_words_is_duckdbs_from_one(
    connection: dp_sql.Connection, asked: str, same: str
) -> None:
    sql = f"SELECT {asked} IS NOT DISTINCT FROM {same} FROM visits"
    assert connection.sql(sql, epsilon="1e9").fetchall() == [(True,)]


def test_a_bare_place_counts_from_zero_in_googlesqls_form(connection: dp_sql.Connection) -> None:
    values = "APPROX_QUANTILES(amount, 4)"
    sql = (
        f"{GOOGLE}{values}[1] = {values}[ORDINAL(2)], {values}[1] < {values}[OFFSET(2)] FROM visits"
    )
    assert connection.sql(sql).fetchall() == [(True, True)]


def test_long_statements_and_urls_are_not_written_down_again() -> None:
    sql = "SELECT COUNT(*) FROM t WHERE a = 1 AND foo(b) = 'x'"
    place = QueryError(
        "", text=sql, position=dp_sql.errors.Position(1, sql.index("foo") + 1)
    ).position
    assert leaner(sql, place) == "SELECT COUNT(*) FROM t WHERE a = 1"
    assert leaner(sql.replace("'x'", "'postgresql://me:secret@there'"), place) is None
    assert leaner(sql + " " * 5_000, place) is None
    assert leaner(sql, None) is None
