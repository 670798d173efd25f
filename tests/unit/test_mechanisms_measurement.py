from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanism_plans import (
    COUNT,
    PRESENCE,
    facts_of,
    moments,
    planned,
    public,
    total,
)

from dp_sql.errors import InternalError, ParameterError, UnsupportedSQLError
from dp_sql.mechanisms.calibrate_gaussian import sigma1
from dp_sql.mechanisms.measurement import Measurement, calibrate
from dp_sql.mechanisms.noise import EXACT, LEAST_SCALE, NoiseKind, VectorNoise
from dp_sql.mechanisms.threshold import laplace_threshold, log_delta_per_group
from dp_sql.plan.facts import Facts
from dp_sql.plan.relation import Measure
from dp_sql.plan.release import PlannedRelease
from dp_sql.privacy.contribution import Change
from dp_sql.privacy.cost import FREE
from dp_sql.privacy.event import (
    GaussianEvent,
    KeySelectionEvent,
    LaplaceEvent,
    pure_epsilon,
)
from dp_sql.privacy.unit import Adjacency

LAPLACE, GAUSSIAN = NoiseKind.LAPLACE, NoiseKind.GAUSSIAN
DELTA = Fraction(1, 10**6)
STILL = Change(((),))


def measure(
    plan: PlannedRelease,
    facts: Facts,
    epsilon: float = 1,
    delta: float = 0,
    *,
    gaussian: bool = True,
    min_units: int = 1,
) -> Measurement:
    return calibrate(
        plan,
        facts,
        epsilon=Fraction(epsilon),
        delta=Fraction(delta),
        gaussian_allowed=gaussian,
        min_units=min_units,
    )


def test_a_count_at_epsilon_one() -> None:
    plan = planned(COUNT)
    found = measure(plan, facts_of(plan))
    assert found.noises == (VectorNoise(LAPLACE, 1024, 1024),)
    assert found.cost.epsilon == 1
    assert found.cost.delta == 0
    assert found.cost.events == (LaplaceEvent(1024, Change((((1024, 1),),))),)
    assert found.selection is None


@given(
    epsilon=st.fractions(min_value="1/1000", max_value=50),
    groups=st.integers(1, 40),
    bound=st.integers(1, 10**9),
)
def test_scales_are_rounded_up_and_by_little(epsilon: float, groups: int, bound: int) -> None:
    plan = planned(total(0, bound))
    (noise,) = measure(plan, facts_of(plan, groups=groups), epsilon).noises
    wanted = Fraction(bound * groups) / epsilon
    assert wanted <= Fraction(noise.scale, noise.lattice) <= wanted * Fraction(1025, 1024)
    assert noise.scale >= LEAST_SCALE
    assert noise.lattice == 1 or noise.scale < 2 * LEAST_SCALE + 1


@given(
    epsilon=st.fractions(min_value="1/1000", max_value=50),
    delta=st.sampled_from([Fraction(0), DELTA, Fraction(1, 100)]),
    shares=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    groups=st.integers(1, 30),
)
def test_what_is_charged_is_what_the_events_say_and_never_more_than_asked(
    epsilon: float, delta: float, shares: list[int], groups: int
) -> None:
    weights = tuple(Fraction(s, sum(shares)) for s in shares)
    plan = planned(COUNT, total(-5, 20), moments(cells=2**10), shares=weights)
    found = measure(plan, facts_of(plan, groups=groups), epsilon, delta)
    cost = found.cost
    assert cost.epsilon <= epsilon
    assert cost.epsilon >= epsilon * Fraction(1000, 1025)
    kinds = {noise.kind for noise in found.noises}
    assert len(kinds) == 1
    if kinds == {LAPLACE}:
        assert cost.delta == 0
        assert cost.epsilon == sum(pure_epsilon(event) for event in cost.events)
    else:
        assert cost.delta == delta
        assert cost.epsilon == epsilon
        whole = sum(Fraction(e.l2_squared, e.sigma**2) for e in cost.events)
        assert whole <= 1 / Fraction(sigma1(epsilon, delta)) ** 2
        assert whole >= 1 / Fraction(sigma1(epsilon, delta) * 1.002) ** 2


def test_gaussian_noise_wins_from_seven_equal_coordinates_on_at_a_tenth() -> None:
    # 5.1 of the mechanisms' facts: at delta 1e-6 from 7 (epsilon 0.1), 9 (1), 13 (5) on
    for epsilon, first in (("0.1", 7), ("1", 9), ("5", 13)):
        for groups in (first - 1, first):
            plan = planned(COUNT, keys=1, public=(public("a"),))
            found = measure(plan, facts_of(plan, groups=groups), epsilon, DELTA)
            assert found.noises[0].kind is (GAUSSIAN if groups == first else LAPLACE)
            assert (
                measure(plan, facts_of(plan, groups=groups), epsilon, DELTA, gaussian=False)
                .noises[0]
                .kind
                is LAPLACE
            )
            assert (
                measure(plan, facts_of(plan, groups=groups), epsilon, 0).noises[0].kind is LAPLACE
            )


