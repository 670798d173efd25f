"""SAMPLE_AND_AGGREGATE: DuckDB's values at a large epsilon, the same bits on any threads, never an error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest
from extremes import extreme_values

import dp_sql
from dp_sql.executor.lower_measure import grid
from dp_sql.executor.lower_row_aggregate import aggregate_sql
from dp_sql.executor.lower_sampled import sampled_sql
from dp_sql.parser.sample_calls import AGGREGATES
from dp_sql.parser.statement import parse
from dp_sql.plan.expression import Column, Ref
from dp_sql.plan.functions import TypeProblem
from dp_sql.plan.relation import SumMeasure
from dp_sql.plan.row_aggregates import needs_grid, typed
from dp_sql.plan.rows import Grid, RowAggregate, RowAggregateKind
from dp_sql.planner import sampled as planner
from dp_sql.planner.plan import plan_release
from dp_sql.schema import sqltype
from dp_sql.schema.loader import load
from dp_sql.schema.sqltype import Kind, SqlType

ROWS = 15_000
SCHEMA = """
version: 1
database: duckdb:///rows.duckdb
privacy: {level: %s, adjacency: add_remove, %s caps: {epsilon: 1e12}}
tables:
  rows:
    %s
    budget: {epsilon: 1e18, delta: 0.1, accountant: sequential}
    columns:
      uid: {type: bigint}
      n: {type: integer, bounds: [-5, 30]}
      f: {type: double, bounds: [0, 64]}
      m: {type: "decimal(6,2)", bounds: [0, 9.99]}
      g: {type: varchar, values: [a, b, c, d], nullable: false}
"""
OWNED = """owner: uid
    limits: {max_groups: 4, max_rows_per_group: 1}"""
KEY = 12345
BLOCKS = 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sampled")
    with duckdb.connect(str(folder / "rows.duckdb")) as con:
        con.execute(
            "CREATE TABLE rows AS SELECT CAST(h % 500 AS BIGINT) AS uid, "
            "CASE WHEN h % 11 > 0 THEN CAST(hash(h) % 30 AS INTEGER) - 4 END AS n, "
            "sqrt(hash(h, 1) % 3000) AS f, CAST(hash(h, 2) % 999 / 100 AS DECIMAL(6,2)) AS m, "
            f"chr(97 + CAST(hash(h, 3) % 3 AS INTEGER)) AS g FROM (SELECT hash(i) AS h FROM range({ROWS}) "
            "AS r(i))"
        )
    for name, parts in {
        "user": ("user", "unit: person,", OWNED),
        "event": ("event", "", ""),
    }.items():
        (folder / f"{name}.yaml").write_text(SCHEMA % parts)
    return folder


@pytest.fixture(scope="module")
def plain(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(folder / "rows.duckdb"), read_only=True) as con:
        yield con


def expected(con: duckdb.DuckDBPyConnection, call: str, where: str, ends: str, unit: str) -> float:
    """Return the mean over blocks, as DuckDB has it. unit: what decides in which block a row is."""
    low, high = map(float, ends.split(", "))
    rows = con.execute(
        f"SELECT CAST({call} AS DOUBLE) FROM rows WHERE {where} "
        f"GROUP BY hash(hash({unit}, CAST({KEY} AS HUGEINT))) % {BLOCKS}"
    ).fetchall()
    middle = (low + high) / 2
    found = [middle if v is None or math.isnan(v) else min(max(v, low), high) for (v,) in rows]
    return (sum(found) + (BLOCKS - len(found)) * middle) / BLOCKS


ARGUMENTS = {
    "avg": ("f", "0, 64"),
    "bool_and": ("n > 0", "0, 1"),
    "bool_or": ("n > 29", "0, 1"),
    "count": ("n", "0, 20000"),
    "kurtosis": ("f", "-3, 3"),
    "kurtosis_pop": ("n", "-3, 3"),
    "mad": ("f", "0, 20"),
    "max": ("m", "0, 9"),
    "median": ("f", "0, 64"),
    "min": ("n", "-5, 5"),
    "mode": ("n", "-5, 30"),
    "skewness": ("f", "-1, 1"),
    "stddev_pop": ("f", "0, 30"),
    "stddev_samp": ("m", "0, 30"),
    "sum": ("m", "0, 100000"),
    "var_pop": ("n", "0, 500"),
    "var_samp": ("f", "0, 500"),
}


CALLS = ", ".join(
    f"SAMPLE_AND_AGGREGATE('{name}', {argument}, {ends}, {BLOCKS})"
    for name, (argument, ends) in ARGUMENTS.items()
)


@pytest.mark.parametrize("level", ["user", "event"])
def test_blocks_are_duckdbs_at_a_large_epsilon(
    folder: Path,
    plain: duckdb.DuckDBPyConnection,
    level: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planner.secrets, "randbits", lambda _: KEY)
    assert set(ARGUMENTS) == set(AGGREGATES)
    unit = "uid" if level == "user" else "uid, n, f + 0.0, m, g"
    with dp_sql.connect(folder / f"{level}.yaml", ledger=":memory:", reuse=False) as con:
        sql = f"SELECT g, {CALLS} FROM rows WHERE g < 'd' GROUP BY ROLLUP (g) ORDER BY g"
        for group, *values in con.sql(sql, epsilon=10**9).fetchall():
            where = "true" if group is None else f"g = '{group}'"
            for value, (name, (argument, ends)) in zip(values, ARGUMENTS.items(), strict=True):
                one = expected(plain, _in_order(name, argument), where, ends, unit)
                assert value == pytest.approx(one, abs=2e-5, rel=2e-5), (name, group)


def _in_order(name: str, argument: str) -> str:
    """Return the call in DuckDB's words, where ties are broken as here."""
    return f"mode({argument} ORDER BY {argument})" if name == "mode" else f"{name}({argument})"


