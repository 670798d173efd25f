"""The textbook's sensitivities, by hand: SUM, COUNT and histograms under both adjacencies."""

from __future__ import annotations

import itertools
from functools import partial
from math import isclose

import pytest
from oracle.judge import ROUND, check

from dp_sql.errors import InternalError
from dp_sql.plan.expression import Literal
from dp_sql.plan.relation import PresenceMeasure
from dp_sql.privacy.contribution import Ball, Box, Change, Divided, Simplex
from dp_sql.privacy.event import LaplaceEvent
from dp_sql.privacy.renyi import rdp
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.sqltype import INTEGER
from dp_sql.sensitivity.contribution import _require_divided
from dp_sql.sensitivity.delta import blocks_moved, change

ADD = PrivacyUnit(Level.USER, Adjacency.ADD_REMOVE)
SWAP = PrivacyUnit(Level.USER, Adjacency.SUBSTITUTION)


@pytest.mark.parametrize(
    ("contribution", "groups", "cells", "unit", "l1", "l2_squared"),
    [
        (Box((0,), (1,)), 1, 1, ADD, 1, 1),  # COUNT(*)
        (Box((0,), (1,)), 1, 1, SWAP, 1, 1),
        (Box((0,), (100,)), 1, 1, ADD, 100, 100**2),  # SUM in [0, B]
        (Box((-80,), (10,)), 1, 1, ADD, 80, 80**2),  # a negative side
        (Box((-80,), (10,)), 1, 1, SWAP, 90, 90**2),
        (Box((0,), (1,)), 1, 10, SWAP, 2, 2),  # a histogram of one bin a unit
        (Box((0,), (1,)), 1, None, SWAP, 2, 2),
        (Box((0,), (1,)), 3, 10, ADD, 3, 3),
        (Box((0,), (1,)), 3, 10, SWAP, 6, 6),
        (Box((0,), (1,)), 3, 4, SWAP, 4, 4),  # two groups are shared at least
        (Box((-5,), (5,)), 1, 2, SWAP, 10, 100),  # one shared group, both ends
        (Simplex(3, 40), 2, 9, ADD, 80, 2 * 40**2),
        (Simplex(3, 40), 2, 9, SWAP, 160, 4 * 40**2),
    ],
)
def test_the_textbook(contribution, groups, cells, unit, l1, l2_squared) -> None:  # noqa: ANN001
    found = change(contribution, groups, cells, unit)
    assert (found.l1, found.l2_squared) == (l1, l2_squared)


