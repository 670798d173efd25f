from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanism_plans import (
    ScriptedSampler,
    measured,
    moments,
    pair_columns,
    planned,
    products,
    public,
    sealed,
    silent,
)

from dp_sql.errors import InternalError
from dp_sql.mechanisms.empty import without_empty
from dp_sql.mechanisms.interval import DRAWS, interval, redraw
from dp_sql.mechanisms.noise import NoiseKind, VectorNoise
from dp_sql.mechanisms.readout import Numbers, read
from dp_sql.mechanisms.release import Released, release
from dp_sql.mechanisms.sampler import ExactSampler
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.release import (
    PAIRS,
    AggregateKind,
    CountReadout,
    PairReadout,
    PlannedRelease,
    Readout,
    VarianceReadout,
)
from dp_sql.schema.sqltype import BIGINT, DOUBLE

KINDS = tuple(sorted(PAIRS - {AggregateKind.REGR_COUNT}))
CELLS = 2**18
Rows = list[tuple[float | None, float | None]]
"""(y, x)"""


def plan_of(
    measure: PairMeasure, groups: int, *readouts: Readout, units: int | None = None
) -> PlannedRelease:
    types = tuple(BIGINT if isinstance(r, CountReadout) else DOUBLE for r in readouts)
    return planned(
        measure,
        keys=1,
        public=(public(*range(groups)),),
        readouts=readouts,
        types=types,
        units=None if units is None else (units,),
    )


def released_of(plan: PlannedRelease, *columns: list[int], noise: VectorNoise) -> Released:
    table = sealed([(i,) for i in range(len(columns[0]))], *columns)
    return release(plan, measured(plan, noise), table, ScriptedSampler())


def answers(
    measure: PairMeasure, groups: list[Rows], *readouts: Readout, lattice: int = 2**40
) -> list[Numbers]:
    """Return the read-outs of groups of rows without noise, on a lattice that makes it tiny."""
    plan = plan_of(measure, len(groups), *readouts)
    columns = np.transpose([pair_columns(measure, rows) for rows in groups]).tolist()
    return read(plan, released_of(plan, *columns, noise=VectorNoise(NoiseKind.LAPLACE, lattice, 1)))


def expected(rows: Rows) -> dict[AggregateKind, float]:
    """Return numpy's answers, and ours where DuckDB has NULL or NaN."""
    known = [(y, x) for y, x in rows if y is not None and x is not None]
    if not known:
        return {**dict.fromkeys(KINDS, 0.0), AggregateKind.REGR_AVGX: 3.0}
    y, x = np.transpose(np.array(known, dtype=float))
    n, cov = len(x), float(np.mean((y - y.mean()) * (x - x.mean())))
    flat_x, flat_y = x.var() == 0, y.var() == 0
    slope = 0.0 if flat_x else cov / x.var()
    corr = 0.0 if flat_x or flat_y else cov / math.sqrt(x.var() * y.var())
    return {
        AggregateKind.COVAR_POP: cov,
        AggregateKind.COVAR_SAMP: cov * n / (n - 1) if n > 1 else cov,
        AggregateKind.CORR: corr,
        AggregateKind.REGR_SLOPE: slope,
        AggregateKind.REGR_INTERCEPT: y.mean() - slope * x.mean(),
        AggregateKind.REGR_R2: 1.0 if flat_y and not flat_x else corr**2,
        AggregateKind.REGR_AVGX: x.mean(),
        AggregateKind.REGR_AVGY: y.mean(),
        AggregateKind.REGR_SXX: n * x.var(),
        AggregateKind.REGR_SYY: n * y.var(),
        AggregateKind.REGR_SXY: n * cov,
    }


# values on both grids, so that only floats round
ys = st.none() | st.integers(-20, 44)
xs = st.none() | st.integers(12, 28).map(lambda n: n / 4)


