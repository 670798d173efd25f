"""Steps of time: when answers and failures of charged statements are given."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from attack.scene import schema, write

import dp_sql
from dp_sql.errors import BudgetExceededError, EngineError, QueryError
from dp_sql.pace import FLOOR, Pace, step_after

COUNT = "SELECT COUNT(*) FROM people"


class Clock:
    """A clock that moves when something waits; waits end a little early, as real ones may."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.waited: list[float] = []

    def now(self) -> float:
        return self.time

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.time += seconds * 0.75 if seconds > 1e-6 else seconds


@pytest.mark.parametrize(
    ("seconds", "step"),
    [(0, 0.125), (0.1, 0.125), (0.125, 0.125), (0.1251, 0.25), (0.25, 0.25), (0.3, 0.5), (0.9, 1), (1, 1),
     (1.01, 2), (3, 4), (5000, 8192), (-1, 0.125)],
)  # fmt: skip
def test_steps_are_powers_of_two_from_the_floor(seconds: float, step: float) -> None:
    assert step_after(seconds) == step
    assert FLOOR == 0.125


def fail() -> None:
    raise EngineError("it failed")


@pytest.mark.parametrize("took", [0.0, 0.01, 0.124, 0.2, 0.7, 3.3])
@pytest.mark.parametrize("fails", [False, True])
def test_a_statement_ends_at_a_step_whether_or_not_it_fails(took: float, *, fails: bool) -> None:
    clock = Clock()
    pace = Pace(bucketed=True, clock=clock.now, wait=clock.wait)
    began = pace.now()
    outcome = "answered"
    try:
        with pace.until_step(began):
            clock.time += took
            if fails:
                fail()
    except EngineError:
        outcome = "failed"
    assert outcome == ("failed" if fails else "answered")
    assert clock.time - began == pytest.approx(step_after(took), abs=1e-5)
    assert clock.time - began >= step_after(took)


def test_without_steps_nothing_waits() -> None:
    clock = Clock()
    pace = Pace(bucketed=False, clock=clock.now, wait=clock.wait)
    with pace.until_step(pace.now()):
        pace.interrupt()  # the database's business then
    assert clock.waited == []


def test_an_interrupt_tells_not_whether_the_answer_was_ready() -> None:
    """Else interrupting at a time of one's choice would measure how long a statement took."""
    clock = Clock()
    pace = Pace(bucketed=True, clock=clock.now, wait=clock.wait)

    def late(seconds: float) -> None:  # the interrupt comes while the answer waits for its step
        pace.interrupt()
        clock.time += seconds

    def stopped(wait: Any, body: Any) -> float:
        pace._wait = wait
        began = pace.now()
        with pytest.raises(EngineError, match="was stopped"), pace.until_step(began):
            body()
        return clock.time - began

    assert stopped(late, lambda: None) == pytest.approx(FLOOR, abs=1e-5)
    assert stopped(clock.wait, pace.interrupt) == pytest.approx(FLOOR, abs=1e-5)
    pace._wait = clock.wait
    with pace.until_step(pace.now()):
        """The next statement is another one."""


def bucketed(folder: Path, clock: Clock | None = None, *, reuse: bool = False) -> dp_sql.Connection:
    path = write(folder, schema("event").replace("version: 1", "version: 1\nanswer_time: bucketed"))
    connection = dp_sql.connect(path, ledger=":memory:", reuse=reuse)
    if clock is not None:
        connection._pace = Pace(bucketed=True, clock=clock.now, wait=clock.wait)
    return connection


def test_what_is_charged_waits_and_what_is_refused_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    with bucketed(tmp_path, clock) as connection:
        run = connection._run

        def slow(*arguments: Any) -> Any:
            clock.time += 0.3
            return run(*arguments)

        monkeypatch.setattr(connection, "_run", slow)
        began = clock.time
        connection.sql(COUNT, epsilon=1)
        assert clock.time - began == pytest.approx(0.5, abs=1e-5)
        connection.batch([COUNT, COUNT], epsilon=1)
        assert clock.time - began == pytest.approx(1.5, abs=1e-5)  # both: 0.6, so 1 more
        waited = len(clock.waited)
        for refused, error in (
            ("SELECT name FROM people", QueryError),
            (COUNT, BudgetExceededError),
        ):
            with pytest.raises(error):
                connection.sql(refused, epsilon="1e9")
        connection.explain(COUNT, epsilon=1)
        assert len(clock.waited) == waited
        monkeypatch.setattr(connection._engine, "statements", lambda _: ("SELECT error('bob')",))
        with pytest.raises(EngineError, match="stays charged"):
            connection.sql(COUNT, epsilon=1)
        assert len(clock.waited) > waited


@pytest.mark.parametrize("when", ["before", "ready", "failed"])
def test_an_interrupt_leaves_the_same_traces_whether_or_not_the_answer_was_ready(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger's status, and whether the statement is free when it is asked again, tell nothing."""
    clock, seen = Clock(), []
    with bucketed(tmp_path, clock, reuse=True) as connection:

        def waiting(seconds: float) -> None:
            seen.extend(entry.status for entry in connection.ledger())
            connection.interrupt()
            clock.wait(seconds)

        run = connection._run

        def running(*arguments: Any) -> Any:
            if when == "failed":
                fail()
            if when == "before":
                connection.interrupt()
            return run(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(connection, "_run", running)
            patch.setattr(connection._pace, "_wait", clock.wait if when == "before" else waiting)
            with pytest.raises(EngineError, match="was stopped"):
                connection.sql(COUNT, epsilon=1)
        assert {*seen} <= {"reserved"}
        assert [entry.status for entry in connection.ledger()] == ["failed"]
        assert not connection.sql(COUNT, epsilon=1).repeated
        assert connection.sql(COUNT, epsilon=1).repeated


def test_a_real_clock_gives_the_answer_at_the_first_step(tmp_path: Path) -> None:
    with bucketed(tmp_path) as connection:
        began = time.monotonic()
        connection.sql(COUNT, epsilon=1).fetchall()
        took = time.monotonic() - began
        assert took >= FLOOR
        over = threading.Event()

        def interrupting() -> None:
            while not over.wait(0.01):
                connection.interrupt()

        thread = threading.Thread(target=interrupting)
        thread.start()
        with pytest.raises(EngineError, match="was stopped"):
            connection.sql(COUNT, epsilon=1)
        over.set()
        thread.join()
