"""Calls of the function table over extreme values, compared with what plain DuckDB gives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import pytest
from extremes import extreme_values

from dp_sql.executor.lower_expression import canonical, lower, text_literal
from dp_sql.plan import functions
from dp_sql.plan.expression import Column, Expression, IntervalValue, Literal, LiteralValue, Ref
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind, SqlType

FLOAT = SqlType(Kind.FLOAT)
TINYINT, UTINYINT, UBIGINT = (SqlType(k) for k in (Kind.TINYINT, Kind.UTINYINT, Kind.UBIGINT))
UINTEGER, TIME, UUID = (SqlType(k) for k in (Kind.UINTEGER, Kind.TIME, Kind.UUID))
SMALL, MONEY, WIDE, WHOLE = (
    SqlType(Kind.DECIMAL, p, s) for p, s in ((5, 2), (18, 3), (38, 10), (38, 0))
)
INTEGERS = [
    TINYINT,
    sqltype.INTEGER,
    sqltype.BIGINT,
    sqltype.HUGEINT,
    UTINYINT,
    UINTEGER,
    UBIGINT,
]
DECIMALS = [SMALL, MONEY, WIDE, WHOLE]
FLOATS = [FLOAT, sqltype.DOUBLE]
NUMBERS = [*INTEGERS, *DECIMALS, *FLOATS]
DATED = [sqltype.DATE, sqltype.TIMESTAMP]


Argument = SqlType | LiteralValue  # a column of a type, or a constant


@dataclass(frozen=True)
class Trial:
    """A call of the table and what plain DuckDB calls it: `{0}` stands for the first argument.

    lost: the plain text of a condition under which the lowering may give NULL all the same.
    """

    name: str
    args: tuple[Argument, ...]
    plain: str
    lost: str = "false"

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.args))})"


def _constant(value: LiteralValue) -> Literal:
    types = {bool: sqltype.BOOLEAN, int: sqltype.INTEGER, str: sqltype.VARCHAR}
    others = {float: sqltype.DOUBLE, IntervalValue: sqltype.INTERVAL, type(None): sqltype.NULL}
    return Literal(value, (types | others)[type(value)])


def _plain_constant(value: LiteralValue) -> str:
    if isinstance(value, IntervalValue):
        micros = f"to_microseconds({value.microseconds})"
        return f"(to_months({value.months}) + to_days({value.days}) + {micros})"
    if isinstance(value, str):
        return text_literal(value)
    return "NULL" if value is None else str(value).lower()


def expression_of(trial: Trial) -> Expression:
    args = tuple(
        Ref(Column(i, f"c{i}", a)) if isinstance(a, SqlType) else _constant(a)
        for i, a in enumerate(trial.args)
    )
    if trial.name == "cast":
        return functions.cast(args[0], args[1].type)
    return functions.call(trial.name, args)


def rows_of(args: tuple[Argument, ...], most: int | None = None) -> str:
    """Return a table of every combination of values, one column an argument that is one.

    most: values of each column, None for all.
    """
    parts = []
    for i, a in enumerate(args):
        if not isinstance(a, SqlType):
            continue
        listed = ", ".join(f"({_plain_constant(v)})" for v in extreme_values(a)[:most])
        cast = canonical(f"CAST(v AS {a})", a)
        parts.append(
            f"(SELECT {cast} AS c{i} FROM (VALUES {listed}) AS t(v)"
            f" UNION ALL SELECT CAST(NULL AS {a}))"
        )
    if not parts:
        return "(SELECT 1 AS n)"
    return f"(SELECT row_number() OVER () AS n, * FROM {', '.join(parts)})"


def _shown(text: str, type_: SqlType) -> str:
    """Return what is compared: dates as texts, which Python can hold for every year."""
    dated = type_.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIME, Kind.INTERVAL, Kind.UUID)
    return f"CAST({text} AS VARCHAR)" if dated else text


def _fine(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value


def check(con: duckdb.DuckDBPyConnection, args: tuple[Argument, ...], trials: list[Trial]) -> None:
    """Run calls over the same columns: ours must not raise, and be DuckDB's where DuckDB doesn't."""
    columns = [
        f"c{i}" if isinstance(a, SqlType) else _plain_constant(a) for i, a in enumerate(args)
    ]
    con.execute(f"CREATE OR REPLACE TEMP TABLE rows_ AS {rows_of(args)}")
    expressions = [expression_of(trial) for trial in trials]
    ours = [lower(e, lambda c: f"c{c.number}") for e in expressions]
    plain = [trial.plain.format(*columns) for trial in trials]
    items, others = [], []
    for trial, expression, text, theirs in zip(trials, expressions, ours, plain, strict=True):
        items += [_shown(text, expression.type), f"typeof({text})"]
        lost = f"coalesce({trial.lost.format(*columns)}, false)"
        others += [_shown(f"TRY({theirs})", expression.type), lost]
    mine = con.execute(f"SELECT {', '.join(items)} FROM rows_ ORDER BY n").fetchall()
    found = con.execute(f"SELECT n, {', '.join(others)} FROM rows_ ORDER BY n").fetchall()
    for row, (n, *expected) in zip(mine, found, strict=True):
        for i, trial in enumerate(trials):
            value, type_ = row[2 * i : 2 * i + 2]
            assert type_ == str(expressions[i].type), (trial, ours[i])
            if isinstance(value, float):
                assert not math.isnan(value), (trial, n, ours[i])
                assert math.copysign(1, value) > 0 or value != 0, (trial, n, ours[i])
            wanted, lost = expected[2 * i : 2 * i + 2]
            if value == _fine(wanted) or (value is None and lost):
                continue
            operands = con.execute(f"SELECT * FROM rows_ WHERE n = {n}").fetchall()
            assert wanted is None, (trial, operands, value, wanted, ours[i])
            with pytest.raises(duckdb.Error):  # plain DuckDB raises where only we have a value
                con.execute(f"SELECT {plain[i]} FROM rows_ WHERE n = {n}").fetchall()


FAR = "{0} NOT BETWEEN '0001-01-01' AND '9999-12-31 23:59:59.999999'"
FAR_SECOND = FAR.replace("{0}", "{1}")
FAR_THIRD = FAR.replace("{0}", "{2}")


def together(trials: Iterator[Trial]) -> dict[tuple[Argument, ...], list[Trial]]:
    """Return the calls by their arguments; 1 and true are kept apart."""
    found: dict[Any, list[Trial]] = {}
    for trial in trials:
        columns = (
            trial.args if all(isinstance(a, SqlType) for a in trial.args) else repr(trial.args)
        )
        found.setdefault(columns, []).append(trial)
    return {listed[0].args: listed for listed in found.values()}
