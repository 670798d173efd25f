"""A refusal shows the statement itself, changed where it was refused, and that one is answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from golden.shop import write_shop

import dp_sql
from dp_sql.errors import QueryError

WHERE = "SELECT COUNT(*) FROM people WHERE "
REWRITTEN = [
    (WHERE + "joined > GETDATE()", WHERE + "joined > TIMESTAMP '2024-01-31 12:00:00'"),
    (WHERE + "joined > CURRENT_DATE - 30", WHERE + "joined > DATE '2024-01-31' - 30"),
    (WHERE + "DATEADD(day, 30, joined) > '2020-01-01'", WHERE + "(joined + INTERVAL 30 DAY) > '2020-01-01'"),
    (WHERE + "TO_CHAR(joined, 'YYYY-MM') = '2020-01'", WHERE + "strftime(joined, '%Y-%m') = '2020-01'"),
    (WHERE + "TO_DATE(note, 'DD.MM.YYYY') IS NULL",
     WHERE + "CAST(strptime(note, '%d.%m.%Y') AS DATE) IS NULL"),
    (WHERE + "NVL2(age, 1, 0) = 1", WHERE + "CASE WHEN age IS NOT NULL THEN 1 ELSE 0 END = 1"),
    (WHERE + "ISNULL(age)", WHERE + "(age) IS NULL"),
    (WHERE + "IFF(age > 3, true, false)", WHERE + "if(age > 3, true, false)"),
    (WHERE + "INITCAP(name) = 'Bob'", WHERE + "upper(left(name, 1)) || lower(substring(name, 2)) = 'Bob'"),
    (WHERE + "SUBSTRING_INDEX(name, ',', 1) = 'a'", WHERE + "split_part(name, ',', 1) = 'a'"),
    (WHERE + "hash(concat(name, ',)')) % 2 = 0",
     WHERE + "md5_number_lower(CAST(concat(name, ',)') AS VARCHAR)) % 2 = 0"),
    (WHERE + 'name = "bob"', WHERE + "name = 'bob'"),
    (WHERE + "salry > 3", WHERE + "salary > 3"),
    (WHERE + "salary > AVG(salary)", WHERE + "salary > (SELECT AVG(salary) FROM people)"),
    ("SELECT COUNT(*) FROM peopel", "SELECT COUNT(*) FROM people"),
    ("SELECT COUNT(*) FROM [people]", 'SELECT COUNT(*) FROM "people"'),
    ("SELECT COUNT(* FROM people", None),
    (WHERE + "salary > 1,000", WHERE + "salary > 1000"),
    ("SELEC COUNT(*) FROM people", "SELECT COUNT(*) FROM people"),
    ("SELECT TOP 2 city, COUNT(*) FROM people GROUP BY city",
     "SELECT city, COUNT(*) FROM people GROUP BY city LIMIT 2"),
    ("SELECT PERCENTILE(salary, 50) FROM people", "SELECT quantile_cont(salary, 0.5) FROM people"),
    ("SELECT STRING_AGG(name, ',') FROM people WHERE age > 3",
     "SELECT LISTAGG(name, ',') FROM (SELECT name FROM people WHERE age > 3 GROUP BY ALL)"),
    ("SELECT city, LIST(name) FROM people GROUP BY city",
     "SELECT city, ARRAY_AGG(name) FROM (SELECT city, name FROM people GROUP BY ALL) GROUP BY ALL"),
    ("SELECT AVG(age), LIST(name) FROM people", "SELECT AVG(age), count(DISTINCT name) FROM people"),
    (WHERE + "joined > SYSDATE", WHERE + "joined > TIMESTAMP '2024-01-31 12:00:00'"),
    ("SELECT SUM(CONVERT(INT, salary + 1)) FROM people", "SELECT SUM(CAST(salary + 1 AS INT)) FROM people"),
    ("SELECT CONVERT(VARCHAR(4), city), COUNT(*) FROM people GROUP BY ALL",
     "SELECT CAST(city AS TEXT), COUNT(*) FROM people GROUP BY ALL"),
    ("SELECT c.city, (SELECT COUNT(*) FROM people p WHERE p.city = c.city) FROM cities c",
     ("SELECT c.city, COUNT(p.city) FROM cities AS c LEFT JOIN people AS p ON c.city = p.city "
      "GROUP BY c.city")),
    ("SELECT city FROM cities c WHERE c.city IN (SELECT city FROM people)",
     ("SELECT c.city, COUNT(people.city) FROM cities AS c LEFT JOIN people ON c.city = people.city "
      "GROUP BY c.city")),
    ("SELECT FIRST(name) FROM people", "SELECT count(DISTINCT name) FROM people"),
    ("SELECT FIRST(city) FROM people", "SELECT mode(city) FROM people"),
    ("SELECT SUM(id) FROM people", "SELECT SUM(CLAMP(id, 0, 100)) FROM people"),
    ("SELECT age FROM people ORDER BY age LIMIT 3",
     "SELECT age, COUNT(*) FROM people GROUP BY ALL ORDER BY age LIMIT 3"),
    ("SELECT * FROM people WHERE age > 3 LIMIT 3", "SELECT COUNT(*) FROM people WHERE age > 3"),
    ("SELECT MEDIAN(salary) OVER (PARTITION BY city) FROM people",
     "SELECT city, MEDIAN(salary) FROM people GROUP BY ALL"),
    ("SELECT city, AVG(salary) FROM people", "SELECT city, AVG(salary) FROM people GROUP BY ALL"),
    ("SELECT city, married, COUNT(*) FROM people GROUP BY city",
     "SELECT city, married, COUNT(*) FROM people GROUP BY city, married"),
    ("SELECT city, COUNT(*) FROM people WHERE COUNT(*) > 9 AND age > 3 GROUP BY city",
     "SELECT city, COUNT(*) FROM people WHERE age > 3 GROUP BY city HAVING COUNT(*) > 9"),
    ("SELECT COUNT(*) FROM cities LEFT JOIN people USING (city)",
     "SELECT COUNT(id) FROM cities LEFT JOIN people USING (city)"),
]  # fmt: skip


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Connection]:
    folder = tmp_path_factory.mktemp("shop")
    write_shop(folder)
    with dp_sql.connect(folder / "people.yaml", ledger=":memory:", in_process=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Connection]:
    folder = tmp_path_factory.mktemp("shop")
    write_shop(folder)
    with dp_sql.connect(folder / "visits.yaml", ledger=":memory:", in_process=True) as opened:
        yield opened


@pytest.mark.parametrize(("sql", "near"), REWRITTEN)
def test_the_statement_near_it_is_shown_and_is_answered(
    connection: dp_sql.Connection, sql: str, near: str | None
) -> None:
    with pytest.raises(QueryError) as caught:
        connection.explain(sql, epsilon="1", delta="1e-9")
    example = caught.value.example
    assert caught.value.hint is not None
    assert example is not None
    assert near is None or example == near
    assert connection.explain(example, epsilon="1", delta="1e-9")


BY_PERSON = [
    ("SELECT DATE_TRUNC(month, day), COUNT(*) FROM visits GROUP BY ALL",
     "SELECT DATE_TRUNC('month', day), COUNT(*) FROM visits GROUP BY ALL", "'month'"),
    ("SELECT city, MAX(uid) FROM visits GROUP BY city",
     "SELECT city, COUNT(DISTINCT uid) FROM visits GROUP BY city", "COUNT(DISTINCT uid)"),
    ("SELECT COUNT(*) FROM users u WHERE EXISTS (SELECT COUNT(*) FROM visits v WHERE v.uid = u.uid)",
     "SELECT COUNT(*) FROM users u WHERE EXISTS (SELECT 1 FROM visits v WHERE v.uid = u.uid)", "SELECT 1"),
    ("SELECT SUM((SELECT c.pop FROM cities c, skus s WHERE c.city = v.city)) FROM visits v",
     "SELECT SUM((SELECT MIN(c.pop) FROM cities c, skus s WHERE c.city = v.city)) FROM visits v",
     "MIN(c.pop)"),
    (("SELECT AVG(n) FROM (SELECT COUNT(*) OVER (PARTITION BY uid ORDER BY day RANGE BETWEEN INTERVAL '2' "
      "MONTH PRECEDING AND CURRENT ROW) AS n FROM visits)"),
     ("SELECT AVG(n) FROM (SELECT COUNT(*) OVER (PARTITION BY uid ORDER BY day RANGE BETWEEN INTERVAL 60 "
      "DAYS PRECEDING AND CURRENT ROW) AS n FROM visits)"), "60 DAYS"),
    ("PIVOT visits ON city USING SUM(step)", None, "FILTER (WHERE"),
    ("SELECT * FROM (PIVOT visits ON city USING SUM(step))", None, "FILTER (WHERE"),
    ("SELECT * FROM visits PIVOT (SUM(step) FOR page IN ('home'))", None, "FILTER (WHERE"),
    ("SELECT COUNT(*) FROM (SELECT page, step FROM visits) PIVOT (SUM(step) FOR page IN ('home'))", None,
     "FILTER (WHERE"),
    ("SELECT AVG(COLUMNS('zz')) FROM visits", None, "COLUMNS(['uid', 'page', 'amount'])"),
    ("SELECT AVG(COLUMNS('(am).*')) AS '\\1_x' FROM visits", None, "AVG(x) AS name"),
    (("SELECT COUNT(*) FROM users u LEFT JOIN visits v ON v.uid = u.uid AND EXISTS (SELECT 1 FROM orders o "
      "WHERE o.uid = u.uid AND o.placed = v.day)"), None, "the columns of one side"),
    (("SELECT COUNT(*) FROM visits v FULL JOIN users u ON v.uid = u.uid AND v.city IN "
      "(SELECT city FROM cities)"), None, "WITH t AS (SELECT *, EXISTS (…) AS met"),
    (("SELECT c.city, COUNT(v.uid) FROM cities c LEFT JOIN visits v ON v.city = c.city AND c.city IN "
      "(SELECT home FROM users) GROUP BY c.city"), None, "0 < (SELECT COUNT(*)"),
    ("SELECT c.city, n FROM cities c, LATERAL (SELECT COUNT(*) AS n FROM visits v WHERE v.city = c.city) t",
     None, "LEFT JOIN … ON … GROUP BY"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "near", "hint"), BY_PERSON)
def test_a_refusal_at_level_user_says_what_means_the_same(
    visits: dp_sql.Connection, sql: str, near: str | None, hint: str
) -> None:
    with pytest.raises(QueryError) as caught:
        visits.explain(sql, epsilon="1", delta="1e-9")
    example = caught.value.example
    assert hint in (caught.value.hint or "")
    assert example is not None
    assert near is None or example == near
    assert visits.explain(example, epsilon="1", delta="1e-9")


def test_what_would_be_refused_itself_is_not_shown(connection: dp_sql.Connection) -> None:
    with pytest.raises(QueryError) as caught:
        connection.explain(WHERE + "DATEADD(day, 30, name) > '2020-01-01'", epsilon="1")
    assert caught.value.tries
    assert caught.value.example not in caught.value.tries
