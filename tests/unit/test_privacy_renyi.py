from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from budget_cases import one_coordinate

from dp_sql.privacy.contribution import Change
from dp_sql.privacy.event import (
    ApproximateEvent,
    GaussianEvent,
    KeySelectionEvent,
    LaplaceEvent,
    PureEvent,
)
from dp_sql.privacy.renyi import alpha_star, conversion, rdp, rdp_budget

MILLIONTH = Fraction(1, 10**6)


def test_a_vector_costs_the_sum_over_its_coordinates_at_its_worst_profile() -> None:
    one = rdp(LaplaceEvent(1000, one_coordinate(10)), 8.0)
    four = rdp(LaplaceEvent(1000, Change((((10, 4),),))), 8.0)
    assert four == pytest.approx(4 * one, rel=1e-14)
    long = rdp(LaplaceEvent(1000, one_coordinate(40)), 8.0)
    both = LaplaceEvent(1000, Change((((10, 4),), ((40, 1),))))
    assert rdp(both, 8.0) == long > four


def test_gaussian_noise_costs_alpha_times_the_squared_distance_over_twice_the_variance() -> None:
    assert rdp(GaussianEvent(10, 2), 8.0) == pytest.approx(8 * 2 / 200, rel=1e-15)
    assert Fraction(rdp(GaussianEvent(3, 1), 2.0)) >= Fraction(1, 9)  # no float is 1/9


def test_key_selection_costs_its_noise() -> None:
    noise = GaussianEvent(10, 2)
    assert rdp(KeySelectionEvent(noise, Fraction(1, 2)), 3.0) == rdp(noise, 3.0)


@pytest.mark.parametrize(
    "event",
    [
        LaplaceEvent(5, Change(((),))),
        LaplaceEvent(5, Change((((0, 9), (7, 0)),))),
        GaussianEvent(5, 0),
    ],
)
def test_what_nobody_moves_costs_exactly_nothing(event: LaplaceEvent | GaussianEvent) -> None:
    assert rdp(event, 12.0) == 0.0


def test_huge_shifts_small_scales_and_huge_orders_stay_finite_and_close_to_the_pure_cost() -> None:
    assert rdp(LaplaceEvent(1, one_coordinate(10**12)), 22.0) == pytest.approx(1e12, rel=1e-9)
    assert rdp(LaplaceEvent(1, one_coordinate(10**12)), 1e300) == pytest.approx(1e12, rel=1e-15)
    assert rdp(LaplaceEvent(2**50, one_coordinate(1)), 1e300) == pytest.approx(2.0**-50, rel=1e-9)
    assert rdp(LaplaceEvent(2**50, one_coordinate(2**50)), 1e9) == pytest.approx(1, rel=1e-8)


@pytest.mark.parametrize("scale", [2**20, 2**50, 2**200])
def test_huge_scales_lose_no_digits(scale: int) -> None:
    # far below the scale the divergence is alpha shift^2 / (2 scale^2), as a Taylor series says
    found = rdp(LaplaceEvent(scale, one_coordinate(1)), 16.0)
    assert found == pytest.approx(16 / 2 * scale**-2.0, rel=1e-4)


def test_orders_close_to_one_give_the_relative_entropy() -> None:
    # sum p ln(p/q) for shift 1: the loss is 1/scale up to 0 and -1/scale beyond
    truth = math.tanh(1 / (2 * 3)) / 3
    assert rdp(LaplaceEvent(3, one_coordinate(1)), 1 + 2.0**-52) == pytest.approx(truth, rel=1e-12)


def test_a_divergence_beyond_all_floats_is_infinite() -> None:
    assert rdp(LaplaceEvent(1, one_coordinate(10**400)), 3.0) == math.inf
    assert rdp(GaussianEvent(1, 10**400), 3.0) == math.inf


