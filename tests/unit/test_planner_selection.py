"""Which rule selects private keys, what each shows through SQL, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.errors import UnsupportedSQLError
from dp_sql.executor.duckdb_engine import DuckDBEngine
from dp_sql.privacy.event import GaussianEvent, KeySelectionEvent, LaplaceEvent, PureEvent

SCHEMA = """
version: 1
database: duckdb:///rows.duckdb
privacy: {level: LEVEL, adjacency: ADJACENCY, UNIT caps: {epsilon: 1e9}}
mechanisms: {keys: [KEYS], noise: [NOISE]}
tables:
  rows:
    OWNER
    budget: {epsilon: 1e12, delta: 0.1, accountant: ACCOUNTANT}
    LIMITS
    columns:
      uid: {type: bigint}
      g: {type: varchar}
      n: {type: integer}
      f: {type: double}
      d: {type: date}
      t: {type: timestamp}
      m: {type: "decimal(9,3)"}
      b: {type: uuid}
      x: {type: integer, bounds: [0, 8]}
"""
ALL = "laplace, gaussian, weighted_laplace, weighted_gaussian, optimal, two_rounds"
KEYS = "SELECT g FROM rows GROUP BY g"
Open = Callable[..., dp_sql.Connection]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with 600 units: all are in 'all', 300 in NULL, 60 in 'some', one each in 60 others."""
    folder = tmp_path_factory.mktemp("keys")
    con = duckdb.connect(str(folder / "rows.duckdb"))
    con.execute(
        "CREATE TABLE rows AS SELECT u AS uid, k AS g, length(k)::INTEGER AS n, "
        "CASE WHEN k = 'all' THEN -0.0 WHEN k = 'some' THEN 'nan'::DOUBLE ELSE 0.1 * length(k) END AS f, "
        "CASE WHEN k = 'all' THEN DATE 'infinity' ELSE DATE '2024-02-29' + length(k)::INTEGER END AS d, "
        "TIMESTAMP '2024-02-29 12:00:00.000001' + to_days(length(k)::INTEGER) AS t, "
        "(length(k) / 8)::DECIMAL(9, 3) AS m, "
        "CASE WHEN k = 'all' THEN '00000000-0000-0000-0000-00000000000a'::UUID END AS b, 3 AS x "
        "FROM (SELECT u, 'all' AS k FROM range(600) AS t(u) UNION ALL "
        "SELECT u, NULL FROM range(300) AS t(u) UNION ALL "
        "SELECT u, 'some' FROM range(60) AS t(u) UNION ALL "
        "SELECT u, 'rare ' || u FROM range(60) AS t(u))"
    )
    con.close()
    return folder


@pytest.fixture
def connect(data: Path) -> Iterator[Open]:
    opened: list[dp_sql.Connection] = []

    def connected(
        keys: str = ALL, groups: int = 1, *, accountant: str = "renyi", level: str = "user",
        adjacency: str = "add_remove", noise: str = "laplace, gaussian", least: int = 1,
    ) -> dp_sql.Connection:  # fmt: skip
        user = level == "user"
        limits = (
            f"limits: {{max_groups: {groups}, max_rows_per_group: 1, min_units_per_group: {least}}}"
        )
        words = {
            "LEVEL": level, "ADJACENCY": adjacency, "UNIT": "unit: person," if user else "",
            "KEYS": keys, "NOISE": noise, "OWNER": "owner: uid" if user else "",
            "ACCOUNTANT": accountant, "LIMITS": limits if user else "",
        }  # fmt: skip
        text = SCHEMA
        for word, value in words.items():
            text = text.replace(word, value)
        path = data / f"schema{len(opened)}.yaml"
        path.write_text(text, encoding="utf-8")
        opened.append(dp_sql.connect(path, ledger=":memory:"))
        return opened[-1]

    yield connected
    for connection in opened:
        connection.close()


def told(connection: dp_sql.Connection, sql: str = KEYS, epsilon: str = "1") -> str:
    """Return the line in which EXPLAIN says how keys are selected."""
    text = connection.explain(sql, epsilon=epsilon, delta="1e-6")
    (line,) = [line for line in text.splitlines() if "a private key is shown" in line]
    return line


