"""The optimal rule for private keys: its chances, exactly, and what they are worth."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dp_sql.mechanisms import optimal
from dp_sql.mechanisms.optimal import MOST_STEPS, OptimalRule, chances, optimal_rule
from dp_sql.mechanisms.sampler import coins
from dp_sql.privacy.contribution import Change
from dp_sql.privacy.event import KeySelectionEvent, PureEvent, pure_epsilon, selection_delta
from dp_sql.privacy.renyi import rdp

EPSILONS = [
    Fraction(1, 100),
    Fraction(1, 3),
    Fraction(1),
    Fraction(4),
    Fraction(30),
    Fraction(10**6),
]
DELTAS = [
    Fraction(1, 2),
    Fraction(1, 10),
    Fraction(1, 10**6),
    Fraction(1, 10**24),
    Fraction(3, 10**33),
]
ONE = Change((((1, 1),),))


def powers(epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """Return fractions below and above e^epsilon, nearer to it than what the rule computes with."""
    with mpmath.workdps(200):
        near = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        power = Fraction(int(mpmath.floor(mpmath.ldexp(near, 600))), 2**600)
    margin = Fraction(1, 10**150)
    return power * (1 - margin), power * (1 + margin)


@pytest.mark.parametrize(("epsilon", "delta"), list(itertools.product(EPSILONS, DELTAS)))
def test_neighbouring_chances_are_close_both_ways_exactly(
    epsilon: Fraction, delta: Fraction
) -> None:
    table = chances(epsilon, delta)
    one = 1 << table.bits
    p = table.numerators
    assert (p[0], p[-1]) == (0, one)
    grow, _ = powers(epsilon)
    top, bottom = grow.numerator, grow.denominator
    least = delta * one
    for low, high in itertools.pairwise(p):
        assert 0 <= low <= high <= one
        # high <= e^epsilon low + delta, and 1 - low <= e^epsilon (1 - high) + delta
        assert (high - least) * bottom <= top * low
        assert (one - low - least) * bottom <= top * (one - high)


@pytest.mark.parametrize(("epsilon", "delta"), list(itertools.product(EPSILONS[:4], DELTAS[1:4])))
def test_no_chance_could_be_larger(epsilon: Fraction, delta: Fraction) -> None:
    table = chances(epsilon, delta)
    one = 1 << table.bits
    _, grow = powers(epsilon)
    for low, high in itertools.pairwise(table.numerators):
        if high < one:
            more = high + (one >> 60) + math.ceil(delta * one / 2**60)
            over = (more - delta * one) > grow * low
            assert over or (one - low - delta * one) > grow * (one - more)


def test_the_closed_form_of_the_literature() -> None:
    epsilon, delta = 1.0, 1e-6
    first = 1 + math.floor(math.log1p(math.tanh(epsilon / 2) * (1 / delta - 1)) / epsilon)
    peak = math.expm1(first * epsilon) / math.expm1(epsilon) * delta
    rule = OptimalRule(Fraction(1), Fraction(1, 10**6), 1, ())
    for n in range(1, 40):
        wanted = math.expm1(n * epsilon) / math.expm1(epsilon) * delta
        if n > first:
            fall = math.expm1(-(n - first) * epsilon)
            wanted = min(1.0, peak - (1 - peak + delta / math.expm1(epsilon)) * fall)
        assert float(rule.chance(n)) == pytest.approx(wanted, rel=1e-12)
    assert rule.units == (14, 28)


def test_a_key_nobody_has_never_shows_and_that_of_one_unit_with_delta() -> None:
    rule = OptimalRule(Fraction(1), Fraction(1, 1000), 1, ())
    assert rule.chance(0) == 0
    assert Fraction(999, 10**6) < rule.chance(1) <= Fraction(1, 1000)


def test_a_least_number_of_units() -> None:
    plain = OptimalRule(Fraction(1), Fraction(1, 1000), 1, ())
    rule = OptimalRule(Fraction(1), Fraction(1, 1000), 10, ())
    assert [rule.chance(n) for n in (0, 5, 9)] == [0, 0, 0]
    for n in range(10, 60):
        assert rule.chance(n) == plain.chance(n - 9)
    half, always = rule.units
    assert rule.chance(half) >= Fraction(1, 2) > rule.chance(half - 1)
    assert rule.chance(always) == 1 > rule.chance(always - 1)


@pytest.mark.parametrize(
    ("profiles", "steps"),
    [((((1, 3),),), 3), ((((1, 6),), ((1, 0), (1, 3))), 6), ((((1, 1), (0, 9)), ((1, 3),)), 3)],
)
def test_epsilon_and_delta_are_shared_by_the_keys_that_change(
    profiles: tuple[tuple[tuple[int, int], ...], ...], steps: int
) -> None:
    rule = optimal_rule(Fraction(1), Fraction(1, 1000), Change(profiles), 1)
    assert rule is not None
    assert (rule.epsilon, rule.delta) == (Fraction(1, steps), Fraction(1, 1000 * steps))
    assert len(rule.events) == steps
    assert sum((pure_epsilon(e) or 0 for e in rule.events), Fraction(0)) == 1
    assert sum(map(selection_delta, rule.events)) == Fraction(1, 1000)


@pytest.mark.parametrize("profile", [((1, 50),), ((2, 3),), ((4, 1), (1, 2))])
def test_many_keys_or_steps_are_one_event_of_the_same_cost(
    profile: tuple[tuple[int, int], ...],
) -> None:
    change = Change((profile,))
    rule = optimal_rule(Fraction(1), Fraction(1, 1000), change, 1)
    assert rule is not None
    assert rule.events == (KeySelectionEvent(PureEvent(Fraction(1)), Fraction(1, 1000)),)
    assert rule.epsilon * change.l1 == 1
    most = max(shift for shift, _ in profile)
    delta = float(rule.delta) * change.l1 * math.exp((most - 1) / change.l1)
    assert delta == pytest.approx(1 / 1000, rel=1e-12)


def test_a_huge_epsilon_is_read_as_64_a_unit() -> None:
    rule = optimal_rule(Fraction(10**9), Fraction(1, 1000), Change((((3, 2),),)), 1)
    assert rule is not None
    assert rule.epsilon == 64
    assert [float(rule.chance(n)) for n in (0, 9)] == [0, 1]


def test_too_many_steps_are_told_without_taking_them() -> None:
    assert optimal_rule(Fraction(1, 10**6), Fraction(1, 10**9), ONE, 1) is None
    long = optimal_rule(Fraction(1, 3000), Fraction(1, 10**9), ONE, 1)
    assert long is not None
    table = chances(long.epsilon, long.delta)
    assert 50_000 < len(table.numerators) <= MOST_STEPS


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0, 64.0])
def test_the_rates_of_the_ledger_bound_what_coins_tell(order: float) -> None:
    """Without the outcomes that delta pays for, no two neighbouring coins diverge more than priced."""
    rule = optimal_rule(Fraction(1, 2), Fraction(1, 100), ONE, 1)
    assert rule is not None
    (event,) = rule.events
    epsilon, delta = 0.5, 0.01
    for n in range(rule.units[1] + 2):
        p, q = (float(rule.chance(m)) for m in (n, n + 1))
        # the pair of laws that any (epsilon, delta)-close pair is made from
        shown, hidden = (max(0.0, q - delta), 1 - q), (p, max(0.0, 1 - p - delta))
        assert shown[0] <= math.exp(epsilon) * hidden[0] + 1e-12
        assert hidden[1] <= math.exp(epsilon) * shown[1] + 1e-12
        totals = sum(shown), sum(hidden)
        assert min(totals) >= 1 - delta - 1e-12
    worst = math.log(
        (math.exp(epsilon * order) + math.exp(epsilon * (1 - order))) / (1 + math.exp(epsilon))
    ) / (order - 1)
    assert rdp(event, order) == pytest.approx(worst, rel=1e-12)


def test_coins_come_up_as_often_as_said() -> None:
    bits = 131
    wanted = [Fraction(0), Fraction(1, 1000), Fraction(1, 3), Fraction(1, 2), Fraction(1)]
    numerators = [int(w * 2**bits) for w in wanted]
    runs = 40_000
    tossed = coins(numerators * runs, bits).reshape(runs, -1).mean(axis=0)
    for found, w in zip(tossed, wanted, strict=True):
        assert abs(found - float(w)) <= 5 * math.sqrt(float(w * (1 - w)) / runs)
    assert coins([], 8).size == 0


def test_keys_show_as_often_as_the_rule_says() -> None:
    rule = OptimalRule(Fraction(1), Fraction(1, 20), 1, ())
    runs = 20_000
    for units in (0, 1, 3, 5, 9):
        rate = rule.shown(np.full(runs, units)).mean()
        chance = float(rule.chance(units))
        assert abs(rate - chance) <= 5 * math.sqrt(chance * (1 - chance) / runs)


def test_rounding_the_powers_the_other_way_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    known = optimal._powers
    monkeypatch.setattr(optimal, "_powers", lambda e: (known(e)[0] + 2**80, known(e)[1]))
    chances.cache_clear()
    with pytest.raises(AssertionError):
        test_neighbouring_chances_are_close_both_ways_exactly(Fraction(1), Fraction(1, 10**24))
    chances.cache_clear()
