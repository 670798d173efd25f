"""At event level a join repeats a row as often as the public key occurs: so far Δ grows, or no answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dp_sql

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {level: event, adjacency: add_remove, unit: row}
tables:
  people:
    source: people.csv
    budget: {epsilon: 1000, delta: 1e-3}
    columns: {city: {type: varchar}, age: {type: integer, bounds: [0, 9]}}
  places:
    public: true
    source: places.csv
    columns: {city: {type: varchar, MORE}, area: {type: integer}}
"""
SQL = "SELECT SUM(age) FROM people JOIN places USING (city)"


def opened(folder: Path, more: str, cities: str) -> dp_sql.Connection:
    (folder / "people.csv").write_text("city,age\na,3\nb,9\n", encoding="utf-8")
    rows = "".join(f"{city},{n}\n" for n, city in enumerate(cities))
    (folder / "places.csv").write_text("city,area\n" + rows, encoding="utf-8")
    (folder / "s.yaml").write_text(SCHEMA.replace("MORE", more), encoding="utf-8")
    return dp_sql.connect(folder / "s.yaml", ledger=":memory:")


@pytest.mark.parametrize(
    ("more", "cities", "times"),
    [
        ("unique: true", "ab", 1),
        ("nullable: true", "ab", 1),
        ("max_frequency: 2", "aab", 2),
        ("max_frequency: 5", "aab", 5),
    ],
)
def test_a_row_counts_as_often_as_its_key_may_occur(
    more: str, cities: str, times: int, tmp_path: Path
) -> None:
    with opened(tmp_path, more, cities) as connection:
        text = connection.explain("SELECT COUNT(*) FROM people JOIN places USING (city)", epsilon=1)
        assert re.findall(r"Δ1 = (\d+)", text) == [str(times)]
        moved, alone = (
            int(re.findall(r"Δ1 = (\d+)", connection.explain(sql, epsilon=1))[0])
            for sql in (SQL, "SELECT SUM(age) FROM people")
        )
        assert moved >= times * 9
        assert moved >= alone


@pytest.mark.parametrize(
    ("more", "cities"), [("nullable: true", "aab"), ("max_frequency: 2", "aaab")]
)
def test_a_key_that_occurs_more_often_than_declared_is_refused(
    more: str, cities: str, tmp_path: Path
) -> None:
    with (
        opened(tmp_path, more, cities) as connection,
        pytest.raises(dp_sql.NotPrivateError, match="max_frequency"),
    ):
        connection.sql(SQL, epsilon=1)
