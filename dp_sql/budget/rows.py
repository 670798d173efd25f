"""The tables of a ledger and every statement that reads or writes them, as plain SQL.

Amounts are TEXT: they outgrow 64 bits. Each function runs inside a transaction of its caller, over a
transaction of `store`, and raises LedgerError for a row that no ledger would hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from heapq import merge
from typing import Any

from dp_sql.budget.accountant import NOTHING, Spend
from dp_sql.budget.damage import readable
from dp_sql.budget.lines import Sums
from dp_sql.budget.record import (
    AMOUNTS,
    GENESIS,
    Asked,
    Entry,
    Raise,
    Registration,
    Scope,
    StatementRecord,
    Status,
    adjacency_text,
    cap_from_texts,
    cap_texts,
    digest,
    fraction_from_text,
    fraction_text,
    scope_from_texts,
    scope_texts,
    spend_from_texts,
    spend_texts,
    text,
    unit_from_texts,
)
from dp_sql.budget.store import Transaction
from dp_sql.dataclass import dataclass
from dp_sql.errors import LedgerError
from dp_sql.privacy.event_json import events_from_json, events_to_json
from dp_sql.schema.catalog import AccountantKind, BudgetSpec, Cap, Renew

_TABLE = (
    "identity name level adjacency group_size unit accountant epsilon delta selection_delta alpha "
    "registered_at digest"
).split()
_CAP = ("cap_epsilon", "cap_delta", "cap_selection_delta")
_TERMS = ("renew", "blocks", *_CAP, "cap_alpha", "people")
_SCOPE = ("period", "blocks", "cap")
NO_TERMS: dict[str, str | None] = dict.fromkeys(_TERMS)
"""What `registration_row` has of a table that is one account, besides what all tables have."""

_STATEMENT = ("query_id", "time", "analyst", "status", "sql_hash", "sql")
_ENTRY = ("id", "statement", "identity", *AMOUNTS, "events", "previous", "hash")
_ALL = Asked()
_TOTALS = ("identity", "entries", *AMOUNTS, "digest")


def _listed(columns: Iterable[str], form: str = "{}") -> str:
    return ", ".join(form.format(column) for column in columns)


def _insert(table: str, columns: Iterable[str]) -> str:
    return f"INSERT INTO {table} ({_listed(columns)}) VALUES ({_listed(columns, ':{}')})"


_RAISE = ("id", "time", "identity", "epsilon", "delta", "selection_delta", "reason")
_RAISED = (*_RAISE, "previous", "hash")
_HEAD = "SELECT id, hash FROM chain_end"
_ADD_RAISE = _insert("raises", _RAISED)
_ADD_CAP_RAISE = _insert("cap_raises", ("raise", *_CAP))
_ALL_RAISES = (
    f"SELECT {_listed(_RAISED, 'r.{}')}, {_listed(_CAP, 'c.{}')} "
    "FROM raises AS r LEFT JOIN cap_raises AS c ON c.raise = r.id"
)
_RAISES = f"{_ALL_RAISES} ORDER BY r.id"
_LAST_RAISE = f"{_ALL_RAISES} WHERE r.identity = :identity ORDER BY r.id DESC LIMIT 1"
_TABLES = (
    f"SELECT {_listed(_TABLE, 't.{}')}, {_listed(_TERMS, 'x.{}')} "
    "FROM tables AS t LEFT JOIN terms AS x ON x.identity = t.identity"
)
_REGISTRATION = f"{_TABLES} WHERE t.identity = :identity"
_REGISTRATIONS = f"{_TABLES} ORDER BY t.name, t.identity"
_ADD_REGISTRATION = _insert("tables", _TABLE)
_ADD_TERMS = _insert("terms", ("identity", *_TERMS))
_SUMS = f"SELECT {_listed(_TOTALS)} FROM sums WHERE identity = :identity"
_WITH_SUMS = "SELECT identity FROM sums ORDER BY identity"
_ADD_SUMS = _insert("sums", _TOTALS)
_SET_SUMS = f"UPDATE sums SET {_listed(_TOTALS[1:], '{0} = :{0}')} WHERE identity = :identity"
_ADD_STATEMENT = (
    f"INSERT INTO statements (id, {_listed(_STATEMENT)}) VALUES "
    f"((SELECT id FROM next_statement), {_listed(_STATEMENT, ':{}')}) RETURNING id"
)
_SET_STATUS = (
    "UPDATE statements SET status = :status "
    "WHERE id = :id AND query_id = :query_id AND status = :before"
)
_ADD_ENTRY = _insert("entries", _ENTRY)
_ADD_SCOPE = _insert("scopes", ("entry", *_SCOPE))
_PAGE = (
    f"SELECT {_listed(_ENTRY, 'e.{}')}, {_listed(_STATEMENT, 's.{}')}, {_listed(_SCOPE, 'x.{}')} "
    "FROM entries AS e LEFT JOIN statements AS s ON e.statement = s.id "
    "LEFT JOIN scopes AS x ON x.entry = e.id "
    "WHERE e.id > :after{} ORDER BY e.id LIMIT 500"
)
_CONDITIONS = {
    "identity": "e.identity = :identity",
    "analyst": "s.analyst = :analyst",
    "since": "s.time >= :since",
    "until": "s.time < :until",
}


@dataclass(frozen=True, slots=True)
class Link:
    """An entry with its place in the chain, as stored."""

    entry: Entry
    sql_hash: str
    previous: str
    hash: str


@dataclass(frozen=True, slots=True)
class RaiseLink:
    """A raise with its place in the chain, as stored."""

    entry: Raise
    previous: str
    hash: str


def add_registration(connection: Transaction, registration: Registration) -> None:
    """Store a new table that has spent nothing."""
    row = registration_row(registration)
    connection.execute(_ADD_REGISTRATION, {column: row[column] for column in _TABLE})
    if row["renew"] is not None:
        connection.execute(_ADD_TERMS, {column: row[column] for column in ("identity", *_TERMS)})
    connection.execute(_ADD_SUMS, _sums_row(registration.identity, Sums(0, NOTHING)))


def registration(connection: Transaction, identity: str) -> Registration | None:
    """Return the table of that identity, or None. Raises LedgerError where a digest is wrong."""
    row = connection.execute(_REGISTRATION, {"identity": identity}).fetchone()
    return None if row is None else _raised(connection, registered(row))


def registrations(connection: Transaction) -> list[Registration]:
    """Return all tables by name. Raises LedgerError where a digest is wrong."""
    return [_raised(connection, registered(row)) for row in connection.execute(_REGISTRATIONS)]


def add_raise(connection: Transaction, known: Registration, entry: Raise, last: str) -> None:
    """Store a raise of the table `known` after the entry or raise whose digest is `last`."""
    row = {
        "id": entry.number,
        "time": entry.time,
        "identity": entry.identity,
        **amount_texts(entry),
        "reason": entry.reason,
        "previous": last,
        "hash": raise_digest(entry, known.digest, last),
    }
    connection.execute(_ADD_RAISE, row)
    if entry.cap is not None:
        connection.execute(_ADD_CAP_RAISE, {"raise": entry.number, **cap_row(entry.cap)})


def raise_digest(entry: Raise, registered: str, previous: str) -> str:
    """Return the digest of a raise. registered: that of its table's registration."""
    amounts = amount_texts(entry).values()
    number = str(entry.number)
    cap = () if entry.cap is None else cap_texts(entry.cap)
    return digest(
        *(previous, "raise", number, entry.time, entry.identity, registered, *amounts),
        *(entry.reason, *cap),
    )


