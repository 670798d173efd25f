"""Numbers of a schema file as pydantic types: read exactly, each within its range."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from dp_sql.errors import ParameterError
from dp_sql.privacy.amount import parse_delta, parse_epsilon
from dp_sql.schema.document import describe

MAX_AMOUNT = Fraction(10**100)  # floats in results hold it
MAX_RADIUS = 20_037_508
MIN_MEMORY, MAX_MEMORY = 2**28, 2**40  # bytes of a worker
MIN_SECONDS, MAX_SECONDS = 0.1, 86_400
MIN_EPSILON = Fraction(1, 10**12)  # the ledger's units
MIN_DELTA = Fraction(1, 10**24)
_MEMORY = re.compile(r"^([0-9]{1,7}) ?(MB|GB)$")


def wrong(message: str) -> PydanticCustomError:
    """Return the error of a value that must be something else; the message follows its name."""
    return PydanticCustomError("wrong_value", "{message}", {"message": message})


def _amount(value: object, parse: Callable[[int | Decimal], Fraction], least: Fraction) -> Fraction:
    """Return an exact epsilon or delta from a YAML number: 0, or from `least` to `MAX_AMOUNT`."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise wrong(f"must be a number, not {describe(value)}")
    try:
        amount = parse(value)
    except ParameterError as error:
        raise wrong(error.message.removeprefix("it ").removesuffix(".")) from None
    if amount > MAX_AMOUNT or 0 < amount < least:
        raise wrong(
            f"must be at most {float(MAX_AMOUNT):g}, and not so small that a ledger can't hold it "
            f"(at least {float(least):g})"
        )
    return amount


def _epsilon(value: object) -> Fraction:
    return _amount(value, lambda number: parse_epsilon(number, name="it"), MIN_EPSILON)


def _delta(value: object) -> Fraction:
    return _amount(value, lambda number: parse_delta(number, name="it"), MIN_DELTA)


def _radius(value: object) -> Fraction:
    """Return metres above 0, at most half of the way round the earth."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise wrong(f"must be a number of metres, not {describe(value)}")
    if not Decimal(value).is_finite() or not 0 < value <= MAX_RADIUS:
        raise wrong(f"must be above 0 and at most {MAX_RADIUS:,} metres, half of the way round")
    return Fraction(value)


def _memory(value: object) -> int:
    """Return a number of bytes."""
    found = _MEMORY.match(value) if isinstance(value, str) else None
    bytes_ = int(found[1]) * 2 ** (20 if found[2] == "MB" else 30) if found else 0
    if not MIN_MEMORY <= bytes_ <= MAX_MEMORY:
        raise wrong(
            f"must be a memory size such as 500MB or 2GB, from 256MB to 1024GB, not {describe(value)}"
        )
    return bytes_


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise wrong(f"must be a number of seconds, not {describe(value)}")
    if not Decimal(value).is_finite() or not MIN_SECONDS <= value <= MAX_SECONDS:
        raise wrong(f"must be from {MIN_SECONDS} to {MAX_SECONDS:,} seconds")
    return float(value)


Epsilon = Annotated[
    Fraction,
    PlainValidator(_epsilon),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0}),
]
Delta = Annotated[
    Fraction,
    PlainValidator(_delta),
    WithJsonSchema({"type": "number", "minimum": 0, "exclusiveMaximum": 1}),
]
Radius = Annotated[
    Fraction,
    PlainValidator(_radius),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0}),
]
Memory = Annotated[
    int, PlainValidator(_memory), WithJsonSchema({"type": "string", "pattern": _MEMORY.pattern})
]
Seconds = Annotated[
    float,
    PlainValidator(_seconds),
    WithJsonSchema({"type": "number", "minimum": MIN_SECONDS, "maximum": MAX_SECONDS}),
]
