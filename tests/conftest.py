from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


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
