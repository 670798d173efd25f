"""Released values come back from their bytes as they were; what intervals are drawn from has their law."""

from __future__ import annotations

import math
import zlib
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from dp_sql.errors import InternalError
from dp_sql.mechanisms.distinct import DistinctValues
from dp_sql.mechanisms.measurement import Measurement
from dp_sql.mechanisms.redraws import Redraws
from dp_sql.mechanisms.release import Released
from dp_sql.mechanisms.sampler import Rate
from dp_sql.mechanisms.stored import from_bytes, to_bytes
from dp_sql.plan.expression import IntervalValue
from dp_sql.privacy.cost import FREE

NOTHING = Measurement((), None, FREE)
KEYS = [
    None, True, False, 0, 1, -(2**100), 0.1, -0.0, math.inf, math.nan, "", "a", "\ud800é\x00", "1",
    Decimal("1.50"), Decimal("-0"), date(2026, 1, 31), datetime(2026, 1, 31, 12, 0, 0, 1),  # noqa: DTZ001
    time(23, 59, 59, 999999), timedelta(-3, 5, 7), IntervalValue(1, -2, 3), UUID(int=7),
]  # fmt: skip


def big(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=object)


def small(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int64)


def of(parts: list[Released]) -> list[Measurement]:
    """Return measurements with as many noises, choosers and counters as releases have numbers of them."""
    made: Any = Measurement
    return [made(tuple(p.vectors), None, FREE, tuple(p.chosen), tuple(p.distinct)) for p in parts]


def shown(parts: list[Released]) -> str:
    return repr(
        [
            (
                [[(type(v), str(v), repr(v)) for v in key] for key in part.keys],
                [[(c.dtype, c.tolist()) for c in v] for v in part.vectors],
                [[(c.dtype, c.tolist()) for c in ranks] for ranks in part.chosen],
                [(d.values.dtype, d.values.tolist(), d.lattice, d.scale) for d in part.distinct],
            )
            for part in parts
        ]
    )


@pytest.mark.parametrize(
    "parts",
    [
        [Released([(key,) for key in KEYS], [[small(*range(len(KEYS)))]], NOTHING)],
        [Released([()], [[big(2**200), small(-(2**62))], []], NOTHING), Released([], [], NOTHING)],
        [
            Released(
                [("a", 1), ("b", None)],
                [[small(1, 2)], [big(3, -4), big(0, 0)]],
                NOTHING,
                [[small(7, -1), small(0, 0)]],
                [DistinctValues(big(5, 6), 2**20, 12345)],
            )
        ],
        [Released([], [[small(), big()]], NOTHING, [[small()]], [DistinctValues(big(), 1, 1)])],
    ],
)
def test_what_is_released_comes_back_to_the_last_bit(parts: list[Released]) -> None:
    stored = to_bytes(parts)
    assert shown(from_bytes(stored, of(parts))) == shown(parts)
    assert to_bytes(from_bytes(stored, of(parts))) == stored


@pytest.mark.parametrize(
    "stored",
    [
        b"", b"x", zlib.compress(b""), zlib.compress(b"[1]"), zlib.compress(b"[{}]"), zlib.compress(b"[]"),
        to_bytes([Released([(1,)], [], NOTHING)] * 2),
        zlib.compress(b'[{"keys":[[["path","x"]]],"vectors":[],"chosen":[],"distinct":[]}]'),
        zlib.compress(b'[{"keys":[[["decimal","x"]]],"vectors":[],"chosen":[],"distinct":[]}]'),
        zlib.compress(b'[{"keys":[],"vectors":[[["float64",[1]]]],"chosen":[],"distinct":[]}]'),
        zlib.compress(b"[" * 100_000),
        zlib.compress(b" " * 2**25 + b'[{"keys":[],"vectors":[],"chosen":[],"distinct":[]}]'),
        to_bytes([Released([], [[]], NOTHING)]), to_bytes([Released([], [], NOTHING, [[]])]),
    ],
)  # fmt: skip
def test_other_bytes_are_no_release(stored: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  whatever says it
        from_bytes(stored, [NOTHING])


@pytest.mark.parametrize(
    "numbers", [big(1), big(1, 2, 3), big(1, 2).reshape(1, 2), big(), big(1).reshape(())]
)
def test_numbers_of_other_groups_are_no_release(numbers: np.ndarray[Any, Any]) -> None:
    keys: list[tuple[object, ...]] = [("a",), ("b",)]
    for part in (
        Released(keys, [[big(1, 2), numbers]], NOTHING),
        Released(keys, [], NOTHING, [[numbers]]),
        Released(keys, [], NOTHING, [], [DistinctValues(numbers, 1, 1)]),
    ):
        with pytest.raises(ValueError, match="another measurement"):
            from_bytes(to_bytes([part]), of([part]))


def test_a_key_that_no_release_has_is_refused() -> None:
    with pytest.raises(InternalError):
        to_bytes([Released([(b"x",)], [], NOTHING)])


def redraws(value: int = 1) -> Redraws:
    return Redraws([Released([()], [[small(value)]], NOTHING)])


def test_the_same_values_give_the_same_numbers_and_others_give_others() -> None:
    first = redraws()
    one, two = first.laplace(50, 100), first.laplace(50, 100)
    assert one.tolist() == redraws().laplace(50, 100).tolist() != two.tolist()
    assert one.tolist() != redraws(2).laplace(50, 100).tolist()
    with pytest.raises(InternalError):
        first.choose(small(0).reshape(1, 1), Rate(1, 0))


@pytest.mark.parametrize("scale", [1, 3, 1000, 2**50])
def test_numbers_for_intervals_have_the_law_of_the_noise(scale: int) -> None:
    """The numbers never change, so these bounds of five deviations hold always or never."""
    size = 100_000
    ratio = math.exp(-1 / scale)
    laplace, gaussian = (
        draws.astype(float) / scale
        for draws in (redraws().laplace(scale, size), redraws().gaussian(max(scale, 100), size))
    )
    gaussian *= scale / max(scale, 100)
    variance = 2 * ratio / (1 - ratio) ** 2 / scale**2 if scale < 2**40 else 2.0
    assert abs(laplace.mean()) < 5 * math.sqrt(variance / size)
    assert laplace.var() == pytest.approx(variance, rel=0.05)
    assert abs(gaussian.mean()) < 5 / math.sqrt(size)
    assert gaussian.var() == pytest.approx(1, rel=0.03)
    if scale <= 3:
        zero = (1 - ratio) / (1 + ratio)
        assert np.mean(laplace == 0) == pytest.approx(zero, abs=5 * math.sqrt(zero / size))
    for level, within in ((0.5, math.log(2)), (0.95, math.log(20))):
        if scale >= 1000:
            assert np.mean(np.abs(laplace) <= within) == pytest.approx(level, abs=0.01)
    assert np.mean(np.abs(gaussian) <= 1.959964) == pytest.approx(0.95, abs=0.005)
