from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import pytest

from dp_sql.mechanisms.normal import (
    log_of,
    log_upper_tail,
    mills,
    mills_slope,
    upper_quantile,
)

PLACES = [-30.0, -8.0, -1.0, -1e-9, 0.0, 0.3, 2.0, 9.5, 24.999, 25.0, 25.001, 40.0, 300.0]


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mpmath.workdps(60):
        yield


def tail(x: float) -> mpmath.mpf:
    return mpmath.erfc(mpmath.mpf(x) / mpmath.sqrt(2)) / 2


def true_mills(x: float) -> mpmath.mpf:
    return tail(x) / mpmath.npdf(mpmath.mpf(x))


@pytest.mark.parametrize("x", PLACES)
def test_upper_tail_and_mills_ratio(x: float) -> None:
    assert log_upper_tail(x) == pytest.approx(float(mpmath.log(tail(x))), rel=1e-12, abs=1e-15)
    assert mills(x) == pytest.approx(float(true_mills(x)), rel=1e-12)
    assert mills_slope(x) == pytest.approx(float(1 - x * true_mills(x)), rel=1e-10)


@pytest.mark.parametrize("log_tail", [-1e-9, math.log(0.5), -1.0, -5.0, -20.7, -69.0, -690.0, -1e5])
def test_quantile_is_rounded_up_by_little(log_tail: float) -> None:
    z = upper_quantile(log_tail)
    assert z >= 0
    assert mpmath.log(tail(z)) <= log_tail
    if z > 0:
        assert mpmath.log(tail(z * (1 - 1e-8))) > log_tail


def test_logarithm_of_fractions_beyond_floats() -> None:
    assert log_of(Fraction(1, 10**400)) == pytest.approx(-400 * math.log(10))
    assert log_of(Fraction(3, 4)) == pytest.approx(math.log(0.75))
