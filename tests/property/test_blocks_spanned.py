"""Neighbours that differ in several blocks: what all of these spend together stays within the rule."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations

from budget_cases import UNIT, budget, gaussian, laplace, selection, statement
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_sql.budget import open_ledger
from dp_sql.budget.accountant import NOTHING, Filter, fits, price
from dp_sql.budget.record import Charge
from dp_sql.errors import BudgetExceededError
from dp_sql.schema.catalog import AccountantKind, BudgetSpec

NAMES = ("mon", "tue", "wed", "thu")
SUMS = [
    budget("1", "1e-6", AccountantKind.PURE, "1e-6"),
    budget("1", "2e-6", AccountantKind.SEQUENTIAL, "0"),
    budget("1", "2e-6", AccountantKind.ZCDP, "1e-6"),
]
COSTS = (
    laplace("0.1"),
    laplace("0.25"),
    selection("0.05", "1e-7"),
    gaussian(20, "0.3", "1e-7"),
    gaussian(80, "0.05", "1e-7"),
)
charges = st.builds(
    Charge, st.sampled_from(COSTS), st.none() | st.frozensets(st.sampled_from(NAMES), min_size=1)
)


def answered(
    spec: BudgetSpec, history: Sequence[Charge], times: int
) -> tuple[Filter, list[Charge]]:
    """Return the rule, and the answers that a ledger lets through that debits names so often."""
    done = []
    with open_ledger(":memory:") as ledger:
        ledger.register("t", "t", UNIT, replace(spec, blocks="day"))
        for one in history:
            owed = one if one.blocks is None else replace(one, cost=one.cost.times(times))
            with suppress(BudgetExceededError):
                ledger.reserve(statement(), {"t": owed})
                done.append(one)
        (known,) = ledger.registrations()
    return known.rule, done


def within(rule: Filter, done: Sequence[Charge], changed: frozenset[str]) -> bool:
    """Return whether all answers that rows of some blocks can change fit, each once."""
    prices = [price(rule, c.cost) for c in done if c.blocks is None or c.blocks & changed]
    return fits(rule, sum(prices, NOTHING), NOTHING)


@settings(deadline=None, max_examples=20)
@given(st.sampled_from(SUMS), st.lists(charges, max_size=14), st.sampled_from([2, 3]))
def test_what_several_blocks_spend_together_is_within_a_rule_of_sums(
    spec: BudgetSpec, history: list[Charge], times: int
) -> None:
    rule, done = answered(spec, history, times)
    for changed in combinations((*NAMES, "a day that nobody named"), times):
        assert within(rule, done, frozenset(changed))


def test_debited_once_two_blocks_spend_more_than_a_budget() -> None:
    history = [Charge(laplace("0.25"), frozenset({name})) for name in ("mon", "tue") * 4]
    rule, done = answered(SUMS[0], history, 1)
    assert len(done) == 8
    assert not within(rule, done, frozenset({"mon", "tue"}))


def test_a_rule_of_either_sum_lets_two_blocks_pass_it_together() -> None:
    """Why `schema.blocks` refuses renyi there: one block keeps the first sum, the other the second."""
    spec = budget("1", "2e-6", AccountantKind.RENYI, "1e-6")
    pure = [Charge(laplace("0.1"), frozenset({"mon"}))] * 6
    noisy = [Charge(gaussian(20), frozenset({"tue"}))] * 12
    rule, done = answered(spec, pure + noisy, 2)
    assert not within(rule, done, frozenset({"mon", "tue"}))
