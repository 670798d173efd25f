"""What an earlier release lacks: never more than the target allows, and by a millionth no less."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanism_plans import COUNT, facts_of, planned, public, total

from dp_sql.mechanisms import topup
from dp_sql.mechanisms.calibrate_gaussian import log_delta
from dp_sql.mechanisms.measurement import Measurement, calibrate_sets
from dp_sql.mechanisms.noise import EXACT, NoiseKind, VectorNoise
from dp_sql.mechanisms.release import Released
from dp_sql.mechanisms.topup import Noises, fits, mean, missing, noises_of
from dp_sql.plan.release import UNSAID
from dp_sql.privacy.concentrated import zcdp
from dp_sql.privacy.cost import FREE

DELTA = Fraction(1, 10**9)
PLAN = planned(COUNT, total(-5, 20), keys=1, public=(public("a", "b"),))
FACTS = facts_of(PLAN, groups=3)


def gaussian(epsilon: Fraction, delta: Fraction = DELTA) -> Measurement:
    (found,) = calibrate_sets(
        ((PLAN, FACTS),),
        epsilon=epsilon,
        delta=delta,
        gaussian_allowed=True,
        laplace_allowed=False,
        min_units=1,
    )
    return found


def lacking(target: Measurement, before: Measurement, draws: int = 1) -> Measurement | None:
    found = missing([(PLAN, FACTS)], [target], Noises((before.noises,), draws))
    return None if found is None else found[0]


def rho(measurement: Measurement) -> Fraction:
    return sum(map(zcdp, measurement.cost.events), Fraction(0))


@settings(max_examples=25, deadline=None)
@given(
    before=st.fractions(min_value="1/100", max_value=10),
    factor=st.fractions(min_value="1001/1000", max_value=50),
)
def test_both_together_are_the_target_in_privacy_and_in_variance(
    before: Fraction, factor: Fraction
) -> None:
    old, target = gaussian(before), gaussian(before * factor)
    found = lacking(target, old)
    if found is None:  # after rounding there is nothing between the two
        pairs = zip(target.noises, old.noises, strict=True)
        assert any(b.scale * a.lattice <= a.scale * b.lattice for a, b in pairs)
        return
    for wanted, one, more in zip(target.noises, old.noises, found.noises, strict=True):
        precise = [Fraction(n.lattice**2, n.scale**2) for n in (wanted, one, more)]
        assert precise[1] + precise[2] <= precise[0]
        assert precise[1] + precise[2] >= precise[0] * (1 - Fraction(2, 10**6))
    assert rho(old) + rho(found) <= rho(target)
    assert rho(old) + rho(found) >= rho(target) * (1 - Fraction(2, 10**6))
    assert 0 < found.cost.epsilon <= target.cost.epsilon
    assert found.cost.delta == target.cost.delta
    for event, noise in zip(found.cost.events, found.noises, strict=True):
        assert event.sigma == noise.scale >= 2**20


@pytest.mark.parametrize("before", [Fraction(1, 10), Fraction(9, 10), Fraction(999, 1000)])
def test_its_epsilon_is_the_least_that_its_own_noise_has(before: Fraction) -> None:
    found = lacking(gaussian(Fraction(1)), gaussian(before))
    assert found is not None
    change = math.sqrt(2 * rho(found))  # of one normal with that squared distance
    epsilon = float(found.cost.epsilon)
    assert log_delta(epsilon, change) <= math.log(DELTA)
    assert log_delta(epsilon * 0.999, change) > math.log(DELTA)


def test_several_sets_of_keys_share_its_cost() -> None:
    targets = [gaussian(Fraction(1)) for _ in range(2)]
    both = (replace(targets[0].cost, epsilon=Fraction(1, 3)), targets[1].cost)
    targets = [replace(t, cost=cost) for t, cost in zip(targets, both, strict=True)]
    earlier = Noises((gaussian(Fraction(1, 2)).noises,) * 2)
    found = missing([(PLAN, FACTS)] * 2, targets, earlier)
    assert found is not None
    first, second = (m.cost for m in found)
    assert second.epsilon == 3 * first.epsilon
    assert [first.delta, second.delta] == [DELTA, DELTA]
    one = missing([(PLAN, FACTS)], targets[:1], Noises(earlier.parts[:1]))
    assert one is not None
    assert first.epsilon + second.epsilon > one[0].cost.epsilon  # of both, not of one


def test_what_is_as_accurate_already_lacks_nothing() -> None:
    target = gaussian(Fraction(1))
    assert lacking(target, target) is None
    assert lacking(target, gaussian(Fraction(2))) is None
    one, other = gaussian(Fraction(1, 2)).noises, gaussian(Fraction(2)).noises
    assert lacking(target, replace(target, noises=(one[0], other[1]))) is None
    assert lacking(target, replace(target, noises=(one[0], EXACT))) is None


def test_draws_are_counted_as_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topup, "MOST_COORDINATES", 18)  # 3 groups of 2 vectors, 3 draws
    target, old = gaussian(Fraction(1)), gaussian(Fraction(1, 2))
    assert lacking(target, old, draws=2) is not None
    assert lacking(target, old, draws=3) is None


def test_noise_beyond_what_is_drawn_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    target, old = gaussian(Fraction(1)), gaussian(Fraction(1, 2))
    monkeypatch.setattr(topup, "_FINE", 2**51)
    assert lacking(target, old) is None


def test_only_gaussian_sums_by_public_keys_can_be_topped_up() -> None:
    target = gaussian(Fraction(1))
    assert noises_of([PLAN], [target], 3) == Noises((target.noises,), 3)
    laplace = VectorNoise(NoiseKind.LAPLACE, 1, 2000)
    for other in (
        replace(target, noises=(target.noises[0], laplace)),
        replace(target, choosers=(SimpleNamespace(),)),
        replace(target, counters=(SimpleNamespace(),)),
    ):
        assert noises_of([PLAN, PLAN], [target, other]) is None
    exact = replace(target, noises=(EXACT, EXACT))
    assert noises_of([PLAN], [exact]) is None
    assert noises_of([PLAN, PLAN], [target, exact]) is not None
    sampled = replace(UNSAID, sample_rate=Fraction(1, 2))
    release = replace(PLAN.release, options=sampled)
    for plan in (replace(PLAN, private=(0,), public=()), replace(PLAN, release=release)):
        assert noises_of([plan], [target]) is None
        assert noises_of([PLAN, plan], [target, target]) is None


def test_noise_comes_back_from_its_text() -> None:
    noises = Noises(((VectorNoise(NoiseKind.GAUSSIAN, 2**70, 1025), EXACT), ()), 5)
    assert Noises.from_text(noises.to_text()) == noises
    for text in ("", "7", "[1]", "[1,[[[3,2000]]]]", '[1,[[[1,"x"]]]]', "[1,[[1]]]", "null"):
        with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong, there is no noise
            Noises.from_text(text)
    with pytest.raises(ValueError, match="zip"):
        noises.measurements([gaussian(Fraction(1))])


def released(measurement: Measurement, *vectors: list[int]) -> Released:
    made: list[list[np.ndarray[Any, Any]]] = [[np.array(v, dtype=object)] for v in vectors]
    return Released([("a",), ("b",)], made, measurement)


def test_a_release_of_other_groups_or_vectors_does_not_fit() -> None:
    target = gaussian(Fraction(1))
    assert fits(PLAN, released(target, [1, 2], [3, 4]))
    assert not fits(PLAN, released(target, [1, 2]))
    assert not fits(PLAN, released(target, [1, 2], [3]))
    assert not fits(PLAN, Released([("a",)], released(target, [1], [2]).vectors, target))


scales = st.integers(1024, 2**45)
lattices = st.sampled_from([1, 2, 2**20, 2**64])
values = st.integers(-(2**80), 2**80)


@settings(deadline=None)
@given(st.lists(st.tuples(lattices, scales), min_size=3, max_size=3), values, values)
def test_the_mean_is_weighted_by_inverse_variances_and_rounded_once(
    noises: list[tuple[int, int]], one: int, other: int
) -> None:
    target, old, new = (VectorNoise(NoiseKind.GAUSSIAN, *noise) for noise in noises)

    def measured(noise: VectorNoise) -> Measurement:
        return Measurement((noise, EXACT), None, FREE)

    found = mean(
        measured(target),
        released(measured(old), [one, -one], [1, 2]),
        released(measured(new), [other, -other], [7, 8]),
    )
    precise = [Fraction(n.lattice**2, n.scale**2) for n in (old, new)]
    exact = precise[0] * Fraction(one, old.lattice) + precise[1] * Fraction(other, new.lattice)
    exact = exact / sum(precise) * target.lattice
    ((first,), (second,)) = found.vectors
    assert abs(int(first[0]) - exact) <= Fraction(1, 2)
    assert abs(int(first[1]) + exact) <= Fraction(1, 2)
    assert second.tolist() == [7, 8]  # without noise: as it is
    assert found.measurement.noises == (target, EXACT)
