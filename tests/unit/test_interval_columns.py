"""DP_INTERVAL_LOW and DP_INTERVAL_HIGH: the ends of `Result.intervals()` as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import dp_sql
from dp_sql.errors import DPSQLError, ParameterError, QueryError, UnsupportedSQLError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {level: event, unit: row, defaults: {epsilon: 1, delta: 1e-6}}
tables:
  visits:
    source: visits.csv
    budget: {epsilon: 1e9, delta: 0.5, accountant: sequential}
    columns:
      k: {type: integer, bounds: [1, 3], nullable: false}
      word: {type: varchar}
      n: {type: integer, bounds: [0, 100], nullable: false}
      x: {type: double, bounds: [0, 10]}
"""


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Connection]:
    folder: Path = tmp_path_factory.mktemp("visits")
    rows = [f"{1 + i % 3},w{i % 2},{i % 100},{i % 11}" for i in range(6000)]
    (folder / "visits.csv").write_text("\n".join(["k,word,n,x", *rows]), encoding="utf-8")
    (folder / "visits.yaml").write_text(SCHEMA, encoding="utf-8")
    with dp_sql.connect(folder / "visits.yaml", ledger=":memory:") as connection:
        yield connection


ENDS = "DP_INTERVAL_LOW(v, {level}) AS low, DP_INTERVAL_HIGH(v, {level}) AS high"


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize(
    ("value", "exactly"),
    [
        ("COUNT(*)", True),
        ("SUM(n)", True),
        ("SUM(x)", True),
        ("COUNT(DISTINCT word)", True),
        ("AVG(x)", False),
        ("VAR_POP(n)", False),
        ("CORR(n, x)", False),
        ("SUM(x) / COUNT(*)", False),
        ("2 * COUNT(*) + 1", False),
    ],
)
def test_the_ends_are_those_of_intervals(
    visits: dp_sql.Connection, value: str, level: float, *, exactly: bool
) -> None:
    query = f"SELECT k, {value} AS v, {ENDS} FROM visits GROUP BY k ORDER BY k"
    result = visits.sql(query.format(level=level))
    for (_, shown, low, high), interval in zip(result, result.intervals(level), strict=True):
        pair = interval[1]
        assert pair is not None
        assert interval[2:] == (None, None)
        assert low <= shown <= high
        tolerance = 1e-9 if exactly else 0.4 * (pair[1] - pair[0]) + 2 * (value[0] == "2")
        assert (low, high) == pytest.approx(pair, abs=tolerance)


def test_names_are_as_written_and_types_are_double(visits: dp_sql.Connection) -> None:
    result = visits.sql(
        "SELECT COUNT(*), dp_interval_low(COUNT(*)), Dp_Interval_High(COUNT(*), 0.5), "
        "DP_INTERVAL_LOW(COUNT(*)) AS Low FROM visits"
    )
    assert result.columns == [
        "count_star()",
        "dp_interval_low(COUNT(*))",
        "Dp_Interval_High(COUNT(*), 0.5)",
        "Low",
    ]
    assert result.types == ["BIGINT", "DOUBLE", "DOUBLE", "DOUBLE"]
    ((_, low, _, same),) = result.fetchall()
    assert low == same
    named = visits.sql("SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) FROM visits WHERE n > 3")
    assert named.columns == ["n", "DP_INTERVAL_LOW(n)"]


def test_they_cost_nothing(visits: dp_sql.Connection) -> None:
    plain = visits.sql("SELECT COUNT(*) AS n FROM visits")
    both = visits.sql("SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n), DP_INTERVAL_HIGH(n) FROM visits")
    assert plain.cost == both.cost


def test_values_chosen_by_their_rank_have_none(visits: dp_sql.Connection) -> None:
    result = visits.sql(
        "SELECT MEDIAN(x) AS m, DP_INTERVAL_LOW(m), DP_INTERVAL_LOW(m - COUNT(*)), "
        "SUM(x) / COUNT(*) AS q, DP_INTERVAL_LOW(q) AS low FROM visits"
    )
    ((_, none, neither, _, low),) = result.fetchall()
    assert (none, neither) == (None, None)
    assert low is not None
    ((first, *_, quotient, _),) = result.intervals()
    assert first is None
    assert quotient is not None


