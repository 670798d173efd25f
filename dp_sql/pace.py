"""When answers are given: as soon as they are ready, or at the next step of time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dp_sql.errors import EngineError
from dp_sql.executor.database import STOPPED

FLOOR = 1 / 8  # seconds: the first step; each further one is twice the last


def step_after(seconds: float) -> float:
    """Return the first of 1/8, 1/4, 1/2, 1, 2, … seconds that is at least `seconds`."""
    return FLOOR * 2.0 ** max(0, math.ceil(math.log2(max(seconds, FLOOR) / FLOOR)))


class Pace:
    """When the statements of a connection are answered.

    Claim:   with `bucketed`, the time at which a statement that was charged is answered, or fails, is
             one of the steps; which one, is all that it tells.
    Why:     what is measured begins when the statement comes and ends when its answer is ready. Only
             after the wait the ledger and the store of answers know its end, which everybody may read.
             A statement that is interrupted fails at its step, with the same error, whether or not
             it was ready or had failed by then: else interrupting would measure exactly.
    Assumes: nothing else is measured: the machine's load, memory and files are out of sight.
    Source:  [Haeberlen2011]
    """

    def __init__(
        self,
        *,
        bucketed: bool,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Make a pace. clock: seconds of a clock that never goes back. wait: for so many seconds."""
        self._bucketed = bucketed
        self._clock = clock
        self._wait = wait
        self._guard = threading.RLock()
        self._waiting: set[object] = set()
        self._interrupted: set[object] = set()

    def now(self) -> float:
        """Return the time."""
        return self._clock()

    @contextmanager
    def until_step(self, began: float, forget: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Leave the body, which was charged, at a step after `began`; errors leave it then too.

        forget: called before an interrupted statement is left, where there are steps: it removes what
        would tell how far the body came. Raises EngineError where it was interrupted in the meantime.
        """
        if not self._bucketed:
            yield
            return
        statement = object()
        with self._guard:
            self._waiting.add(statement)
        cut = True
        try:
            try:
                yield
            finally:
                self._sleep(began)
                stopped = self._ended(statement)
            cut = stopped
        except Exception:
            cut = stopped
            if not stopped:
                raise
        finally:
            if cut:
                forget()
        if stopped:
            raise EngineError(STOPPED)

    def _ended(self, statement: object) -> bool:
        """Take a statement off those that are on their way. Returns whether it was interrupted."""
        with self._guard:
            self._waiting.discard(statement)
            stopped = statement in self._interrupted
            self._interrupted.discard(statement)
        return stopped

    def _sleep(self, began: float) -> None:
        """Wait for the next step, and longer where the wait ended too soon."""
        end = began + step_after(self._clock() - began)
        while (left := end - self._clock()) > 0:
            self._wait(left)

    def interrupt(self) -> None:
        """Let the statements that are on their way fail."""
        with self._guard:
            self._interrupted |= self._waiting
