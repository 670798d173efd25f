"""The exact law of quantiles that are found by halving, from the planned choice down to its coins.

Each neighbour's law is that of all cuts together: what is asked of the sampler for every cut that may
have come before, and the law of such a choice by a formula of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray
from oracle.small_schema import small_catalog

from dp_sql.mechanisms import measurement, ranks
from dp_sql.mechanisms.chooser import Chooser
from dp_sql.mechanisms.measurement import Measurement, calibrate
from dp_sql.mechanisms.sampler import Integers, Rate, Sampler
from dp_sql.parser.statement import parse
from dp_sql.plan.histogram import Histogram
from dp_sql.planner.plan import plan_release
from dp_sql.privacy.unit import Adjacency, Level
from dp_sql.schema.catalog import ChoiceKind
from dp_sql.sensitivity.contribution import derive

Floats = NDArray[np.float64]
Group = tuple[int, ...]
SQL = "SELECT QUANTILE_DISC(p, [0.1, 0.4, 0.5, 0.6, 0.8]) FROM visits"
EPSILON, WEIGHT, MOST = 2.0, 2, 4  # of the release; of a unit; of a group
KINDS = (ChoiceKind.PERMUTE_AND_FLIP, ChoiceKind.EXPONENTIAL)
ORDER = ("middle", "right", "right of it", "left", "left of it")


class NoFacts:
    """Knows of no public table."""

    def image(self, *_: object) -> None:
        return None

    def frequency(self, *_: object) -> None:
        return None


class Forced:
    """A sampler that chooses what it is told, and keeps what it was asked."""

    def __init__(self, *choices: Integers) -> None:
        self.choices = choices
        self.asked: list[tuple[Integers, float, bool]] = []

    def choose(self, gaps: Integers, rate: Rate, *, exponential: bool = False) -> Integers:
        self.asked.append((gaps, float(rate.value), exponential))
        return self.choices[len(self.asked) - 1]


def planned(kind: ChoiceKind, adjacency: Adjacency) -> tuple[Histogram, Chooser, Measurement]:
    """Return the histogram of five quantiles of 2, 3 and 4, and how it is chosen from.

    At user level each person has up to two rows.
    """
    catalog = small_catalog(Level.USER, adjacency, max_rows=WEIGHT)
    catalog = replace(catalog, mechanisms=replace(catalog.mechanisms, quantiles=(kind,)))
    (release,) = parse(SQL, catalog).releases
    plan = plan_release(release, catalog, NoFacts(), Fraction(EPSILON))
    facts = derive(plan, catalog.unit, NoFacts())
    found = calibrate(
        plan,
        facts,
        epsilon=Fraction(EPSILON),
        delta=Fraction(0),
        gaussian_allowed=False,
        min_units=1,
    )
    (histogram,), (chooser,) = plan.histograms, found.choosers
    assert histogram.together
    assert chooser.facts.weight == WEIGHT * histogram.unit
    return histogram, chooser, found


NODES, PARTS = np.polynomial.legendre.leggauss(16)


def log_law(gaps: Integers, rate: float, exponential: bool) -> Floats:  # noqa: FBT001
    """Return the logarithm of the chance of each candidate, by rows.

    Of coins that come up, of which one is taken: p_i times the integral of the product over the others
    of 1 - p_j t, a polynomial, so that the nodes give it exactly.
    """
    scores = -np.minimum(rate * gaps, 300.0)
    if exponential:
        total: Floats = scores - np.logaddexp.reduce(scores, axis=1)[:, np.newaxis]
        return total
    one = 1 - np.exp(scores)[:, :, np.newaxis] * (NODES + 1) / 2
    rest = one.prod(axis=1, keepdims=True) / one
    law: Floats = scores + np.log(rest @ PARTS / 2)
    return law


def losses(kind: ChoiceKind, adjacency: Adjacency) -> tuple[float, int]:
    """Return the largest privacy loss of any neighbours and outcomes, and how many laws there are."""
    histogram, chooser, _ = planned(kind, adjacency)
    size = histogram.measure.cells + 1
    groups = [g for g in product(range(MOST + 1), repeat=size) if sum(g) <= MOST]
    count = ranks.spread_of(histogram) * size + 1
    places = np.indices((len(groups), count, count, count)).reshape(4, -1)
    group, middle, right, left = places
    weights = np.array(groups)[group] * histogram.unit
    zero = np.zeros_like(middle)
    sampler = Forced(middle, right, zero, left, zero)
    fractions = ranks._fractions(histogram)
    some: Sampler = sampler  # type: ignore[assignment]
    ranks._halved(histogram, weights, fractions, chooser, some)
    assert len(sampler.asked) == len(ORDER)
    shape = (len(groups), count, count, count, count)
    laws = dict(zip(ORDER, (log_law(*a).reshape(shape) for a in sampler.asked), strict=True))
    first = laws["middle"][:, 0, 0, 0]
    upper, above = laws["right"][:, :, 0, 0], laws["right of it"][:, :, :, 0]
    lower, below = laws["left"][:, :, 0, 0], laws["left of it"][:, :, 0, :]

    def loss(one: int, two: int) -> float:
        def most(sign: int) -> float:
            d_first, d_upper, d_above, d_lower, d_below = (
                sign * (law[one] - law[two]) for law in (first, upper, above, lower, below)
            )
            aside = (d_upper + d_above.max(axis=2)).max(axis=1)
            aside += (d_lower + d_below.max(axis=2)).max(axis=1)
            return float((d_first + aside).max())

        return max(most(1), most(-1))

    index = {g: i for i, g in enumerate(groups)}
    steps = [d for d in product(range(WEIGHT + 1), repeat=size) if 0 < sum(d) <= WEIGHT]
    worst = 0.0
    for start, i in index.items():
        near = [
            index[g] for d in steps if (g := tuple(map(sum, zip(start, d, strict=True)))) in index
        ]
        pairs = ((i, j) for j in near)
        if adjacency is Adjacency.SUBSTITUTION:
            pairs = combinations(near, 2)
        worst = max([worst, *(loss(*pair) for pair in pairs)])
    return worst, len(groups)


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut places into three parts: a grid so small that all laws can be listed."""
    monkeypatch.setattr(ranks, "_PARTS", 3)
    monkeypatch.setattr(ranks, "_HALVED", 1)


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION])
@pytest.mark.parametrize("kind", KINDS)
def test_no_neighbour_changes_the_law_of_all_quantiles_by_more_than_epsilon(
    kind: ChoiceKind, adjacency: Adjacency
) -> None:
    worst, count = losses(kind, adjacency)
    assert count == 35
    assert EPSILON / 4 < worst <= EPSILON


