"""Debits: what a statement takes of each account of its tables, inside one transaction of a ledger.

Claim:   in each period, what a named analyst is shown of a table is together within the cap, and what
         everybody is shown within the table's own rule.
Why:     a charge goes to the table's line and, priced by the cap's rule, to the analyst's. Both are
         decided before the answer is drawn, each by a filter of its own. The analyst's answers are
         some of the table's, which ones and at what price the past alone decides, and the filter's
         theorem (`accountant`) holds of them. Answers to others are no part of what this analyst is
         shown: where analysts tell each other, the table's rule is what bounds them.
Assumes: names of analysts are theirs; an answer that is shown again is charged to who sees it first
         (`Charge.learned`).
Source:  [Rogers2016]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import reduce

from dp_sql.budget import accounts, rows
from dp_sql.budget.accountant import NOTHING, Filter, Spend, price
from dp_sql.budget.accounts import Key
from dp_sql.budget.left import Refused, tightest
from dp_sql.budget.lines import Over, Sums, over, together, unbroken
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
from dp_sql.errors import InternalError, LedgerError
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


def with_people(find: Callable[[str], Registration], costs: Owed) -> dict[str, Charge]:
    """Return what a statement owes each table, and each budget over all tables.

    find: returns the table of an identity, as `registered` does.

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
        people = find(identity).people
        if people is not None:
            before = owed[people].cost if people in owed else FREE
            owed[people] = Charge(before.then(owed[identity].cost))
    return owed


def charge_table(
    connection: Transaction,
    known: Registration,
    now: datetime,
    charges: Sequence[tuple[str, Charge]],
) -> tuple[list[Debit], list[Refused]]:
    """Add charges to the accounts of one table. charges: each with its analyst.

    Returned is what each of them takes, and which accounts have no room: then nothing of it may stay.
    """
    if known.spec.blocks is None and any(charge.blocks is not None for _, charge in charges):
        raise InternalError(f"{known.account} has no blocks to charge")
    identity, rule = known.identity, known.rule
    alone = [charge for _, charge in charges]
    spends = [price(rule, charge.cost) for charge in alone]
    totals = rows.sums_of(connection, identity)
    period = ""
    if known.has_lines:
        period = period_at(known.spec.renew, now, accounts.last_period(connection, identity))
        place = connection, Key(identity, "", period)
        refused = _debit(place, known.account, rule, alone, spends)
    else:
        added = together((None, spend) for spend in spends)
        found = over(rule, unbroken(totals), added, tuple)
        refused = _refused(known.account, rule, found, alone)
    rows.put_sums(connection, identity, totals + Sums(len(spends), sum(spends, NOTHING)))
    caps: list[Spend | None] = [None] * len(charges)
    cap_rule = known.cap_rule
    if cap_rule is not None:
        for analyst in sorted({analyst for analyst, _ in charges} - {OWNER}):
            places = [i for i, (by, _) in enumerate(charges) if by == analyst]
            theirs = [alone[i].of_analyst for i in places]
            own = [price(cap_rule, charge.cost) for charge in theirs]
            account = f"the part of {known.account} that is for {analyst}"
            line = connection, Key(identity, analyst, period)
            refused += _debit(line, account, cap_rule, theirs, own)
            for i, spend in zip(places, own, strict=True):
                caps[i] = spend
    debits = [
        Debit(
            known,
            charge.cost,
            spend,
            Scope(period, charge.blocks, cap) if known.has_terms else None,
        )
        for charge, spend, cap in zip(alone, spends, caps, strict=True)
    ]
    return debits, refused


def _debit(
    place: tuple[Transaction, Key],
    account: str,
    rule: Filter,
    charges: Sequence[Charge],
    spends: Sequence[Spend],
) -> list[Refused]:
    """Add charges to a line; return where it has no room for all of them."""
    blocks = {block for charge in charges for block in charge.blocks or ()}
    line = accounts.line_of(*place, blocks)
    added = together(zip((charge.blocks for charge in charges), spends, strict=True))
    found = over(rule, line, added, lambda: accounts.blocks_of(*place))
    refused = _refused(account, rule, found, charges)
    if not refused:
        accounts.put_line(*place, line.plus(added))
    return refused


def _refused(
    account: str, rule: Filter, found: Iterable[Over], charges: Sequence[Charge]
) -> list[Refused]:
    """Return the block that leaves least of the account, where some leave too little."""
    refused = []
    for each in found:
        of = account if each.block is None else f"block {each.block} of {account}"
        costs = [c.cost for c in charges if c.blocks is None or each.block in c.blocks]
        refused.append(Refused(of, rule, each.spent, reduce(Cost.then, costs)))
    return [tightest(refused)] if refused else []


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
