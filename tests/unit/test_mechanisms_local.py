"""Local sensitivity: bounds against brute force over all small groups, and exact deltas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from random import Random

import numpy as np
import pytest

from dp_sql.errors import UnsupportedSQLError
from dp_sql.mechanisms import local
from dp_sql.mechanisms.choice import choose, require_drawable
from dp_sql.mechanisms.chooser import Chooser, Counted
from dp_sql.mechanisms.local import NOTHING, Moves, Step, moves, step_of
from dp_sql.mechanisms.ranks import exact
from dp_sql.mechanisms.sampler import ExactSampler
from dp_sql.plan.expression import Column, Ref
from dp_sql.plan.facts import HistogramFacts
from dp_sql.plan.histogram import Choice, Histogram, Popular, Quantile
from dp_sql.plan.relation import MeasureRows, MomentMeasure
from dp_sql.plan.rows import StageScan
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.catalog import ChoiceKind
from dp_sql.schema.sqltype import BIGINT

Group = tuple[int, ...]
"""The weights of a group, by place."""

MEDIAN = Quantile(Fraction(1, 2), continuous=True)
RANKS = (
    MEDIAN,
    Quantile(Fraction(1, 2), continuous=False),
    Quantile(Fraction(9, 10), continuous=True),
    Quantile(Fraction(1, 4), continuous=False),
    Quantile(Fraction(3, 4), continuous=False, from_top=True),
    Quantile(Fraction(1, 3), continuous=True),
)
SMOOTH, TESTED = ChoiceKind.SMOOTH_SENSITIVITY, ChoiceKind.PROPOSE_TEST_RELEASE
PLACES, MOST = 4, 7  # of the brute force: places of the grid, and weights of a group


def histogram(kind: ChoiceKind, cells: int, *asked: Choice, unit: int = 1) -> Histogram:
    argument = Ref(Column(1, "x", BIGINT))
    measure = MomentMeasure(argument, Fraction(0), Fraction(cells), cells, 1, null_component=False)
    rows = MeasureRows(StageScan("s", (), single=False), (), (), (measure,), ((),))
    return Histogram(rows, measure, unit, 6, asked, kind, together=False, share=Fraction(1))


def answer(group: Group, rank: Quantile, unit: int) -> int:
    """Return the answer without noise, in sixths of a place."""
    made = histogram(SMOOTH, len(group) - 1, rank, unit=unit)
    return int(exact(made, rank, np.array([group]))[0])


@lru_cache
def groups(places: int, most: int) -> tuple[Group, ...]:
    return tuple(g for g in product(range(most + 1), repeat=places) if sum(g) <= most)


@lru_cache
def additions(places: int, weight: int) -> tuple[Group, ...]:
    """Return what one step may bring."""
    return tuple(g for g in product(range(weight + 1), repeat=places) if 0 < sum(g) <= weight)


def neighbours(group: Group, weight: int, most: int) -> Iterator[Group]:
    for more in additions(len(group), weight):
        for sign in (1, -1):
            found = tuple(n + sign * d for n, d in zip(group, more, strict=True))
            if min(found) >= 0 and sum(found) <= most:
                yield found


def at(found: Moves, step: int) -> int:
    """Return how far a quantile may move, that many steps away."""
    return int(found.places[np.searchsorted(found.steps, step, side="right") - 1])


CASES = [(1, 1), (1, 2), (2, 2), (2, 3)]  # weight of a whole row, and of a step


@pytest.mark.parametrize(("unit", "weight"), CASES)
@pytest.mark.parametrize("rank", RANKS)
def test_moves_bound_the_local_sensitivity_at_every_distance(
    rank: Quantile, unit: int, weight: int
) -> None:
    everything = groups(PLACES, MOST)
    near = {g: list(neighbours(g, weight, MOST)) for g in everything}
    values = {g: answer(g, rank, unit) for g in everything}
    reach = {g: max(abs(values[g] - values[e]) for e in near[g]) for g in everything}
    for start in everything:
        if sum(start) > MOST - 3 * weight:
            continue  # its ball of two steps would not be whole
        found = moves(np.array(start), rank, unit, weight)
        ball = {start}
        for step in range(3):
            assert 6 * at(found, step) >= max(reach[g] for g in ball)
            ball |= {e for g in ball for e in near[g]}


@pytest.mark.parametrize(("unit", "weight"), CASES)
@pytest.mark.parametrize("rank", RANKS)
def test_one_step_makes_up_for_one_step(rank: Quantile, unit: int, weight: int) -> None:
    found = {g: moves(np.array(g), rank, unit, weight) for g in groups(PLACES, MOST)}
    for group, one in found.items():
        assert (np.diff(one.steps) > 0).all()
        assert one.steps[0] == 0
        for other in neighbours(group, weight, MOST):
            for step in range(5):
                assert at(one, step) <= at(found[other], step + 1)


def test_the_bound_of_a_median_is_tight_where_rows_are_dense() -> None:
    group = np.zeros(1001, dtype=np.int64)
    group[100:900] = 1
    assert [at(moves(group, MEDIAN, 1, 1), t) for t in (0, 1, 9)] == [1, 3, 11]


def test_large_weights_are_counted_exactly() -> None:
    small, large = np.array([3, 0, 5, 1]) * 2**20, np.array([3, 0, 5, 1]) * 2**56
    one, other = moves(small, MEDIAN, 2**20, 2**20), moves(large, MEDIAN, 2**56, 2**56)
    assert [at(one, t) for t in range(9)] == [at(other, t) for t in range(9)]


def laplace(scale: int, centre: int, support: np.ndarray) -> np.ndarray:
    law = math.tanh(0.5 / scale) * np.exp(-np.abs(support - centre) / scale)
    return np.asarray(law)


STEP = Step(Fraction(2), math.log(0.05), 1)


def near_pairs(places: int, draws: int) -> Iterator[tuple[Group, Group]]:
    """Yield groups of rows that lie close together, each with one that has a row more."""
    r = Random(11)
    for _ in range(draws):
        rows = [min(places - 1, int(r.expovariate(0.4))) for _ in range(r.randrange(200))]
        group = np.bincount(rows, minlength=places)
        more = group.copy()
        more[r.randrange(places)] += 1
        yield tuple(group.tolist()), tuple(more.tolist())


@pytest.mark.parametrize("rank", RANKS)
def test_scales_of_neighbours_differ_by_a_factor_at_most_and_hide_each_move(rank: Quantile) -> None:
    made = histogram(SMOOTH, 39, rank)
    growth = float(STEP.epsilon) / (2 * (math.log(2) - STEP.log_delta))
    seen = set()
    for pair in near_pairs(40, 300):
        lines = np.array(pair)
        (one, other), parts = local.smooth_scales(made, rank, lines, STEP)
        assert max(one / other, other / one) <= 1 + growth + 1e-9
        move = parts * abs(int(np.diff(exact(made, rank, lines))[0]))
        assert move <= float(STEP.epsilon) / 2 * min(one, other)
        seen.add(int(one))
    assert len(seen) > 10


def test_smooth_sensitivity_has_the_delta_that_it_states() -> None:
    made = histogram(SMOOTH, 39, MEDIAN)
    laws = set()
    small = [(g, e) for g in groups(PLACES, 5) for e in neighbours(g, 1, 5)]
    for pair in [*near_pairs(40, 200), *small]:
        lines = np.zeros((2, 40), dtype=np.int64)
        lines[:, : len(pair[0])] = pair
        scales, parts = local.smooth_scales(made, MEDIAN, lines, STEP)
        centres = exact(made, MEDIAN, lines) * parts
        one, other = zip(centres.tolist(), scales.tolist(), strict=True)
        laws |= {(one, other), (other, one)} if one != other else set()
    worst = 0.0
    for (f, s), (g, r) in laws:
        stride = max(1, s // 40)  # a lattice as coarse as that has the same ratios
        support = np.arange(min(f, g) - 12 * max(r, s), max(f, g) + 12 * max(r, s), stride)
        gap = laplace(s, f, support) - math.exp(2) * laplace(r, g, support)
        worst = max(worst, stride * float(np.maximum(gap, 0).sum()))
    assert 1e-4 < worst <= 0.05


def passing(value: int, choice: Choice, step: Step) -> float:
    """Return the probability that a test is passed."""
    lattice, scale, threshold = local.noise_of_test(choice, step)
    need = threshold - value * lattice
    tail = math.exp(-abs(need if need > 0 else 1 - need) / scale) / (1 + math.exp(-1 / scale))
    return tail if need > 0 else 1 - tail


@pytest.mark.parametrize(("proposed", "least"), [(Fraction(1), 0.001), (Fraction(2), 0.0)])
def test_a_tested_quantile_has_the_delta_that_it_states(proposed: Fraction, least: float) -> None:
    rank = replace(MEDIAN, proposed=proposed)
    made = histogram(TESTED, PLACES - 1, rank)
    most, scale, parts = local.fixed_noise(made, rank, STEP)
    assert most == proposed
    known = groups(PLACES, MOST)
    centres = exact(made, rank, np.array(known)) * parts
    laws = {
        g: (passing(moves(np.array(g), rank, 1, 1).first_beyond(most), rank, STEP), int(c))
        for g, c in zip(known, centres, strict=True)
    }
    pairs = {(laws[g], laws[e]) for g in known for e in neighbours(g, 1, MOST)}
    support = np.arange(-12 * scale, 12 * scale + 18 * parts, max(1, scale // 100))
    worst = 0.0
    for (one, f), (other, g) in pairs:
        shown = one * laplace(scale, f, support) - math.exp(2) * other * laplace(scale, g, support)
        more = max(1, scale // 100) * float(np.maximum(shown, 0).sum())
        worst = max(worst, more + max(0.0, (1 - one) - math.exp(2) * (1 - other)))
    assert least <= worst <= 0.05 + 1e-9


@pytest.mark.parametrize("weight", [1, 2])
def test_a_tested_mode_has_the_delta_that_it_states(weight: int) -> None:
    step = replace(STEP, weight=weight)
    known = groups(3, 8)
    laws = {}
    for group in known:
        ahead = max(group) - sorted(group)[-2]
        shown = np.zeros(4)
        shown[int(np.argmax(group))] = passing(ahead, Popular(0, 1), step)
        shown[3] = 1 - shown.sum()
        laws[group] = shown
    gaps = [
        np.maximum(laws[g] - math.exp(2) * laws[e], 0).sum()
        for g in known
        for e in neighbours(g, weight, 8)
    ]
    assert 0.01 < max(gaps) <= 0.05 + 1e-9


def chooser(
    epsilon: float, *, delta: str = "1e-6", weight: int = 1, groups: int = 1, size: int = 1,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Chooser:  # fmt: skip
    unit = PrivacyUnit(Level.USER, adjacency, size, "u")
    facts = HistogramFacts(weight, groups, None, "")
    return Chooser(Fraction(epsilon), facts, unit, Fraction(delta))


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION])
@pytest.mark.parametrize(("many", "size"), [(1, 1), (3, 1), (2, 3)])
def test_steps_add_up_to_what_a_choice_may_cost(adjacency: Adjacency, many: int, size: int) -> None:
    step = step_of(chooser(0.5, groups=many, size=size, adjacency=adjacency))
    links = size * (1 if adjacency is Adjacency.ADD_REMOVE else 2)
    one, d = float(step.epsilon) * many, math.exp(step.log_delta) * many
    assert one * links == pytest.approx(0.5)
    assert sum(d * math.exp(i * one) for i in range(links)) <= 1e-6
    assert d >= 1e-6 / links / math.exp(0.5)


def counted(rows: list[list[int]]) -> Counted:
    cells = [(g, p, w) for g, row in enumerate(rows) for p, w in enumerate(row) if w]
    found, places, weights = (
        np.array(column, dtype=np.int64) for column in zip(*cells, strict=True)
    )
    return Counted(found, places, weights)


@pytest.mark.parametrize("kind", [SMOOTH, TESTED])
def test_without_noise_the_answer_is_exact_and_nobody_has_a_public_one(kind: ChoiceKind) -> None:
    made = histogram(kind, 99, MEDIAN, Quantile(Fraction(1, 4), continuous=False))
    row = [0] * 20 + [2, 1] * 20 + [0] * 40
    chosen = choose(made, counted([row, row]), 3, chooser(10**9), ExactSampler())
    where = [[int(v) for v in exact(made, c, np.array([row]))] for c in made.choices]  # type: ignore[arg-type]
    assert [c.tolist()[:2] for c in chosen] == [2 * w for w in where]
    nobody = [c.tolist()[2] for c in chosen]
    assert nobody == ([0, 0] if kind is SMOOTH else [NOTHING, NOTHING])


def test_a_mode_shows_where_it_is_far_ahead() -> None:
    made = replace(histogram(TESTED, 2, Popular(0, 1)), values=("a", "b", "c"), fine=1)
    rows = [[100, 3, 0], [50, 51, 0], [0, 2, 100]]
    (chosen,) = choose(made, counted(rows), 4, chooser(1), ExactSampler())
    assert chosen.tolist() == [0, NOTHING, 2, NOTHING]


def test_amounts_that_need_too_much_noise_are_refused() -> None:
    for kind in (SMOOTH, TESTED):
        with pytest.raises(UnsupportedSQLError, match="noise beyond"):
            require_drawable(histogram(kind, 99, MEDIAN), chooser(1e-15))
    require_drawable(histogram(SMOOTH, 65536, MEDIAN), chooser(0.01))
    with pytest.raises(
        UnsupportedSQLError, match="noise beyond"
    ):  # only the ladder's highest rung is
        require_drawable(histogram(SMOOTH, 2**22, MEDIAN), chooser(1e-3))
