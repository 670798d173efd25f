"""Audits: how well an attacker tells neighbours apart from what is released, against the claim.

An audit gives a lower bound of epsilon that holds with probability 1 - ALPHA: half of the runs pick
the best event, the other half test it with Clopper-Pearson bounds. A correct mechanism raises a false
alarm with probability below ALPHA = 1e-6. A run is one group, as groups get independent noise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mechanism_plans import (
    COUNT,
    PRESENCE,
    facts_of,
    moments,
    planned,
    public,
    sealed,
    total,
)

from dp_sql.audit import bounds
from dp_sql.audit.bounds import at_least, at_most
from dp_sql.mechanisms.measurement import Measurement, calibrate
from dp_sql.mechanisms.noise import NoiseKind
from dp_sql.mechanisms.release import release
from dp_sql.mechanisms.sampler import ExactSampler
from dp_sql.plan.facts import Facts
from dp_sql.plan.relation import Measure
from dp_sql.plan.release import PlannedRelease
from dp_sql.privacy.unit import Adjacency

ALPHA = 1e-6
RUNS = 20_000
MANY = 400_000


def epsilon_at_least(first: np.ndarray, second: np.ndarray, delta: float = 0.0) -> float:
    """Return a lower bound of the epsilon at which the two samples' laws are (epsilon, delta)-close."""
    return bounds.epsilon_at_least(first, second, delta=delta, alpha=ALPHA)


def noisy(plan: PlannedRelease, measurement: Measurement, values: list[int]) -> list[np.ndarray]:
    """Return each column's released values, one run a group, all groups holding `values`."""
    runs = len(plan.public[0].values)
    table = sealed([(i,) for i in range(runs)], *[[value] * runs for value in values])
    released = release(plan, measurement, table, ExactSampler())
    return [component.astype(float) for vector in released.vectors for component in vector]


def spread(plan: PlannedRelease, runs: int) -> PlannedRelease:
    return replace(plan, public=(public(*range(runs)),))


def audit(
    plan: PlannedRelease,
    measurement: Measurement,
    here: list[int],
    there: list[int],
    runs: int,
    weights: list[int],
    delta: float = 0.0,
) -> float:
    """Audit the statistic sum of weights * released columns."""
    many = spread(plan, runs)
    samples = [np.dot(weights, noisy(many, measurement, values)) for values in (here, there)]
    return epsilon_at_least(*samples, delta=delta)


def halved(measurement: Measurement) -> Measurement:
    noises = tuple(replace(n, scale=max(1, n.scale // 2)) for n in measurement.noises)
    return replace(measurement, noises=noises)


def one_group(*measures: Measure) -> PlannedRelease:
    return planned(*measures, keys=1, public=(public("a"),))


K = 2**12
CASES = {
    # name: (plan, a unit's values in one group, weights of the attacker's statistic)
    "count": (one_group(COUNT), [1], [1]),
    "sum": (one_group(total(-3, 7)), [7], [1]),
    "mean": (one_group(moments(cells=K)), [0, K], [-1, 1]),
    "mean, at one end": (one_group(moments(cells=K)), [K, 0], [1, 0]),
    "variance": (one_group(moments(cells=64, degree=2)), [0, 0, 64**2], [0, 0, 1]),
    "count and sum": (one_group(COUNT, total(0, 1)), [1, 1], [1, 1]),
}


def laplace(plan: PlannedRelease, epsilon: float, facts: Facts | None = None) -> Measurement:
    return calibrate(
        plan,
        facts or facts_of(plan),
        epsilon=Fraction(epsilon),
        delta=Fraction(0),
        gaussian_allowed=False,
        min_units=1,
    )


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), 2])
@pytest.mark.parametrize("name", CASES)
def test_a_unit_more_is_told_apart_no_better_than_claimed(name: str, epsilon: float) -> None:
    plan, unit, weights = CASES[name]
    measurement = laplace(plan, epsilon)
    here = [50 * abs(u) for u in unit]
    there = [h + u for h, u in zip(here, unit, strict=True)]
    assert measurement.cost.epsilon <= epsilon
    assert audit(plan, measurement, here, there, RUNS, weights) <= measurement.cost.epsilon


@pytest.mark.parametrize("name", ["count", "sum", "mean, at one end", "variance"])
def test_half_the_scale_is_caught(name: str) -> None:
    plan, unit, weights = CASES[name]
    measurement = laplace(plan, 1)
    there = [50 * abs(u) + u for u in unit]
    found = audit(plan, halved(measurement), [50 * abs(u) for u in unit], there, RUNS, weights)
    assert found > measurement.cost.epsilon


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_claims_and_a_tenth_of_excess_with_many_runs(name: str) -> None:
    plan, unit, weights = CASES[name]
    measurement = laplace(plan, 1)
    here = [50 * abs(u) for u in unit]
    there = [h + u for h, u in zip(here, unit, strict=True)]
    assert audit(plan, measurement, here, there, MANY, weights) <= measurement.cost.epsilon
    if name in {"count", "sum", "mean, at one end", "variance"}:
        short = laplace(plan, Fraction(5, 4))
        assert audit(plan, short, here, there, MANY, weights) > 1