@pytest.mark.parametrize(
    ("groups", "epsilon", "options", "rule"),
    [
        (1, "1", {}, "optimal rule"),
        (2, "1", {}, "optimal rule"),
        (3, "1", {}, "second round"),
        (20, "0.1", {}, "second round"),
        (20, "10", {}, "number of units"),
        (5, "1", {"accountant": "pure"}, "optimal rule"),
        (20, "1", {"accountant": "pure"}, "weight of units"),
        (20, "1", {"noise": "laplace"}, "(laplace noise)"),
        (20, "10", {"noise": "laplace"}, "optimal rule"),
        (20, "1", {"least": 5}, "number of units"),
        (20, "1", {"keys": "laplace, gaussian, optimal, weighted_gaussian"}, "weight of units"),
        (20, "1", {"keys": "laplace, gaussian, optimal"}, "gaussian noise"),
        (20, "1", {"keys": "laplace, optimal"}, "optimal rule"),
        (20, "1", {"keys": "laplace"}, "laplace noise"),
        (1, "1", {"keys": "two_rounds"}, "second round"),
        (1, "0.0001", {}, "number of units"),
        (1, "1", {"level": "event"}, "optimal rule"),
        (1, "1", {"level": "event", "adjacency": "substitution"}, "optimal rule"),
    ],
)
def test_the_rule_that_shows_most_keys_of_those_allowed(
    groups: int, epsilon: str, options: dict[str, str], rule: str, connect: Open
) -> None:
    assert rule in told(connect(groups=groups, **options), epsilon=epsilon)


def test_a_number_of_units_that_is_shown_selects_at_no_cost(connect: Open) -> None:
    connection = connect(groups=20)
    counted = told(connection, "SELECT g, COUNT(DISTINCT uid) FROM rows GROUP BY g")
    assert "number of units" in counted
    assert "weight" not in counted
    alone = connect("optimal")
    assert "optimal rule" in told(alone, "SELECT g, COUNT(*) FROM rows GROUP BY g")


@pytest.mark.parametrize("rule", ALL.split(", "))
@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
def test_each_rule_by_name_shows_common_keys_and_hides_rare_ones(
    rule: str, adjacency: str, connect: Open
) -> None:
    connection = connect(rule, 3, adjacency=adjacency)
    for sql in (KEYS, "SELECT g, COUNT(*), SUM(x) FROM rows GROUP BY g"):
        result = connection.sql(sql, epsilon="20", delta="1e-6")
        rows = result.fetchall()
        assert [row[0] for row in rows] == ["all", "some", None]
        cost = result.cost["rows"]
        assert cost.epsilon <= 20
        assert 0 < cost.delta <= Fraction(1, 10**6)
        assert any(isinstance(event, KeySelectionEvent) for event in cost.events)


@pytest.mark.parametrize(
    ("rule", "kind", "count"),
    [
        ("laplace", LaplaceEvent, 1),
        ("gaussian", GaussianEvent, 1),
        ("weighted_laplace", LaplaceEvent, 1),
        ("weighted_gaussian", GaussianEvent, 1),
        ("optimal", PureEvent, 3),
        ("two_rounds", GaussianEvent, 2),
    ],
)
def test_the_ledger_gets_every_round_and_every_coin(
    rule: str, kind: type, count: int, connect: Open
) -> None:
    events = connect(rule, 3).sql(KEYS, epsilon="1", delta="1e-6").cost["rows"].events
    assert len(events) == count
    for event in events:
        assert isinstance(event, KeySelectionEvent)
        assert isinstance(event.noise, kind)


@pytest.mark.parametrize("rule", ALL.split(", "))
def test_at_a_huge_epsilon_all_but_single_units_are_there(rule: str, connect: Open) -> None:
    connection = connect(rule, 4)
    sql = "SELECT g, SUM(x) AS s FROM rows GROUP BY g ORDER BY s DESC"
    found = connection.sql(sql, epsilon="1e6", delta="1e-6").fetchall()
    assert found == [("all", 1800), (None, 900), ("some", 180)]


@pytest.mark.parametrize("key", ["g", "n", "f", "d", "t", "m", "b"])
def test_keys_of_every_type_show_once_in_two_rounds(key: str, data: Path, connect: Open) -> None:
    connection = connect("two_rounds", 4)
    sql = f"SELECT {key}, SUM(x) FROM rows GROUP BY ALL"
    found = connection.sql(sql, epsilon="50", delta="1e-6").fetchall()
    assert len({row[0] for row in found}) == len(found)
    with duckdb.connect(str(data / "rows.duckdb"), read_only=True) as con:
        exact = con.execute(
            f"SELECT {key}, SUM(3) FROM (SELECT DISTINCT uid, CASE WHEN isnan(f) THEN NULL ELSE f + 0.0 "
            "END AS f, g, n, d, t, m, b FROM rows) GROUP BY ALL HAVING COUNT(DISTINCT uid) >= 10"
        ).fetchall()
    assert len(found) == len(exact)


