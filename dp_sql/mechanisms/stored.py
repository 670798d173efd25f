"""Released values as bytes, and back, bit for bit: what the store of answers keeps."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from dp_sql.errors import InternalError
from dp_sql.mechanisms.distinct import DistinctValues
from dp_sql.mechanisms.measurement import Measurement
from dp_sql.mechanisms.release import Released
from dp_sql.plan.expression import IntervalValue

_MOST_BYTES = 32 * 2**20
"""What is written of a release at most: a longer text, which little may unpack to, is no release."""


def to_bytes(released: Sequence[Released]) -> bytes:
    """Return the keys and noisy integers of a release, one part a set of keys; not its noise."""
    parts = [
        {
            "keys": [[_value(value) for value in key] for key in part.keys],
            "vectors": [[_numbers(component) for component in v] for v in part.vectors],
            "chosen": [[_numbers(values) for values in ranks] for ranks in part.chosen],
            "distinct": [[_numbers(d.values), d.lattice, d.scale] for d in part.distinct],
        }
        for part in released
    ]
    return zlib.compress(json.dumps(parts, separators=(",", ":")).encode("ascii"), 1)


def from_bytes(stored: bytes, measurements: Sequence[Measurement]) -> list[Released]:
    """Return what `to_bytes` wrote of a release with that noise, one a set of keys.

    Raises ValueError for anything else, and whatever was written then is small in memory.
    """
    unpacked = zlib.decompressobj()
    try:
        text = unpacked.decompress(stored, _MOST_BYTES)
        if not unpacked.eof:
            raise ValueError("no stored release")
        parts = json.loads(text)
        found = [
            Released(
                [tuple([_restored(value) for value in key]) for key in part["keys"]],
                [[_array(component) for component in v] for v in part["vectors"]],
                measurement,
                [[_array(values) for values in ranks] for ranks in part["chosen"]],
                [DistinctValues(_array(values), *noise) for values, *noise in part["distinct"]],
            )
            for part, measurement in zip(parts, measurements, strict=True)
        ]
    except (zlib.error, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise ValueError("no stored release") from error
    if not all(map(_fits, found)):
        raise ValueError("a stored release of another measurement")
    return found


def _fits(released: Released) -> bool:
    """Return whether there is one number a group of everything that the measurement has."""
    made = released.measurement
    pairs = (
        (released.vectors, made.noises),
        (released.chosen, made.choosers),
        (released.distinct, made.counters),
    )
    numbers = [*chain(*released.vectors, *released.chosen), *(d.values for d in released.distinct)]
    shape = (len(released.keys),)
    return all(len(some) == len(of) for some, of in pairs) and all(
        n.shape == shape for n in numbers
    )


def _numbers(values: NDArray[Any]) -> list[object]:
    return ["object" if values.dtype == object else values.dtype.name, values.tolist()]


def _array(stored: Sequence[Any]) -> NDArray[Any]:
    name, values = stored
    if name not in ("int64", "object"):
        raise ValueError("noisy numbers are integers")
    return np.array(values, dtype=name)


def _value(value: object) -> object:
    """Return a key's value as JSON has it: a list of its type and its text where JSON has no such type."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return ["float", value.hex()]
        case Decimal():
            return ["decimal", str(value)]
        case datetime():  # before date, whose subclass it is
            return ["datetime", value.isoformat()]
        case date():
            return ["date", value.isoformat()]
        case time():
            return ["time", value.isoformat()]
        case timedelta(days=days, seconds=seconds, microseconds=microseconds):
            return ["timedelta", days, seconds, microseconds]
        case IntervalValue(months=months, days=days, microseconds=microseconds):
            return ["interval", months, days, microseconds]
        case UUID():
            return ["uuid", value.hex]
        case _:
            raise InternalError(f"a group key can't be a {type(value).__name__}")


def _restored(stored: Any) -> object:
    if not isinstance(stored, list):
        return stored
    kind, *content = stored
    return _TYPES[kind](*content)


_TYPES: dict[str, Any] = {
    "float": float.fromhex,
    "decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": timedelta,
    "interval": IntervalValue,
    "uuid": UUID,
}
