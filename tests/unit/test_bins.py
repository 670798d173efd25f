"""HISTOGRAM: a map of counts that is DuckDB's without noise, costs one count, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.errors import NotPrivateError, QueryError, UnsupportedSQLError
from dp_sql.privacy.event import LaplaceEvent

SCHEMA = """
version: 1
database: duckdb:///rows.duckdb
privacy: {level: user, adjacency: ADJACENCY, unit: person, caps: {epsilon: 1e12}}
mechanisms: {noise: [NOISE]}
tables:
  rows:
    owner: uid
    limits: {max_groups: 3, max_rows_per_group: 20}
    budget: {epsilon: 1e18, delta: 0.1, accountant: sequential}
    columns:
      uid: {type: bigint}
      a: {type: integer, bounds: [0, 49], nullable: false}
      big: {type: bigint, bounds: [0, 10000000]}
      g: {type: integer, values: [0, 1, 2], nullable: false}
      v: {type: varchar, values: [x, y, z]}
      f: {type: double, bounds: [0, 10]}
      m: {type: "decimal(6,2)", bounds: [0, 10]}
      b: {type: boolean}
      d: {type: date, bounds: [2024-01-01, 2024-12-31]}
      t: {type: timestamp}
      u: {type: utinyint}
      r: {type: float}
      h: {type: hugeint}
      w: {type: double}
