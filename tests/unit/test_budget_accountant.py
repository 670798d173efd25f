from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from budget_cases import budget, coins, gaussian, laplace, one_coordinate, rule_of, selection

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
from dp_sql.privacy.event import Event, LaplaceEvent, PureEvent, pure_epsilon
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


@pytest.mark.parametrize(
    ("epsilon", "count"), [("0.5", 2), ("0.1", 10), ("0.05", 22), ("0.01", 490)]
)
def test_epsilon_one_fits_ten_tenths_and_490_hundredths_of_any_pure_mechanism(
    epsilon: str, count: int
) -> None:
    """The counts that hold whatever the statement's mechanism is, for epsilon 1 and delta 1e-6.

    The delta is that of the filter; key selection has as much beside it. An event of which nothing is
    known but its epsilon is priced as randomised response, the worst of all such mechanisms. So is a
    count under discrete Laplace noise of scale 1/epsilon on the integers: it moves by one step, and
    the loss of each answer is +epsilon or -epsilon and nothing between. On the finer lattice on which
    statements get their noise a count moves by many steps. Then answers between its two values lose
    less than epsilon, which the curve of discrete Laplace noise knows: 23 of 0.05 and 492 of 0.01 fit.
    """
    rule = rule_of(budget("1", "2e-6", RENYI, "1e-6"))
    exact = Fraction(epsilon)
    generic: Event = PureEvent(exact)
    one_step: Event = LaplaceEvent((1 / exact).numerator, one_coordinate(1))
    for event in (generic, one_step):
        assert how_many(rule, Cost(exact, Fraction(0), (event,))) == count
    assert how_many(rule, laplace(epsilon)) >= count


def test_zcdp_adds_rho_at_all_orders_and_takes_gaussian_noise() -> None:
    rule = rule_of(budget("1", "2e-6", ZCDP, "1e-6"))
    assert how_many(rule, gaussian(50)) == 121
    assert how_many(rule, gaussian(10)) == 4
    spend = price(rule, gaussian(50) + laplace("0.1"))
    assert spend.rdp == EPSILON_UNITS // 5000 + EPSILON_UNITS // 200
    assert not fits(rule, NOTHING, price(rule, laplace("0.5")))


def test_advanced_composition_takes_gaussian_noise_at_its_guarantee() -> None:
    rule = rule_of(budget("1", "2e-6", ADVANCED, "1e-6"))
    cost = gaussian(10, epsilon="0.05", delta="1e-7")
    assert price(rule, cost).rdp == EPSILON_UNITS // 400
    assert how_many(rule, cost) == 10  # the deltas of statements end first
    assert how_many(rule, gaussian(10, epsilon="0.05", delta="1e-9")) == 13


def test_the_parts_of_a_statement_are_steps_of_advanced_composition() -> None:
    rule = rule_of(budget("1", "2e-6", ADVANCED, "1e-6"))
    noisy = gaussian(10, epsilon="0.1", delta="1e-9")
    for cost in (noisy.then(noisy), FREE.then(noisy).then(noisy), noisy.then(FREE.then(noisy))):
        assert price(rule, cost).rdp == 2 * EPSILON_UNITS // 100
    # of joint noise only the sum of the shares is a guarantee, not each of them
    assert price(rule, noisy + noisy).rdp == 4 * EPSILON_UNITS // 100
    assert price(rule, noisy.then(noisy) + FREE).rdp == 4 * EPSILON_UNITS // 100
    two = laplace("0.1").events * 2
    assert price(rule, Cost(Fraction(1, 5), Fraction(0), two)).rdp == 2 * EPSILON_UNITS // 100


@pytest.mark.parametrize("accountant", [ADVANCED, ZCDP])
def test_without_a_delta_for_noise_nothing_but_what_is_free_fits(
    accountant: AccountantKind,
) -> None:
    for spec in (budget("1", "0", accountant, "0"), budget("1", "1e-6", accountant, "1e-6")):
        rule = rule_of(spec)
        assert rule.rdp == 0
        assert fits(rule, NOTHING, price(rule, FREE))
        assert not fits(rule, NOTHING, price(rule, laplace("0.0000000001")))


def test_a_delta_of_key_selection_that_a_cost_left_out_is_counted() -> None:
    rule = rule_of(budget("1", "2e-6", ADVANCED, "1e-6"))
    (event,) = selection("0.01", "3e-7").events
    assert how_many(rule, Cost(Fraction(1, 100), Fraction(0), (event,))) == 3


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


@pytest.mark.parametrize("accountant", [PURE, ADVANCED, ZCDP, RENYI])
def test_deltas_of_key_selection_are_summed_apart(accountant: AccountantKind) -> None:
    rule = rule_of(budget("100", "1e-6", accountant, "5e-7"))
    assert how_many(rule, selection("0.01", "1e-7")) == 5
    full = price(rule, selection("0.01", "5e-7"))
    assert fits(rule, NOTHING, full)
    assert not fits(rule, full, price(rule, selection("0.01", "1e-24")))
    assert fits(rule, full, price(rule, laplace("0.01")))


@pytest.mark.parametrize("keys", [1, 3])
@pytest.mark.parametrize(("accountant", "count"), [(PURE, 100), (SEQUENTIAL, 100), (RENYI, 490)])
def test_coins_cost_their_epsilon_and_a_delta_apart(
    accountant: AccountantKind, count: int, keys: int
) -> None:
    rule = rule_of(budget("1", "2e-6", accountant, "1e-6"))
    assert how_many(rule, coins("0.01", "1e-6", keys)) == 1 + (accountant is SEQUENTIAL)
    assert how_many(rule, coins("0.01", "1e-12", keys)) >= count
    assert price(rule, coins("0.03", "3e-9", keys)).selection_delta == DELTA_UNITS * 3 // 10**9


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
