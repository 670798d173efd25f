"""Debits: what a statement takes of each account of its tables, inside one transaction of a ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce

from dp_sql.budget import accounts, rows
from dp_sql.budget.accountant import NOTHING, Filter, Spend, price
from dp_sql.budget.accounts import Key
from dp_sql.budget.left import refusal
from dp_sql.budget.lines import Line, Over, Sums, over, together
from dp_sql.budget.periods import period_at
from dp_sql.budget.record import (
    OWNER,
    Charge,
    Entry,
    Registration,
    Scope,
    StatementRecord,
    Status,
)
from dp_sql.budget.store import Transaction
from dp_sql.dataclass import dataclass
from dp_sql.errors import BudgetExceededError, InternalError, LedgerError
from dp_sql.privacy.cost import FREE, Cost

Owed = Mapping[str, Cost | Charge]
"""What a statement costs each table that it reads, by identity; a Cost alone is one to every block."""


@dataclass(frozen=True, slots=True)
class Debit:
    """What one statement takes of one table."""

    known: Registration
    cost: Cost
    spend: Spend
    scope: Scope | None


def with_people(connection: Transaction, costs: Owed) -> dict[str, Charge]:
    """Return what a statement owes each table, and each budget over all tables.

    Claim:   a statement takes of the budget over all tables no less than what its unit loses by it.
    Why:     the cost of a release is for a neighbour that changes all that the unit owns, in whatever
             tables the release reads, and is part of what the statement owes each of these. So the
             sum over tables holds every release of the statement once or more often; amounts add up
             and are never negative.
    Assumes: units own rows of several tables by one key, as at level `user`.
    Source:  [Dwork2006b] (losses of releases add up)
    """
    owed: dict[str, Charge] = {}
    for identity in sorted(costs):
        given = costs[identity]
        owed[identity] = given if isinstance(given, Charge) else Charge(given)
    for identity in tuple(owed):
        people = registered(connection, identity).people
        if people is not None:
            before = owed[people].cost if people in owed else FREE
            owed[people] = Charge(before.then(owed[identity].cost))
    return owed


def charge(
    connection: Transaction,
    known: Registration,
    now: datetime,
    charges: Sequence[tuple[str, Charge]],
) -> list[Debit]:
    """Add charges to the accounts of one table, or raise BudgetExceededError where one has no room.

    charges: each with its analyst. Returned is what each of them takes.
    """
    if known.spec.blocks is None and any(charge.blocks is not None for _, charge in charges):
        raise InternalError(f"{known.account} has no blocks to charge")
    identity, rule = known.identity, known.rule
    period = ""
    if known.has_lines:
        period = period_at(known.spec.renew, now, accounts.last_period(connection, identity))
    alone = [charge for _, charge in charges]
    spends = [price(rule, charge.cost) for charge in alone]
    totals = rows.sums_of(connection, identity)
    if known.has_lines:
        _debit(connection, Key(identity, "", period), known.account, rule, alone, spends)
    else:
        _check(rule, Line(totals), known.account, alone, spends, None)
    rows.put_sums(connection, identity, totals + Sums(len(spends), sum(spends, NOTHING)))
    caps: list[Spend | None] = [None] * len(charges)
    cap_rule = known.cap_rule
    if cap_rule is not None:
        for analyst in sorted({analyst for analyst, _ in charges} - {OWNER}):
            places = [i for i, (by, _) in enumerate(charges) if by == analyst]
            theirs = [alone[i] for i in places]
            own = [price(cap_rule, charge.cost) for charge in theirs]
            account = f"the part of {known.account} that is for {analyst}"
            _debit(connection, Key(identity, analyst, period), account, cap_rule, theirs, own)
            for i, spend in zip(places, own, strict=True):
                caps[i] = spend
    return [
        Debit(
            known,
            charge.cost,
            spend,
            Scope(period, charge.blocks, cap) if known.has_terms else None,
        )
        for charge, spend, cap in zip(alone, spends, caps, strict=True)
    ]


def _debit(
    connection: Transaction,
    key: Key,
    account: str,
    rule: Filter,
    charges: Sequence[Charge],
    spends: Sequence[Spend],
) -> None:
    """Add charges to a line, or raise BudgetExceededError where it has no room for all."""
    blocks = {block for charge in charges for block in charge.blocks or ()}
    line = accounts.line_of(connection, key, blocks)
    after = _check(rule, line, account, charges, spends, (connection, key))
    accounts.put_line(connection, key, after)


def _check(
    rule: Filter,
    line: Line,
    account: str,
    charges: Sequence[Charge],
    spends: Sequence[Spend],
    place: tuple[Transaction, Key] | None,
) -> Line:
    """Return a line after charges, or raise BudgetExceededError. place: None for one of no blocks."""
    blocks = [charge.blocks for charge in charges]
    added = together(zip(blocks, spends, strict=True))
    found = over(rule, line, added, lambda: () if place is None else accounts.blocks_of(*place))
    if found is None:
        return line.plus(added)
    raise _refusal(account, rule, found, charges)


def _refusal(
    account: str, rule: Filter, found: Over, charges: Sequence[Charge]
) -> BudgetExceededError:
    """Return the error for charges that don't fit, which names the block that has no room."""
    costs = [
        charge.cost for charge in charges if charge.blocks is None or found.block in charge.blocks
    ]
    where = account if found.block is None else f"block {found.block} of {account}"
    return refusal(where, rule, found.spent, reduce(Cost.then, costs))


def append(connection: Transaction, asked: tuple[int, str, StatementRecord], debit: Debit) -> None:
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
        debit.known.identity,
        debit.spend,
        debit.cost.events,
        debit.scope,
    )
    rows.add_entry(connection, entry, debit.known.digest, previous)


def registered(connection: Transaction, identity: str) -> Registration:
    """Return a table that must be registered. Raises LedgerError where it isn't."""
    known = rows.registration(connection, identity)
    if known is None:
        raise LedgerError(
            f"The ledger knows no table {identity!r}.", hint="register the table before it is read"
        )
    return known