def cap_row(cap: Cap | None) -> dict[str, str | None]:
    """Return the amounts of a cap by their columns, each None where there is no cap."""
    return dict(zip(_CAP, (None, None, None) if cap is None else cap_texts(cap), strict=True))


def amount_texts(budget: BudgetSpec | Raise) -> dict[str, str]:
    """Return the amounts of a budget as a ledger stores them."""
    return {
        "epsilon": fraction_text(budget.epsilon),
        "delta": fraction_text(budget.delta),
        "selection_delta": fraction_text(budget.selection_delta),
    }


def sums_of(connection: Transaction, identity: str) -> Sums:
    """Return what a registered table has spent. Raises LedgerError where the digest is wrong."""
    row = connection.execute(_SUMS, {"identity": identity}).fetchone()
    if row is None:
        raise LedgerError(f"The ledger is damaged: the sums of {identity!r} are missing.")
    with readable(f"the sums of {identity!r}"):
        found = Sums(row["entries"], _spend(row))
        if row["digest"] != _sums_digest(identity, found):
            raise ValueError("wrong digest")
    return found


def tables_with_sums(connection: Transaction) -> list[str]:
    """Return the identities that have sums, whether or not they are registered."""
    return [row["identity"] for row in connection.execute(_WITH_SUMS)]


def put_sums(connection: Transaction, identity: str, totals: Sums) -> None:
    """Replace the sums of a registered table."""
    connection.execute(_SET_SUMS, _sums_row(identity, totals))


