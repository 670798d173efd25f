from __future__ import annotations

import random
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from mechanism_plans import (
    COUNT,
    PRESENCE,
    ScriptedSampler,
    measured,
    moments,
    planned,
    public,
    sealed,
    silent,
    total,
)

from dp_sql.errors import InternalError
from dp_sql.mechanisms.measurement import Measurement
from dp_sql.mechanisms.noise import NoiseKind, VectorNoise
from dp_sql.mechanisms.release import Released, plus, release
from dp_sql.mechanisms.sampler import ExactSampler
from dp_sql.mechanisms.selection import Selection
from dp_sql.plan.expression import IntervalValue
from dp_sql.plan.relation import Measure
from dp_sql.plan.release import KeySpace, PlannedRelease
from dp_sql.privacy.cost import FREE

EIGHTS = VectorNoise(NoiseKind.LAPLACE, 8, 20)
BELL = VectorNoise(NoiseKind.GAUSSIAN, 4, 9)


def shuffle(values: list[Any], seed: int) -> list[Any]:
    return random.Random(seed).sample(values, len(values))


def numbers(released: Released, vector: int = 0, component: int = 0) -> list[int]:
    return released.vectors[vector][component].tolist()


def test_no_keys_is_one_group_even_without_rows() -> None:
    plan = planned(COUNT)
    for keys, column in (([()], [41]), ([], [])):
        found = release(plan, silent(plan), sealed(keys, column), ScriptedSampler())
        assert found.keys == [()]
        assert numbers(found) == [sum(column)]


def test_public_keys_are_all_there_and_no_others() -> None:
    plan = planned(COUNT, keys=1, public=(public("b", None, "a", "c"),))
    table = sealed([("c",), ("zz",), (None,), ("a",)], [3, 99, 7, 1])
    found = release(plan, silent(plan), table, ScriptedSampler())
    assert found.keys == [("a",), ("b",), ("c",), (None,)]
    assert numbers(found) == [1, 0, 3, 7]


def test_two_public_spaces_and_their_positions() -> None:
    spaces = (KeySpace((2, 0), (("x", 1), ("y", 2))), KeySpace((1,), ((False,), (True,))))
    plan = planned(COUNT, keys=3, public=spaces)
    table = sealed([(2, True, "y"), (1, False, "x"), (1, False, "y")], [5, 6, 7])
    found = release(plan, silent(plan), table, ScriptedSampler())
    assert found.keys == [(1, False, "x"), (1, True, "x"), (2, False, "y"), (2, True, "y")]
    assert numbers(found) == [6, 0, 0, 5]


def test_noise_is_drawn_once_a_vector_and_for_groups_without_rows_too() -> None:
    plan = planned(COUNT, moments(cells=16), keys=1, public=(public("a", "b", "c"),))
    sampler = ScriptedSampler([1, -2, 3], [10, 20, 30, 40, 50, 60])
    table = sealed([("b",)], [5], [7], [9])
    found = release(plan, measured(plan, EIGHTS, BELL), table, sampler)
    assert sampler.calls == [("laplace", 20, 3), ("gaussian", 9, 6)]
    assert numbers(found) == [1, 5 * 8 - 2, 3]
    assert numbers(found, 1, 0) == [10, 7 * 4 + 20, 30]
    assert numbers(found, 1, 1) == [40, 9 * 4 + 50, 60]


def test_exact_vectors_draw_nothing() -> None:
    plan = planned(COUNT)
    sampler = ScriptedSampler()
    assert numbers(release(plan, silent(plan), sealed([()], [3]), sampler)) == [3]
    assert sampler.calls == []


def private(
    *measures: Measure, threshold: int, noises: tuple[VectorNoise, ...]
) -> tuple[PlannedRelease, Measurement]:
    plan = planned(*measures, keys=1, private=(0,), selection=0)
    return plan, Measurement(noises, Selection(0, threshold), FREE)


def test_private_keys_show_by_their_noisy_units() -> None:
    plan, measurement = private(PRESENCE, total(), threshold=80, noises=(EIGHTS, EIGHTS))
    keys = [("rare",), ("b",), ("a",), ("edge",)]
    sampler = ScriptedSampler([39, 0, 0, -1], [1, 2, 3, 4])
    found = release(plan, measurement, sealed(keys, [5, 10, 11, 10], [0, 1, 2, 3]), sampler)
    # noisy units 79, 80, 88, 79: kept from 80 on
    assert found.keys == [("a",), ("b",)]
    assert numbers(found, 0) == [88, 80]
    assert numbers(found, 1) == [2 * 8 + 3, 1 * 8 + 2]
    assert [call[2] for call in sampler.calls] == [4, 4]  # for the hidden ones too


def test_no_private_key_at_all_is_an_empty_answer() -> None:
    plan, measurement = private(PRESENCE, total(), threshold=80, noises=(EIGHTS, EIGHTS))
    found = release(plan, measurement, sealed([], [], []), ScriptedSampler())
    assert found.keys == []
    assert numbers(found, 1) == []


def mixed() -> tuple[PlannedRelease, Measurement]:
    space = KeySpace((1,), (("x",), ("y",)))
    plan = planned(
        COUNT, PRESENCE, readouts=None, keys=2, public=(space,), private=(0,), selection=1
    )
    return plan, Measurement((EIGHTS, EIGHTS), Selection(1, 80), FREE)


