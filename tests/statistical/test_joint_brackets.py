"""What is claimed of a batch, against the exact composition that dp-accounting brackets."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from typing import Any

import pytest
from budget_cases import one_coordinate
from dp_accounting.pld import privacy_loss_distribution as pld

from dp_sql.mechanisms.together import joint_epsilon
from dp_sql.privacy.contribution import Change
from dp_sql.privacy.event import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    KeySelectionEvent,
    LaplaceEvent,
    PureEvent,
    SampledEvent,
    selection_delta,
)

STEP = 1024


def gauss(sigma: float) -> GaussianEvent:
    return GaussianEvent(round(sigma * STEP), STEP**2)


def laplace(scale: float, shift: int = 1, coordinates: int = 1) -> LaplaceEvent:
    change = Change((((shift * STEP, coordinates),),)) if coordinates > 1 else None
    return LaplaceEvent(round(scale * STEP), change or one_coordinate(shift * STEP))


def pure(epsilon: str) -> PureEvent:
    return PureEvent(Fraction(epsilon))


def keys(noise: GaussianEvent | LaplaceEvent | PureEvent, delta: str) -> KeySelectionEvent:
    return KeySelectionEvent(noise, Fraction(delta))


DELTA = Fraction(1, 10**6)
RATE = Fraction(1, 50)
BATCHES: dict[str, list[Event]] = {
    "counts": [gauss(10)] * 100,
    "one large among many": [gauss(1.5), *[gauss(40)] * 60],
    "laplace": [laplace(20)] * 100,
    "half and half": [*[laplace(10)] * 20, *[gauss(10)] * 20],
    "vectors": [*[laplace(60, 2, 5)] * 20, *[gauss(12)] * 5],
    "choices": [*[pure("0.05")] * 30, *[gauss(15)] * 10],
    "unequal choices": [pure("0.02"), *[pure("0.0095")] * 500],
    "one choice": [pure("1"), *[gauss(12)] * 10],
    "keys": [*[keys(gauss(12), "9e-8")] * 10, *[gauss(10)] * 10, keys(pure("0.2"), "9e-8")],
    "by local sensitivity": [ApproximateEvent(Fraction(1, 10), DELTA / 4)] * 3 + [gauss(9)],
    "samples": [SampledEvent(RATE, (gauss(1.5),))] * 40,
    "samples and counts": [*[SampledEvent(RATE, (gauss(2), gauss(3)))] * 5, *[gauss(9)] * 8],
    "pure alone": [laplace(4)] * 4,
    "nearly nothing": [gauss(4000)] * 3,
    "far too much": [gauss(0.4)] * 3,
}


def losses(event: Event, *, pessimistic: bool) -> Any:
    """Return the distribution of an event's loss by dp-accounting, but for its selection delta."""
    more: dict[str, Any] = {"pessimistic_estimate": pessimistic, "use_connect_dots": False}
    more["value_discretization_interval"] = 5e-4
    match event:
        case GaussianEvent(sigma=sigma, l2_squared=square):
            return pld.from_gaussian_mechanism(sigma / math.sqrt(square), **more)
        case LaplaceEvent(scale=scale, change=change):
            ((shift, count),) = change.profiles[0]
            return pld.from_laplace_mechanism(scale / shift, **more).self_compose(count)
        case PureEvent(epsilon=epsilon) | ApproximateEvent(epsilon=epsilon):
            more.pop("use_connect_dots")
            p = 2 / (1 + math.exp(float(epsilon)))  # of a random answer, between two
            return pld.from_randomized_response(p, 2, **more)
        case KeySelectionEvent(noise=noise):
            return losses(noise, pessimistic=pessimistic)
        case SampledEvent(rate=rate, noises=noises):
            inverse = sum(n.l2_squared / n.sigma**2 for n in noises)
            return pld.from_gaussian_mechanism(
                1 / math.sqrt(inverse), sampling_prob=float(rate), **more
            )


def composed(events: list[Event], *, pessimistic: bool) -> Any:
    counts = {event: events.count(event) for event in events}
    found = [losses(e, pessimistic=pessimistic).self_compose(n) for e, n in counts.items()]
    return reduce(lambda one, other: one.compose(other), found)


SLOW = {"far too much", "samples"}  # to compose by dp-accounting


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in BATCHES],
)
def test_what_is_claimed_is_no_less_than_the_truth_and_near_it(name: str) -> None:
    events = BATCHES[name]
    epsilon = joint_epsilon(events, DELTA, len(events))
    assert epsilon is not None
    rest = float(DELTA - sum(map(selection_delta, events)))
    lower = composed(events, pessimistic=False)
    assert lower.get_delta_for_epsilon(float(epsilon)) <= rest
    upper = composed(events, pessimistic=True).get_epsilon_for_delta(rest)
    sampled = any(isinstance(event, SampledEvent) for event in events)
    most = (
        1.5 if sampled else 1.06 if name in ("vectors", "unequal choices") else 1.01
    )  # Rényi curves are loose
    assert float(epsilon) < most * upper + 1e-3


def normal_delta(epsilon: float, change: float) -> float:
    """Return the delta of a normal at any epsilon. Source: [BalleWang2018]."""
    tail = (math.erfc((epsilon / change - change / 2) / math.sqrt(2))) / 2
    return tail - math.exp(epsilon) * math.erfc((epsilon / change + change / 2) / math.sqrt(2)) / 2


@pytest.mark.parametrize(
    ("count", "one", "sigma"), [(30, "0.05", 5), (7, "0.3", 6), (12, "0.1", 2)]
)
def test_responses_and_a_normal_are_composed_exactly(count: int, one: str, sigma: int) -> None:
    found = joint_epsilon([pure(one)] * count + [gauss(sigma)], DELTA, 1)
    assert found is not None
    each = float(Fraction(one))
    yes = 1 / (1 + math.exp(-each))

    def truth(epsilon: float) -> float:
        return math.fsum(
            math.comb(count, k)
            * yes**k
            * (1 - yes) ** (count - k)
            * normal_delta(epsilon - (2 * k - count) * each, 1 / sigma)
            for k in range(count + 1)
        )

    assert truth(float(found)) <= DELTA
    assert truth(float(found) * 0.999) > DELTA


def test_the_brackets_find_a_claim_that_is_too_small() -> None:
    for name in ("counts", "laplace", "keys"):
        events = BATCHES[name]
        epsilon = joint_epsilon(events[: len(events) * 4 // 5], DELTA, len(events))
        assert epsilon is not None
        rest = float(DELTA - sum(map(selection_delta, events)))
        lower = composed(events, pessimistic=False)
        assert lower.get_delta_for_epsilon(float(epsilon)) > rest


def test_what_sigma_does_not_cover_is_left_to_renyi() -> None:
    few = joint_epsilon([gauss(10)] * 4, DELTA, 4)
    many = joint_epsilon([gauss(10)] * 4, DELTA, 10**6 + 1)
    assert few is not None
    assert many is not None
    assert few < many < few * Fraction(12, 10)


def test_no_epsilon_where_keys_take_all_of_delta() -> None:
    assert joint_epsilon([keys(gauss(10), "6e-7")] * 2, DELTA, 2) is None
    assert joint_epsilon([keys(pure("0.1"), "5e-7")] * 2, DELTA, 0) == Fraction(1, 5)
    assert joint_epsilon([keys(pure("0.1"), "6e-7")] * 2, DELTA, 0) is None
    assert joint_epsilon([], DELTA, 0) == 0
