"""At an epsilon so large that the noise vanishes, sums of vectors are what DuckDB gives for the formula."""

from __future__ import annotations

import re
from random import Random

import duckdb
import pytest

import dp_sql

SCHEMA = """
version: 1
database: duckdb:///rows.duckdb
privacy: {level: %s, adjacency: add_remove, unit: person, caps: {epsilon: 1e12}}
tables:
  rows:
    owner: uid
    budget: {epsilon: 1e18, delta: 0.1, accountant: sequential}
    limits: {max_groups: 20, max_rows_per_group: 200}
    columns:
      uid: {type: bigint}
      n: {type: integer, bounds: [-5, 30]}
      f: {type: double}
      b: {type: boolean}
      g: {type: varchar, values: [a, b, c], nullable: false}
"""


@pytest.fixture(scope="module", params=["user", "event"])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> object:
    folder = tmp_path_factory.mktemp("vectors")
    r = Random(7)
    rows = []
    for _ in range(501):
        n = r.choice(["NULL", -5, 30, *range(-4, 12)])
        f = r.choice(["NULL", *(k / 64 for k in range(-4096, 4096, 14))])
        b = r.choice(["NULL", "true", "false"])
        rows.append(f"({r.randrange(60)}, {n}, {f}, {b}, '{r.choice('abc')}')")
    plain = duckdb.connect(str(folder / "rows.duckdb"))
    plain.execute("CREATE TABLE rows(uid BIGINT, n INTEGER, f DOUBLE, b BOOLEAN, g VARCHAR)")
    plain.execute("INSERT INTO rows VALUES " + ", ".join(rows))
    plain.close()
    text = SCHEMA % request.param
    if request.param == "event":
        text = text.replace("unit: person, ", "").replace("    owner: uid\n", "")
        text = re.sub("    limits.*\n", "", text)
    (folder / "schema.yaml").write_text(text)
    connection = dp_sql.connect(folder / "schema.yaml", ledger=":memory:", reuse=False)
    plain = duckdb.connect(str(folder / "rows.duckdb"), read_only=True)
    yield connection, plain
    connection.close()
    plain.close()


def formula(entries: list[str], limit: str, condition: str) -> str:
    """Return the sums of the vectors that are scaled down, as DuckDB computes them."""
    known = " AND ".join(f"{e} IS NOT NULL" for e in entries)
    squares = " + ".join(f"pow(CAST({e} AS DOUBLE), 2)" for e in entries)
    factor = f"CASE WHEN {squares} > pow({limit}, 2) THEN {limit} / sqrt({squares}) ELSE 1 END"
    sums = (
        f"coalesce(SUM(CAST({e} AS DOUBLE) * {factor}) FILTER (WHERE {known} AND ({condition})), 0)"
        for e in entries
    )
    return f"[{', '.join(sums)}]"


@pytest.mark.parametrize("by", ["", "g"])
@pytest.mark.parametrize("limit", ["0.5", "1e6"])
@pytest.mark.parametrize(
    ("entries", "condition"),
    [
        (["n"], "TRUE"),
        (["n", "f"], "TRUE"),
        (["n", "f", "b", "n * f", "1"], "n > 2"),
        (["1", "CASE WHEN n > 3 THEN f ELSE 0 END"], "TRUE"),
        (["CAST(n AS INTEGER)", "CAST(b AS INTEGER)"], "NOT b"),
    ],
)
def test_equal_to_duckdb(
    opened: tuple[dp_sql.Connection, duckdb.DuckDBPyConnection],
    entries: list[str],
    condition: str,
    limit: str,
    by: str,
) -> None:
    connection, plain = opened
    call = f"VECTOR_SUM([{', '.join(entries)}], {limit})"
    call += "" if condition == "TRUE" else f" FILTER (WHERE {condition})"
    keys, group = (
        (f"{by}, ", f" WHERE b IS NOT NULL GROUP BY {by} ORDER BY {by}") if by else ("", "")
    )
    result = connection.sql(
        f"SELECT {keys}{call} AS v FROM rows{group}", epsilon=10**11, delta="1e-9"
    )
    wanted = plain.execute(
        f"SELECT {keys}{formula(entries, limit, condition)} AS v FROM rows{group}"
    )
    assert list(result.columns) == [c[0] for c in wanted.description]
    rows, expected = result.fetchall(), wanted.fetchall()
    assert len(rows) == len(expected)
    for row, other in zip(rows, expected, strict=True):
        assert row[:-1] == other[:-1]
        assert isinstance(row[-1], list)
        scale = float(limit) if float(limit) < 100 else 2000
        assert row[-1] == pytest.approx(other[-1], abs=scale * 1e-4, rel=1e-6)


def test_a_list_is_read_above_the_release_and_equal_vectors_are_one(
    opened: tuple[dp_sql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    connection, _ = opened
    sql = """
        SELECT VECTOR_SUM([n, f], 3)[2] AS second, list_sum(VECTOR_SUM([n, f], 3)) AS both,
               VECTOR_SUM([n, f], 3)[1] AS first, len(VECTOR_SUM([f, n], 3)) AS long
        FROM rows
    """
    ((second, both, first, long),) = connection.sql(sql, epsilon=1, delta="1e-9").fetchall()
    assert both == pytest.approx(first + second)
    assert long == 2
    explained = connection.explain(
        "SELECT VECTOR_SUM([n, f], 3), VECTOR_SUM([n, f], 3)[1] FROM rows", epsilon=1
    )
    assert explained.count("vector v") == 1


def test_nothing_is_summed_where_an_entry_is_null(
    opened: tuple[dp_sql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    connection, _ = opened
    sql = "SELECT VECTOR_SUM([n, NULL], 10) AS v FROM rows WHERE n IS NOT NULL"
    ((v,),) = connection.sql(sql, epsilon=10**11, delta="1e-9").fetchall()
    assert v == pytest.approx([0, 0], abs=1e-3)


def test_an_entry_may_be_asked_within_an_error(
    opened: tuple[dp_sql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    connection, plain = opened
    sql = "SELECT 2 * VECTOR_SUM([n, f], 10)[2] AS v FROM rows WHERE n IS NOT NULL"
    result = connection.sql(sql, within=400, confidence=0.999)
    ((found,),) = result.fetchall()
    call = formula(["n", "f"], "10", "n IS NOT NULL")
    ((wanted,),) = plain.execute(f"SELECT {call}[2] FROM rows").fetchall()
    assert abs(found - 2 * wanted) < 800
    (((low, high),),) = connection.sql(sql, epsilon=1).intervals(level=0.95)
    assert low < high
