"""The law of a sum of noises, against closed forms and against noise as it is drawn."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dp_sql.mechanisms.sampler import ExactSampler
from dp_sql.mechanisms.spread import Spread

LEVELS = [0.5, 0.95, 0.999, 1 - 1e-8]


def _two(x: float, one: float, other: float) -> float:
    """P[|X + Y| <= x] of two Laplace numbers of different scales."""
    squares = one**2, other**2
    tail = squares[0] * math.exp(-x / one) - squares[1] * math.exp(-x / other)
    return 1 - tail / (squares[0] - squares[1])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("weight", [1, 3, 50])
def test_two_laplace_numbers(level: float, weight: int) -> None:
    spread = Spread(((Fraction(1), 2048), (Fraction(weight), 1024)))
    half = spread.half_width(level)
    assert _two(half, 2048.0, 1024.0 * weight + 1e-6) == pytest.approx(level, abs=1e-8)
    assert spread.within(Fraction(half)) == pytest.approx(level, abs=1e-8)


@pytest.mark.parametrize("level", LEVELS)
def test_equal_scales(level: float) -> None:
    # P[|X + Y| <= x] = 1 - e^-x (1 + x / 2) for two of scale 1
    half = Spread(((Fraction(1, 1024), 1024),) * 2).half_width(level)
    assert 1 - math.exp(-half) * (1 + half / 2) == pytest.approx(level, abs=1e-8)


@pytest.mark.parametrize("level", LEVELS)
def test_one_laplace_number_is_exact(level: float) -> None:
    spread = Spread(((Fraction(1, 4), 1024),))
    half = Fraction(spread.half_width(level))
    assert spread.within(half) >= level > spread.within(half - Fraction(1, 4))


def test_gaussian_numbers() -> None:
    assert Spread(deviation=2.0).half_width(0.95) == pytest.approx(2 * 1.959963984540054)
    assert Spread(deviation=2.0).within(Fraction(2)) == pytest.approx(0.6826894921370859)


def test_no_noise_is_always_within() -> None:
    assert Spread().within(Fraction(0)) == 1
    assert Spread().half_width(0.95) == 0


def test_a_mixture_as_it_is_drawn() -> None:
    sampler = ExactSampler()
    drawn = 3 * sampler.laplace(1200, 100_000) + sampler.gaussian(2000, 100_000)
    spread = Spread(((Fraction(3), 1200),), 2000.0)
    for level in (0.5, 0.9, 0.99):
        share = float(np.mean(np.abs(drawn) <= spread.half_width(level)))
        assert share == pytest.approx(level, abs=6 * math.sqrt(level * (1 - level) / 100_000))
