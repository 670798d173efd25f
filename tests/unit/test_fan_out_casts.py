"""At event level a public key counts as unique under casts that lose nothing, and what a refusal says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import duckdb
import pytest

import dp_sql
from dp_sql.plan.expression import Cast, Column, Ref
from dp_sql.schema.typename import parse_type
from dp_sql.sensitivity.injective import injective_column

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {level: event, adjacency: add_remove, unit: row}
tables:
  places:
    source: places.csv
    budget: {epsilon: 1e13, delta: 1e-3}
    columns:
      x: {type: bigint, bounds: [0, 9]}
      t: {type: varchar}
      day: {type: date}
  zones:
    public: true
    source: zones.csv
    columns:
      i: {type: integer, unique: true}
      twice: {type: smallint, max_frequency: 2}
      half: {type: integer}
      code: {type: varchar, unique: true}
      seen: {type: timestamp, unique: true}
"""
BOTH = "SELECT a.twice, b.half FROM zones a {} zones b ON {}"
LONE = "SELECT a.twice FROM zones a LEFT JOIN (VALUES (1)) b(k) ON a.i = b.k"
ZONES = "\n".join(
    f"{i},{i // 2},{i % 2},{'0' * i}1,2024-01-01 0{i}:00:00" for i in range(6)
)  # one day and one number in six texts and six instants


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Connection]:
    folder = tmp_path_factory.mktemp("zones")
    rows = "\n".join(f"{n % 8},{n % 5},2024-01-0{1 + n % 2}" for n in range(40))
    (folder / "places.csv").write_text(f"x,t,day\n{rows}\n", encoding="utf-8")
    (folder / "zones.csv").write_text(f"i,twice,half,code,seen\n{ZONES}\n", encoding="utf-8")
    (folder / "s.yaml").write_text(SCHEMA, encoding="utf-8")
    with dp_sql.connect(
        folder / "s.yaml", ledger=":memory:", reuse=False, in_process=True
    ) as opened:
        yield opened


@pytest.mark.parametrize(
    ("join", "count", "times"),
    [
        ("LEFT JOIN zones z ON p.x = z.i", 40, 1),
        ("JOIN zones z ON CAST(p.x AS DOUBLE) = z.i", 30, 1),
        ("JOIN zones z ON p.t = CAST(z.i AS VARCHAR)", 40, 1),
        ("JOIN (SELECT CAST(i AS BIGINT) AS k FROM zones) z ON p.x = z.k", 30, 1),
        ("JOIN zones z ON p.x = z.twice", 30, 2),
        (f"JOIN ({BOTH.format('RIGHT JOIN', 'a.i = b.i')}) z ON p.x = z.twice", 30, 2),
        (f"JOIN ({BOTH.format('LEFT JOIN', 'b.i = a.i')}) z ON p.x = z.twice", 30, 2),
        (f"JOIN ({BOTH.format('JOIN', 'a.twice = b.twice')}) z ON p.x = z.twice", 60, 4),
        (f"JOIN ({BOTH.format('RIGHT JOIN', 'b.twice = a.twice')}) z ON p.x = z.twice", 60, 4),
        (f"JOIN ({LONE}) z ON p.x = z.twice", 30, 2),
        ("JOIN (SELECT half, i FROM zones GROUP BY ALL) z ON p.x = z.half AND p.x = z.i", 10, 1),
    ],
)
def test_a_key_of_another_width_is_unique(
    connection: dp_sql.Connection, join: str, count: int, times: int
) -> None:
    sql = f"SELECT COUNT(*) FROM places p {join}"
    assert re.findall(r"Δ1 = (\d+)", connection.explain(sql, epsilon=1)) == [str(times)]
    assert connection.sql(sql, epsilon=1e9).fetchall() == [(count,)]


