"""The tables of a ledger and every statement that reads or writes them, as plain SQL.

Amounts are TEXT: they outgrow 64 bits. Each function runs inside a transaction of its caller, over a
connection of `store`, and raises LedgerError for a row that no ledger would hold.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from dp_sql.budget.accountant import NOTHING, Spend
from dp_sql.budget.record import (
    GENESIS,
    Entry,
    Registration,
    StatementRecord,
    Status,
    adjacency_text,
    digest,
    fraction_from_text,
    fraction_text,
    spend_from_texts,
    spend_texts,
    text,
    unit_from_texts,
)
from dp_sql.dataclass import dataclass
from dp_sql.errors import LedgerError
from dp_sql.privacy.event_json import events_from_json, events_to_json
from dp_sql.schema.catalog import AccountantKind, BudgetSpec

VERSION = 1
"""The layout below. A ledger of another version is refused."""

_AMOUNTS = ("pure", "rdp", "selection_delta", "epsilon", "delta")

_TABLES = (
    "CREATE TABLE schema_version (version INTEGER NOT NULL)",
    """
    CREATE TABLE tables (
        identity TEXT NOT NULL PRIMARY KEY,
        name TEXT NOT NULL,
        level TEXT NOT NULL,
        adjacency TEXT NOT NULL,
        group_size INTEGER NOT NULL,
        unit TEXT NOT NULL,
        accountant TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        selection_delta TEXT NOT NULL,
        alpha TEXT,
        registered_at TEXT NOT NULL,
        digest TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE statements (
        id INTEGER NOT NULL PRIMARY KEY,
        query_id TEXT NOT NULL UNIQUE,
        time TEXT NOT NULL,
        analyst TEXT NOT NULL,
        status TEXT CHECK (status IN ('reserved', 'answered', 'failed')),
        sql_hash TEXT NOT NULL,
        sql TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE entries (
        id INTEGER NOT NULL PRIMARY KEY,
        statement INTEGER NOT NULL REFERENCES statements (id),
        identity TEXT NOT NULL REFERENCES tables (identity),
        pure TEXT NOT NULL,
        rdp TEXT NOT NULL,
        selection_delta TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        events TEXT NOT NULL,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL
    )
    """,
    "CREATE INDEX entries_of_table ON entries (identity, id)",
    """
    CREATE TABLE sums (
        identity TEXT NOT NULL PRIMARY KEY REFERENCES tables (identity),
        entries INTEGER NOT NULL,
        pure TEXT NOT NULL,
        rdp TEXT NOT NULL,
        selection_delta TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        digest TEXT NOT NULL
    )
    """,
)
_TABLE = (
    "identity name level adjacency group_size unit accountant epsilon delta selection_delta alpha "
    "registered_at digest"
).split()
_STATEMENT = ("query_id", "time", "analyst", "status", "sql_hash", "sql")
_ENTRY = ("id", "statement", "identity", *_AMOUNTS, "events", "previous", "hash")
_TOTALS = ("identity", "entries", *_AMOUNTS, "digest")


def _listed(columns: Iterable[str], form: str = "{}") -> str:
    return ", ".join(form.format(column) for column in columns)


def _insert(table: str, columns: Iterable[str]) -> str:
    return f"INSERT INTO {table} ({_listed(columns)}) VALUES ({_listed(columns, ':{}')})"


_HEAD = "SELECT id, hash FROM entries ORDER BY id DESC LIMIT 1"
_REGISTRATION = f"SELECT {_listed(_TABLE)} FROM tables WHERE identity = ?"
_REGISTRATIONS = f"SELECT {_listed(_TABLE)} FROM tables ORDER BY name, identity"
_ADD_REGISTRATION = _insert("tables", _TABLE)
_SUMS = f"SELECT {_listed(_TOTALS)} FROM sums WHERE identity = ?"
_WITH_SUMS = "SELECT identity FROM sums ORDER BY identity"
_ADD_SUMS = _insert("sums", _TOTALS)
_SET_SUMS = f"UPDATE sums SET {_listed(_TOTALS[1:], '{0} = :{0}')} WHERE identity = :identity"
_ADD_STATEMENT = f"{_insert('statements', _STATEMENT)} RETURNING id"
_SET_STATUS = "UPDATE statements SET status = ? WHERE id = ? AND query_id = ? AND status = ?"
_ADD_ENTRY = _insert("entries", _ENTRY)
_PAGE = (
    f"SELECT {_listed(_ENTRY, 'e.{}')}, {_listed(_STATEMENT, 's.{}')} "
    "FROM entries AS e LEFT JOIN statements AS s ON e.statement = s.id "
    "WHERE e.id > ? ORDER BY e.id LIMIT 500"
)
_LAST_OF_TABLE = (
    f"SELECT {_listed(_ENTRY)} FROM entries WHERE identity = ? ORDER BY id DESC LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class Sums:
    """What a table has spent, in how many entries."""

    entries: int
    spent: Spend


@dataclass(frozen=True, slots=True)
class Link:
    """An entry with its place in the chain, as stored."""

    entry: Entry
    sql_hash: str
    previous: str
    hash: str


def create(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty ledger."""
    for table in _TABLES:
        connection.execute(table)
    connection.execute("INSERT INTO schema_version VALUES (?)", (VERSION,))


def check_version(connection: sqlite3.Connection) -> None:
    """Raise LedgerError unless the ledger has the layout of this module."""
    found = [row[0] for row in connection.execute("SELECT version FROM schema_version")]
    if found != [VERSION]:
        shown = found[0] if len(found) == 1 else "none"
        raise LedgerError(
            f"The ledger has layout {shown}; this version of dp_sql writes layout {VERSION}.",
            hint="the version of dp_sql that wrote the ledger, or a later one",
        )


def add_registration(connection: sqlite3.Connection, registration: Registration) -> None:
    """Store a new table that has spent nothing."""
    unit, spec = registration.unit, registration.spec
    row = {
        "identity": registration.identity,
        "name": registration.name,
        "level": unit.level.value,
        "adjacency": adjacency_text(unit),
        "group_size": unit.group_size,
        "unit": unit.name,
        "accountant": spec.accountant.value,
        "epsilon": fraction_text(spec.epsilon),
        "delta": fraction_text(spec.delta),
        "selection_delta": fraction_text(spec.selection_delta),
        "alpha": None if registration.alpha is None else repr(registration.alpha),
        "registered_at": registration.registered_at,
        "digest": registration.digest,
    }
    connection.execute(_ADD_REGISTRATION, row)
    connection.execute(_ADD_SUMS, _sums_row(registration.identity, Sums(0, NOTHING)))


def registration(connection: sqlite3.Connection, identity: str) -> Registration | None:
    """Return the table of that identity, or None. Raises LedgerError where its digest is wrong."""
    row = connection.execute(_REGISTRATION, (identity,)).fetchone()
    return None if row is None else _registration(row)


def registrations(connection: sqlite3.Connection) -> list[Registration]:
    """Return all tables by name. Raises LedgerError where a digest is wrong."""
    return [_registration(row) for row in connection.execute(_REGISTRATIONS)]


def sums_of(connection: sqlite3.Connection, identity: str) -> Sums:
    """Return what a registered table has spent. Raises LedgerError where the digest is wrong."""
    row = connection.execute(_SUMS, (identity,)).fetchone()
    if row is None:
        raise LedgerError(f"The ledger is damaged: the sums of {identity!r} are missing.")
    with readable(f"the sums of {identity!r}"):
        found = Sums(row["entries"], spend_from_texts(row[2:7]))
        if row["digest"] != _sums_digest(identity, found):
            raise ValueError("wrong digest")
    return found


def tables_with_sums(connection: sqlite3.Connection) -> list[str]:
    """Return the identities that have sums, whether or not they are registered."""
    return [row[0] for row in connection.execute(_WITH_SUMS)]


def put_sums(connection: sqlite3.Connection, identity: str, totals: Sums) -> None:
    """Replace the sums of a registered table."""
    connection.execute(_SET_SUMS, _sums_row(identity, totals))


def head(connection: sqlite3.Connection) -> tuple[int, str]:
    """Return number and digest of the last entry; 0 and GENESIS before the first."""
    row = connection.execute(_HEAD).fetchone()
    if row is None:
        return 0, GENESIS
    with readable(f"entry {row['id']}"):
        return row["id"], text(row["hash"])


def add_statement(connection: sqlite3.Connection, record: StatementRecord, time: str) -> int:
    """Store a statement as reserved and return its number."""
    row = {
        "query_id": record.query_id,
        "time": time,
        "analyst": record.analyst,
        "status": Status.RESERVED.value,
        "sql_hash": digest(record.sql),
        "sql": record.sql,
    }
    (number,) = connection.execute(_ADD_STATEMENT, row).fetchone()
    return int(number)


def set_status(
    connection: sqlite3.Connection, statement: int, query_id: str, status: Status
) -> bool:
    """Set what became of a reserved statement; False where there is no such reservation."""
    values = (status.value, statement, query_id, Status.RESERVED.value)
    return connection.execute(_SET_STATUS, values).rowcount == 1


def add_entry(connection: sqlite3.Connection, entry: Entry, registered: str, previous: str) -> str:
    """Store an entry after the one whose digest is `previous`, and return its digest.

    registered: the digest of its table's registration.
    """
    chained = entry_digest(entry, digest(entry.sql), registered, previous)
    row = {
        "id": entry.number,
        "statement": entry.statement,
        "identity": entry.identity,
        **dict(zip(_AMOUNTS, spend_texts(entry.spend), strict=True)),
        "events": events_to_json(entry.events),
        "previous": previous,
        "hash": chained,
    }
    connection.execute(_ADD_ENTRY, row)
    return chained


def entry_digest(entry: Entry, sql_hash: str, registered: str, previous: str) -> str:
    """Return the digest of everything in an entry that never changes: all but its status."""
    numbers = (str(entry.number), str(entry.statement))
    statement = (entry.query_id, entry.time, entry.analyst, sql_hash)
    amounts = spend_texts(entry.spend)
    events = events_to_json(entry.events)
    return digest(previous, *numbers, *statement, entry.identity, registered, *amounts, events)


def last_spend(connection: sqlite3.Connection, identity: str) -> Spend | None:
    """Return what the last statement on a table cost, or None before the first."""
    row = connection.execute(_LAST_OF_TABLE, (identity,)).fetchone()
    if row is None:
        return None
    with readable(f"entry {row['id']}"):
        return spend_from_texts(row[3:8])


def page(connection: sqlite3.Connection, after: int) -> list[Link]:
    """Return the next entries after number `after`, at most 500. Raises LedgerError for damage."""
    found = []
    for row in connection.execute(_PAGE, (after,)):
        with readable(f"entry {row['id']}"):
            found.append(_link(row))
    return found


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Turn a ValueError or TypeError about a stored value into a LedgerError that names `what`."""
    try:
        yield
    except (ValueError, TypeError):
        message = f"The ledger is damaged: {what} can't be read."
        raise LedgerError(message, hint="a backup of the ledger") from None


def _registration(row: Any) -> Registration:
    with readable(f"the registration of {row['identity']!r}"):
        return _registration_of(*row)


@lru_cache(maxsize=256)
def _registration_of(
    identity: str,
    name: str,
    level: str,
    adjacency: str,
    group_size: int,
    unit: str,
    accountant: str,
    epsilon: str,
    delta: str,
    selection_delta: str,
    alpha: str | None,
    registered_at: str,
    stored: str,
) -> Registration:
    """Return what a row of `tables` says. Raises ValueError or TypeError where it is damaged."""
    protected = unit_from_texts(level, adjacency, group_size, unit)
    amounts = fraction_from_text(epsilon), fraction_from_text(delta)
    kind, selected = AccountantKind(accountant), fraction_from_text(selection_delta)
    order = None if alpha is None else float(alpha)
    spec = BudgetSpec(*amounts, kind, selected)
    found = Registration(identity, name, protected, spec, order, registered_at)
    if stored != found.digest or alpha not in (None, repr(order)):
        raise ValueError("wrong digest")
    return found


def _sums_row(identity: str, totals: Sums) -> dict[str, object]:
    amounts = dict(zip(_AMOUNTS, spend_texts(totals.spent), strict=True))
    check = _sums_digest(identity, totals)
    return {"identity": identity, "entries": totals.entries, **amounts, "digest": check}


def _sums_digest(identity: str, totals: Sums) -> str:
    return digest(identity, str(totals.entries), *spend_texts(totals.spent))


def _link(row: Any) -> Link:
    entry = Entry(
        row["id"],
        row["statement"],
        text(row["query_id"]),
        text(row["time"]),
        text(row["analyst"]),
        text(row["sql"]),
        Status(row["status"]),
        text(row["identity"]),
        spend_from_texts(row[3:8]),
        events_from_json(text(row["events"])),
    )
    if events_to_json(entry.events) != row["events"]:
        raise ValueError("events are stored as they are written")
    return Link(entry, text(row["sql_hash"]), text(row["previous"]), text(row["hash"]))
