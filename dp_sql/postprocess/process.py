"""The process that runs the analyst's SQL above the releases. It opens public files and nothing else."""

from __future__ import annotations

import pickle
import sys
import zoneinfo
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import duckdb
import numpy.ma  # noqa: F401  DuckDB imports it, when no file of Python's can be read any more

from dp_sql.errors import DPSQLError, EngineError
from dp_sql.executor import serving, wire
from dp_sql.mechanisms.sampler import sampler_named
from dp_sql.postprocess import exchange
from dp_sql.postprocess.embedded import DuckDBPostProcessor
from dp_sql.schema.catalog import Catalog, WorkerSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SHARE = (
    8  # an answer may have that part of the memory: what reads it takes several times its bytes
)


def serve() -> NoReturn:
    """Serve the parent until it ends."""
    serving.serve(_opening)


def _opening(content: bytes) -> serving.Opening:
    catalog: Catalog
    files: dict[str, str]
    limits: WorkerSpec
    catalog, files, limits = pickle.loads(content)  # noqa: S301  from the parent alone
    zones = map(Path, zoneinfo.TZPATH)  # a TIMESTAMPTZ is read with its zone's file

    def opened() -> serving.Answering:
        columns: dict[str, Mapping[str, NDArray[Any]]] = {}
        processor = DuckDBPostProcessor(
            catalog,
            files,
            columns.pop,
            sampler_named(catalog.sampler),
            memory=int(limits.memory * serving.SPILLING),
        )
        return partial(_answer, processor, columns, limits.memory // _SHARE)

    return serving.Opening((*map(Path, files.values()), *zones), None, limits, opened)


def _answer(
    processor: DuckDBPostProcessor,
    columns: dict[str, Mapping[str, NDArray[Any]]],
    most: int,
    request: dict[str, Any],
    blobs: list[bytes],
) -> tuple[Mapping[str, object], Sequence[bytes]]:
    """Return the answer to a request, or its error. most: bytes that an answer may have.

    A database that failed in itself answers nothing any more, so its process ends.
    """
    arguments, sent = pickle.loads(blobs[0])  # noqa: S301  from the parent alone
    columns.update(sent)
    try:
        message, parts = _result(processor, str(request["do"]), arguments)
        if wire.size(message, parts) > most:
            raise EngineError(
                f"the answer is larger than {most:,} bytes.", hint="fewer rows or shorter texts"
            )
    except DPSQLError as error:
        if isinstance(error.__context__, (duckdb.FatalException, duckdb.InternalException)):
            raise
        return exchange.error_message(error)
    return message, parts


def _result(
    processor: DuckDBPostProcessor, do: str, arguments: tuple[Any, ...]
) -> exchange.Message:
    match do:
        case "describe":
            return exchange.columns_message(processor.describe(*arguments))
        case "run":
            return exchange.answer_message(processor.run(*arguments))
        case "texts":
            return wire.rows_message(processor.texts(*arguments))
        case "spread":
            return exchange.spread_message(processor.spread(*arguments))
        case _:
            sys.exit()
