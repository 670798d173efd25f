"""A small PostgreSQL of the tests' own: started once, shared by the workers, reached by a socket."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

REQUIRED = "DP_SQL_REQUIRE_POSTGRES"
SETTINGS = """
listen_addresses = ''
fsync = on
full_page_writes = on
shared_buffers = 16MB
max_connections = 60
max_wal_senders = 0
wal_level = minimal
autovacuum_naptime = 20s
recovery_init_sync_method = syncfs
log_min_messages = fatal
"""
PASSWORD = "s3cret-of-the-owner"  # noqa: S105  of a server that lives for a minute


def binaries() -> Path | None:
    """Return the folder of the newest server on this machine, or None."""
    found = [Path(p).parent for p in [shutil.which("initdb")] if p is not None]
    places = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]
    found += sorted(places, key=lambda p: int(p.parent.name.split("-")[-1].split(".")[0]))
    usable = [folder for folder in found if (folder / "postgres").exists()]
    return usable[-1] if usable else None


class Cluster:
    """One server over one folder. Its superuser is `owner`, with PASSWORD."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self._programs = programs
        self._as: dict[str, object] = {"cwd": folder}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            user = next(u for u in ("postgres", "nobody") if _known(u))
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
            self._as |= {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def make(self) -> None:
        secret = self.folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            "initdb", "--no-sync", "--data-checksums", "--encoding=UTF8", "--locale=C",
            "--username=owner", "--auth=scram-sha-256", f"--pwfile={secret}",
        )  # fmt: skip
        secret.unlink()
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"{SETTINGS}unix_socket_directories = '{self.folder}'\n")

    def start(self) -> None:
        log = str(self.folder / "log")
        self._run("pg_ctl", "start", "--wait", "--timeout=30", "--silent", "--log", log)

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "stop", "--wait", "--timeout=30", "--silent", "--mode", mode)

    def crash(self) -> None:
        """End the server without a checkpoint, as a lost machine would; wait until it is gone."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        deadline = time.monotonic() + 20
        while (self.data / "postmaster.pid").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def url(self, database: str, user: str = "owner", password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{password}@/{database}?host={self.folder}"

    def run(self, *statements: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run statements as the superuser and return the rows of the last one."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []

    def _run(self, program: str, *arguments: str) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        done = subprocess.run(
            [str(self._programs / program), "--pgdata", str(self.data), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**environment, "LC_ALL": "C"},
            timeout=60,
            check=False,
            **self._as,  # type: ignore[call-overload]
        )
        assert done.returncode == 0, f"{program}: {done.stderr.decode()}"


@contextmanager
def shared_cluster(meeting: Path) -> Iterator[Cluster]:
    """Yield the cluster of all workers that know the folder `meeting`; the last one stops it."""
    programs = binaries()
    if programs is None:
        message = (
            "NO POSTGRESQL SERVER on this machine, so nothing is known of ledgers in PostgreSQL"
        )
        if os.environ.get(REQUIRED):
            pytest.fail(f"{message}; {REQUIRED} asks for one")
        pytest.skip(message)
    with _locked(meeting) as users:
        if not users.exists():
            cluster = Cluster(Path(tempfile.mkdtemp(prefix="dpsql")), programs)
            cluster.make()
            cluster.start()
            users.write_text(f"{cluster.folder} 0")
        cluster = Cluster(Path(_count(users, 1)), programs)
    try:
        yield cluster
    finally:
        with _locked(meeting) as users:
            _count(users, -1)
            if users.read_text().endswith(" 0"):
                cluster.crash()
                shutil.rmtree(cluster.folder, ignore_errors=True)
                users.unlink()


@contextmanager
def _locked(meeting: Path) -> Iterator[Path]:
    with (meeting / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield meeting / "postgres.users"


def _count(users: Path, step: int) -> str:
    folder, count = users.read_text().split()
    users.write_text(f"{folder} {int(count) + step}")
    return folder


def _known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
