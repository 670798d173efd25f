"""The worker above the releases: it answers as this process does, and starts anew with what it had."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

import dp_sql
from dp_sql.errors import DPSQLError, EngineError
from dp_sql.executor import confine, spawn
from dp_sql.executor.sources import locate
from dp_sql.plan.release import Residual
from dp_sql.postprocess.processor import PostProcessor
from dp_sql.postprocess.released import ReleasedColumn, number_column
from dp_sql.postprocess.worker import WorkerPostProcessor
from dp_sql.schema.catalog import WorkerSpec
from dp_sql.schema.loader import load
from dp_sql.schema.sqltype import BIGINT, DATE, DOUBLE, VARCHAR

SCHEMA = """\
version: 1
database: duckdb://
privacy: {level: event}
ledger: postgresql://dp:secret@db.example/budgets
tables:
  a: {source: a.csv, budget: {epsilon: 1000, delta: 0.1}, columns: {x: {type: integer, bounds: [0, 9]}}}
  p: {public: true, source: p.csv, columns: {k: {type: varchar}, d: {type: date}, n: {type: double}}}
  q: {public: true, source: q.parquet, columns: {i: {type: integer}}}
"""


def write(folder: Path, schema: str) -> Path:
    """Write a schema and its data; return the schema's path."""
    duckdb.connect().execute(f"COPY (SELECT 7 AS i) TO '{folder}/q.parquet'").close()
    (folder / "p.csv").write_text("k,d,n\nk0,2024-01-02,1.5\n,,\n", encoding="utf-8")
    (folder / "a.csv").write_text("x\n1\n2\n", encoding="utf-8")
    (folder / "above.yaml").write_text(schema, encoding="utf-8")
    return folder / "above.yaml"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("above"), SCHEMA)


@pytest.fixture(scope="module")
def opened(path: Path) -> Iterator[dp_sql.Connection]:
    with dp_sql.connect(path, ledger=":memory:", in_process=False) as connection:
        yield connection


@pytest.fixture
def post(opened: dp_sql.Connection) -> WorkerPostProcessor:
    assert isinstance(opened._post, WorkerPostProcessor)
    return opened._post


@pytest.fixture(scope="module")
def here(path: Path) -> Iterator[PostProcessor]:
    with dp_sql.connect(path, ledger=":memory:", in_process=True) as connection:
        yield connection._post


def residual(sql: str, *public: str) -> Residual:
    return Residual(sql, sql, sql, public, named=True)


def number_of(post: WorkerPostProcessor) -> int:
    process = post._held.process
    assert process is not None
    return process.number


def end(post: WorkerPostProcessor) -> None:
    """End the worker while nothing runs."""
    os.kill(number_of(post), signal.SIGKILL)
    while post._held.process is not None and post._held.process.runs:
        time.sleep(0.01)


VALUES = [
    "SELECT 1, -1, 2^63::HUGEINT, 340282366920938463463374607431768211455::UHUGEINT, 1::BIGNUM",
    "SELECT 1.5::DECIMAL(9, 2), -0.0::DOUBLE, 'inf'::FLOAT, 'nan'::DOUBLE, 0.1, true, NULL, 'é\n\"'",
    "SELECT i::DOUBLE / 7, CASE WHEN i = 1 THEN NULL ELSE i / 3 END, 'k' || i FROM range(700) r(i)",
    "SELECT DATE '2020-02-29', TIMESTAMP '2020-01-01 10:00:00.000001', TIME '23:59:59.5'",
    "SELECT TIMESTAMPTZ '2020-01-01 10:00:00+02', TIMETZ '10:00:00+02', [TIMESTAMPTZ '2020-07-01']",
    "SELECT INTERVAL '1 day 2 hours', '00000000-0000-0000-0000-000000000001'::UUID, 'x\\x00'::BLOB",
    "SELECT 'infinity'::DATE, '-infinity'::TIMESTAMP, '290000-01-01'::DATE, '101'::BIT",
    "SELECT [1, NULL], [], [[1.5], NULL], [1, 2]::INT[2], row(1, 'x'), ['2020-01-01'::DATE]",
    "SELECT {'a': 1, '$date': [{'b c': NULL}]}, {'$list': 'x'}, {'$map': 1}, '{\"$date\": 1}'::JSON",
    "SELECT MAP {1: 'x', 2: NULL}, MAP {[1]: 2}, MAP {{'a': 1}: 3}, MAP {}, union_value(k := 1)",
    "SELECT 'a'::ENUM('a', 'b'), TIMESTAMP_NS '2020-01-01 10:00:00.123456789', INTERVAL 1 MONTH",
    "SELECT 1 WHERE false",
]


