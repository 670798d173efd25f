from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mechanism_plans import (
    COUNT,
    ScriptedSampler,
    measured,
    moments,
    planned,
    public,
    sealed,
    silent,
    total,
)

from dp_sql.errors import InternalError
from dp_sql.mechanisms.interval import DRAWS, interval, laplace_half_width, redraw
from dp_sql.mechanisms.noise import NoiseKind, VectorNoise
from dp_sql.mechanisms.readout import read
from dp_sql.mechanisms.release import Released, release
from dp_sql.mechanisms.sampler import ExactSampler
from dp_sql.plan.relation import Measure
from dp_sql.plan.release import (
    CountReadout,
    MeanReadout,
    PlannedRelease,
    Readout,
    SumReadout,
    VarianceReadout,
)
from dp_sql.schema.sqltype import BIGINT, DOUBLE

LAPLACE = VectorNoise(NoiseKind.LAPLACE, 1024, 2048)
GAUSSIAN = VectorNoise(NoiseKind.GAUSSIAN, 1024, 3000)


def released_of(
    plan: PlannedRelease, *columns: list[int], noise: VectorNoise = LAPLACE
) -> Released:
    table = sealed([(i,) for i in range(len(columns[0]))], *columns)
    return release(plan, measured(plan, *[noise] * len(plan.vectors)), table, ScriptedSampler())


def grouped(*measures: Measure, groups: int, **options: Any) -> PlannedRelease:
    return planned(*measures, keys=1, public=(public(*range(groups)),), **options)


def laplace_coverage(scale: int, m: int) -> float:
    mass = np.exp(-np.abs(np.arange(-80 * scale, 80 * scale + 1)) / scale)
    return mass[np.abs(np.arange(-80 * scale, 80 * scale + 1)) <= m].sum() / mass.sum()


@pytest.mark.parametrize("scale", [1, 2, 10, 1000])
@pytest.mark.parametrize("level", [0.01, 0.5, 0.9, 0.95, 0.999])
def test_laplace_half_width_is_the_least(scale: int, level: float) -> None:
    m = laplace_half_width(scale, level)
    assert laplace_coverage(scale, m) >= level - 1e-12
    if m > 0:
        assert laplace_coverage(scale, m - 1) < level


def test_count_and_sum_under_laplace_noise() -> None:
    plan = grouped(COUNT, total(0, 9, Fraction(1, 4)), groups=2, types=(BIGINT, DOUBLE))
    released = released_of(plan, [100, 7], [40, -4])
    m = laplace_half_width(2048, 0.95) / 1024
    sampler = ScriptedSampler()
    low, high = interval(plan, released, 0, 0.95, sampler)
    assert low.dtype == high.dtype == np.int64
    assert low.tolist() == [math.ceil(100 - m), math.ceil(7 - m)]
    assert high.tolist() == [math.floor(100 + m), math.floor(7 + m)]
    low, high = interval(plan, released, 1, 0.95, sampler)
    np.testing.assert_allclose(low, [10 - m / 4, -1 - m / 4], rtol=1e-12)
    np.testing.assert_allclose(high, [10 + m / 4, -1 + m / 4], rtol=1e-12)
    assert sampler.calls == []  # closed forms draw nothing


def test_count_under_gaussian_noise() -> None:
    plan = grouped(
        moments(0, 1, cells=1),
        groups=1,
        readouts=(CountReadout(0, with_null=False),),
        types=(DOUBLE,),
    )
    low, high = interval(
        plan, released_of(plan, [30], [50], noise=GAUSSIAN), 0, 0.95, ScriptedSampler()
    )
    half = 1.959964 * math.sqrt(2) * 3000 / 1024
    assert low[0] == pytest.approx(80 - half, rel=1e-4)
    assert high[0] == pytest.approx(80 + half, rel=1e-4)


def test_fine_noise_never_hides_the_value_shown() -> None:
    # +-0.1 around 10.25: no integer inside, so the interval is the value shown
    plan = grouped(COUNT, groups=1)
    noise = VectorNoise(NoiseKind.LAPLACE, 2**16, 2000)
    released = release(plan, measured(plan, noise), sealed([(0,)], [10]), ScriptedSampler([2**14]))
    low, high = interval(plan, released, 0, 0.95, ScriptedSampler())
    assert (low[0], high[0]) == (10, 10)


def test_counts_by_weight_move_outward_to_integers() -> None:
    plan = grouped(
        moments(0, 1, cells=8),
        groups=1,
        readouts=(CountReadout(0, with_null=False),),
        types=(BIGINT,),
    )
    released = released_of(plan, [8 * 30], [8 * 50])
    low, high = interval(plan, released, 0, 0.95, ExactSampler())
    draws = np.abs(ExactSampler().laplace(2048, 400_000).reshape(2, -1).sum(axis=0)) / 1024 / 8
    half = np.quantile(draws, 0.95)
    assert low[0] <= 80 - half * 0.9
    assert high[0] >= 80 + half * 0.9
    assert high[0] - low[0] <= 2 * half * 1.1 + 2


def test_huge_totals_keep_their_integer_ends() -> None:
    plan = grouped(COUNT, groups=1)
    released = released_of(plan, [2**61 + 1], noise=VectorNoise(NoiseKind.LAPLACE, 8, 1024))
    low, high = interval(plan, released, 0, 0.5, ScriptedSampler())
    m = laplace_half_width(1024, 0.5)
    assert int(low[0]) == 2**61 + 1 - m // 8
    assert int(high[0]) == 2**61 + 1 + m // 8


