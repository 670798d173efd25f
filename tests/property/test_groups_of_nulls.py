"""A group whose rows all have NULL where a sum reads is there, as in DuckDB: its rows are rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden.shop import plain, write_shop

import dp_sql

KEYS = {  # (table, public or private key): what is true in some of its groups, and a number
    ("users", "plan"): ("plan = 'pro'", "age"),
    ("users", "home"): ("home = 'oslo'", "age"),
    ("orders", "state"): ("state = 'new'", "total"),
    ("visits", "step"): ("step > 3", "amount"),
    ("people", "city"): ("city = 'oslo'", "score"),
}
ASKED = (
    "SUM(CASE WHEN {p} THEN {x} END)",
    "SUM({x}) FILTER (WHERE {p})",
    "AVG(CASE WHEN {p} THEN {x} END)",
    "VAR_POP({x}) FILTER (WHERE {p})",
    "COUNT({x}) FILTER (WHERE {p})",
    "SUM(CASE WHEN {p} THEN {x} END), COUNT({x})",
    "SUM(CASE WHEN {p} THEN {x} END), COUNT(*)",
    "CORR(CASE WHEN {p} THEN {x} END, {x} + 1), COUNT(*)",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Any]]:
    place = tmp_path_factory.mktemp("shop")
    write_shop(place)
    duck = plain(place)
    yield place, duck
    duck.close()


@pytest.mark.parametrize(("table", "key"), KEYS)
def test_no_group_of_nulls_is_left_out(table: str, key: str, folder: tuple[Path, Any]) -> None:
    place, duck = folder
    condition, value = KEYS[table, key]
    schema = "people.yaml" if table == "people" else "visits.yaml"
    with dp_sql.connect(place / schema, ledger=":memory:") as connection:
        for asked in ASKED:
            sql = f"SELECT {key}, {asked.format(p=condition, x=value)} FROM {table} GROUP BY {key}"
            want = {row[0] for row in duck.execute(sql).fetchall()}
            got = {row[0] for row in connection.sql(sql, epsilon="1e12", delta="1e-9").fetchall()}
            assert want <= got, sql
