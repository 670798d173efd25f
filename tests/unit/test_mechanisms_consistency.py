"""Totals and parts: the nearest values that add up, whole numbers, and what is left alone."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from mechanism_plans import COUNT, PRESENCE, moments, planned
from numpy.typing import NDArray

from dp_sql.mechanisms.consistency import consistent, read_sets
from dp_sql.mechanisms.measurement import Measurement
from dp_sql.mechanisms.nesting import nesting
from dp_sql.mechanisms.noise import EXACT, NoiseKind, VectorNoise
from dp_sql.mechanisms.release import Released
from dp_sql.plan.expression import Literal
from dp_sql.plan.relation import Measure
from dp_sql.plan.release import CountReadout, Key, KeySpace, PlannedRelease, Readout, SumReadout
from dp_sql.privacy.cost import FREE
from dp_sql.schema.sqltype import BIGINT, VARCHAR

VALUES = {"a": ("x", "y", None), "b": (1, 2), "c": ("p", "q", "r", "s"), "many": tuple(range(900))}
CUBE = [("a", "b"), ("a",), ("b",), ()]
ROLLUP = [("a", "b", "c"), ("a", "b"), ("a",), ()]
SPLIT = [("a",), ("b",), ("c",), ()]
FORK = [("b", "a"), ("a", "c"), ("a",), ()]
RING = [("a", "b"), ("b", "c"), ("a", "c"), ("a",), ("b",), ("c",), ()]
NOISE = VectorNoise(NoiseKind.LAPLACE, 8, 1500)

Part = tuple[PlannedRelease, Released]
Family = list[tuple[str, ...]]


def plan_of(
    names: tuple[str, ...],
    *measures: Measure,
    readouts: tuple[Readout, ...] | None = None,
    private: tuple[str, ...] = (),
) -> PlannedRelease:
    public = tuple(
        KeySpace((i,), tuple((v,) for v in VALUES[n]))
        for i, n in enumerate(names)
        if n not in private
    )
    plan = planned(
        *(measures or (COUNT,)),
        readouts=readouts,
        keys=len(names),
        public=public,
        private=tuple(i for i, n in enumerate(names) if n in private),
    )
    keys = tuple(Key(n, Literal(n, VARCHAR)) for n in names)
    return replace(plan, release=replace(plan.release, keys=keys))


def noisy(
    plan: PlannedRelease,
    r: np.random.Generator,
    noise: VectorNoise = NOISE,
    keys: list[tuple[object, ...]] | None = None,
) -> Part:
    names = [key.name for key in plan.release.keys]
    groups = keys if keys is not None else list(itertools.product(*(VALUES[n] for n in names)))
    size = 0 if noise.kind is NoiseKind.NONE else noise.scale
    vectors = [
        [
            noise.lattice * r.integers(0, 9000, len(groups))
            + r.integers(-size, size + 1, len(groups))
            for _ in vector.columns
        ]
        for vector in plan.vectors
    ]
    measurement = Measurement(tuple(noise for _ in plan.vectors), None, FREE)
    return plan, Released(groups, vectors, measurement)


def equations(family: Family) -> NDArray[np.float64]:
    """Return a row for each total of each set, in each set that divides it, over all groups."""
    groups = [(s, key) for s in family for key in itertools.product(*(VALUES[n] for n in s))]
    rows = []
    for coarse, whole in groups:
        for fine in family:
            if set(coarse) < set(fine):
                row = np.zeros(len(groups))
                row[groups.index((coarse, whole))] = 1
                for i, (names, key) in enumerate(groups):
                    if names == fine and all(
                        key[fine.index(n)] == w for n, w in zip(coarse, whole, strict=True)
                    ):
                        row[i] = -1
                rows.append(row)
    return np.array(rows)


def flat(released: list[Released], component: int = 0) -> NDArray[np.float64]:
    return np.concatenate(
        [
            np.asarray(r.vectors[0][component], dtype=float) / r.measurement.noises[0].lattice
            for r in released
        ]
    )


@pytest.mark.parametrize(
    "family",
    [CUBE, ROLLUP, SPLIT, FORK, RING],
    ids=["cube", "rollup", "split", "fork", "ring"],
)
def test_the_adjusted_values_are_the_nearest_that_add_up(family: Family) -> None:
    r = np.random.default_rng(5)
    noises = [VectorNoise(NoiseKind.GAUSSIAN, 2**i, 1100 + 400 * i) for i in range(len(family))]
    parts = [noisy(plan_of(s), r, n) for s, n in zip(family, noises, strict=True)]
    before = flat([released for _, released in parts])
    variances = np.concatenate(
        [
            np.full(len(x.keys), (n.scale / n.lattice) ** 2)
            for (_, x), n in zip(parts, noises, strict=True)
        ]
    )
    rows = equations(family)
    lifted = variances[:, None] * rows.T
    nearest = before - lifted @ np.linalg.pinv(rows @ lifted) @ (rows @ before)
    after = flat(consistent(parts))
    finest = max(n.lattice for n in noises)
    assert np.abs(after - nearest).max() <= 40 / finest
    missed = np.abs(rows @ after).max()
    assert missed <= (20 / finest if family is RING else 0)
    assert np.abs(rows @ before).max() > 100


@pytest.mark.parametrize(
    "family", [CUBE, ROLLUP, SPLIT, FORK], ids=["cube", "rollup", "split", "fork"]
)
@pytest.mark.parametrize("readout", [CountReadout(0, with_null=False), SumReadout(0)])
def test_whole_numbers_add_up_exactly(family: Family, readout: Readout) -> None:
    r = np.random.default_rng(6)
    measure = moments(0, 7, cells=5)
    parts = [noisy(plan_of(s, measure, readouts=(readout,)), r) for s in family]
    parts = [
        (
            replace(
                p,
                release=replace(
                    p.release, aggregates=(replace(p.release.aggregates[0], type=BIGINT),)
                ),
            ),
            x,
        )
        for p, x in parts
    ]
    adjusted = list(zip([p for p, _ in parts], consistent(parts), strict=True))
    values = np.concatenate([columns[0] for columns in read_sets(adjusted)])
    assert values.dtype == np.int64
    assert not (equations(family) @ values).any()
    plain = np.concatenate([unrounded(p, x, readout) for p, x in adjusted])
    assert np.abs(values - plain).max() <= 3, "rounding errors don't pile up in totals"


def unrounded(plan: PlannedRelease, released: Released, readout: Readout) -> NDArray[np.float64]:
    """Return the aggregate before it is rounded."""
    low, high = (
        np.asarray(c, dtype=float) / (plan.vectors[0].unit * 8) for c in released.vectors[0]
    )
    return low + high if isinstance(readout, CountReadout) else 7 * high


def test_rounding_many_parts_leaves_their_total_where_it_was() -> None:
    """Nine hundred values rounded alone would move it by 8 or so."""
    noise = VectorNoise(NoiseKind.LAPLACE, 512, 1024)
    r = np.random.default_rng(7)
    parts = [noisy(plan_of(s), r, noise) for s in (("many",), ())]
    adjusted = list(zip([p for p, _ in parts], consistent(parts), strict=True))
    (many,), (total,) = read_sets(adjusted)
    assert many.sum() == total[0]
    assert abs(total[0] - adjusted[1][1].vectors[0][0][0] / noise.lattice) <= 1


def test_small_noise_is_rounded_away_in_every_group_and_totals_follow() -> None:
    quiet = VectorNoise(NoiseKind.LAPLACE, 2**12, 1024)
    r = np.random.default_rng(8)
    exact = r.integers(0, 50, 900)
    parts = []
    for s, values in ((("many",), exact), ((), exact.sum(keepdims=True))):
        plan, released = noisy(plan_of(s), r, quiet)
        moved = values * 2**12 + r.integers(-900, 900, len(values))
        parts.append((plan, Released(released.keys, [[moved]], released.measurement)))
    adjusted = list(zip([p for p, _ in parts], consistent(parts), strict=True))
    (many,), (total,) = read_sets(adjusted)
    assert many.tolist() == exact.tolist()
    assert total.tolist() == [exact.sum()]


def test_an_exact_total_stays_and_its_parts_move_to_it() -> None:
    r = np.random.default_rng(9)
    total = noisy(plan_of(()), r, EXACT)
    parts = [noisy(plan_of(("a",)), r), total]
    regions, whole = consistent(parts)
    assert whole.vectors[0][0].tolist() == total[1].vectors[0][0].tolist()
    assert whole.measurement.noises == (EXACT,)
    assert (
        regions.vectors[0][0].sum()
        == whole.vectors[0][0][0] * regions.measurement.noises[0].lattice
    )
    moved = regions.vectors[0][0] - parts[0][1].vectors[0][0]
    assert np.ptp(moved) <= 1, "equal variances share what is missing"


@pytest.mark.parametrize("seed", range(5))
def test_whole_parts_with_little_noise_add_up_to_an_exact_total(seed: int) -> None:
    r = np.random.default_rng(seed)
    quiet = VectorNoise(NoiseKind.LAPLACE, 2**12, 1024)
    parts = [noisy(plan_of(("many",)), r, quiet), noisy(plan_of(()), r, EXACT)]
    noise = np.rint(r.laplace(0, 1024, 900)).astype(np.int64)  # past half a row now and then
    values = r.integers(0, 50, 900)
    many, total = (x for _, x in parts)
    parts = [
        (parts[0][0], Released(many.keys, [[values * 2**12 + noise]], many.measurement)),
        (parts[1][0], Released(total.keys, [[values.sum(keepdims=True)]], total.measurement)),
    ]
    adjusted = list(zip([p for p, _ in parts], consistent(parts), strict=True))
    (shown,), (whole,) = read_sets(adjusted)
    assert whole.tolist() == [values.sum()]
    assert shown.sum() == values.sum()
    assert np.abs(shown - values).max() <= 3


def test_a_count_of_persons_is_left_alone() -> None:
    r = np.random.default_rng(10)
    parts = [noisy(plan_of(s, PRESENCE, COUNT), r) for s in CUBE]
    for (_, before), after in zip(parts, consistent(parts), strict=True):
        assert after.vectors[0][0].tolist() == before.vectors[0][0].tolist()
        assert after.vectors[1][0].tolist() != before.vectors[1][0].tolist()


def test_totals_over_selected_keys_are_not_the_sum_of_what_is_shown() -> None:
    """a is private: it is selected for each set alone. What hides below () isn't known."""
    r = np.random.default_rng(11)
    fine = noisy(
        plan_of(("a", "b"), private=("a",)), r, keys=[(k, v) for k in ("x", "z") for v in (1, 2)]
    )
    middle = noisy(plan_of(("a",), private=("a",)), r, keys=[("x",), ("y",)])
    total = noisy(plan_of(()), r)
    parts = [fine, middle, total]
    assert set(nesting([p for p, _ in parts], [x.keys for _, x in parts])) == {(1, 0)}
    a_b, a, everything = (x.vectors[0][0] for x in consistent(parts))
    assert a_b[:2].sum() == a[0]
    assert a_b[2:].tolist() == fine[1].vectors[0][0][2:].tolist()
    assert a[1] == middle[1].vectors[0][0][1]
    assert everything.tolist() == total[1].vectors[0][0].tolist()