@pytest.mark.parametrize("sql", VALUES)
def test_an_answer_is_that_of_this_process(
    sql: str, post: WorkerPostProcessor, here: PostProcessor
) -> None:
    asked = residual(sql)
    names, types = here.describe(asked, {})
    assert post.describe(asked, {}) == (names, types)
    assert repr(post.run(asked, {}, names)) == repr(here.run(asked, {}, names))


@pytest.mark.parametrize("size", [0, 3, 700])
def test_released_tables_arrive_as_they_are(
    size: int, post: WorkerPostProcessor, here: PostProcessor
) -> None:
    columns = [
        ReleasedColumn("k0", VARCHAR, (["it's", "", None, "ü?"] * size)[:size]),
        ReleasedColumn("k1", DATE, (["infinity", None, "1997-01-31"] * size)[:size]),
        ReleasedColumn("k2", DOUBLE, ([0.1, float("nan"), -0.0, None] * size)[:size]),
        ReleasedColumn("a0", BIGINT, np.arange(size, dtype=np.int64) + np.iinfo(np.int64).min),
        ReleasedColumn("a1", DOUBLE, np.resize(np.array([0.1, -0.0, np.inf, 5e-324]), size)),
        number_column(size),
    ]
    sql = 'SELECT k0, k1::VARCHAR, k2, a0, a1 + 1 FROM released."r0" ORDER BY group_number'
    names = ("a", "b", "c", "d", "e")
    tables = {"r0": columns}
    assert repr(post.run(residual(sql), tables, names)) == repr(
        here.run(residual(sql), tables, names)
    )
    assert post.texts(sql, (), tables, 5) == here.texts(sql, (), tables, 5)
    items = ['"r0"."a1"', '"r0"."a1" * 2 + 1', "NULL"]
    assert repr(post.spread(items, "r0", columns, 0.9)) == repr(
        here.spread(items, "r0", columns, 0.9)
    )


def test_grouped_answers_keep_their_groups(post: WorkerPostProcessor, here: PostProcessor) -> None:
    sql = 'SELECT a0 + 1, group_number FROM released."r0" ORDER BY a0 DESC'
    asked = Residual(sql, sql, sql, (), row_items=("a0 + 1",), named=True)
    table = [ReleasedColumn("a0", BIGINT, np.arange(5)), number_column(5)]
    found = [each.run(asked, {"r0": table}, ("n",)) for each in (post, here)]
    assert found[0] == found[1]
    assert found[0].groups == (4, 3, 2, 1, 0)


@pytest.mark.parametrize(
    ("sql", "public"),
    [
        ("SELECT CAST('x' AS INT)", ()),
        ("SELECT nonesuch(1)", ()),
        ("SELECT 1; SELECT 2", ()),
        ("SELECT é,\n  nonesuch FROM main.a", ()),
        ("SELECT count(*) FROM (SELECT 1) t JOIN t USING (k)", ()),
    ],
)
def test_errors_are_those_of_this_process(
    sql: str, public: tuple[str, ...], post: WorkerPostProcessor, here: PostProcessor
) -> None:
    told = []
    for each in (post, here):
        with pytest.raises(DPSQLError) as caught:
            each.run(residual(sql, *public), {}, each.describe(residual(sql, *public), {})[0])
        error = caught.value
        told.append((type(error), str(error), error.message, error.hint, error.position))
    assert told[0] == told[1]