@pytest.mark.parametrize("unit", [ADD, SWAP])
@pytest.mark.parametrize("cells", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("ends", [(0, 2), (-2, 0), (-1, 2), (-2, 2)])
def test_brute_force_over_small_boxes(unit, cells, groups, ends) -> None:  # noqa: ANN001
    low, high = ends
    owns = [
        vector
        for vector in itertools.product(range(low, high + 1), repeat=cells)
        if sum(value != 0 for value in vector) <= groups
    ]
    others = owns if unit is SWAP else [(0,) * cells]
    moves = [tuple(a - b for a, b in zip(x, y, strict=True)) for x in owns for y in others]
    found = change(Box((low,), (high,)), groups, cells, unit)
    assert found.l1 == max(sum(map(abs, move)) for move in moves)
    assert found.l2_squared == max(sum(step**2 for step in move) for move in moves)
    for power in (1.5, 3.0):
        costs = [sum(n * shift**power for shift, n in profile) for profile in found.profiles]
        worst = max(sum(abs(step) ** power for step in move) for move in moves)
        assert worst <= max(costs) or isclose(worst, max(costs))


@pytest.mark.parametrize("unit", [ADD, SWAP])
@pytest.mark.parametrize("cells", [1, 2, 3])
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize(("pieces", "most"), [(1, 1), (2, 1), (3, 1), (2, 2), (3, 3)])
def test_brute_force_over_blocks(unit, cells, blocks, pieces, most) -> None:  # noqa: ANN001
    """Every choice of blocks of every unit, in all of which the number moves by 5."""
    all_ = list(itertools.product(range(cells), range(blocks)))
    owns = [
        frozenset(some)
        for count in range(pieces + 1)
        for some in itertools.combinations(all_, count)
        if all(sum(cell == c for c, _ in some) <= most for cell in range(cells))
    ]
    sides = owns if unit is SWAP else [frozenset[tuple[int, int]]()]
    moves = [
        [5 * sum(cell == c for c, _ in old | new) for cell in range(cells)]
        for old in owns
        for new in sides
    ]
    found = blocks_moved(5, blocks, pieces, most, cells, unit)
    assert found.l1 == max(map(sum, moves))
    assert found.l2_squared == max(sum(step**2 for step in move) for move in moves)
    for move in moves:
        check(move, found, partial(str, move))


@pytest.mark.parametrize("unit", [ADD, SWAP])
@pytest.mark.parametrize(("cells", "groups"), [(1, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize(("size", "radius"), [(1, 3), (2, 2), (3, 1)])
def test_brute_force_over_small_balls(unit, cells, groups, size, radius) -> None:  # noqa: ANN001
    ends = range(-radius, radius + 1)
    ball = [v for v in itertools.product(ends, repeat=size) if sum(x * x for x in v) <= radius**2]
    owns = [
        vectors
        for vectors in itertools.product(ball, repeat=cells)
        if sum(any(v) for v in vectors) <= groups
    ]
    others = owns if unit is SWAP else [((0,) * size,) * cells]
    found = change(Ball(size, radius), groups, cells, unit)
    longest = 0
    for one, other in itertools.product(owns, others):
        pairs = zip(itertools.chain(*one), itertools.chain(*other), strict=True)
        moved = [abs(a - b) for a, b in pairs]
        check(moved, found, partial("{} {}".format, one, other), ROUND)
        longest = max(longest, sum(s * s for s in moved))
    single = found.profiles[: len(found.profiles) // 2]
    assert longest == max(sum(n * s * s for s, n in profile) for profile in single)


@pytest.mark.parametrize("alpha", [1.001, 1.5, 2.0, 7.0, 60.0])
@pytest.mark.parametrize("scale", [1, 2, 5, 40])
def test_no_vector_of_a_ball_costs_more_laplace_noise_than_even_shifts(
    alpha: float, scale: int
) -> None:
    ball = Ball(3, 12)
    most = rdp(LaplaceEvent(scale, change(ball, 1, None, ADD)), alpha)
    costs = [
        rdp(LaplaceEvent(scale, Change((tuple((s, 1) for s in vector),))), alpha)
        for vector in itertools.combinations_with_replacement(range(13), 3)
        if sum(s * s for s in vector) <= 12**2
    ]
    assert 0.9 * most <= max(costs) <= most


@pytest.mark.parametrize("size", [2, 5])
def test_a_group_of_units_moves_as_many_times_as_far(size: int) -> None:
    several = PrivacyUnit(Level.USER, Adjacency.ADD_REMOVE, group_size=size)
    one = change(Simplex(2, 7), 3, 9, ADD)
    assert change(Simplex(2, 7), 3, 9, several) == one.scaled(size)


def test_a_release_has_a_group() -> None:
    with pytest.raises(InternalError):
        change(Box((0,), (1,)), 0, 1, ADD)


@pytest.mark.parametrize("unit", [ADD, SWAP])
@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("evenly", [False, True])
def test_a_weight_divided_over_the_groups_of_a_unit(
    unit: PrivacyUnit,
    most: int,
    evenly: bool,  # noqa: FBT001
) -> None:
    divided, cells = Divided(1000, evenly), range(5)
    units = [
        {cell: divided.part(m) for cell in some}
        for m in range(1, most + 1)
        for some in itertools.combinations(cells, m)
    ]
    found = change(divided, most, None, unit)
    reached = 0
    for one, other in itertools.product(units, [{}] if unit is ADD else units):
        moved = [abs(one.get(cell, 0) - other.get(cell, 0)) for cell in cells]
        check(moved, found, partial("{} {}".format, one, other))
        reached = max(reached, sum(s * s for s in moved))
    assert reached > 0.99 * found.l2_squared or unit is SWAP
    assert found.l2_squared <= (1 if unit is ADD else 2) * 1000**2
    assert not evenly or found.l1 <= (1 if unit is ADD else 2) * 1000


def test_a_plan_divides_a_weight_over_all_groups_that_a_unit_may_have() -> None:
    _require_divided(PresenceMeasure(None, 1000, 3), 3)
    with pytest.raises(InternalError):
        _require_divided(PresenceMeasure(None, 1000, 2), 3)
    with pytest.raises(InternalError):
        _require_divided(PresenceMeasure(Literal(1, INTEGER), 1000, 3), 3)
