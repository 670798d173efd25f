"""Reads a whole ledger and says what is wrong with it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from dp_sql.budget import rows
from dp_sql.budget.accountant import NOTHING, fits
from dp_sql.budget.record import GENESIS, Registration, Verification, digest
from dp_sql.errors import LedgerError


def verify(connection: sqlite3.Connection) -> Verification:
    """Return how many entries the ledger holds and one sentence for each thing wrong with it.

    Where a page, a row or a digest can't be read the sentence about it is the only one, since what
    follows from it can't be checked.
    """
    damage = [row[0] for row in connection.execute("PRAGMA integrity_check(20)")]
    if damage != ["ok"]:
        return Verification(0, tuple(f"SQLite: {line}" for line in damage))
    try:
        tables = {table.identity: table for table in rows.registrations(connection)}
        spent = dict.fromkeys(tables, rows.Sums(0, NOTHING))
        problems: list[str] = []
        number, previous = 0, GENESIS
        for link in _links(connection):
            number, entry = number + 1, link.entry
            problems += _link_problems(link, number, previous, tables)
            number, previous = entry.number, link.hash
            if entry.identity in spent:
                so_far = spent[entry.identity]
                total = so_far.spent + entry.spend
                spent[entry.identity] = rows.Sums(so_far.entries + 1, total)
        for identity in rows.tables_with_sums(connection):
            if identity not in tables:
                problems.append(f"The table {identity!r} has sums and isn't registered.")
        for identity, totals in spent.items():
            name = tables[identity].name
            if rows.sums_of(connection, identity) != totals:
                problems.append(f"The sums of `{name}` are not those of its entries.")
            if not fits(tables[identity].rule, totals.spent, NOTHING):
                problems.append(f"The entries of `{name}` exceed its budget.")
    except LedgerError as error:
        return Verification(0, (error.message,))
    return Verification(number, tuple(problems))


def _links(connection: sqlite3.Connection) -> Iterator[rows.Link]:
    after = 0
    while links := rows.page(connection, after):
        yield from links
        after = links[-1].entry.number


def _link_problems(
    link: rows.Link, number: int, previous: str, tables: dict[str, Registration]
) -> Iterator[str]:
    """Yield what is wrong with one entry, which should be number `number` after `previous`."""
    entry = link.entry
    if entry.number != number:
        yield f"Entry {number} is missing."
    if link.previous != previous:
        yield f"Entry {entry.number} doesn't follow the one before it."
    if link.sql_hash != digest(entry.sql):
        yield f"The statement of entry {entry.number} was changed."
    table = tables.get(entry.identity)
    if table is None:
        yield f"Entry {entry.number} is about a table that isn't registered."
    elif link.hash != rows.entry_digest(entry, link.sql_hash, table.digest, link.previous):
        yield f"Entry {entry.number} was changed."