@pytest.mark.parametrize(
    ("join", "why", "shown"),
    [
        ("JOIN zones z ON p.x = z.half", "several rows of z may have one value of half",
         "JOIN (SELECT DISTINCT half FROM zones) AS z ON"),
        ("LEFT JOIN zones z ON p.x = z.i // 2", "an expression of i", "p SEMI JOIN zones z ON"),
        ("JOIN zones z ON p.x = CAST(z.code AS BIGINT)", "an expression of code", "SEMI JOIN"),
        ("JOIN zones z ON p.day = CAST(z.seen AS DATE)", "an expression of seen", "SEMI JOIN"),
        ("JOIN zones z ON p.x < z.i", "no equality with a column of z", "SEMI JOIN zones z ON p.x < z.i"),
        (", zones z WHERE p.x = z.half AND z.twice > 0", "one value of half", "AS half, MAX(code)"),
        ("CROSS JOIN zones", "no equality with a column of zones", "SELECT COUNT(*)"),
    ],
)  # fmt: skip
def test_a_join_without_bound_says_why_and_what_to_write(
    connection: dp_sql.Connection, join: str, why: str, shown: str
) -> None:
    sql = f"SELECT COUNT(*) FROM places p {join}"
    with pytest.raises(dp_sql.NotPrivateError, match="any number of times") as caught:
        connection.sql(sql, epsilon=1)
    error = caught.value
    assert why in error.message
    assert error.position is not None
    assert sql[error.position.column - 1 :].startswith("zones")
    example = str(error).rpartition("For example: ")[2]
    assert shown.replace("AS half, MAX(code)", "MAX(code) AS code") in example
    assert connection.sql(example, epsilon=1e9).fetchall()


@pytest.mark.parametrize(
    "rows",
    [
        "SELECT b.twice FROM zones a LEFT JOIN zones b ON a.half = b.half",
        "SELECT b.twice FROM zones a RIGHT JOIN zones b ON a.half = b.half",
        "SELECT a.twice FROM zones a FULL JOIN zones b ON a.i = b.half",
        "SELECT coalesce(b.twice, 1) AS twice FROM zones a LEFT JOIN zones b ON a.i = b.i + 9",
    ],
)
def test_a_join_below_that_repeats_rows_is_refused(
    connection: dp_sql.Connection, rows: str
) -> None:
    with pytest.raises(dp_sql.NotPrivateError, match="any number of times"):
        connection.sql(f"SELECT COUNT(*) FROM places p JOIN ({rows}) z ON p.x = z.twice", epsilon=1)


VALUES = {
    "BIGINT": ("0", "1", "9007199254740992", "9007199254740993", "-1"),
    "INTEGER": ("0", "1", "2147483647", "2147483646", "-1"),
    "SMALLINT": ("0", "1", "32767"),
    "VARCHAR": ("'1'", "'01'", "'2024-01-01'", "'2024-1-1'"),
    "DATE": ("DATE '2024-01-01'", "DATE '2024-01-02'"),
    "TIMESTAMP": ("TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP '2024-01-01 10:00:00'"),
    "DOUBLE": ("1", "1.25", "0.1", "1.1"),
    "DECIMAL(9,1)": ("1", "1.2"),
    "DECIMAL(9,3)": ("1", "1.2", "1.204"),
}


def test_no_cast_that_makes_one_value_of_two_counts_as_injective() -> None:
    merged, kept = set[tuple[str, str]](), set[tuple[str, str]]()
    with duckdb.connect() as con:
        for source, target in product(VALUES, VALUES):
            listed = ", ".join(f"(CAST({v} AS {source}))" for v in VALUES[source])
            cast = f"SELECT TRY_CAST(v AS {target}) AS c FROM (VALUES {listed}) t(v)"
            sql = f"SELECT count(c), count(DISTINCT c) FROM ({cast})"
            try:
                row = con.execute(sql).fetchone()
            except duckdb.Error:  # there is no such cast
                continue
            assert row is not None
            given, apart = row
            column = Column(1, "c", parse_type(source))
            found = injective_column(Cast(Ref(column), parse_type(target)))
            if apart < given:
                merged.add((source, target))
                assert found is None, (source, target)
            elif found is not None:
                kept.add((source, target))
    assert {("BIGINT", "DOUBLE"), ("VARCHAR", "BIGINT"), ("TIMESTAMP", "DATE")} <= merged
    assert {("INTEGER", "BIGINT"), ("INTEGER", "DOUBLE"), ("DATE", "TIMESTAMP")} <= kept
    wide = Column(2, "w", parse_type("BIGINT"))
    through = Cast(Cast(Ref(wide), parse_type("DOUBLE")), parse_type("BIGINT"))
    assert injective_column(through) is None
