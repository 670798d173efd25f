"""Values in the places of `?`: they become literals of the text before anything reads it.

The ledger and EXPLAIN then show the statement that was asked, and what is a constant of the text stays
one. Only the tokens `?` are replaced, so a question mark in a string or a name stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from dp_sql.errors import ParameterError

_HINT = "a number, a text, a boolean, a date, a time, a timestamp or None"


def with_values(text: str, values: Sequence[object]) -> str:
    """Return the statement with a literal in the place of each `?`.

    Raises ParameterError where there are more or fewer places than values, and for a value that has
    no literal: bytes, NaN, infinities, times with a zone.
    """
    try:
        tokens = DuckDB().tokenize(text)
    except TokenError:
        return text  # the parser says what is wrong with it
    places = [token.start for token in tokens if token.token_type == TokenType.PLACEHOLDER]
    if len(places) != len(values):
        raise ParameterError(
            f"the statement has {len(places)} places for values (?), and {len(values)} were given.",
            hint="one value for each ?",
        )
    parts, after = [], 0
    for place, value in zip(places, values, strict=True):
        parts += [text[after:place], _literal(value)]
        after = place + 1
    return "".join([*parts, text[after:]])


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return f"({value})" if value < 0 else str(value)
        case float() if math.isfinite(value):
            digits = repr(value) if "e" in repr(value) else f"{value!r}e0"  # else it were a DECIMAL
            return f"({digits})" if value < 0 else digits
        case Decimal() if value.is_finite():
            return f"({value:f})" if value < 0 else f"{value:f}"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime() if value.tzinfo is None:
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case date() if not isinstance(value, datetime):
            return f"DATE '{value.isoformat()}'"
        case time() if value.tzinfo is None:
            return f"TIME '{value.isoformat()}'"
        case _:
            kind = type(value).__name__
            raise ParameterError(f"a value of type {kind} can't stand for a ?.", hint=_HINT)
