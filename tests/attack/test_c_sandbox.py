"""Attacks C6 and C7: out of the sandbox, and sizes that data could choose.

What reads files, settings, other databases or variables by name is refused at analysis in
test_c_statements.py. Here are both databases with the analysts' text let through, and all that makes
rows or texts of a length that a value gives. The worker's walls are in tests/unit/test_worker.py.
"""

# ruff: noqa: E501  one statement a line

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from attack.scene import Scene, scene

from dp_sql.errors import EngineError, NotPrivateError, QueryError, UnsupportedSQLError

PRIVATE, UNSUPPORTED, WRONG = NotPrivateError, UnsupportedSQLError, QueryError


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("people"), "event") as opened:
        yield opened


ESCAPES = [
    ("C103", "SELECT * FROM read_csv('{file}')"),
    ("C103", "SELECT * FROM read_text('{file}')"),
    ("C103", "SELECT * FROM read_blob('{file}')"),
    ("C103", "SELECT * FROM glob('{folder}/*')"),
    ("C103", "SELECT * FROM sniff_csv('{file}')"),
    ("C103", "SELECT * FROM '{file}'"),
    ("C103", "SELECT * FROM read_json('{file}')"),
    ("C103", "SELECT * FROM parquet_metadata('{file}')"),
    ("C103", "COPY (SELECT 1) TO '{folder}/out.csv'"),
    ("C103", "EXPORT DATABASE '{folder}/out'"),
    ("C103", "IMPORT DATABASE '{folder}'"),
    ("C104", "ATTACH '{folder}/x.db'"),
    ("C104", "ATTACH '{database}' AS again"),
    ("C104", "SELECT * FROM read_duckdb('{database}', table_name => 'people')"),
    ("C104", "SELECT * FROM read_blob('{database}')"),
    ("C109", "SELECT * FROM true_result"),
    ("C110", "SET enable_external_access = true"),
    ("C110", "SET lock_configuration = false"),
    ("C110", "SET temp_directory = '{folder}'"),
    ("C110", "SET allowed_paths = ['{file}']"),
    ("C110", "SET python_enable_replacements = true"),
    ("C110", "RESET enable_external_access"),
    ("C110", "SET GLOBAL threads = 64"),
    ("C115", "INSTALL httpfs"),
    ("C115", "LOAD httpfs"),
    ("C115", "INSTALL '{file}'"),
    ("C115", "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')"),
    ("C115", "SELECT * FROM 'https://example.org/x.csv'"),
    ("C115", "SELECT * FROM read_parquet('s3://bucket/x.parquet')"),
]


CASES = [
    pytest.param(number, text, holder, id=f"{number}, {holder}: {text[:40]}")
    for holder in ("protected rows", "released values")
    for number, text in ESCAPES
    if not (holder == "protected rows" and "('{database}'" in text)
]


@pytest.mark.parametrize(("number", "text", "holder"), CASES)
def test_neither_database_opens_anything(
    number: str, text: str, holder: str, people: Scene, tmp_path: Path
) -> None:
    """Should a text get past the parser, DuckDB's own walls hold in both databases.

    But for one: the database that has a file attached can read that file in other ways (C104).
    """
    assert number.startswith("C1")
    true_result = [(1, "alice")]
    assert true_result
    file = tmp_path / "other.csv"
    file.write_text("a\n1\n", encoding="utf-8")
    engine: Any = people.connection._engine
    database = engine._sources.database
    sql = text.format(file=file, folder=tmp_path, database=database)
    holding = engine._database if holder == "protected rows" else people.connection._post
    with pytest.raises(duckdb.Error):
        holding._connection.execute(sql).fetchall()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other.csv"]


def test_c104_the_released_side_knows_no_other_database(people: Scene) -> None:
    post: Any = people.connection._post._connection
    names = {
        row[0] for row in post.execute("SELECT database_name FROM duckdb_databases()").fetchall()
    }
    assert names == {"memory", "system", "temp"}
    rows = post.execute("SELECT count(*) FROM main.people").fetchall()
    assert rows == [(0,)]  # the empty table that gives names and types