def test_selected_private_keys_meet_every_public_one() -> None:
    plan, measurement = mixed()
    table = sealed([("a", "y"), ("b", "x"), ("ghost", "x"), ("a", "z")], [3, 4, 5, 6])
    units = sealed([("b",), ("a",), ("empty",)], [9, 20, 30])
    sampler = ScriptedSampler([0, -80, 0], [1, 2, 0, 0])
    found = release(plan, measurement, table, sampler, selection_table=units)
    # b has 72 < 80; a has exactly 80
    assert found.keys == [("a", "x"), ("a", "y"), ("empty", "x"), ("empty", "y")]
    assert numbers(found) == [1, 3 * 8 + 2, 0, 0]
    assert found.vectors[1] == []
    assert sampler.calls == [("laplace", 20, 3), ("laplace", 20, 4)]


def test_a_selection_table_comes_with_mixed_keys_only() -> None:
    plan, measurement = mixed()
    with pytest.raises(InternalError, match="selection table"):
        release(plan, measurement, sealed([], []), ScriptedSampler())
    plan = planned(COUNT)
    with pytest.raises(InternalError, match="selection table"):
        release(
            plan, silent(plan), sealed([()], [1]), ScriptedSampler(), selection_table=sealed([], [])
        )


def test_a_table_with_other_columns_is_a_bug() -> None:
    plan = planned(COUNT)
    with pytest.raises(InternalError, match="other columns"):
        release(plan, silent(plan), sealed([()], [1], [2]), ScriptedSampler())


def test_order_of_the_engine_never_shows() -> None:
    plan = planned(COUNT, keys=2, private=(0, 1), selection=0)
    keys = [(a, b) for a in (3, 1, None, 2) for b in ("ä", "a", None, "Z", "")]
    wanted = [(a, b) for a in (1, 2, 3, None) for b in ("", "Z", "a", "ä", None)]
    for seed in range(5):
        shuffled = shuffle(keys, seed)
        found = release(plan, silent(plan, 0), sealed(shuffled, [5] * len(keys)), ScriptedSampler())
        assert found.keys == wanted


def test_a_total_order_over_every_kind_of_key() -> None:
    nan = float("nan")
    columns = [
        [False, True],
        [-(2**70), -1, 0.5, Decimal("0.7"), 3, nan],
        ["", "A", "a", "é", "😀"],
        [date(1999, 12, 31), date(2000, 1, 1)],
        [datetime(1999, 1, 1, tzinfo=UTC), datetime(2000, 1, 1, tzinfo=UTC)],
        [time(1), time(2)],
        [timedelta(-1), IntervalValue(days=29), IntervalValue(months=1, microseconds=1)],
        [UUID(int=1), UUID(int=2**127)],
    ]
    plan = planned(COUNT, keys=1, private=(0,), selection=0)
    for column in columns:
        for seed in range(4):
            values = [*column, None]
            shuffled = shuffle(values, seed)
            found = release(
                plan,
                silent(plan, 0),
                sealed([(v,) for v in shuffled], [1] * len(values)),
                ScriptedSampler(),
            )
            assert [key[0] for key in found.keys] == values


def test_an_unknown_kind_of_key_is_a_bug() -> None:
    plan = planned(COUNT, keys=1, private=(0,), selection=0)
    with pytest.raises(InternalError, match="can't be a frozenset"):
        release(plan, silent(plan, 0), sealed([(frozenset(),)], [1]), ScriptedSampler())


@pytest.mark.parametrize("threshold", [2**64, 2**200])
def test_thresholds_beyond_int64(threshold: int) -> None:
    plan, measurement = private(PRESENCE, threshold=threshold, noises=(EIGHTS,))
    keys = [("a",), ("b",)]
    for column, wanted in (([1, 2], []), ([1, threshold // 8], [("b",)])):
        assert release(plan, measurement, sealed(keys, column), ScriptedSampler()).keys == wanted


@pytest.mark.parametrize("value", [2**61, -(2**61), 2**63, 2**90, -(2**127)])
def test_totals_of_any_size_stay_exact(value: int) -> None:
    plan = planned(total())
    found = release(plan, measured(plan, EIGHTS), sealed([()], [value]), ScriptedSampler([-3]))
    assert numbers(found) == [value * 8 - 3]


def test_number_type_depends_on_shown_values_only() -> None:
    # the exact value needs Python integers on the way; the noisy one decides what comes out
    plan = planned(total())
    noise = VectorNoise(NoiseKind.LAPLACE, 2**40, 2**40)
    far = ScriptedSampler([-(2**63) + 5])
    big = release(plan, measured(plan, noise), sealed([()], [2**23]), far)
    assert big.vectors[0][0].dtype == np.int64
    assert numbers(big) == [5]
    plan, measurement = private(PRESENCE, total(), threshold=80, noises=(EIGHTS, EIGHTS))
    found = release(
        plan, measurement, sealed([("a",), ("hidden",)], [50, 1], [1, 2**100]), ScriptedSampler()
    )
    assert found.vectors[1][0].dtype == np.int64
    found = release(plan, measurement, sealed([("a",)], [50], [2**58]), ScriptedSampler())
    assert found.vectors[1][0].dtype == object


def test_addition_does_not_overflow_at_the_edge() -> None:
    for exact in (2**63 - 1, -(2**63), 2**62, 0):
        for noise in (2**63 - 1, -(2**63) + 1):
            for lattice in (1, 2, 2**64):
                found = plus(np.array([exact]), lattice, np.array([noise]))
                assert int(found[0]) == lattice * exact + noise


def test_the_answer_carries_its_measurement_and_its_noise() -> None:
    plan = planned(COUNT)
    measurement = measured(plan, VectorNoise(NoiseKind.LAPLACE, 1024, 1024))
    found = release(plan, measurement, sealed([()], [100]), ExactSampler())
    assert found.measurement is measurement
    assert abs(numbers(found)[0] / 1024 - 100) < 60
    assert found != release(plan, measurement, sealed([()], [100]), ExactSampler())
