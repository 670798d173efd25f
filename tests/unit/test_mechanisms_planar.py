from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from random import Random

import numpy as np
import pytest
from scipy import stats

from dp_sql.errors import ParameterError
from dp_sql.mechanisms import planar
from dp_sql.mechanisms.planar import STEP, PlanarLaplace, draw, lattice_place, moved_to, scale_of
from dp_sql.mechanisms.sampler import ExactSampler

METRES = float(STEP)
FALSE_ALARM = 1e-6
CORNERS = (
    (90.0, 0.0),
    (-90.0, 17.0),
    (0.0, 180.0),
    (0.0, -180.0),
    (48.8584, 2.2945),
    (-33.9, 359.0),
)


def points(count: int) -> list[tuple[float, float]]:
    r = Random(1)
    return [*CORNERS, *((r.uniform(-90, 90), r.uniform(-180, 180)) for _ in range(count))]


def in_space(latitude: float, longitude: float) -> np.ndarray:
    """Return the point of the ellipsoid in metres, in extended precision."""
    half, squeezed = np.longdouble(6_378_137), (1 - 1 / np.longdouble("298.257223563")) ** 2
    phi, lam = (np.longdouble(d) * np.pi / 180 for d in (latitude, longitude))
    normal = half / np.sqrt(1 - (1 - squeezed) * np.sin(phi) ** 2)
    across = normal * np.cos(phi)
    return np.array([across * np.cos(lam), across * np.sin(lam), normal * squeezed * np.sin(phi)])


def test_a_point_is_put_on_the_nearest_lattice_point() -> None:
    for point in points(500):
        off = np.array(lattice_place(*point)) * METRES - in_space(*point)
        assert np.abs(off).max() <= METRES / 2 + 1e-5


def test_two_points_are_no_further_apart_on_the_lattice_than_on_the_ground() -> None:
    r = Random(2)
    for latitude, longitude in points(300):
        north = latitude + r.uniform(-1, 1) * 10 ** r.uniform(-9, 0)
        other = max(-90.0, min(90.0, north)), longitude + r.uniform(-1, 1) * 10 ** r.uniform(-9, 0)
        places = [np.array(lattice_place(*p), float) for p in ((latitude, longitude), other)]
        straight = np.linalg.norm(in_space(latitude, longitude) - in_space(*other))
        assert np.linalg.norm(places[0] - places[1]) * METRES <= straight + 0.002


@pytest.mark.parametrize("point", points(50))
def test_a_point_without_noise_is_itself(point: tuple[float, float]) -> None:
    found = moved_to(*point, (0, 0, 0))
    assert np.linalg.norm(in_space(*found) - in_space(*point)) < 0.002
    assert -180 <= found[1] <= 180


def test_the_centre_of_the_earth_is_somewhere() -> None:
    x, y, z = lattice_place(10.0, 20.0)
    assert moved_to(10.0, 20.0, (-x, -y, -z)) == (0.0, 0.0)


def law(scale: int, reach: int) -> dict[int, float]:
    """Return the chance of each squared length up to a reach, from the definition."""
    weights: dict[int, float] = {}
    total = 0.0
    for v in product(range(-4 * reach, 4 * reach + 1), repeat=3):
        square = sum(part * part for part in v)
        weight = math.exp(-math.sqrt(square) / scale)
        total += weight
        weights[square] = weights.get(square, 0.0) + weight
    return {square: w / total for square, w in weights.items() if square <= reach * reach}


def p_value(draws: np.ndarray, chances: dict[int, float]) -> float:
    squares = np.sum(draws * draws, axis=1)
    counts = np.array([(squares == square).sum() for square in chances])
    expected = np.array([chance * len(draws) for chance in chances.values()])
    counts = np.append(counts, len(draws) - counts.sum())
    expected = np.append(expected, len(draws) - expected.sum())
    return float(stats.chisquare(counts, expected).pvalue)


