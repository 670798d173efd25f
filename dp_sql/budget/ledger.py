"""The ledger: every charge of every account, durable before an answer is drawn.

Claim:   no answer without its charge: when `reserve` returns, the charges of every table that the
         statement reads, of the blocks of it, of the analyst and of the budget over all tables are on
         disk, and all charges together fit the rule of each of these accounts.
Why:     one transaction that no other overlaps reads what was spent, decides, and appends; it is
         synced before `reserve` returns, and it raises if any of that failed. Nothing takes a
         charge back. Which accounts a table has is registered with it, for life, so no caller and no
         edited schema leaves one out (`lines` and `periods` say what they add up to).
         A raise is such a transaction too: it changes what fits, never what was spent, and is one
         link of the same chain.
Assumes: the caller reserves before it reads data, and what its store assumes (`sqlite`, `postgres`).
         Who may call `raise_budget` is whoever may write the file or owns the tables: names of
         analysts are told apart, and proved by database roles alone (`postgres_layout`).
Source:  [Rogers2016] for the filters that decide; see `accountant`.

A process that dies, or a commit whose success can't be known, leaves a charge without an answer at
worst, and the ledger shows it: its status stays "reserved". Only the period of a budget that is
renewed depends on a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from types import TracebackType
from typing import Self

from dp_sql.budget import rows
from dp_sql.budget.accountant import Spend, order_of
from dp_sql.budget.charges import charged
from dp_sql.budget.debit import Debit, Owed, append, charge_table, registered, with_people
from dp_sql.budget.left import Refused, refusal_of_all
from dp_sql.budget.lines import Blocks
from dp_sql.budget.moved import account_of
from dp_sql.budget.raising import ANEW, budget_words, check_raise, lowered
from dp_sql.budget.record import (
    OWNER,
    PEOPLE,
    Asked,
    Entry,
    Raise,
    Receipt,
    Registration,
    StatementRecord,
    Status,
    Verification,
    people_identity,
)
from dp_sql.budget.standing import named_blocks, standing
from dp_sql.budget.state import BudgetState
from dp_sql.budget.store import Store, Transaction
from dp_sql.budget.verify import verify
from dp_sql.errors import LedgerError
from dp_sql.privacy.unit import Adjacency, Level, Named, PrivacyUnit
from dp_sql.schema.catalog import BudgetSpec, ascii_lower

_ALL = Asked()


class Ledger:
    """The charges of all tables. Threads may share one; processes open their own on one file.

    Every method raises LedgerError where the ledger can't be read or written, is damaged or closed.
    clock: the time now, for the period of a charge and for what people read.
    """

    def __init__(self, store: Store, clock: Callable[[], datetime] | None = None) -> None:
        self._store = store
        self._clock = clock or _now

    def register(
        self,
        identity: str,
        name: str,
        unit: PrivacyUnit,
        spec: BudgetSpec,
        people: str | None = None,
    ) -> None:
        """Make a table known under its identity, with the unit and the budget that it has for life.

        name: as the schema has it. What the unit says of other tables isn't kept. people: the name of
        the budget over all tables that its statements are charged to too; `register_people` first.
        Does nothing where it is known with the same ones. Raises LedgerError where they differ: the
        charges so far were priced for the old unit, and a budget isn't raised by editing a schema.
        A table that was registered without an owner is compared without one.
        """
        over_all = None if people is None else people_identity(people)
        own = unit.of_table(ascii_lower(name))
        self._register(identity, name, own, spec, over_all)

    def register_people(self, name: str, unit: PrivacyUnit, spec: BudgetSpec) -> None:
        """Make a budget known that all statements on all tables of one name of people share.

        name: what the unit is called. It is charged, once a statement, the sum of what its tables are.
        Raises LedgerError as `register` does.
        """
        self._register(people_identity(name), name, unit.of_table(""), spec, None)

    def _register(
        self, identity: str, name: str, unit: PrivacyUnit, spec: BudgetSpec, people: str | None
    ) -> None:
        cap = spec.of_analyst
        wanted = Registration(
            *(identity, name, unit, spec, order_of(spec), _text(self._clock())),
            cap_alpha=None if cap is None else order_of(cap),
            people=people,
        )
        with self._store.transaction(write=True) as connection:
            known = rows.registration(connection, identity)
            if known is not None:
                _check_same(known, wanted)
                return
            if people is not None:
                registered(connection, people)
            rows.add_registration(connection, wanted)

    def reserve(self, statement: StatementRecord, costs: Owed) -> Receipt:
        """Charge a statement to every account of every table that it reads: all of them, or none.

        costs: by the identity of each table. What follows from them is charged too: the blocks that
        are named, the line of the analyst, and the budget over all tables.
        The charge is on disk when this returns. Raises BudgetExceededError, with nothing charged,
        where an account has no room. Raises LedgerError for a table that isn't registered
        and where the ledger can't be written: then nothing was charged, or the charge stands
        without an answer. Raises InternalError for blocks of a table that has none.
        """
        (receipt,) = self.reserve_all([(statement, costs)])
        return receipt

    def reserve_all(self, asked: Sequence[tuple[StatementRecord, Owed]]) -> tuple[Receipt, ...]:
        """Charge several statements in one transaction, as `reserve` does one: all of them, or none."""
        with self._store.transaction(write=True) as connection:
            now = self._clock()
            records = [record for record, _ in asked]
            numbers = [rows.add_statement(connection, record, _text(now)) for record in records]
            debits, refused = _charge(connection, now, asked)
            if refused:
                raise refusal_of_all(refused)
            for number, record, made in zip(numbers, records, debits, strict=True):
                for debit in made:
                    append(connection, (number, _text(now), record), debit)
        return tuple(
            Receipt(number, record.query_id)
            for number, record in zip(numbers, records, strict=True)
        )

    def has_room(self, asked: Sequence[tuple[StatementRecord, Owed]]) -> bool:
        """Return whether `reserve_all` would charge these statements now. Nothing is charged.

        It is decided as there, in a transaction that is undone.
        """
        refused: list[Refused] = []
        with suppress(_UndoneError), self._store.transaction(write=True) as connection:
            _, refused = _charge(connection, self._clock(), asked)
            raise _UndoneError
        return not refused

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
            known = registered(connection, identity)
            check_raise(known, wanted)
            number, previous = rows.head(connection)
            amounts = (wanted.epsilon, wanted.delta, wanted.selection_delta)
            time = _text(self._clock())
            entry = Raise(number + 1, time, identity, *amounts, reason, wanted.cap)
            rows.add_raise(connection, known, entry, previous)
        return known

    def state(
        self, identity: str, analyst: str | None = None, blocks: Blocks = None
    ) -> BudgetState:
        """Return how a registered table's budget stands.

        analyst: who looks: `repeats` is about his or her last statement, and `parts` holds that
        account alone; None is the owner, who sees all. blocks: those that are looked at, None for all.
        """
        with self._store.transaction(write=False) as connection:
            return standing(connection, identity, self._clock(), analyst, blocks)

    def blocks(self, identity: str) -> list[tuple[str, Spend]]:
        """Return the blocks of a table that were debited by name, and all that each has spent."""
        with self._store.transaction(write=False) as connection:
            return named_blocks(connection, identity, self._clock())

    def charged(self, query_id: str) -> frozenset[str]:
        """Return the identities of the tables that a statement was charged to, above nothing."""
        with self._store.transaction(write=False) as connection:
            return charged(connection, query_id)

    def registrations(self) -> list[Registration]:
        """Return all registered tables, by name."""
        with self._store.transaction(write=False) as connection:
            return rows.registrations(connection)

    def account_of(
        self, identity: str, name: str, there: Callable[[str], bool] | None = None
    ) -> str:
        """Return the identity under which a table's data are known, also where they were moved.

        there: whether the table's database has a table of a name, where it is open. Raises LedgerError
        where it can't be told; see `moved`.
        """
        known = [(table.identity, table.name) for table in self.registrations()]
        return account_of(identity, name, known, there)

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
            self._store.check_whole(connection)
            return verify(connection, self._store.damage(connection), known_head)

    def export(self, write: Callable[[str], object]) -> None:
        """Give the whole ledger to `write`, line by line, as `export` says. No charge waits for it."""
        from dp_sql.budget.export import lines  # noqa: PLC0415  answers need none

        with self._store.transaction(write=False) as connection:
            self._store.check_whole(connection)
            for line in lines(rows.registrations(connection), rows.chain(connection)):
                write(line)

    def grant(self, role: str, analyst: str) -> list[str]:
        """Let a role of the ledger's database ask as `analyst`, and no more; return what was run.

        Raises LedgerError where the database knows no roles or this one may not grant.
        """
        return self._store.grant(role, analyst)

    @property
    def store(self) -> Store:
        """The database that it lives in."""
        return self._store

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


class _UndoneError(Exception):
    """Ends a transaction of which nothing is to stay."""


def _charge(
    connection: Transaction,
    now: datetime,
    asked: Sequence[tuple[StatementRecord, Owed]],
) -> tuple[list[list[Debit]], list[Refused]]:
    """Add statements to all accounts; return their debits, and which accounts have no room.

    Where one has none, nothing of it may stay.
    """
    debits: list[list[Debit]] = [[] for _ in asked]
    refused: list[Refused] = []
    find = cache(partial(registered, connection))
    owed = [with_people(find, costs) for _, costs in asked]
    for identity in sorted({identity for costs in owed for identity in costs}):
        known = find(identity)
        these = [(i, costs[identity]) for i, costs in enumerate(owed) if identity in costs]
        charges = [(asked[i][0].analyst, charge) for i, charge in these]
        debited, without_room = charge_table(connection, known, now, charges)
        shared = known.is_of_people and any(len(owed[i]) > 2 for i, _ in these)
        refused += [replace(each, shared=shared) for each in without_room]
        for (i, _), debit in zip(these, debited, strict=True):
            debits[i].append(debit)
    return debits, refused


def _check_same(known: Registration, wanted: Registration) -> None:
    """Raise LedgerError unless a table is registered again as it was."""
    if _protection(known.unit, known) != _protection(wanted.unit, known):
        raise LedgerError(
            f"`{known.name}` was registered to protect {_unit_words(known.unit)}; now the schema "
            f"says {_unit_words(wanted.unit)}. What was charged so far was priced for the first.",
            hint=f"declare {_unit_words(known.unit)}; {ANEW}",
        )
    if known.people != wanted.people:
        raise LedgerError(
            f"`{known.name}` was registered {_people_words(known)}; now the schema has it "
            f"{_people_words(wanted)}. What it was charged so far was not charged to the other.",
            hint=f"leave `privacy.budget` and `privacy.unit` as they were; {ANEW}",
        )
    if known.budget != wanted.spec:
        since = "registered with" if known.raised is None else "raised to"
        hint = f"declare {budget_words(known.budget)}; {ANEW}"
        if not lowered(known.budget, wanted.spec):
            hint = (
                f"`dpsql budget raise SCHEMA {known.name}` raises it to that, for good; or {hint}"
            )
        raise LedgerError(
            f"`{known.name}` was {since} {budget_words(known.budget)}; now the schema says "
            f"{budget_words(wanted.spec)}. Editing a schema changes no budget.",
            hint=hint,
        )


def _people_words(known: Registration) -> str:
    if known.people is None:
        return "without a budget over all tables"
    return f"under the budget of each `{known.people.removeprefix(PEOPLE)}` over all tables"


def _protection(unit: PrivacyUnit, known: Registration) -> PrivacyUnit:
    """Return what must be the same of a unit: of rows not their name, and what was told of owners."""
    name = "" if known.unit.level is Level.EVENT else ascii_lower(unit.name)
    return replace(unit, name=name, owner=unit.owner if known.unit.owner else "")


def _unit_words(unit: PrivacyUnit) -> str:
    words = f"level {unit.level}, adjacency {unit.adjacency}, group_size {unit.group_size}"
    if unit.level is Level.USER:
        words += f", unit {unit.name}"
    if unit.owner:
        words += f", owner {unit.owner}"
    if unit.adjacency is Adjacency.ZERO_OUT:
        words += f", all columns protected but {_names(unit.kept) or 'none'}"
    if unit.radius is not None:
        places = _names(unit.latitudes | unit.longitudes)
        words += f", radius {float(unit.radius):g} of {places}"
    return words


def _names(columns: frozenset[Named]) -> str:
    return ", ".join(sorted(column for _, column in columns))


def _now() -> datetime:
    return datetime.now(UTC)


def _text(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
