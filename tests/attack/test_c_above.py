"""Attacks C103, C115, C118, C124 and C127 on the worker that runs what analysts write above releases.

What it answers, and how it is started anew, is in tests/unit/test_postprocess_worker.py.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from attack.scene import schema, write

import dp_sql
from dp_sql.errors import EngineError
from dp_sql.executor import confine, spawn
from dp_sql.postprocess.processor import exceeded
from dp_sql.postprocess.worker import WorkerPostProcessor
from dp_sql.schema.loader import load

LIMITS = "worker: {memory: 256MB, seconds: 60, cpu_seconds: 1}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("above")


@pytest.fixture(scope="module")
def opened(folder: Path) -> Iterator[dp_sql.Connection]:
    path = write(folder, LIMITS + schema("event"))
    with dp_sql.connect(path, ledger=folder / "x.ledger", in_process=False) as connection:
        yield connection


@pytest.fixture
def post(opened: dp_sql.Connection) -> WorkerPostProcessor:
    assert isinstance(opened._post, WorkerPostProcessor)
    return opened._post


def number_of(post: WorkerPostProcessor) -> int:
    process = post._held.process
    assert process is not None
    return process.number


COUNT = "(SELECT COUNT(*) AS n FROM people WHERE age > {age}) AS t"
BUSY = "SELECT max(hash(i)) FROM range(1000000000000) r(i)"
LOOP = "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i % 7 + 1 FROM r) SELECT max(i) FROM r"
TEXTS = "SELECT string_agg(repeat('x', 900), ',') AS v FROM {count}, range(1000000) AS r(i)"
SORTED = "SELECT row_number() OVER (ORDER BY hash(i)) AS s FROM {count}, range(100000000) AS r(i)"
BOMBS = {
    # what is asked above a release, and whether its worker outlives it, where that isn't left open
    "C124, rows": ("SELECT n, i FROM {count}, range(100000000) AS r(i)", None),
    "C124, a list": ("SELECT n, list(i) FROM {count}, range(100000000) AS r(i) GROUP BY n", True),
    "C124, texts": (f"SELECT sum(len(v)) FROM ({TEXTS})", True),
    "C124, a sort": (f"SELECT max(s) FROM ({SORTED})", True),
    "C127, processors": (f"SELECT n, ({BUSY}) FROM {{count}}", False),
    "C127, recursion": (f"SELECT n, ({LOOP}) FROM {{count}}", False),
}
SLOW = ("C124, rows", "C127, processors", "C124, a sort", "C124, texts", "C127, recursion")


@pytest.mark.parametrize(
    "age",
    [
        pytest.param(i, id=name, marks=[pytest.mark.slow] * (name in SLOW))
        for i, name in enumerate(BOMBS)
    ],
)
def test_what_takes_more_than_its_limits_harms_nothing(
    age: int, opened: dp_sql.Connection, post: WorkerPostProcessor
) -> None:
    """The statement is charged and fails; its release is kept, and the next one is answered."""
    bomb, survives = list(BOMBS.values())[age]
    count = COUNT.format(age=age)
    before, worker = opened.budget()["people"].lines(), number_of(post)
    began = time.monotonic()
    with pytest.raises(EngineError) as caught:
        opened.sql(bomb.format(count=count), epsilon=1)
    assert time.monotonic() - began < 30  # its clock would end it after 60 seconds
    assert str(caught.value) == str(exceeded())
    assert caught.value.__cause__ is None
    charged = opened.budget()["people"].lines()
    assert charged != before
    assert [entry.status for entry in opened.ledger()][-1] == "failed"
    again = opened.sql(f"SELECT n + 1 FROM {count}", epsilon=1)
    assert again.repeated
    assert opened.budget()["people"].lines() == charged
    assert survives in (None, number_of(post) == worker)


def test_c124_an_answer_has_a_largest_size(opened: dp_sql.Connection) -> None:
    """A worker that held much before reaches its memory first."""
    sql = f"SELECT n, repeat('x', 900) || i FROM {COUNT.format(age=1)}, range(40000) r(i)"
    told = "the answer is larger than 33,554,432 bytes|needed more than its limits"
    with pytest.raises(EngineError, match=told):
        opened.sql(sql, epsilon=1)


def test_c127_the_clock_ends_what_the_processors_do_not(
    opened: dp_sql.Connection, post: WorkerPostProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a subquery of public data, which is read while a statement is planned: it costs nothing."""
    before = opened.budget()["people"].lines()
    monkeypatch.setattr(post, "_limits", replace(post._limits, seconds=0.3))
    began = time.monotonic()
    with pytest.raises(EngineError) as caught:
        opened.sql(f"SELECT COUNT(*) FROM people WHERE age > ({BUSY})", epsilon=1)
    assert str(caught.value) == str(exceeded())
    assert opened.budget()["people"].lines() == before
    with pytest.raises(EngineError):  # had it got past the parser; it takes no processor time
        post.texts("SELECT sleep_ms(20000)", (), {}, 1)
    assert time.monotonic() - began < 15


def test_c127_a_worker_that_is_killed_in_the_midst_fails_one_statement(
    opened: dp_sql.Connection, post: WorkerPostProcessor
) -> None:
    killer = threading.Timer(0.3, lambda: os.kill(number_of(post), signal.SIGKILL))
    opened.sql("SELECT 1 + 1")
    killer.start()
    with pytest.raises(EngineError) as caught:
        opened.sql(f"SELECT n, ({BUSY}) FROM {COUNT.format(age=50)}", epsilon=1)
    killer.join()
    assert str(caught.value) == str(exceeded())
    assert opened.sql(f"SELECT n FROM {COUNT.format(age=50)}", epsilon=1).repeated


TRIED = """\
import os, socket, subprocess, sys
sys.path += sys.argv[2:]
from dp_sql.postprocess import exchange, process

def tried(*_):
    told = []
    for act in (
        lambda: open("/etc/hostname").read(),
        lambda: os.listdir("/"),
        lambda: open({data!r}, "rb").read(),
        lambda: os.listdir(os.path.dirname({data!r})),
        lambda: open({data!r} + ".out", "w"),
        lambda: open("/tmp/dpsql-escape", "w"),
        lambda: open("/proc/{parent}/environ", "rb").read(),
        lambda: os.execv("/bin/true", ["true"]),
        lambda: socket.create_connection(("127.0.0.1", {port}), 1),
        lambda: bytearray(500_000_000),
    ):
        try:
            act()
            told.append("done")
        except (PermissionError, MemoryError) as error:
            told.append(type(error).__name__)
    return exchange.columns_message((tuple(told), tuple(told)))

process._result = tried
process.serve()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is of Linux")
def test_c103_c115_c118_nothing_can_be_read_or_reached_or_written_from_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever runs in it, had it got past DuckDB's settings: these are the kernel's walls."""
    if confine.missing():
        pytest.skip(f"this kernel lacks {confine.missing()}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = TRIED.format(
            data=str(folder / "scene.duckdb"),
            parent=os.getpid(),
            port=server.getsockname()[1],
        )
        monkeypatch.setattr(spawn, "_PROGRAM", program)
        catalog = load(write(folder, LIMITS + schema("event")))
        post = WorkerPostProcessor(catalog, {}, lambda _: {}, catalog.worker)
        told = [outcome for outcome, _ in post.columns("SELECT 1", (), {})]
        post.close()
    assert told == ["PermissionError"] * 9 + ["MemoryError"]
