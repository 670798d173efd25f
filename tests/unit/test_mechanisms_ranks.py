"""Values chosen by their ranks: the law of the choice, how far scores move, and what is chosen."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from random import Random

import numpy as np
import pytest

from dp_sql.errors import InternalError, UnsupportedSQLError
from dp_sql.mechanisms import ranks
from dp_sql.mechanisms.choice import choose, require_drawable
from dp_sql.mechanisms.chooser import Chooser, Counted
from dp_sql.mechanisms.ranks import rank_error, scores
from dp_sql.mechanisms.sampler import ExactSampler, Rate, rate_below
from dp_sql.mechanisms.sampler_opendp import OpenDPSampler
from dp_sql.plan.expression import Column, Ref
from dp_sql.plan.facts import HistogramFacts
from dp_sql.plan.histogram import Extreme, Histogram, Popular, Quantile, Rank
from dp_sql.plan.relation import MeasureRows, MomentMeasure
from dp_sql.plan.rows import StageScan
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.catalog import ChoiceKind, Mechanisms
from dp_sql.schema.sqltype import BIGINT

ARGUMENT = Ref(Column(1, "x", BIGINT))
MEDIAN = Quantile(Fraction(1, 2), continuous=True)
RANKS: tuple[Rank, ...] = (
    MEDIAN,
    Quantile(Fraction(9, 10), continuous=True),
    Quantile(Fraction(1, 4), continuous=False),
    Quantile(Fraction(3, 4), continuous=False, from_top=True),
    Extreme(largest=True),
    Extreme(largest=False),
)


def histogram(
    cells: int, *asked: Rank, unit: int = 1, fine: int = 1, together: bool = False
) -> Histogram:
    measure = MomentMeasure(ARGUMENT, Fraction(0), Fraction(cells), cells, 1, null_component=False)
    rows = MeasureRows(StageScan("s", (), single=False), (), (), (measure,), ((),))
    return Histogram(
        rows, measure, unit, fine, asked, ChoiceKind.PERMUTE_AND_FLIP, together, Fraction(1)
    )


def chooser(
    epsilon: float | Fraction,
    *,
    weight: int = 1,
    groups: int = 1,
    cells: int | None = 1,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    group_size: int = 1,
) -> Chooser:
    unit = PrivacyUnit(Level.USER, adjacency, group_size, "u")
    return Chooser(Fraction(epsilon), HistogramFacts(weight, groups, cells, ""), unit)


def law(gaps: list[int], rate: Rate) -> list[float]:
    """Return the exact law of permute-and-flip, over all sets of coins that come up."""
    chances = [math.exp(-float(rate.value) * gap) for gap in gaps]
    result = [0.0] * len(gaps)
    everyone = range(len(gaps))
    for size in range(1, len(gaps) + 1):
        for up in combinations(everyone, size):
            chance = math.prod(chances[i] if i in up else 1 - chances[i] for i in everyone)
            for i in up:
                result[i] += chance / size
    return result


def test_the_choice_has_the_law_of_permute_and_flip() -> None:
    gaps, rate = [3, 0, 1, 7, 1], rate_below(Fraction(2, 5))
    assert rate is not None
    draws = 40_000
    found = Counter(ExactSampler().choose(np.array([gaps] * draws), rate).tolist())
    expected = [p * draws for p in law(gaps, rate)]
    chi = sum((found[i] - e) ** 2 / e for i, e in enumerate(expected))
    assert chi < 29.9  # 4 degrees of freedom: passed by chance once in 200,000


def test_opendp_chooses_by_the_same_law() -> None:
    gaps, rate = [3, 0, 1, 7, 1], rate_below(Fraction(2, 5))
    assert rate is not None
    draws = 4_000
    found = Counter(OpenDPSampler().choose(np.array([gaps] * draws), rate).tolist())
    expected = [p * draws for p in law(gaps, rate)]
    chi = sum((found[i] - e) ** 2 / e for i, e in enumerate(expected) if e > 1)
    assert chi < 29.9


def test_opendp_has_the_law_of_the_exponential_mechanism() -> None:
    gaps, rate = np.array([3, 0, 1, 7, 1]), rate_below(Fraction(2, 5))
    assert rate is not None
    draws = 4_000
    chosen = OpenDPSampler().choose(np.tile(gaps, (draws, 1)), rate, exponential=True)
    found = Counter(chosen.tolist())
    weights = [math.exp(-float(rate.value) * g) for g in gaps]
    expected = [draws * w / sum(weights) for w in weights]
    assert sum((found[i] - e) ** 2 / e for i, e in enumerate(expected)) < 29.9


@pytest.mark.parametrize(
    "limit", [Fraction(1, 10**9), Fraction(1, 7), Fraction(3), Fraction(10**9)]
)
def test_a_rate_is_just_below_its_limit(limit: Fraction) -> None:
    rate = rate_below(limit)
    assert rate is not None
    top = min(limit, Fraction(4096))
    assert top * Fraction(511, 512) <= rate.value <= top


def test_rates_beyond_what_can_be_drawn_are_refused() -> None:
    assert rate_below(Fraction(1, 2**51)) is None
    with pytest.raises(InternalError):
        Rate(1, 51)
    with pytest.raises(InternalError):
        Rate(2**20, 2)
    with pytest.raises(UnsupportedSQLError, match="beyond what can be drawn"):
        require_drawable(histogram(4, MEDIAN), chooser(Fraction(1, 10**16)))


def test_capped_gaps_stay_below_the_coins_reach() -> None:
    rate = Rate(2**9, 50)
    capped = rate.capped(np.array([0, 1, 2**62]))
    assert capped.tolist() == [0, 1, (2**62) // 2**9 + 1]
    assert int(capped.max()) * rate.numerator < 2**63


def neighbours(r: Random, rows: list[int], cells: int, weight: int) -> list[list[int]]:
    """Return weights with up to `weight` added, taken away, or moved to other places."""
    kinds = []
    added = list(rows)
    for _ in range(weight):
        added[r.randrange(cells + 1)] += 1
    kinds.append(added)
    moved = list(rows)
    for _ in range(weight):
        held = [i for i, w in enumerate(moved) if w]
        if held:
            moved[r.choice(held)] -= 1
            moved[r.randrange(cells + 1)] += 1
    kinds.append(moved)
    return kinds


@pytest.mark.parametrize("rank", RANKS)
def test_scores_move_no_further_than_the_rate_assumes(rank: Rank) -> None:
    r = Random(str(rank))
    reached = 0
    for _ in range(400):
        cells, unit, fine = r.randrange(1, 7), r.choice((1, 4)), r.choice((1, 2, 10))
        weight = r.randrange(1, 2 * unit + 1)
        made = histogram(cells, rank, unit=unit, fine=fine)
        rows = [r.choice((0, 0, 1, 2, 5)) * unit for _ in range(cells + 1)]
        beyond = r.randrange(5)
        before = scores(made, rank, np.array([rows]), beyond, 3)
        one, moved, _, _ = ranks._moves(rank)
        added, elsewhere = (
            int(np.abs(scores(made, rank, np.array([other]), beyond, 3) - before).max())
            for other in neighbours(r, rows, cells, weight)
        )
        assert added <= ranks._BONUS * one * weight + 3
        assert elsewhere <= ranks._BONUS * moved * weight + 3
        reached += added >= ranks._BONUS * one * weight - 3
    assert reached > 20  # the bound is tight


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION])
@pytest.mark.parametrize("rank", [MEDIAN, RANKS[1], RANKS[4]])
def test_no_neighbour_changes_the_law_by_more_than_epsilon(
    rank: Rank, adjacency: Adjacency
) -> None:
    r = Random(f"{rank}{adjacency}")
    cells, epsilon, worst = 4, 1.0, 0.0
    made = histogram(cells, rank)
    some = chooser(epsilon, adjacency=adjacency, cells=1)
    one, moved, _, _ = ranks._moves(rank)
    bonus = ranks._bonus(rank, some)
    rate = some.rate(ranks._BONUS * one, ranks._BONUS * moved, bonus)
    beyond = 1 if isinstance(rank, Extreme) else 0
    for _ in range(300):
        rows = [r.choice((0, 0, 1, 2, 3)) for _ in range(cells + 1)]
        added, elsewhere = neighbours(r, rows, cells, 1)
        other = added if adjacency is Adjacency.ADD_REMOVE else elsewhere
        laws = []
        for line in (rows, other):
            found = scores(made, rank, np.array([line]), beyond, bonus)[0]
            laws.append(law([int(g) for g in found.max() - found], rate))
        loss = max(abs(math.log(p / q)) for p, q in zip(*laws, strict=True))
        assert loss <= epsilon + 1e-9
        worst = max(worst, loss)
    assert worst > 0.3


def test_a_unit_pays_for_every_group_that_it_touches() -> None:
    single = chooser(1).rate(64, 128, 1).value
    assert chooser(1, groups=3, cells=9).rate(64, 128, 1).value * 3 <= single
    assert chooser(1, group_size=2).rate(64, 128, 1).value * 2 <= single
    apart = chooser(1, groups=2, cells=9, adjacency=Adjacency.SUBSTITUTION).rate(64, 128, 1).value
    assert apart <= Fraction(1, 2 * 4 * 65)
    shared = chooser(1, cells=1, adjacency=Adjacency.SUBSTITUTION).rate(64, 128, 1).value
    assert Fraction(511, 512) / (2 * 129) <= shared <= Fraction(1, 2 * 129)


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION])
@pytest.mark.parametrize("cells", [1, 2, 3, None])
@pytest.mark.parametrize("copies", [1, 2, 3])
def test_copies_of_a_row_pay_for_all_groups_together(
    copies: int, cells: int | None, adjacency: Adjacency
) -> None:
    """Of every way to lay the copies that leave and those that come into groups, none costs more."""
    one, moved, bonus = 7, 12, 1
    places = cells or 2 * copies
    reach = min(copies, places)
    unit = PrivacyUnit(Level.EVENT, adjacency)
    some = Chooser(Fraction(1), HistogramFacts(copies, reach, cells, "", shared=True), unit)
    ways = [w for w in product(range(copies + 1), repeat=places) if sum(w) <= copies]
    added = ways if adjacency is Adjacency.SUBSTITUTION else [(0,) * places]

    def cost(gone: tuple[int, ...], come: tuple[int, ...]) -> int:
        laid = list(zip(gone, come, strict=True))
        pairs, touched = sum(map(min, laid)), sum(map(any, laid))
        return moved * pairs + one * (sum(gone) + sum(come) - 2 * pairs) + bonus * touched

    costs = [cost(gone, come) for gone in ways for come in added]
    assert max(costs) * 2 * some.rate(one, moved, bonus).value <= 1
    plain = [
        cost(gone, come) - bonus * sum(map(any, zip(gone, come, strict=True)))
        for gone in ways
        for come in added
    ]
    assert max(plain) * 2 * some.rate(one, moved, 0).value > Fraction(510, 512)
    assert some.moved() == max(sum(gone) + sum(come) for gone in ways for come in added)
    shifts = [sum(map(max, zip(gone, come, strict=True))) for gone in ways for come in added]
    assert some.moved_once() == max(shifts)


def counted(lines: list[list[int]]) -> Counted:
    cells = [(g, p, w) for g, line in enumerate(lines) for p, w in enumerate(line) if w]
    groups, places, weights = zip(*cells, strict=True)
    return Counted(np.array(groups), np.array(places), np.array(weights))


def test_without_noise_ranks_are_those_of_the_values() -> None:
    lines = [[3, 0, 0, 1, 5, 0], [0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 7]]
    made = histogram(5, *RANKS, fine=10)
    chosen = choose(made, counted(lines), 3, chooser(10**6), ExactSampler())
    values = [[float(made.value(int(c))) for c in column] for column in chosen]
    assert values == [[4, 1.5, 5], [4, 1.9, 5], [0, 1, 5], [4, 2, 5], [4, 2, 5], [0, 1, 5]]


def test_a_group_without_rows_has_the_value_nearest_to_0() -> None:
    made = histogram(5, MEDIAN, Extreme(largest=True))
    empty = Counted(*(np.empty(0, dtype=np.intp) for _ in range(3)))
    chosen = choose(made, empty, 2, chooser(10**6), ExactSampler())
    assert [c.tolist() for c in chosen] == [[0, 0], [0, 0]]


def test_several_quantiles_are_found_together() -> None:
    places = tuple(Quantile(Fraction(i, 10), continuous=False) for i in range(1, 10))
    made = histogram(100, *places, together=True)
    assert made.runs == 4
    line = [10] * 101
    chosen = choose(made, counted([line]), 1, chooser(50), ExactSampler())
    values = [int(c[0]) for c in chosen]
    assert values == sorted(values)
    assert all(abs(v - 10 * (i + 1)) <= 2 for i, v in enumerate(values))


def test_a_place_that_holds_most_values_is_most_quantiles() -> None:
    places = tuple(Quantile(Fraction(i, 10), continuous=False) for i in range(1, 10))
    made = histogram(10, *places, together=True)
    line = [0, 0, 0, 2000, 0, 0, 0, 0, 100, 0, 0]
    chosen = choose(made, counted([line]), 1, chooser(10), ExactSampler())
    assert {int(c[0]) for c in chosen} == {3}


def test_parts_of_a_level_cost_one_choice() -> None:
    """A unit's weight moves the score of a part by at most its share there, times the rank's size."""
    r = Random(5)
    for _ in range(200):
        size, spread = r.randrange(4, 12), r.choice((1, 3))
        a, b = r.choice(((1, 2), (1, 3), (2, 3), (9, 10)))
        line = np.array([r.choice((0, 1, 4)) for _ in range(size)])
        other = line.copy()
        other[r.randrange(size)] += 1
        cut = r.randrange(1, size * spread)
        total = Fraction(0)
        for first, last in ((0, cut), (cut, size * spread)):
            moved = Fraction(0)
            ends = []
            for weights in (line, other):
                upto = np.concatenate([[0], np.cumsum(np.repeat(weights, spread))])
                inside = upto[first : last + 1] - upto[first]
                ends.append(-np.abs(b * inside - a * inside[-1]))
            moved = Fraction(int(np.abs(ends[0] - ends[1]).max()))
            total += moved / (spread * max(a, b - a))
        assert total <= 1


def test_weights_beyond_64_bits_are_ranked_exactly() -> None:
    made = histogram(3, MEDIAN, unit=2**40)
    big = Counted(np.zeros(2, np.intp), np.array([0, 3]), np.array([2**61, 2**61 + 2**42], object))
    (chosen,) = choose(made, big, 1, chooser(10**9, weight=2**40), ExactSampler())
    assert chosen.tolist() == [3]


def test_the_rank_error_that_explain_states_holds() -> None:
    line = [20] * 101
    made, some = histogram(100, MEDIAN), chooser(Fraction(1, 2))
    bound = rank_error(made, MEDIAN, some, 0.05)
    draws = 400
    (chosen,) = choose(made, counted([line] * draws), draws, some, ExactSampler())
    off = [max(0, abs(20 * int(c) + 10 - 1010) - 11) for c in chosen]
    assert sum(o > bound for o in off) <= draws * 0.05 * 1.5


def test_the_exponential_mechanism_has_its_law() -> None:
    gaps, rate = np.array([3, 0, 1, 7, 1]), rate_below(Fraction(2, 5))
    assert rate is not None
    draws = 20_000
    chosen = ExactSampler().choose(np.tile(gaps, (draws, 1)), rate, exponential=True)
    weights = [math.exp(-float(rate.value) * g) for g in gaps]
    expected = [draws * w / sum(weights) for w in weights]
    found = Counter(chosen.tolist())
    assert sum((found[i] - e) ** 2 / e for i, e in enumerate(expected)) < 29.9


def popular(kind: ChoiceKind, *asked: Popular) -> Histogram:
    made = histogram(4)
    return replace(made, choices=asked, kind=kind, values=("a", "b", "c", "d", "e"))


@pytest.mark.parametrize("kind", Mechanisms().mode)
def test_without_noise_the_heaviest_values_come_in_order(kind: ChoiceKind) -> None:
    asked = [Popular(i, 7) for i in range(7)]
    made = popular(kind, *asked)
    chosen = choose(
        made, counted([[3, 0, 9, 1, 4], [0, 8, 0, 7, 9]]), 2, chooser(10**6), ExactSampler()
    )
    assert [c.tolist() for c in chosen[:3]] == [[2, 4], [4, 1], [0, 3]]
    assert made.runs == (1 if kind is ChoiceKind.NOISY_MAX_LAPLACE else 7)


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION])
@pytest.mark.parametrize("exponential", [False, True])
def test_no_neighbour_changes_the_law_of_the_heaviest(
    adjacency: Adjacency,
    exponential: bool,  # noqa: FBT001  a parameter of the test
) -> None:
    r = Random(f"{adjacency}{exponential}")
    worst, weight = 0.0, 2
    rate = chooser(1, weight=weight, adjacency=adjacency, cells=1).growing()
    for _ in range(400):
        rows = [r.choice((0, 0, 1, 2, 3)) for _ in range(4)]
        added, moved = neighbours(r, rows, 3, weight)
        laws = []
        for line in (rows, added if adjacency is Adjacency.ADD_REMOVE else moved):
            gaps = [max(line) - w for w in line]
            some = [math.exp(-float(rate.value) * g) for g in gaps]
            laws.append([s / sum(some) for s in some] if exponential else law(gaps, rate))
        worst = max(worst, *(abs(math.log(p / q)) for p, q in zip(*laws, strict=True)))
    assert 0.3 < worst <= 1 + 1e-9


def test_noise_on_all_weights_covers_all_groups() -> None:
    lattice, scale = chooser(1, weight=3, groups=2).laplace()
    assert scale >= 6 * lattice
    assert scale <= 6.01 * lattice
    lattice, scale = chooser(1, weight=3, adjacency=Adjacency.SUBSTITUTION).laplace()
    assert scale >= 6 * lattice