@pytest.mark.parametrize("rule", ALL.split(", "))
def test_aggregates_over_blocks_stand_beside_every_rule(rule: str, connect: Open) -> None:
    connection = connect(rule, 4)
    sql = (
        "SELECT g, SAMPLE_AND_AGGREGATE('median', x, 0, 8, 5), SUM(x), MAX(x) FROM rows "
        "WHERE g IS NOT NULL GROUP BY g ORDER BY g"
    )
    found = connection.sql(sql, epsilon="1e6", delta="1e-6").fetchall()
    assert [(key, round(middle, 3), total) for key, middle, total, _ in found] == [
        ("all", 3, 1800),
        ("some", 3, 180),
    ]


def test_the_second_round_reads_what_the_release_reads_whoever_ran_in_between(
    connect: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []

    def late(engine: DuckDBEngine, *args: Any) -> Any:
        for (name,) in engine._database.rows(
            "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'stage'"
        ):
            engine._database.rows(f'CREATE OR REPLACE TABLE stage."{name}" AS SELECT NULL AS v0')
            ran.append(name)
        return second(engine, *args)

    second = DuckDBEngine.execute_second
    monkeypatch.setattr(DuckDBEngine, "execute_second", late)
    monkeypatch.setattr("dp_sql.stages.selected", lambda *_: [])  # the second round has to show all
    sql = "SELECT g, SUM(x) FROM rows WHERE x < (SELECT COUNT(*) FROM rows) GROUP BY g ORDER BY ALL"
    found = connect("two_rounds", 4).sql(sql, epsilon="1e6", delta="1e-6").fetchall()
    assert found == [("all", 1800), ("some", 180), (None, 900)]
    assert ran


def test_mixed_public_and_private_keys_and_several_sets(connect: Open) -> None:
    connection = connect("two_rounds", 9)
    rows = connection.sql(
        "SELECT x, g, COUNT(*) FROM rows GROUP BY ALL", epsilon="30", delta="1e-6"
    ).fetchall()
    assert {row[1] for row in rows} == {"all", "some", None}
    assert {row[0] for row in rows} == {*range(9), None}
    sets = "SELECT g, n, COUNT(*) FROM rows GROUP BY ROLLUP (g, n)"
    shown = {row[:2] for row in connection.sql(sets, epsilon="30", delta="1e-6")}
    assert {("all", 3), ("all", None), ("some", 4), (None, None)} <= shown


@pytest.mark.parametrize("rule", ALL.split(", "))
def test_a_least_number_of_units_holds_for_every_rule(rule: str, connect: Open) -> None:
    sql = "SELECT g, SUM(x) FROM rows GROUP BY g"
    for least, wanted in ((30, {"all", "some", None}), (150, {"all", None}), (500, {"all"})):
        connection = connect(rule, 1 if rule.startswith("weighted") else 4, least=least)
        found = {row[0] for row in connection.sql(sql, epsilon="40", delta="1e-6")}
        assert found <= wanted
        if rule in ("laplace", "gaussian", "optimal"):
            assert found == wanted


@pytest.mark.parametrize(
    ("keys", "options", "reason"),
    [
        ("gaussian", {"accountant": "pure"}, "accountant other than pure"),
        ("two_rounds", {"accountant": "pure"}, "accountant other than pure"),
        ("gaussian, weighted_gaussian", {"noise": "laplace"}, "Gaussian noise to be allowed"),
        ("laplace", {"noise": "gaussian"}, "Laplace noise to be allowed"),
        ("two_rounds", {"level": "event"}, "level: user"),
        ("weighted_laplace", {"noise": "gaussian"}, "Laplace noise to be allowed"),
        ("weighted_gaussian", {"groups": 1001}, "max_groups of at most 1000"),
    ],
)
def test_a_rule_by_name_that_cant_be_used_is_refused(
    keys: str, options: dict[str, str], reason: str, connect: Open
) -> None:
    connection = connect(keys, **options)
    with pytest.raises(UnsupportedSQLError, match=reason) as raised:
        connection.sql(KEYS, epsilon="1", delta="1e-6")
    assert "mechanisms: {keys: [optimal]}" in (raised.value.hint or "")
    # which holds, as the hint says
    options = {**options, "noise": "laplace, gaussian"}
    connect("optimal", **options).sql(KEYS, epsilon="9", delta="1e-6")  # type: ignore[arg-type]


def test_the_optimal_rule_alone_at_a_tiny_epsilon_is_refused(connect: Open) -> None:
    connection = connect("optimal")
    with pytest.raises(UnsupportedSQLError, match="too small for the optimal rule"):
        connection.sql(KEYS, epsilon="0.00001", delta="1e-6")
    assert connect().sql(KEYS, epsilon="0.00001", delta="1e-6").fetchall() == []
