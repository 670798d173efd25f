"""What was measured of DuckDB's functions, one signature a line, against the table and this DuckDB.

duckdb_totality.tsv holds every measured signature of a function of the table over types that columns
may have: whether some row made DuckDB raise, and whether TRY caught that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
import pytest
from trials import rows_of

from dp_sql.executor.lower_expression import lower
from dp_sql.plan import functions
from dp_sql.plan.expression import Column, Expression, Ref
from dp_sql.schema.sqltype import Kind, SqlType

MEASURED = Path(__file__).with_name("duckdb_totality.tsv")
OTHERWISE = re.compile(r"DECIMAL\((\d+),(\d+)\)")
MOST_ROWS = 20_000


@dataclass(frozen=True)
class Signature:
    """A function, the types of its arguments, and what was seen: `caught` by TRY, None if nothing."""

    name: str
    types: tuple[SqlType, ...]
    status: str  # total, raises or TIMEOUT
    caught: bool | None

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.types))})"


def type_of(text: str) -> SqlType:
    match = OTHERWISE.fullmatch(text)
    if match is None:
        return SqlType(Kind(text))
    return SqlType(Kind.DECIMAL, int(match[1]), int(match[2]))


@cache
def measured() -> tuple[Signature, ...]:
    found = []
    for line in MEASURED.read_text(encoding="utf-8").splitlines()[2:]:
        name, types, status, caught = line.split("\t")
        parts = re.split(r",(?!\d)", types)
        found.append(
            Signature(
                name, tuple(map(type_of, parts)), status, {"yes": True, "no": False}.get(caught)
            )
        )
    return tuple(found)


def call(signature: Signature) -> Expression | None:
    """Return the call over columns of these types, None where the table refuses it."""
    columns = tuple(Ref(Column(i, f"c{i}", t)) for i, t in enumerate(signature.types))
    try:
        return functions.call(signature.name, columns)
    except functions.TypeProblem:
        return None


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute("SET error_on_division_by_zero = false")
        yield con


def table_of(con: duckdb.DuckDBPyConnection, types: tuple[SqlType, ...]) -> None:
    each = int(MOST_ROWS ** (1 / len(types)))
    con.execute(f"CREATE OR REPLACE TEMP TABLE rows_ AS SELECT * FROM {rows_of(types, each)}")


def answered() -> list[tuple[Signature, Expression]]:
    calls = ((signature, call(signature)) for signature in measured())
    return [(signature, bound) for signature, bound in calls if bound is not None]


def test_no_measured_signature_raises_as_it_is_lowered(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    tried = answered()
    for signature, bound in tried:
        table_of(connection, signature.types)
        text = lower(bound, lambda column: f"c{column.number}")
        try:
            connection.execute(f"SELECT count({text}), count(hash({text})) FROM rows_").fetchall()
        except duckdb.Error as error:
            pytest.fail(f"{signature}: {error}")
    guarded = [signature for signature, _ in tried if signature.status == "raises"]
    assert len(tried) > 250
    assert len(guarded) > 60


def test_what_try_does_not_catch_is_refused_over_columns() -> None:
    worse = [s for s in measured() if s.status == "TIMEOUT" or s.caught is False]
    assert len(worse) >= 20
    for signature in worse:
        assert call(signature) is None, signature


def plain_call(signature: Signature) -> str:
    names = [f"c{i}" for i in range(len(signature.types))]
    if signature.name.isidentifier():
        return f"{signature.name}({', '.join(names)})"
    joined = f" {signature.name} ".join(names) if len(names) > 1 else signature.name + names[0]
    return f"({joined})"


def test_what_was_total_is_total_still(connection: duckdb.DuckDBPyConnection) -> None:
    """What the table leaves without a guard can't raise in this DuckDB either."""
    seen = 0
    for signature, bound in answered():
        guarded = "CASE" in lower(bound, lambda column: f"c{column.number}")
        if signature.status != "total" or len(signature.types) > 2 or guarded:
            continue
        table_of(connection, signature.types)
        try:
            connection.execute(f"SELECT count(hash({plain_call(signature)})) FROM rows_").fetchall()
        except duckdb.Error as error:
            pytest.fail(f"{signature}: {error}")
        seen += 1
    assert seen > 120


def test_the_measurements_cover_the_table() -> None:
    """Functions of ours, of SQL's grammar, and with other names there are few."""
    names = {signature.name for signature in measured()}
    assert len(set(functions.FUNCTIONS) - names) < 40
