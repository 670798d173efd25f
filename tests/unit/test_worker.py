"""The worker: the same answers as in this process, limits, ends, and what reaches it at all."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import dp_sql
from dp_sql.errors import EngineError, SchemaError
from dp_sql.executor import spawn
from dp_sql.executor.duckdb_embedded import DuckDBEmbedded
from dp_sql.executor.worker import EXCEEDED, WorkerDatabase
from dp_sql.privacy.sealed import Sealed

SCHEMA = """\
version: 1
database: duckdb://
privacy: {level: user}
worker: {memory: 256MB, seconds: 1.5, cpu_seconds: 0.5}
tables:
  a:
    source: a.parquet
    owner: u
    budget: {epsilon: 1000, delta: 0.1}
    limits: {max_groups: 2, max_rows_per_group: 3}
    columns: {u: {type: integer}, x: {type: integer, bounds: [0, 9]}, k: {type: varchar}}
  p: {public: true, source: p.csv, columns: {k: {type: varchar}, d: {type: date}, n: {type: double}}}
"""
COUNT = "SELECT COUNT(*) FROM a"
SLEEP = "SELECT sleep_ms(30000)"


def write(folder: Path, rows: int = 40) -> Path:
    """Write a schema and its data; return the schema's path."""
    file = folder / "new.parquet"
    sql = f"SELECT i::INT AS u, (i % 10)::INT AS x, 'k' || i % 2 AS k FROM range({rows}) r(i)"
    duckdb.connect().execute(f"COPY ({sql}) TO '{file}'").close()
    file.replace(folder / "a.parquet")
    (folder / "p.csv").write_text("k,d,n\nk0,2024-01-02,1.5\n,,\n", encoding="utf-8")
    path = folder / "worker.yaml"
    path.write_text(SCHEMA, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("worker"))


@pytest.fixture(scope="module")
def opened(path: Path) -> Iterator[dp_sql.Connection]:
    with dp_sql.connect(path, ledger=":memory:", reuse=False, in_process=False) as connection:
        yield connection


@pytest.fixture
def database(opened: dp_sql.Connection) -> WorkerDatabase:
    found = opened._engine._database
    assert isinstance(found, WorkerDatabase)
    return found


@pytest.fixture(scope="module")
def here(path: Path) -> Iterator[dp_sql.Connection]:
    with dp_sql.connect(path, ledger=":memory:", in_process=True) as connection:
        yield connection


VALUES = [
    "SELECT count(*), sum(x) FROM data.a",
    "SELECT i, -i, i::HUGEINT << 90, 2^63::HUGEINT FROM range(3) r(i)",
    "SELECT 1::DECIMAL(10, 2), -0.0::DOUBLE, 'inf'::FLOAT, 0.1::DOUBLE, true, NULL, 'é\n\"', ''",
    "SELECT DATE '2020-02-29', TIMESTAMP '2020-01-01 10:00:00.000001', TIME '23:59:59.5'",
    "SELECT INTERVAL '1 day 2 hours', '00000000-0000-0000-0000-000000000001'::UUID",
    "SELECT 'infinity'::DATE, '-infinity'::TIMESTAMP, '290000-01-01'::DATE",
    "SELECT CASE WHEN i = 1 THEN NULL ELSE i END, i = 1 FROM range(3) r(i)",
    "SELECT 1 WHERE false",
]


@pytest.mark.parametrize("sql", VALUES)
def test_rows_are_those_of_this_process(
    sql: str, database: WorkerDatabase, here: dp_sql.Connection
) -> None:
    found, wanted = database.rows(sql), here._engine._database.rows(sql)
    assert found == wanted
    assert [[type(v) for v in row] for row in found] == [[type(v) for v in row] for row in wanted]


def test_pairs_arrays_and_staged_rows_are_those_of_this_process(
    database: WorkerDatabase, here: dp_sql.Connection
) -> None:
    local = here._engine._database
    assert isinstance(local, DuckDBEmbedded)
    for keys, sql in (
        (0, "SELECT i::UBIGINT AS unit_, (i * i)::UBIGINT AS value_ FROM range(9) r(i)"),
        (1, "SELECT i // 4 AS k, i::UBIGINT AS unit_, 3::UBIGINT AS value_ FROM range(9) r(i)"),
        (1, "SELECT 1 AS k, 1::UBIGINT AS unit_, 3::UBIGINT AS value_ WHERE false"),
        (0, "SELECT 1::UBIGINT AS unit_, 3::UBIGINT AS value_ WHERE false"),
    ):
        found, wanted = database.pairs(sql, keys), local.pairs(sql, keys)
        assert (found.keys, found.ends) == (wanted.keys, wanted.ends)
        assert found.units.tolist() == wanted.units.tolist()
        assert found.values.tolist() == wanted.values.tolist()
        assert found.units.dtype == wanted.units.dtype == np.uint64
    for each in (database, local):
        columns = each.arrays("SELECT * FROM data.p")
        assert list(columns) == ["k", "d", "n"]
        assert columns["k"].tolist() == ["k0", None]
        assert columns["n"].tolist() == [1.5, None]
        assert str(columns["d"][0])[:10] == "2024-01-02"
        each.stage("stage.s", ["BIGINT", "DATE"], [("1", "2020-01-01"), ("x", None)], (0,))
        staged = each.rows("SELECT v0, v1::VARCHAR FROM stage.s ORDER BY ALL")
        assert staged == [(1, "2020-01-01"), (None, None)]


