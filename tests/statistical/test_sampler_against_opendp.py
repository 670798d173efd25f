"""The exact sampler and OpenDP's draw from the same law: two samples, one chi-square.

False alarm rate: 1e-6 a law.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dp_sql.mechanisms.sampler import ExactSampler, sampler_named

SIZE = 30_000


def same_law(first: np.ndarray, second: np.ndarray) -> float:
    """Return the p-value of one law behind both samples, over 40 cells of equal weight."""
    both = np.concatenate((first, second))
    edges = np.unique(np.quantile(both, np.linspace(0, 1, 41)[1:-1]))
    table = [
        np.bincount(np.searchsorted(edges, s), minlength=edges.size + 1) for s in (first, second)
    ]
    filled = [column for column in np.transpose(table) if column.sum() > 0]
    return float(stats.chi2_contingency(np.transpose(filled)).pvalue)


@pytest.mark.parametrize("scale", [1, 10, 1024, 2**30])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_same_law_as_opendp(law: str, scale: int) -> None:
    ours = getattr(ExactSampler(), law)(scale, SIZE)
    theirs = getattr(sampler_named("opendp"), law)(scale, SIZE)
    assert same_law(ours, theirs) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1, 1024])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_same_law_as_opendp_with_many_draws(law: str, scale: int) -> None:
    ours = getattr(ExactSampler(), law)(scale, 1_000_000)
    theirs = getattr(sampler_named("opendp"), law)(scale, 1_000_000)
    assert same_law(ours, theirs) > 1e-6


def test_another_law_is_noticed() -> None:
    sampler = ExactSampler()
    assert same_law(sampler.laplace(1024, SIZE), sampler.laplace(1150, SIZE)) < 1e-6
    assert same_law(sampler.laplace(1024, SIZE), sampler.gaussian(1448, SIZE)) < 1e-6
