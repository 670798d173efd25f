"""Reads a whole ledger and says what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from dp_sql.budget import accounts, rows
from dp_sql.budget.accountant import Filter, Spend
from dp_sql.budget.accounts import Key
from dp_sql.budget.damage import readable
from dp_sql.budget.lines import NONE, Blocks, Line, Sums, over, together, unbroken
from dp_sql.budget.periods import period_at
from dp_sql.budget.raising import lowered
from dp_sql.budget.record import GENESIS, OWNER, Entry, Registration, Scope, Verification, digest
from dp_sql.budget.store import Transaction
from dp_sql.errors import LedgerError

NOTHING_SPENT = unbroken()


class Checker:
    """Takes the links of a chain one by one and notes what is wrong, the first thing first.

    tables: what is registered. known_head: a digest that the chain must hold, or None.
    """

    def __init__(self, tables: Iterable[Registration], known_head: str | None = None) -> None:
        self.tables = {table.identity: replace(table, raised=None) for table in tables}
        self.spent = dict.fromkeys(self.tables, NONE)
        self.lines: dict[Key, Line] = {}
        self._periods: dict[str, str] = {}
        self.problems: list[str] = []
        self._awaited = known_head if known_head != GENESIS else None
        self._number, self._last = 0, GENESIS
        self._exceeded: set[Key] = set()
        self._statement = 0
        self._charged: set[str] = set()  # by the statement
        self._owed: set[str] = set()

    def take(self, link: rows.Link | rows.RaiseLink) -> None:
        """Check the next link against those before it."""
        entry = link.entry
        self.problems += self._place(link)
        table = self.tables.get(entry.identity)
        if table is None:
            self.problems.append(f"{_name(link)} is about a table that isn't registered.")
        else:
            self.problems += self._content(link, table)
        if isinstance(link, rows.Link):
            self.problems += self._members(link.entry)
        self._number, self._last = entry.number, link.hash
        if link.hash == self._awaited:
            self._awaited = None

    def end(self, entries: int, head: str) -> None:
        """Check that the chain ends where it is said to end."""
        self.problems += self.unpaid()
        if (entries, head) != (self._number, self._last):
            self.problems.append("The last entries are missing.")

    def unpaid(self) -> list[str]:
        """Return what is wrong with the last statement, after the last link."""
        return list(self._next(0))

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
                yield from self._accounts(charge, table)
            case rows.RaiseLink(entry=raised):
                if link.hash != rows.raise_digest(raised, table.digest, link.previous):
                    yield f"{_name(link)} was changed."
                if lowered(table.budget, raised.of(table)):
                    yield f"{_name(link)} lowers a budget."
                self.tables[table.identity] = replace(table, raised=raised.of(table))

    def _accounts(self, charge: Entry, table: Registration) -> Iterator[str]:
        """Check that a charge went to the accounts of its table, and that they had room."""
        identity, scope = table.identity, charge.scope or Scope("", None, None)
        before = self.spent[identity]
        self.spent[identity] = before + Sums(1, charge.spend)
        capped = table.cap_rule if charge.analyst != OWNER else None
        with readable(f"the time of entry {charge.number}"):
            time = datetime.fromisoformat(charge.time)
            expected = period_at(table.spec.renew, time, self._periods.get(identity, ""))
        if (
            (charge.scope is not None) != table.has_terms
            or scope.period != expected
            or (scope.blocks is not None and table.spec.blocks is None)
            or (scope.cap is None) != (capped is None)
        ):
            yield f"Entry {charge.number} went to other accounts than it should."
        self._periods[identity] = scope.period
        line = self.lines.get(Key(identity, "", scope.period), NOTHING_SPENT)
        if not table.has_lines:
            line = unbroken(before)
        key, name = Key(identity, "", scope.period), f"The entries of {table.account} exceed"
        after, problem = self._line(key, line, table.rule, scope.blocks, charge.spend)
        if table.has_lines:
            self.lines[key] = after
        if problem:
            yield f"{name} its budget, from entry {charge.number} on."
        if capped is not None and scope.cap is not None:
            own = replace(key, analyst=charge.analyst)
            line = self.lines.get(own, NOTHING_SPENT)
            self.lines[own], problem = self._line(own, line, capped, scope.blocks, scope.cap)
            if problem:
                yield f"{name} what {charge.analyst} may spend, from entry {charge.number} on."

    def _line(
        self, key: Key, line: Line, rule: Filter, blocks: Blocks, spend: Spend
    ) -> tuple[Line, bool]:
        """Return a line after a charge, and whether it exceeds its rule for the first time."""
        added = together([(blocks, spend)])

        def all_blocks() -> Iterator[tuple[str, Spend]]:
            return ((block, sums.spent) for block, sums in line.blocks.items())

        too_much = key not in self._exceeded and any(over(rule, line, added, all_blocks))
        if too_much:
            self._exceeded.add(key)
        return line.plus(added), too_much

    def _members(self, charge: Entry) -> Iterator[str]:
        """Check, at the first entry of each statement, that the one before was charged in full."""
        yield from self._next(charge.statement)
        self._charged.add(charge.identity)
        table = self.tables.get(charge.identity)
        if table is not None and table.people is not None:
            self._owed.add(table.people)

    def _next(self, statement: int) -> Iterator[str]:
        if statement != self._statement:
            if not self._owed <= self._charged:
                yield f"Statement {self._statement} wasn't charged to a budget over all tables."
            self._statement, self._charged, self._owed = statement, set(), set()


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
                account = checker.tables[identity].account
                found.append(f"The sums of {account} are not those of its entries.")
        for key in _different(checker.lines, accounts.all_lines(connection)):
            found.append(f"An account of {key.identity!r} is not the sum of its entries.")
        checker.problems += checker.unpaid()
    except LedgerError as error:
        return Verification(0, (*found, error.message))
    return checker.verification()


def _different(one: dict[Key, Line], other: dict[Key, Line]) -> list[Key]:
    """Return the lines that are in one only, or differ, once for each table."""
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return list({key.identity: key for key in keys}.values())


def _name(link: rows.Link | rows.RaiseLink) -> str:
    return f"{'Entry' if isinstance(link, rows.Link) else 'Raise'} {link.entry.number}"
