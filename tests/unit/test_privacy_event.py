from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from budget_cases import gaussian, laplace, one_coordinate, selection

from dp_sql.privacy.contribution import Change
from dp_sql.privacy.cost import FREE
from dp_sql.privacy.event import (
    ApproximateEvent,
    GaussianEvent,
    KeySelectionEvent,
    LaplaceEvent,
    SampledEvent,
    pure_epsilon,
    selection_delta,
)


def test_laplace_noise_costs_its_l1_distance_over_the_scale() -> None:
    event = LaplaceEvent(1600, Change((((16, 1),), ((3, 2), (1, 4)))))
    assert pure_epsilon(event) == Fraction(16, 1600)
    assert selection_delta(event) == 0


def test_gaussian_noise_has_no_pure_epsilon_unless_nothing_moves() -> None:
    assert pure_epsilon(GaussianEvent(10, 1)) is None
    assert pure_epsilon(GaussianEvent(10, 0)) == 0


def test_gaussian_noise_on_a_sample_has_no_pure_epsilon_unless_nothing_moves() -> None:
    moved, still = GaussianEvent(10, 1), GaussianEvent(10, 0)
    assert pure_epsilon(SampledEvent(Fraction(1, 10), (still, moved))) is None
    assert pure_epsilon(SampledEvent(Fraction(1, 10), (still,))) == 0
    assert selection_delta(SampledEvent(Fraction(1, 10), (moved,))) == 0


def test_key_selection_costs_its_noise_and_its_delta() -> None:
    noise = LaplaceEvent(10, one_coordinate(1))
    event = KeySelectionEvent(noise, Fraction(1, 10**9))
    assert pure_epsilon(event) == Fraction(1, 10)
    assert selection_delta(event) == Fraction(1, 10**9)


def test_an_approximate_event_keeps_its_delta_apart() -> None:
    event = ApproximateEvent(Fraction(1, 2), Fraction(1, 10**9))
    assert pure_epsilon(event) == Fraction(1, 2)
    assert selection_delta(event) == Fraction(1, 10**9)
    with pytest.raises(ValueError, match="delta"):
        ApproximateEvent(Fraction(1), Fraction(1))
    with pytest.raises(ValueError, match="epsilon"):
        ApproximateEvent(Fraction(-1), Fraction(0))


@pytest.mark.parametrize("scale", [0, -1, 1.5, True, np.int64(3)])
def test_scales_are_integers_of_at_least_one(scale: Any) -> None:
    with pytest.raises(ValueError, match="integer of at least 1"):
        LaplaceEvent(scale, one_coordinate(1))
    with pytest.raises(ValueError, match="integer of at least 1"):
        GaussianEvent(scale, 1)


@pytest.mark.parametrize("l2_squared", [-1, 0.5, True])
def test_squared_distances_are_integers(l2_squared: Any) -> None:
    with pytest.raises(ValueError, match="integer of at least 0"):
        GaussianEvent(10, l2_squared)


@pytest.mark.parametrize("delta", [Fraction(1), Fraction(-1, 9), 1e-9, float("nan")])
def test_the_delta_of_a_selection_is_a_fraction_below_one(delta: Any) -> None:
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        KeySelectionEvent(LaplaceEvent(10, one_coordinate(1)), delta)


def test_costs_add_up_and_keep_their_events() -> None:
    total = laplace("0.5") + selection("0.25", "1e-9") + FREE + gaussian(10)
    assert total.epsilon == Fraction(7, 4)
    assert total.delta == Fraction(2, 10**9)
    assert len(total.events) == 3