"""
CALLS = (
    "HISTOGRAM(v)", "HISTOGRAM(a)", "HISTOGRAM(b)", "HISTOGRAM(g)", "HISTOGRAM(v) FILTER (WHERE a > 25)",
    "HISTOGRAM(a, [10, 20, 30])", "HISTOGRAM(a, [30, 10, 10, 49])", "HISTOGRAM(f, [1, 2.5])",
    "HISTOGRAM(m, [1, 2.5])", "HISTOGRAM(big, [500])", "HISTOGRAM(big - 20, [-10, 0])", "HISTOGRAM(v)['x']",
    "HISTOGRAM_EXACT(v, ['x', 'q'])", "HISTOGRAM_EXACT(a, [20, 10])", "HISTOGRAM_EXACT(f, [0, 99])",
    "HISTOGRAM(d, [DATE '2024-01-05', DATE '2024-01-10'])",
    "HISTOGRAM(u, [3])", "HISTOGRAM(u::USMALLINT, [3, 8])", "HISTOGRAM(r, [0.1, 0.7])", "HISTOGRAM(h, [500])",
    "HISTOGRAM_EXACT(r, [0.3])", "HISTOGRAM(u::UBIGINT, [1])", "HISTOGRAM(u::UINTEGER, [1])",
    "HISTOGRAM(t, [TIMESTAMP '2024-01-05 10:00:00'])",
    "COUNT(*), HISTOGRAM(b), MAX(a), HISTOGRAM(b)", "cardinality(HISTOGRAM(v)) + 1",
)  # fmt: skip
REFUSED = {
    "HISTOGRAM(f)": (NotPrivateError, "no such list"),
    "HISTOGRAM(big)": (NotPrivateError, "no such list"),
    "HISTOGRAM(lower(v))": (NotPrivateError, r"HISTOGRAM_EXACT\(LOWER\(v\), \['a', 'b'\]\)"),
    "HISTOGRAM(uid)": (NotPrivateError, "everybody's"),
    "HISTOGRAM(uid, [3])": (NotPrivateError, "everybody's"),
    "HISTOGRAM(v, ['a'])": (UnsupportedSQLError, "bins of their kind"),
    "HISTOGRAM(a, ['x'])": (UnsupportedSQLError, "bins of their kind"),
    "HISTOGRAM(a, [a])": (UnsupportedSQLError, "are constants"),
    "HISTOGRAM(a, [NULL])": (UnsupportedSQLError, "are constants"),
    "HISTOGRAM(a, [])": (UnsupportedSQLError, "1,000 bins"),
    "HISTOGRAM(a, b)": (UnsupportedSQLError, "this form"),
    "HISTOGRAM(a, [1], 2)": (UnsupportedSQLError, "this form"),
    "HISTOGRAM_EXACT(a)": (UnsupportedSQLError, "this form"),
    "HISTOGRAM(DISTINCT a, [1])": (UnsupportedSQLError, "DISTINCT"),
    "HISTOGRAM(a, [1], contribution_bounds_per_row => (0, 1))": (UnsupportedSQLError, "this form"),
    "HISTOGRAM(a, [SUM(a)])": (QueryError, "in an aggregate"),
}


def opened(
    folder: Path, adjacency: str = "add_remove", noise: str = "laplace, gaussian"
) -> dp_sql.Connection:
    text = SCHEMA.replace("ADJACENCY", adjacency).replace("NOISE", noise)
    (folder / "schema.yaml").write_text(text)
    return dp_sql.connect(folder / "schema.yaml", ledger=":memory:", reuse=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bins")
    with duckdb.connect(str(made / "rows.duckdb")) as con:
        con.execute(
            "CREATE TABLE rows AS SELECT i % 100 AS uid, ((i * 7) % 50)::INTEGER AS a, i AS big, "
            "(i % 3)::INTEGER AS g, CASE WHEN i % 11 > 0 THEN ['x', 'y', 'z'][1 + i % 3] END AS v, "
            "(i % 13) / 2.0 AS f, "
            "((i % 13) / 2.0)::DECIMAL(6, 2) AS m, i % 5 = 0 AS b, "
            "DATE '2024-01-01' + (i % 20)::INTEGER AS d, "
            "TIMESTAMP '2024-01-01' + to_hours(i % 300) AS t, (i % 9)::UTINYINT AS u, "
            "(i % 13 / 10)::FLOAT AS r, "
            "i::HUGEINT * 3 AS h, CASE WHEN i % 4 = 0 THEN 'nan' WHEN i % 4 = 1 THEN '-inf' WHEN i % 4 = 2 "
            "THEN 'inf' ELSE '3' END::DOUBLE AS w FROM range(1000) AS r(i)"
        )
    return made


@pytest.fixture(scope="module")
def connection(folder: Path) -> Iterator[dp_sql.Connection]:
    with opened(folder) as made:
        yield made


@pytest.mark.parametrize("call", CALLS)
def test_without_noise_it_is_duckdbs(
    folder: Path, connection: dp_sql.Connection, call: str
) -> None:
    sql = f"SELECT {call} FROM rows"
    with duckdb.connect(str(folder / "rows.duckdb"), read_only=True) as plain:
        result = plain.execute(sql)
        names, rows = [column[0] for column in result.description or []], result.fetchall()
    found = connection.sql(sql, epsilon="1e9")
    assert found.fetchall() == rows
    assert list(found.columns) == names


def test_nan_is_in_no_bin_and_infinity_beyond_the_last(connection: dp_sql.Connection) -> None:
    """DuckDB has NaN in the first bin, where its search for one ends that compares false with all."""
    for call, found in (("w, [0, 3]", (250, 250)), ("w, [9]", (500,))):
        ((counts,),) = connection.sql(
            f"SELECT HISTOGRAM({call}) FROM rows", epsilon="1e9"
        ).fetchall()
        assert tuple(counts.values()) == (*found, 250)


def test_a_group_shows_its_empty_bins_too(connection: dp_sql.Connection) -> None:
    sql = (
        "SELECT g, HISTOGRAM(v), HISTOGRAM(a, [100]) FROM rows WHERE big < 9 GROUP BY g ORDER BY g"
    )
    rows = connection.sql(sql, epsilon="1e9").fetchall()
    assert rows[1] == (1, {"x": 0, "y": 3, "z": 0}, {100: 3})
    (none,) = connection.sql("SELECT HISTOGRAM(v) FROM rows WHERE a > 99", epsilon="1e9").fetchall()
    assert none == ({"x": 0, "y": 0, "z": 0},)


@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
def test_all_counts_cost_what_one_does(folder: Path, adjacency: str) -> None:
    with opened(folder, adjacency) as connection:
        bins = ", ".join(map(str, range(40)))
        one, many = (
            connection.sql(f"SELECT {call} FROM rows", epsilon=1).cost["rows"]
            for call in ("COUNT(*)", f"HISTOGRAM(a, [{bins}])")
        )
        (event,) = many.events
        assert isinstance(event, LaplaceEvent)
        assert many.epsilon == one.epsilon == 1
        sides = 1 if adjacency == "add_remove" else 2
        assert Fraction(event.change.l1, event.scale) <= 1
        assert event.change.l1 == sides * event.change.profiles[0][0][0]
        text = connection.explain("SELECT HISTOGRAM(v) FROM rows", epsilon=1)
    width = re.search(r"± ([\d.]+) in 95 %", text)
    assert width is not None
    assert float(width[1]) == pytest.approx(sides * 20 * 2.996, rel=1e-2)  # ln 20 scales


def test_the_error_that_explain_states_holds(connection: dp_sql.Connection) -> None:
    off = []
    for _ in range(40):
        ((found,),) = connection.sql("SELECT HISTOGRAM(g) FROM rows", epsilon=1).fetchall()
        off += [abs(found[0] - 334), abs(found[1] - 333), abs(found[2] - 333)]
    assert 0.01 <= sum(o > 59.92 for o in off) / len(off) <= 0.13
    assert len({*off}) > 20


def test_a_count_of_the_map_has_an_interval(connection: dp_sql.Connection) -> None:
    sql = "SELECT HISTOGRAM(g)[0] AS n, DP_INTERVAL_LOW(n), DP_INTERVAL_HIGH(n), HISTOGRAM(g) FROM rows"
    (row,) = connection.sql(sql, epsilon="1e9").fetchall()
    assert row[:3] == (334, 334, 334)
    inside, runs = 0, 8
    for _ in range(runs):
        result = connection.sql(sql, epsilon=1)
        ((_, low, high, _),) = result.fetchall()
        inside += low <= 334 <= high
        assert 80 < high - low < 200
        assert result.intervals()[0][3] is None  # of the map as a whole
    assert inside >= 5


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_refused(connection: dp_sql.Connection, call: str) -> None:
    kind, words = REFUSED[call]
    with pytest.raises(kind, match=words):
        connection.sql(f"SELECT {call} FROM rows", epsilon=1)


def test_laplace_noise_must_be_allowed(folder: Path) -> None:
    with (
        opened(folder, noise="gaussian") as connection,
        pytest.raises(UnsupportedSQLError, match="Laplace noise, which the schema doesn't allow"),
    ):
        connection.sql("SELECT HISTOGRAM(v) FROM rows", epsilon=1, delta="1e-6")
