"""Reads a whole ledger and says what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dp_sql.budget import rows
from dp_sql.budget.accountant import NOTHING, fits
from dp_sql.budget.raising import lowered
from dp_sql.budget.record import GENESIS, Registration, Verification, digest
from dp_sql.budget.store import Transaction
from dp_sql.errors import LedgerError


class Checker:
    """Takes the links of a chain one by one and notes what is wrong, the first thing first.

    tables: what is registered. known_head: a digest that the chain must hold, or None.
    """

    def __init__(self, tables: Iterable[Registration], known_head: str | None = None) -> None:
        self.tables = {table.identity: replace(table, raised=None) for table in tables}
        self.spent = dict.fromkeys(self.tables, rows.Sums(0, NOTHING))
        self.problems: list[str] = []
        self._awaited = known_head if known_head != GENESIS else None
        self._number, self._last = 0, GENESIS
        self._exceeded: set[str] = set()

    def take(self, link: rows.Link | rows.RaiseLink) -> None:
        """Check the next link against those before it."""
        entry = link.entry
        self.problems += self._place(link)
        table = self.tables.get(entry.identity)
        if table is None:
            self.problems.append(f"{_name(link)} is about a table that isn't registered.")
        else:
            self.problems += self._content(link, table)
        self._number, self._last = entry.number, link.hash
        if link.hash == self._awaited:
            self._awaited = None

    def end(self, entries: int, head: str) -> None:
        """Check that the chain ends where it is said to end."""
        if (entries, head) != (self._number, self._last):
            self.problems.append("The last entries are missing.")

    def verification(self) -> Verification:
        """Return what was found."""
        if self._awaited is not None:
            self.problems.append(f"No entry has the digest {self._awaited}, which it had before.")
        return Verification(self._number, tuple(self.problems), self._last)

    def _place(self, link: rows.Link | rows.RaiseLink) -> Iterator[str]:
        number = link.entry.number
        if number != self._number + 1:
            yield f"Entry {self._number + 1} is missing."
        if link.previous != self._last:
            yield f"{_name(link)} doesn't follow the one before it."

    def _content(self, link: rows.Link | rows.RaiseLink, table: Registration) -> Iterator[str]:
        match link:
            case rows.Link(entry=charge):
                if link.sql_hash != digest(charge.sql):
                    yield f"The statement of entry {charge.number} was changed."
                expected = rows.entry_digest(charge, link.sql_hash, table.digest, link.previous)
                if link.hash != expected:
                    yield f"{_name(link)} was changed."
                before = self.spent[table.identity]
                total = before.spent + charge.spend
                self.spent[table.identity] = rows.Sums(before.entries + 1, total)
                if table.identity not in self._exceeded and not fits(table.rule, total, NOTHING):
                    self._exceeded.add(table.identity)
                    yield f"The entries of `{table.name}` exceed its budget, from entry {charge.number} on."
            case rows.RaiseLink(entry=raised):
                if link.hash != rows.raise_digest(raised, table.digest, link.previous):
                    yield f"{_name(link)} was changed."
                if lowered(table.budget, raised.of(table)):
                    yield f"{_name(link)} lowers a budget."
                self.tables[table.identity] = replace(table, raised=raised.of(table))


def verify(
    connection: Transaction, damage: Sequence[str], known_head: str | None = None
) -> Verification:
    """Return how many entries the ledger holds and one sentence for each thing wrong with it.

    damage: what the database finds wrong with its pages; then nothing else is looked at.
    Where a page, a row or a digest can't be read the sentence about it is the last one, since what
    follows from it can't be checked.
    """
    if damage:
        return Verification(0, tuple(damage))
    found: list[str] = []
    try:
        checker = Checker(rows.registrations(connection), known_head)
        found = checker.problems
        for link in rows.chain(connection):
            checker.take(link)
        for identity in rows.tables_with_sums(connection):
            if identity not in checker.tables:
                found.append(f"The table {identity!r} has sums and isn't registered.")
        for identity, totals in checker.spent.items():
            if rows.sums_of(connection, identity) != totals:
                name = checker.tables[identity].name
                found.append(f"The sums of `{name}` are not those of its entries.")
    except LedgerError as error:
        return Verification(0, (*found, error.message))
    return checker.verification()


def _name(link: rows.Link | rows.RaiseLink) -> str:
    return f"{'Entry' if isinstance(link, rows.Link) else 'Raise'} {link.entry.number}"
