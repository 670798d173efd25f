from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_sql.mechanisms.threshold import (
    gaussian_threshold,
    laplace_threshold,
    log_delta_per_group,
)
from dp_sql.privacy.unit import Adjacency

ADD, SWAP = Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION
SCALES = (1, 2, 3, 7, 20)
TAILS = (0.6, 0.5, 0.3, 1e-1, 1e-2, 1e-5, 1e-9, 1e-15)


def laplace_tail(scale: int, n: int) -> Fraction | float:
    """P[Z >= n] by summing the law from the far end."""
    reach = 60 * scale + abs(n)
    mass = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    return math.fsum(mass[reach + n :][::-1]) / math.fsum(np.sort(mass))


def gaussian_tail(sigma: int, n: int) -> float:
    reach = 40 * sigma + abs(n)
    mass = np.exp(-(np.arange(-reach, reach + 1, dtype=float) ** 2) / (2 * sigma**2))
    return math.fsum(mass[reach + n :][::-1]) / math.fsum(np.sort(mass))


@pytest.mark.parametrize(("scale", "tail"), list(itertools.product(SCALES, TAILS)))
def test_laplace_threshold_is_the_least_one(scale: int, tail: float) -> None:
    start = 5
    threshold = laplace_threshold(scale, math.log(tail), start=start)
    assert laplace_tail(scale, threshold - start) <= tail
    if threshold > start + 1:
        assert laplace_tail(scale, threshold - start - 1) > tail


@pytest.mark.parametrize(("sigma", "tail"), list(itertools.product(SCALES, TAILS)))
def test_gaussian_threshold_is_at_most_one_above_the_least(sigma: int, tail: float) -> None:
    start = 5
    threshold = gaussian_threshold(sigma, math.log(tail), start=start)
    assert gaussian_tail(sigma, threshold - start) <= tail
    if threshold > start + 2:
        assert gaussian_tail(sigma, threshold - start - 2) > tail


def test_rounding_of_huge_scales_goes_outward() -> None:
    import mpmath  # noqa: PLC0415

    with mpmath.workdps(60):
        for scale in (2**30 + 1, 2**50):
            for log_tail in (-3.0, -20.7, -700.0):
                n = laplace_threshold(scale, log_tail, start=0)
                exact = -scale * (log_tail + mpmath.log(1 + mpmath.exp(mpmath.mpf(-1) / scale)))
                assert exact <= n <= exact * (1 + mpmath.mpf(10) ** -12) + 1


def test_a_known_threshold() -> None:
    # epsilon 1, delta 1e-6, one group: 15 users on the integers
    log_delta = log_delta_per_group(
        Fraction(1, 10**6), Fraction(1), groups=1, group_size=1, adjacency=ADD
    )
    assert laplace_threshold(1, log_delta, start=1) == 15


@pytest.mark.parametrize("delta", [0.9, 0.3, 1e-3, 1e-6, 1e-13, 1e-20])
@pytest.mark.parametrize(("groups", "size"), [(1, 1), (3, 1), (50, 1), (4, 5)])
def test_all_of_a_units_groups_together_stay_within_delta(
    delta: float, groups: int, size: int
) -> None:
    each = log_delta_per_group(
        Fraction(delta), Fraction(1), groups=groups, group_size=size, adjacency=ADD
    )
    together = -math.expm1(groups * size * math.log1p(-math.exp(each)))
    assert together <= min(delta, 0.5) * (1 + 1e-9)
    assert together >= min(delta, 0.5) * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(20), Fraction(3000)])
@pytest.mark.parametrize("other", [a for a in Adjacency if a is not ADD])
def test_all_but_add_remove_pay_for_a_removal_and_an_addition(
    epsilon: Fraction, other: Adjacency
) -> None:
    delta = Fraction(1, 10**6)
    one = log_delta_per_group(delta, epsilon, groups=1, group_size=1, adjacency=ADD)
    both = log_delta_per_group(delta, epsilon, groups=1, group_size=1, adjacency=other)
    half = float(epsilon) / 2
    factor = half if half > 500 else math.log1p(math.exp(half))
    assert both == pytest.approx(one - factor, rel=1e-9)


def test_a_delta_next_to_one_is_read_as_one_half() -> None:
    near = Fraction(10**30 - 1, 10**30)
    found = log_delta_per_group(near, Fraction(1), groups=1, group_size=1, adjacency=ADD)
    assert found == pytest.approx(math.log(0.5))
