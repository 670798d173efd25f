"""Attacks C: statements that would show rows, depend on other people's rows, or leave the sandbox.

Each is refused at analysis: nothing is run over protected rows, nothing is charged, and the message
holds no value of the data. What is answered instead is in test_c_answers.py.
"""

# ruff: noqa: E501  one statement a line

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attack.scene import Scene, scene, told

from dp_sql.errors import NotPrivateError, QueryError, UnsupportedSQLError

PRIVATE, UNSUPPORTED, WRONG = NotPrivateError, UnsupportedSQLError, QueryError

EVENT = [
    # errors that depend on data (C1)
    ("C04", "SELECT COUNT(*) FROM people WHERE age > (SELECT pop FROM cities c WHERE c.city = people.city)", UNSUPPORTED),
    ("C07", "SELECT COUNT(json_extract(note, '$.a')) FROM people", UNSUPPORTED),
    ("C07", "SELECT COUNT(note->'$.a') FROM people", UNSUPPORTED),
    ("C08", "SELECT COUNT(*) FROM people WHERE regexp_matches('a', note)", WRONG),
    ("C08", "SELECT COUNT(*) FROM people WHERE 'a' SIMILAR TO note", WRONG),
    ("C08", "SELECT COUNT(*) FROM people WHERE name LIKE note ESCAPE '!'", WRONG),
    ("C14", "SET ieee_floating_point_ops = false", UNSUPPORTED),
    ("C14", "PRAGMA disable_optimizer", UNSUPPORTED),
    ("C16", "SELECT COUNT(note::ENUM('7', '9')) FROM people", QueryError),
    ("C16", "SELECT COUNT(note::UUID) FROM people", UNSUPPORTED),
    ("C16", "SELECT COUNT(note::BLOB) FROM people", UNSUPPORTED),
    ("C17", "SELECT COUNT(to_days(salary)) FROM people", QueryError),
    ("C20", "SELECT COUNT(error(name)) FROM people", UNSUPPORTED),
    ("C20", "SELECT CASE WHEN COUNT(*) > 0 THEN error('x') END FROM people", UNSUPPORTED),
    ("C22", "SELECT salry FROM people", WRONG),
    ("C22", "SELECT COUNT(*) FROM peopl", WRONG),
    # the shape of the answer (C2)
    ("C32", "SELECT city FROM people ORDER BY COUNT(*) DESC LIMIT 1", WRONG),
    ("C34", "SELECT COUNT(*) FROM (SELECT * FROM people LIMIT 2)", PRIVATE),
    ("C34", "SELECT city, COUNT(*) FROM people GROUP BY city LIMIT (SELECT MAX(uid) FROM people)", PRIVATE),
    ("C35", "SELECT * FROM people", PRIVATE),
    ("C35", "SELECT name FROM people WHERE age > 50", PRIVATE),
    ("C35", "SELECT DISTINCT ON (city) name FROM people", QueryError),
    ("C35", "SELECT people FROM people", PRIVATE),
    ("C37", "SELECT COUNT(*) FROM people GROUP BY CUBE (city, name, age, uid, salary, note, joined)", UNSUPPORTED),
    ("C38", "SELECT name, RANK() OVER (ORDER BY age) FROM people", QueryError),
    ("C38", "SELECT COUNT(*) FROM (SELECT age FROM people QUALIFY ROW_NUMBER() OVER (ORDER BY age) = 1)", PRIVATE),
    ("C40", "SELECT SUM(age) * age FROM people", WRONG),
    ("C40", "SELECT COUNT(*) + (SELECT age FROM people) FROM people", PRIVATE),
    # aggregates that return data (C3)
    *(
        ("C43", f"SELECT {call} FROM people", UNSUPPORTED)
        for call in (
            "first(name)", "any_value(name)", "last(name)", "arg_max(name, age)",
            "arg_min(name, age)", "min_by(name, age)", "max_by(name, age)", "string_agg(name, ',')",
            "group_concat(name)", "list(age)", "array_agg(age)",
            "json_group_array(name)", "lttb(age, salary, 3)",
            "reservoir_quantile(age, 0.5)", "bit_xor(age)", "bit_or(age)",
            "product(age)", "entropy(age)", "favg(salary)", "arbitrary(name)",
        )
    ),
    *(
        ("C44", f"SELECT {call} FROM people", UNSUPPORTED)
        for call in (
            "MAX(salary, 1)", "approx_quantile(age, 0.5, 3)", "mad(age)",
        )
    ),
    ("C43", "SELECT mode(name) FROM people", PRIVATE),
    ("C43", "SELECT approx_top_k(name, 3) FROM people", PRIVATE),
    *(
        ("C44", f"SELECT {call} FROM people", WRONG)
        for call in ("quantile_cont(age, 0.5, 0.6)", "quantile(age, 0.5, age)", "MIN(age, 2, age)")
    ),
    ("C47", "CREATE TEMP MACRO sum(x) AS 42", UNSUPPORTED),
    # the structure of a statement: C4
    ("C49", "SELECT SUM(salary) FROM (SELECT 1 / (age - 51) AS salary FROM people) t", PRIVATE),
    ("C52", "WITH cities AS (SELECT * FROM people) SELECT * FROM cities", PRIVATE),
    ("C52", "WITH people AS (SELECT uid AS salary FROM people) SELECT SUM(salary) FROM people", PRIVATE),
    ("C53", "SELECT COUNT(*) FROM memory.main.people", WRONG),
    ("C53", "SELECT COUNT(*) FROM scene.people", WRONG),
    ("C53", "SELECT COUNT(*) FROM source_.main.people", WRONG),
    ("C53", "SELECT COUNT(*) FROM data.people", WRONG),
    ("C53", "SELECT * FROM released.r0", WRONG),
    ("C55", "SELECT COUNT(*) FROM people a, people b", PRIVATE),
    ("C55", "WITH a AS (SELECT * FROM people), b AS (SELECT * FROM people) SELECT COUNT(*) FROM a JOIN b USING (uid)", PRIVATE),
    ("C55", "SELECT COUNT(*) FROM people a, LATERAL (SELECT * FROM people b WHERE b.uid = a.uid)", PRIVATE),
    ("C56", "SELECT COUNT(*) FROM people a JOIN people b ON a.age < b.age", PRIVATE),
    ("C56", "SELECT COUNT(*) FROM people, cities", PRIVATE),
    ("C56", "SELECT COUNT(*) FROM people JOIN cities USING (city)", PRIVATE),
    ("C56", "SELECT COUNT(*) FROM people JOIN regions ON people.age > 3", PRIVATE),
    ("C56", "SELECT COUNT(*) FROM people p JOIN regions r ON p.city = r.city OR p.age > 3", PRIVATE),
    ("C59", "SELECT COUNT(*) FROM people p JOIN regions r ON p.city IS NOT DISTINCT FROM r.city", PRIVATE),
    ("C61", "SELECT COUNT(*) FROM cities WHERE pop NOT IN (SELECT age FROM people)", PRIVATE),
    ("C62", "SELECT COUNT(*) FROM people v WHERE EXISTS (SELECT 1 FROM people WHERE name = 'bob')", PRIVATE),
    ("C62", "SELECT * FROM cities WHERE EXISTS (SELECT 1 FROM people WHERE name = 'bob')", PRIVATE),
    ("C62", "SELECT region FROM cities WHERE city IN (SELECT city FROM people)", PRIVATE),
    ("C65", "SELECT COUNT(*) FROM (SELECT age FROM people EXCEPT SELECT 34)", PRIVATE),
    ("C65", "SELECT COUNT(*) FROM (SELECT age FROM people UNION SELECT 34)", PRIVATE),
    ("C65", "SELECT city FROM cities EXCEPT SELECT city FROM people", PRIVATE),
    ("C65", "SELECT city FROM cities INTERSECT SELECT city FROM people", PRIVATE),
    ("C67", "SELECT SUM(salary) FROM (SELECT * FROM people ORDER BY age LIMIT 1)", PRIVATE),
    ("C67", "SELECT SUM(salary) FROM (SELECT * FROM people ORDER BY age OFFSET 1)", PRIVATE),
    ("C68", "SELECT COUNT(*) FROM people TABLESAMPLE 1 ROWS", UNSUPPORTED),
    ("C68", "SELECT COUNT(*) FROM people USING SAMPLE 10%", UNSUPPORTED),
    ("C70", "SELECT COUNT(*) FROM people WHERE rowid % 2 = 0", WRONG),
    *(
        ("C71", f"SELECT COUNT(*) FROM people WHERE {call} IS NOT NULL", QueryError)
        for call in (
            "random()", "uuid()", "gen_random_uuid()", "now()", "current_timestamp", "current_date",
            "nextval('s')", "setseed(0.5)", "txid_current()", "ROW_NUMBER() OVER ()", "today()",
        )
    ),
    ("C73", "SELECT SUM(age) FROM (SELECT DISTINCT age FROM people)", UNSUPPORTED),
    ("C76", "SELECT COUNT(*) FROM people, UNNEST(range(age * 1000))", QueryError),
    ("C76", "SELECT COUNT(*) FROM people, generate_series(1, age)", QueryError),
    ("C76", "SELECT COUNT(*) FROM people, LATERAL (SELECT UNNEST(string_split(name, 'o')))", QueryError),
    ("C76", "SELECT COUNT(UNNEST([1, 2])) FROM people", QueryError),
    ("C77", "WITH RECURSIVE r AS (SELECT age FROM people UNION ALL SELECT age - 1 FROM r WHERE age > 0) SELECT COUNT(*) FROM r", PRIVATE),
    ("C79", "SELECT COLUMNS('s.*') FROM people", PRIVATE),
    ("C79", "SELECT COUNT(COLUMNS('(')) FROM people", QueryError),
    ("C79", "SELECT COUNT(people.*) FROM people", QueryError),
    ("C79", "SELECT COUNT(people) FROM people", PRIVATE),
    ("C80", "SELECT SUM(list_sum([salary, salary, salary])) FROM people", UNSUPPORTED),
    ("C80", "SELECT COUNT([x FOR x IN [age]]) FROM people", UNSUPPORTED),
    ("C80", "SELECT COUNT({'a': age}) FROM people", UNSUPPORTED),
    ("C80", "SELECT COUNT(list_transform([age], x -> x + 1)) FROM people", UNSUPPORTED),
    ("C80", "SELECT COUNT(MAP {'a': age}) FROM people", UNSUPPORTED),
    # what two parsers read differently (C5)
    ("C91", "SELECT SUM(@age / 2) FROM people", UNSUPPORTED),
    ("C92", "SELECT COUNT(*) FROM people WHERE age NOT IN (1, 2) = TRUE", UNSUPPORTED),
    ("C92", "SELECT COUNT(*) FROM people WHERE NOT age IN (1, 2) = TRUE", UNSUPPORTED),
    ("C94", "SELECT COUNT(*) FROM people; DROP TABLE people", UNSUPPORTED),
    ("C94", "SELECT COUNT(*) FROM people; COPY people TO '/tmp/x'", UNSUPPORTED),
    ("C97", "TABLE people", PRIVATE),
    ("C97", "FROM people", PRIVATE),
    ("C97", "FROM people SELECT name", PRIVATE),
    ("C97", "SELECT COUNT(*) FROM people WHERE name = X'41'", QueryError),
    ("C97", "SELECT COUNT(*) FROM people WHERE age BETWEEN SYMMETRIC 9 AND 1", QueryError),
    ("C97", "SELECT COUNT(*) FROM people FOR UPDATE", QueryError),
    ("C97", "VALUES ((SELECT name FROM people))", QueryError),
    ("C97", "FROM people |> WHERE age > 3 |> SELECT name", QueryError),
    ("C98", "SELECT SUM(\u212a) FROM people", WRONG),
    ("C100", "SELECT " + "(" * 500 + "1" + ")" * 500, WRONG),
    ("C100", "SELECT COUNT(*) FROM people WHERE " + "NOT " * 500 + "TRUE", WRONG),
    ("C100", "SELECT COUNT(*) FROM people WHERE age IN (" + "1, " * 40_000 + "1)", WRONG),
    ("C101", "SELECT COUNT(*) FROM people WHERE age > ?", UNSUPPORTED),
    ("C101", "SELECT COUNT(*) FROM people WHERE age > $x", UNSUPPORTED),
    # out of the sandbox (C6)
    *(
        ("C103", text, QueryError)
        for text in (
            "SELECT * FROM read_csv('/etc/hostname')", "SELECT * FROM read_text('/etc/hostname')",
            "SELECT * FROM read_blob('/etc/hostname')", "SELECT * FROM glob('/etc/*')",
            "SELECT * FROM sniff_csv('/etc/hostname')", "SELECT * FROM '/etc/x.csv'",
            "COPY people TO '/tmp/out.csv'", "EXPORT DATABASE '/tmp/out'", "ATTACH '/tmp/x.db'",
            "SELECT * FROM parquet_scan('x.parquet')", "IMPORT DATABASE '/tmp/out'",
        )
    ),
    ("C104", "SELECT * FROM read_duckdb('scene.duckdb')", QueryError),
    ("C104", "ATTACH 'scene.duckdb' AS again", UNSUPPORTED),
    ("C106", "SELECT stats(salary) FROM people", UNSUPPORTED),
    ("C106", "SELECT vector_type(salary) FROM people", QueryError),
    ("C106", "SUMMARIZE people", UNSUPPORTED),
    ("C106", "SELECT * FROM pragma_storage_info('people')", QueryError),
    ("C106", "SELECT estimated_size FROM duckdb_tables()", QueryError),
    ("C106", "EXPLAIN ANALYZE SELECT COUNT(*) FROM people", UNSUPPORTED),
    ("C107", "SELECT enum_range(NULL::mood)", QueryError),
    ("C107", "SELECT * FROM duckdb_types()", QueryError),
    ("C109", "SELECT * FROM true_result", WRONG),
    ("C109", "SELECT COUNT(*) FROM exact", WRONG),
    *(
        ("C110", text, QueryError)
        for text in (
            "SELECT * FROM information_schema.columns", "SELECT * FROM pg_catalog.pg_tables",
            "SELECT * FROM sqlite_master", "SELECT * FROM duckdb_secrets()",
            "SELECT * FROM duckdb_settings()", "SELECT current_setting('home_directory')",
            "SHOW ALL TABLES", "DESCRIBE people", "SHOW TABLES", "SELECT getenv('HOME')",
            "SELECT version()", "SELECT * FROM query('SELECT 1')", "SELECT * FROM query_table('people')",
            "SELECT json_execute_serialized_sql('x')", "SELECT histogram_values('people', 'age')",
        )
    ),
    ("C112", "CREATE TEMP VIEW people AS SELECT 1", UNSUPPORTED),
    *(
        ("C113", text, UNSUPPORTED)
        for text in (
            "DELETE FROM people", "UPDATE people SET age = 1", "INSERT INTO people DEFAULT VALUES",
            "DROP TABLE people", "CREATE TABLE x AS SELECT 1", "ALTER TABLE people ADD COLUMN z INT",
        )
    ),
    ("C113", "WITH d AS (DELETE FROM people RETURNING *) SELECT * FROM d", QueryError),
    ("C113", "MERGE INTO people USING people p ON people.uid = p.uid WHEN MATCHED THEN DELETE", UNSUPPORTED),
    ("C115", "INSTALL httpfs", QueryError),
    ("C115", "LOAD httpfs", QueryError),
    ("C115", "CREATE SECRET s (TYPE s3)", QueryError),
    ("C116", "SELECT COUNT(my_python_function(name)) FROM people", UNSUPPORTED),
    # statements that want time or memory, C7
    ("C119", "SELECT COUNT(*) FROM people WHERE sleep_ms(CASE WHEN name = 'bob' THEN 300 ELSE 0 END) IS NULL", UNSUPPORTED),
    ("C119", "SELECT sleep_ms(1000)", UNSUPPORTED),
    ("C119", "SELECT pg_sleep(1)", UNSUPPORTED),
    ("C119", "SELECT system.main.sleep_ms(1000)", QueryError),
    ("C119", 'SELECT "SLEEP_ms"(1000)', UNSUPPORTED),
    ("C119", "SELECT (1000).sleep_ms()", QueryError),
    ("C119", "SELECT city, COUNT(*) FROM people GROUP BY city HAVING sleep_ms(1000) IS NULL", UNSUPPORTED),
    ("C119", "SELECT city, COUNT(*) FROM people GROUP BY city ORDER BY sleep_ms(1000)", UNSUPPORTED),
    ("C119", "SELECT * FROM cities WHERE pg_sleep(1) IS NULL", UNSUPPORTED),
    ("C119", "SELECT COUNT(*), sleep_ms(1000) FROM people", UNSUPPORTED),
    ("C124", "SELECT COUNT(*) FROM people WHERE repeat(name, 1000000000) = 'x'", WRONG),
    ("C124", "SELECT repeat('a', 1000000000)", UNSUPPORTED),
    ("C124", "SELECT COUNT(*), repeat('a', 1000000000) FROM people", UNSUPPORTED),
    ("C127", "SELECT age, uid % 1000 AS a, (uid + 1) % 1000 AS b, COUNT(*) FROM people GROUP BY ALL", UNSUPPORTED),
]  # fmt: skip

