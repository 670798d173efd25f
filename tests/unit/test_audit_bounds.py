from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta

from dp_sql.audit.bounds import at_least, at_most, epsilon_at_least

RUNS = (1, 2, 37, 1000, 100_000)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("alpha", [0.05, 1e-6, 1e-9])
def test_bounds_are_scipys_clopper_pearson_bounds(runs: int, alpha: float) -> None:
    for hits in sorted({0, 1, runs // 7, runs // 2, runs - 1, runs}):
        low = 0.0 if hits == 0 else float(beta.ppf(alpha, hits, runs - hits + 1))
        high = 1.0 if hits == runs else float(beta.ppf(1 - alpha, hits + 1, runs - hits))
        assert at_least(hits, runs, alpha) == pytest.approx(low, rel=1e-6, abs=1e-12)
        assert at_most(hits, runs, alpha) == pytest.approx(high, rel=1e-6, abs=1e-12)


def laplace(seed: int, shift: float, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).laplace(shift, 1, shape)


def test_a_shift_of_two_scales_is_seen_and_one_of_a_half_is_not_overstated() -> None:
    far = epsilon_at_least(laplace(1, 0, (20_000,)), laplace(2, 2, (20_000,)), alpha=1e-6)
    assert 1.5 < far <= 2
    near = epsilon_at_least(laplace(3, 0, (20_000,)), laplace(4, 0.5, (20_000,)), alpha=1e-6)
    assert 0.3 < near <= 0.5


def test_places_of_a_run_add_up_whichever_way_they_move() -> None:
    shifts = np.array([0.5, -0.5, 0.5, 0])
    one, other = laplace(5, 0, (20_000, 4)), laplace(6, 0, (20_000, 4)) + shifts
    assert 0.75 < epsilon_at_least(one, other, alpha=1e-6) <= 1.5


def test_equal_laws_show_nothing_and_a_delta_is_taken_off() -> None:
    same = epsilon_at_least(laplace(7, 0, (5000,)), laplace(8, 0, (5000,)), alpha=1e-6)
    assert same <= 0
    rare = np.random.default_rng(9).random((2, 20_000)) < np.array([[0.0], [0.01]])
    first, second = rare.astype(float)
    assert epsilon_at_least(first, second, alpha=1e-6) > 0
    assert epsilon_at_least(first, second, delta=0.02, alpha=1e-6) <= 0
    assert math.isinf(epsilon_at_least(first[:4], second[:4], delta=0.9, alpha=1e-6))
