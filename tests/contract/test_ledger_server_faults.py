"""A PostgreSQL server that is killed, runs without syncs, finds damaged pages or a full disk."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from budget_cases import laplace, statement
from ledger_cases import CHILDREN, ROOT, new_ledger
from postgres_cluster import Cluster, binaries

from dp_sql.budget import open_ledger
from dp_sql.errors import LedgerError

HALF = {"a": laplace("0.5")}


@contextmanager
def server(folder: Path, bin_folder: Path | None) -> Iterator[Cluster]:
    """Yield a server of this test's own."""
    assert bin_folder is not None
    own = Cluster(folder, bin_folder)
    own.make()
    own.start()
    try:
        yield own
    finally:
        own.crash()


@pytest.fixture(scope="module")
def own(cluster: Cluster) -> Iterator[Cluster]:  # skips where there is none
    assert cluster
    folder = Path(tempfile.mkdtemp(prefix="dpsql"))
    with server(folder, binaries()) as started:
        yield started
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def url(own: Cluster) -> str:
    """Return the URL of a ledger with the tables a and b on the server of this module."""
    own.run("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop")
    new_ledger(own.url("shop")).close()
    return own.url("shop")


def asking(url: str, output: Path) -> subprocess.Popen[bytes]:
    """Start a process that reserves until its standard input ends."""
    with output.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", str(CHILDREN), "keep_asking", url],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=file,
        )


def crashed(own: Cluster, url: str, folder: Path, tries: int, seed: int) -> None:
    moments = random.Random(seed)
    outputs = [folder / str(number) for number in range(2)]
    children = [asking(url, output) for output in outputs]
    with ExitStack() as stack:
        for child in children:
            stack.callback(child.wait, 60)
            assert child.stdin is not None
            stack.callback(child.stdin.close)
        while any(output.stat().st_size < 100 for output in outputs):
            assert all(child.poll() is None for child in children)
            time.sleep(0.01)
        for _ in range(tries):
            time.sleep(moments.uniform(0, 0.3))
            own.crash()
            own.start()
        time.sleep(0.1)
    assert [child.returncode for child in children] == [0, 0]
    lines = [line for output in outputs for line in output.read_text().splitlines()]
    answered = [line for line in lines if not line.startswith("{")]
    errors = sum(int(line.split()[1].rstrip("}")) for line in lines if line.startswith("{"))
    with open_ledger(url) as ledger:
        charged = [entry.query_id for entry in ledger.entries()]
        problems = ledger.verify().problems
        ledger.reserve(statement(), HALF)
    report = f"{len(answered)} answers, {len(charged)} charges, {errors} errors, {problems}"
    print(f"{tries} servers killed: {report}")  # noqa: T201  pytest -s shows how many
    assert problems == ()
    assert len(answered) == len(set(answered)) > 0
    assert len(charged) == len(set(charged))
    assert set(answered) <= set(charged)
    assert errors > 0
    assert len(charged) - len(answered) <= 2 * (tries + 1)  # one of each process that was cut off


def test_no_answer_is_without_its_charge_when_the_server_is_killed(
    own: Cluster, url: str, tmp_path: Path
) -> None:
    crashed(own, url, tmp_path, tries=3, seed=1)


@pytest.mark.slow
def test_no_answer_is_without_its_charge_when_the_server_is_killed_200_times(
    own: Cluster, url: str, tmp_path: Path
) -> None:
    crashed(own, url, tmp_path, tries=200, seed=2)


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_may_lose_what_it_commits_is_refused(
    own: Cluster, url: str, setting: str
) -> None:
    with open_ledger(url) as ledger:
        ledger.reserve(statement(), HALF)
        for value in ("off", "on"):
            own.run(f"ALTER SYSTEM SET {setting} = {value}", "SELECT pg_reload_conf()")
            while own.run(f"SHOW {setting}") != [(value,)]:
                time.sleep(0.01)
            if value == "off":
                time.sleep(0.1)  # the session that is open hears of it, too
                for use in (lambda: ledger.reserve(statement(), HALF), lambda: open_ledger(url)):
                    with pytest.raises(LedgerError, match="A power cut could take") as caught:
                        use()
                    assert caught.value.hint is not None
                    assert f"{setting} = on" in caught.value.hint
        ledger.reserve(statement(), HALF)
        assert ledger.state("a").statements == 2


