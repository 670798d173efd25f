"""Counts of distinct values at event level, without noise that shows, are those of the rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import dp_sql

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {level: event}
tables:
  visits:
    source: visits.csv
    budget: {epsilon: 1e9, delta: 0.1}
    columns:
      k: {type: integer, bounds: [1, 3], nullable: false}
      word: {type: varchar}
      n: {type: integer, bounds: [0, 9]}
"""


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT COUNT(DISTINCT word) FROM visits", [(3,)]),
        ("SELECT COUNT(DISTINCT (word, n)) FROM visits", [(5,)]),
        (
            "SELECT k, COUNT(DISTINCT word) FROM visits GROUP BY k ORDER BY k",
            [(1, 3), (2, 1), (3, 0)],
        ),
    ],
)
def test_values_count_once_and_null_never(
    sql: str, rows: list[tuple[int, ...]], tmp_path: Path
) -> None:
    (tmp_path / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
    lines = ["k,word,n", "1,a,0", "1,a,0", "1,b,0", "1,c,1", "1,a,2", "2,a,0", "2,,4", "2,a,0"]
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with dp_sql.connect(tmp_path / "schema.yaml", ledger=":memory:", in_process=True) as connection:
        assert connection.sql(sql, epsilon=1e6).fetchall() == rows