def test_wider_levels_hold_narrower_ones(visits: dp_sql.Connection) -> None:
    items = ", ".join(f"DP_INTERVAL_LOW(n, {level})" for level in (0.99, 0.95, 0.5))
    ((_, *lows),) = visits.sql(f"SELECT SUM(x) AS n, {items} FROM visits")
    assert lows == sorted(lows)
    assert len(set(lows)) == 3


def test_they_order_and_choose_rows(visits: dp_sql.Connection) -> None:
    result = visits.sql(
        "SELECT k, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high FROM visits "
        "GROUP BY ALL HAVING low > 1000 AND DP_INTERVAL_HIGH(n) < 3000 ORDER BY low DESC"
    )
    lows = [row[2] for row in result]
    assert len(lows) == 3
    assert lows == sorted(lows, reverse=True)
    assert visits.sql(
        "SELECT k, COUNT(*) AS n FROM visits GROUP BY k HAVING DP_INTERVAL_LOW(n) > 1e6"
    ).fetchall() == []  # fmt: skip


def test_they_are_columns_for_blocks_above(visits: dp_sql.Connection) -> None:
    result = visits.sql(
        "WITH a AS (SELECT k, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high "
        "FROM visits GROUP BY k) SELECT MAX(high - low) AS width, COUNT(*) AS g FROM a WHERE low < n"
    )
    ((width, groups),) = result.fetchall()
    assert 0 < width < 50
    assert groups == 3


def test_several_sets_of_keys(visits: dp_sql.Connection) -> None:
    result = visits.sql(
        "SELECT k, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, n / 2 AS h, DP_INTERVAL_HIGH(h) AS high "
        "FROM visits GROUP BY ROLLUP (k)"
    )
    assert len(result) == 4
    for (_, n, low, half, high), ends in zip(result, result.intervals(), strict=True):
        assert ends[1] is not None
        assert low == ends[1][0] < n
        assert high > half


def test_many_private_groups(visits: dp_sql.Connection) -> None:
    result = visits.sql(
        "SELECT word, COUNT(*) AS n, AVG(x) AS m, DP_INTERVAL_LOW(n) AS a, DP_INTERVAL_LOW(m) AS b "
        "FROM visits GROUP BY word"
    )
    assert len(result) == 2
    for _, n, m, a, b in result:
        assert a < n
        assert b < m


@pytest.mark.parametrize(
    ("query", "kind", "words"),
    [
        ("SELECT k, COUNT(*), DP_INTERVAL_LOW(k) FROM visits GROUP BY k", QueryError, "no noise"),
        ("SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n, 1) FROM visits", ParameterError, "level"),
        ("SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n, n) FROM visits", ParameterError, "level"),
        ("SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n, 0.5, 2) FROM visits", QueryError, "takes"),
        ("SELECT COUNT(*) AS n, DP_INTERVAL_LOW() FROM visits", QueryError, "takes"),
        ("SELECT COUNT(*) AS n, DP_INTERVAL_LOW(*) FROM visits", QueryError, "takes"),
        ("SELECT COUNT(*) AS n, DP_INTERVAL_LOW(m) FROM visits", QueryError, "no column"),
        (
            "SELECT n, DP_INTERVAL_LOW(n) FROM (SELECT COUNT(*) AS n FROM visits)",
            UnsupportedSQLError,
            "stands in the block that has the aggregate",
        ),
        ("SELECT DP_INTERVAL_LOW(3)", UnsupportedSQLError, "stands in the block"),
        (
            "SELECT k, SUM(COUNT(*)) OVER () AS t, DP_INTERVAL_LOW(t) FROM visits GROUP BY k",
            UnsupportedSQLError,
            "not across groups",
        ),
        (
            "SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS l, DP_INTERVAL_LOW(l) FROM visits",
            QueryError,
            "has no interval itself",
        ),
        ("SELECT COUNT(*) FROM visits WHERE DP_INTERVAL_LOW(n) > 3", QueryError, "in WHERE"),
        ("SELECT SUM(DP_INTERVAL_LOW(n)) FROM visits", QueryError, "in an aggregate"),
        ("SELECT DP_INTERVAL_LOW(n) FROM visits", QueryError, "many values"),
    ],
)
def test_what_has_no_interval_is_refused_at_its_place(
    visits: dp_sql.Connection, query: str, kind: type[DPSQLError], words: str
) -> None:
    before = visits.budget()["visits"].statements
    with pytest.raises(kind, match=words) as caught:
        visits.sql(query)
    assert "^" in str(caught.value)
    assert visits.budget()["visits"].statements == before
