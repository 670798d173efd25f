"""TPC-H in its original text: answers equal DuckDB's where noise vanishes, or name why they can't be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from golden.tpch import QUERIES, write_tpch

import dp_sql

REFUSED = {  # their output names a customer, or an order, which is one customer's
    3: "l_orderkey belongs to one person",
    10: "a group for each person",
    18: "a group for each person",
}
ANSWERED = sorted(set(QUERIES) - set(REFUSED))


@pytest.fixture(scope="module", params=["0.01", pytest.param("0.1", marks=pytest.mark.slow)])
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dp_sql.Connection, Any]]:
    folder: Path = tmp_path_factory.mktemp("tpch")
    write_tpch(folder, request.param)
    plain: Any = duckdb.connect()
    for file in sorted(folder.glob("*.parquet")):
        plain.execute(f"CREATE VIEW {file.stem} AS SELECT * FROM '{file}'")
    with dp_sql.connect(folder / "tpch.yaml", ledger=":memory:") as connection:
        yield connection, plain
    plain.close()


def close(a: object, b: object) -> bool:
    if isinstance(a, str) or isinstance(b, str) or a is None:
        return a == b
    return math.isclose(float(a), float(b), rel_tol=1e-6, abs_tol=1e-2)  # type: ignore[arg-type]


def same(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    return len(a) == len(b) and all(map(close, a, b))


@pytest.mark.parametrize("number", ANSWERED)
def test_a_query_is_answered_as_duckdb_answers_it(
    number: int, opened: tuple[dp_sql.Connection, Any]
) -> None:
    connection, plain = opened
    cursor = plain.execute(QUERIES[number])
    names, want = [d[0] for d in cursor.description], cursor.fetchall()
    result = connection.sql(QUERIES[number], epsilon="1e12", delta="1e-9")
    got = result.fetchall()
    assert result.columns == names
    if want == [(None,)]:  # over nothing, a noisy number
        assert len(got) == 1
        return
    shown = [row for row in got if any(same(row, other) for other in want)]
    assert len(shown) == len(want)
    assert all(map(same, shown, want)), "in another order"
    empty = [row for row in got if not any(same(row, other) for other in want)]
    assert all(any(isinstance(v, int | float) and abs(v) < 1 for v in row) for row in empty)


@pytest.mark.parametrize("number", sorted(REFUSED))
def test_a_query_that_names_customers_is_refused(
    number: int, opened: tuple[dp_sql.Connection, Any]
) -> None:
    connection, _ = opened
    with pytest.raises(dp_sql.DPSQLError, match=REFUSED[number]):
        connection.sql(QUERIES[number], epsilon="1", delta="1e-9")