def head(connection: Transaction) -> tuple[int, str]:
    """Return number and digest of the last entry or raise; 0 and GENESIS before the first."""
    row = connection.execute(_HEAD).fetchone()
    if row is None:
        return 0, GENESIS
    with readable(f"entry {row['id']}"):
        return row["id"], text(row["hash"])


def add_statement(connection: Transaction, record: StatementRecord, time: str) -> int:
    """Store a statement as reserved and return its number."""
    row = {
        "query_id": record.query_id,
        "time": time,
        "analyst": record.analyst,
        "status": Status.RESERVED.value,
        "sql_hash": digest(record.sql),
        "sql": record.sql,
    }
    return int(connection.execute(_ADD_STATEMENT, row).fetchone()["id"])


def set_status(connection: Transaction, statement: int, query_id: str, status: Status) -> bool:
    """Set what became of a reserved statement; False where there is no such reservation."""
    before = Status.RESERVED.value
    values = {"status": status.value, "id": statement, "query_id": query_id, "before": before}
    return connection.execute(_SET_STATUS, values).rowcount == 1


def add_entry(connection: Transaction, entry: Entry, registered: str, previous: str) -> str:
    """Store an entry after the one whose digest is `previous`, and return its digest.

    registered: the digest of its table's registration.
    """
    chained = entry_digest(entry, digest(entry.sql), registered, previous)
    row = {
        "id": entry.number,
        "statement": entry.statement,
        "identity": entry.identity,
        **dict(zip(AMOUNTS, spend_texts(entry.spend), strict=True)),
        "events": events_to_json(entry.events),
        "previous": previous,
        "hash": chained,
    }
    connection.execute(_ADD_ENTRY, row)
    if entry.scope is not None:
        connection.execute(_ADD_SCOPE, {"entry": entry.number, **scope_row(entry.scope)})
    return chained


def scope_row(scope: Scope | None) -> dict[str, str | None]:
    """Return the parts of a scope by their columns, each None where there is none."""
    return dict(
        zip(_SCOPE, (None, None, None) if scope is None else scope_texts(scope), strict=True)
    )


def entry_digest(entry: Entry, sql_hash: str, registered: str, previous: str) -> str:
    """Return the digest of everything in an entry that never changes: all but its status."""
    numbers = (str(entry.number), str(entry.statement))
    statement = (entry.query_id, entry.time, entry.analyst, sql_hash)
    amounts = spend_texts(entry.spend)
    events = events_to_json(entry.events)
    scope = () if entry.scope is None else map(json.dumps, scope_texts(entry.scope))
    return digest(
        previous, *numbers, *statement, entry.identity, registered, *amounts, events, *scope
    )


def page(connection: Transaction, after: int, asked: Asked = _ALL) -> list[Link]:
    """Return the next entries after number `after`, at most 500. Raises LedgerError for damage."""
    wanted = {name: getattr(asked, name) for name in _CONDITIONS}
    given = {name: value for name, value in wanted.items() if value is not None}
    conditions = "".join(f" AND {_CONDITIONS[name]}" for name in given)
    found = []
    for row in connection.execute(_PAGE.format(conditions), {"after": after, **given}):
        with readable(f"entry {row['id']}"):
            found.append(link_of(row))
    return found


def raises(connection: Transaction) -> list[RaiseLink]:
    """Return all raises, oldest first. Raises LedgerError where one can't be read."""
    found = []
    for row in connection.execute(_RAISES):
        with readable(f"raise {row['id']}"):
            found.append(raise_link_of(row))
    return found


def chain(connection: Transaction) -> Iterator[Link | RaiseLink]:
    """Yield all entries and raises in the order of their numbers. Raises LedgerError for damage."""
    charges: Iterator[Link | RaiseLink] = _links(connection)
    yield from merge(charges, raises(connection), key=lambda link: link.entry.number)


def _links(connection: Transaction) -> Iterator[Link]:
    after = 0
    while links := page(connection, after):
        yield from links
        after = links[-1].entry.number


def registered(row: Any) -> Registration:
    """Return what a row of `tables` says, by its columns' names; LedgerError where it is damaged."""
    with readable(f"the registration of {row['identity']!r}"):
        return _registration_of(*(row[column] for column in (*_TABLE, *_TERMS)))