def test_a_statement_is_answered_and_its_sums_arrive_sealed(opened: dp_sql.Connection) -> None:
    ((count,),) = opened.sql(COUNT, epsilon=100).fetchall()
    assert abs(count - 40) < 10
    sql = (
        "SELECT p.k, COUNT(*), COUNT(DISTINCT a.x) FROM a JOIN p USING (k) GROUP BY p.k ORDER BY 1"
    )
    found = opened.sql(sql, epsilon=300).fetchall()  # planning asks how often a key of `p` occurs
    assert [row[0] for row in found] == ["k0", None]
    assert abs(found[0][1] - 20) < 5
    prepared = opened._prepare(COUNT, 1, None, None, None, None)
    sums = opened._engine.execute(prepared.steps[0].plan, prepared.steps[0].statements)
    assert isinstance(sums.table, Sealed)


def test_a_repeat_does_not_depend_on_where_the_data_are_read(path: Path, tmp_path: Path) -> None:
    """What is asked of a public table's rows, and the version of DuckDB, are the same texts."""
    ledger = tmp_path / "moved.ledger"
    joined = "SELECT p.n, COUNT(*) FROM a JOIN p USING (k) GROUP BY p.n"
    found = []
    for in_process in (True, False):
        with dp_sql.connect(path, ledger=ledger, in_process=in_process) as connection:
            answers = [connection.sql(sql, epsilon=1) for sql in (COUNT, joined)]
            assert [answer.repeated for answer in answers] == [not in_process] * 2
            engine = connection._engine
            rows = [sorted(map(repr, answer)) for answer in answers]
            found.append((engine.version, engine.content("p"), rows))
            with pytest.raises(EngineError, match="only public tables"):
                engine.content("a")
    assert found[0] == found[1]
    assert found[0][0] == f"duckdb v{duckdb.__version__}"


def test_a_worker_is_not_told_where_the_ledger_is(tmp_path: Path) -> None:
    path = write(tmp_path)
    place = "ledger: postgresql://dp:secret@db.example/budgets"
    path.write_text(SCHEMA.replace("version: 1", f"version: 1\n{place}"), encoding="utf-8")
    with dp_sql.connect(path, ledger=":memory:", in_process=False) as connection:
        assert "secret" in str(connection.catalog.ledger)
        database: Any = connection._engine._database
        assert b"secret" not in pickle.dumps(database._catalog)


def gone(number: int) -> bool:
    """Return whether a process has ended and left nothing, waiting a while for it."""
    for _ in range(200):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def number_of(database: WorkerDatabase) -> int:
    process = database._held.process
    assert process is not None
    return process.number


ENDS: dict[str, str] = {
    "time": SLEEP,
    "processor": "SELECT count(*) FROM range(100000000000) r(i) WHERE hash(i) = 1",
    "memory": "SELECT len(repeat('a', 1000000000)) + i FROM range(3) r(i)",
    "error": "SELECT error('alice has 90000')",
}


