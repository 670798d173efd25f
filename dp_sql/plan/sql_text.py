"""DuckDB text of constants, casts and guards: the pieces that the meaning of a function is made of.

Every text here is closed (in parentheses or a call), so that it can stand anywhere in another one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import assert_never

from dp_sql.plan.expression import IntervalValue, LiteralValue
from dp_sql.schema.sqltype import DOUBLE, Kind, SqlType

LONGEST_COPY = 200  # characters of a text that may be written twice
_NAME = "dp_value_"  # begins names that `once` binds; columns of lowered statements never do


def identifier(name: str) -> str:
    """Return a name in quotes. Raises ValueError for one that no SQL text can hold."""
    if "\0" in name or not name:
        raise ValueError("a name is not empty and holds no NUL")
    return '"' + name.replace('"', '""') + '"'


def literal(value: LiteralValue, type_: SqlType) -> str:
    """Return a constant of exactly this type and value; floats come back bit by bit.

    Raises:
        ValueError: for a value that isn't one of the type's.
    """
    if value is None:
        return "NULL" if type_.kind is Kind.NULL else f"CAST(NULL AS {type_})"
    if type_.kind is Kind.UUID:  # Python has a type of its own for these
        return f"CAST({text_literal(str(value))} AS UUID)"
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return f"CAST('{value}' AS {type_})"
        case float():
            if type_.kind is Kind.FLOAT:
                return f"CAST({literal(value, DOUBLE)} AS FLOAT)"
            return f"CAST('{value + 0.0!r}' AS {type_})"  # never -0.0
        case Decimal():
            return f"CAST('{value:f}' AS {type_})"
        case str():
            return (
                text_literal(value)
                if type_.kind is Kind.VARCHAR
                else f"CAST({text_literal(value)} AS {type_})"
            )
        case datetime():  # before date, of which it is a kind
            if value.tzinfo is not None:
                raise ValueError("a TIMESTAMP has no time zone")
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case time():
            return f"TIME '{value.isoformat()}'"
        case IntervalValue(months=months, days=days, microseconds=microseconds):
            return f"(to_months({months}) + to_days({days}) + to_microseconds({microseconds}))"
        case _:
            assert_never(value)


def text_literal(value: str) -> str:
    """Return a text in quotes."""
    parts = ["'" + part.replace("'", "''") + "'" for part in value.split("\0")]
    return parts[0] if len(parts) == 1 else "(" + " || chr(0) || ".join(parts) + ")"


def parquet_rows(file: str) -> str:
    """Return what stands in FROM for a Parquet file. file: its path.

    Claim:   its columns are what the file holds.
    Why:     names of folders like u=7 would stand in their place, unless hive_partitioning is false.
    Assumes: no character of the path is a sign of a pattern (`sources.read_as_written`).
    Source:  [DuckDB2025]
    """
    return f"read_parquet({text_literal(file)}, hive_partitioning = false)"


def once(text: str, body: Callable[[str], str]) -> str:
    """Return `body` of a text that it may mention several times, evaluated and written once.

    A short text is simply repeated, which DuckDB computes once. A long one is bound by a lambda
    over a list of one element: repeated, nested expressions would double at every level.
    """
    if len(text) <= LONGEST_COPY:
        return body(text)
    inside = body("")
    name = next(n for i in itertools.count() if (n := f"{_NAME}{i}_") not in inside)
    return f"list_transform([{text}], lambda {name}: {body(name)})[1]"


def canonical(text: str, type_: SqlType) -> str:
    """Return a text of the same value in its one representation: NaN is NULL, -0.0 is 0.0.

    Types that have one representation of each value come back as they are.
    """
    if not type_.is_float:
        return text
    zero = literal(0.0, type_)
    return once(text, lambda x: f"(CASE WHEN isnan({x}) THEN NULL ELSE {x} + {zero} END)")


def positive_zero(text: str, type_: SqlType) -> str:
    """Return a float that is never NaN with -0.0 made 0.0."""
    return f"({text} + {literal(0.0, type_)})"


def cast_text(text: str, source: SqlType, target: SqlType) -> str:
    """Return the value as another type, NULL where it has none there, canonical if it was."""
    if source == target:
        return text
    cast = f"TRY_CAST({text} AS {target})"
    if target.is_float and source.kind is Kind.VARCHAR:
        return canonical(cast, target)
    if target.kind is Kind.FLOAT and source.kind is Kind.DOUBLE:
        return positive_zero(cast, target)  # a tiny negative DOUBLE is -0.0 as a FLOAT
    return cast