def test_a_key_missing_from_the_set_between_is_linked_past_it() -> None:
    r = np.random.default_rng(12)
    fine = noisy(
        plan_of(("a", "b", "c"), private=("a",)),
        r,
        keys=[("x", b, c) for b in VALUES["b"] for c in VALUES["c"]],
    )
    middle = noisy(plan_of(("a", "b"), private=("a",)), r, keys=[("y", b) for b in VALUES["b"]])
    coarse = noisy(plan_of(("a",), private=("a",)), r, keys=[("x",), ("y",)])
    a_b_c, a_b, a = (x.vectors[0][0] for x in consistent([fine, middle, coarse]))
    assert (a_b_c.sum(), a_b.sum()) == (a[0], a[1])


def test_integers_beyond_int64_are_exact() -> None:
    r = np.random.default_rng(13)
    parts = []
    for s in CUBE:
        plan, released = noisy(plan_of(s), r)
        big = [[released.vectors[0][0].astype(object) + 2**70]]
        parts.append((plan, Released(released.keys, big, released.measurement)))
    after = np.concatenate([x.vectors[0][0] for x in consistent(parts)])
    rows = equations(CUBE).astype(int).astype(object)
    assert not (rows @ after).any()


def test_one_set_is_returned_as_it_is() -> None:
    part = noisy(plan_of(("a", "b")), np.random.default_rng(14))
    assert consistent([part]) == [part[1]]


