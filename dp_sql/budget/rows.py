"""The tables of a ledger and every statement that reads or writes them (SQLAlchemy Core).

Numbers are TEXT: amounts outgrow 64 bits. Each function runs inside a transaction of its caller,
and raises LedgerError for a row that no ledger would hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    Connection,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    insert,
    select,
    update,
)

from dp_sql.budget.accountant import NOTHING, Spend
from dp_sql.budget.record import (
    GENESIS,
    Entry,
    Registration,
    StatementRecord,
    Status,
    digest,
    fraction_from_text,
    fraction_text,
    spend_from_texts,
    spend_texts,
    text,
)
from dp_sql.errors import LedgerError
from dp_sql.privacy.event_json import events_from_json, events_to_json
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.catalog import AccountantKind, BudgetSpec

VERSION = 1
"""The layout below. A ledger of another version is refused."""

_AMOUNTS = ("pure", "rdp", "selection_delta", "epsilon", "delta")

metadata = MetaData()
schema_version = Table("schema_version", metadata, Column("version", Integer, nullable=False))
tables = Table(
    "tables",
    metadata,
    Column("identity", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("name", "level", "adjacency")),
    Column("group_size", Integer, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("unit", "accountant", "epsilon", "delta")),
    Column("selection_delta", Text, nullable=False),
    Column("alpha", Text),
    *(Column(name, Text, nullable=False) for name in ("registered_at", "digest")),
)
statements = Table(
    "statements",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("query_id", Text, nullable=False, unique=True),
    *(Column(name, Text, nullable=False) for name in ("time", "analyst")),
    Column("status", Text, CheckConstraint("status IN ('reserved', 'answered', 'failed')")),
    *(Column(name, Text, nullable=False) for name in ("sql_hash", "sql")),
)
entries = Table(
    "entries",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("statement", Integer, ForeignKey("statements.id"), nullable=False),
    Column("identity", Text, ForeignKey("tables.identity"), nullable=False),
    *(Column(name, Text, nullable=False) for name in (*_AMOUNTS, "events", "previous", "hash")),
    Index("entries_of_table", "identity", "id"),
)
sums = Table(
    "sums",
    metadata,
    Column("identity", Text, ForeignKey("tables.identity"), primary_key=True),
    Column("entries", Integer, nullable=False),
    *(Column(name, Text, nullable=False) for name in (*_AMOUNTS, "digest")),
)

_HEAD = select(entries.c.id, entries.c.hash).order_by(entries.c.id.desc()).limit(1)
_REGISTRATION = select(tables).where(tables.c.identity == bindparam("identity"))
_REGISTRATIONS = select(tables).order_by(tables.c.name, tables.c.identity)
_SUMS = select(sums).where(sums.c.identity == bindparam("identity"))
_WITH_SUMS = select(sums.c.identity).order_by(sums.c.identity)
_ADD_STATEMENT = insert(statements).returning(statements.c.id)
_ADD_ENTRY = insert(entries)
_SET_SUMS = update(sums).where(sums.c.identity == bindparam("of"))
_SET_STATUS = (
    update(statements)
    .where(statements.c.id == bindparam("statement"))
    .where(statements.c.query_id == bindparam("query"))
    .where(statements.c.status == Status.RESERVED)
)
_PAGE = (
    select(
        *entries.c,
        *(statements.c[name] for name in ("query_id", "time", "analyst", "sql", "status")),
        statements.c.sql_hash,
    )
    .join_from(entries, statements, isouter=True)
    .where(entries.c.id > bindparam("after"))
    .order_by(entries.c.id)
    .limit(500)
)
_LAST_OF_TABLE = (
    select(entries)
    .where(entries.c.identity == bindparam("identity"))
    .order_by(entries.c.id.desc())
    .limit(1)
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


def create(connection: Connection) -> None:
    """Make the tables of an empty ledger."""
    metadata.create_all(connection)
    connection.execute(insert(schema_version).values(version=VERSION))


def check_version(connection: Connection) -> None:
    """Raise LedgerError unless the ledger has the layout of this module."""
    found = connection.execute(select(schema_version.c.version)).scalars().all()
    if found != [VERSION]:
        shown = found[0] if len(found) == 1 else "none"
        raise LedgerError(
            f"The ledger has layout {shown}; this version of dp_sql writes layout {VERSION}.",
            hint="the version of dp_sql that wrote the ledger, or a later one",
        )


def add_registration(connection: Connection, registration: Registration) -> None:
    """Store a new table that has spent nothing."""
    unit, spec = registration.unit, registration.spec
    row = {
        "identity": registration.identity,
        "name": registration.name,
        "level": unit.level.value,
        "adjacency": unit.adjacency.value,
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
    connection.execute(insert(tables), row)
    connection.execute(insert(sums), _sums_row(registration.identity, Sums(0, NOTHING)))


def registration(connection: Connection, identity: str) -> Registration | None:
    """Return the table of that identity, or None. Raises LedgerError where its digest is wrong."""
    row = connection.execute(_REGISTRATION, {"identity": identity}).one_or_none()
    return None if row is None else _registration(row)


def registrations(connection: Connection) -> list[Registration]:
    """Return all tables by name. Raises LedgerError where a digest is wrong."""
    return [_registration(row) for row in connection.execute(_REGISTRATIONS)]


def sums_of(connection: Connection, identity: str) -> Sums:
    """Return what a registered table has spent. Raises LedgerError where the digest is wrong."""
    row = connection.execute(_SUMS, {"identity": identity}).one_or_none()
    if row is None:
        raise LedgerError(f"The ledger is damaged: the sums of {identity!r} are missing.")
    with readable(f"the sums of {identity!r}"):
        found = Sums(row.entries, spend_from_texts(row[2:7]))
        if row.digest != _sums_digest(identity, found):
            raise ValueError("wrong digest")
    return found


def tables_with_sums(connection: Connection) -> list[str]:
    """Return the identities that have sums, whether or not they are registered."""
    return list(connection.execute(_WITH_SUMS).scalars())


def put_sums(connection: Connection, identity: str, totals: Sums) -> None:
    """Replace the sums of a registered table."""
    connection.execute(_SET_SUMS, {"of": identity, **_sums_row(identity, totals)})


def head(connection: Connection) -> tuple[int, str]:
    """Return number and digest of the last entry; 0 and GENESIS before the first."""
    row = connection.execute(_HEAD).one_or_none()
    if row is None:
        return 0, GENESIS
    with readable(f"entry {row.id}"):
        return row.id, text(row.hash)


def add_statement(connection: Connection, record: StatementRecord, time: str) -> int:
    """Store a statement as reserved and return its number."""
    row = {
        "query_id": record.query_id,
        "time": time,
        "analyst": record.analyst,
        "status": Status.RESERVED.value,
        "sql_hash": digest(record.sql),
        "sql": record.sql,
    }
    return int(connection.execute(_ADD_STATEMENT, row).scalar_one())


def set_status(connection: Connection, statement: int, query_id: str, status: Status) -> bool:
    """Set what became of a reserved statement; False where there is no such reservation."""
    row = {"statement": statement, "query": query_id, "status": status.value}
    return connection.execute(_SET_STATUS, row).rowcount == 1


def add_entry(connection: Connection, entry: Entry, registered: str, previous: str) -> str:
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


def last_spend(connection: Connection, identity: str) -> Spend | None:
    """Return what the last statement on a table cost, or None before the first."""
    row = connection.execute(_LAST_OF_TABLE, {"identity": identity}).one_or_none()
    if row is None:
        return None
    with readable(f"entry {row.id}"):
        return spend_from_texts(row[3:8])


def page(connection: Connection, after: int) -> list[Link]:
    """Return the next entries after number `after`, at most 500. Raises LedgerError for damage."""
    found = []
    for row in connection.execute(_PAGE, {"after": after}):
        with readable(f"entry {row.id}"):
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
    with readable(f"the registration of {row.identity!r}"):
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
    protected = PrivacyUnit(Level(level), Adjacency(adjacency), group_size, unit)
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
        row.id,
        row.statement,
        text(row.query_id),
        text(row.time),
        text(row.analyst),
        text(row.sql),
        Status(row.status),
        text(row.identity),
        spend_from_texts(row[3:8]),
        events_from_json(text(row.events)),
    )
    if events_to_json(entry.events) != row.events:
        raise ValueError("events are stored as they are written")
    return Link(entry, text(row.sql_hash), text(row.previous), text(row.hash))
