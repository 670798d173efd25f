"""Amplification by Poisson samples: against dp-accounting, and against sums over small lattices."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant

from dp_sql.errors import ParameterError
from dp_sql.privacy.contribution import Change
from dp_sql.privacy.event import GaussianEvent, LaplaceEvent, PureEvent, SampledEvent, pure_epsilon
from dp_sql.privacy.renyi import conversion, rdp
from dp_sql.privacy.sampling import (
    MOST_ORDER,
    epsilon_after,
    epsilon_before,
    log_moment,
    parse_rate,
    sampled,
)

RATES = (Fraction(1, 1000), Fraction(1, 50), Fraction(3, 10), Fraction(99, 100))


def sampled_gaussian(alpha: float, rate: Fraction, ratio: Fraction) -> Fraction:
    """Return the divergence of Gaussian noise on a sample; ratio: the squared distance in deviations."""

    def plain(order: float) -> Fraction:
        return Fraction(order) * ratio / 2

    return sampled(alpha, plain(alpha), lambda n: log_moment(n, rate, lambda k: (k - 1) * plain(k)))


def theirs(orders: list[float], rate: Fraction, sigma: float) -> list[float]:
    accountant = RdpAccountant(orders)
    accountant.compose(PoissonSampledDpEvent(float(rate), GaussianDpEvent(sigma)))
    return [float(value) for value in accountant._rdp]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("sigma", [1, 2, 7])
def test_integer_orders_are_dp_accountings(rate: Fraction, sigma: int) -> None:
    orders = [2.0, 3.0, 8.0, 32.0, 100.0]
    ours = [rdp(SampledEvent(rate, (GaussianEvent(sigma, 1),)), a) for a in orders]
    assert ours == pytest.approx(theirs(orders, rate, sigma), rel=1e-9)


def integral(alpha: float, rate: float, sigma: float) -> float:
    """Return the divergence of the continuous mechanism: dp-accounting's series is off between orders."""
    x = np.linspace(-60 * sigma, 62 * sigma, 200_001)
    without, shifted = -(x**2) / (2 * sigma**2), -((x - 1) ** 2) / (2 * sigma**2)
    mixed = np.logaddexp(math.log1p(-rate) + without, math.log(rate) + shifted)
    total = np.exp(alpha * mixed + (1 - alpha) * without).sum() * (x[1] - x[0])
    return math.log(total / (sigma * math.sqrt(2 * math.pi))) / (alpha - 1)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("sigma", [1, 4])
def test_orders_between_are_no_less_than_the_integral_and_little_more(
    rate: Fraction, sigma: int
) -> None:
    for alpha in (1.3, 1.9, 2.5, 3.1, 7.75, 20.4):
        exact = integral(alpha, float(rate), sigma)
        ours = rdp(SampledEvent(rate, (GaussianEvent(sigma, 1),)), alpha)
        assert exact * (1 - 1e-6) <= ours
        assert ours <= exact * 1.4 or alpha < 3


def noise(sigma: int, shift: int, reach: int) -> np.ndarray:
    places = np.arange(-reach, reach + 1, dtype=float) - shift
    weights = np.exp(-(places**2) / (2 * sigma**2))
    return np.asarray(weights / weights.sum())


def laplace(scale: int, shift: int, reach: int) -> np.ndarray:
    weights = np.exp(-np.abs(np.arange(-reach, reach + 1, dtype=float) - shift) / scale)
    return np.asarray(weights / weights.sum())


def divergence(one: np.ndarray, other: np.ndarray, alpha: float) -> float:
    """Return the Rényi divergence of two laws on the same points."""
    kept = (one > 0) & (other > 0)
    logs = alpha * np.log(one[kept]) + (1 - alpha) * np.log(other[kept])
    top = logs.max()
    return float((top + math.log(np.exp(logs - top).sum())) / (alpha - 1))


