"""The process that opens the data, runs SQL of ours and sends what it gives to its parent.

After the data are open it says nothing but answers: where a statement fails it ends without a word.
"""

from __future__ import annotations

import encodings.utf_8_sig  # noqa: F401  of CSV files, for the same reason as numpy.ma
import pickle
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

import numpy.ma  # noqa: F401  DuckDB imports it, when no file of Python's can be read any more

from dp_sql.executor import serving, wire
from dp_sql.executor.duckdb_embedded import DuckDBEmbedded
from dp_sql.executor.sources import Sources
from dp_sql.schema.catalog import Catalog, WorkerSpec


def serve() -> NoReturn:
    """Serve the parent until it ends."""
    serving.serve(_opening)


def _opening(content: bytes) -> serving.Opening:
    catalog: Catalog
    sources: Sources
    spill: str
    limits: WorkerSpec
    catalog, sources, spill, limits = pickle.loads(content)  # noqa: S301  from the parent alone

    def opened() -> serving.Answering:
        memory = int(limits.memory * serving.SPILLING)
        return partial(_answer, DuckDBEmbedded(catalog, sources, spill=spill, memory=memory))

    return serving.Opening(sources.paths, spill, limits, opened)


def _answer(
    database: DuckDBEmbedded, request: dict[str, Any], _: list[bytes]
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
