"""The worker: a process that opens the data, runs SQL of ours and sends what it gives to its parent.

After the data are open it says nothing but answers: where a statement fails it ends without a word.
"""

from __future__ import annotations

import encodings.utf_8_sig  # noqa: F401  of CSV files, for the same reason as numpy.ma
import os
import pickle
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, BinaryIO, NoReturn

import numpy.ma  # noqa: F401  DuckDB imports it, when no file of Python's can be read any more

from dp_sql.errors import EngineError, SchemaError
from dp_sql.executor import confine, wire
from dp_sql.executor.duckdb_embedded import DuckDBEmbedded
from dp_sql.executor.sources import Sources
from dp_sql.schema.catalog import Catalog, WorkerSpec

_LOOK = 1.0  # seconds between two looks whether the parent is there
MOST_SENT = 2**40  # bytes; what the parent sends is its own
SPILLING = 3 / 4  # the part of the memory that DuckDB may hold before it spills to disk


def serve() -> NoReturn:
    """Serve the parent until it ends, which closes standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):  # what a library prints is no answer
        os.dup2(nowhere, number)
    try:
        _serve(requests, answers, os.getppid())
    except BaseException:  # noqa: BLE001  its text could hold what a row holds
        os._exit(1)
    os._exit(0)


def _watch(requests: BinaryIO, parent: int, spill: str) -> None:
    """End this process when its parent has ended, even in the midst of a statement."""
    poll = _polling(requests)
    while os.getppid() == parent:
        if poll():
            break
    _leave(spill)


def _leave(spill: str) -> NoReturn:
    """End this process and remove what it spilled, which nobody else is left to do.

    The folder itself stays, empty: it lies in one that is closed to this process.
    """
    shutil.rmtree(spill, ignore_errors=True)
    os._exit(0)


def _polling(requests: BinaryIO) -> Any:
    """Return what waits for a moment and tells whether nobody can send any more."""
    if not hasattr(select, "poll"):
        return lambda: time.sleep(_LOOK)
    poll = select.poll()
    poll.register(requests, 0)  # hang-ups are told whether asked for or not
    return lambda: bool(poll.poll(_LOOK * 1000))


def _serve(requests: BinaryIO, answers: BinaryIO, parent: int) -> None:
    status = confine.memory_status()
    try:
        opening = wire.receive_bytes(requests, MOST_SENT)
    except EOFError:
        return
    catalog: Catalog
    sources: Sources
    limits: WorkerSpec
    catalog, sources, spill, limits = pickle.loads(opening)  # noqa: S301  from the parent alone
    try:
        confined = [*confine.harden(), *confine.close_off(sources.paths, spill)]
        watch = threading.Thread(target=_watch, args=(requests, parent, spill), daemon=True)
        watch.start()
        memory = int(limits.memory * SPILLING)
        database = DuckDBEmbedded(catalog, sources, spill=spill, memory=memory)
    except (SchemaError, EngineError) as error:
        wire.send(answers, {"error": error.code, "message": error.message, "hint": error.hint})
        return
    confined += [*confine.limit_memory(status, limits.memory)]
    confined += [*confine.limit_processor(limits.processor_seconds)]
    wire.send(answers, {"confined": confined})
    while True:
        try:
            request, _ = wire.receive(requests, MOST_SENT)
        except EOFError:
            _leave(spill)
        confine.limit_processor(limits.processor_seconds)
        wire.send(answers, *_answer(database, request))


def _answer(
    database: DuckDBEmbedded, request: dict[str, Any]
) -> tuple[dict[str, object], Sequence[bytes]]:
    match request.pop("do"):
        case "rows":
            return wire.rows_message(database.rows(**request))
        case "pairs":
            return wire.pairs_message(database.pairs(**request))
        case "arrays":
            return wire.arrays_message(database.arrays(**request))
        case "stage":
            database.stage(**request)
            return {}, ()
        case _:
            sys.exit()
