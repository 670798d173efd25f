from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from postgres_cluster import Cluster


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the files that tests compare with, instead of comparing",
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session", autouse=True)
def _data_in_this_process() -> Iterator[None]:
    """Let connections that say nothing of a worker do without: starting one takes longer than a test.

    Those that ask for one by `in_process=False` have it, and so has every command that is run.
    """
    from dp_sql.connection import Connection  # noqa: PLC0415  what needs no engine loads none

    made = Connection.__init__

    def here(self: Connection, schema: Any, *, in_process: bool | None = None, **more: Any) -> None:
        made(self, schema, in_process=True if in_process is None else in_process, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "__init__", here)
        patch.setattr("dp_sql.executor.spawn.prepare", lambda: None)
        yield


@pytest.fixture(scope="session")
def worker() -> str:
    """Return the name of this process among those that run the tests."""
    return os.environ.get("PYTEST_XDIST_WORKER", "alone")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, worker: str) -> Iterator[Cluster]:
    """Yield the PostgreSQL server that all workers share."""
    from postgres_cluster import shared_cluster  # noqa: PLC0415  few tests need the driver

    folder = tmp_path_factory.getbasetemp()
    with shared_cluster(folder if worker == "alone" else folder.parent) as started:
        yield started


@pytest.fixture(scope="session")
def database(cluster: Cluster, worker: str) -> str:
    """Return the name of this worker's database."""
    name = f"ledger_{worker}"
    cluster.run(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
    return name


@pytest.fixture
def postgres(cluster: Cluster, database: str) -> Iterator[str]:
    """Yield the URL of a database without a ledger, for the role that owns it."""
    drop = "DROP SCHEMA IF EXISTS dp_sql CASCADE"
    cluster.run(drop, database=database)
    yield cluster.url(database)
    cluster.run(drop, database=database)


@pytest.fixture
def emptied(cluster: Cluster, database: str) -> str:
    """Return the URL of a database without a ledger, or with one that holds nothing: that is quick."""
    names = "seen answers versions scopes accounts cap_raises entries raises statements sums terms"
    tables = [*names.split(), "tables"]
    cluster.run(
        "SET session_replication_role = replica",
        "DO $$ BEGIN IF to_regnamespace('dp_sql') IS NOT NULL THEN "
        + "".join(f"DELETE FROM dp_sql.{table}; " for table in tables)
        + "END IF; END $$",
        database=database,
    )
    return cluster.url(database)


@pytest.fixture(params=["memory", "file", "postgres"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """Return where a new ledger goes: memory, a file, a PostgreSQL database."""
    if request.param == "postgres":
        return str(request.getfixturevalue("emptied"))
    return ":memory:" if request.param == "memory" else tmp_path / "shop.ledger"
