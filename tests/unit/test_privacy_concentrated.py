from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from budget_cases import one_coordinate

from dp_sql.privacy.concentrated import rho_budget, squares_budget, zcdp
from dp_sql.privacy.contribution import Change
from dp_sql.privacy.event import (
    Event,
    GaussianEvent,
    KeySelectionEvent,
    LaplaceEvent,
    PureEvent,
    SampledEvent,
)
from dp_sql.privacy.renyi import alpha_star, rdp

WIDE = Change((((3, 4), (1, 2)), ((7, 1),)))
EVENTS: list[Event] = [
    LaplaceEvent(1, one_coordinate(1)),
    LaplaceEvent(1, one_coordinate(9)),
    LaplaceEvent(40, one_coordinate(7)),
    LaplaceEvent(40, WIDE),
    LaplaceEvent(2**20, one_coordinate(2**16)),
    GaussianEvent(4, 9),
    GaussianEvent(1, 0),
    KeySelectionEvent(LaplaceEvent(5, WIDE), Fraction(1, 10**9)),
    KeySelectionEvent(GaussianEvent(5, 3), Fraction(1, 10**9)),
    PureEvent(Fraction(1, 100)),
    PureEvent(Fraction(1)),
    PureEvent(Fraction(30)),
    SampledEvent(Fraction(1, 10), (GaussianEvent(4, 9), GaussianEvent(2, 1))),
]
ORDERS = [1 + 2.0**-40, 1.001, 1.1, 1.5, 2.0, 3.7, 8.0, 22.2, 64.0, 1000.0, 1e6]


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_no_order_has_more_than_its_multiple_of_rho(event: Event) -> None:
    for alpha in ORDERS:
        assert rdp(event, alpha) <= Fraction(alpha) * zcdp(event) * (1 + Fraction(1, 10**15))


def test_rho_of_each_kind() -> None:
    assert zcdp(PureEvent(Fraction(1, 10))) == Fraction(1, 200)
    assert zcdp(PureEvent(Fraction(30))) == 30
    assert zcdp(LaplaceEvent(10, one_coordinate(3))) == Fraction(9, 200)
    # the worst profile by squares is the wide move: 49 against 4 times 9 and 2
    assert zcdp(LaplaceEvent(10, WIDE)) == Fraction(49, 200)
    assert zcdp(LaplaceEvent(1, one_coordinate(9))) == 9
    assert zcdp(GaussianEvent(10, 3)) == Fraction(3, 200)


def test_a_pure_event_is_tight_to_within_a_hundredth_at_small_epsilon() -> None:
    event = PureEvent(Fraction(1, 10))
    assert rdp(event, 1 + 2.0**-40) >= Fraction(99, 100) * zcdp(event)


@pytest.mark.parametrize("epsilon", ["1e-6", "0.1", "1", "3", "10", "1e9"])
@pytest.mark.parametrize("delta", ["1e-30", "1e-6", "0.1", "0.999999"])
def test_the_budget_of_squares_solves_the_theorem_and_is_rounded_down(
    epsilon: str, delta: str
) -> None:
    found = squares_budget(Fraction(epsilon), Fraction(delta))
    with localcontext(prec=120):
        squares = Decimal(found.numerator) / found.denominator
        reached = (2 * -Decimal(delta).ln() * squares).sqrt() + squares / 2
        assert Decimal(epsilon) * (1 - Decimal("1e-38")) < reached < Decimal(epsilon)


def test_the_budget_of_rho_is_the_renyi_budget_over_its_order() -> None:
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    alpha = alpha_star(epsilon, delta)
    found = rho_budget(epsilon, delta, alpha)
    assert float(found) == pytest.approx(0.02435, abs=1e-5)
    # advanced composition converts zCDP more loosely
    assert squares_budget(epsilon, delta) / 2 < found


@pytest.mark.parametrize(
    ("epsilon", "delta"), [("0", "0.1"), ("-1", "0.1"), ("1", "0"), ("1", "1")]
)
def test_a_budget_of_squares_needs_amounts_in_their_ranges(epsilon: str, delta: str) -> None:
    with pytest.raises(ValueError, match="squares"):
        squares_budget(Fraction(epsilon), Fraction(delta))