def unspread(_: Histogram, wanted: Fraction, chooser: Chooser) -> Rate:
    one = max(wanted.numerator, wanted.denominator - wanted.numerator)
    return chooser.rate(one, 2 * one, 0)


def undivided(*arguments: object) -> object:
    choosers, counters = APART(*arguments)  # type: ignore[arg-type]
    levels = 3
    return tuple(replace(c, epsilon=levels * c.epsilon) for c in choosers), counters


APART: Callable[..., tuple[tuple[Chooser, ...], object]] = measurement._apart
MUTANTS: dict[str, tuple[object, str, Callable[..., object]]] = {
    "a cut's score not counted in parts": (ranks, "_cut_rate", unspread),
    "every level has the epsilon of all": (measurement, "_apart", undivided),
}


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MUTANTS)
def test_the_law_tells_a_wrong_rate(
    name: str, kind: ChoiceKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*MUTANTS[name])
    worst, _ = losses(kind, Adjacency.ADD_REMOVE)
    assert worst > EPSILON


@pytest.mark.parametrize("kind", KINDS)
def test_a_ledger_is_told_of_every_level(kind: ChoiceKind) -> None:
    histogram, chooser, found = planned(kind, Adjacency.ADD_REMOVE)
    assert histogram.runs == 3
    assert chooser.epsilon * 3 == found.cost.epsilon == EPSILON
