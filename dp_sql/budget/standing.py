"""How a table's budget stands, read from the accounts of a ledger in one transaction."""

from __future__ import annotations

from datetime import datetime

from dp_sql.budget import accounts, charges, rows
from dp_sql.budget.accountant import Filter, Spend
from dp_sql.budget.accounts import Key
from dp_sql.budget.damage import readable
from dp_sql.budget.debit import registered
from dp_sql.budget.left import repeats
from dp_sql.budget.lines import Blocks, Line, unbroken
from dp_sql.budget.periods import next_period, period_at
from dp_sql.budget.record import OWNER, Registration, Scope
from dp_sql.budget.state import BudgetState, Part, Period, fewest
from dp_sql.budget.store import Transaction
from dp_sql.schema.catalog import Renew


def standing(
    connection: Transaction,
    identity: str,
    now: datetime,
    analyst: str | None,
    blocks: Blocks = None,
) -> BudgetState:
    """Return how a registered table stands. analyst: who looks; None is the owner, who sees all.

    blocks: those that are looked at, None for all.
    """
    known = registered(connection, identity)
    totals = rows.sums_of(connection, identity)
    last = charges.last_charge(connection, identity, analyst)
    period = _period(connection, known, now)
    key = Key(identity, "", period.name if period is not None else "")
    scope = None if last is None else last.scope
    looked = (blocks or frozenset()) | ((None if scope is None else scope.blocks) or frozenset())
    line = accounts.line_of(connection, key, looked) if known.has_lines else unbroken(totals)
    counts = []
    if last is not None:
        counts.append(_repeats(known.rule, line, last.spend, scope))
    parts, cap_rule = [], known.cap_rule
    if cap_rule is not None:
        last_of = None if last is None or last.analyst == OWNER else last.analyst
        for name in accounts.analysts_of(connection, key) if analyst is None else [analyst]:
            own = accounts.line_of(connection, Key(identity, name, key.period), looked)
            parts.append(Part(name, cap_rule, own.most(blocks)))
            if name == last_of and scope is not None and scope.cap is not None:
                counts.append(_repeats(cap_rule, own, scope.cap, scope))
    people = None
    if known.people is not None:
        people = standing(connection, known.people, now, analyst)
        spend = None if last is None else charges.spend_of(connection, last.statement, known.people)
        if spend is not None:
            counts.append(repeats(people.registration.rule, people.spent, spend))
    return BudgetState(
        known,
        totals.entries,
        line.most(blocks),
        line.every.spent,
        fewest(counts),
        period,
        tuple(parts),
        people,
        own=analyst is not None,
    )


def _period(connection: Transaction, known: Registration, now: datetime) -> Period | None:
    renew = known.spec.renew
    if renew is Renew.NEVER:
        return None
    name = period_at(renew, now, accounts.last_period(connection, known.identity))
    with readable(f"the period of {known.identity!r}"):
        return Period(name, next_period(renew, name), early=name != period_at(renew, now, ""))


def named_blocks(connection: Transaction, identity: str, now: datetime) -> list[tuple[str, Spend]]:
    """Return the blocks of a table that were debited by name, and all that each has spent."""
    period = _period(connection, registered(connection, identity), now)
    key = Key(identity, "", period.name if period is not None else "")
    every = accounts.line_of(connection, key).every.spent
    return [(name, every + own) for name, own in accounts.blocks_of(connection, key)]


def _repeats(rule: Filter, line: Line, spend: Spend, scope: Scope | None) -> int | None:
    """Return how many more like a charge fit: at least so many, where it was one to every block."""
    if scope is None or scope.blocks is None:
        return repeats(rule, line.fullest, spend)
    return fewest(repeats(rule, line.at(block), spend) for block in scope.blocks)