def test_no_variance_grows() -> None:
    """The diagonal of the projected covariance, from unit vectors pushed through the adjustment."""
    family = CUBE
    noise = VectorNoise(NoiseKind.LAPLACE, 8, 2000)
    sizes = [len(list(itertools.product(*(VALUES[n] for n in s)))) for s in family]
    columns = []
    for one in range(sum(sizes)):
        unit = np.split(np.eye(sum(sizes), dtype=np.int64)[one] * 10**7, np.cumsum(sizes)[:-1])
        parts = [
            (p, Released(x.keys, [[v]], x.measurement))
            for (p, x), v in zip(
                (noisy(plan_of(s), np.random.default_rng(1), noise) for s in family),
                unit,
                strict=True,
            )
        ]
        columns.append(np.concatenate([x.vectors[0][0] for x in consistent(parts)]) / 10**7)
    spread = (np.array(columns) ** 2).sum(axis=0)
    assert (spread <= 1 + 1e-6).all()
    assert spread.min() < 0.8


def test_a_group_whose_middle_part_is_not_shown_hangs_on_the_coarse_one() -> None:
    plans = [plan_of(names, private=("a",)) for names in (("a",), ("a", "b"), ("a", "b", "c"))]
    keys: list[list[tuple[object, ...]]] = [
        [("x",), ("y",)],
        [("x", 1)],
        [("x", 1, 3), ("y", 2, 4)],
    ]
    links = nesting(plans, keys)
    assert links[0, 2].up.tolist() == [0, 1]
    assert links[0, 2].direct.tolist() == [False, True]
    assert links[1, 2].up.tolist() == [0, -1]