SIZES = [
    ("C124", "SELECT COUNT(*) FROM people WHERE repeat(name, age) = 'x'", WRONG),
    ("C124", "SELECT COUNT(*) FROM people WHERE lpad(name, age, 'x') = 'x'", WRONG),
    ("C124", "SELECT COUNT(*) FROM people WHERE rpad(name, 1000000000, 'x') = 'x'", WRONG),
    (
        "C124",
        "SELECT COUNT(*) FROM people WHERE concat_ws(',', name, repeat('a', age)) = 'x'",
        WRONG,
    ),
    ("C124", "SELECT COUNT(*) FROM people WHERE format('{:>1000000000}', name) = 'x'", UNSUPPORTED),
    ("C124", "SELECT COUNT(*) FROM people WHERE printf('%*d', age, 1) = 'x'", UNSUPPORTED),
    ("C124", "SELECT COUNT(*) FROM people WHERE bar(age, 0, 1, 1000000000) = 'x'", UNSUPPORTED),
    ("C124", "SELECT COUNT(*) FROM people WHERE len(list_resize([1], age)) > 3", UNSUPPORTED),
    (
        "C124",
        "SELECT COUNT(*) FROM people WHERE array_to_string(range(age), ',') = 'x'",
        UNSUPPORTED,
    ),
    ("C124", "SELECT repeat('a', COUNT(*)) FROM people", UNSUPPORTED),
    ("C124", "SELECT lpad('a', COUNT(*)::INT, 'b') FROM people", UNSUPPORTED),
    ("C124", "SELECT list_resize([1], COUNT(*)) FROM people", UNSUPPORTED),
    ("C124", "SELECT format('{:>1000000000}', COUNT(*)) FROM people", UNSUPPORTED),
    ("C124", "SELECT format('{:>{}}', COUNT(*), COUNT(*)) FROM people", UNSUPPORTED),
    ("C124", "SELECT format(city, 3), COUNT(*) FROM people GROUP BY city", UNSUPPORTED),
    ("C124", "SELECT printf('%1000000000d', COUNT(*)) FROM people", UNSUPPORTED),
    ("C124", "SELECT printf('%*d', COUNT(*), 1) FROM people", UNSUPPORTED),
    ("C124", "SELECT bar(COUNT(*), 0, 1, 1000000000) FROM people", UNSUPPORTED),
    ("C124", "SELECT to_base(COUNT(*)::INT, 2, 1000000000) FROM people", UNSUPPORTED),
    ("C76", "SELECT COUNT(*) FROM people WHERE len(range(age)) > 3", UNSUPPORTED),
    ("C76", "SELECT COUNT(*) FROM people WHERE len(generate_series(1, age)) > 3", UNSUPPORTED),
    ("C76", "SELECT COUNT(*) FROM people, range(age) r(i)", QueryError),
    ("C76", "SELECT COUNT(*) FROM people CROSS JOIN UNNEST(range(age)) u(i)", QueryError),
    ("C76", "SELECT COUNT(*) FROM people, UNNEST([age, 2, 3]) u(i)", QueryError),
    ("C76", "SELECT COUNT(*) FROM people, UNNEST(repeat([1], age)) u(i)", QueryError),
    ("C76", "SELECT COUNT(*) FROM people, UNNEST(string_split(note, ',')) u(i)", QueryError),
    ("C76", "SELECT COUNT(*) FROM (SELECT UNNEST(range(age)) FROM people)", UNSUPPORTED),
    (
        "C76",
        "SELECT COUNT(*) FROM (SELECT UNNEST(regexp_extract_all(note, '.')) FROM people)",
        UNSUPPORTED,
    ),
    (
        "C77",
        "WITH RECURSIVE r AS (SELECT COUNT(*) AS i FROM people UNION ALL SELECT i + 1 FROM r WHERE i < 9) SELECT * FROM r",
        PRIVATE,
    ),
    (
        "C77",
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r, people) SELECT * FROM r",
        PRIVATE,
    ),
    ("C127", "SELECT COUNT(*) FROM people a, people b, people c", PRIVATE),
]


@pytest.mark.parametrize(
    ("number", "sql", "kind"), SIZES, ids=[f"{n}: {s[:50]}" for n, s, _ in SIZES]
)
def test_no_value_chooses_a_size(
    number: str, sql: str, kind: type[QueryError], people: Scene
) -> None:
    assert number in ("C76", "C77", "C124", "C127")
    people.refuse(sql, kind)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT format('{:>8.1f} of {}', AVG(age), COUNT(*)) FROM people",
        "SELECT printf('%08.2f', AVG(age)) FROM people",
        "SELECT bar(COUNT(*), 0, 100, 20) FROM people",
        "SELECT bar(COUNT(*), 0, 100) FROM people",
        "SELECT to_base(abs(COUNT(*))::INT, 2, 8) FROM people",
        "SELECT repeat('*', 5) || COUNT(*) FROM people",
        "SELECT lpad(COUNT(*)::VARCHAR, 12, '.') FROM people",
    ],
)
def test_c124_texts_of_a_stated_size_are_made_above_the_aggregates(sql: str, people: Scene) -> None:
    ((text,),) = people.connection.sql(sql, epsilon=1).fetchall()
    assert 1 <= len(text) <= 80


ENDLESS = (
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i % 7 + 1 FROM r) SELECT max(i) FROM r"
)


def test_c127_what_has_no_end_above_the_aggregates_ends_in_time(people: Scene) -> None:
    """A subquery of public data is read while the statement is planned, so nothing is charged."""
    post: Any = people.connection._post
    post._seconds, seconds = 0.3, post._seconds
    before = people.spent()
    try:
        for sql in (
            f"SELECT COUNT(*) FROM people WHERE age > ({ENDLESS})",
            "SELECT COUNT(*) FROM people WHERE age IN (SELECT sum(hash(i)) FROM range(100000000000) r(i))",
        ):
            with pytest.raises(EngineError, match="was stopped"):
                people.connection.sql(sql, epsilon=1)
        assert people.spent() == before
        with pytest.raises(EngineError, match="was stopped"):
            people.connection.sql(f"SELECT COUNT(*), ({ENDLESS}) FROM people", epsilon=1)
        assert people.spent() != before
    finally:
        post._seconds = seconds


def test_c127_a_subquery_of_public_data_has_a_largest_size(
    people: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dp_sql.postprocess.embedded._MOST_STAGED", 100)
    with pytest.raises(EngineError, match="more than 100 rows"):
        people.connection.sql(
            "SELECT COUNT(*) FROM people WHERE age IN (SELECT i FROM range(100000000000) r(i))",
            epsilon=1,
        )
