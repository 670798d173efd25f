"""What an engine and its worker say to each other: JSON, and arrays as bytes.

Claim:   reading a message runs no code that its sender chose.
Why:     JSON gives texts, numbers, lists and mappings; the few other values have a fixed constructor
         each; an array is copied from bytes as numbers of a listed type, never as objects.
Assumes: what is a pickle comes from the parent, and only a worker reads it.
Source:  [Python2025]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, BinaryIO
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from dp_sql.executor.database import Pairs, Row

_LENGTH = 8  # bytes of a length, big-endian
_SIZES = "sizes"
_FLOATS = "<f8"
_NUMBERS = frozenset("biufmM")  # numpy's kinds of plain numbers, dates among them
_PLAIN: frozenset[type] = frozenset({int, float, str, bool, type(None)})
_READERS: dict[str, Callable[[Any], object]] = {
    "$date": date.fromisoformat,
    "$timestamp": datetime.fromisoformat,
    "$time": time.fromisoformat,
    "$interval": lambda parts: timedelta(*parts),
    "$decimal": Decimal,
    "$uuid": UUID,
    "$bytes": bytes.fromhex,
    "$zoned": lambda moment: _zoned(*moment),
    "$list": list,
    "$tuple": tuple,
    "$map": dict,
}
SCALARS = _PLAIN | {date, datetime, time, timedelta, Decimal, UUID}
VALUES = SCALARS | {bytes, list, tuple, dict}
"""What a row may hold: of protected data, and of an analyst's own answer."""


def send(pipe: BinaryIO, message: Mapping[str, object], blobs: Sequence[bytes] = ()) -> None:
    """Write a message and what goes with it. Raises OSError where nobody reads."""
    whole = {**message, _SIZES: [len(blob) for blob in blobs]}
    send_bytes(pipe, json.dumps(whole, default=_written).encode())
    pipe.writelines(blobs)
    pipe.flush()


def send_bytes(pipe: BinaryIO, content: bytes) -> None:
    """Write bytes with their length before them."""
    pipe.write(len(content).to_bytes(_LENGTH, "big"))
    pipe.write(content)
    pipe.flush()


def size(message: Mapping[str, object], blobs: Sequence[bytes]) -> int:
    """Return how many bytes are sent."""
    return len(json.dumps(message, default=_written)) + sum(map(len, blobs))


def receive(pipe: BinaryIO, most: int) -> tuple[dict[str, Any], list[bytes]]:
    """Return a message and what goes with it.

    most: bytes that each part may have. Raises EOFError where the sender ended, ValueError for what
    is no message.
    """
    message = json.loads(receive_bytes(pipe, most), object_hook=_read)
    sizes = message.pop(_SIZES)
    return message, [_exactly(pipe, size, most) for size in sizes]


def receive_bytes(pipe: BinaryIO, most: int) -> bytes:
    """Return bytes that were sent with their length. Raises as `receive`."""
    return _exactly(pipe, int.from_bytes(_exactly(pipe, _LENGTH, _LENGTH), "big"), most)


def _exactly(pipe: BinaryIO, size: int, most: int) -> bytes:
    if not 0 <= size <= most:
        raise ValueError("a message of that size isn't taken")
    found = pipe.read(size)
    if len(found) < size:
        raise EOFError
    return found


def _written(value: object) -> dict[str, object]:
    """Return a value that JSON hasn't. Raises TypeError for one that has no place here."""
    match value:
        case datetime(tzinfo=ZoneInfo() as zone):
            return {"$zoned": [value.isoformat(), zone.key]}
        case datetime():
            return {"$timestamp": value.isoformat()}
        case date():
            return {"$date": value.isoformat()}
        case time():
            return {"$time": value.isoformat()}
        case timedelta():
            return {"$interval": [value.days, value.seconds, value.microseconds]}
        case Decimal():
            return {"$decimal": str(value)}
        case UUID():
            return {"$uuid": str(value)}
        case bytes():
            return {"$bytes": value.hex()}
        case _:
            raise TypeError(f"{type(value).__name__} isn't sent")