@settings(max_examples=50, deadline=None)
@given(
    groups=st.lists(st.lists(st.tuples(ys, xs), max_size=12), min_size=1, max_size=3),
    x=st.integers(0, 1),
    null_component=st.booleans(),
    with_null=st.booleans(),
)
def test_without_noise_the_read_outs_are_numpys(
    *, groups: list[Rows], x: int, null_component: bool, with_null: bool
) -> None:
    measure = products(
        (-20, 44), (3, 7), cells=(64, 16), degrees=(2, 2), null_component=null_component
    )
    if x == 0:
        measure = PairMeasure((measure.axes[1], measure.axes[0]), null_component)
    readouts = [PairReadout(0, kind, x) for kind in KINDS]
    counted = CountReadout(0, with_null=with_null)
    ordered = [[(b, a) for a, b in rows] for rows in groups] if x == 0 else groups
    count, *found = answers(measure, ordered, counted, *readouts)
    for i, rows in enumerate(groups):
        both = sum(a is not None and b is not None for a, b in rows)
        assert count[i] == (len(rows) if with_null and null_component else both)
        for kind, column in zip(KINDS, found, strict=True):
            assert column[i] == pytest.approx(expected(rows)[kind], rel=1e-9, abs=1e-9), kind


@pytest.mark.parametrize("degrees", [(1, 1), (1, 2), (2, 1)])
def test_smaller_vectors_give_the_same(degrees: tuple[int, int]) -> None:
    rows: Rows = [(1, 3.5), (9, 4.0), (None, 7.0), (-20, 6.75), (30, 3.0)]
    measure = products((-20, 44), (3, 7), cells=(64, 16), degrees=degrees)
    kinds = [AggregateKind.COVAR_SAMP, AggregateKind.REGR_AVGX, AggregateKind.REGR_AVGY]
    kinds += [AggregateKind.REGR_SLOPE, AggregateKind.REGR_SXX] if degrees[1] == 2 else []
    kinds += [AggregateKind.REGR_SYY] if degrees[0] == 2 else []
    found = answers(measure, [rows], *(PairReadout(0, kind, 1) for kind in kinds))
    assert [c[0] for c in found] == pytest.approx([expected(rows)[kind] for kind in kinds])


@pytest.mark.parametrize("kind", KINDS)
def test_any_noise_stays_in_range(kind: AggregateKind) -> None:
    measure = products((-5, 15), (2, 4), cells=(16, 8), degrees=(2, 2), null_component=True)
    plan = plan_of(measure, 2000, PairReadout(0, kind, 1))
    chooser = np.random.default_rng(3)
    columns = chooser.integers(-30_000, 30_000, (10, 2000)).tolist()
    noise = VectorNoise(NoiseKind.GAUSSIAN, 1, 10_000)
    (found,) = read(plan, released_of(plan, *columns, noise=noise))
    assert np.isfinite(found).all()
    low, high = {
        AggregateKind.COVAR_POP: (-10, 10),
        AggregateKind.CORR: (-1, 1),
        AggregateKind.REGR_R2: (0, 1),
        AggregateKind.REGR_AVGX: (2, 4),
        AggregateKind.REGR_AVGY: (-5, 15),
        AggregateKind.REGR_SXX: (0, math.inf),
        AggregateKind.REGR_SYY: (0, math.inf),
    }.get(kind, (-math.inf, math.inf))
    assert low <= found.min() <= found.max() <= high
    if kind is not AggregateKind.REGR_AVGX:
        assert np.count_nonzero(found == 0) > 300  # no weight
    else:
        assert np.count_nonzero(found == 2) > 300  # the number nearest to 0