def test_shapes_of_persons_are_duckdbs(folder: Path, plain: duckdb.DuckDBPyConnection) -> None:
    names = ("mad", "skewness", "kurtosis", "kurtosis_pop")
    inner = ", ".join(f"{name}({x}) AS {name}_{x}" for name in names for x in ("f", "n"))
    columns = [f"{name}_{x}" for name in names for x in ("f", "n")]
    inner = f"(SELECT uid, {inner} FROM rows WHERE m < 0.5 GROUP BY uid) AS q"
    clamped = ", ".join(f"AVG(CLAMP({c}, -9, 99)) AS {c}" for c in columns)
    with dp_sql.connect(folder / "user.yaml", ledger=":memory:", reuse=False) as con:
        [found] = con.sql(f"SELECT {clamped} FROM {inner}", epsilon=10**9).fetchall()
    wanted = ", ".join(f"avg(CASE WHEN {c} > -9 THEN least({c}, 99) ELSE {c} END)" for c in columns)
    assert found == pytest.approx(
        plain.execute(f"SELECT {wanted} FROM {inner}").fetchone(), abs=1e-4
    )


def test_a_group_of_nobody_is_the_middle(folder: Path) -> None:
    with dp_sql.connect(folder / "user.yaml", ledger=":memory:", reuse=False) as con:
        sql = "SELECT g, SAMPLE_AND_AGGREGATE('median', n, 1, 4, 3) AS v FROM rows GROUP BY g ORDER BY g"
        assert con.sql(sql, epsilon=10**8).fetchall()[3] == ("d", pytest.approx(2.5))
        sql = "SELECT SAMPLE_AND_AGGREGATE('sum', n, 1, 4, 3) FROM rows WHERE n > 30"
        assert con.sql(sql, epsilon=10**8).fetchall() == [(pytest.approx(2.5),)]


def test_the_sums_are_the_same_bits_on_any_threads(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner.secrets, "randbits", lambda _: KEY)
    catalog = load(folder / "user.yaml")

    class Facts:
        def image(self, *_: object) -> None:
            return None

        def frequency(self, *_: object) -> int:
            return 1

    (release,) = parse(f"SELECT {CALLS} FROM rows", catalog).releases
    plan = plan_release(release, catalog, Facts(), Fraction(1))
    texts = [sampled_sql(s) for s in plan.sampled]
    seen = set()
    for threads, order in ((1, "ALL"), (4, "hash(f, m)"), (4, "hash(m, n)")):
        with duckdb.connect(config={"threads": threads}) as con:
            con.execute(f"ATTACH '{folder / 'rows.duckdb'}' AS file (READ_ONLY)")
            con.execute("CREATE SCHEMA data")
            con.execute(f"CREATE TABLE data.rows AS SELECT * FROM file.rows ORDER BY {order}")
            seen.add(tuple(con.execute(text).fetchall()[0] for text in texts))
    assert len(seen) == 1


TYPES = (
    sqltype.BIGINT, sqltype.HUGEINT, sqltype.DOUBLE, sqltype.BOOLEAN, SqlType(Kind.FLOAT),
    SqlType(Kind.UTINYINT), SqlType(Kind.DECIMAL, 38, 10), SqlType(Kind.DECIMAL, 4, 4),
)  # fmt: skip


@pytest.mark.parametrize("kind", AGGREGATES.values())
def test_no_value_makes_a_block_raise(kind: RowAggregateKind) -> None:
    con = duckdb.connect()
    con.execute("SET ieee_floating_point_ops = true")
    tried = 0
    for type_ in TYPES:
        x = Column(1, "x", type_)
        try:
            argument, result = typed(kind, Ref(x))
        except TypeProblem:
            continue
        if not result.is_numeric and result.kind is not Kind.BOOLEAN:
            continue
        assert argument is not None
        steps = (
            Grid(Fraction(-(2**19)), Fraction(2**19), Fraction(1))
            if needs_grid(kind, argument)
            else None
        )
        value = Column(2, "v", argument.type)
        made = RowAggregate(kind, Ref(value), Column(3, "r", result), grid=steps)
        text = aggregate_sql(made, lambda c: c.name)
        ends = SumMeasure(Ref(value), Fraction(-1), Fraction(1, 3), Fraction(1, 2**20))
        integer = grid(ends, ("r", result))
        values = extreme_values(type_)
        listed = ", ".join(f"({i}, '{v}')" for i, v in enumerate(values))
        nan = "CASE WHEN isnan(x) THEN NULL ELSE x + 0.0 END" if type_.is_float else "x"
        rows = f"SELECT i, TRY_CAST(t AS {type_}) AS x FROM (VALUES {listed}) AS all_(i, t)"
        rows = f"SELECT i, TRY_CAST({nan} AS {argument.type}) AS v FROM ({rows}) AS typed_"
        pairs = f"SELECT a.v, (a.i, b.i) AS k FROM ({rows}) AS a, ({rows}) AS b WHERE a.i <= b.i "
        pairs += (
            f"UNION ALL SELECT b.v, (a.i, b.i) FROM ({rows}) AS a, ({rows}) AS b WHERE a.i <= b.i"
        )
        groups = f"SELECT {text} AS r FROM ({pairs}) AS pairs_ GROUP BY k UNION ALL "
        groups += f"SELECT {text} AS r FROM ({rows}) AS rows_"
        least, most = con.execute(
            f"SELECT min(s), max(s) FROM (SELECT {integer} AS s FROM ({groups}) AS groups_) AS steps_"
        ).fetchall()[0]
        assert least is None or ends.ends[0] <= least <= most <= ends.ends[1]
        tried += 1
    assert tried
