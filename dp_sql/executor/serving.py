"""What every worker does: take its walls, open what it works on, and answer its parent to the end.

Where a request fails in a way that has no answer it ends without a word.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeAlias

from dp_sql.dataclass import dataclass
from dp_sql.errors import EngineError, SchemaError
from dp_sql.executor import confine, wire
from dp_sql.schema.catalog import WorkerSpec

_LOOK = 1.0  # seconds between two looks whether the parent is there
_MOST_SENT = 2**40  # bytes; what the parent sends is its own
SPILLING = 3 / 4  # the part of the memory that DuckDB itself may hold

Answering: TypeAlias = Callable[
    [dict[str, Any], list[bytes]], tuple[Mapping[str, object], Sequence[bytes]]
]
"""Gives the answer to a request, with what goes with each."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a worker does once it has its walls.

    files: to be read, whatever comes. spill: a folder to write to, or None. open: called behind the
    walls; it raises SchemaError and EngineError, which the parent is told.
    """

    files: tuple[Path, ...]
    spill: str | None
    limits: WorkerSpec
    open: Callable[[], Answering]


def serve(opening: Callable[[bytes], Opening]) -> NoReturn:
    """Serve the parent until it ends, which closes standard input. opening: reads its first message."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):  # what a library prints is no answer
        os.dup2(nowhere, number)
    try:
        _serve(requests, answers, os.getppid(), opening)
    except BaseException:  # noqa: BLE001  its text could hold what a row holds
        os._exit(1)
    os._exit(0)


def _watch(requests: BinaryIO, parent: int, spill: str | None) -> None:
    """End this process when its parent has ended, even in the midst of a statement."""
    poll = _polling(requests)
    while os.getppid() == parent:
        if poll():
            break
    _leave(spill)


def _leave(spill: str | None) -> NoReturn:
    """End this process and remove what it spilled, which nobody else is left to do.

    The folder itself stays, empty: it lies in one that is closed to this process.
    """
    if spill is not None:
        shutil.rmtree(spill, ignore_errors=True)
    os._exit(0)


def _polling(requests: BinaryIO) -> Any:
    """Return what waits for a moment and tells whether nobody can send any more."""
    if not hasattr(select, "poll"):
        return lambda: time.sleep(_LOOK)
    poll = select.poll()
    poll.register(requests, 0)  # hang-ups are told whether asked for or not
    return lambda: bool(poll.poll(_LOOK * 1000))


def _serve(
    requests: BinaryIO, answers: BinaryIO, parent: int, opening: Callable[[bytes], Opening]
) -> None:
    status = confine.memory_status()
    try:
        first = wire.receive_bytes(requests, _MOST_SENT)
    except EOFError:
        return
    asked = opening(first)
    limits = asked.limits
    try:
        confined = [*confine.harden(), *confine.close_off(asked.files, asked.spill)]
        watch = threading.Thread(target=_watch, args=(requests, parent, asked.spill), daemon=True)
        watch.start()
        answer = asked.open()
    except (SchemaError, EngineError) as error:
        wire.send(answers, {"error": error.code, "message": error.message, "hint": error.hint})
        return
    confined += [*confine.limit_memory(status, limits.memory)]
    confined += [*confine.limit_processor(limits.processor_seconds)]
    wire.send(answers, {"confined": confined})
    while True:
        try:
            request, blobs = wire.receive(requests, _MOST_SENT)
        except EOFError:
            _leave(asked.spill)
        confine.limit_processor(limits.processor_seconds)
        wire.send(answers, *answer(request, blobs))