DELTA = Fraction(1, 100)  # large, so that its tail can be seen


def gaussian(plan: PlannedRelease, facts: Facts) -> Measurement:
    found = calibrate(
        plan, facts, epsilon=Fraction(1), delta=DELTA, gaussian_allowed=True, min_units=1
    )
    assert {n.kind for n in found.noises} == {NoiseKind.GAUSSIAN}
    return found


def delta_at_least(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    """Return a lower bound of delta at `epsilon`, from the best half-line."""
    half = first.size // 2
    places = np.quantile(first[:half], np.linspace(0.01, 0.999, 200))
    factor = math.exp(epsilon)
    gain = [(first[:half] >= p).mean() - factor * (second[:half] >= p).mean() for p in places]
    place = places[int(np.argmax(gain))]
    low = at_least(int((first[half:] >= place).sum()), half, ALPHA / 2)
    high = at_most(int((second[half:] >= place).sum()), half, ALPHA / 2)
    return low - factor * high


def delta_of(groups: int, measurement: Measurement, plan: PlannedRelease) -> float:
    """Audit a unit that adds 1 to each of `groups` cells, by the sum over those cells."""
    runs = 100_000 // groups * groups
    many = spread(plan, runs)
    samples = [
        noisy(many, measurement, [value])[0].reshape(-1, groups).sum(axis=1) for value in (51, 50)
    ]
    return delta_at_least(*samples, epsilon=1.0)


def test_gaussian_noise_keeps_delta_and_half_the_scale_does_not() -> None:
    groups = 4
    plan = one_group(COUNT)
    measurement = gaussian(plan, facts_of(plan, groups=groups))
    assert delta_of(groups, measurement, plan) <= float(DELTA)
    assert delta_of(groups, halved(measurement), plan) > float(DELTA)


def keys_shown(
    facts_options: dict[str, Any],
    *,
    units: int,
    own: int,
    runs: int,
    min_units: int = 1,
    shift: int = 0,
) -> float:
    """Return how often at least one of a unit's `own` keys shows, over `runs` data sets."""
    plan = planned(PRESENCE, keys=1, private=(0,), selection=0)
    measurement = calibrate(
        plan,
        facts_of(plan, groups=own, **facts_options),
        epsilon=Fraction(1),
        delta=DELTA,
        gaussian_allowed=True,
        min_units=min_units,
    )
    selection = measurement.selection
    lower = replace(
        selection, threshold=selection.threshold - shift * measurement.noises[0].lattice
    )
    keys = [(i,) for i in range(runs * own)]
    table = sealed(keys, [units] * len(keys))
    released = release(plan, replace(measurement, selection=lower), table, ExactSampler())
    shown = {key[0] // own for key in released.keys}
    return len(shown) / runs


@pytest.mark.parametrize(
    ("options", "units", "own", "expected"),
    [
        ({}, 1, 1, DELTA),
        ({}, 1, 5, DELTA / 2),  # Gaussian noise, here and last: half of delta selects
        ({"group_size": 3}, 3, 1, DELTA),
        ({"adjacency": Adjacency.SUBSTITUTION}, 1, 1, DELTA / 2 / Fraction(1 + math.exp(0.5))),
        ({"adjacency": Adjacency.ZERO_OUT}, 1, 1, DELTA / 2 / Fraction(1 + math.exp(0.5))),
    ],
)
def test_rare_keys_show_as_seldom_as_claimed(
    options: dict[str, Any], units: int, own: int, expected: Fraction
) -> None:
    runs = 50_000
    rate = keys_shown(options, units=units, own=own, runs=runs)
    error = 5 * math.sqrt(float(expected) / runs)  # 3e-7
    if "group_size" in options:  # all three units in one of the three keys that they may have
        expected /= 3
    assert rate <= float(expected) + error
    assert rate >= float(expected) * 0.85 - error


def test_a_threshold_one_unit_too_low_is_noticed() -> None:
    rate = keys_shown({}, units=1, own=1, runs=100_000, shift=1)
    assert rate > float(DELTA) * 1.5


def test_least_units_hide_keys_of_fewer() -> None:
    assert keys_shown({}, units=20, own=1, runs=2000, min_units=40) == 0
    assert keys_shown({}, units=60, own=1, runs=2000, min_units=40) == 1


def test_neighbours_have_the_same_lattice() -> None:
    # a float leak shows as outputs that one neighbour alone can give
    plan = one_group(total(0, 7))
    measurement = laplace(plan, 1)
    for value in (50, 57):
        (column,) = noisy(spread(plan, 20_000), measurement, [value])
        shifted = column.astype(np.int64) - 50 * measurement.noises[0].lattice
        assert np.bincount(shifted % 8, minlength=8).min() > 2000  # every residue, equally
