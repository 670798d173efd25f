"""What a worker above the releases answers: results of its methods, and their errors, as `wire` has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dp_sql.errors import (
    DPSQLError,
    EngineError,
    InternalError,
    NotPrivateError,
    ParameterError,
    Position,
    QueryError,
    UnsupportedSQLError,
)
from dp_sql.executor import wire
from dp_sql.postprocess.released import Answer, Columns

Message: TypeAlias = tuple[dict[str, object], list[bytes]]

_TEXTS: frozenset[type] = frozenset({str, type(None)})
_ERRORS = {
    kind.code: kind
    for kind in (
        QueryError,
        UnsupportedSQLError,
        NotPrivateError,
        ParameterError,
        EngineError,
        InternalError,
    )
}


def error_message(error: DPSQLError) -> Message:
    """Return an error as a message: it is about released values, so all of it is told."""
    place = error.position
    return {
        "error": error.code,
        "message": error.message,
        "hint": error.hint,
        "position": None if place is None else [place.line, place.column, place.length],
        "whole": str(error),
    }, []


def error_in(message: Mapping[str, Any]) -> DPSQLError | None:
    """Return the error that a message is, or None."""
    if "error" not in message:
        return None
    error = _ERRORS[message["error"]](str(message["message"]), hint=message["hint"])
    error.args = (str(message["whole"]),)
    if message["position"] is not None:
        error.position = Position(*map(int, message["position"]))
    return error


def columns_message(columns: Columns) -> Message:
    """Return names and types as a message."""
    return {"names": columns[0], "types": columns[1]}, []


def read_columns(message: Mapping[str, Any], _: Sequence[bytes] = ()) -> Columns:
    """Return received names and types."""
    return tuple(map(str, message["names"])), tuple(map(str, message["types"]))


def answer_message(answer: Answer) -> Message:
    """Return an answer as a message."""
    rows, blobs = wire.rows_message(answer.rows)
    names, _ = columns_message((answer.columns, answer.types))
    groups = np.array(answer.groups, "<i8").tobytes()
    return {**names, **rows}, [groups, *blobs]


def read_answer(message: Mapping[str, Any], blobs: Sequence[bytes]) -> Answer:
    """Return a received answer. Raises ValueError where its parts don't fit together."""
    names, types = read_columns(message)
    groups = tuple(np.frombuffer(blobs[0], "<i8").tolist())
    rows = wire.read_rows(message, blobs[1:], wire.VALUES)
    if len(names) != len(types) or any(len(row) != len(names) for row in rows[:1]):
        raise ValueError("columns that don't fit together")
    if groups and len(groups) != len(rows):
        raise ValueError("groups that don't fit together")
    return Answer(names, types, rows, groups)


def read_texts(message: Mapping[str, Any], blobs: Sequence[bytes]) -> list[tuple[str | None, ...]]:
    """Return received rows of texts. Raises ValueError for anything else."""
    found = wire.read_rows(message, blobs, _TEXTS)
    return [tuple(None if value is None else str(value) for value in row) for row in found]


def spread_message(ends: Mapping[int, list[tuple[float, float] | None]]) -> Message:
    """Return intervals by group as a message."""
    return {"groups": list(ends), "ends": list(ends.values())}, []


def read_spread(
    message: Mapping[str, Any], _: Sequence[bytes]
) -> dict[int, list[tuple[float, float] | None]]:
    """Return received intervals. Raises ValueError and TypeError for what are none."""
    return {
        int(group): [None if pair is None else (float(pair[0]), float(pair[1])) for pair in ends]
        for group, ends in zip(message["groups"], message["ends"], strict=True)
    }