USER = [
    ("C25", "SELECT uid, COUNT(*) FROM visits GROUP BY uid", PRIVATE),
    ("C25", "SELECT u, COUNT(*) FROM (SELECT uid AS u, page AS uid FROM visits) GROUP BY u", PRIVATE),
    ("C37", "SELECT COUNT(*) FROM visits GROUP BY ROLLUP (uid)", PRIVATE),
    ("C37", "SELECT COUNT(*) FROM visits GROUP BY GROUPING SETS ((page), (uid), ())", PRIVATE),
    ("C50", "SELECT COUNT(*) FROM (SELECT row_number() OVER () AS uid, page, amount FROM visits) v", PRIVATE),
    ("C88", "SELECT SUM(uid) FROM visits", PRIVATE),
    ("C89", "SELECT COUNT(*) FROM v", WRONG),
    ("C65", "SELECT COUNT(*) FROM regions r LEFT JOIN visits v ON v.page = r.city", PRIVATE),
    ("C65", "SELECT COUNT(*) FROM visits v FULL JOIN regions r ON v.page = r.city", PRIVATE),
    ("C65", "SELECT COUNT(*) FROM regions r ANTI JOIN visits v ON v.page = r.city", PRIVATE),
]  # fmt: skip


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("people"), "event") as opened:
        yield opened


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("visits"), "user") as opened:
        yield opened


