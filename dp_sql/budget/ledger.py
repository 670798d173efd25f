"""The ledger: every charge of every table, durable before an answer is drawn.

Claim:   no answer without its charge: when `reserve` returns, the charge of every table that the
         statement reads is on disk, and all charges together fit each table's rule.
Why:     one transaction that no other overlaps reads what was spent, decides, and appends; it is
         synced before `reserve` returns, and it raises if any of that failed. Nothing takes a
         charge back.
         A raise is such a transaction too: it changes what fits, never what was spent, and is one
         link of the same chain.
Assumes: the caller reserves before it reads data, and what `store` assumes. Who may call
         `raise_budget` is whoever may write the file: analysts' names are told apart, not proved.
Source:  [Rogers2016] for the filters that decide; see `accountant`.

A process that dies, or a commit whose success can't be known, leaves a charge without an answer at
worst, and the ledger shows it: its status stays "reserved". Time is written for people; nothing
depends on clocks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from types import TracebackType
from typing import Self

from dp_sql.budget import rows
from dp_sql.budget.accountant import NOTHING, Spend, fits, order_of, price
from dp_sql.budget.left import refusal, repeats, shares
from dp_sql.budget.raising import budget_words, check_raise, lowered
from dp_sql.budget.record import (
    OWNER,
    Asked,
    BudgetState,
    Entry,
    Raise,
    Receipt,
    Registration,
    StatementRecord,
    Status,
    Verification,
)
from dp_sql.budget.store import Store
from dp_sql.budget.verify import verify
from dp_sql.errors import LedgerError
from dp_sql.privacy.cost import Cost
from dp_sql.privacy.unit import Adjacency, Named, PrivacyUnit
from dp_sql.schema.catalog import BudgetSpec, ascii_lower

Charge = tuple[StatementRecord, Mapping[str, Cost]]
"""A statement and what it costs each table that it reads, by identity."""

_ALL = Asked()
_ANEW = (
    "or give the table a new `id`: that starts a second budget, and its people lose at most the sum"
)


class Ledger:
    """The charges of all tables. Threads may share one; processes open their own on one file.

    Every method raises LedgerError where the ledger can't be read or written, is damaged or closed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def register(self, identity: str, name: str, unit: PrivacyUnit, spec: BudgetSpec) -> None:
        """Make a table known under its identity, with the unit and the budget that it has for life.

        name: as the schema has it. What the unit says of other tables isn't kept.
        Does nothing where it is known with the same ones. Raises LedgerError where they differ: the
        charges so far were priced for the old unit, and a budget isn't raised by editing a schema.
        """
        now, order = _now(), order_of(spec)
        own = unit.of_table(ascii_lower(name))
        wanted = Registration(identity, name, own, spec, order, now)
        with self._store.transaction(write=True) as connection:
            known = rows.registration(connection, identity)
            if known is None:
                rows.add_registration(connection, wanted)
            else:
                _check_same(known, wanted)

    def reserve(self, statement: StatementRecord, costs: Mapping[str, Cost]) -> Receipt:
        """Charge a statement to every table that it reads, by identity: all of them, or none.

        The charge is on disk when this returns. Raises BudgetExceededError, with nothing charged,
        where a table has no room for its cost. Raises LedgerError for a table that isn't registered
        and where the ledger can't be written: then nothing was charged, or the charge stands
        without an answer.
        """
        (receipt,) = self.reserve_all([(statement, costs)])
        return receipt

    def reserve_all(self, asked: Sequence[Charge]) -> tuple[Receipt, ...]:
        """Charge several statements in one transaction, as `reserve` does one: all of them, or none."""
        with self._store.transaction(write=True) as connection:
            time = _now()
            numbers = [rows.add_statement(connection, record, time) for record, _ in asked]
            charges: dict[int, list[tuple[Registration, Cost, Spend]]] = {n: [] for n in numbers}
            for identity in sorted({identity for _, costs in asked for identity in costs}):
                owed = {
                    n: c[identity]
                    for n, (_, c) in zip(numbers, asked, strict=True)
                    if identity in c
                }
                known, spends = _charge(connection, identity, list(owed.values()))
                for (number, cost), spend in zip(owed.items(), spends, strict=True):
                    charges[number].append((known, cost, spend))
            for number, (record, _) in zip(numbers, asked, strict=True):
                for charge in charges[number]:
                    _append(connection, (number, time, record), *charge)
        return tuple(
            Receipt(n, record.query_id) for n, (record, _) in zip(numbers, asked, strict=True)
        )

    def finish(self, receipt: Receipt, status: Status) -> bool:
        """Note what became of a statement; return whether the note was written.

        Never raises for a ledger that can't be written: the charge stands whatever the note says,
        and a statement without one counts as unanswered.
        """
        try:
            with self._store.note() as connection:
                number, query_id = receipt.statement, receipt.query_id
                return rows.set_status(connection, number, query_id, status)
        except LedgerError:
            return False

    def raise_budget(self, identity: str, wanted: BudgetSpec, by: str, reason: str) -> Registration:
        """Raise a registered table's budget to `wanted`, and return the table as it was before.

        by: who asks; only OWNER may. The raise is an entry of the chain, on disk when this returns;
        what was spent stays spent. Raises LedgerError, with nothing written, for an analyst, and
        where any amount would fall, none would grow, or the accountant would change.
        """
        if by != OWNER:
            raise LedgerError(
                f"{by!r} is an analyst, and only the owner raises a budget.",
                hint="ask the owner of the data",
            )
        with self._store.transaction(write=True) as connection:
            known = _registered(connection, identity)
            check_raise(known, wanted)
            number, previous = rows.head(connection)
            amounts = (wanted.epsilon, wanted.delta, wanted.selection_delta)
            entry = Raise(number + 1, _now(), identity, *amounts, reason)
            rows.add_raise(connection, known, entry, previous)
        return known

    def state(self, identity: str, analyst: str | None = None) -> BudgetState:
        """Return how a registered table's budget stands.

        analyst: whose last statement `repeats` is about; None is anybody's.
        """
        with self._store.transaction(write=False) as connection:
            known = _registered(connection, identity)
            totals = rows.sums_of(connection, identity)
            last = rows.last_spend(connection, identity, analyst)
        rule = known.rule
        more = None if last is None else repeats(rule, totals.spent, last)
        used = shares(rule, totals.spent)
        return BudgetState(known, totals.entries, totals.spent, used, more)

    def charged(self, query_id: str) -> frozenset[str]:
        """Return the identities of the tables that a statement was charged to, above nothing."""
        with self._store.transaction(write=False) as connection:
            return rows.charged(connection, query_id)

    def registrations(self) -> list[Registration]:
        """Return all registered tables, by name."""
        with self._store.transaction(write=False) as connection:
            return rows.registrations(connection)

    def raises(self) -> list[Raise]:
        """Return every raise, oldest first."""
        with self._store.transaction(write=False) as connection:
            return [link.entry for link in rows.raises(connection)]

    def entries(self, asked: Asked = _ALL) -> Iterator[Entry]:
        """Yield the charges that are asked for, oldest first; those made meanwhile may be among them."""
        after = 0
        while True:
            with self._store.transaction(write=False) as connection:
                links = rows.page(connection, after, asked)
            if not links:
                return
            yield from (link.entry for link in links)
            after = links[-1].entry.number

    def verify(self, known_head: str | None = None) -> Verification:
        """Read the whole ledger and return what is wrong with it: nothing, in a sound one.

        known_head: the `head` of an earlier verification, which the chain must still hold.
        It finds damaged pages, changed and removed rows, and sums that aren't those of the entries.
        It can't find charges that were cut off at the end together with their sums, unless they come
        before `known_head`.
        """
        with self._store.transaction(write=False) as connection:
            return verify(connection, known_head)

    def export(self, write: Callable[[str], object]) -> None:
        """Give the whole ledger to `write`, line by line, as `export` says. No charge waits for it."""
        from dp_sql.budget.export import lines  # noqa: PLC0415  answers need none

        with self._store.transaction(write=False) as connection:
            for line in lines(rows.registrations(connection), rows.chain(connection)):
                write(line)

    def close(self) -> None:
        """Close the ledger; what it holds stays, unless it is in memory."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _charge(
    connection: sqlite3.Connection, identity: str, costs: list[Cost]
) -> tuple[Registration, list[Spend]]:
    """Add costs to the sums of one table, or raise BudgetExceededError where it has no room for all.

    Returned are the table and what each cost takes from it.
    """
    known = _registered(connection, identity)
    totals = rows.sums_of(connection, identity)
    rule, spent = known.rule, totals.spent
    spends = [price(rule, cost) for cost in costs]
    spend = sum(spends, NOTHING)
    if not fits(rule, spent, spend):
        raise refusal(known.name, rule, spent, reduce(Cost.then, costs))
    rows.put_sums(connection, identity, rows.Sums(totals.entries + len(costs), spent + spend))
    return known, spends


def _append(
    connection: sqlite3.Connection,
    asked: tuple[int, str, StatementRecord],
    known: Registration,
    cost: Cost,
    spend: Spend,
) -> None:
    """Append the entry of one table's charge."""
    number, time, record = asked
    last, previous = rows.head(connection)
    entry = Entry(
        last + 1,
        number,
        record.query_id,
        time,
        record.analyst,
        record.sql,
        Status.RESERVED,
        known.identity,
        spend,
        cost.events,
    )
    rows.add_entry(connection, entry, known.digest, previous)


