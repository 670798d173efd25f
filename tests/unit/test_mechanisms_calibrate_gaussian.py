from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.gaussian_mechanism import get_sigma_gaussian

from dp_sql.mechanisms.calibrate_gaussian import log_delta, sigma1

EPSILONS = (1e-9, 1e-6, 1e-3, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
DELTAS = (0.5, 0.3, 0.1, 1e-2, 1e-3, 1e-6, 1e-9, 1e-15, 1e-30)


def exact_delta(epsilon: float, change: float) -> mpmath.mpf:
    """Balle & Wang's theorem 8 in 80 digits."""
    with mpmath.workdps(80):
        e, w = mpmath.mpf(epsilon), mpmath.mpf(change)
        return mpmath.ncdf(w / 2 - e / w) - mpmath.exp(e) * mpmath.ncdf(-w / 2 - e / w)


def pairs(count: int, *, least_delta: float = 1e-30) -> list[tuple[float, float]]:
    chooser = random.Random(7)
    low = math.log10(least_delta)
    return [
        (10 ** chooser.uniform(-9, 2), 10 ** chooser.uniform(low, math.log10(0.5)))
        for _ in range(count)
    ]


def test_against_dp_accounting_over_1000_pairs() -> None:
    # below epsilon 1e-3 its root finder has no such precision
    usable = [pair for pair in pairs(2500, least_delta=1e-12) if pair[0] >= 1e-3]
    assert len(usable) >= 1000
    for epsilon, delta in usable:
        ours = sigma1(Fraction(epsilon), Fraction(delta))
        assert ours == pytest.approx(get_sigma_gaussian(epsilon, delta), rel=1e-4)


def test_sigma_is_never_too_small_and_hardly_too_large() -> None:
    for epsilon, delta in pairs(1000):
        sigma = sigma1(Fraction(epsilon), Fraction(delta))
        assert exact_delta(epsilon, 1 / sigma) < delta
        assert exact_delta(epsilon, 1 / (sigma / 1.000011)) > delta


@pytest.mark.parametrize(("epsilon", "delta"), list(itertools.product(EPSILONS, DELTAS)))
def test_log_delta_has_no_cancellation(epsilon: float, delta: float) -> None:
    change = 1 / sigma1(Fraction(epsilon), Fraction(delta))
    wanted = float(mpmath.log(exact_delta(epsilon, change)))
    assert log_delta(epsilon, change) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(101, 1e-6), (Fraction(1, 10**10), 1e-6), (1, Fraction(1, 10**31)), (1, 0)],
)
def test_outside_its_range_it_is_not_applicable(epsilon: float, delta: float) -> None:
    assert sigma1(Fraction(epsilon), Fraction(delta)) is None


def test_large_deltas_are_read_as_one_half() -> None:
    assert sigma1(Fraction(1), Fraction(99, 100)) == sigma1(Fraction(1), Fraction(1, 2))


def test_known_values() -> None:
    for epsilon, wanted in ((0.1, 36.30), (1, 4.2247), (5, 0.9800), (10, 0.5411)):
        assert sigma1(Fraction(str(epsilon)), Fraction(1, 10**6)) == pytest.approx(wanted, rel=2e-4)


def discrete_delta(epsilon: float, change: int, sigma: float) -> float:
    """P[X > e s^2/D - D/2] - e^e P[X > e s^2/D + D/2], summed; CKS 2020 theorem 7."""
    reach = int(40 * sigma) + change
    points = np.arange(-reach, reach + 1, dtype=float)
    mass = np.exp(-(points**2) / (2 * sigma**2))
    mass /= mass.sum()
    middle = epsilon * sigma**2 / change
    return float(
        mass[points > middle - change / 2].sum()
        - math.exp(epsilon) * mass[points > middle + change / 2].sum()
    )


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0])
@pytest.mark.parametrize("delta", [0.5, 1e-2, 1e-4, 1e-6, 1e-9, 1e-12])
def test_the_discrete_mechanism_keeps_delta_from_1024_lattice_units_on(
    epsilon: float, delta: float
) -> None:
    unit = sigma1(Fraction(epsilon), Fraction(delta))
    for change in (math.ceil(1024 / unit), math.ceil(1024 / unit) + 3):
        found = discrete_delta(epsilon, change, change * unit)
        assert delta * (1 - 0.01) < found <= delta


def test_the_discrete_mechanism_breaks_delta_on_a_coarse_lattice() -> None:
    # why 1024: at sigma 2.23 on the integers the continuous sigma is 10 % short of delta
    assert discrete_delta(2.0, 1, sigma1(Fraction(2), Fraction(1, 10**6))) > 1.05e-6


@pytest.mark.parametrize("sigma", [3, 10, 1024])
def test_discrete_noise_is_continuous_noise_rounded_at_random(sigma: int) -> None:
    # what `sigma1` rests on: with a spread of 2 in the rounding, up to 2.1 exp(-8 pi^2) and floats
    spread = math.sqrt(sigma**2 - 4)
    y = np.linspace(-40 * sigma, 40 * sigma, 80 * 40 * sigma + 1 if sigma < 1024 else 2**19 + 1)
    density = np.exp(-(y**2) / (2 * spread**2))
    near = np.floor(y)[:, None] + np.arange(-24, 26) if sigma < 1024 else None
    if near is None:
        weights = np.zeros_like(y)
        for shift in range(-24, 26):
            weights += np.exp(-((np.floor(y) + shift - y) ** 2) / 8)
    else:
        weights = np.exp(-((near - y[:, None]) ** 2) / 8).sum(axis=1)
    places = np.array([0, 1, 2, sigma, 2 * sigma])
    rounded = np.array([(density * np.exp(-((k - y) ** 2) / 8) / weights).sum() for k in places])
    wanted = np.exp(-(places**2) / (2 * sigma**2))
    assert rounded / rounded[0] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("change", [(3, 2), (5, 0), (1, 1), (4, 7)])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_excess_of_two_unequal_coordinates_is_below_the_bound(
    change: tuple[int, int], epsilon: float
) -> None:
    # the bound of sigma1's proof, (J + V)/(9 s^2), where it is large enough to be seen
    sigmas = (5, 8)
    grid = [np.arange(-14 * s, 14 * s + 1, dtype=float) for s in sigmas]
    mass = [np.exp(-(x**2) / (2 * s**2)) for x, s in zip(grid, sigmas, strict=True)]
    joint = np.outer(mass[0] / mass[0].sum(), mass[1] / mass[1].sum())
    w = math.sqrt(sum((c / s) ** 2 for c, s in zip(change, sigmas, strict=True)))
    terms = [x * c / s**2 for x, c, s in zip(grid, change, sigmas, strict=True)]
    loss = w**2 / 2 + terms[0][:, None] + terms[1][None, :]
    found = (joint * np.maximum(0, 1 - np.exp(np.minimum(epsilon - loss, 1)))).sum()
    continuous = float(exact_delta(epsilon, w))
    g = epsilon / w - w / 2
    x = np.linspace(g, max(g, 0) + 14, 200_001)
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    slope = -x * density + (x + w) * density * np.exp(-w * (x - g))
    bound = (w * density[0] + np.abs(np.diff(slope)).sum()) / (9 * min(sigmas) ** 2)
    assert abs(found - continuous) <= bound
