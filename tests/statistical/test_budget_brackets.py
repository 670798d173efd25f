"""What the filters admit, against the exact composition that dp-accounting brackets.

For statements that are fixed in advance the loss distribution gives the true delta up to its grid.
What a filter admits must be private by the pessimistic end, and never be more than the optimistic
end allows. Nothing is sampled, so there are no false alarms.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from budget_cases import fine_laplace, gaussian, one_coordinate, rule_of
from dp_accounting import GaussianDpEvent, LaplaceDpEvent
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.rdp import RdpAccountant

from dp_sql.budget.accountant import NOTHING, price
from dp_sql.budget.left import repeats
from dp_sql.privacy.cost import Cost
from dp_sql.privacy.event import GaussianEvent, LaplaceEvent
from dp_sql.privacy.renyi import conversion, rdp
from dp_sql.schema.catalog import AccountantKind, BudgetSpec

GRID = 1e-4


RENYI = AccountantKind.RENYI


def admitted(epsilon: str, delta: str, cost: Cost, accountant: AccountantKind = RENYI) -> int:
    rule = rule_of(BudgetSpec(Fraction(epsilon), Fraction(delta), accountant, Fraction(0)))
    count = repeats(rule, NOTHING, price(rule, cost))
    assert count is not None
    return count


def laplace_delta(scale: int, shift: int, count: int, epsilon: str, *, pessimistic: bool) -> float:
    one = pld.from_discrete_laplace_mechanism(
        1 / scale,
        sensitivity=shift,
        value_discretization_interval=GRID,
        pessimistic_estimate=pessimistic,
        use_connect_dots=False,
    )
    return float(one.self_compose(count).get_delta_for_epsilon(float(epsilon)))


def gaussian_delta(sigma: int, count: int, epsilon: str, *, pessimistic: bool) -> float:
    one = pld.from_gaussian_mechanism(
        sigma,
        value_discretization_interval=GRID,
        pessimistic_estimate=pessimistic,
        use_connect_dots=False,
    )
    return float(one.self_compose(count).get_delta_for_epsilon(float(epsilon)))


@pytest.mark.parametrize(
    ("epsilon", "scale", "shift"),
    [("1", 2, 1), ("1", 20, 1), ("1", 30, 3), ("3", 20, 1), ("3", 7, 2), ("0.5", 100, 1)],
)
def test_admitted_laplace_statements_are_private_and_no_more_than_are(
    epsilon: str, scale: int, shift: int
) -> None:
    delta = "1e-6"
    event = LaplaceEvent(scale, one_coordinate(shift))
    count = admitted(epsilon, delta, Cost(Fraction(1), Fraction(0), (event,)))
    assert count >= float(epsilon) * scale // shift
    assert laplace_delta(scale, shift, count, epsilon, pessimistic=False) <= 1e-6
    # by pessimistic rounding each of the statements may look worse by one step of the grid
    slack = str(float(epsilon) + count * GRID)
    assert laplace_delta(scale, shift, count, slack, pessimistic=True) <= 1e-6
    assert laplace_delta(scale, shift, 2 * count + 2, epsilon, pessimistic=False) > 1e-6


@pytest.mark.parametrize(("epsilon", "sigma"), [("1", 10), ("1", 50), ("3", 10), ("3", 4)])
def test_admitted_gaussian_statements_are_private_and_no_more_than_are(
    epsilon: str, sigma: int
) -> None:
    count = admitted(epsilon, "1e-6", gaussian(sigma))
    assert count > 0
    assert gaussian_delta(sigma, count, epsilon, pessimistic=True) <= 1e-6
    assert gaussian_delta(sigma, 2 * count + 2, epsilon, pessimistic=False) > 1e-6


@pytest.mark.parametrize("accountant", list(AccountantKind))
@pytest.mark.parametrize(("epsilon", "scale"), [("1", 2), ("1", 40), ("3", 20), ("0.5", 300)])
def test_no_accountant_admits_more_than_the_optimistic_bound(
    accountant: AccountantKind, epsilon: str, scale: int
) -> None:
    event = LaplaceEvent(scale, one_coordinate(1))
    cost = Cost(Fraction(1, scale), Fraction(0), (event,))
    count = admitted(epsilon, "1e-6", cost, accountant)
    assert count <= admitted(epsilon, "1e-6", cost)
    if count:
        assert laplace_delta(scale, 1, count, epsilon, pessimistic=False) <= 1e-6


@pytest.mark.parametrize(("epsilon", "sigma"), [("1", 10), ("1", 50), ("3", 10), ("3", 4)])
def test_zcdp_admits_of_gaussian_noise_what_renyi_does(epsilon: str, sigma: int) -> None:
    # at one order the two are the same of a Gaussian, whose curve is a straight line
    count = admitted(epsilon, "1e-6", gaussian(sigma), AccountantKind.ZCDP)
    assert count == admitted(epsilon, "1e-6", gaussian(sigma))
    assert gaussian_delta(sigma, count, epsilon, pessimistic=True) <= 1e-6


@pytest.mark.parametrize(
    ("epsilon", "part", "delta"), [("1", "0.05", "1e-7"), ("3", "0.2", "1e-8")]
)
def test_advanced_admits_no_more_guarantees_than_their_exact_composition(
    epsilon: str, part: str, delta: str
) -> None:
    spec = BudgetSpec(
        Fraction(epsilon), Fraction("2e-6"), AccountantKind.ADVANCED, Fraction("1e-6")
    )
    rule = rule_of(spec)
    count = repeats(rule, NOTHING, price(rule, gaussian(1, part, delta)))
    assert count
    one = pld.from_privacy_parameters(
        DifferentialPrivacyParameters(float(part), float(delta)), value_discretization_interval=GRID
    )
    assert one.self_compose(count).get_delta_for_epsilon(float(epsilon)) <= 2e-6


@pytest.mark.parametrize("alpha", [1.5, 2.0, 8.0, 22.2, 64.0])
def test_curves_agree_with_those_of_continuous_noise(alpha: float) -> None:
    accountant = RdpAccountant([alpha])
    accountant.compose(GaussianDpEvent(10))
    assert rdp(GaussianEvent(10, 1), alpha) == pytest.approx(accountant._rdp[0], rel=1e-12)
    accountant = RdpAccountant([alpha])
    accountant.compose(LaplaceDpEvent(10))
    (event,) = fine_laplace("0.1").events  # 2^20 steps: the lattice hardly shows
    assert rdp(event, alpha) == pytest.approx(accountant._rdp[0], rel=1e-4)


@pytest.mark.parametrize("alpha", [1.5, 8.0, 22.2, 64.0])
def test_the_conversion_is_dp_accountings(alpha: float) -> None:
    accountant = RdpAccountant([alpha])
    accountant.compose(GaussianDpEvent(2))
    epsilon = accountant.get_epsilon(1e-6)
    ours = rdp(GaussianEvent(2, 1), alpha) + conversion(alpha, Fraction(1, 10**6))
    assert ours == pytest.approx(epsilon, rel=1e-9)