def _named(cases: list[tuple[str, str, type[QueryError]]]) -> list[object]:
    return [
        pytest.param(sql, kind, id=f"{number}: {sql[:60]}-{i}")
        for i, (number, sql, kind) in enumerate(cases)
    ]


@pytest.mark.parametrize(("sql", "kind"), _named(EVENT))
def test_people_are_not_shown(sql: str, kind: type[QueryError], people: Scene) -> None:
    people.refuse(sql, kind)


@pytest.mark.parametrize(("sql", "kind"), _named(USER))
def test_visits_are_not_shown(sql: str, kind: type[QueryError], visits: Scene) -> None:
    visits.refuse(sql, kind)


def test_c101_what_is_no_text_is_no_statement(people: Scene) -> None:
    for statement in (None, 1, b"SELECT 1", ["SELECT 1"]):
        with pytest.raises(QueryError):
            people.connection.sql(statement, epsilon=1)  # type: ignore[arg-type]


def test_the_spy_and_the_comparison_can_fail(people: Scene) -> None:
    runs = len(people.ran)
    people.connection.sql("SELECT COUNT(*) FROM people", epsilon=1)
    assert len(people.ran) == runs + 1
    assert told("Could not convert string 'x-secret' to INT32", "SELECT note::INT FROM people")
    assert told("Overflow (90000 * 3)", "SELECT 1")
    with pytest.raises(pytest.fail.Exception):
        people.refuse("SELECT COUNT(*) FROM people")
