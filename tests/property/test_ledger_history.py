"""Any history of a ledger: sums are those of the entries, amounts never fall, changes show."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from budget_cases import UNIT, budget, gaussian, laplace, selection, statement
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_sql.budget import open_ledger
from dp_sql.budget.accountant import NOTHING, Spend, fits, price
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.record import Status
from dp_sql.errors import BudgetExceededError
from dp_sql.privacy.cost import FREE, Cost
from dp_sql.schema.catalog import AccountantKind, Renew

SPECS = {
    "pure": budget("1", "1e-6", AccountantKind.PURE, "1e-6"),
    "sequential": budget("2", "1e-6", AccountantKind.SEQUENTIAL, "0"),
    "advanced": budget("1", "2e-6", AccountantKind.ADVANCED, "1e-6"),
    "zcdp": budget("1", "2e-6", AccountantKind.ZCDP, "1e-6"),
    "renyi": budget("1", "2e-6", AccountantKind.RENYI, "1e-6"),
    "lines": replace(budget("1", "2e-6"), renew=Renew.YEARLY, blocks="day"),
}
TABLES = ["entries", "statements", "sums", "tables", "accounts", "scopes", "terms"]

costs = st.sampled_from(
    [
        FREE,
        laplace("0.01"),
        laplace("0.1"),
        laplace("0.5"),
        selection("0.1", "4e-7"),
        gaussian(20, "0.3", "1e-7"),
        gaussian(4, "1", "4e-7"),
        laplace("0.1") + selection("0.05", "1e-7"),
    ]
)
statements = st.dictionaries(st.sampled_from(sorted(SPECS)), costs, min_size=1)
histories = st.lists(statements, max_size=12)


def new_ledger() -> Ledger:
    ledger = open_ledger(":memory:")
    for identity, spec in SPECS.items():
        ledger.register(identity, identity, UNIT, spec)
    return ledger


def amounts(spend: Spend) -> list[float]:
    whole = (spend.pure, spend.rdp, spend.selection_delta, spend.epsilon, spend.delta)
    return [float("inf") if amount is None else amount for amount in whole]


def run(ledger: Ledger, asked: dict[str, Cost]) -> bool:
    try:
        receipt = ledger.reserve(statement(), asked)
    except BudgetExceededError:
        return False
    return ledger.finish(receipt, Status.ANSWERED)


@settings(deadline=None, max_examples=40)
@given(histories)
def test_a_ledger_is_the_sum_of_what_it_admitted(history: list[dict[str, Cost]]) -> None:
    with new_ledger() as ledger:
        expected = dict.fromkeys(SPECS, NOTHING)
        rules = {known.identity: known.rule for known in ledger.registrations()}
        for asked in history:
            prices = {identity: price(rules[identity], cost) for identity, cost in asked.items()}
            allowed = all(fits(rules[i], expected[i], spend) for i, spend in prices.items())
            before = {identity: ledger.state(identity).spent for identity in SPECS}
            assert run(ledger, asked) == allowed
            for identity in SPECS:
                after = ledger.state(identity).spent
                if allowed and identity in prices:
                    expected[identity] += prices[identity]
                assert after == expected[identity]
                pairs = zip(amounts(before[identity]), amounts(after), strict=True)
                assert all(one <= other for one, other in pairs)
        for identity in SPECS:
            mine = [entry.spend for entry in ledger.entries() if entry.identity == identity]
            assert reduce(Spend.__add__, mine, NOTHING) == expected[identity]
        assert ledger.verify().problems == ()


@settings(deadline=None, max_examples=40)
@given(
    st.lists(statements, min_size=3, max_size=8),
    st.sampled_from(TABLES),
    st.data(),
)
def test_verify_finds_any_row_that_was_changed_or_removed(
    history: list[dict[str, Cost]], table: str, data: st.DataObject
) -> None:
    with new_ledger() as ledger:
        for asked in history:
            run(ledger, asked)
        raw = ledger._store._connection
        assert raw is not None
        raw.execute("PRAGMA foreign_keys = OFF")
        raw.execute("PRAGMA ignore_check_constraints = ON")
        rows = raw.execute(f"SELECT rowid AS row_, * FROM {table}")
        names = [description[0] for description in rows.description]
        found = [dict(zip(names, values, strict=True)) for values in rows]
        if not found:
            return  # nothing fitted
        row = data.draw(st.sampled_from(found))
        column = data.draw(st.sampled_from(["row_", *sorted({*names} - {"row_", "status"})]))
        where = f"WHERE rowid = {row['row_']}"
        if column == "row_":
            raw.execute(f"DELETE FROM {table} {where}")
        else:
            other = f"{row[column]}1" if isinstance(row[column], str) else (row[column] or 0) + 77
            raw.execute(f"UPDATE {table} SET {column} = ? {where}", (other,))
        assert ledger.verify().problems
