"""At an epsilon so large that the noise vanishes, values chosen by rank are DuckDB's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
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
      f: {type: double, bounds: [0, 64]}
      m: {type: "decimal(6,2)", bounds: [0, 9.99]}
      d: {type: date, bounds: [2024-01-01, 2024-03-01]}
      g: {type: varchar, values: [a, b, c], nullable: false}
      free: {type: varchar}
"""
CALLS = (
    "MEDIAN(n)", "MEDIAN(m)", "MEDIAN(f)", "MEDIAN(d)", "MIN(n)", "MAX(n)", "MIN(d)", "MAX(d)", "MAX(f)",
    "MIN(m)", "QUANTILE_CONT(n, 0.9)", "QUANTILE_CONT(n, 0.25)", "QUANTILE_DISC(n, 0.75)",
    "QUANTILE(n, 0.5)", "QUANTILE_CONT(m, 0.1)", "PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY n)",
    "PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY n DESC)", "QUANTILE_CONT(n, [0.25, 0.5, 0.75])",
    "PERCENTILE_DISC(0.75) WITHIN GROUP (ORDER BY n DESC)", "MEDIAN(n) FILTER (WHERE n > 3)",
    "QUANTILE_DISC(n, [0.1, 0.5, 0.9, 1])", "QUANTILE_CONT(n, 0)", "MEDIAN(2 * n + 1)",
    "QUANTILE_CONT(n, [0.25, 0.5, 0.75])[1]", "QUANTILE_DISC(n, [0.1, 0.9])[-1]",
    "QUANTILE(n, [0.1, 0.9])[2]",
    "[7, 8, 9][CAST(MIN(n) AS INTEGER) + 7]",
    "MAX(n) - MIN(n)", "MODE(g)", "MEDIAN(n) FILTER (WHERE g = 'a')",
)  # fmt: skip


OPENED = {
    "user": ("user", ""),
    "event": ("event", ""),
    "tree": ("user", "mechanisms: {quantiles: [tree]}"),
}


@pytest.fixture(scope="module", params=OPENED)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> object:
    yield from both(tmp_path_factory.mktemp("ranks"), *OPENED[request.param])


LOCAL = {
    "smooth_sensitivity": (
        "user",
        "mechanisms: {quantiles: [smooth_sensitivity, permute_and_flip]}",
    ),
    "propose_test_release": (
        "event",
        "mechanisms: {quantiles: [propose_test_release, exponential], mode: [propose_test_release]}",
    ),
}


