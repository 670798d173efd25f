"""Which private keys show, by every rule, on all neighbours of small worlds: exact laws, no sampling.

A world is some units and the keys that each has. The parameters come from the planner, the analysis and
the calibration of a real statement; the laws of what is shown are summed up here from their definitions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from oracle.small_engine import SmallEngine
from oracle.small_schema import PUBLIC, small_catalog

from dp_sql.mechanisms.measurement import Measurement, calibrate
from dp_sql.mechanisms.noise import NoiseKind, VectorNoise
from dp_sql.mechanisms.selection import Coins, Selection
from dp_sql.parser.statement import parse
from dp_sql.plan.relation import PresenceMeasure
from dp_sql.plan.release import PlannedRelease
from dp_sql.planner.sets import plan_sets
from dp_sql.privacy.unit import Adjacency
from dp_sql.schema.catalog import KeyRule, Mechanisms
from dp_sql.sensitivity.contribution import derive

Keys = tuple[int, ...]
"""The keys of one unit, in the order in which its groups are kept."""
World = tuple[Keys, ...]
Law = dict[tuple[object, ...], float]
"""The probability of each outcome: which keys each round shows."""

EPSILON, DELTA = Fraction(1), Fraction(1, 20)
DOMAIN = range(4)
SQL = "SELECT z FROM visits GROUP BY z"
ADD, SWAP = Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION


@cache
def engine() -> SmallEngine:
    return SmallEngine(small_catalog(), {name: rows for name, (_, rows) in PUBLIC.items()})


@cache
def calibrated(
    rule: KeyRule, groups: int, adjacency: Adjacency, size: int
) -> tuple[PlannedRelease, Measurement]:
    catalog = small_catalog(adjacency=adjacency, group_size=size, max_groups=groups)
    catalog = replace(catalog, mechanisms=Mechanisms(keys=(rule,)))
    (release,) = parse(SQL, catalog).releases
    (plan,) = plan_sets(release, catalog, engine(), EPSILON)
    facts = derive(plan, catalog.unit, engine())
    measurement = calibrate(
        plan, facts, epsilon=EPSILON, delta=DELTA, gaussian_allowed=True, min_units=1
    )
    assert plan.key_rules == (rule,)
    assert measurement.cost.epsilon <= EPSILON
    assert measurement.cost.delta <= DELTA
    return plan, measurement


@cache
def tails(noise: VectorNoise) -> tuple[np.ndarray, int]:
    """Return P[Z >= n] for n from minus to plus `reach`, and `reach`."""
    gaussian = noise.kind is NoiseKind.GAUSSIAN
    reach = (12 if gaussian else 40) * noise.scale
    z = np.arange(-reach, reach + 1, dtype=float)
    mass = np.exp(-(z**2) / (2.0 * noise.scale**2) if gaussian else -np.abs(z) / noise.scale)
    mass /= mass.sum()
    return mass[::-1].cumsum()[::-1], reach


def reaches(noise: VectorNoise, total: int, threshold: int) -> float:
    """Return how likely a noisy total reaches a threshold."""
    tail, reach = tails(noise)
    need = threshold - noise.lattice * total
    return 1.0 if need <= -reach else 0.0 if need > reach else float(tail[need + reach])


def totals(
    world: World, groups: int, measure: PresenceMeasure, without: frozenset[int]
) -> dict[int, int]:
    """Return what each key's units add up to: those left, at most `groups` a unit, weighed."""
    found: dict[int, int] = {}
    for unit in world:
        kept = [key for key in unit if key not in without][:groups]
        one = 1
        if measure.weight and kept:
            parts = len(kept)
            root = math.isqrt(measure.weight**2 // parts)
            one = measure.weight // parts if measure.evenly else root
        for key in kept:
            found[key] = found.get(key, 0) + one
    return found


def sets_of(chances: dict[int, float]) -> Iterator[tuple[frozenset[int], float]]:
    """Yield every set of keys that may show, with its probability."""
    keys = sorted(chances)
    for shown in itertools.product((False, True), repeat=len(keys)):
        p = math.prod(chances[k] if s else 1 - chances[k] for k, s in zip(keys, shown, strict=True))
        yield frozenset(k for k, s in zip(keys, shown, strict=True) if s), p


def law(world: World, groups: int, plan: PlannedRelease, measurement: Measurement) -> Law:
    """Return the probability of every outcome."""
    first, second = measurement.selection, measurement.second
    assert first is not None

    def chances(selection: Selection | Coins, without: frozenset[int]) -> dict[int, float]:
        measure = plan.vectors[selection.vector].measure
        assert isinstance(measure, PresenceMeasure)
        found = totals(world, groups, measure, without)
        if isinstance(selection, Coins):
            return {k: float(selection.rule.chance(n)) for k, n in found.items()}
        noise = measurement.noises[selection.vector]
        return {k: reaches(noise, n, selection.threshold) for k, n in found.items()}

    outcomes: Law = {}
    for shown, p in sets_of(chances(first, frozenset())):
        if second is None:
            outcomes[(shown,)] = p
            continue
        for more, q in sets_of(chances(second, shown)):
            outcomes[(shown, more)] = p * q
    return outcomes


def distance(one: Law, other: Law, epsilon: Fraction = EPSILON) -> float:
    """Return the least delta at which one law is (epsilon, delta)-close to the other."""
    factor = math.exp(epsilon)
    return sum(max(0.0, p - factor * other.get(outcome, 0.0)) for outcome, p in one.items())


def profiles(most: int) -> list[Keys]:
    """Return what a unit may have, up to the names of keys that are alike."""
    return [keys for size in range(1, most + 1) for keys in itertools.combinations(DOMAIN, size)]


def backgrounds(measurement: Measurement, plan: PlannedRelease) -> Iterator[World]:
    """Yield what other units have: keys that nobody has, a few have, and about as many as it takes."""
    selection = measurement.selection
    if isinstance(selection, Coins):
        near = selection.rule.units[0]
    else:
        assert selection is not None
        measure = plan.vectors[selection.vector].measure
        assert isinstance(measure, PresenceMeasure)
        weight = (measure.weight or 1) * measurement.noises[selection.vector].lattice
        near = selection.threshold // weight
    yield ()
    yield ((0,),) * (near - 1)
    yield ((0,),) * near + ((1,),) * (near + 1)
    yield ((0,),) * (near // 2) + ((0, 1),) * (near // 2) + ((2,),)
    yield ((0, 1, 2, 3),) * near


def neighbours(
    base: World, most: int, adjacency: Adjacency, size: int
) -> Iterator[tuple[World, World]]:
    one = profiles(most)
    if adjacency is ADD:
        for more in itertools.combinations_with_replacement(one, size):
            yield base, (*base, *more)
        return
    for gone, come in itertools.combinations(one, 2):
        yield (*base, gone), (*base, come)


def worst(
    rule: KeyRule, groups: int, adjacency: Adjacency, size: int, measurement: Measurement
) -> float:
    plan, _ = calibrated(rule, groups, adjacency, size)
    # in two rounds a unit may have more keys than it may add to: others come in for those shown
    most = groups + 1 if rule is KeyRule.TWO_ROUNDS and size == 1 else groups
    found = 0.0
    for base in backgrounds(measurement, plan):
        for less, more in neighbours(base, min(most, len(DOMAIN)), adjacency, size):
            one, other = (law(world, groups, plan, measurement) for world in (less, more))
            found = max(found, distance(one, other), distance(other, one))
    return found


CASES = [
    (rule, groups, adjacency, size)
    for rule in KeyRule
    for groups, adjacency, size in (
        (1, ADD, 1),
        (2, ADD, 1),
        (3, ADD, 1),
        (2, SWAP, 1),
        (2, ADD, 2),
    )
]


@pytest.mark.parametrize(("rule", "groups", "adjacency", "size"), CASES)
def test_no_neighbours_are_told_apart_by_their_keys_better_than_charged(
    rule: KeyRule, groups: int, adjacency: Adjacency, size: int
) -> None:
    _, measurement = calibrated(rule, groups, adjacency, size)
    delta = worst(rule, groups, adjacency, size, measurement)
    assert delta <= float(measurement.cost.delta) * (1 + 1e-9)
    if rule is KeyRule.OPTIMAL and adjacency is ADD and groups == size == 1:
        assert delta >= float(DELTA) * (1 - 1e-9)  # it is the best rule because it spends all of it


def lowered(measurement: Measurement, rule: KeyRule, part: Fraction) -> Measurement:
    """Return a measurement whose thresholds are too low by a part of a unit, or a luckier coin."""
    chosen = measurement.selection
    if isinstance(chosen, Coins):
        luckier = replace(chosen.rule, delta=chosen.rule.delta * Fraction(5, 4))
        return replace(measurement, selection=Coins(chosen.vector, luckier))

    def lower(selection: Selection) -> Selection:
        weight = 1 if rule in (KeyRule.LAPLACE, KeyRule.GAUSSIAN) else 2**16
        unit = measurement.noises[selection.vector].lattice * weight
        return replace(selection, threshold=selection.threshold - int(unit * part))

    assert chosen is not None
    second = measurement.second
    return replace(
        measurement, selection=lower(chosen), second=None if second is None else lower(second)
    )


@pytest.mark.parametrize("rule", list(KeyRule))
def test_thresholds_that_are_too_low_are_found(rule: KeyRule) -> None:
    _, measurement = calibrated(rule, 1, ADD, 1)
    low = lowered(measurement, rule, Fraction(4))
    assert worst(rule, 1, ADD, 1, low) > float(measurement.cost.delta)


def test_weights_that_arent_divided_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(math, "isqrt", lambda _: 2**16)
    rule = KeyRule.WEIGHTED_GAUSSIAN
    _, measurement = calibrated(rule, 3, ADD, 1)
    assert worst(rule, 3, ADD, 1, measurement) > float(measurement.cost.delta)


def test_a_second_round_with_the_budget_of_both_is_found() -> None:
    plan, measurement = calibrated(KeyRule.TWO_ROUNDS, 2, ADD, 1)
    assert measurement.second is not None
    noise = measurement.noises[measurement.second.vector]
    less = replace(noise, scale=noise.scale // 3)
    cheap = replace(measurement, noises=(*measurement.noises[:-1], less))
    assert worst(KeyRule.TWO_ROUNDS, 2, ADD, 1, cheap) > float(measurement.cost.delta)
    assert plan.second_relation is not None


def test_the_rounds_add_up_to_one() -> None:
    plan, measurement = calibrated(KeyRule.TWO_ROUNDS, 2, ADD, 1)
    for world in (((0, 1), (2,)), ((0,),) * 9):
        outcomes = law(world, 2, plan, measurement)
        assert sum(outcomes.values()) == pytest.approx(1, abs=1e-12)
