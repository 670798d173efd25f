"""The Rényi curve of discrete Laplace noise against the sum over the lattice that defines it."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from budget_cases import one_coordinate
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_sql.privacy.contribution import Change
from dp_sql.privacy.event import LaplaceEvent, pure_epsilon
from dp_sql.privacy.renyi import rdp

orders = st.floats(1.01, 60, allow_nan=False)
wide_orders = st.one_of(orders, st.floats(60, 1e7), st.floats(1 + 2.0**-52, 1.01))


def price(shift: int, scale: int, alpha: float) -> float:
    return rdp(LaplaceEvent(scale, one_coordinate(shift)), alpha)


def brute_force(alpha: float, shift: int, scale: int) -> Decimal:
    """Return D_alpha as the definition has it: a sum over integers, whose tail is below 1e-40."""
    with localcontext(prec=60):
        order, x = Decimal(alpha), 1 / Decimal(scale)
        r = (-x).exp()
        weight = (1 - r) / (1 + r)
        total = Decimal(0)
        for k in range(-100 * scale, shift + 100 * scale + 1):
            total += (-(order * abs(k) + (1 - order) * abs(k - shift)) * x).exp()
        return (weight * total).ln() / (order - 1)


@settings(max_examples=60, deadline=None)
@given(orders, st.integers(1, 30), st.integers(1, 5))
def test_the_closed_form_is_the_sum_over_the_lattice_rounded_up(
    alpha: float, shift: int, scale: int
) -> None:
    truth = brute_force(alpha, shift, scale)
    found = Decimal(price(shift, scale, alpha))
    assert truth * (1 - Decimal("1e-35")) <= found
    assert found <= truth * (1 + Decimal("3e-16"))


@settings(deadline=None)
@given(wide_orders, st.integers(0, 10**6), st.integers(1, 10**6))
def test_it_is_convex_and_increasing_in_the_shift(alpha: float, shift: int, scale: int) -> None:
    below, at, above = (price(abs(s), scale, alpha) for s in (shift - 1, shift, shift + 1))
    slack = Fraction(1 + 2.0**-50)  # the prices are floats
    assert at < above
    assert 2 * Fraction(at) <= (Fraction(below) + Fraction(above)) * slack


@settings(deadline=None)
@given(wide_orders, st.integers(0, 10**9), st.integers(1, 10**6))
def test_it_is_at_most_the_pure_cost_and_increasing_in_the_order(
    alpha: float, shift: int, scale: int
) -> None:
    event = LaplaceEvent(scale, one_coordinate(shift))
    pure = pure_epsilon(event)
    assert pure is not None
    assert rdp(event, alpha) <= float(pure) * (1 + 2.0**-50)
    assert rdp(event, alpha) <= rdp(event, alpha * 1.5) * (1 + 2.0**-50)


@settings(deadline=None)
@given(
    orders,
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=6),
)
def test_no_vector_in_the_box_costs_more_than_its_corner(
    alpha: float, scale: int, pairs: list[tuple[int, int]]
) -> None:
    corner = Change((tuple((max(pair), 1) for pair in pairs),))
    inside = Change((tuple((min(pair), 1) for pair in pairs),))
    assert rdp(LaplaceEvent(scale, inside), alpha) <= rdp(LaplaceEvent(scale, corner), alpha)


@settings(deadline=None)
@given(orders, st.integers(1, 50), st.lists(st.integers(0, 20), min_size=1, max_size=6))
def test_no_vector_in_the_simplex_costs_more_than_its_vertex(
    alpha: float, scale: int, shifts: list[int]
) -> None:
    spread = Change((tuple((shift, 1) for shift in shifts),))
    vertex = LaplaceEvent(scale, one_coordinate(sum(shifts)))
    assert rdp(LaplaceEvent(scale, spread), alpha) <= rdp(vertex, alpha) * (1 + 2.0**-50)


def test_an_even_split_of_the_l1_distance_would_understate_the_cost() -> None:
    # why vectors are priced by their profiles
    even = rdp(LaplaceEvent(10, Change((((5, 2),),))), 8.0)
    assert even < 0.92 * rdp(LaplaceEvent(10, one_coordinate(10)), 8.0)


def test_the_brute_force_sees_a_wrong_price() -> None:
    assert float(brute_force(8.0, 3, 2)) == pytest.approx(price(3, 2, 8.0), rel=1e-15)
    assert float(brute_force(8.0, 3, 2)) > 1.005 * price(3, 2, 7.0)
