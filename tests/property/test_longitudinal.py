"""Two histories that differ in one person's arrival: repeats, costs, refusals and ledger are the same.

Tables grow between statements and sessions. In one history a person arrives on the second day with strange
rows, in the other never. All that is kept or told about amounts is compared, to the last text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.errors import DPSQLError

SCHEMA = """
version: 1
database: duckdb:///days.duckdb
privacy: {level: user, adjacency: add_remove, unit: person}
tables:
  days:
    id: days
    owner: uid
    budget: {epsilon: 2, delta: 1e-4, accountant: ACCOUNTANT}
    limits: {max_groups: 2, max_rows_per_group: 2}
    columns:
      uid: {type: integer}
      page: {type: varchar}
      amount: {type: double, bounds: [0, 10]}
      kind: {type: varchar, values: [a, b]}
"""
DAY = """INSERT INTO days SELECT i % 40 + 1000 * DAY, 'p' || (i % 9), i % 12, ['a', 'b', NULL][1 + i % 3]
    FROM range(200) AS r(i)"""
STRANGE = """INSERT INTO days SELECT 7777,
    'q' || (i % 70), ['inf'::DOUBLE, 'nan', -1e308, 5, NULL][1 + i % 5],
    ['a', 'z', NULL][1 + i % 3] FROM range(900) AS r(i)"""
STATEMENTS = (
    "SELECT COUNT(*) FROM days",
    "SELECT kind, SUM(amount), AVG(amount) FROM days GROUP BY kind",
    "SELECT page, COUNT(*) FROM days GROUP BY page",
    "SELECT COUNT(*) FROM days",  # a repeat
    "SELECT MEDIAN(amount), COUNT(DISTINCT page) FROM days",
    "SELECT page FROM days",  # refused
    "SELECT COUNT(*) FROM (SELECT uid, SUM(amount) AS s FROM days GROUP BY uid) WHERE s > 100",
)


def told(connection: dp_sql.Connection) -> Iterator[Any]:
    """Yield all that a connection says about amounts; times and the statements' numbers are left out."""
    for name, state in connection.budget().items():
        yield name, state.lines(), state.repeats, state.shares, state.statements
    for entry in connection.ledger():
        yield entry.statement, entry.sql, entry.status, entry.analyst, entry.spend, entry.events


def history(folder: Path, accountant: str, *, arrives: bool) -> list[Any]:
    """Return what is told over three days of statements and new sessions."""
    folder.mkdir()
    path = folder / "schema.yaml"
    path.write_text(SCHEMA.replace("ACCOUNTANT", accountant), encoding="utf-8")
    seen: list[Any] = []
    for day in range(3):
        with duckdb.connect(str(folder / "days.duckdb")) as data:
            if day == 0:
                data.execute(
                    "CREATE TABLE days(uid INTEGER, page VARCHAR, amount DOUBLE, kind VARCHAR)"
                )
            data.execute(DAY.replace("DAY", str(day)))
            if arrives and day == 1:
                data.execute(STRANGE)
        with dp_sql.connect(path, analyst="ann", reuse=False) as connection:
            amounts = ("0.05", "0.15")
            seen += [asked(connection, sql, one) for sql in STATEMENTS for one in amounts]
            seen += told(connection)
    return seen


def asked(connection: dp_sql.Connection, sql: str, epsilon: str) -> Any:
    try:
        result = connection.sql(sql, epsilon=epsilon, delta="1e-6")
    except DPSQLError as error:
        return type(error), str(error), error.__cause__
    return result.columns, result.types, result.cost, result.notes


@pytest.mark.parametrize("accountant", ["renyi", pytest.param("zcdp", marks=pytest.mark.slow)])
def test_who_arrives_changes_nothing_that_is_kept(accountant: str, tmp_path: Path) -> None:
    one = history(tmp_path / "one", accountant, arrives=False)
    other = history(tmp_path / "other", accountant, arrives=True)
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a == b
    texts = repr(one)
    assert "BudgetExceededError" in texts  # the budget ends on the same statement
    assert "NotPrivateError" in texts