def test_a_constant_that_noise_has_touched_is_still_a_constant() -> None:
    """Below a quarter of a squared step nothing varies; below one noise nobody knows."""
    measure = products((0, 8), (0, 8), cells=(8, 8), degrees=(2, 2))
    readouts = [
        PairReadout(0, kind, 1) for kind in (AggregateKind.REGR_SLOPE, AggregateKind.REGR_R2)
    ]
    plan = plan_of(measure, 1, *readouts)
    columns = [[1000 * c] for c in pair_columns(measure, [(y, 5.0) for y in (1, 2, 3)])]
    noise = VectorNoise(NoiseKind.LAPLACE, 2**50, 1024)
    touched = release(
        plan, measured(plan, noise), sealed([(0,)], *columns), ScriptedSampler([-900, 5, 800] * 3)
    )
    assert [c[0] for c in read(plan, touched)] == [0, 0]
    few = [[c] for c in pair_columns(measure, [(1, 5.0), (2, 6.0)])]  # sum of squares 1/128 row
    for scale, shown in ((2**10, True), (2**20, False)):
        released = released_of(plan, *few, noise=VectorNoise(NoiseKind.LAPLACE, 2**10, scale))
        assert bool(read(plan, released)[0][0] != 0) is shown


def test_small_correlations_of_large_groups_keep_their_digits() -> None:
    # twelve digits cancel: only exact integers keep the rest
    measure = products((0, 1), (0, 1), cells=(2**18, 2**18), degrees=(2, 2))
    near = 0.5 + 2**-18
    rows: Rows = [(0.5, 0.5), (0.5, near), (near, 0.5), (near, near)]
    weights = (10**6 + 3, 10**6, 10**6, 10**6)
    parts = [pair_columns(measure, [row]) for row in rows]
    columns = [[sum(w * part[i] for w, part in zip(weights, parts, strict=True))] for i in range(9)]
    plan = plan_of(measure, 1, PairReadout(0, AggregateKind.CORR, 1))
    noise = VectorNoise(NoiseKind.LAPLACE, 2**60, 1)
    (found,) = read(plan, released_of(plan, *columns, noise=noise))
    n, p = sum(weights), Fraction(2 * 10**6, sum(weights))
    wanted = (Fraction(10**6, n) - p * p) / (p * (1 - p))
    assert found[0] == pytest.approx(float(wanted), rel=1e-6)


@pytest.mark.parametrize("kind", [AggregateKind.CORR, AggregateKind.COVAR_POP])
def test_percentiles_come_from_fresh_noise_of_the_release(kind: AggregateKind) -> None:
    measure = products((0, 10), (0, 10), cells=(8, 8), degrees=(2, 2))
    plan = plan_of(measure, 2, PairReadout(0, kind, 1))
    rows: Rows = [(1.25, 2.5), (5.0, 5.0), (8.75, 6.25)]
    ones = pair_columns(measure, rows)
    columns = [[500 * c, 40 * c] for c in ones]
    noise = VectorNoise(NoiseKind.LAPLACE, 16, 16 * measure.total)
    released = released_of(plan, *columns, noise=noise)
    low, high = interval(plan, released, 0, 0.95, ExactSampler())
    value = read(plan, released)[0]
    assert (low < value).all()
    assert (value < high).all()
    assert high[0] - low[0] < (high[1] - low[1]) / 3  # 1,500 rows against 120
    scripted = ScriptedSampler()
    interval(plan, released, 0, 0.9, scripted)
    assert scripted.calls == [("laplace", noise.scale, 9 * DRAWS)]
    first, second = redraw(plan, released, [1, 0], 3, ScriptedSampler())[0].reshape(2, 3)
    np.testing.assert_allclose(first, value[1], rtol=1e-9)
    np.testing.assert_allclose(second, value[0], rtol=1e-9)


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (AggregateKind.CORR, -1, 1),
        (AggregateKind.REGR_R2, 0, 1),
        (AggregateKind.REGR_SLOPE, -8 * 2, 8 * 2),
        (AggregateKind.REGR_INTERCEPT, -16 - 16 * 8, 16 + 16 * 8),
    ],
)
def test_noise_that_hides_everything_says_so(kind: AggregateKind, low: int, high: int) -> None:
    measure = products((0, 16), (0, 8), cells=(8, 8), degrees=(2, 2))
    plan = plan_of(measure, 1, PairReadout(0, kind, 1))
    columns = [[c] for c in pair_columns(measure, [(1, 2.0), (2, 6.0), (4, 3.0)])]
    noise = VectorNoise(NoiseKind.GAUSSIAN, 1, 100 * measure.total)
    released = released_of(plan, *columns, noise=noise)
    ends = interval(plan, released, 0, 0.95, ExactSampler())
    assert [end[0] for end in ends] == [low, high]
    mean = 2  # of y
    assert read(plan, released)[0][0] == (mean if kind is AggregateKind.REGR_INTERCEPT else 0)