def test_gaussian_weights_follow_the_shares() -> None:
    plan = planned(COUNT, COUNT, shares=(Fraction(4, 5), Fraction(1, 5)))
    found = measure(plan, facts_of(plan, groups=50), 1, DELTA)
    first, second = (Fraction(n.scale, n.lattice) for n in found.noises)
    assert {n.kind for n in found.noises} == {GAUSSIAN}
    assert float(second / first) == pytest.approx(2, rel=2e-3)
    assert float(first) == pytest.approx(sigma1(Fraction(1), DELTA) * math.sqrt(50 / 0.8), rel=2e-3)


def test_an_epsilon_too_large_for_gaussian_noise_is_read_as_the_largest() -> None:
    plan = planned(COUNT)
    assert measure(plan, facts_of(plan), 200, DELTA).noises[0].kind is LAPLACE
    (noise,) = measure(plan, facts_of(plan, groups=500), 200, DELTA).noises
    assert noise.kind is GAUSSIAN
    assert noise == measure(plan, facts_of(plan, groups=500), 100, DELTA).noises[0]


def test_a_vector_that_nobody_changes_is_exact_and_free() -> None:
    plan = planned(COUNT, total())
    facts = facts_of(plan, changes=(STILL, Change((((100, 1),),))))
    found = measure(plan, facts)
    assert found.noises[0] == EXACT
    assert found.noises[1] == VectorNoise(LAPLACE, 16, 1600)  # the whole epsilon, not a half
    assert len(found.cost.events) == 1
    both = measure(plan, facts_of(plan, changes=(STILL, STILL)))
    assert both.noises == (EXACT, EXACT)
    assert both.cost == FREE


def test_a_release_without_vectors_is_free() -> None:
    plan = planned(keys=1, public=(public("a"),), readouts=(), types=())
    assert measure(plan, facts_of(plan, changes=())).cost == FREE


def test_a_share_of_zero_is_a_bug() -> None:
    plan = planned(COUNT, COUNT, shares=(Fraction(0), Fraction(1)))
    with pytest.raises(InternalError, match="no share"):
        measure(plan, facts_of(plan))


def test_noise_above_any_answer_is_refused() -> None:
    plan = planned(total(0, 10**12))
    with pytest.raises(UnsupportedSQLError, match="larger than any answer") as caught:
        measure(plan, facts_of(plan), Fraction(1, 10**6))
    assert "larger epsilon" in caught.value.hint


def test_an_absurd_epsilon_stays_finite_and_is_not_spent() -> None:
    plan = planned(COUNT)
    found = measure(plan, facts_of(plan), 10**400)
    assert found.noises[0] == VectorNoise(LAPLACE, 2**64, 1024)
    assert found.cost.epsilon == 2**54


def private_plan(*measures: Measure) -> PlannedRelease:
    return planned(*measures, PRESENCE, keys=1, private=(0,), selection=len(measures))


def test_private_keys_need_delta() -> None:
    plan = private_plan(COUNT)
    with pytest.raises(ParameterError, match="need delta > 0") as caught:
        measure(plan, facts_of(plan))
    assert caught.value.code == "parameter"
    assert "delta=" in caught.value.hint


def test_laplace_selection_takes_all_of_delta() -> None:
    plan = planned(PRESENCE, keys=1, private=(0,), selection=0)
    found = measure(plan, facts_of(plan), 1, DELTA)
    assert found.noises == (VectorNoise(LAPLACE, 1024, 1024),)
    each = log_delta_per_group(
        DELTA, Fraction(1), groups=1, group_size=1, adjacency=Adjacency.ADD_REMOVE
    )
    assert found.selection.vector == 0
    assert found.selection.threshold == laplace_threshold(1024, each, start=1024)
    assert found.cost.delta == DELTA
    assert found.cost.epsilon == 1
    assert found.cost.events == (
        KeySelectionEvent(LaplaceEvent(1024, Change((((1024, 1),),))), DELTA),
    )
    assert 14 < found.selection.threshold / 1024 < 15


