"""Trials of operators, casts, and the plainest functions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from trials import (
    DATED,
    FAR,
    FAR_SECOND,
    FAR_THIRD,
    MONEY,
    NUMBERS,
    TIME,
    TINYINT,
    UTINYINT,
    UUID,
    WHOLE,
    WIDE,
    Trial,
)

from dp_sql.plan import functions
from dp_sql.plan.expression import Column, IntervalValue, Ref
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import SqlType


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
PARTS += [
    "era",
    "isodow",
    "quarter",
    "month",
    "week",
    "weekofyear",
    "dayofweek",
    "dayofmonth",
    "decade",
]
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


GROUPS = (arithmetic, numeric, logic, texts, times, casts)
