from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from budget_cases import budget, gaussian, laplace, one_coordinate, rule_of, selection

from dp_sql.budget.accountant import (
    DELTA_UNITS,
    EPSILON_UNITS,
    NOTHING,
    Filter,
    Spend,
    filter_of,
    fits,
    order_of,
    price,
)
from dp_sql.errors import InternalError
from dp_sql.privacy.cost import FREE, Cost
from dp_sql.privacy.event import LaplaceEvent, pure_epsilon
from dp_sql.privacy.renyi import rdp
from dp_sql.schema.catalog import AccountantKind, BudgetSpec

PURE, SEQUENTIAL, ADVANCED, ZCDP, RENYI = AccountantKind


def how_many(rule: Filter, cost: Cost) -> int:
    spend, spent, count = price(rule, cost), NOTHING, 0
    while fits(rule, spent, spend):
        spent, count = spent + spend, count + 1
    return count


@pytest.mark.parametrize(
    ("accountant", "epsilon", "count"),
    [
        (PURE, "0.1", 10),
        (PURE, "0.01", 100),
        (SEQUENTIAL, "0.1", 10),
        (SEQUENTIAL, "0.01", 100),
        (ADVANCED, "0.5", 0),
        (ADVANCED, "0.1", 3),
        (ADVANCED, "0.01", 349),
        (ZCDP, "0.5", 0),
        (ZCDP, "0.1", 4),
        (ZCDP, "0.01", 487),
        (RENYI, "0.5", 2),
        (RENYI, "0.1", 10),
        (RENYI, "0.05", 23),
        (RENYI, "0.01", 492),
    ],
)
def test_how_many_statements_fit_epsilon_one_and_a_filter_delta_of_a_millionth(
    accountant: AccountantKind, epsilon: str, count: int
) -> None:
    assert how_many(rule_of(budget("1", "2e-6", accountant, "1e-6")), laplace(epsilon)) == count


def test_seven_twentieths_and_not_one_more() -> None:
    rule = rule_of(budget("0.35", "0", PURE, "0"))
    assert how_many(rule, laplace("0.05")) == 7


def test_losses_round_up_and_budgets_down() -> None:
    third = Cost(Fraction(1, 3), Fraction(1, 3 * 10**9), (LaplaceEvent(3, one_coordinate(1)),))
    rule = filter_of(BudgetSpec(Fraction(1, 3), Fraction(2, 3), PURE, Fraction(1, 3)), None)
    assert rule.epsilon == EPSILON_UNITS // 3
    assert rule.delta == 2 * DELTA_UNITS // 3
    assert rule.selection_delta == DELTA_UNITS // 3
    spend = price(rule, third)
    assert spend.pure == spend.epsilon == EPSILON_UNITS // 3 + 1
    assert spend.delta == 10**24 // (3 * 10**9) + 1
    assert not fits(rule, NOTHING, spend)


def test_a_loss_below_every_unit_still_costs_one() -> None:
    rule = rule_of(budget())
    tiny = LaplaceEvent(2**80, one_coordinate(1))
    epsilon = pure_epsilon(tiny)
    assert epsilon is not None
    spend = price(rule, Cost(epsilon, Fraction(0), (tiny,)))
    assert (spend.pure, spend.rdp, spend.epsilon) == (1, 1, 1)


def test_renyi_prices_are_those_of_the_tables_order() -> None:
    rule = filter_of(budget(), 7.5)
    spend = price(rule, laplace("0.5") + gaussian(40))
    events = (laplace("0.5") + gaussian(40)).events
    exact = sum(Fraction(rdp(event, 7.5)) for event in events) * EPSILON_UNITS
    assert spend.rdp is not None
    assert 0 <= spend.rdp - exact < 1


