from __future__ import annotations

import os
import threading
import time

import pytest

from dp_sql.errors import EngineError
from dp_sql.executor.clock import Clock, within

SOON, LATE = 0.02, 60.0


def test_a_body_that_takes_longer_is_stopped() -> None:
    stopped = threading.Event()
    with within(SOON, stopped.set):
        assert stopped.wait(LATE)


def test_a_shorter_limit_is_kept_beside_longer_ones() -> None:
    clock = Clock()
    last, first = threading.Event(), threading.Event()
    kept = [clock.start(LATE, last.set) for _ in range(3)]
    clock.start(SOON, first.set)
    assert first.wait(LATE / 2)
    assert not last.is_set()
    for limit in kept:
        clock.end(limit)


def test_a_body_in_time_is_never_stopped_and_the_clock_goes_on() -> None:
    clock = Clock()
    stopped: list[int] = []
    clock.end(clock.start(SOON, lambda: stopped.append(0)))
    time.sleep(2 * SOON)
    after = threading.Event()
    clock.start(SOON, after.set)
    assert after.wait(LATE)
    assert not stopped


def test_a_limit_that_waits_or_fails_holds_up_no_other() -> None:
    clock = Clock()
    waits, stopped = threading.Event(), threading.Event()
    clock.start(SOON, lambda: waits.wait(LATE) and None)
    clock.start(2 * SOON, stopped.set)
    assert stopped.wait(LATE / 2)
    waits.set()


def test_a_fork_has_a_clock_of_its_own() -> None:
    with within(LATE, lambda: None):
        child = os.fork()
        if not child:
            stopped = threading.Event()
            with within(SOON, stopped.set):
                os._exit(0 if stopped.wait(5) else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_clock_whose_threads_could_not_start_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    clock.end(clock.start(LATE, lambda: None))
    start = threading.Thread.start

    def fail(self: threading.Thread) -> None:
        if self is not clock._thread:
            raise RuntimeError("can't start new thread")
        start(self)

    stopped, after = threading.Event(), threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        clock.start(SOON, stopped.set)
        assert stopped.wait(LATE)
        with pytest.raises(EngineError, match="can start no thread"):
            Clock().start(SOON, stopped.set)
    clock.start(SOON, after.set)
    assert after.wait(LATE)
