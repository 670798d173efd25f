"""Hostile data: extreme values of every type, and statements that try to fail on them."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random

from oracle.small_engine import Row
from oracle.statements import pick

from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.catalog import (
    AccountantKind,
    BudgetSpec,
    Catalog,
    ColumnSpec,
    Limits,
    PrivacyDefaults,
    TableSpec,
)
from dp_sql.schema.sqltype import Kind, SqlType

INF, NAN = float("inf"), float("nan")

POOLS: dict[str, tuple[SqlType, tuple[object, ...]]] = {
    "ti": (SqlType(Kind.TINYINT), (-128, 127, 0, 3)),
    "si": (SqlType(Kind.SMALLINT), (-(2**15), 2**15 - 1, 0, 7)),
    "i": (SqlType(Kind.INTEGER), (-(2**31), 2**31 - 1, 0, -1, 51)),
    "bi": (SqlType(Kind.BIGINT), (-(2**63), 2**63 - 1, 0, 1, 2**53 + 1)),
    "hi": (SqlType(Kind.HUGEINT), (-(2**127), 2**127 - 1, 0, 5)),
    "ut": (SqlType(Kind.UTINYINT), (0, 255, 3)),
    "ub": (SqlType(Kind.UBIGINT), (0, 2**64 - 1, 9)),
    "de": (SqlType(Kind.DECIMAL, 18, 4), (Decimal("-99999999999999.9999"), Decimal(0), Decimal("0.5"))),
    "dh": (SqlType(Kind.DECIMAL, 38, 0), (Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(1))),
    "fl": (SqlType(Kind.FLOAT), (NAN, INF, -INF, 3.4e38, -0.0, 0.1, 1e-45)),
    "db": (SqlType(Kind.DOUBLE), (NAN, INF, -INF, 1.7e308, -1.7e308, 5e-324, -0.0, 0.5, 2.0**53)),
    "vc": (
        SqlType(Kind.VARCHAR),
        ("", "x", "7", "1e400", "nan", "(", "%_\\", "é́", "2024-02-30", "9" * 60, "a\x00b", " 1 "),
    ),
    "da": (
        SqlType(Kind.DATE),
        (date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29), "infinity", "-infinity", "5881580-07-10"),
    ),
    "ts": (
        SqlType(Kind.TIMESTAMP),
        (datetime(1970, 1, 1), datetime(2024, 2, 29, 23, 59, 59, 999999),  # noqa: DTZ001  no zones
         "infinity", "-infinity", "294247-01-10 04:00:54.775806"),
    ),
    "bo": (SqlType(Kind.BOOLEAN), (True, False)),
}  # fmt: skip
"""Every column by its type and what it may hold beside NULL."""


def hostile_catalog(level: Level, adjacency: Adjacency) -> Catalog:
    columns = {"uid": ColumnSpec("uid", SqlType(Kind.VARCHAR))}
    columns |= {name: ColumnSpec(name, kind) for name, (kind, _) in POOLS.items()}
    columns["k"] = ColumnSpec("k", SqlType(Kind.INTEGER), values=(1, 2, 3))
    budget = BudgetSpec(Fraction(10**9), Fraction(1, 10), AccountantKind.RENYI, Fraction(1, 20))
    table = TableSpec(
        "t",
        columns,
        owner="uid" if level is Level.USER else None,
        budget=budget,
        limits=Limits(2, 3),
    )
    unit = PrivacyUnit(level, adjacency)
    return Catalog(
        Path("h.yaml"), "duckdb://", unit, PrivacyDefaults(None, None, None, None), {"t": table}
    )


def hostile_rows(r: Random, owner: str, count: int) -> list[Row]:
    """Return rows of an owner: every value is extreme or NULL."""
    return [
        (
            owner,
            *(None if r.random() < 0.15 else pick(r, pool) for _, pool in POOLS.values()),
            pick(r, (1, 2, 3, None, 4, -(2**31))),
        )
        for _ in range(count)
    ]


_OF = {
    "number": ("ti", "si", "i", "bi", "hi", "ut", "ub", "de", "dh", "fl", "db", "k"),
    "text": ("vc", "uid"),
    "day": ("da", "ts"),
    "truth": ("bo",),
}
_CONSTANTS = {
    "number": (
        "0",
        "-1",
        "3",
        "2147483647",
        "9223372036854775807",
        "0.5",
        "1e308",
        "-1e-320",
        "0.00001",
    ),
    "text": ("'x'", "''", "'7'", "'%'", "'_\\%'", "'nan'"),
    "day": ("DATE '2024-01-31'", "TIMESTAMP '2024-02-29 10:00:00'", "DATE '0001-01-01'"),
    "truth": ("TRUE", "NULL"),
}
_TYPES = {
    "number": ("TINYINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "UBIGINT", "DECIMAL(18,4)",
               "DECIMAL(38,10)", "DECIMAL(3,3)", "FLOAT", "DOUBLE"),
    "text": ("VARCHAR",),
    "day": ("DATE", "TIMESTAMP"),
    "truth": ("BOOLEAN",),
}  # fmt: skip
_NUMBERS = (
    "ABS",
    "SIGN",
    "FLOOR",
    "CEIL",
    "ROUND",
    "TRUNC",
    "SQRT",
    "LN",
    "LOG",
    "LOG2",
    "EXP",
    "-",
)
_TEXTS = ("LOWER", "UPPER", "TRIM", "LTRIM", "RTRIM")
_PARTS = (
    "YEAR",
    "MONTH",
    "DAY",
    "QUARTER",
    "WEEK",
    "DAYOFWEEK",
    "DAYOFYEAR",
    "HOUR",
    "MINUTE",
    "SECOND",
)
_UNITS = (
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "decade",
    "century",
)
_SPANS = ("INTERVAL 1 DAY", "INTERVAL 7 MONTH", "INTERVAL '1000 years'", "INTERVAL 999999 HOUR")


def wild(r: Random, kind: str, depth: int) -> str:
    """Return an expression of a kind of type; some have no type and are refused."""
    if depth == 0:
        return pick(r, _OF[kind] if r.random() < 0.75 else _CONSTANTS[kind])
    choice = r.randrange(10)
    if choice == 0:
        source = pick(r, tuple(_OF))
        word = pick(r, ("CAST", "TRY_CAST"))
        return f"{word}({wild(r, source, depth - 1)} AS {pick(r, _TYPES[kind])})"
    if choice == 1:
        a, b = wild(r, kind, depth - 1), wild(r, kind, 0)
        return f"CASE WHEN {wild(r, 'truth', depth - 1)} THEN {a} ELSE {b} END"
    if choice == 2:
        word = pick(r, ("COALESCE", "NULLIF", "LEAST", "GREATEST", "IFNULL"))
        return f"{word}({wild(r, kind, depth - 1)}, {wild(r, kind, 0)})"
    return _SHAPES[kind](r, depth - 1)


def _number(r: Random, depth: int) -> str:
    a = wild(r, "number", depth)
    match r.randrange(8):
        case 0 | 1 | 2:
            b = wild(r, "number", 0 if r.random() < 0.6 else depth)
            return f"({a} {pick(r, ('+', '-', '*', '/', '//', '%', '**'))} {b})"
        case 3 | 4:
            return f"{pick(r, _NUMBERS)}({a})"
        case 5:
            return f"{pick(r, _PARTS)}({wild(r, 'day', depth)})"
        case 6:
            return f"ROUND({a}, {pick(r, ('2', '-3', '0', '20'))})"
        case _:
            return f"LENGTH({wild(r, 'text', depth)})"


def _text(r: Random, depth: int) -> str:
    a = wild(r, "text", depth)
    match r.randrange(6):
        case 0 | 1:
            return f"{pick(r, _TEXTS)}({a})"
        case 2:
            return f"({a} || {wild(r, 'text', 0)})"
        case 3:
            return (
                f"SUBSTRING({a}, {pick(r, ('1', '-3', '0', '2'))}, {pick(r, ('1', '0', '9999'))})"
            )
        case 4:
            return f"{pick(r, ('LEFT', 'RIGHT'))}({a}, {pick(r, ('2', '-2', '0'))})"
        case _:
            return f"REPLACE({a}, '1', {wild(r, 'text', 0)})"


def _day(r: Random, depth: int) -> str:
    a = wild(r, "day", depth)
    match r.randrange(4):
        case 0:
            return f"DATE_TRUNC('{pick(r, _UNITS)}', {a})"
        case 1:
            return f"({a} {pick(r, ('+', '-'))} {pick(r, _SPANS)})"
        case 2:
            return f"(CAST({a} AS DATE) {pick(r, ('+', '-'))} {wild(r, 'number', 0)})"
        case _:
            return f"LAST_DAY({a})"


def _truth(r: Random, depth: int) -> str:
    kind = pick(r, ("number", "text", "day"))
    a, b = wild(r, kind, depth), wild(r, kind, 0)
    match r.randrange(8):
        case 0 | 1:
            words = ("=", "<>", "<", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
            return f"({a} {pick(r, words)} {b})"
        case 2:
            return f"({wild(r, 'text', depth)} {pick(r, ('LIKE', 'ILIKE'))} '%7_')"
        case 3:
            return f"({wild(r, 'truth', depth)} {pick(r, ('AND', 'OR'))} {wild(r, 'truth', 0)})"
        case 4:
            return f"(NOT {wild(r, 'truth', depth)})"
        case 5:
            return f"({a} IN ({pick(r, _CONSTANTS[kind])}, {pick(r, _CONSTANTS[kind])}))"
        case 6:
            return f"({a} BETWEEN {b} AND {wild(r, kind, 0)})"
        case _:
            return f"({a} IS {pick(r, ('NULL', 'NOT NULL'))})"


_SHAPES = {"number": _number, "text": _text, "day": _day, "truth": _truth}


def attack(r: Random) -> str:
    """Return a statement around wild expressions: in WHERE, keys, arguments and FILTER."""
    depth = pick(r, (1, 2, 2, 3))
    number, any_, key = (
        wild(r, kind, depth) for kind in ("number", pick(r, tuple(_OF)), pick(r, tuple(_OF)))
    )
    truth = wild(r, "truth", depth)
    match r.randrange(8):
        case 0:
            return f"SELECT COUNT(*) FROM t WHERE {truth}"
        case 1:
            return f"SELECT COUNT({any_}) AS n, COUNT(*) AS m FROM t WHERE {key} IS NOT NULL"
        case 2:
            return f"SELECT SUM(CLAMP({number}, -3, 9)) AS s FROM t"
        case 3:
            return f"SELECT AVG(CLAMP({number}, 0, 1)) FILTER (WHERE {truth}) AS s FROM t"
        case 4:
            return f"SELECT {key} AS key, COUNT(*) AS n FROM t GROUP BY key"
        case 5:
            rows = f"(SELECT *, {number} AS z, {key} AS y FROM t WHERE {truth})"
            return f"SELECT k, SUM(CLAMP(z, -1, 1e6)) AS s FROM {rows} WHERE y = y GROUP BY k"
        case 6:
            return f"SELECT k, VAR_POP(CLAMP({number}, 2, 4)) AS s FROM t WHERE {truth} GROUP BY k"
        case _:
            return (
                f"WITH w AS (SELECT {any_} AS a, {number} AS b, k FROM t WHERE vc LIKE '7%') "
                "SELECT COUNT(a) AS n, SUM(CLAMP(b, 0, 5)) AS s FROM w WHERE a IS NOT NULL OR k < 3"
            )
