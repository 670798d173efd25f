"""Keys keep their identity on the way from the database to Python, and may stand alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.connection import Connection

_SCHEMA = """version: 1
database: "duckdb://"
privacy: {level: user, adjacency: add_remove, defaults: {epsilon: 1e6, delta: 1e-9}}
tables:
  e:
    source: e.parquet
    owner: u
    budget: {epsilon: 1e18, delta: 0.1, accountant: sequential}
    columns:
      u: {type: integer}
      d: {type: date}
      c: {type: varchar, values: [x, y], nullable: false}
  p: {source: p.parquet, public: true, columns: {d: {type: date, unique: true}}}
"""
_DAYS = (
    "CASE WHEN range < 3 THEN DATE 'infinity' WHEN range < 100 THEN DATE '9999-12-31' ELSE {} END"
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """Return a connection to three units in infinity, 97 in 9999-12-31 and 100 in -infinity."""
    days = _DAYS.format("DATE '-infinity'")
    rows = f"SELECT range AS u, {days} AS d, 'x' AS c FROM range(200)"
    duckdb.sql(rows).write_parquet(str(tmp_path / "e.parquet"))
    duckdb.sql(f"SELECT DISTINCT d FROM ({rows})").write_parquet(str(tmp_path / "p.parquet"))
    (tmp_path / "s.yaml").write_text(_SCHEMA, encoding="utf-8")
    with dp_sql.connect(tmp_path / "s.yaml", ledger=":memory:") as opened:
        yield opened


@pytest.mark.parametrize(
    ("key", "tables"),
    [
        ("d", "e"),
        ("CAST(d AS TIMESTAMP)", "e"),
        ("p.d", "e JOIN p ON e.d = p.d"),
    ],
)
def test_infinite_days_are_groups_of_their_own(
    connection: Connection, key: str, tables: str
) -> None:
    groups = f"SELECT {key}, COUNT(*) FROM {tables} GROUP BY 1"
    sql = f"SELECT CAST(k AS VARCHAR), n FROM ({groups}) AS t(k, n)"
    found = {str(k)[:10]: n for k, n in connection.sql(sql).fetchall()}
    assert found == {"infinity": 3, "9999-12-31": 97, "-infinity": 100}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT c FROM e",
        "SELECT c FROM e GROUP BY c",
        "SELECT 1 AS one, c FROM e GROUP BY ALL",
    ],
)
def test_public_keys_alone_are_free(connection: Connection, sql: str) -> None:
    result = connection.sql(sql)
    assert sorted(row[-1] for row in result.fetchall()) == ["x", "y"]
    assert result.cost == {}
