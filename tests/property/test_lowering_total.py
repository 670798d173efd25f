"""Every function of the table, over extreme values of every type: total, canonical, DuckDB's values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import pytest
from extremes import extreme_values

from dp_sql.executor.lower_expression import canonical, lower
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


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect()
    for setting in ("error_on_division_by_zero = false", "ieee_floating_point_ops = true"):
        con.execute(f"SET {setting}")
    yield con
    con.close()


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
        return f"(to_months({value.months}) + to_days({value.days}))"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else str(value).lower()


def expression_of(trial: Trial) -> Expression:
    args = tuple(
        Ref(Column(i, f"c{i}", a)) if isinstance(a, SqlType) else _constant(a)
        for i, a in enumerate(trial.args)
    )
    if trial.name == "cast":
        return functions.cast(args[0], args[1].type)
    return functions.call(trial.name, args)


def _rows(args: tuple[Argument, ...]) -> str:
    """Return a table of every combination of values, one column an argument that is one."""
    parts = []
    for i, a in enumerate(args):
        if not isinstance(a, SqlType):
            continue
        listed = ", ".join(f"({_plain_constant(v)})" for v in extreme_values(a))
        cast = canonical(f"CAST(v AS {a})", a)
        parts.append(
            f"(SELECT {cast} AS c{i} FROM (VALUES {listed}) AS t(v)"
            f" UNION ALL SELECT CAST(NULL AS {a}))"
        )
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
    con.execute(f"CREATE OR REPLACE TEMP TABLE rows_ AS {_rows(args)}")
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


def arithmetic() -> Iterator[Trial]:
    # the guards of the widest types give up a little below their ends
    beyond = "abs({0}::DOUBLE) > 1e38 OR abs({1}::DOUBLE) > 1e38"
    edge = {}
    for name in ("+", "-", "*"):
        result = f"abs({{0}}::DOUBLE {name} {{1}}::DOUBLE)"
        digits = f"log10(greatest({result}, 1))"
        edge[name] = f"({result} > 1e17 AND abs({digits} - round({digits})) < 1e-4)"
        edge[name] += f" OR {result} > 1.7014e38 OR {beyond}"
    edge["%"] = beyond  # a HUGEINT that is no DECIMAL(38,0)
    for left, right in itertools.product(NUMBERS, NUMBERS):
        for name in ("+", "-", "*", "/", "//", "%"):
            lost = edge.get(name, "false")
            yield Trial(name, (left, right), f"({{0}} {name} {{1}})", lost)
    for type_ in NUMBERS:
        yield Trial("negate", (type_,), "(-{0})")
        for constant in (0, 3, -1, 0.5, None):
            for name in ("+", "-", "*", "/", "//", "%"):
                constant_text = "{1}::DOUBLE" if isinstance(constant, float) else "{1}"
                plain = f"({{0}} {name} {constant_text})"
                yield Trial(name, (type_, constant), plain, edge.get(name, "false"))


def numeric() -> Iterator[Trial]:
    for type_ in NUMBERS:
        for name in ("abs", "sign", "round", "floor", "ceil", "ceiling", "trunc", "sqrt", "exp"):
            yield Trial(name, (type_,), f"{name}({{0}})")
        for name in ("ln", "log", "log10", "log2"):
            yield Trial(name, (type_,), f"{name}({{0}})")
        for places in (0, 1, 2, -1, -2, -18, -38, -39, 11, 300, -300):
            edge = "abs({0}::DOUBLE) > 0.6e38" if type_ in (sqltype.HUGEINT, WHOLE) else "false"
            if type_ is WIDE:
                edge = "abs({0}::DOUBLE) > 0.6e28"
            yield Trial("round", (type_, places), "round({0}, {1})", edge)
        for name in ("power", "pow"):
            yield Trial(name, (type_, sqltype.DOUBLE), f"{name}({{0}}, {{1}})")
            yield Trial(name, (type_, 2), f"{name}({{0}}, {{1}})")
            yield Trial(name, (type_, -0.5), f"{name}({{0}}, {{1}})")


def _comparable() -> Iterator[tuple[SqlType, SqlType]]:
    yield from itertools.product(NUMBERS, NUMBERS)
    yield from itertools.product(DATED, DATED)
    for other in (sqltype.VARCHAR, TIME, UUID, sqltype.INTERVAL, sqltype.BOOLEAN):
        yield other, other
    yield sqltype.BOOLEAN, sqltype.INTEGER


OPERATORS = ("=", "<>", "<", "<=", ">", ">=")


def logic() -> Iterator[Trial]:
    for first, second in _comparable():
        for name in OPERATORS:
            yield Trial(name, (first, second), f"({{0}} {name} {{1}})")
        yield Trial("is_distinct_from", (first, second), "({0} IS DISTINCT FROM {1})")
        yield Trial("is_not_distinct_from", (first, second), "({0} IS NOT DISTINCT FROM {1})")
        for name in ("coalesce", "ifnull", "least", "greatest"):
            yield Trial(name, (first, second), f"{name}({{0}}, {{1}})")
        yield Trial("nullif", (first, second), "nullif({0}, {1})")
    for type_ in (*NUMBERS, *DATED, sqltype.VARCHAR, sqltype.BOOLEAN, TIME, UUID, sqltype.INTERVAL):
        yield Trial("is_null", (type_,), "({0} IS NULL)")
        yield Trial("is_not_null", (type_,), "({0} IS NOT NULL)")
        yield Trial("if", (sqltype.BOOLEAN, type_, None), "if({0}, {1}, {2})")
    for type_ in NUMBERS:
        yield Trial("between", (type_, 0, 5), "({0} BETWEEN {1} AND {2})")
        yield Trial("in", (type_, 0, None, 5), "({0} IN ({1}, {2}, {3}))")
        yield Trial(
            "clamp",
            (type_, -1, 7),
            "CASE WHEN {0} < {1} THEN {1} WHEN {0} > {2} THEN {2} ELSE {0} END",
        )
        yield Trial("nullif", (type_, 0), "nullif({0}, {1})")
    for type_ in DATED:
        day = "2020-02-29"
        for name in OPERATORS:
            yield Trial(name, (type_, day), f"({{0}} {name} {{1}})")
        yield Trial("between", (type_, day, "2024-12-31"), "({0} BETWEEN {1} AND {2})")
        yield Trial("in", (type_, day, "1970-01-01"), "({0} IN ({1}, {2}))")
    both = (sqltype.BOOLEAN, sqltype.BOOLEAN)
    yield Trial("and", both, "({0} AND {1})")
    yield Trial("or", both, "({0} OR {1})")
    yield Trial("not", (sqltype.BOOLEAN,), "(NOT {0})")


def texts() -> Iterator[Trial]:
    text = sqltype.VARCHAR
    for name in ("lower", "upper", "trim", "ltrim", "rtrim", "length"):
        yield Trial(name, (text,), f"{name}({{0}})")
    for name in ("trim", "ltrim", "rtrim"):
        yield Trial(name, (text, "ax"), f"{name}({{0}}, {{1}})")
    for name, start in itertools.product(("substring", "substr"), (0, 1, 2, -2, 2**31 - 1)):
        yield Trial(name, (text, start), f"{name}({{0}}, {{1}})")
        for count in (0, 1, -1, 2**31 - 1):
            yield Trial(name, (text, start, count), f"{name}({{0}}, {{1}}, {{2}})")
    for name, count in itertools.product(("left", "right"), (0, 1, -1, 3, -(2**31) + 1)):
        yield Trial(name, (text, count), f"{name}({{0}}, {{1}})")
    for name in ("starts_with", "ends_with", "contains"):
        yield Trial(name, (text, text), f"{name}({{0}}, {{1}})")
    for pattern in ("", "%", "a%", "%a_%", "\\%", "É%", "_", None):
        yield Trial("like", (text, pattern), "({0} LIKE {1})")
        yield Trial("ilike", (text, pattern), "({0} ILIKE {1})")
    long = "coalesce(strlen({0}), 0) + coalesce(strlen({1}), 0) > 10000"
    yield Trial("||", (text, text), "({0} || {1})", long)
    yield Trial("concat", (text, text), "concat({0}, {1})", long)
    for type_ in (sqltype.DOUBLE, MONEY, sqltype.DATE, sqltype.BOOLEAN, TIME):
        yield Trial("||", (type_, "-"), "({0} || {1})")
        yield Trial("concat", ("-", type_), "concat({0}, {1})")
    for old, new in (("", "y"), ("a", ""), ("x", "yyy"), ("É", "e")):
        yield Trial("replace", (text, old, new), "replace({0}, {1}, {2})", "strlen({0}) > 3000")


PARTS = [name for name in functions.FUNCTIONS if name.endswith(("day", "dow", "year"))]
PARTS = [name for name in PARTS if name != "last_day"]
FINE = ["hour", "minute", "second", "millisecond", "microsecond", "epoch"]
PARTS += ["isodow", "quarter", "month", "week", "weekofyear", "dayofweek", "dayofmonth", "decade"]
PARTS = sorted({*PARTS, "century", "yearweek", "weekday", *FINE})
UNITS = (
    "microsecond millisecond second minute hour day week month quarter year decade century".split()
)


def times() -> Iterator[Trial]:
    for type_ in DATED:
        for name in PARTS:
            yield Trial(name, (type_,), f"{name}({{0}})")
            yield Trial("date_part", (name, type_), "date_part({0}, {1})")
        for unit in UNITS:
            yield Trial("date_trunc", (unit, type_), "date_trunc({0}, {1})", FAR_SECOND)
        for other, unit in itertools.product(DATED, UNITS):
            lost = f"({FAR_SECOND}) OR ({FAR_THIRD})"
            yield Trial("date_diff", (unit, type_, other), "date_diff({0}, {1}, {2})", lost)
        for name in ("monthname", "dayname"):
            yield Trial(name, (type_,), f"{name}({{0}})")
        yield Trial("last_day", (type_,), "last_day({0})", FAR)
        for pattern in ("%Y-%m-%d", "%a %b %j %U %W %V %G %u %w %-d %%", "%H:%M:%S.%f %p %I %y"):
            yield Trial("strftime", (type_, pattern), "strftime({0}, {1})", FAR)
        for moved in (IntervalValue(1, 2), IntervalValue(-12, 0), IntervalValue(1_000_000, 5)):
            yield Trial("+", (type_, moved), "({0} + {1})", FAR)
            yield Trial("-", (type_, moved), "({0} - {1})", FAR)
            yield Trial("+", (moved, type_), "({0} + {1})", FAR_SECOND)
        for other in DATED:
            yield Trial("-", (type_, other), "({0} - {1})", f"({FAR}) OR ({FAR_SECOND})")
    for integer in (sqltype.INTEGER, TINYINT, UTINYINT):
        far = f"({FAR}) OR abs({{1}}::BIGINT) > 10000000"
        yield Trial("+", (sqltype.DATE, integer), "({0} + {1})", far)
        yield Trial("-", (sqltype.DATE, integer), "({0} - {1})", far)
    for name in FINE:
        yield Trial(name, (TIME,), f"{name}({{0}})")
    yield Trial("epoch", (sqltype.INTERVAL,), "epoch({0})")


def casts() -> Iterator[Trial]:
    pool = [*NUMBERS, *DATED, sqltype.VARCHAR, sqltype.BOOLEAN, TIME, UUID, sqltype.INTERVAL]
    for source, target in itertools.product(pool, pool):
        try:
            functions.cast(Ref(Column(0, "x", source)), target)
        except functions.TypeProblem:
            continue
        yield Trial("cast", (source, target), f"CAST({{0}} AS {target})")


def together(trials: Iterator[Trial]) -> dict[tuple[Argument, ...], list[Trial]]:
    """Return the calls by their arguments; 1 and true are kept apart."""
    found: dict[Any, list[Trial]] = {}
    for trial in trials:
        columns = (
            trial.args if all(isinstance(a, SqlType) for a in trial.args) else repr(trial.args)
        )
        found.setdefault(columns, []).append(trial)
    return {listed[0].args: listed for listed in found.values()}


Group = Callable[[], Iterator[Trial]]
GROUPS: tuple[Group, ...] = (arithmetic, numeric, logic, texts, times, casts)


def _frequent(args: tuple[Argument, ...]) -> bool:
    """Return True for what runs every time: all but two thirds of the pairs of types of numbers."""
    if len(args) != 2 or not all(arg in NUMBERS for arg in args):
        return True
    first, second = (NUMBERS.index(arg) for arg in args)
    return first == second or (first + 2 * second) % 5 == 0


def _run(con: duckdb.DuckDBPyConnection, group: Group, *, frequent: bool) -> None:
    for args, trials in together(group()).items():
        if _frequent(args) == frequent:
            check(con, args, trials)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_total_and_equal_to_plain_duckdb(
    connection: duckdb.DuckDBPyConnection, group: Group
) -> None:
    _run(connection, group, frequent=True)


@pytest.mark.slow
@pytest.mark.parametrize("group", [arithmetic, logic], ids=lambda group: group.__name__)
def test_total_and_equal_for_the_other_types(
    connection: duckdb.DuckDBPyConnection, group: Group
) -> None:
    _run(connection, group, frequent=False)


def test_every_function_is_tried() -> None:
    tried = {trial.name for group in GROUPS for trial in group()}
    assert tried >= set(functions.FUNCTIONS)


# Signatures that raise on some row in plain DuckDB, as measured on 2.0.1: why the guards are there.
RAISING = (
    ("({0} + {1})", (sqltype.BIGINT, sqltype.BIGINT)),
    ("({0} - {1})", (sqltype.HUGEINT, sqltype.HUGEINT)),
    ("({0} * {1})", (sqltype.INTEGER, sqltype.INTEGER)),
    ("({0} * {1})", (MONEY, MONEY)),
    ("({0} + {1})", (WIDE, WIDE)),
    ("({0} // {1})", (sqltype.BIGINT, sqltype.BIGINT)),
    ("(-{0})", (sqltype.BIGINT,)),
    ("(-{0})", (UTINYINT,)),
    ("abs({0})", (sqltype.INTEGER,)),
    ("round({0}, -1)", (sqltype.BIGINT,)),
    ("({0} = {1})", (sqltype.DATE, sqltype.TIMESTAMP)),
    ("({0} = {1})", (sqltype.VARCHAR, sqltype.INTEGER)),
    ("date_trunc('month', {0})", (sqltype.DATE,)),
    ("date_diff('microsecond', {0}, {1})", (sqltype.DATE, sqltype.DATE)),
    ("last_day({0})", (sqltype.DATE,)),
    ("({0} + {1})", (sqltype.DATE, sqltype.INTEGER)),
    ("({0} + INTERVAL 1 MONTH)", (sqltype.DATE,)),
    ("({0} - {1})", (sqltype.TIMESTAMP, sqltype.TIMESTAMP)),
    ("CAST({0} AS INTEGER)", (sqltype.DOUBLE,)),
    ("CAST({0} AS TIMESTAMP)", (sqltype.DATE,)),
    ("CAST({0} AS DATE)", (sqltype.VARCHAR,)),
)


@pytest.mark.parametrize(("plain", "types"), RAISING, ids=str)
def test_plain_duckdb_still_raises(
    connection: duckdb.DuckDBPyConnection, plain: str, types: tuple[SqlType, ...]
) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP TABLE rows_ AS {_rows(types)}")
    text = plain.format(*(f"c{i}" for i in range(len(types))))
    with pytest.raises(duckdb.Error):
        connection.execute(f"SELECT {text} FROM rows_").fetchall()