@pytest.mark.parametrize("alpha", [1.0, 0.5, -3.0, math.inf, math.nan])
def test_orders_up_to_one_and_infinity_are_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="above 1"):
        rdp(GaussianEvent(3, 1), alpha)
    with pytest.raises(ValueError, match="above 1"):
        conversion(alpha, MILLIONTH)


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1), Fraction(-1)])
def test_a_conversion_needs_a_delta(delta: Fraction) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        conversion(2.0, delta)
    with pytest.raises(ValueError, match="between 0 and 1"):
        alpha_star(Fraction(1), delta)


@pytest.mark.parametrize("alpha", [1.0001, 1.5, 22.2, 1e4, 1e9])
@pytest.mark.parametrize("delta", [MILLIONTH, Fraction(1, 10**300), Fraction(999, 1000)])
def test_the_conversion_is_what_the_proof_of_the_filter_needs(
    alpha: float, delta: Fraction
) -> None:
    # K exp(-(a - 1) c) = delta, K = (1/a)(1 - 1/a)^(a - 1); c rounded up makes it a bit smaller
    log_k = -math.log(alpha) + (alpha - 1) * math.log1p(-1 / alpha)
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    c = conversion(alpha, delta)
    assert log_k - (alpha - 1) * c == pytest.approx(log_delta, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "alpha", "budget"), [(1, 22, 0.535), (3, 8.9, 1.65), (10, 3.85, 5.92)]
)
def test_orders_and_budgets_at_a_millionth(epsilon: int, alpha: float, budget: float) -> None:
    order = alpha_star(Fraction(epsilon), MILLIONTH)
    room = rdp_budget(Fraction(epsilon), MILLIONTH, order)
    assert order == pytest.approx(alpha, rel=5e-3)
    assert float(room) == pytest.approx(budget, rel=5e-3)
    assert room == epsilon - Fraction(conversion(order, MILLIONTH))


@pytest.mark.parametrize(
    "epsilon", [Fraction(1, 10**6), Fraction(1, 7), Fraction(5), Fraction(300)]
)
@pytest.mark.parametrize("delta", [Fraction(1, 100), MILLIONTH, Fraction(1, 10**40)])
def test_no_order_near_the_chosen_one_admits_more(epsilon: Fraction, delta: Fraction) -> None:
    chosen = alpha_star(epsilon, delta)

    def admitted(alpha: float) -> float:
        return float(rdp_budget(epsilon, delta, alpha)) / alpha

    best = admitted(chosen)
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2):
        assert admitted(1 + (chosen - 1) * factor) <= best * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("epsilon", [Fraction(10**12), Fraction(10**400), Fraction(1, 10**12)])
def test_extreme_budgets_have_an_order(epsilon: Fraction) -> None:
    assert 1 < alpha_star(epsilon, MILLIONTH) < 1e10
    assert 1 < alpha_star(epsilon, Fraction(1, 10**400)) < 1e10


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1, 10), Fraction(1), Fraction(9)])
@pytest.mark.parametrize("alpha", [1.0000001, 2.0, 22.2, 1e6])
def test_a_pure_mechanism_costs_what_randomised_response_does(
    epsilon: Fraction, alpha: float
) -> None:
    with mpmath.workdps(60):
        e, a = mpmath.mpf(epsilon.numerator) / epsilon.denominator, mpmath.mpf(alpha)
        p = mpmath.exp(e) / (1 + mpmath.exp(e))
        total = p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)
        truth = mpmath.log(total) / (a - 1)
        found = rdp(PureEvent(epsilon), alpha)
        assert truth <= found <= truth * (1 + mpmath.mpf(10) ** -12)
        assert found <= float(epsilon) * (1 + 1e-15)
        assert (
            rdp(ApproximateEvent(epsilon, Fraction(1, 10**6)), alpha) == found
        )  # but for its delta


def test_a_pure_mechanism_costs_no_less_than_laplace_noise_of_the_same_epsilon() -> None:
    for alpha in (1.5, 8.0, 100.0):
        assert rdp(PureEvent(Fraction(1)), alpha) >= rdp(
            LaplaceEvent(10, one_coordinate(10)), alpha
        )
    assert rdp(PureEvent(Fraction(0)), 8.0) == 0.0