def test_public_tables_are_read_by_each_new_worker(post: WorkerPostProcessor) -> None:
    sql = "SELECT k, d, n, i FROM public.p, public.q ORDER BY ALL"
    asked = residual(sql, "p", "q")
    worker = number_of(post)
    found = [post.run(asked, {}, ("k", "d", "n", "i")).rows]
    assert number_of(post) == worker
    end(post)
    found.append(post.run(asked, {}, ("k", "d", "n", "i")).rows)
    assert number_of(post) != worker
    assert found[0] == found[1]
    assert [row[0::2] for row in found[0]] == [("k0", 1.5), (None, None)]
    assert post.describe(asked, {})[1] == ("VARCHAR", "DATE", "DOUBLE", "INTEGER")


def test_a_point_is_moved_by_each_new_worker(post: WorkerPostProcessor) -> None:
    asked = residual("SELECT planar_laplace(1.0, 2.0, 1.0) AS p")
    assert post.describe(asked, {})[1] == ("STRUCT(lat DOUBLE, lon DOUBLE)",)
    end(post)
    ((point,),) = post.run(asked, {}, ("p",)).rows
    assert abs(point["lat"] - 1) < 0.01
    assert point != {"lat": 1.0, "lon": 2.0}


def test_an_interrupt_stops_the_statement_and_not_the_next(
    opened: dp_sql.Connection, post: WorkerPostProcessor
) -> None:
    opened.interrupt()  # nothing runs
    timer = threading.Timer(0.3, opened.interrupt)
    timer.start()
    with pytest.raises(EngineError, match=r"was stopped; it stays charged\.$"):
        post.run(residual("SELECT sum(hash(i)) FROM range(1000000000000) r(i)"), {}, ("n",))
    timer.join()
    assert post.run(residual("SELECT 1"), {}, ("n",)).rows == [(1,)]


def test_a_worker_is_not_told_where_the_ledger_is(post: WorkerPostProcessor) -> None:
    assert b"secret" not in post._opening(None)
    assert b"a.csv" in pickle.dumps(post._catalog.tables["a"].source)
    assert not any("a.csv" in file for file in post._files.values())


def test_where_the_data_do_not_open_no_worker_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[spawn.WorkerProcess] = []
    take = spawn.take
    monkeypatch.setattr(spawn, "take", lambda program: taken.append(take(program)) or taken[-1])
    path = write(tmp_path, SCHEMA.replace("x: {type", "y: {type"))
    with pytest.raises(DPSQLError, match="has no column 'y'"):
        dp_sql.connect(path, ledger=":memory:", in_process=False)
    assert len(taken) == 2
    assert not any(process.runs for process in taken)


def test_a_public_file_that_is_gone_keeps_the_worker_shut(path: Path, tmp_path: Path) -> None:
    catalog = load(path)
    files = locate(catalog, None, None).public_parquet(catalog)
    assert files == {"q": str(path.parent / "q.parquet")}
    gone = {"q": str(tmp_path / "q.parquet")}
    with pytest.raises(EngineError, match="ended before it was open"):
        WorkerPostProcessor(catalog, gone, lambda _: {}, WorkerSpec())


def test_a_closed_connection_has_no_worker(path: Path) -> None:
    with dp_sql.connect(path, ledger=":memory:", in_process=False) as connection:
        post = connection._post
        assert isinstance(post, WorkerPostProcessor)
        worker = number_of(post)
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
    with pytest.raises(EngineError, match="is closed"):
        post.run(residual("SELECT 1"), {}, ("n",))


def test_check_tells_the_walls_that_the_workers_lack(opened: dp_sql.Connection) -> None:
    walls = {"files", "network", "memory", "processor time", "core dumps"}
    assert set(opened.confined) == walls - set(confine.missing())
    assert opened._engine.confined == opened._post.confined