def damaged(own: Cluster, url: str, tries: int, seed: int) -> None:
    """Change a byte of a table's file while the server is down: harmless, or somebody notices."""
    with open_ledger(url) as ledger:
        for number in range(40):
            ledger.reserve(
                statement(f"SELECT {number}"), {"a": laplace("0.5"), "b": laplace("0.25")}
            )
        before = [(e.number, e.query_id, e.sql, e.spend) for e in ledger.entries()]
    tables = ["entries", "statements", "sums", "tables", "entries_pkey", "sums_pkey"]
    own.run("CHECKPOINT")
    files = {
        table: own.data
        / str(own.run(f"SELECT pg_relation_filepath('dp_sql.{table}')", database="shop")[0][0])
        for table in tables
    }
    chances = random.Random(seed)
    noticed = 0
    for _ in range(tries):
        own.stop()
        file = files[chances.choice(tables)]
        whole = file.read_bytes()
        broken = bytearray(whole)
        broken[chances.randrange(len(whole))] ^= chances.randrange(1, 256)
        file.write_bytes(broken)
        own.start()
        try:
            with open_ledger(url) as ledger:
                if ledger.verify().problems:
                    noticed += 1
                else:
                    assert [
                        (e.number, e.query_id, e.sql, e.spend) for e in ledger.entries()
                    ] == before
        except LedgerError as error:
            noticed += "is damaged" in error.message
        own.crash()
        file.write_bytes(whole)
        own.start()
    with open_ledger(url) as ledger:
        assert ledger.verify().problems == ()
    print(f"{tries} bytes changed, {noticed} noticed")  # noqa: T201
    assert noticed > tries / 2


def test_a_changed_byte_is_noticed_by_the_checksums_of_the_server(own: Cluster, url: str) -> None:
    damaged(own, url, tries=2, seed=1)


@pytest.mark.slow
def test_each_of_many_changed_bytes_is_noticed(own: Cluster, url: str) -> None:
    damaged(own, url, tries=60, seed=2)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small disk")
def test_a_full_disk_of_the_server_takes_no_charge_away(cluster: Cluster) -> None:
    assert cluster  # skips where there is none
    folder = Path(tempfile.mkdtemp(prefix="dpsql"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        mount, unmount = (shutil.which(name) or name for name in ("mount", "umount"))
        subprocess.run([mount, "-t", "tmpfs", "-o", "size=140m", "tmpfs", str(folder)], check=True)
        stack.callback(subprocess.run, [unmount, "--lazy", str(folder)], check=True)
        small = stack.enter_context(server(folder, binaries()))
        url = small.url("postgres")
        new_ledger(url).close()
        answered, charged = set[str](), set[str]()
        for room in (100_000, 1_000_000, 3_000_000):
            ballast = folder / "ballast"
            with ballast.open("wb") as file:
                file.write(bytes(shutil.disk_usage(folder).free - room))
            messages = set()
            with open_ledger(url) as ledger:
                for number in range(300):
                    record = statement(f"SELECT {number} -- {os.urandom(20_000).hex()}")
                    try:
                        ledger.reserve(record, HALF)
                        answered.add(record.query_id)
                    except LedgerError as error:
                        messages.add(error.message)
            ballast.unlink()
            with suppress(AssertionError):
                small.start()  # where it ended
            time.sleep(1)  # it may have ended a moment ago and be coming up
            with open_ledger(url) as ledger:
                charged = {entry.query_id for entry in ledger.entries()}
                assert ledger.verify().problems == ()
                ledger.reserve(statement(), HALF)
            print(f"{room} bytes: {len(answered)} answers, {len(charged)} charges, {messages}")  # noqa: T201
            assert messages
            assert answered <= charged