@pytest.mark.parametrize("why", ENDS)
def test_a_statement_that_exceeds_its_limits_stays_charged_and_tells_nothing(
    why: str,
    opened: dp_sql.Connection,
    database: WorkerDatabase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C124: memory, time and errors end the worker and nothing else; the next one is fresh."""
    before, worker = opened.budget()["a"], number_of(database)
    with monkeypatch.context() as patch:
        patch.setattr(opened._engine, "statements", lambda _: (ENDS[why],))
        if why != "time":
            patch.setattr(database, "_limits", replace(database._limits, seconds=60.0))
        began = time.monotonic()
        with pytest.raises(EngineError) as caught:
            opened.sql(COUNT, epsilon=1)
        assert time.monotonic() - began < 30
    assert str(caught.value) == EXCEEDED
    assert (caught.value.__cause__, caught.value.hint) == (None, None)
    assert caught.value.__suppress_context__
    assert gone(worker)
    assert opened.budget()["a"].lines() != before.lines()  # charged, though it failed
    assert [entry.status for entry in opened.ledger()][-1] == "failed"
    ((count,),) = opened.sql(COUNT, epsilon=100).fetchall()
    assert abs(count - 40) < 10
    assert number_of(database) != worker


@pytest.mark.slow
def test_what_does_not_fit_into_memory_spills_and_is_removed(database: WorkerDatabase) -> None:
    """C118, C125: what spills lies in a folder of its own, mode 0700, and goes with its worker."""
    sql = "SELECT count(DISTINCT repeat(i::VARCHAR, 80)) FROM range(500000) r(i)"
    held = database._held.spill
    assert held is not None
    seen: list[int] = []
    watching = threading.Event()

    def watch() -> None:
        while not watching.wait(0.01):
            seen.append(len(list(Path(held).iterdir())))

    thread = threading.Thread(target=watch)
    thread.start()
    limits = database._limits
    database._limits = replace(limits, seconds=60.0)
    try:
        with pytest.raises(EngineError):  # half a second of processors isn't enough for the whole
            database.rows(f"SELECT * FROM ({sql}), range(1000000000) r(i) WHERE hash(i) = 1")
    finally:
        database._limits = limits
        watching.set()
        thread.join()
    assert max(seen) > 0
    assert not Path(held).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells another process's limits")
def test_the_limits_hold_for_each_statement_anew(
    database: WorkerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_limits", replace(database._limits, seconds=60.0))
    work = "SELECT count(*) FROM range(120000000) r(i) WHERE hash(i) = 1"
    database.rows("SELECT 1")
    worker = number_of(database)
    for _ in range(4):  # more than a worker's limit in all
        database.rows(work)
    assert number_of(database) == worker
    import resource  # noqa: PLC0415  Windows has none

    assert resource.prlimit(worker, resource.RLIMIT_CORE) == (0, 0)
    held, most = resource.prlimit(worker, resource.RLIMIT_DATA)
    assert 2**28 < held == most < 2**31


def test_an_interrupt_stops_the_statement_and_not_the_next(
    opened: dp_sql.Connection, database: WorkerDatabase
) -> None:
    opened.interrupt()  # nothing runs
    database.rows("SELECT 1")
    limits = database._limits
    database._limits = replace(limits, seconds=60.0)
    timer = threading.Timer(0.2, opened.interrupt)
    timer.start()
    try:
        with pytest.raises(EngineError, match=r"was stopped; it stays charged\.$"):
            database.rows(SLEEP)
    finally:
        database._limits = limits
    timer.join()
    assert database.rows("SELECT 1") == [(1,)]


def test_a_worker_that_died_while_nothing_ran_is_replaced(database: WorkerDatabase) -> None:
    worker = number_of(database)
    os.kill(worker, signal.SIGKILL)
    while database._held.process is not None and database._held.process.runs:
        time.sleep(0.01)
    assert database.rows("SELECT count(*) FROM data.a") == [(40,)]
    assert number_of(database) != worker


def test_files_that_change_shut_the_connection(tmp_path: Path) -> None:
    """Else a public table with other rows would be read under the facts that planning has of it."""
    with dp_sql.connect(write(tmp_path), ledger=":memory:", in_process=False) as connection:
        database: Any = connection._engine._database
        assert database.rows("SELECT count(*) FROM data.a") == [(40,)]
        worker, spill = number_of(database), database._held.spill
        (tmp_path / "p.csv").write_text("k,d,n\nk0,,\nk0,,\n", encoding="utf-8")
        for _ in range(2):
            with pytest.raises(EngineError, match="have changed since they were opened"):
                database.rows("SELECT count(*) FROM data.p")
        assert gone(worker)
        assert not Path(spill).exists()
    with pytest.raises(EngineError, match="is closed"):
        database.rows("SELECT 1")


def test_the_data_are_opened_with_the_same_errors_as_here(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text(SCHEMA.replace("x: {type", "y: {type"), encoding="utf-8")
    texts = set()
    for in_process in (True, False):
        with pytest.raises(SchemaError) as caught:
            dp_sql.connect(path, ledger=":memory:", in_process=in_process)
        texts.add((str(caught.value), caught.value.hint))
    assert len(texts) == 1
    assert "has no column 'y'" in str(caught.value)


PROBE = (
    "import json, os; print(json.dumps([dict(os.environ), sorted(os.listdir('/proc/self/fd')), os.getcwd(), "
    "os.getsid(0) == os.getpid()]))"
)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells")
@pytest.mark.parametrize("program", [spawn.DATA, spawn.ABOVE])
def test_a_worker_gets_two_pipes_and_no_secret(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawn, "_PROGRAM", PROBE)
    for name in ("PGPASSWORD", "PYTHONPATH", "AWS_SECRET_ACCESS_KEY", "PYTHONSTARTUP"):
        monkeypatch.setenv(name, "secret")
    read, end = os.pipe()
    os.set_inheritable(read, True)  # noqa: FBT003  as a careless program does
    process = spawn.WorkerProcess(program)
    environment, files, folder, apart = json.loads(process.answers.read())
    process.end()
    os.close(read)
    os.close(end)
    assert set(environment) <= {*spawn._KEPT, *spawn._SET, "LC_CTYPE"}
    assert files == ["0", "1", "2", "3"]  # 3 is the folder that was listed
    assert folder == "/"
    assert apart
    assert gone(process.number)


def test_where_no_process_can_be_started_the_error_says_what_to_write(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(path))
    with pytest.raises(EngineError) as caught:
        dp_sql.connect(path, ledger=":memory:", in_process=False)
    assert caught.value.hint is not None
    assert "in_process: true" in caught.value.hint
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(EngineError) as caught:
        dp_sql.connect(path, ledger=":memory:", in_process=False)
    assert caught.value.hint is not None
    assert "in_process: true" in caught.value.hint


SCRIPT = """\
import os, sys, threading, time, warnings
warnings.simplefilter("ignore")
import dp_sql
from dp_sql.errors import EngineError
connection = dp_sql.connect(sys.argv[1], ledger=":memory:")  # the schema names a worker
database = connection._engine._database
print(database._held.process.number, ",".join(connection.confined).replace(" ", "-"), flush=True)
read, write = os.pipe()
if os.fork() == 0:
    try:
        connection.sql("SELECT COUNT(*) FROM a", epsilon=1)
    except EngineError as error:
        os.write(write, str(error).encode())
    connection.close()
    os._exit(0)
print(os.read(read, 999).decode().splitlines()[0], flush=True)
os.wait()
print(database.rows("SELECT count(*) FROM data.a"), flush=True)
object.__setattr__(database._limits, "seconds", 60.0)
threading.Thread(target=database.rows, args=("SELECT sleep_ms(30000)",)).start()
time.sleep(0.3)
open(database._held.spill + "/spilled", "w").close()
print(database._held.spill, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_worker_outlives_no_parent_and_serves_no_fork(path: Path) -> None:
    """Also: it is what a schema gets that doesn't ask for anything else."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(dp_sql.__file__).parents[1])},
    )
    assert process.stdout is not None
    worker, confined = process.stdout.readline().split()
    if sys.platform == "linux":
        assert {"memory", "processor-time"} <= set(confined.split(","))
    assert "fork" in process.stdout.readline()
    assert process.stdout.readline() == "[(40,)]\n"
    spill = Path(process.stdout.readline().strip())
    assert [file.name for file in spill.iterdir()] == ["spilled"]
    process.kill()
    process.wait()
    process.stdout.close()
    assert gone(int(worker))
    assert list(spill.iterdir()) == []  # C118: also where nobody is left to remove it
    spill.rmdir()


CLOSED = """\
import os, socket, subprocess, sys
from pathlib import Path
from dp_sql.executor import confine
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname(), 1).close()
status = confine.memory_status()
confine.harden()
done = confine.close_off([Path(sys.argv[1])], sys.argv[2])
if "files" not in done:
    sys.exit("no Landlock")
print(open(sys.argv[1]).read())
open(sys.argv[2] + "/spilled", "w").write("x")
for act in (
    lambda: open(sys.argv[1], "w"),
    lambda: open("/etc/hostname"),
    lambda: open("/tmp/dpsql-escape", "w"),
    lambda: os.listdir("/"),
    lambda: os.listdir(os.path.dirname(sys.argv[1])),
    lambda: os.execv("/bin/true", ["true"]),
    lambda: os.rename(sys.argv[2] + "/spilled", "/tmp/dpsql-escape"),
    *([lambda: socket.create_connection(server.getsockname(), 1)] if "network" in done else []),
):
    try:
        act()
    except PermissionError:
        continue
    sys.exit("it was allowed")
confine.limit_memory(status, 50_000_000)
bytearray(20_000_000)
try:
    bytearray(200_000_000)
except MemoryError:
    print("closed")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is of Linux")
def test_c103_a_worker_can_open_its_files_and_no_other(tmp_path: Path) -> None:
    """Whatever runs in it: this is the kernel's word, beneath DuckDB's settings."""
    (tmp_path / "data").write_text("rows", encoding="utf-8")
    (tmp_path / "spill").mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", CLOSED, str(tmp_path / "data"), str(tmp_path / "spill")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(dp_sql.__file__).parents[1])},
    )
    if "no Landlock" in ran.stderr:
        pytest.skip("this kernel has no Landlock")
    assert (ran.stdout, ran.stderr) == ("rows\nclosed\n", "")
