"""Counts of distinct values: matchings move little when a unit does, and the cap is chosen privately."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from random import Random

import numpy as np
import pytest

from dp_sql.mechanisms.chooser import Chooser
from dp_sql.mechanisms.distinct import Counter, count, matched, standing
from dp_sql.mechanisms.sampler import ExactSampler
from dp_sql.plan.facts import HistogramFacts, PairTable
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit

Units = dict[int, set[int]]


def table(*groups: Units) -> PairTable:
    """Return the pairs of groups of units with their values, in order."""
    ends, units, values = [], [], []
    for group in groups:
        for unit in sorted(group):
            units += [unit] * len(group[unit])
            values += sorted(group[unit])
        ends.append(len(units))
    keys = [(i,) for i in range(len(groups))]
    return PairTable(keys, ends, np.array(units, np.uint64), np.array(values, np.uint64))


def counter(
    epsilon: Fraction | int,
    *caps: int,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    groups: int = 1,
    cells: int | None = None,
) -> Counter:
    unit = PrivacyUnit(Level.USER, adjacency, 1, "u")
    return Counter(caps, Chooser(Fraction(epsilon), HistogramFacts(1, groups, cells, ""), unit))


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_one_unit_moves_the_number_by_its_cap_at_most(cap: int) -> None:
    r = Random(cap)
    reached = 0
    for _ in range(3000):
        values = range(r.randrange(1, 8))
        units = {unit: {v for v in values if r.random() < 0.4} for unit in range(r.randrange(1, 7))}
        (whole,) = matched(table(units), [cap])[cap]
        chosen = r.choice(list(units))
        (less,) = matched(table({u: v for u, v in units.items() if u != chosen}), [cap])[cap]
        swapped = {**units, chosen: {v for v in values if r.random() < 0.4}}
        (other,) = matched(table(swapped), [cap])[cap]
        assert 0 <= whole - less <= cap
        assert abs(int(whole) - int(other)) <= cap
        assert whole <= len(set().union(*units.values()))
        reached += whole - less == cap
    assert reached > 50


def test_two_units_with_one_hash_are_one_unit() -> None:
    r = Random(1)
    for _ in range(2000):
        both = [{v for v in range(6) if r.random() < 0.4} for _ in range(2)]
        rest: Units = {5: {v for v in range(6) if r.random() < 0.4}, 9: {0, 1}}
        (together,) = matched(table({**rest, 7: both[0] | both[1]}), [2])[2]
        (one,) = matched(table({**rest, 7: both[0]}), [2])[2]
        assert abs(int(together) - int(one)) <= 2


def test_values_that_many_have_need_few_vouchers() -> None:
    r = Random(3)
    units = {unit: set(r.sample(range(50), 8)) for unit in range(400)}
    assert matched(table(units, {}, {3: {1, 2}}), [1])[1].tolist() == [50, 0, 1]
    assert matched(table(units), [8])[8].tolist() == [50]


def test_without_noise_the_cap_that_counts_most_is_chosen() -> None:
    units = {unit: set(range(10 * unit, 10 * unit + 7)) for unit in range(30)}
    pairs = table(units, {1: {5}})
    groups = np.array([1, 0])
    found = count(counter(10**9, 1, 2, 4, 8), pairs, groups, 3, ExactSampler())
    assert [round(int(v) / found.lattice) for v in found.values] == [1, 210, 0]


def test_the_cap_weighs_what_is_missed_against_the_noise() -> None:
    """A cap of 64 would count a tenth more, under 64 times the noise."""
    dense = {unit: set(Random(unit).sample(range(200), 20)) for unit in range(3000)}
    spare: Units = {5000: set(range(1000, 1020))}
    chosen = []
    for _ in range(20):
        found = count(
            counter(20, 1, 8, 64), table({**dense, **spare}), np.array([0]), 1, ExactSampler()
        )
        chosen.append(round(found.scale / found.lattice))
    assert chosen.count(0) > 15  # at a cap of 1 the scale is below half a value


def test_a_choice_of_the_cap_is_a_tenth_of_the_cost() -> None:
    assert [e.epsilon for e in counter(1, 1, 2).events] == [Fraction(1, 10), Fraction(9, 10)]
    assert [e.epsilon for e in counter(1, 4).events] == [1]
    assert [e.epsilon for e in counter(1).events] == [1]


@pytest.mark.parametrize(
    ("adjacency", "sides"), [(Adjacency.ADD_REMOVE, 1), (Adjacency.SUBSTITUTION, 2)]
)
def test_the_noise_covers_the_cap_in_all_groups(adjacency: Adjacency, sides: int) -> None:
    lattice, scale = counter(2, 3, adjacency=adjacency, groups=5).noise(3)
    assert (
        Fraction(sides * 3 * 5, 2)
        <= Fraction(scale, lattice)
        <= Fraction(sides * 3 * 5, 2) * Fraction(1001, 1000)
    )


def _worst_swap(groups: int, cells: int, cap: int) -> int:
    """Return how far one unit that changes for another moves numbers at most, group by group."""
    worst = 0
    for left, entered in product(combinations(range(cells), groups), repeat=2):
        worst = max(worst, cap * len({*left, *entered}))  # by cap in a group of either or of both
    return worst


@pytest.mark.parametrize(("groups", "cells"), [(1, 1), (1, 3), (2, 2), (2, 3), (3, 4), (2, 6)])
def test_a_unit_that_changes_for_another_moves_a_group_that_both_are_in_once(
    groups: int, cells: int
) -> None:
    swapped = counter(2, 3, adjacency=Adjacency.SUBSTITUTION, groups=groups, cells=cells)
    least = Fraction(_worst_swap(groups, cells, 3), 2)
    lattice, scale = swapped.noise(3)
    assert least <= Fraction(scale, lattice) <= least * Fraction(1001, 1000)


def test_how_a_cap_stands_changes_by_one_at_most() -> None:
    r = Random(9)
    largest = Fraction(0)
    for _ in range(2000):
        wide = [Fraction(r.choice((1, 2, 4, 20))) for _ in range(r.randrange(1, 6))]
        before = [Fraction(r.randrange(-50, 50)) for _ in wide]
        after = [v + d * r.choice((-1, 0, 1)) for v, d in zip(before, wide, strict=True)]
        moved = max(
            abs(a - b) for a, b in zip(standing(before, wide), standing(after, wide), strict=True)
        )
        assert moved <= 1
        largest = max(largest, moved)
    assert largest == 1
