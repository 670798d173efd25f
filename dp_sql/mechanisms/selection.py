"""How private keys are selected: by thresholds on their noisy number of units, or by coins.

Two rounds: the first selects by weights with a part of the budget, the second by the weights of the
pairs of unit and group that are left, since what a unit has in shown groups it may add to others.

Claim:   both rounds together, and the values of the shown keys, cost the Gaussian noise of the two
         vectors, and the sum of the two selection deltas.
Why:     take neighbours D and D', and of each round the mechanism that never shows the keys that only
         one of them has. On the others each round is a vector with noise and a threshold. What a unit
         adds to the second vector depends on its own pairs and on what the first round showed, and
         whatever that was, it keeps to the vector's bound: a unit of m groups, of those that are left,
         adds weight / sqrt(m) to each. So the two vectors are as good as one with both bounds
         (`sigma1`), or two events one after the other. That mechanism differs from the real one only
         where an own key shows: in round r with a probability of at most delta_r, whatever the first
         one showed (`log_delta_per_group`, `own_keys`). Say a = P[no own key shows and the answer is in
         S], which is at least (1 - delta_1)(1 - delta_2) times what the other mechanism says, as the
         noise of different keys is independent; so delta_1 + delta_2 are added, in either direction.
Assumes: the second round leaves out keys by what the first one showed alone (`DropKeys`), and its unit
         is bounded anew: at most max_groups of the groups that are left.
Source:  [Gopi2020] for the weights, [Swanberg2023] for the rounds
"""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from dp_sql.dataclass import dataclass
from dp_sql.mechanisms.noise import NoiseKind, VectorNoise
from dp_sql.mechanisms.optimal import OptimalRule
from dp_sql.mechanisms.threshold import gaussian_threshold, laplace_threshold, log_delta_per_group
from dp_sql.privacy.contribution import Ball, Box, ContributionSet, Divided, Simplex
from dp_sql.privacy.unit import PrivacyUnit


@dataclass(frozen=True, slots=True)
class Selection:
    """A private key is shown iff the noisy value of `vector` reaches `threshold`.

    vector: its place in the release. threshold: in lattice units of that vector's noise.
    """

    vector: int
    threshold: int


@dataclass(frozen=True, slots=True)
class Coins:
    """A private key is shown by a coin, whose chance the rule gives for the exact value of `vector`."""

    vector: int
    rule: OptimalRule


def threshold(
    noise: VectorNoise,
    delta: Fraction,
    epsilon: Fraction,
    own: list[tuple[int, int]],
    unit: PrivacyUnit,
) -> int:
    """Return the least threshold, in lattice units of `noise`, that hides the keys of changed units.

    delta: of this selection; epsilon: of the whole release. own: how many keys of its own a unit may
    have, with what it adds to each.
    """
    rule = laplace_threshold if noise.kind is NoiseKind.LAPLACE else gaussian_threshold
    found = []
    for groups, one in own:
        log_delta = log_delta_per_group(
            delta, epsilon, groups=groups, group_size=unit.group_size, adjacency=unit.adjacency
        )
        start = noise.lattice * unit.group_size * one
        found.append(rule(noise.scale, log_delta, start=start))
    return max(found)


def weight_of(contribution: ContributionSet) -> int:
    """Return what a unit counts for at most where keys are selected: n units, n times as much."""
    return contribution.weight if isinstance(contribution, Divided) else 1


def own_keys(contribution: ContributionSet, groups: int) -> list[tuple[int, int]]:
    """Return how many keys of its own a unit may have, with what it adds to each: all that matter.

    A unit that spreads its weight has more keys of less weight, or fewer of more.

    Claim:   a threshold that holds for k = group_size units of m groups each, for every m, holds for
             units of different numbers of groups.
    Why:     call each own key after the unit that adds most to it. One that is called after a unit of m
             groups holds at most k times what that unit adds, so it shows with the probability p_m at
             most that k m keys of such units may have: (1 - p_m)^(k m) >= 1 - delta. A unit has m keys
             called after it at most; of all k units (1 - p_m)^m multiply to 1 - delta at least.
    Assumes: the SQL divides a unit's weight by its own number of groups.
    Source:  [Gopi2020]
    """
    if isinstance(contribution, Divided):
        return [(m, contribution.part(m)) for m in range(1, groups + 1)]
    return [(groups, largest(contribution))]


def largest(contribution: ContributionSet) -> int:
    """Return the largest entry that one unit can add to one group."""
    match contribution:
        case Box(low=low, high=high):
            return max(1, *(-end for end in low), *high)
        case Simplex(total=total) | Divided(weight=total) | Ball(radius=total):
            return total
        case _:
            assert_never(contribution)
