"""Time limits, kept by one thread: starting one for each call takes longer than most calls."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from dp_sql.errors import EngineError


class Clock:
    """Calls what is due. Its thread starts with the first limit, and sleeps where there is none."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._limits: dict[object, tuple[float, Callable[[], None]]] = {}
        self._looks = math.inf  # when the thread looks next
        self._thread: threading.Thread | None = None

    def start(self, seconds: float, stop: Callable[[], None]) -> object:
        """Call `stop`, from another thread, after that time. Returns what `end` takes.

        Raises EngineError where no thread can be started: without a clock nothing may run.
        """
        limit, due = object(), time.monotonic() + seconds
        with self._changed:
            if self._thread is None or not self._thread.is_alive():
                self._thread = _started(self._run)
            self._limits[limit] = due, stop
            if due < self._looks:  # else it looks before: limits that ended in time wake nobody
                self._changed.notify()
        return limit

    def end(self, limit: object) -> None:
        """Forget a limit, unless it was called."""
        with self._changed:
            self._limits.pop(limit, None)

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for limit in [one for one, (due, _) in self._limits.items() if due <= now]:
                    _, stop = self._limits.pop(limit)
                    try:
                        _started(stop)  # it may wait, or fail
                    except EngineError:  # no thread is left: in this one, which the others wait for
                        with suppress(Exception):
                            stop()
                self._looks = min((due for due, _ in self._limits.values()), default=math.inf)
                self._changed.wait(min(self._looks - now, threading.TIMEOUT_MAX))


def _started(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, name="dpsql-clock", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        raise EngineError(
            "this process can start no thread, so nothing would end a statement in time."
        ) from None
    return thread


_clock = Clock()


def _after_fork() -> None:
    """Take a clock that runs: the thread stayed in the parent, and with it perhaps the lock."""
    global _clock  # noqa: PLW0603
    _clock = Clock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def within(seconds: float, stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop`, from another thread, where the body takes longer than that."""
    clock = _clock
    limit = clock.start(seconds, stop)
    try:
        yield
    finally:
        clock.end(limit)
