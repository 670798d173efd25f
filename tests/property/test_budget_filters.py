"""Laws of the accountants: order doesn't matter, nothing is given back, nothing fits by luck."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import reduce

from budget_cases import rule_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st

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
from dp_sql.privacy.concentrated import rho_budget, squares_budget, zcdp
from dp_sql.privacy.contribution import Change
from dp_sql.privacy.cost import Cost
from dp_sql.privacy.event import (
    Event,
    GaussianEvent,
    KeySelectionEvent,
    LaplaceEvent,
    pure_epsilon,
    selection_delta,
)
from dp_sql.schema.catalog import AccountantKind, BudgetSpec

shifts = st.tuples(st.integers(0, 50), st.integers(0, 4))
changes = st.lists(shifts, max_size=3).map(lambda profile: Change((tuple(profile),)))
laplace_events = st.builds(LaplaceEvent, st.integers(1, 5000), changes)
noises = laplace_events | st.builds(GaussianEvent, st.integers(1, 500), st.integers(0, 30))
small_deltas = st.integers(0, 10**6).map(lambda n: Fraction(n, 10**13))
events = noises | st.builds(KeySelectionEvent, noises, small_deltas)


@st.composite
def costs(draw: st.DrawFn) -> Cost:
    chosen = tuple(draw(st.lists(events, min_size=1, max_size=3)))
    pure = sum((pure_epsilon(event) or Fraction(0) for event in chosen), Fraction(0))
    delta = sum(map(selection_delta, chosen), Fraction(0))
    return Cost(pure + draw(st.integers(0, 3)), delta, chosen)


@st.composite
def specs(draw: st.DrawFn) -> BudgetSpec:
    epsilon = Fraction(draw(st.integers(1, 10**5)), 1000)
    delta = Fraction(draw(st.integers(1, 10**6)), 10**9)
    kind = draw(st.sampled_from(AccountantKind))
    return BudgetSpec(epsilon, delta, kind, delta * draw(st.integers(0, 4)) / 4)


def run(rule: Filter, spends: list[Spend]) -> list[bool]:
    """Return which spends a table admits that is asked for one after the other."""
    spent, admitted = NOTHING, []
    for spend in spends:
        ok = fits(rule, spent, spend)
        admitted.append(ok)
        if ok:
            spent += spend
    return admitted


@settings(deadline=None)
@given(specs(), st.lists(costs(), max_size=6), st.randoms(use_true_random=False))
def test_sums_and_decisions_do_not_depend_on_the_order_of_the_past(
    spec: BudgetSpec, asked: list[Cost], random: object
) -> None:
    rule = rule_of(spec)
    spends = [price(rule, cost) for cost in asked]
    shuffled = list(spends)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    total = reduce(Spend.__add__, spends, NOTHING)
    assert reduce(Spend.__add__, shuffled, NOTHING) == total
    assert fits(rule, total, NOTHING) == (not spends or fits_all(rule, shuffled))


def fits_all(rule: Filter, spends: list[Spend]) -> bool:
    """Return whether the last of the spends fits after all the others."""
    return fits(rule, reduce(Spend.__add__, spends[:-1], NOTHING), spends[-1])


@settings(deadline=None)
@given(specs(), st.lists(costs(), min_size=1, max_size=6), costs())
def test_having_spent_more_never_makes_room(
    spec: BudgetSpec, asked: list[Cost], last: Cost
) -> None:
    rule = rule_of(spec)
    spends = [price(rule, cost) for cost in asked]
    total = reduce(Spend.__add__, spends, NOTHING)
    for skipped in range(len(spends)):
        less = reduce(Spend.__add__, spends[:skipped] + spends[skipped + 1 :], NOTHING)
        assert fits(rule, less, price(rule, last)) >= fits(rule, total, price(rule, last))


@settings(deadline=None)
@given(specs(), costs(), costs())
def test_one_statement_with_two_releases_costs_no_more_than_two_statements(
    spec: BudgetSpec, one: Cost, other: Cost
) -> None:
    rule = rule_of(spec)
    together = price(rule, one.then(other))
    apart = price(rule, one) + price(rule, other)
    for whole, sum_ in zip(amounts(together), amounts(apart), strict=True):
        assert (whole is None) == (sum_ is None)
        assert whole is None or sum_ is None or sum_ - 2 <= whole <= sum_


def amounts(spend: Spend) -> tuple[int | None, ...]:
    return (spend.pure, spend.rdp, spend.selection_delta, spend.epsilon, spend.delta)


@settings(deadline=None)
@given(specs(), costs(), costs())
def test_shares_of_joint_noise_cost_no_less_than_guarantees_do(
    spec: BudgetSpec, one: Cost, other: Cost
) -> None:
    rule = rule_of(spec)
    joint, apart = price(rule, one + other), price(rule, one.then(other))
    for whole, sum_ in zip(amounts(joint), amounts(apart), strict=True):
        assert whole is None or (sum_ is not None and sum_ <= whole)


@settings(deadline=None)
@given(specs(), st.lists(costs(), min_size=1, max_size=8))
def test_what_is_admitted_is_within_the_exact_budget(spec: BudgetSpec, asked: list[Cost]) -> None:
    rule = rule_of(spec)
    admitted = [
        cost
        for cost, ok in zip(asked, run(rule, [price(rule, cost) for cost in asked]), strict=True)
        if ok
    ]
    chosen = [event for cost in admitted for event in cost.events]
    losses = [pure_epsilon(event) for event in chosen]
    pure = (
        sum((loss or Fraction(0) for loss in losses), Fraction(0)) if None not in losses else None
    )
    selected = sum(map(selection_delta, chosen), Fraction(0))
    match spec.accountant:
        case AccountantKind.PURE:
            assert pure is not None
            assert pure <= spec.epsilon
            assert selected <= spec.selection_delta
        case AccountantKind.SEQUENTIAL:
            assert sum((cost.epsilon for cost in admitted), Fraction(0)) <= spec.epsilon
            assert sum((cost.delta for cost in admitted), Fraction(0)) <= spec.delta
        case AccountantKind.ADVANCED:
            squares = [squared(step) for cost in admitted for step in cost.steps]
            rest = spec.delta - spec.selection_delta
            assert sum((cost.delta for cost in admitted), Fraction(0)) <= spec.selection_delta
            assert sum(squares) <= (squares_budget(spec.epsilon, rest) if rest else 0)
        case AccountantKind.ZCDP:
            assert selected <= spec.selection_delta
            order = order_of(spec)
            rho = (
                Fraction(0)
                if order is None
                else rho_budget(spec.epsilon, spec.delta - spec.selection_delta, order)
            )
            assert sum(map(zcdp, chosen), Fraction(0)) <= max(rho, 0)
        case AccountantKind.RENYI:
            assert selected <= spec.selection_delta
            divergence = reduce(
                Spend.__add__, (price(rule, cost) for cost in admitted), NOTHING
            ).rdp
            by_renyi = divergence is not None and divergence <= rule.rdp
            assert by_renyi or (pure is not None and pure <= spec.epsilon)


def squared(cost: Cost) -> Fraction:
    """Return what the theorem of advanced composition adds up for a step, unrounded."""
    if None in map(pure_epsilon, cost.events):
        return cost.epsilon**2
    return 2 * sum(map(zcdp, cost.events), Fraction(0))


@settings(deadline=None)
@given(specs(), st.lists(costs(), min_size=1, max_size=4), st.data())
def test_a_larger_budget_admits_whatever_a_smaller_one_does(
    spec: BudgetSpec, asked: list[Cost], data: st.DataObject
) -> None:
    factor = 1 + Fraction(data.draw(st.integers(0, 1000)), 500)
    larger = replace(spec, epsilon=spec.epsilon * factor)
    # at one order: another admits another mixture of noises, each as private
    alpha = order_of(spec)
    small, large = filter_of(spec, alpha), filter_of(larger, alpha)
    total = reduce(Spend.__add__, (price(small, cost) for cost in asked), NOTHING)
    assert fits(large, NOTHING, total) >= fits(small, NOTHING, total)


@settings(deadline=None)
@given(specs(), costs(), st.integers(2, 50))
def test_more_noise_never_costs_more(spec: BudgetSpec, cost: Cost, factor: int) -> None:
    rule = rule_of(spec)
    less = Cost(cost.epsilon, cost.delta, tuple(quieter(event, factor) for event in cost.events))
    for small, large in zip(amounts(price(rule, less)), amounts(price(rule, cost)), strict=True):
        assert large is None or (small is not None and small <= large)


def quieter(event: Event, factor: int) -> Event:
    match event:
        case LaplaceEvent(scale=scale):
            return replace(event, scale=scale * factor)
        case GaussianEvent(sigma=sigma):
            return replace(event, sigma=sigma * factor)
        case KeySelectionEvent(noise=noise):
            found = quieter(noise, factor)
            assert isinstance(found, LaplaceEvent | GaussianEvent)
            return replace(event, noise=found)
        case _:
            raise AssertionError(event)


@settings(deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 2000))
def test_a_budget_of_n_times_a_decimal_epsilon_holds_exactly_n(step: int, count: int) -> None:
    # the float sums of 0.1 that don't reach 1 don't happen
    assume(step * count <= 10**9)
    epsilon = Fraction(step, 10**6)
    spec = BudgetSpec(epsilon * count, Fraction(0), AccountantKind.PURE, Fraction(0))
    rule = rule_of(spec)
    event = LaplaceEvent(10**6, Change((((step, 1),),)))
    spend = price(rule, Cost(epsilon, Fraction(0), (event,)))
    assert rule.epsilon == count * (spend.pure or 0)
    assert EPSILON_UNITS == 10**12
    assert DELTA_UNITS == 10**24
