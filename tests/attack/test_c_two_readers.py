"""Attacks C5: texts that our parser and DuckDB read differently, so that more runs than was analysed.

The part above the releases is written down again and run by DuckDB. Nothing that the analyst puts
between quotes, into comments or into odd characters may become SQL there.
"""

# ruff: noqa: E501  one statement a line

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import duckdb
import pytest
from attack.scene import Scene, scene
from sqlglot.dialects.duckdb import DuckDB

from dp_sql.errors import DPSQLError, QueryError
from dp_sql.parser.statement import parse


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("people"), "event") as opened:
        yield opened


SECOND = "CREATE OR REPLACE MACRO clamp(x, lo, hi) AS 42"
STACKED = [
    f"SELECT COUNT(*) AS n FROM people `/*`;{SECOND} -- */",
    f"SELECT 1 AS a, `, '`;{SECOND} --'",
    f"SELECT COUNT(*) AS `, '`;{SECOND} --' AS b FROM people",
    f"SELECT 1 AS N'x; {SECOND}; --'",
    f"SELECT COUNT(*) AS E'x; {SECOND}; --' FROM people",
    f"SELECT 1 AS a, /*/**/, '*/;{SECOND} --'",
    f"SELECT COUNT(*) AS n, '*/;{SECOND} --' AS b /*/**/ FROM people",
    f'SELECT CAST(COUNT(*) AS "int); {SECOND}; --") FROM people',
    f'SELECT f("x; {SECOND}; --" => 1)',
    f'SELECT COUNT(*) AS "x""; {SECOND}; --" FROM people',
    f"SELECT COUNT(*) AS n, $$'; {SECOND}; --$$ AS b FROM people",
    f"SELECT COUNT(*) AS n, '\\'';{SECOND} --' AS b FROM people",
]  # fmt: skip


@pytest.mark.parametrize("sql", STACKED)
def test_c94_no_second_statement_runs_above_a_release(sql: str, people: Scene) -> None:
    post = people.connection._post._connection
    before = post.execute("SELECT count(*) FROM duckdb_functions()").fetchall()
    try:
        people.connection.sql(sql, epsilon=1).fetchall()
    except DPSQLError as error:
        assert isinstance(error, QueryError)  # noqa: PT017  an answer is right as well
    assert people.connection.sql("SELECT CLAMP(7, 1, 3) AS c").fetchall() == [(3,)]
    assert post.execute("SELECT count(*) FROM duckdb_functions()").fetchall() == before


PAYLOAD = "z), sleep_ms(1), (y"
PLACES = (
    "CAST(1 AS {q})", "1::{q}", "{q}(1)", "1 AS {q}", "1 AS {s}", "INTERVAL 1 {q}", "INTERVAL {s}",
    "SUM(1) OVER {q}", "'a' COLLATE {q}", "{{{s}: 1}}", "{{{q}: 1}}", "struct_pack({q} := 1)", "f({q} => 1)",
    "list_transform([1], lambda {q}: {q})", "x.{q}", "{q}.x", "TRY_CAST(1 AS {q}(3))", "CAST(1 AS {q}[])",
    "CAST(1 AS STRUCT({q} INT))", "CAST(1 AS ENUM({s}))", "CAST(1 AS DECIMAL({q}))", "'x'->>{s}", "{q} {s}",
    "EXTRACT({q} FROM DATE '2024-01-01')", "date_part({s}, DATE '2024-01-01')", "$${p}$$", "N{s}", "E{s}",
    "* EXCLUDE ({q})", "* REPLACE (1 AS {q})", "COLUMNS({s})", "now() AT TIME ZONE {s}", "'a' LIKE 'b' ESCAPE {s}",
)  # fmt: skip
AROUND = (
    "SELECT {e} FROM cities", "SELECT {e}, COUNT(*) FROM people", "SELECT 1 FROM cities WHERE {e}",
    "SELECT 1 FROM cities ORDER BY {e}", "SELECT 1 FROM (VALUES ({e})) AS {q}({q})",
    "WITH {q}({q}) AS (SELECT {e}) SELECT * FROM {q}", "SELECT COUNT(*) AS {q} FROM people HAVING {e}",
)  # fmt: skip


@pytest.mark.parametrize("around", AROUND)
def test_c95_what_stands_between_quotes_stays_there(around: str, people: Scene) -> None:
    quoted, text = f'"{PAYLOAD}"', f"'{PAYLOAD}'"
    rendered = 0
    for place in PLACES:
        inner = place.format(q=quoted, s=text, p=PAYLOAD)
        try:
            residual = parse(around.format(e=inner, q=quoted), people.connection.catalog).residual
        except QueryError:
            continue
        for part in (residual.sql, *(item for item in residual.row_items if item)):
            rendered += 1
            assert "sleep_ms" not in {token.text for token in DuckDB().tokenize(part)}, part
    assert rendered >= 5


PIECES = (
    "'", '"', "$$", "$a$", "E'", "X'", "N'", "U&'", "\\", "''", '""', "--", "\n", "/*", "*/", "/**/", "`", ";",
    " ", "1", "a", "SELECT 2", "||", "\x0b", "\x0c", "\u2028", "\u00a0", "\u0085", "\x00", "[", "]", ",", ".",
    "::", " AS ", "\u00e9", "$", "$1", "@", "!", "~", "#",
)  # fmt: skip
ENDS = (
    ";SELECT 3",
    "; DROP TABLE x; --'",
    "*/",
    ";CREATE TABLE q AS SELECT 1 -- */",
    "'",
    "`",
    '"',
    "",
)


def texts(seed: int, count: int) -> Iterator[str]:
    r = Random(seed)
    for _ in range(count):
        body = "".join(r.choice(PIECES) for _ in range(r.randint(1, 7)))
        yield r.choice(
            (
                f"SELECT 1 AS {body}{r.choice(ENDS)}",
                f"SELECT {body}{r.choice(ENDS)}",
                f"SELECT 1 AS a, {body}, '{r.choice(PIECES)};SELECT 2 --'",
                f"SELECT 1 AS {body}, 2 AS {body} FROM cities {r.choice(ENDS)}",
                f"SELECT 'a{body}' AS x{r.choice(ENDS)}",
            )
        )


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 8))]
)
def test_c94_what_is_accepted_is_one_query_for_duckdb_too(seed: int, people: Scene) -> None:
    reader: Any = duckdb.connect()
    accepted = 0
    for text in texts(seed, 6_000 if seed == 1 else 60_000):
        try:
            residual = parse(text, people.connection.catalog).residual
        except QueryError:
            continue
        try:
            found = reader.extract_statements(residual.sql)
        except duckdb.Error:
            continue  # DuckDB can't read it: an error before anything runs
        accepted += 1
        assert len(found) == 1, f"{text!r} became {residual.sql!r}"
        assert found[0].type == duckdb.StatementType.SELECT
    assert accepted >= 100
