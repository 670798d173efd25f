"""Which blocks a statement debits: each condition against DuckDB, each place of it by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import duckdb
import pytest
from oracle.small_engine import literal
from small_catalog import BUDGET

from dp_sql.parser.statement import parse
from dp_sql.plan import functions
from dp_sql.plan.expression import Column, Literal, Ref
from dp_sql.plan.rows import Filter, Project, Scan
from dp_sql.planner.sets import plan_sets
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.catalog import Catalog, ColumnSpec, Limits, PrivacyDefaults, TableSpec
from dp_sql.schema.sqltype import Kind, SqlType
from dp_sql.sensitivity import blocks
from dp_sql.sensitivity.blocks import MOST_BLOCKS, Debit, debit
from dp_sql.sensitivity.contribution import derive

T = TypeVar("T")
TYPES = {
    "day": SqlType(Kind.DATE),
    "n": SqlType(Kind.INTEGER),
    "tiny": SqlType(Kind.TINYINT),
    "big": SqlType(Kind.DECIMAL, 12, 0),
    "s": SqlType(Kind.VARCHAR),
    "key": SqlType(Kind.UUID),
    "flag": SqlType(Kind.BOOLEAN),
}
UUIDS = tuple(f"{c * 8}-0000-4000-8000-{c * 12}" for c in "a1F")
POOLS: dict[str, tuple[Any, ...]] = {
    "day": (*(date(2024, 2, 27) + timedelta(days=i) for i in range(5)), date(1, 1, 1), "infinity"),
    "n": (-2, -1, 0, 1, 2, 3, 2**31 - 1),
    "tiny": (-128, 0, 1, 2, 127),
    "big": (Decimal(-1), Decimal(0), Decimal(2), Decimal(10**11)),
    "s": ("a", "A", "a ", "", "\u00e1", "a\u0301", "1"),
    "key": UUIDS,
    "flag": (True, False),
}
CATALOG = Catalog(
    Path("small.yaml"),
    "duckdb://",
    PrivacyUnit(Level.EVENT, Adjacency.ADD_REMOVE),
    PrivacyDefaults(None, None, None, None),
    {
        "t": TableSpec(
            "t", {c: ColumnSpec(c, k) for c, k in TYPES.items()}, budget=BUDGET, limits=Limits(1, 1)
        ),
        "p": TableSpec("p", {c: ColumnSpec(c, k) for c, k in TYPES.items()}, public=True),
    },
)


class Public:
    """What is public of `p`: it has no row."""

    def image(self, *_: object) -> None:
        return None

    def frequency(self, *_: object) -> int:
        return 1


def described(sql: str, *_: object) -> tuple[tuple[str, str], ...]:
    """Return the type of the one value that a stage of these tests has."""
    return (("value", "DATE" if "day" in sql else "BIGINT"),)


def of(sql: str, column: str = "day", catalog: Catalog = CATALOG, table: str = "t") -> Debit:
    plans = [
        plan
        for release in parse(sql, catalog, described).releases
        for plan in plan_sets(release, catalog, Public(), Fraction(1))
    ]
    return debit(plans, table, column)


def pick(r: Random, options: Sequence[T]) -> T:
    return options[r.randrange(len(options))]


def constant(r: Random, column: str) -> str:
    value = pick(r, [v for v in POOLS[column] if v != "infinity"])
    if column == "n" and r.random() < 0.3:
        return pick(r, ("1.5", "-0.5", "5000000000", "'2'", "2::BIGINT", "1e0"))
    if column == "day" and r.random() < 0.3:
        moments = ("2024-02-28 00:00:00", "2024-02-29 12:30:00", "2024-02-27 23:59:59.999999")
        return f"TIMESTAMP '{pick(r, moments)}'"
    if column == "key" and r.random() < 0.5:
        return f"'{str(value).upper()}'"
    return literal(value, "") if isinstance(value, str | date) else str(value)


def condition(r: Random, column: str, depth: int = 2) -> str:
    """Return a condition over one column and constants."""
    if depth and r.random() < 0.5:
        word = pick(r, (" AND ", " OR ", " OR "))
        return f"({word.join(condition(r, column, depth - 1) for _ in range(2))})"
    a, b = constant(r, column), constant(r, column)
    ordered = [f"{column} {sign} {a}" for sign in ("<", "<=", ">", ">=")]
    ordered += [f"{a} {sign} {column}" for sign in ("<", "<=", ">", ">=")]
    ordered += [f"{column} BETWEEN {a} AND {b}"] * 3
    if column in ("s", "key"):
        ordered = []
    flags = [column, f"NOT {column}", f"{column} IS TRUE"] if column == "flag" else []
    return pick(r, (
        *ordered, *flags, f"{column} = {a}", f"{column} = {a}", f"{b} = {column}",
        f"{column} IS NOT DISTINCT FROM {a}", f"{column} IN ({a}, {b})", f"{column} IN ({a}, NULL)",
    ))  # fmt: skip


def true_of(column: str, where: str, more: Sequence[str]) -> set[str | None]:
    """Return the names of the values, among the pool's, some names and NULL, for which DuckDB says true."""
    kind = str(TYPES[column])
    texts = [literal(v, kind) for v in (*POOLS[column], None)] + [literal(m, "") for m in more]
    listed = ", ".join(f"(CAST({text} AS {kind}))" for text in texts)
    rows = duckdb.execute(f"SELECT {column} FROM (VALUES {listed}) AS t({column}) WHERE {where}")
    return {None if v is None else named(v) for (v,) in rows.fetchall()}