def registration_row(known: Registration) -> dict[str, object]:
    """Return the row that `registered` reads."""
    unit, spec = known.unit, known.spec
    return {
        "identity": known.identity,
        "name": known.name,
        "level": unit.level.value,
        "adjacency": adjacency_text(unit),
        "group_size": unit.group_size,
        "unit": unit.name,
        "accountant": spec.accountant.value,
        **amount_texts(spec),
        "alpha": None if known.alpha is None else repr(known.alpha),
        "registered_at": known.registered_at,
        "digest": known.digest,
        **_terms_row(known),
    }


def _terms_row(known: Registration) -> dict[str, str | None]:
    """Return the terms of a table by their columns, each None where it has none."""
    if not known.has_terms and known.people is None:
        return NO_TERMS
    spec = known.spec
    return {
        "renew": spec.renew.value,
        "blocks": spec.blocks,
        **cap_row(spec.cap),
        "cap_alpha": None if known.cap_alpha is None else repr(known.cap_alpha),
        "people": known.people,
    }


def _raised(connection: Transaction, known: Registration) -> Registration:
    """Return a registration with the budget of its last raise, whose digest must be right."""
    row = connection.execute(_LAST_RAISE, {"identity": known.identity}).fetchone()
    if row is None:
        return known
    with readable(f"raise {row['id']}"):
        link = raise_link_of(row)
        if link.hash != raise_digest(link.entry, known.digest, link.previous):
            raise ValueError("wrong digest")
    return replace(known, raised=link.entry.of(known))


def raise_link_of(row: Any) -> RaiseLink:
    """Return a row of `raises`, by its columns' names; ValueError or TypeError for a damaged one."""
    entry = Raise(
        row["id"],
        text(row["time"]),
        text(row["identity"]),
        fraction_from_text(row["epsilon"]),
        fraction_from_text(row["delta"]),
        fraction_from_text(row["selection_delta"]),
        text(row["reason"]),
        cap_from_texts(row[column] for column in _CAP),
    )
    return RaiseLink(entry, text(row["previous"]), text(row["hash"]))


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
    renew: str | None,
    blocks: str | None,
    cap_epsilon: str | None,
    cap_delta: str | None,
    cap_selection_delta: str | None,
    cap_alpha: str | None,
    people: str | None,
) -> Registration:
    """Return what a row of `tables` says. Raises ValueError or TypeError where it is damaged."""
    protected = unit_from_texts(level, adjacency, group_size, unit)
    amounts = fraction_from_text(epsilon), fraction_from_text(delta)
    kind, selected = AccountantKind(accountant), fraction_from_text(selection_delta)
    renewed = Renew.NEVER if renew is None else Renew(renew)
    cap = cap_from_texts((cap_epsilon, cap_delta, cap_selection_delta))
    spec = BudgetSpec(*amounts, kind, selected, renewed, blocks, cap)
    order, cap_order = _order(alpha), _order(cap_alpha)
    found = Registration(
        *(identity, name, protected, spec, order, registered_at),
        cap_alpha=cap_order,
        people=people,
    )
    if stored != found.digest:
        raise ValueError("wrong digest")
    return found


def _order(stored: str | None) -> float | None:
    """Return the order of a filter. Raises ValueError for one that is stored otherwise than written."""
    if stored is None:
        return None
    order = float(stored)
    if repr(order) != stored:
        raise ValueError("an order of a ledger is stored as it is written")
    return order


def _sums_row(identity: str, totals: Sums) -> dict[str, object]:
    amounts = dict(zip(AMOUNTS, spend_texts(totals.spent), strict=True))
    check = _sums_digest(identity, totals)
    return {"identity": identity, "entries": totals.entries, **amounts, "digest": check}


def _sums_digest(identity: str, totals: Sums) -> str:
    return digest(identity, str(totals.entries), *spend_texts(totals.spent))


def _spend(row: Any) -> Spend:
    return spend_from_texts(row[amount] for amount in AMOUNTS)


def scope_of(row: Any) -> Scope | None:
    """Return the scope in a row, by its columns' names; ValueError or TypeError for a damaged one."""
    return None if row["period"] is None else scope_from_texts(*(row[part] for part in _SCOPE))


def link_of(row: Any) -> Link:
    """Return an entry with its statement, by the columns' names; ValueError or TypeError if damaged."""
    entry = Entry(
        row["id"],
        row["statement"],
        text(row["query_id"]),
        text(row["time"]),
        text(row["analyst"]),
        text(row["sql"]),
        Status(row["status"]),
        text(row["identity"]),
        _spend(row),
        events_from_json(text(row["events"])),
        scope_of(row),
    )
    if events_to_json(entry.events) != row["events"]:
        raise ValueError("events are stored as they are written")
    return Link(entry, text(row["sql_hash"]), text(row["previous"]), text(row["hash"]))
