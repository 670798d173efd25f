from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dp_sql.privacy.contribution import Ball, Box, Change, Simplex


def test_distances_are_the_largest_over_the_profiles() -> None:
    change = Change((((3, 2), (1, 1)), ((5, 1),)))
    assert change.l1 == 7
    assert change.l2_squared == 25


def test_a_change_of_nothing_has_no_distance() -> None:
    assert Change(((),)).l1 == 0
    assert Change(((),)).l2_squared == 0
    assert Change((((0, 5),),)).l1 == 0


def test_scaling_scales_shifts_and_not_their_number() -> None:
    change = Change((((3, 2), (1, 1)),)).scaled(4)
    assert change.profiles == (((12, 2), (4, 1)),)


@pytest.mark.parametrize(
    "profiles",
    [(), (((-1, 1),),), (((1, -1),),), (((1.5, 1),),), (((True, 1),),), (((np.int64(3), 1),),)],
)
def test_impossible_changes_are_refused(profiles: Any) -> None:
    with pytest.raises(ValueError, match="non-negative integers"):
        Change(profiles)


@pytest.mark.parametrize(("low", "high"), [((), ()), ((0,), (1, 2)), ((1,), (2,)), ((-2,), (-1,))])
def test_a_box_holds_zero(low: tuple[int, ...], high: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="box"):
        Box(low, high)


@pytest.mark.parametrize(("size", "total"), [(0, 1), (1, 0)])
def test_a_simplex_has_components_and_a_total(size: int, total: int) -> None:
    with pytest.raises(ValueError, match="simplex"):
        Simplex(size, total)


@pytest.mark.parametrize(("size", "radius"), [(0, 1), (1, 0)])
def test_a_ball_has_components_and_a_radius(size: int, radius: int) -> None:
    with pytest.raises(ValueError, match="ball"):
        Ball(size, radius)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 256])
@pytest.mark.parametrize("radius", [1, 2, 5, 1000, 2**40 + 1])
@pytest.mark.parametrize("sides", [1, 2])
def test_even_components_are_the_least_that_are_long_enough(
    size: int, radius: int, sides: int
) -> None:
    found = Ball(size, radius).even(sides)
    assert size * found**2 >= (sides * radius) ** 2 > size * (found - 1) ** 2