def named(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("column", TYPES)
def test_the_blocks_of_a_condition_are_those_for_which_it_is_true(column: str) -> None:
    known = 0
    for index in range(25):
        r = Random(f"{column}-{index}")
        where = condition(r, column)
        found = of(f"SELECT COUNT(*) FROM t WHERE {where}", column)
        if found.blocks is None:
            assert " end" in found.why or "no condition" in found.why or "than" in found.why
            continue
        known += 1
        assert true_of(column, where, sorted(found.blocks)) == found.blocks, where
    assert known > 7


EXACT = {
    "day = '2024-02-29'": {"2024-02-29"},
    "day BETWEEN '2024-02-28' AND DATE '2024-03-01'": {"2024-02-28", "2024-02-29", "2024-03-01"},
    "day > '2024-02-28' AND '2024-03-01' > day": {"2024-02-29"},
    "day IN ('2024-02-29', '2023-02-28') OR day = '2022-01-01'": {
        "2024-02-29", "2023-02-28", "2022-01-01",
    },
    "(day = '2024-02-29' AND n = 1) OR (day = '2024-03-01' AND n = 2)": {"2024-02-29", "2024-03-01"},
    "day = '2024-02-29' AND (n = 1 OR s = 'a')": {"2024-02-29"},
    "day <= '2024-02-29' AND day = '2024-03-01'": set(),
    "day >= '2024-02-29' AND day < TIMESTAMP '2024-02-29 12:30:00'": {"2024-02-29"},
    "day >= TIMESTAMP '2024-02-28 00:00:01' AND day < TIMESTAMP '2024-03-01'": {"2024-02-29"},
    "day > TIMESTAMP '2024-02-28 23:59:59' AND day <= TIMESTAMP '2024-02-29'": {"2024-02-29"},
}  # fmt: skip
EVERY = (
    "TRUE", "day >= '2024-02-29'", "day < '2024-02-29'", "day = '2024-02-29' OR n = 1",
    "day <> '2024-02-29'", "day IS NULL", "day IS NOT DISTINCT FROM NULL", "NOT (day <> '2024-02-29')",
    "day IS DISTINCT FROM '2024-02-29'", "COALESCE(day, DATE '2024-02-29') = '2024-02-29'",
    "year(day) = 2024", "CAST(day AS VARCHAR) = '2024-02-29'", "day + 1 = DATE '2024-03-01'",
    "CASE WHEN day = '2024-02-29' THEN n = 1 ELSE TRUE END", "day = (SELECT MAX(day) FROM p)",
    "(day = '2024-02-29') IS NOT FALSE", "day IN (SELECT day FROM p)",
    "day BETWEEN '2000-01-01' AND '2020-01-01'",
)  # fmt: skip


@pytest.mark.parametrize("where", EXACT)
def test_conditions_with_constants_name_their_blocks(where: str) -> None:
    assert of(f"SELECT COUNT(*) FROM t WHERE {where}").blocks == EXACT[where]


@pytest.mark.parametrize("where", EVERY)
def test_all_else_debits_every_block_and_says_why(where: str) -> None:
    found = of(f"SELECT COUNT(*) FROM t WHERE {where}")
    assert found.blocks is None
    assert found.why


def test_why_is_what_there_is_to_change() -> None:
    assert of("SELECT COUNT(*) FROM t WHERE day >= '2024-02-29'").why == (
        "its condition on day has no upper end"
    )
    assert "restricts" in of("SELECT COUNT(*) FROM t").why
    many = "SELECT COUNT(*) FROM t WHERE n BETWEEN 1 AND {}"
    assert of(many.format(MOST_BLOCKS), "n").blocks == {str(n + 1) for n in range(MOST_BLOCKS)}
    assert (
        of(many.format(MOST_BLOCKS + 1), "n").why == "its conditions leave more than 4,096 blocks"
    )


OWNED = replace(CATALOG.tables["t"], owner="n", limits=Limits(2, 2))
USERS = replace(
    CATALOG,
    unit=PrivacyUnit(Level.USER, Adjacency.ADD_REMOVE),
    tables={**CATALOG.tables, "t": OWNED, "u": replace(OWNED, name="u")},
)

FIRST = "t.day = '2024-02-29'"
PLACES = {  # a statement, and whether t is restricted to one day in it
    f"SELECT COUNT(*) FROM t JOIN u ON t.n = u.n WHERE {FIRST}": True,
    f"SELECT COUNT(*) FROM t JOIN u ON t.n = u.n AND {FIRST}": True,
    f"SELECT COUNT(*) FROM t, u WHERE t.n = u.n AND {FIRST}": True,
    f"SELECT COUNT(*) FROM t LEFT JOIN u ON t.n = u.n WHERE {FIRST}": True,
    f"SELECT COUNT(*) FROM t LEFT JOIN u ON t.n = u.n AND {FIRST}": False,
    f"SELECT COUNT(*) FROM u LEFT JOIN t ON t.n = u.n AND {FIRST}": False,
    f"SELECT COUNT(*) FROM u LEFT JOIN t ON t.n = u.n WHERE {FIRST}": False,
    f"SELECT COUNT(*) FROM t FULL JOIN u ON t.n = u.n WHERE {FIRST}": False,
    f"SELECT COUNT(*) FROM u LEFT JOIN (SELECT * FROM t WHERE {FIRST}) AS q ON q.n = u.n": True,
    f"SELECT COUNT(*) FROM t JOIN t AS q ON t.n = q.n WHERE {FIRST}": False,
    f"SELECT COUNT(*) FROM t JOIN t AS q ON t.n = q.n WHERE {FIRST} AND q.day = '2024-02-29'": True,
    f"SELECT COUNT(*) FROM t LEFT JOIN p ON t.s = p.s WHERE {FIRST}": True,
    f"SELECT COUNT(*) FILTER (WHERE {FIRST}) FROM t": False,
    f"SELECT SUM(CASE WHEN {FIRST} THEN 1 ELSE 0 END) FROM t": False,
    f"SELECT COUNT(*) FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.n = u.n AND {FIRST})": True,
    f"SELECT COUNT(*) FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.n = u.n AND {FIRST})": True,
    f"SELECT COUNT(*) FROM u WHERE n IN (SELECT n FROM t WHERE {FIRST})": True,
    "SELECT COUNT(*) FROM u WHERE day = '2024-02-29' AND n IN (SELECT n FROM t)": False,
    "WITH q AS (SELECT n, day AS d FROM t) SELECT COUNT(*) FROM q WHERE d = '2024-02-29'": True,
    "WITH q AS (SELECT n, day + 1 AS day FROM t) SELECT COUNT(*) FROM q WHERE day = TIMESTAMP "
    "'2024-02-29 00:00:00'": False,
    f"SELECT COUNT(*) FROM (SELECT n, day FROM t WHERE {FIRST} UNION ALL SELECT n, day FROM u)": True,
    "SELECT COUNT(*) FROM (SELECT n, day FROM t UNION ALL SELECT n, day FROM u) AS q "
    "WHERE day = '2024-02-29'": False,
    f"SELECT COUNT(*) FROM (SELECT n, day FROM u EXCEPT SELECT n, day FROM t WHERE {FIRST})": True,
    "SELECT COUNT(*) FROM (SELECT n, day FROM u EXCEPT SELECT n, day FROM t) AS q "
    "WHERE day = '2024-02-29'": False,
    f"SELECT COUNT(*) FROM (SELECT n, COUNT(*) AS c FROM t WHERE {FIRST} GROUP BY n) AS q": True,
    "SELECT COUNT(*) FROM (SELECT n, day, COUNT(*) AS c FROM t GROUP BY n, day) AS q "
    "WHERE day = '2024-02-29'": False,
    "SELECT COUNT(*) FROM (SELECT n, day, ROW_NUMBER() OVER (PARTITION BY n ORDER BY s) AS w FROM t) "
    "AS q WHERE w = 1 AND day = '2024-02-29'": False,
    f"SELECT s, COUNT(*), COUNT(DISTINCT day) FROM t WHERE {FIRST} GROUP BY s": True,
    f"SELECT COUNT(*) FROM t WHERE {FIRST} AND n > (SELECT COUNT(*) FROM t)": False,
    f"SELECT (SELECT COUNT(*) FROM t WHERE {FIRST}) + (SELECT COUNT(*) FROM t)": False,
}  # fmt: skip


@pytest.mark.parametrize("sql", PLACES)
def test_every_scan_has_to_be_restricted_where_only_its_own_rows_are_dropped(sql: str) -> None:
    assert of(sql, catalog=USERS).blocks == ({"2024-02-29"} if PLACES[sql] else None)


@pytest.mark.parametrize(
    ("aggregate", "where", "l1"),
    [
        ("COUNT(*)", "", 0),
        ("COUNT(*)", " WHERE day = '2024-02-29'", 1),
        ("SUM(COALESCE(n, 5))", " WHERE day = '2024-02-29'", 10),
    ],
)
def test_the_price_covers_a_row_that_leaves_a_block(aggregate: str, where: str, l1: int) -> None:
    """A row of another block adds nothing, so 0 is possible where rows are replaced."""
    table = CATALOG.tables["t"]
    columns = {**table.columns, "n": ColumnSpec("n", TYPES["n"], 5, 10)}
    unit = PrivacyUnit(Level.EVENT, Adjacency.SUBSTITUTION)
    catalog = replace(CATALOG, unit=unit, tables={"t": replace(table, columns=columns)})
    (release,) = parse(f"SELECT {aggregate} FROM t{where}", catalog).releases
    (plan,) = plan_sets(release, catalog, Public(), Fraction(1))
    (fact,) = derive(plan, unit, Public()).vectors
    assert fact.change.l1 == l1


def test_a_column_that_a_projection_changes_is_another_column() -> None:
    """The parser gives it another number; the rule doesn't rest on that."""
    day = Column(1, "day", TYPES["day"])
    scan = Scan("t", public=False, columns=(day,), sources=("day",), owner=None)
    first = functions.call("=", (Ref(day), Literal(date(2024, 2, 29), day.type)))
    for expression, known in ((Ref(day), (first,)), (Literal(None, day.type), ())):
        rows = Filter(Project(scan, (day,), (expression,)), first)
        assert list(blocks._restricted(rows, ())) == [(scan, known)]


def test_a_statement_debits_what_any_of_its_parts_reads() -> None:
    two = "SELECT (SELECT COUNT(*) FROM t WHERE n = 1) + (SELECT COUNT(*) FROM t WHERE n IN (2, 3))"
    assert of(two, "n").blocks == {"1", "2", "3"}
    joined = (
        "SELECT COUNT(*) FROM t JOIN t AS q ON t.n = q.n WHERE t.day = '2024-02-29' AND q.day = "
    )
    assert of(f"{joined}'2024-03-01'", catalog=USERS).blocks == {"2024-02-29", "2024-03-01"}
    assert of("SELECT COUNT(*) FROM t WHERE n IN (4, 5)", "n", USERS).blocks == {"4", "5"}
