"""Triggers that keep what a ledger in PostgreSQL holds, and its layout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from budget_cases import UNIT, budget, laplace, statement
from ledger_cases import change, new_ledger

from dp_sql.budget import (
    postgres,
    postgres_layout,
)
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.record import OWNER, Status
from dp_sql.budget.verify import verify
from dp_sql.errors import LedgerError
from dp_sql.schema.catalog import AccountantKind, Renew

ONE = budget("1", "1e-6", AccountantKind.PURE, "1e-6")


CHANGES = [
    "UPDATE entries SET pure = '1' WHERE id = 1",
    "UPDATE entries SET hash = previous WHERE id = 2",
    "UPDATE entries SET statement = 2 WHERE id = 1",
    "DELETE FROM entries WHERE id = 2",
    "DELETE FROM statements WHERE id = 1",
    "UPDATE statements SET sql = 'SELECT 99' WHERE id = 1",
    "UPDATE statements SET analyst = 'eve' WHERE id = 1",
    "UPDATE statements SET time = '2000-01-01' WHERE id = 1",
    "UPDATE tables SET epsilon = '9/1' WHERE identity = 'a'",
    "DELETE FROM tables WHERE identity = 'b'",
    "UPDATE raises SET epsilon = '9/1'",
    "DELETE FROM raises",
    "UPDATE sums SET pure = '0' WHERE identity = 'a'",
    "UPDATE sums SET entries = 0 WHERE identity = 'a'",
    "DELETE FROM sums WHERE identity = 'a'",
    "UPDATE accounts SET pure = '0'",
    "DELETE FROM accounts",
    "UPDATE scopes SET period = '2000'",
    "UPDATE terms SET renew = 'daily'",
    "DELETE FROM terms",
]


@pytest.fixture
def full(postgres: str) -> Iterator[Ledger]:
    """Yield a ledger with something in every table."""
    with new_ledger(postgres, ONE) as ledger:
        ledger.register("y", "y", UNIT, replace(ONE, renew=Renew.YEARLY))
        for _ in range(2):
            receipt = ledger.reserve(
                statement(analyst="ada"), {"a": laplace("0.25"), "y": laplace("0.25")}
            )
        ledger.finish(receipt, Status.ANSWERED)
        ledger.raise_budget("a", budget("2", "1e-6", AccountantKind.PURE, "1e-6"), OWNER, "why")
        ledger.reserve(statement(), {"a": laplace("1")})
        assert ledger.verify().problems == ()
        yield ledger


class UndoneError(Exception):
    """Rolls a transaction back."""


def problems_after(ledger: Ledger, changing: str) -> tuple[str, ...]:
    """Return what `verify` finds after a change that no guard sees, and undo it."""
    found: tuple[str, ...] = ()
    with suppress(UndoneError), ledger._store.transaction(write=True) as transaction:
        transaction.execute("SET LOCAL session_replication_role = replica")
        assert transaction.execute(changing).rowcount > 0, changing
        found = verify(transaction, ()).problems
        raise UndoneError
    return found


def test_guards_refuse_each_change_and_without_them_verify_finds_it(full: Ledger) -> None:
    for changing in CHANGES:
        with pytest.raises(LedgerError, match="keeps what it holds"):
            pytest.fail(f"{changing} changed {change(full, changing)} rows")
        assert problems_after(full, changing), changing
    for table in ("entries, scopes", "sums", "accounts", "raises, cap_raises"):
        with pytest.raises(LedgerError, match="keeps what it holds"):
            change(full, f"TRUNCATE {table}")
    assert full.verify().problems == ()


def test_an_entry_follows_the_last_one(full: Ledger) -> None:
    copy = "SELECT {}, statement, identity, pure, rdp, selection_delta, epsilon, delta, events, {}, hash"
    end = "(SELECT id + 1 FROM chain_end)"
    for number, previous in [("9", "hash"), (end, "previous"), ("2", "previous"), ("0", "hash")]:
        with (
            pytest.raises(LedgerError, match="keeps what it holds"),
            full._store.transaction(write=True) as transaction,
        ):
            transaction.execute(
                f"INSERT INTO entries {copy.format(number, previous)} FROM entries WHERE id = 1"
            )


def test_the_layout_has_the_same_types_and_order_as_a_file(full: Ledger) -> None:
    with full._store.transaction(write=False) as transaction:
        kinds = transaction.execute(
            "SELECT DISTINCT format_type(a.atttypid, a.atttypmod) AS kind, c.collname::text AS coll "
            "FROM pg_attribute AS a JOIN pg_class AS t ON t.oid = a.attrelid "
            "LEFT JOIN pg_collation AS c ON c.oid = a.attcollation "
            "WHERE t.relnamespace = to_regnamespace('dp_sql') AND t.relkind = 'r' AND a.attnum > 0 "
            "AND t.relname <> 'answers'".replace("::text", "")
        )
        assert {(row["kind"], row["coll"]) for row in kinds} == {("bigint", None), ("text", "C")}
    assert postgres_layout.SCHEMA == "dp_sql"
    assert postgres._LOCK < 2**63