def test_without_noise_the_interval_is_the_value() -> None:
    measure = products((0, 8), (0, 8), cells=(8, 8), degrees=(2, 2))
    plan = plan_of(measure, 1, PairReadout(0, AggregateKind.REGR_SLOPE, 1))
    columns = [[c] for c in pair_columns(measure, [(1, 2.0), (2, 6.0), (4, 3.0)])]
    released = release(plan, silent(plan), sealed([(0,)], *columns), ScriptedSampler())
    value = read(plan, released)[0]
    low, high = interval(plan, released, 0, 0.95, ScriptedSampler())
    assert low.tolist() == high.tolist() == value.tolist()
    assert value[0] == pytest.approx(
        expected([(1, 2.0), (2, 6.0), (4, 3.0)])[AggregateKind.REGR_SLOPE]
    )


def test_groups_that_are_empty_beyond_doubt_are_left_out() -> None:
    measure = products((0, 8), (0, 8), cells=(8, 8), degrees=(1, 1), null_component=True)
    plan = plan_of(measure, 3, PairReadout(0, AggregateKind.COVAR_POP, 1))
    columns = np.transpose([
        pair_columns(measure, [(1, 2.0)]), [0] * 5, pair_columns(measure, [(None, 2.0)])
    ]).tolist()  # fmt: skip
    noise = VectorNoise(NoiseKind.LAPLACE, 2**20, 1024)
    released = without_empty(plan, released_of(plan, *columns, noise=noise))
    assert released.keys == [(0,), (2,)]


def test_a_sum_of_squares_is_the_variance_times_the_rows() -> None:
    readout = VarianceReadout(0, sample=False, root=False, summed=True)
    plan = planned(moments(0, 9, cells=9, degree=2), readouts=(readout,), types=(DOUBLE,))
    columns = [[sum((9 - a) ** 2 for a in (3, 9, 7))], [2 * sum(a * (9 - a) for a in (3, 9, 7))]]
    table = sealed([()], *columns, [9 + 81 + 49])
    (found,) = read(plan, release(plan, silent(plan), table, ScriptedSampler()))
    assert found[0] == pytest.approx(3 * np.var([3, 9, 7]))
    table = sealed([()], [0], [0], [0])
    (found,) = read(plan, release(plan, silent(plan), table, ScriptedSampler()))
    assert found[0] == 0


@pytest.mark.parametrize(
    "readout",
    [
        PairReadout(0, AggregateKind.CORR, 1),
        PairReadout(0, AggregateKind.AVG, 1),
        VarianceReadout(0, sample=False, root=False),
    ],
)
def test_a_read_out_of_the_wrong_vector_is_a_bug(readout: Readout) -> None:
    plan = plan_of(products((0, 1), (0, 1), degrees=(1, 1)), 1, readout)
    with pytest.raises(InternalError):
        read(plan, released_of(plan, *[[2**15]] * 4, noise=VectorNoise(NoiseKind.LAPLACE, 1, 9)))
    plan = planned(moments(), readouts=(PairReadout(0, AggregateKind.CORR, 1),), types=(DOUBLE,))
    with pytest.raises(InternalError):
        read(plan, release(plan, silent(plan), sealed([()], [1], [1]), ScriptedSampler()))