def test_without_noise_the_interval_is_the_value() -> None:
    measure = moments(0, 1, cells=8, degree=2)
    readouts = (
        CountReadout(0, with_null=False),
        MeanReadout(0),
        VarianceReadout(0, sample=True, root=True),
    )
    plan = grouped(measure, groups=1, readouts=readouts, types=(BIGINT, DOUBLE, DOUBLE))
    released = release(plan, silent(plan), sealed([(0,)], [64], [32], [96]), ScriptedSampler())
    for i, value in enumerate(read(plan, released)):
        low, high = interval(plan, released, i, 0.95, ScriptedSampler())
        assert low.tolist() == high.tolist() == value.tolist()


def test_a_sum_of_zeros_only_has_no_width() -> None:
    plan = grouped(moments(0, 0, cells=1), groups=1, readouts=(SumReadout(0),), types=(DOUBLE,))
    low, high = interval(plan, released_of(plan, [5], [5]), 0, 0.95, ScriptedSampler())
    assert low[0] == high[0] == 0


@pytest.mark.parametrize("readout", [MeanReadout(0), VarianceReadout(0, sample=False, root=False)])
def test_percentiles_come_from_fresh_noise_of_the_release(readout: Readout) -> None:
    measure = moments(0, 10, cells=8, degree=2)
    plan = grouped(measure, groups=3, readouts=(readout,), types=(DOUBLE,))
    columns = [[64 * 400, 0, 64], [64 * 300, 0, 64], [64 * 300, 0, 64]]
    noise = VectorNoise(NoiseKind.LAPLACE, 16, 1024)
    released = released_of(plan, *columns, noise=noise)
    sampler = ExactSampler()
    low, high = interval(plan, released, 0, 0.9, sampler)
    value = read(plan, released)[0]
    assert (low <= value).all()
    assert (value <= high).all()
    assert high[0] - low[0] < (high[1] - low[1]) / 3  # 1,000 rows against none
    reach = 10 if isinstance(readout, MeanReadout) else 25
    assert low.min() >= 0
    assert high.max() <= reach
    scripted = ScriptedSampler()
    interval(plan, released, 0, 0.9, scripted)
    assert scripted.calls == [("laplace", 1024, 3 * DRAWS)]


def test_many_groups_are_read_in_chunks() -> None:
    groups = 1100
    plan = grouped(moments(0, 10, cells=8), groups=groups)
    noise = VectorNoise(NoiseKind.LAPLACE, 128, 1024)
    released = released_of(plan, [800] * groups, [800] * groups, noise=noise)
    low, high = interval(plan, released, 0, 0.95, ExactSampler())
    assert low.shape == high.shape == (groups,)
    assert np.unique(low).size == np.unique(high).size == 1  # all groups share the draws


@pytest.mark.parametrize("level", [0, 1, -0.5, 2])
def test_levels_out_of_range_are_a_bug(level: float) -> None:
    plan = grouped(COUNT, groups=1)
    with pytest.raises(InternalError, match="level"):
        interval(plan, released_of(plan, [1]), 0, level, ScriptedSampler())


def test_redrawn_values_take_the_noise_away_again() -> None:
    measure = moments(0, 10, cells=4, degree=2)
    readouts = (
        CountReadout(0, with_null=False),
        SumReadout(1),
        MeanReadout(0),
        VarianceReadout(0, sample=False, root=True),
    )
    plan = grouped(
        measure, total(), groups=3, readouts=readouts, types=(BIGINT, BIGINT, DOUBLE, DOUBLE)
    )
    noise = VectorNoise(NoiseKind.LAPLACE, 2, 9)
    released = released_of(plan, [16] * 3, [32] * 3, [0, 16, 64], [1, 2, 3], noise=noise)
    sampler = ScriptedSampler([0, 32, 0, 32, 0, 32], [0, -10])
    found = redraw(plan, released, [2, 0], 2, sampler)
    assert sampler.calls == [("laplace", 9, 6), ("laplace", 9, 2)]
    assert [c.dtype.kind for c in found] == ["i", "i", "f", "f"]
    assert found[0].tolist() == [7, 4, 3, 0]  # (16 + 32 + 64)/16, then minus 3 * 16/16
    assert found[1].tolist() == [3, 8, 1, 6]
    assert found[2][0] == pytest.approx(10 * (16 + 64) / 112)
    assert found[2][3] == 10  # no weight left, which tells nothing: the ends in turns
    assert found[3][0] == pytest.approx(10 * math.sqrt((16 * 64 - 32**2 / 4) / 112**2))


def test_redrawing_without_noise_repeats_the_answer() -> None:
    measure = moments(0, 10, cells=4, degree=2)
    readouts = (
        CountReadout(0, with_null=False),
        MeanReadout(0),
        VarianceReadout(0, sample=False, root=False),
    )
    plan = grouped(measure, groups=2, readouts=readouts, types=(BIGINT, DOUBLE, DOUBLE))
    released = release(
        plan, silent(plan), sealed([(0,), (1,)], [16, 0], [32, 1], [8, 2]), ScriptedSampler()
    )
    for again, value in zip(
        redraw(plan, released, [0, 1], 3, ScriptedSampler()), read(plan, released), strict=True
    ):
        np.testing.assert_allclose(again, np.repeat(value, 3), rtol=1e-12)