def test_gaussian_selection_takes_half_of_delta() -> None:
    plan = planned(PRESENCE, keys=1, private=(0,), selection=0)
    found = measure(plan, facts_of(plan, groups=64), 1, DELTA)
    assert found.noises[0].kind is GAUSSIAN
    assert found.cost.delta == DELTA
    (event,) = found.cost.events
    assert event.delta == DELTA / 2
    assert isinstance(event.noise, GaussianEvent)
    sigma = 8 * sigma1(Fraction(1), DELTA / 2)
    wanted = 1 + sigma * NormalDist().inv_cdf(1 - float(DELTA / 2 / 64))
    assert found.selection.threshold / found.noises[0].lattice == pytest.approx(wanted, rel=2e-3)


def test_selection_may_have_other_noise_than_the_values() -> None:
    # 4 groups: Gaussian selection needs fewer units, Laplace is better for the mean's two numbers
    plan = private_plan(moments())
    found = measure(plan, facts_of(plan, groups=4), 1, DELTA)
    values, selection = found.noises
    assert (values.kind, selection.kind) == (LAPLACE, GAUSSIAN)
    first, second = found.cost.events
    assert isinstance(first, LaplaceEvent)
    assert isinstance(second.noise, GaussianEvent)
    assert second.delta == DELTA / 2
    assert found.cost.delta == DELTA
    assert found.cost.epsilon == pure_epsilon(first) + Fraction(1, 2)
    # the selection's noise is (1/2, delta/2)-DP by itself
    noise = second.noise
    limit = 1 / Fraction(sigma1(Fraction(1, 2), DELTA / 2)) ** 2
    assert Fraction(noise.l2_squared, noise.sigma**2) <= limit


def test_the_least_number_of_units_is_kept() -> None:
    plan = planned(PRESENCE, keys=1, private=(0,), selection=0)
    found = measure(plan, facts_of(plan), 1, DELTA, min_units=200)
    assert found.selection.threshold == 200 * 1024
    assert measure(plan, facts_of(plan), 1, DELTA, min_units=5).selection.threshold < 200 * 1024


def test_more_units_at_once_raise_the_threshold() -> None:
    plan = planned(PRESENCE, keys=1, private=(0,), selection=0)
    one = measure(plan, facts_of(plan), 1, DELTA, gaussian=False)
    five = measure(plan, facts_of(plan, group_size=5), 1, DELTA, gaussian=False)
    units = [m.selection.threshold / m.noises[0].lattice for m in (one, five)]
    # five units start at 5, their noise is 5 times as wide and delta is shared by 5 keys
    wanted = 5 + 5 * math.log(1 / (DELTA / 5) / 2)
    assert units[1] == pytest.approx(wanted, rel=1e-3)
    assert units[1] > 5 * units[0]


def test_substitution_raises_the_threshold() -> None:
    plan = planned(PRESENCE, keys=1, private=(0,), selection=0)
    swap = facts_of(plan, adjacency=Adjacency.SUBSTITUTION)
    found = measure(plan, swap, 1, DELTA, gaussian=False)
    wanted = 1 + 2 * (math.log(1 / DELTA / 2) + math.log1p(math.exp(0.5)))
    assert found.selection.threshold / found.noises[0].lattice == pytest.approx(wanted, rel=1e-3)


def test_selection_by_counts_that_nobody_changes_is_exact() -> None:
    plan = planned(PRESENCE, keys=1, private=(0,), selection=0)
    found = measure(plan, facts_of(plan, changes=(STILL,)), min_units=3)
    assert found.noises == (EXACT,)
    assert found.selection.threshold == 3
    assert found.cost == FREE
    mixed = private_plan(COUNT)
    facts = facts_of(mixed, changes=(Change((((1, 1),),)), STILL))
    assert measure(mixed, facts, min_units=3).selection.threshold == 3


def test_a_million_coordinates_are_too_many_for_the_gaussian_proof() -> None:
    plan = planned(COUNT)
    facts = facts_of(plan, changes=(Change((((1, 10**6 + 1),),)),))
    assert measure(plan, facts, 1, DELTA).noises[0].kind is LAPLACE
    facts = facts_of(plan, changes=(Change((((1, 10**6),),)),))
    assert measure(plan, facts, 1, DELTA).noises[0].kind is GAUSSIAN


@pytest.mark.parametrize(
    ("kind", "lattice", "scale"),
    [
        (LAPLACE, 3, 5),
        (LAPLACE, 0, 5),
        (LAPLACE, 1, 0),
        (GAUSSIAN, 1, 2**50 + 1),
        (NoiseKind.NONE, 1, 1),
    ],
)
def test_impossible_noise_is_refused(kind: NoiseKind, lattice: int, scale: int) -> None:
    with pytest.raises(ValueError, match=r"lattice|scale"):
        VectorNoise(kind, lattice, scale)