def _registered(connection: sqlite3.Connection, identity: str) -> Registration:
    known = rows.registration(connection, identity)
    if known is None:
        raise LedgerError(
            f"The ledger knows no table {identity!r}.", hint="register the table before it is read"
        )
    return known


def _check_same(known: Registration, wanted: Registration) -> None:
    """Raise LedgerError unless a table is registered again as it was."""
    if _protection(known.unit) != _protection(wanted.unit):
        raise LedgerError(
            f"`{known.name}` was registered to protect {_unit_words(known.unit)}; now the schema "
            f"says {_unit_words(wanted.unit)}. What was charged so far was priced for the first.",
            hint=f"declare {_unit_words(known.unit)}; {_ANEW}",
        )
    if known.budget != wanted.spec:
        since = "registered with" if known.raised is None else "raised to"
        hint = f"declare {budget_words(known.budget)}; {_ANEW}"
        if not lowered(known.budget, wanted.spec):
            hint = (
                f"`dpsql budget raise SCHEMA {known.name}` raises it to that, for good; or {hint}"
            )
        raise LedgerError(
            f"`{known.name}` was {since} {budget_words(known.budget)}; now the schema says "
            f"{budget_words(wanted.spec)}. Editing a schema changes no budget.",
            hint=hint,
        )


def _protection(unit: PrivacyUnit) -> PrivacyUnit:
    """Return the unit without its name, which promises nothing."""
    return replace(unit, name="")


def _unit_words(unit: PrivacyUnit) -> str:
    words = f"level {unit.level}, adjacency {unit.adjacency}, group_size {unit.group_size}"
    if unit.adjacency is Adjacency.ZERO_OUT:
        words += f", all columns protected but {_names(unit.kept) or 'none'}"
    if unit.radius is not None:
        places = _names(unit.latitudes | unit.longitudes)
        words += f", radius {float(unit.radius):g} of {places}"
    return words


def _names(columns: frozenset[Named]) -> str:
    return ", ".join(sorted(column for _, column in columns))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