@pytest.fixture(scope="module", params=LOCAL)
def local(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> object:
    yield from both(tmp_path_factory.mktemp("local"), *LOCAL[request.param])


def both(folder: Path, level: str, more: str = "") -> Iterator[object]:
    """Yield a connection to rows that are drawn, and DuckDB's own to the same rows."""
    r = Random(7)
    rows = []
    for _ in range(501):
        n = r.choice([None, -5, 30, *range(-4, 12)])
        # the grid of a DOUBLE has 65,536 steps: these values lie on it, also where it is coarser
        f = r.choice([None, *(k / 64 for k in range(0, 4096, 14))])
        m = r.choice([None, "0.00", "9.99", *(f"{k / 100:.2f}" for k in range(0, 700, 31))])
        d = r.choice(["NULL", *(f"DATE '2024-01-{k:02}'" for k in range(1, 30, 3))])
        values = ", ".join("NULL" if v is None else str(v) for v in (n, f, m))
        rows.append(
            f"({r.randrange(60)}, {values}, {d}, '{r.choice('abc')}', '{r.choice(['x', 'y'])}')"
        )
    plain = duckdb.connect(str(folder / "rows.duckdb"))
    plain.execute(
        "CREATE TABLE rows(uid BIGINT, n INTEGER, f DOUBLE, m DECIMAL(6,2), d DATE, g VARCHAR, "
        "free VARCHAR)"
    )
    plain.execute("INSERT INTO rows VALUES " + ", ".join(rows))
    plain.close()
    text = SCHEMA % level + more
    if level == "event":
        text = text.replace("unit: person, ", "").replace("    owner: uid\n", "")
        text = re.sub("    limits.*\n", "", text)
    (folder / "schema.yaml").write_text(text)
    connection = dp_sql.connect(folder / "schema.yaml", ledger=":memory:", reuse=False)
    plain = duckdb.connect(str(folder / "rows.duckdb"), read_only=True)
    yield connection, plain
    connection.close()
    plain.close()


@pytest.mark.parametrize("call", [c for c in CALLS if "n > 3" not in c and c != "MEDIAN(d)"])
def test_by_local_sensitivity_equal_to_duckdb(
    local: tuple[dp_sql.Connection, duckdb.DuckDBPyConnection], call: str
) -> None:
    connection, plain = local
    sql = f"SELECT {call} AS v FROM rows"
    rows = connection.sql(sql, epsilon=10**8, delta="1e-9").fetchall()
    expected = plain.execute(sql).fetchall()
    assert same(list(rows[0]), list(expected[0])), (rows, expected)


@pytest.mark.parametrize("local", ["propose_test_release"], indirect=True)
def test_a_proposal_decides_whether_a_median_shows(
    local: tuple[dp_sql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    connection, plain = local
    sql = "SELECT MEDIAN(d, proposed => 5) AS near, MEDIAN(d, PROPOSED => 0.5) AS far FROM rows"
    (row,) = connection.sql(sql, epsilon=10**8, delta="1e-9").fetchall()
    assert row == (*plain.execute("SELECT MEDIAN(d) FROM rows").fetchall()[0], None)


def same(found: object, wanted: object) -> bool:
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(found, float) or isinstance(wanted, float):
        return float(found) == pytest.approx(float(wanted), abs=1e-9)  # type: ignore[arg-type]
    return bool(found == wanted)


@pytest.mark.parametrize("by", ["", "g, free"])
@pytest.mark.parametrize("call", CALLS)
def test_equal_to_duckdb(
    opened: tuple[dp_sql.Connection, duckdb.DuckDBPyConnection], call: str, by: str
) -> None:
    connection, plain = opened
    sql = f"SELECT {by + ', ' if by else ''}{call} AS v FROM rows"
    sql += f" GROUP BY {by} ORDER BY {by}" if by else ""
    result = connection.sql(sql, epsilon=10**8, delta="1e-9")
    wanted = plain.execute(sql)
    assert list(result.columns) == [c[0] for c in wanted.description]
    rows, expected = result.fetchall(), wanted.fetchall()
    if (
        "WHERE g" in call and "g" in by
    ):  # over nobody DuckDB has NULL, and here is the value nearest to 0
        rows, expected = ([r for r in x if r[0] == "a"] for x in (rows, expected))
    assert len(rows) == len(expected)
    assert all(same(list(a), list(b)) for a, b in zip(rows, expected, strict=True)), (
        rows,
        expected,
    )


def test_the_distance_to_a_condition_counts_the_rows_where_it_is_not_true(
    opened: tuple[dp_sql.Connection, duckdb.DuckDBPyConnection],
) -> None:
    connection, plain = opened
    found = connection.sql(
        "SELECT g, DISTANCE_TO(n > 3) AS d, DISTANCE_TO(n > 3) FILTER (WHERE free = 'x') AS e FROM rows "
        "GROUP BY g ORDER BY g",
        epsilon=10**8,
    ).fetchall()
    wanted = plain.execute(
        "SELECT g, COUNT(*) FILTER (WHERE (n > 3) IS NOT TRUE) AS d, COUNT(*) FILTER (WHERE (n > 3) IS "
        "NOT TRUE AND free = 'x') AS e FROM rows GROUP BY g ORDER BY g"
    ).fetchall()
    assert found == wanted


def test_steps_of_one_ratio_hold_the_digits_of_small_values(tmp_path: Path) -> None:
    plain = duckdb.connect(str(tmp_path / "rows.duckdb"))
    plain.execute("CREATE TABLE rows(uid BIGINT, f DOUBLE, n BIGINT)")
    small = [None, "'nan'", 0, -5, 0.02, 0.5, 3.25, 3.5, 4, 1000, 2e6, "'infinity'"]
    plain.execute(
        "INSERT INTO rows VALUES "
        + ", ".join(f"({i}, {'NULL' if f is None else f}, {10 * i})" for i, f in enumerate(small))
    )
    plain.close()
    (tmp_path / "schema.yaml").write_text(WIDE)
    with dp_sql.connect(tmp_path / "schema.yaml", ledger=":memory:") as connection:
        explained = connection.explain("SELECT MEDIAN(f), MEDIAN(n) FROM rows", epsilon="1")
        assert "in [0.01, 1e+06], 65536 steps of one ratio" in explained
        ((low, half, place, high, many, n),) = connection.sql(
            "SELECT MIN(f), MEDIAN(f), QUANTILE_DISC(f, 0.3), MAX(f), QUANTILE_CONT(f, [0.5, 0.95])[2], "
            "QUANTILE_DISC(n, 0.5) FROM rows",
            epsilon="1e9",
        ).fetchall()
    # in order, NULL and NaN left out: 0.01, 0.01, 0.02, 0.5, 3.25, 3.5, 4, 1000, 1e6, 1e6
    assert (low, high) == (0.01, 1e6)
    assert half == pytest.approx(3.375, rel=3e-4)
    assert place == pytest.approx(0.02, rel=3e-4)
    assert many == pytest.approx(1e6, rel=3e-4)
    assert n == 50


WIDE = """
version: 1
database: duckdb:///rows.duckdb
privacy: {level: user, adjacency: add_remove, unit: person, caps: {epsilon: 1e12}}
tables:
  rows:
    owner: uid
    budget: {epsilon: 1e18, delta: 0.1, accountant: sequential}
    columns:
      uid: {type: bigint}
      f: {type: double, bounds: [0.01, 1e6]}
      n: {type: bigint, bounds: [1, 10000000]}
"""