def test_gaussian_noise_closes_the_pure_rule_for_good() -> None:
    rule = rule_of(budget("3", "2e-6"))
    spent = price(rule, gaussian(1000))
    assert spent.pure is None
    assert fits(rule, NOTHING, spent)
    spent += price(rule, laplace("0.01"))
    assert spent.pure is None
    # 2 statements of 1/2 fit an untouched epsilon of 1 by the plain sum alone
    one = rule_of(budget("1", "2e-6"))
    assert how_many(one, laplace("0.5")) == 2
    after = price(one, gaussian(1000)) + price(one, laplace("0.5"))
    assert not fits(one, after, price(one, laplace("0.5")))


def test_the_pure_accountant_refuses_gaussian_noise() -> None:
    rule = rule_of(budget("1000", "1e-6", PURE, "1e-6"))
    assert not fits(rule, NOTHING, price(rule, gaussian(10**6)))


def test_the_sequential_accountant_takes_gaussian_noise_at_its_guarantee() -> None:
    rule = rule_of(budget("3", "1e-9", SEQUENTIAL, "0"))
    cost = gaussian(10, epsilon="0.5", delta="3e-10")
    assert how_many(rule, cost) == 3  # delta ends first
    assert how_many(rule, gaussian(10, epsilon="2", delta="1e-12")) == 1


@pytest.mark.parametrize("accountant", [PURE, RENYI])
def test_deltas_of_key_selection_are_summed_apart(accountant: AccountantKind) -> None:
    rule = rule_of(budget("100", "1e-6", accountant, "5e-7"))
    assert how_many(rule, selection("0.01", "1e-7")) == 5
    full = price(rule, selection("0.01", "5e-7"))
    assert fits(rule, NOTHING, full)
    assert not fits(rule, full, price(rule, selection("0.01", "1e-24")))
    assert fits(rule, full, price(rule, laplace("0.01")))


def test_a_statement_that_is_free_fits_a_budget_that_is_used_up() -> None:
    for accountant in (PURE, SEQUENTIAL, RENYI):
        rule = rule_of(budget("1", "0", accountant, "0"))
        full = price(rule, laplace("0.5") + laplace("0.5"))
        assert fits(rule, NOTHING, full)
        assert fits(rule, full, price(rule, FREE))
        assert not fits(rule, full, price(rule, laplace("0.0000000001")))


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_without_a_delta_for_noise_the_renyi_accountant_is_the_pure_sum(delta: str) -> None:
    spec = budget("1", delta, RENYI, delta)
    assert order_of(spec) is None
    rule = rule_of(spec)
    assert rule.rdp < 0
    assert how_many(rule, laplace("0.01")) == 100
    assert not fits(rule, NOTHING, price(rule, gaussian(10**9)))


def test_only_renyi_and_zcdp_have_an_order() -> None:
    for accountant in (PURE, SEQUENTIAL, ADVANCED):
        assert order_of(budget("1", "1e-6", accountant, "0")) is None
    order = order_of(budget("1", "1e-6", RENYI, "0"))
    assert order is not None
    assert order_of(budget("1", "1e-6", ZCDP, "0")) == order


def test_a_divergence_beyond_all_floats_never_fits_the_renyi_rule() -> None:
    rule = rule_of(budget("1e9", "1e-6", RENYI, "0"))
    huge = LaplaceEvent(1, one_coordinate(10**400))
    epsilon = pure_epsilon(huge)
    assert epsilon is not None
    spend = price(rule, Cost(epsilon, Fraction(0), (huge,)))
    assert spend.rdp is None
    assert not fits(rule, NOTHING, spend)


def test_a_cost_without_its_events_is_a_bug() -> None:
    rule = rule_of(budget())
    with pytest.raises(InternalError, match="name the events"):
        price(rule, Cost(Fraction(1, 10), Fraction(0), ()))
    with pytest.raises(InternalError, match="name the events"):
        price(rule, Cost(Fraction(0), Fraction(1, 10), ()))


@pytest.mark.parametrize("wrong", [-1, True, 0.5, float("nan"), float("inf"), "1", Fraction(1)])
def test_amounts_spent_are_integers(wrong: Any) -> None:
    for place in range(5):
        amounts: list[Any] = [0, 0, 0, 0, 0]
        amounts[place] = wrong
        with pytest.raises(ValueError, match="non-negative integer"):
            Spend(*amounts)