def _zoned(text: str, zone: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(ZoneInfo(zone))


def _nested(value: object) -> object:
    """Return a value with marks on what JSON would give back as something else."""
    match value:
        case list():
            return {"$list": [_nested(v) for v in value]}
        case tuple():
            return {"$tuple": [_nested(v) for v in value]}
        case dict():
            return {"$map": [[_nested(k), _nested(v)] for k, v in value.items()]}
        case _:
            return value


def _read(found: dict[str, Any]) -> object:
    if len(found) == 1:
        ((name, value),) = found.items()
        if name in _READERS:
            return _READERS[name](value)
    return found


def rows_message(rows: Sequence[Row]) -> tuple[dict[str, object], list[bytes]]:
    """Return rows as a message of columns and its arrays: integers of 64 bits, floats, all else as JSON."""
    listed: list[object] = []
    blobs: list[bytes] = []
    for column in zip(*rows, strict=True):
        kind, numbers = _numbers(column)
        listed.append([_nested(value) for value in column] if numbers is None else kind)
        blobs += [] if numbers is None else [numbers]
    return {"count": len(rows), "columns": listed}, blobs


def _numbers(column: Sequence[object]) -> tuple[str | None, bytes | None]:
    """Return how a column of numbers is listed, and its bytes; None where it is none."""
    kinds = set(map(type, column))
    if kinds == {float}:
        return _FLOATS, np.array(column, _FLOATS).tobytes()
    try:
        return None, np.array(column, "<i8").tobytes() if kinds == {int} else None
    except OverflowError:  # a HUGEINT
        return None, None


def read_rows(
    message: Mapping[str, Any], blobs: Sequence[bytes], kinds: frozenset[type] = SCALARS
) -> list[Row]:
    """Return received rows. Raises ValueError for columns that aren't, or hold other kinds of values."""
    waiting = iter(blobs)
    columns: list[list[object]] = []
    for column in message["columns"]:
        if column is None or column == _FLOATS:
            columns.append(np.frombuffer(next(waiting, b"-"), column or "<i8").tolist())
            continue
        if not set(map(type, column)) <= kinds:
            raise ValueError("a value of no known type")
        columns.append(column)
    if any(len(column) != message["count"] for column in columns):
        raise ValueError("columns of other lengths")
    return list(zip(*columns, strict=True))


def pairs_message(pairs: Pairs) -> tuple[dict[str, object], list[bytes]]:
    """Return pairs as a message and its arrays."""
    keys, blobs = rows_message(pairs.keys)
    arrays = [np.asarray(a, "<u8").tobytes() for a in (pairs.units, pairs.values)]
    return {"keys": keys, "ends": pairs.ends}, [*arrays, *blobs]


def read_pairs(message: Mapping[str, Any], blobs: Sequence[bytes]) -> Pairs:
    """Return received pairs. Raises ValueError where they don't fit together."""
    units, values = (np.frombuffer(blob, "<u8").astype(np.uint64, copy=False) for blob in blobs[:2])
    ends = [int(end) for end in message["ends"]]
    keys = read_rows(message["keys"], blobs[2:]) or [()] * len(
        ends
    )  # without keys there is one group
    if not len(units) == len(values) == (ends[-1] if ends else 0) or len(keys) != len(ends):
        raise ValueError("pairs that don't fit together")
    return Pairs(keys, ends, units, values)


def arrays_message(
    columns: Mapping[str, NDArray[Any]],
) -> tuple[dict[str, object], list[bytes]]:
    """Return columns as a message and its arrays: numbers with their mask, all else as texts."""
    listed: list[dict[str, object]] = []
    blobs: list[bytes] = []
    for name, column in columns.items():
        mask = np.ma.getmaskarray(column)
        if column.dtype.kind in _NUMBERS:
            listed.append({"name": name, "type": column.dtype.str})
            blobs += [np.ma.getdata(column).tobytes(), mask.tobytes()]
        else:
            values = zip(np.ma.getdata(column).tolist(), mask.tolist(), strict=True)
            texts = [None if gone or value is None else str(value) for value, gone in values]
            listed.append({"name": name, "texts": texts})
    return {"columns": listed}, blobs


def read_arrays(message: Mapping[str, Any], blobs: Sequence[bytes]) -> dict[str, NDArray[Any]]:
    """Return received columns. Raises ValueError for a type that isn't plain numbers."""
    columns: dict[str, NDArray[Any]] = {}
    waiting = iter(blobs)
    for column in message["columns"]:
        if "texts" in column:
            values = np.empty(len(column["texts"]), dtype=object)
            values[:] = column["texts"]
            columns[str(column["name"])] = values
            continue
        kind = np.dtype(str(column["type"]))
        if kind.kind not in _NUMBERS:
            raise ValueError("an array of no plain numbers")
        numbers, mask = np.frombuffer(next(waiting), kind), np.frombuffer(next(waiting), np.bool_)
        columns[str(column["name"])] = np.ma.MaskedArray(numbers, mask) if mask.any() else numbers
    return columns
