"""Quantiles from a tree of noisy counts: its shape, its noise, what is read from it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from test_mechanisms_ranks import MEDIAN, RANKS, chooser, counted, histogram

from dp_sql.errors import UnsupportedSQLError
from dp_sql.mechanisms import tree
from dp_sql.mechanisms.choice import choose, events_of, rank_error, require_drawable
from dp_sql.mechanisms.chooser import Counted
from dp_sql.mechanisms.sampler import ExactSampler, Integers
from dp_sql.plan.histogram import Histogram, Quantile, Rank
from dp_sql.plan.tree import branches
from dp_sql.privacy.event import LaplaceEvent, pure_epsilon
from dp_sql.privacy.unit import Adjacency
from dp_sql.schema.catalog import ChoiceKind


def by_tree(cells: int, *asked: Rank, unit: int = 1, fine: int = 1) -> Histogram:
    return replace(histogram(cells, *asked, unit=unit, fine=fine), kind=ChoiceKind.TREE)


class Silent(ExactSampler):
    """Keeps what noise was asked for, and adds none."""

    def __init__(self) -> None:
        object.__setattr__(self, "asked", [])

    def laplace(self, scale: int, size: int) -> Integers:
        self.asked.append((scale, size))  # type: ignore[attr-defined]
        return np.zeros(size, dtype=np.int64)


@pytest.mark.parametrize(
    ("places", "found"), [(2, (2,)), (101, (10, 11)), (65_537, (14, 17, 17, 17))]
)
def test_the_shape_of_a_tree(places: int, found: tuple[int, ...]) -> None:
    assert branches(places) == found


@pytest.mark.parametrize("places", [*range(1, 60), 1000, 4097, 2**16 + 1])
def test_a_tree_has_a_leaf_for_every_place(places: int) -> None:
    assert places <= math.prod(branches(places)) <= 2 * places + 2


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION])
@pytest.mark.parametrize("group_size", [1, 3])
def test_no_neighbour_moves_the_nodes_further_than_the_event_says(
    adjacency: Adjacency, group_size: int
) -> None:
    """Trees of neighbours, built without any code of ours: L1, the largest move, how many moves."""
    r, cells, weight, groups, reached = Random(3), 200, 2, 2, False
    some = chooser(1, weight=weight, groups=groups, adjacency=adjacency, group_size=group_size)
    event = tree.event_of(by_tree(cells, MEDIAN), some)
    lattice, scale = some.laplace(len(branches(cells + 1)))
    assert event.scale == scale
    assert len(branches(cells + 1)) > 1
    assert pure_epsilon(event) <= 1  # type: ignore[operator]
    ((move, touched),) = event.change.profiles[0]

    def unit() -> dict[tuple[int, int], int]:
        """Return a unit's weights by group and place."""
        held: dict[tuple[int, int], int] = {}
        for group in r.sample(range(4), groups):
            spots = (
                [r.randrange(cells + 1)] * weight
                if r.random() < 0.5
                else r.sample(range(201), weight)
            )
            for spot in spots:
                held[group, spot] = held.get((group, spot), 0) + 1
        return held

    def nodes(units: list[dict[tuple[int, int], int]]) -> dict[tuple[int, int, int], int]:
        wide, leaves = branches(cells + 1), math.prod(branches(cells + 1))
        found: dict[tuple[int, int, int], int] = {}
        for held in units:
            for (group, spot), w in held.items():
                size = leaves
                for level, b in enumerate(wide):
                    size //= b
                    place = group, level, spot // size
                    found[place] = found.get(place, 0) + w
        return found

    for _ in range(300):
        common = [unit() for _ in range(3)]
        gone = [unit() for _ in range(group_size)]
        came = [unit() for _ in range(group_size)] if adjacency is Adjacency.SUBSTITUTION else []
        before, after = nodes([*common, *gone]), nodes([*common, *came])
        moves = [abs(before.get(n, 0) - after.get(n, 0)) * lattice for n in {*before, *after}]
        assert max(moves) <= move
        assert sum(moves) <= move * touched == event.change.l1
        reached |= sum(moves) == event.change.l1
    assert reached


