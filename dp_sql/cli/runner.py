"""Runs a statement so that Ctrl-C stops the statement and nothing else."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Protocol, TypeVar

T = TypeVar("T")

_TICK = 0.05  # seconds between two attempts to stop

STOPPED = "Stopped. A statement that had been charged stays charged."


class Interruptible(Protocol):
    """What can be told, from another thread, to stop what it does."""

    def interrupt(self) -> None:
        """Stop what runs now, if anything does."""


def run_stoppable(target: Interruptible, work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise what it raises.

    It runs in a thread of its own, and the main thread, which calls this, waits. Ctrl-C interrupts
    `target` again and again until the thread has ended: once isn't enough, since an interrupt before
    the database has begun does nothing. Raises KeyboardInterrupt where work ended without a result
    after that.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []
    stop, ended = threading.Event(), threading.Event()

    def body() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001  it is raised again in the main thread
            failure.append(error)
        finally:
            ended.set()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    previous = signal.signal(signal.SIGINT, on_signal)
    try:
        thread = threading.Thread(target=body, name="dpsql-statement")
        thread.start()
        while not ended.wait(_TICK):
            if stop.is_set():
                target.interrupt()
        thread.join()
    finally:
        signal.signal(signal.SIGINT, previous)
    if outcome:
        return outcome[0]
    if stop.is_set():
        raise KeyboardInterrupt from None
    raise failure[0]