@pytest.mark.parametrize(("sigma", "shift"), [(1, 1), (1, 2), (2, 1), (3, 5)])
@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(2, 5), Fraction(9, 10)])
@pytest.mark.parametrize("alpha", [1.2, 2.0, 2.6, 5.0])
def test_both_directions_over_the_lattice(
    sigma: int, shift: int, rate: Fraction, alpha: float
) -> None:
    without = noise(sigma, 0, 200)
    mixed = (1 - float(rate)) * without + float(rate) * noise(sigma, shift, 200)
    most = float(sampled_gaussian(alpha, rate, Fraction(shift**2, sigma**2)))
    adding, removing = divergence(mixed, without, alpha), divergence(without, mixed, alpha)
    assert removing <= adding * (1 + 1e-9)
    assert adding <= most * (1 + 1e-9)
    if alpha in (2.0, 5.0) and alpha * shift**2 / (2 * sigma**2) > most:
        assert adding == pytest.approx(most, rel=1e-9)


@pytest.mark.parametrize(("scale", "shift"), [(1, 1), (1, 3), (4, 3), (30, 7)])
@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(2, 5), Fraction(9, 10)])
@pytest.mark.parametrize("alpha", [1.2, 2.0, 2.6, 5.0, 30.0])
def test_both_directions_of_laplace_noise_over_the_lattice(
    scale: int, shift: int, rate: Fraction, alpha: float
) -> None:
    without = laplace(scale, 0, 1500)
    mixed = (1 - float(rate)) * without + float(rate) * laplace(scale, shift, 1500)
    event = SampledEvent(rate, (LaplaceEvent(scale, Change((((shift, 1),),))),))
    most, pure = rdp(event, alpha), pure_epsilon(event)
    assert pure is not None
    adding, removing = divergence(mixed, without, alpha), divergence(without, mixed, alpha)
    assert max(adding, removing) <= most * (1 + 1e-9)
    assert most <= rdp(PureEvent(pure), alpha)
    if alpha in (2.0, 5.0, 30.0):
        assert adding == pytest.approx(most, rel=1e-9)
    largest = np.abs(np.log(mixed[1400:1600] / without[1400:1600])).max()
    assert largest == pytest.approx(float(pure), rel=1e-9)


def test_laplace_vectors_that_share_a_sample_are_one_event() -> None:
    """Two groups of one vector, and a second vector: all are moved at once, or not at all."""
    rate, scales, shifts = Fraction(1, 5), (2, 2, 3), (1, 1, 2)
    laws = [(laplace(t, 0, 60), laplace(t, s, 60)) for t, s in zip(scales, shifts, strict=True)]
    without, shifted = np.ones(1), np.ones(1)
    for one, other in laws:
        without, shifted = np.outer(without, one).ravel(), np.outer(shifted, other).ravel()
    noises = (LaplaceEvent(2, Change((((1, 2),),))), LaplaceEvent(3, Change((((2, 1),),))))
    mixed = 0.8 * without + 0.2 * shifted
    for alpha in (2.0, 6.0):
        ours = rdp(SampledEvent(rate, noises), alpha)
        assert ours == pytest.approx(divergence(mixed, without, alpha), rel=1e-9)
    both = SampledEvent(rate, (noises[0], GaussianEvent(4, 1)))
    assert pure_epsilon(both) is None
    assert rdp(SampledEvent(rate, noises[:1]), 3.0) < rdp(both, 3.0) < rdp(both, 5.0)


def test_two_vectors_that_share_a_sample_are_one_event() -> None:
    shifts, sigmas, rate = (1, 2), (2, 3), Fraction(1, 5)
    laws = [(noise(s, 0, 40), noise(s, c, 40)) for s, c in zip(sigmas, shifts, strict=True)]
    without = np.outer(laws[0][0], laws[1][0]).ravel()
    mixed = 0.8 * without + 0.2 * np.outer(laws[0][1], laws[1][1]).ravel()
    event = SampledEvent(
        rate, tuple(GaussianEvent(s, c**2) for s, c in zip(sigmas, shifts, strict=True))
    )
    for alpha in (2.0, 3.0, 6.0):
        assert rdp(event, alpha) == pytest.approx(divergence(mixed, without, alpha), rel=1e-9)
    apart = sum(rdp(SampledEvent(rate, (n,)), 6.0) for n in event.noises)
    assert apart < rdp(event, 6.0)  # one sample for both is worse than two


