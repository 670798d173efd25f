"""The rows of functions that make an interval of a whole number, which may be a column.

An interval of a constant is a constant (`parser.constants`). A column's is limited, so that no date
or timestamp of the years 1 to 9999 leaves DuckDB's calendar when it is moved by it; NULL beyond.
"""

from __future__ import annotations

from dp_sql.plan.arguments import fixed, typed_nulls, whole_numbers
from dp_sql.plan.domain import UNKNOWN
from dp_sql.plan.functions_calendar import MOVES
from dp_sql.plan.signature import Args, Function, arity
from dp_sql.plan.sql_text import once
from dp_sql.schema.sqltype import BIGINT, INTERVAL, SqlType


def _move(name: str, most: int) -> Function:
    """Return the function that makes an interval of at most `most` units.

    Claim:   it raises for no number, nor does a date of the years 1 to 9999 that is moved by it.
    Why:     `most` units are about 27,000 years; DuckDB's dates and timestamps reach past 290,000.
    Assumes: DuckDB's CASE evaluates a branch on the rows of its condition only (tested).
    Source:  [DuckDB2025]
    """

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1)
        whole_numbers(name, args)
        return typed_nulls(args, BIGINT), INTERVAL

    def text(texts: tuple[str, ...], _call: object) -> str:
        return once(
            texts[0],
            lambda x: (
                f"(CASE WHEN {x} BETWEEN -{most} AND {most} THEN {name}(TRY_CAST({x} AS BIGINT)) END)"
            ),
        )

    return Function(name, typing, fixed(UNKNOWN), text)


ROWS = tuple(_move(name, most) for name, most in MOVES.items())