def test_noise_is_drawn_for_every_node_of_every_group() -> None:
    sampler, made = Silent(), by_tree(100, MEDIAN)
    some = chooser(1)
    choose(made, counted([[1] * 101, [0] * 100 + [1]]), 2, some, sampler)
    _, scale = some.laplace(2)
    assert sampler.asked == [(scale, 2 * 110), (scale, 2 * 10)]  # type: ignore[attr-defined]
    assert events_of(made, some) == [LaplaceEvent(scale, tree.event_of(made, some).change)]


def test_without_noise_ranks_are_those_of_the_values() -> None:
    lines = [[3, 0, 0, 1, 5, 0], [0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 7]]
    made = by_tree(5, *RANKS, fine=10)
    chosen = choose(made, counted(lines), 3, chooser(10**6), ExactSampler())
    values = [[float(made.value(int(c))) for c in column] for column in chosen]
    assert values == [[4, 1.5, 5], [4, 1.9, 5], [0, 1, 5], [4, 2, 5], [4, 2, 5], [0, 1, 5]]
    assert made.runs == 1


def test_a_group_without_rows_has_the_value_nearest_to_0() -> None:
    empty = Counted(*(np.empty(0, dtype=np.intp) for _ in range(3)))
    chosen = choose(by_tree(5, *RANKS), empty, 2, chooser(10**6), ExactSampler())
    assert {value for column in chosen for value in column.tolist()} == {0}


def test_weights_beyond_64_bits_are_counted_exactly() -> None:
    made = by_tree(3, MEDIAN, unit=2**40)
    big = Counted(np.zeros(2, np.intp), np.array([0, 3]), np.array([2**61, 2**61 + 2**42], object))
    (chosen,) = choose(made, big, 1, chooser(10**9, weight=2**40), ExactSampler())
    assert chosen.tolist() == [3]


def test_more_noise_than_can_be_drawn_is_refused() -> None:
    with pytest.raises(UnsupportedSQLError, match="beyond what can be drawn"):
        require_drawable(by_tree(4, MEDIAN), chooser(Fraction(1, 10**16)))


def test_children_move_to_the_nearest_numbers_that_add_up() -> None:
    found = tree._moved(
        np.array([[[3.0, -1.0, 2.5]], [[-5.0, -6.0, -7.0]]]), np.array([[4.0], [0.0]])
    )
    assert found.tolist() == [[[2.25, 0.0, 1.75]], [[0.0, 0.0, 0.0]]]


def test_the_rank_error_that_explain_states_holds() -> None:
    places = [Quantile(Fraction(i, 20), continuous=False) for i in range(1, 20)]
    made, some, draws = by_tree(100, *places), chooser(Fraction(1, 2)), 300
    bound = rank_error(made, places[0], some, 0.05)
    chosen = choose(made, counted([[20] * 101] * draws), draws, some, ExactSampler())
    for place, column in zip(places, chosen, strict=True):
        off = [abs(20 * int(c) + 10 - float(place.fraction) * 2020) - 11 for c in column]
        assert sum(o > bound for o in off) <= draws * 0.05
        assert place.fraction != Fraction(1, 2) or np.quantile(off, 0.95) > bound / 6


def test_a_value_between_places_of_one_ratio_lies_between_them() -> None:
    made = by_tree(4, MEDIAN)
    ends = Fraction(1), Fraction(10_000)
    measure = replace(made.measure, low=Fraction(0), high=Fraction(math.log(10_000)))
    made = replace(made, measure=measure, ratios=ends)
    assert [float(made.value(i)) for i in range(5)] == pytest.approx([1, 10, 100, 1000, 10_000])
    assert [made.candidate(Fraction(v)) for v in (-3, 0, 1, 4, 31, 32, 20_000)] == [
        0,
        0,
        0,
        1,
        1,
        2,
        4,
    ]
    assert made.between(0, 4, Fraction(1, 2)) == 4
    assert made.between(0, 4, Fraction(1, 1000)) == 1
    assert made.between(2, 2, Fraction(1, 2)) == 2
