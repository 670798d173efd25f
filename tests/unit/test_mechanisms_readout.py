from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanism_plans import (
    COUNT,
    PRESENCE,
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
from dp_sql.mechanisms.noise import NoiseKind, VectorNoise
from dp_sql.mechanisms.readout import Numbers, nearest, ratio, read
from dp_sql.mechanisms.release import Released, release
from dp_sql.plan.relation import Measure, MomentMeasure
from dp_sql.plan.release import (
    CountReadout,
    MeanReadout,
    PlannedRelease,
    Readout,
    SumReadout,
    VarianceReadout,
)
from dp_sql.schema.sqltype import BIGINT, DOUBLE

CELLS = 2**20
values_of_a_group = st.lists(
    st.one_of(st.none(), st.floats(-20, 80, allow_nan=False)), min_size=0, max_size=30
)


def bernstein(values: list[float | None], measure: MomentMeasure) -> list[int]:
    """The summed components of a group, from the definition."""
    sums = [0] * measure.size
    for value in values:
        if value is None:
            if measure.null_component:
                sums[-1] += measure.total
            continue
        place = (Fraction(value) - measure.low) / (measure.high - measure.low)
        a = round(max(Fraction(0), min(Fraction(1), place)) * measure.cells)
        b = measure.cells - a
        terms = (b, a) if measure.degree == 1 else (b * b, 2 * a * b, a * a)
        for i, term in enumerate(terms):
            sums[i] += term
    return sums


def answer(plan: PlannedRelease, *columns: list[int], lattice: int = 1) -> list[Numbers]:
    """Read exact columns, one entry a group, without noise but on a lattice."""
    table = sealed([(i,) for i in range(len(columns[0]))], *columns)
    noises = [VectorNoise(NoiseKind.LAPLACE, lattice, 1) for _ in plan.vectors]
    return read(plan, release(plan, measured(plan, *noises), table, ScriptedSampler()))


def grouped(*measures: Measure, groups: int, **options: Any) -> PlannedRelease:
    return planned(*measures, keys=1, public=(public(*range(groups)),), **options)


@settings(max_examples=60, deadline=None)
@given(
    groups=st.lists(values_of_a_group, min_size=1, max_size=4),
    degree=st.sampled_from([1, 2]),
    with_null=st.booleans(),
    lattice=st.sampled_from([1, 64, 2**40]),
)
def test_without_noise_the_read_outs_are_numpys(
    *, groups: int, degree: int, with_null: bool, lattice: int
) -> None:
    measure = moments(-20, 80, cells=CELLS, degree=degree, null_component=True)
    readouts = [CountReadout(0, with_null=with_null), SumReadout(0), MeanReadout(0)]
    types = [BIGINT, DOUBLE, DOUBLE]
    if degree == 2:
        for sample in (False, True):
            readouts += [VarianceReadout(0, sample=sample, root=root) for root in (False, True)]
        types += [DOUBLE] * 4
    plan = grouped(measure, groups=len(groups), readouts=tuple(readouts), types=tuple(types))
    columns = np.transpose([bernstein(g, measure) for g in groups]).tolist()
    found = answer(plan, *columns, lattice=lattice)
    assert [c.dtype for c in found] == [
        np.dtype("int64"),
        *([np.dtype("float64")] * (len(found) - 1)),
    ]
    step = 100 / CELLS
    for row, group in enumerate(groups):
        known = np.array([v for v in group if v is not None], dtype=float)
        assert found[0][row] == (len(group) if with_null else known.size)
        assert found[1][row] == pytest.approx(known.sum(), abs=step * known.size + 1e-9)
        mean = known.mean() if known.size else 0.0
        assert found[2][row] == pytest.approx(mean, abs=step)
        if degree == 2:
            population = known.var() if known.size else 0.0
            sample = known.var(ddof=1) if known.size >= 2 else population
            for i, wanted in enumerate((population, population, sample, sample)):
                value = found[3 + i][row] ** (2 if i % 2 else 1)
                assert value == pytest.approx(wanted, abs=500 * step)


def test_integers_on_their_own_grid_are_exact() -> None:
    ints = [3, 9, 9, 0, 7]
    measure = moments(0, 9, cells=9, degree=2)
    readouts = (
        CountReadout(0, with_null=False),
        SumReadout(0),
        MeanReadout(0),
        VarianceReadout(0, sample=True, root=False),
    )
    plan = grouped(measure, groups=1, readouts=readouts, types=(BIGINT, BIGINT, DOUBLE, DOUBLE))
    columns = [[c] for c in bernstein(ints, measure)]
    count, summed, mean, variance = (c[0] for c in answer(plan, *columns, lattice=1024))
    assert (count, summed) == (5, 28)
    assert mean == 28 / 5
    assert variance == pytest.approx(np.var(ints, ddof=1), rel=1e-14)


def test_small_variances_of_large_groups_keep_their_digits() -> None:
    # B0 B2 - B1^2/4 cancels twelve digits here: only exact integers keep the rest
    measure = moments(0, 1, cells=2**30, degree=2)
    plan = grouped(
        measure, groups=1, readouts=(VarianceReadout(0, sample=False, root=False),), types=(DOUBLE,)
    )
    values = [0.5] * 10**6 + [0.5 + 2**-20]
    sums = [10**6 * c for c in bernstein(values[:1], measure)]
    sums = [a + b for a, b in zip(sums, bernstein(values[-1:], measure), strict=True)]
    (found,) = answer(plan, *[[c] for c in sums])
    n = 10**6
    assert found[0] == pytest.approx(n / (n + 1) ** 2 * 2**-40, rel=1e-12)


def test_sums_of_steps() -> None:
    plan = grouped(
        total(-1, 1, Fraction(1, 100)),
        total(0, 9, 3),
        groups=2,
        readouts=(SumReadout(0), SumReadout(1)),
        types=(DOUBLE, BIGINT),
    )
    floats, ints = answer(plan, [105, -7], [4, -1], lattice=2)
    assert floats.tolist() == [1.05, -0.07]
    assert ints.tolist() == [12, -3]


def test_a_unit_above_one_row_is_divided_out() -> None:
    measure = moments(0, 10, cells=4)
    readouts = (CountReadout(0, with_null=False), SumReadout(0), MeanReadout(0))
    plan = grouped(
        measure, groups=1, units=(4 * 2**10,), readouts=readouts, types=(BIGINT, DOUBLE, DOUBLE)
    )
    found = answer(plan, [2**10 * 3], [2**10 * 5])  # two rows, 8/4 in all
    assert [c[0] for c in found] == [2, 12.5, 6.25]


@pytest.mark.parametrize(
    ("numerators", "denominator", "wanted"),
    [
        ([5, 15, 25, -5, -15, 4, 6], 10, [0, 2, 2, 0, -2, 0, 1]),
        ([2**59 + 1, -(2**59) - 1, 3], 2, [2**58, -(2**58), 2]),
        ([1, -1, 2**60], 2**62, [0, 0, 0]),
        ([2**80, -(2**80), 2**63 * 4], 4, [2**63 - 1, -(2**63), 2**63 - 1]),
        ([2**70 + 2**69, 2**69, 2**69 + 1], 2**70, [2, 0, 1]),
    ],
)
def test_rounding_to_the_nearest_even_and_to_the_ends(
    numerators: list[int], denominator: int, wanted: list[int]
) -> None:
    for dtype in (np.int64, object):
        try:
            array = np.array(numerators, dtype=dtype)
        except OverflowError:
            continue
        found = nearest(array, denominator)
        assert found.dtype == np.int64
        assert found.tolist() == wanted


@given(st.lists(st.integers(-(2**60), 2**60), min_size=1), st.integers(1, 2**62))
def test_both_integer_types_are_read_alike(numerators: list[int], denominator: int) -> None:
    small, big = np.array(numerators, np.int64), np.array(numerators, object)
    assert nearest(small, denominator).tolist() == nearest(big, denominator).tolist()
    np.testing.assert_allclose(ratio(small, denominator), ratio(big, denominator), rtol=1e-15)


def test_weighted_sums_of_int64_do_not_overflow() -> None:
    # three components of 2^60 fit int64, 100 times each doesn't
    measure = moments(0, 100, cells=1, degree=2)
    plan = grouped(measure, groups=1, readouts=(SumReadout(0),), types=(DOUBLE,))
    (found,) = answer(plan, [2**60], [2**60], [2**60])
    assert found[0] == 150 * 2.0**60


def test_weights_too_large_for_int64() -> None:
    measure = moments(0, 10**25, cells=2)
    plan = grouped(
        measure, groups=2, readouts=(SumReadout(0), SumReadout(0)), types=(DOUBLE, BIGINT)
    )
    floats, ints = answer(plan, [1, 0], [3, 0])
    assert floats.tolist() == [1.5e25, 0.0]
    assert ints.tolist() == [2**63 - 1, 0]


@pytest.mark.parametrize(
    "readout",
    [
        MeanReadout(0),
        VarianceReadout(0, sample=False, root=False),
        VarianceReadout(0, sample=True, root=True),
    ],
)
def test_any_noise_stays_in_range(readout: Readout) -> None:
    measure = moments(-5, 15, cells=16, degree=2, null_component=True)
    plan = grouped(measure, groups=1000, readouts=(readout,), types=(DOUBLE,))
    chooser = np.random.default_rng(3)
    columns = chooser.integers(-3000, 3000, (4, 1000)).tolist()
    (found,) = answer(plan, *columns)
    assert np.isfinite(found).all()
    if isinstance(readout, MeanReadout):
        assert found.min() == -5
        assert found.max() == 15
        assert np.count_nonzero(found == 0) > 100  # no weight: the number nearest to 0
    elif not readout.sample:
        assert found.min() == 0
        assert found.max() == 100
        assert np.count_nonzero(found == 0) > 100  # no weight
    else:
        assert found.max() <= np.sqrt(200)


@pytest.mark.parametrize(("rows", "factor"), [(0.5, 1), (1, 1), (1.5, 1), (2, 2), (4, 4 / 3)])
def test_sample_variance_of_few_noisy_rows(rows: float, factor: float) -> None:
    measure = moments(0, 1, cells=8, degree=2)
    plan = grouped(
        measure, groups=1, readouts=(VarianceReadout(0, sample=True, root=False),), types=(DOUBLE,)
    )
    half = int(rows * 32)
    (found,) = answer(plan, [half], [0], [half])
    assert found[0] == pytest.approx(0.25 * factor)


def test_a_range_of_one_point() -> None:
    measure = moments(7, 7, cells=1, degree=2)
    readouts = (MeanReadout(0), VarianceReadout(0, sample=False, root=True))
    plan = grouped(measure, groups=1, readouts=readouts, types=(DOUBLE, DOUBLE))
    assert [c.tolist() for c in answer(plan, [3], [-1], [2])] == [[7.0], [0.0]]


def test_counts_of_rows_and_of_units() -> None:
    plan = grouped(COUNT, PRESENCE, groups=2)
    assert [c.tolist() for c in answer(plan, [3, 4], [1, 2], lattice=8)] == [[3, 4], [1, 2]]


def test_no_groups_give_empty_columns() -> None:
    plan = planned(PRESENCE, moments(degree=2), keys=1, private=(0,), selection=0)
    empty = release(plan, silent(plan, 1), sealed([], [], [], [], []), ScriptedSampler())
    assert [c.tolist() for c in read(plan, empty)] == [[], []]
    assert [c.dtype for c in read(plan, empty)] == [np.dtype("int64"), np.dtype("float64")]


@pytest.mark.parametrize(
    ("measure", "readout"),
    [
        (COUNT, SumReadout(0)),
        (total(), CountReadout(0, with_null=False)),
        (COUNT, MeanReadout(0)),
        (moments(degree=1), VarianceReadout(0, sample=False, root=False)),
    ],
)
def test_a_read_out_of_the_wrong_vector_is_a_bug(measure: Measure, readout: Readout) -> None:
    plan = grouped(measure, groups=1, readouts=(readout,), types=(DOUBLE,))
    with pytest.raises(InternalError):
        answer(plan, *[[1]] * len(plan.vectors[0].columns))


def test_a_vector_that_was_not_released_can_not_be_read() -> None:
    plan = grouped(COUNT, groups=1)
    with pytest.raises(InternalError, match="not released"):
        read(plan, Released([(0,)], [[]], silent(plan)))
