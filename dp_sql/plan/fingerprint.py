"""The canonical text of a planned release and its noise, and the digest of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any
from uuid import UUID

from dp_sql.errors import InternalError
from dp_sql.plan.distinct import Distinct
from dp_sql.plan.expression import Column
from dp_sql.plan.facts import HistogramFacts
from dp_sql.plan.relation import BoundGroups, DropKeys, Sample
from dp_sql.plan.release import Aggregate, Key, Options, Release, StageTable
from dp_sql.plan.rows import Scan, StageScan
from dp_sql.plan.sampled import Sampled
from dp_sql.privacy.unit import PrivacyUnit

LEFT_OUT: Mapping[type, frozenset[str]] = {
    # names that say nothing: what they stand for is known by its place
    Column: frozenset({"name"}),
    Key: frozenset({"name"}),
    Aggregate: frozenset({"name"}),
    DropKeys: frozenset({"stage"}),
    PrivacyUnit: frozenset({"name"}),
    # computed from what is released
    Release: frozenset({"name", "intervals"}),
    # how the amounts were asked for; what they came to is in the noise and in its cost
    Options: frozenset({"epsilon", "delta", "accuracy"}),
    # secret, and drawn anew for each release; every key gives the same law
    BoundGroups: frozenset({"hash_key"}),
    Distinct: frozenset({"hash_key"}),
    Sampled: frozenset({"hash_key"}),
    Sample: frozenset({"key"}),
    # sentences for EXPLAIN
    HistogramFacts: frozenset({"rule"}),
}
"""The fields that a canonical text leaves out, beside those that equality leaves out."""


class CanonicalText:
    """Collects values into one text, which is the same for the same values alone.

    Claim:   two releases have the same text iff they differ in nothing but `LEFT_OUT`, in what
             their equality leaves out, and in how their columns and stages are numbered.
    Why:     each value is written as its type and its content, the length or the number of parts
             first, so no text is a beginning of another and the whole can be read back. The number
             of a column, and the name of a stage, is written as its place in the order of first use,
             which a renaming doesn't change. In place of a stage its rows are written, sorted.
    Assumes: nothing that is released depends on what is left out (`LEFT_OUT` says why). A mistake here
             gives a wrong or a dearer answer, never one that isn't paid: whatever is found is an
             output that was charged.
    Source:  [Dwork2006]
    """

    def __init__(self, stages: Sequence[StageTable] = ()) -> None:
        """Begin an empty text. stages: the rows of every stage that is read."""
        self._stages = {table.stage.name: table for table in stages}
        self._numbers: dict[int, int] = {}
        self._places: dict[str, int] = {}
        self._out: list[str] = []
        self.public_tables: set[str] = set()
        """The public tables that what was added so far reads."""

    def add(self, *values: object) -> None:
        """Append values: frozen dataclasses of the plan, and what they are made of.

        Raises InternalError for a type that no plan holds.
        """
        out, waiting = self._out, list(reversed(values))
        while waiting:
            value = waiting.pop()
            kind = type(value)
            atom = _ATOMS.get(kind)
            if atom is not None:
                out.append(atom(value))
            elif kind is tuple or kind is list:
                parts: Sequence[object] = value  # type: ignore[assignment]
                out.append(f"({len(parts)}:")
                waiting.extend(reversed(parts))
            elif isinstance(value, Column):
                self._column(value, waiting)
            elif kind is frozenset:
                texts = tuple(sorted(map(_alone, value)))  # type: ignore[call-overload]
                waiting.append(texts)
            elif isinstance(value, Enum):
                out.append(f"e{_text(f'{kind.__qualname__}.{value.name}')}")
            elif is_dataclass(value):
                self._value(value, waiting)
            else:
                raise InternalError(f"no plan holds a {kind.__name__}")

    def digest(self) -> str:
        """Return the SHA-256 of the text so far, as 64 hexadecimal digits."""
        return hashlib.sha256("".join(self._out).encode("utf-8", "surrogatepass")).hexdigest()

    def _column(self, column: Column, waiting: list[object]) -> None:
        number = self._numbers.setdefault(column.number, len(self._numbers))
        self._out.append(f"c{number};")
        waiting.extend((column.nullable, column.type))

    def _value(self, value: object, waiting: list[object]) -> None:
        kind = type(value)
        names = _FIELDS.get(kind)
        if names is None:
            names = _FIELDS[kind] = _fields(kind)
        self._out.append(f"<{_text(f'{kind.__module__}.{kind.__qualname__}')}")
        parts = [getattr(value, name) for name in names]
        if isinstance(value, StageScan):
            parts[names.index("name")] = self._stage(value.name)
        elif isinstance(value, Scan) and value.public:
            self.public_tables.add(value.table)
        waiting.extend(reversed(parts))

    def _stage(self, name: str) -> tuple[object, ...]:
        """Return what stands for a stage: its place, and where it is new its rows."""
        if name in self._places:
            return (self._places[name],)
        place = self._places[name] = len(self._places)
        if name not in self._stages:
            raise InternalError("a stage that is read before its rows are known")
        table = self._stages[name]
        rows = sorted(table.rows, key=lambda row: [(text is None, text or "") for text in row])
        types = tuple(column.type for column in table.stage.columns)
        return (place, types, table.stage.unique, tuple(rows))


_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields(kind: type) -> tuple[str, ...]:
    left_out = LEFT_OUT.get(kind, frozenset())
    return tuple(f.name for f in fields(kind) if f.compare and f.name not in left_out)


def _alone(value: object) -> str:
    """Return the text of an element of a set."""
    text = CanonicalText()
    text.add(value)
    return text.digest()


def _text(value: str) -> str:
    return f"{len(value)}:{value}"


_ATOMS: Mapping[type, Callable[[Any], str]] = {
    type(None): lambda _: "n",
    bool: lambda value: "1" if value else "0",
    int: lambda value: f"i{value};",
    str: lambda value: f"s{_text(value)}",
    float: lambda value: f"f{value.hex()};",
    Fraction: lambda value: f"q{value};",
    Decimal: lambda value: f"d{value};",
    date: lambda value: f"D{value.isoformat()};",
    datetime: lambda value: f"T{value.isoformat()};",
    time: lambda value: f"t{value.isoformat()};",
    timedelta: lambda value: f"l{value.days},{value.seconds},{value.microseconds};",
    UUID: lambda value: f"u{value.hex};",
}
