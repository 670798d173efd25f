"""Lowers the free questions about public data: images of keys, and how often a value occurs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import assert_never

from dp_sql.executor.database import DATA
from dp_sql.executor.lower_expression import canonical, identifier, literal, lower, text_literal
from dp_sql.executor.lower_rows import name, rows_sql
from dp_sql.plan.expression import Literal
from dp_sql.plan.public import Image, PublicRows, ValueList
from dp_sql.schema.sqltype import Kind, SqlType


def fetched(text: str, kind: SqlType) -> str:
    """Return a key as it is fetched: dates and timestamps as text.

    Claim:   two keys that differ in the database differ in Python.
    Why:     the driver turns an infinite date into 9999-12-31 or 0001-01-01, which may be keys too;
             two groups under one key would each show the same units, and one unit would count twice.
    Assumes: DuckDB's texts of dates and timestamps differ for different values.
    """
    return f"CAST({text} AS VARCHAR)" if kind.kind in (Kind.DATE, Kind.TIMESTAMP) else text


def contiguous(values: Sequence[object]) -> tuple[object, object] | None:
    """Return the ends of values that are consecutive integers or dates, three or more; else None."""
    first = values[0]
    if len(values) < 3 or isinstance(first, bool):
        return None
    if all(type(v) is int for v in values):
        numbers = [v for v in values if isinstance(v, int)]
    elif all(type(v) is date for v in values):
        numbers = [v.toordinal() for v in values if isinstance(v, date)]
    else:
        return None
    if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return values[0], values[-1]
    return None


def image_sql(image: Image, limit: int) -> str:
    """Return the statement that lists the distinct values of public expressions, limit + 1 at most."""
    items = ", ".join(
        f"{fetched(canonical(lower(e, name), e.type), e.type)} AS e{i}"
        for i, e in enumerate(image.expressions)
    )
    sources = [f"({_source(s)}) AS s{i}" for i, s in enumerate(image.sources)]
    tables = f" FROM {', '.join(sources)}" if sources else ""
    tests = " AND ".join(lower(c, name) for c in image.conditions)
    where = f" WHERE {tests}" if tests else ""
    listed = f"SELECT DISTINCT {items}{tables}{where} LIMIT {limit + 1}"
    return f"SELECT * FROM ({listed}) AS listed_ ORDER BY ALL"  # a plan's text is always the same


def _source(source: ValueList | PublicRows) -> str:
    match source:
        case PublicRows(scan=scan, padded=padded):
            rows = rows_sql(scan)
            if padded:
                nulls = ", ".join(literal(None, c.type) for c in scan.columns)
                rows += f" UNION ALL SELECT {nulls}"
            return rows
        case ValueList(column=column, values=values):
            known = [v for v in values if v is not None]
            run = contiguous(known) if known else None
            if run is None:
                listed = ", ".join(f"({literal(v, column.type)})" for v in values)  # type: ignore[arg-type]
                return f"SELECT v AS {name(column)} FROM (VALUES {listed}) AS t(v)"
            text = _run(column.type, *run)
            if len(known) < len(values):
                text += f" UNION ALL SELECT {literal(None, column.type)}"
            return text.replace("AS v_", f"AS {name(column)}")
        case _:
            assert_never(source)


def _run(kind: SqlType, low: object, high: object) -> str:
    if isinstance(low, date) and isinstance(high, date):
        span = (high - low).days
        start = Literal(low, SqlType(Kind.DATE))
        first = literal(start.value, start.type)
        return f"SELECT {first} + CAST(i AS INTEGER) AS v_ FROM range({span + 1}) AS t(i)"
    return f"SELECT CAST(i AS {kind}) AS v_ FROM range({low}, {high} + 1) AS t(i)"


def frequency_sql(table: str, columns: tuple[str, ...]) -> str:
    """Return the statement that counts the most frequent value of public columns, NULLs apart."""
    names = ", ".join(identifier(c) for c in columns)
    known = " AND ".join(f"{identifier(c)} IS NOT NULL" for c in columns)
    return (
        f"SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM {DATA}.{identifier(table)} "
        f"WHERE {known} GROUP BY {names}) AS counted_"
    )


def content_sql(table: str, columns: tuple[str, ...]) -> str:
    """Return the statement that sums up a public table's rows, in any order, each as often as it is there.

    Rows that differ give other numbers but for an accident of their 64-bit hashes, two in 2^64; then an
    answer is one over the rows before.
    """
    hashed = f"hash({', '.join(map(identifier, columns))})"
    return (
        f"SELECT count(*), coalesce(sum(CAST({hashed} AS HUGEINT)), 0), "
        f"coalesce(bit_xor({hashed}), 0) FROM {DATA}.{identifier(table)}"
    )


def named_sql(table: str) -> str:
    """Return the statement that has a row where the attached database has a table or view of a name."""
    here = "database_name = 'source_' AND schema_name = 'main'"
    named = f"lower({{}}) = lower({text_literal(table)})"
    return (
        f"SELECT 1 FROM duckdb_tables() WHERE {here} AND {named.format('table_name')} UNION ALL "
        f"SELECT 1 FROM duckdb_views() WHERE {here} AND {named.format('view_name')}"
    )
