"""What single statements took of a table, as plain SQL: the last one, or one that is named."""

from __future__ import annotations

from typing import Any

from dp_sql.budget.accountant import Spend
from dp_sql.budget.damage import readable
from dp_sql.budget.record import AMOUNTS, Scope, spend_from_texts, text
from dp_sql.budget.rows import scope_of
from dp_sql.budget.store import Transaction
from dp_sql.dataclass import dataclass

_AMOUNTS = ", ".join(f"e.{amount}" for amount in AMOUNTS)
_CHARGES = (
    f"SELECT e.id, e.statement, {_AMOUNTS}, s.analyst, x.period, x.blocks, x.cap "
    "FROM entries AS e JOIN statements AS s ON e.statement = s.id "
    "LEFT JOIN scopes AS x ON x.entry = e.id WHERE e.identity = :identity"
)
_LAST_OF_TABLE = f"{_CHARGES} AND e.epsilon <> '0' ORDER BY e.id DESC LIMIT 1"
_LAST_OF_ANALYST = (
    f"{_CHARGES} AND e.epsilon <> '0' AND s.analyst = :analyst ORDER BY s.id DESC LIMIT 1"
)
_OF_STATEMENT = f"{_CHARGES} AND e.statement = :statement"

_CHARGED = (
    "SELECT e.identity FROM statements AS s JOIN entries AS e ON e.statement = s.id "
    "WHERE s.query_id = :query_id AND e.epsilon <> '0'"
)


@dataclass(frozen=True, slots=True)
class Charged:
    """What one statement took of one table."""

    statement: int
    analyst: str
    spend: Spend
    scope: Scope | None


def last_charge(
    connection: Transaction, identity: str, analyst: str | None = None
) -> Charged | None:
    """Return the last charge to a table, anybody's or an analyst's; None before it."""
    query = _LAST_OF_TABLE if analyst is None else _LAST_OF_ANALYST
    wanted = (
        {"identity": identity} if analyst is None else {"identity": identity, "analyst": analyst}
    )
    row = connection.execute(query, wanted).fetchone()
    if row is None:
        return None
    with readable(f"entry {row['id']}"):
        return Charged(
            row["statement"],
            text(row["analyst"]),
            spend_from_texts(row[amount] for amount in AMOUNTS),
            scope_of(row),
        )


def spend_of(connection: Transaction, statement: int, identity: str) -> Spend | None:
    """Return what a statement took of a table, None where it took nothing."""
    row = connection.execute(
        _OF_STATEMENT, {"statement": statement, "identity": identity}
    ).fetchone()
    if row is None:
        return None
    with readable(f"entry {row['id']}"):
        return _spend(row)


def charged(connection: Transaction, query_id: str) -> frozenset[str]:
    """Return the identities of the tables that a statement cost something, none for an unknown one."""
    found = connection.execute(_CHARGED, {"query_id": query_id})
    return frozenset(row[0] for row in found)


def _spend(row: Any) -> Spend:
    return spend_from_texts(row[amount] for amount in AMOUNTS)