@pytest.mark.parametrize(("scale", "reach", "size"), [(1, 4, 60_000), (2, 6, 60_000)])
def test_lengths_follow_their_law(scale: int, reach: int, size: int) -> None:
    assert p_value(draw(scale, size, ExactSampler()), law(scale, reach)) > FALSE_ALARM


def test_coins_that_are_decided_digit_by_digit_follow_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planar, "_MARGIN", 2.0)
    assert p_value(draw(1, 1_500, ExactSampler()), law(1, 2)) > FALSE_ALARM


def test_the_law_of_lengths_is_told_from_that_of_another_scale() -> None:
    assert p_value(draw(2, 60_000, ExactSampler()), law(1, 4)) < FALSE_ALARM


def test_a_large_scale_has_the_continuous_law() -> None:
    draws = draw(2**40, 20_000, ExactSampler())
    lengths = np.linalg.norm(draws.astype(float), axis=1) / 2**40
    assert stats.kstest(lengths, stats.gamma(3).cdf).pvalue > FALSE_ALARM
    heights = draws[:, 2] / np.linalg.norm(draws.astype(float), axis=1)  # uniform on a sphere
    assert stats.kstest(heights, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM


def test_more_bits_are_taken_where_a_coin_is_close(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = math.exp(-(1.0 / 1 - 1 / 2))  # of (1, 0, 0) at scale 1
    taken: list[int] = []

    def bits(count: int) -> bytes:
        taken.append(count)
        return b"\x00" * count

    monkeypatch.setattr(planar.os, "urandom", bits)
    assert planar._decided((1, 0, 0), 1, 2, int(chance * 2**64) - 2**20)
    assert not planar._decided((1, 0, 0), 1, 2, int(chance * 2**64) + 2**20)
    assert not taken
    exact = int(Fraction(planar.Decimal("-0.5").exp()) * 2**64)  # U and the chance share 64 bits
    assert planar._decided((1, 0, 0), 1, 2, exact)  # the further bits are 0
    assert taken == [8]


@pytest.mark.parametrize("epsilon", ["0.01", "0.3", "1e-9", "7", "1000", "1e6"])
def test_the_noise_costs_no_more_than_asked(epsilon: str) -> None:
    asked = Fraction(epsilon)
    scale = scale_of(asked)
    assert 1 / (scale * STEP) <= asked
    assert scale == 1 or 1 / ((scale - 1) * STEP) > asked


@pytest.mark.parametrize("epsilon", ["0", "-1", "1e-10", "1e7"])
def test_an_epsilon_out_of_range_is_refused(epsilon: str) -> None:
    with pytest.raises(ParameterError, match="epsilon per metre"):
        scale_of(Fraction(epsilon))


def test_what_is_no_point_gives_null() -> None:
    moved = PlanarLaplace(ExactSampler())
    nan, inf = math.nan, math.inf
    for point in (
        (91.0, 0.0),
        (0.0, 361.0),
        (nan, 0.0),
        (0.0, nan),
        (-inf, 0.0),
        (0.0, inf),
        (None, 1.0),
    ):
        assert moved(*point, 0.01) is None
    for epsilon in (None, nan, inf, 0.0, -1.0):
        assert moved(1.0, 1.0, epsilon) is None


def test_a_process_that_is_forked_draws_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = PlanarLaplace(ExactSampler())
    moved(1.0, 1.0, 0.01)
    (before,) = moved._drawn.values()
    kept = list(before)
    monkeypatch.setattr(planar.os, "getpid", lambda: -1)
    moved(1.0, 1.0, 0.01)
    (after,) = moved._drawn.values()
    assert not set(kept) & set(after)


def test_the_ground_is_crossed_by_three_quarters_of_pi_in_the_mean() -> None:
    moved = PlanarLaplace(ExactSampler())
    start = in_space(60.0, 100.0)
    found = [moved(60.0, 100.0, 0.1) for _ in range(4_000)]
    away = [float(np.linalg.norm(in_space(p["lat"], p["lon"]) - start)) for p in found if p]
    assert np.mean(away) == pytest.approx(3 * math.pi / 4 / 0.1, rel=0.05)
