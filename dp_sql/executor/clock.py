"""Time limits, kept by one thread: starting one for each call takes longer than most calls."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Clock:
    """Calls what is due. Its thread starts with the first limit, and sleeps where there is none."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._limits: dict[object, tuple[float, Callable[[], None]]] = {}
        self._looks = math.inf  # when the thread looks next
        self._thread: threading.Thread | None = None

    def start(self, seconds: float, stop: Callable[[], None]) -> object:
        """Call `stop`, from another thread, after that time. Returns what `end` takes."""
        limit, due = object(), time.monotonic() + seconds
        with self._changed:
            self._limits[limit] = due, stop
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="dpsql-clock", daemon=True)
                self._thread.start()
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
                    threading.Thread(target=stop, daemon=True).start()  # it may wait, or fail
                self._looks = min((due for due, _ in self._limits.values()), default=math.inf)
                self._changed.wait(min(self._looks - now, threading.TIMEOUT_MAX))


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
