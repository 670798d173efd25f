"""Samplers against their exact laws by chi-square.

False alarm rate: 1e-6 a law. 200,000 draws notice a scale that is 3 % off always; the slow run of
4,000,000 notices 0.5 %. The last test shows that the test itself notices.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from dp_sql.mechanisms.sampler import ExactSampler

FALSE_ALARM = 1e-6
SHORT, LONG = 200_000, 4_000_000
SCALES = (1, 2, 3, 10, 1000, 2**20 + 7, 2**40 + 1)
Cdf = Callable[[np.ndarray], np.ndarray]


def laplace_cdf(scale: int) -> Cdf:
    """P[Z <= k]: e^(k/t)/(1 + e^(-1/t)) for k < 0, by symmetry above."""
    whole = 1 + math.exp(-1 / scale)

    def cdf(k: np.ndarray) -> np.ndarray:
        tail = np.exp(-np.where(k < 0, -k, k + 1) / scale) / whole
        return np.where(k < 0, tail, 1 - tail)

    return cdf


def gaussian_cdf(sigma: int) -> Cdf:
    """The summed law for small sigma; above, the normal law, which is closer than 1/sigma^2."""
    if sigma > 10_000:
        return lambda k: stats.norm.cdf((k + 0.5) / sigma)
    reach = 12 * sigma + 10
    mass = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    summed = np.cumsum(mass) / mass.sum()
    return lambda k: summed[np.clip(k + reach, 0, 2 * reach)]


def p_value(draws: np.ndarray, cdf: Cdf, scale: int) -> float:
    """Chi-square over cells of at least one step and about a tenth of the scale."""
    step = max(1, scale // 10)
    edges = np.arange(-60, 61) * step  # a cell is (edge - step, edge]
    below = cdf(edges)
    expected = np.diff(np.concatenate(([0.0], below, [1.0]))) * draws.size
    observed = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=edges.size + 1)
    large = expected > 10
    cells_o = np.append(observed[large], observed[~large].sum())
    cells_e = np.append(expected[large], expected[~large].sum())
    keep = cells_e > 0
    statistic = ((cells_o[keep] - cells_e[keep]) ** 2 / np.maximum(cells_e[keep], 1)).sum()
    return float(stats.chi2.sf(statistic, keep.sum() - 1))


def check(law: str, scale: int, size: int) -> None:
    draws = getattr(ExactSampler(), law)(scale, size)
    cdf = laplace_cdf(scale) if law == "laplace" else gaussian_cdf(scale)
    assert p_value(draws, cdf, scale) > FALSE_ALARM


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_law(law: str, scale: int) -> None:
    check(law, scale, SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_law_with_many_draws(law: str, scale: int) -> None:
    check(law, scale, LONG)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_low_bits_are_uniform_at_large_scales(law: str) -> None:
    draws = getattr(ExactSampler(), law)(2**40 + 1, SHORT)
    counts = np.bincount(draws & 63, minlength=64)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_draws_are_independent_of_their_neighbours(law: str) -> None:
    draws = getattr(ExactSampler(), law)(1024, SHORT).astype(float)
    for gap in (1, 2, 7):
        first, second = np.abs(draws[:-gap]), draws[gap:]
        assert abs(np.corrcoef(first, second)[0, 1]) < 5 / math.sqrt(SHORT)  # 6e-7


@pytest.mark.parametrize(("law", "scale", "wrong"), [("laplace", 100, 103), ("gaussian", 100, 102)])
def test_a_scale_a_few_percent_off_is_noticed(law: str, scale: int, wrong: int) -> None:
    draws = getattr(ExactSampler(), law)(wrong, SHORT)
    cdf = laplace_cdf(scale) if law == "laplace" else gaussian_cdf(scale)
    assert p_value(draws, cdf, scale) < FALSE_ALARM


def test_a_double_zero_is_noticed() -> None:
    # the classic slip: both zeros of the two signs are kept
    signs = np.where(np.arange(SHORT) % 2, 1, -1)
    draws = np.abs(ExactSampler().laplace(2, SHORT))
    geometric = np.random.default_rng(1).geometric(1 - math.exp(-1 / 2), SHORT) - 1
    assert p_value(draws * signs, laplace_cdf(2), 2) > FALSE_ALARM
    assert p_value(geometric * signs, laplace_cdf(2), 2) < FALSE_ALARM