@pytest.mark.parametrize(
    ("rate", "sigma", "steps"), [(Fraction(1, 100), 1, 300), (Fraction(1, 10), 4, 50)]
)
def test_many_steps_cost_no_less_than_their_exact_composition(
    rate: Fraction, sigma: int, steps: int
) -> None:
    delta = Fraction(1, 10**6)
    event = SampledEvent(rate, (GaussianEvent(sigma, 1),))
    ours = min(
        steps * rdp(event, a) + conversion(a, delta) for a in (2.0, 3.5, 5.0, 8.0, 12.0, 20.0, 40.0)
    )
    step = pld.from_gaussian_mechanism(
        float(sigma), sampling_prob=float(rate), value_discretization_interval=1e-3
    )
    exact = step.self_compose(steps).get_epsilon_for_delta(float(delta))
    accountant = RdpAccountant()
    accountant.compose(
        SelfComposedDpEvent(PoissonSampledDpEvent(float(rate), GaussianDpEvent(sigma)), steps)
    )
    assert exact <= ours <= 1.15 * accountant.get_epsilon(float(delta))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("alpha", [1.5, 4.0, 1000.5, 1e6])
def test_a_sample_never_costs_more_than_all_units(rate: Fraction, alpha: float) -> None:
    plain = Fraction(alpha) * Fraction(1, 100) / 2
    assert 0 < sampled_gaussian(alpha, rate, Fraction(1, 100)) <= plain
    assert alpha <= MOST_ORDER or sampled_gaussian(alpha, rate, Fraction(1, 100)) == plain


def test_nothing_moves_nothing_costs() -> None:
    event = SampledEvent(Fraction(1, 2), (GaussianEvent(5, 0),))
    assert rdp(event, 3.0) == 0


def test_a_larger_rate_or_distance_costs_more() -> None:
    costs = [
        sampled_gaussian(6.0, rate, ratio)
        for rate, ratio in product(RATES, (Fraction(1, 9), Fraction(1), Fraction(2)))
    ]
    assert all(a < b for a, b in zip(costs[0::3], costs[1::3], strict=True))
    assert all(a < b for a, b in zip(costs[0:9:3], costs[3::3], strict=True))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("epsilon", ["0.001", "0.5", "1", "20", "1e6"])
def test_epsilon_on_the_sample(rate: Fraction, epsilon: str) -> None:
    asked = Fraction(epsilon)
    found = epsilon_before(asked, rate)
    assert found >= asked
    if asked <= 20:
        back = math.log1p(float(rate) * math.expm1(float(found)))
        assert back == pytest.approx(float(asked), rel=1e-9)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("epsilon", ["1e-9", "0.5", "1", "20", "1e6"])
def test_epsilon_of_the_sample_is_that_in_all(rate: Fraction, epsilon: str) -> None:
    asked = Fraction(epsilon)
    assert 0 <= asked - epsilon_after(epsilon_before(asked, rate), rate) <= asked / 10**9
    assert epsilon_after(asked, rate) <= asked
    if asked <= 20:
        whole = math.log1p(float(rate) * math.expm1(float(asked)))
        assert float(epsilon_after(asked, rate)) == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("loss", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("slack", [0.0, 0.05])
def test_a_mechanism_on_a_sample_is_as_private_as_said(
    loss: float, rate: Fraction, slack: float
) -> None:
    """The worst (epsilon, delta)-DP pair: randomised response that tells all with probability delta."""
    odds = math.exp(loss)
    one = (1 - slack) * np.array([odds / (1 + odds), 1 / (1 + odds), 0, 0])
    one[2] = slack
    other = (1 - slack) * np.array([1 / (1 + odds), odds / (1 + odds), 0, 0])
    other[3] = slack
    for before, after in ((one, other), (other, one)):
        mixed = (1 - float(rate)) * before + float(rate) * after
        whole = 1 + float(rate) * (odds - 1)
        for p, q in ((mixed, before), (before, mixed)):
            assert np.maximum(p - whole * q, 0).sum() <= float(rate) * slack + 1e-12


@pytest.mark.parametrize("value", [0, 1, -0.1, 2, "x", True, float("nan"), 1e-12])
def test_a_rate_is_between_0_and_1(value: object) -> None:
    with pytest.raises(ParameterError):
        parse_rate(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1), 0.5])
def test_an_event_has_a_rate_between_0_and_1(rate: object) -> None:
    with pytest.raises(ValueError, match="rate"):
        SampledEvent(rate, (GaussianEvent(5, 1),))  # type: ignore[arg-type]
