"""From how many units on a key shows half of the time: why coins are taken up to two groups a unit."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dp_sql.mechanisms.calibrate_gaussian import sigma1
from dp_sql.mechanisms.optimal import optimal_rule
from dp_sql.mechanisms.threshold import gaussian_threshold, log_delta_per_group
from dp_sql.privacy.contribution import Change
from dp_sql.privacy.unit import Adjacency

LATTICE = 1024


def coins(epsilon: Fraction, delta: Fraction, groups: int) -> int:
    rule = optimal_rule(epsilon, delta, Change((((1, groups),),)), 1)
    assert rule is not None
    return rule.units[0]


def weighted(epsilon: Fraction, delta: Fraction, groups: int) -> float:
    """Return the least weight that reaches the threshold where a unit of m groups weighs 1/sqrt(m)."""
    sigma = sigma1(epsilon, delta / 2)
    assert sigma is not None
    found = []
    for m in range(1, groups + 1):
        own = log_delta_per_group(
            delta / 2, epsilon, groups=m, group_size=1, adjacency=Adjacency.ADD_REMOVE
        )
        start = int(LATTICE / math.sqrt(m))
        found.append(gaussian_threshold(math.ceil(LATTICE * sigma), own, start=start))
    return max(found) / LATTICE


@pytest.mark.parametrize("delta", [Fraction(1, 10**6), Fraction(1, 10**9)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(4)])
def test_weights_pay_from_three_groups_on(epsilon: Fraction, delta: Fraction) -> None:
    """Full units have as many groups as they may, lone ones one; what a key's units are nobody knows."""
    for groups, most in ((2, 1.36), (3, 1.06), (4, 0.97)):
        tossed, weight = coins(epsilon, delta, groups), weighted(epsilon, delta, groups)
        full, lone = math.sqrt(groups) * weight / tossed, weight / tossed
        assert full <= most
        assert groups == 2 or full + lone < 1.7
        assert groups > 2 or full > 1.1  # coins are better where units are full
