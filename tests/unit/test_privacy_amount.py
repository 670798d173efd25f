from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dp_sql.errors import ParameterError
from dp_sql.privacy.amount import exact, parse_delta, parse_epsilon, show, show_down, show_up


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (0.1, Fraction(1, 10)),
        (1e-9, Fraction(1, 10**9)),
        (3, Fraction(3)),
        ("0.1", Fraction(1, 10)),
        (" .5 ", Fraction(1, 2)),
        ("1.", Fraction(1)),
        ("+1e-3", Fraction(1, 1000)),
        ("1E2", Fraction(100)),
        (Decimal("0.30"), Fraction(3, 10)),
        (Fraction(1, 3), Fraction(1, 3)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.float16(0.5), Fraction(1, 2)),
        (np.int64(3), Fraction(3)),
        (np.uint8(7), Fraction(7)),
        (10**59, Fraction(10**59)),
        (-2, Fraction(-2)),
    ],
)
def test_plain_numbers_are_read_exactly(value: Any, amount: Fraction) -> None:
    assert exact(value, name="epsilon") == amount


def test_tenths_add_up_to_one() -> None:
    assert sum(exact(0.1, name="epsilon") for _ in range(10)) == 1


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        None,
        float("nan"),
        float("inf"),
        -float("inf"),
        "nan",
        "inf",
        "-Infinity",
        "1_0",
        "1e4000",
        "0x1p3",
        "",
        " ",
        ".",
        "1/2",
        "1,5",
        "\u0661",
        "1 2",
        "1e",
        "--1",
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("Infinity"),
        1 + 0j,
        b"1",
        [1],
        10**100,
        np.float32("nan"),
        np.float64("inf"),
        np.complex128(1),
        np.array([1.0]),
        np.True_,
    ],
)
def test_everything_else_is_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match="epsilon must be"):
        exact(value, name="epsilon")


def test_an_integer_that_python_would_not_write_is_refused_all_the_same() -> None:
    with pytest.raises(ParameterError, match="epsilon must be"):
        exact(-(10**5000), name="epsilon")


@pytest.mark.parametrize("value", [0, -1, "-0.1", "0.0", -0.0])
def test_epsilon_is_above_zero(value: Any) -> None:
    with pytest.raises(ParameterError, match="above zero"):
        parse_epsilon(value)


@pytest.mark.parametrize("value", [1, "1.0", 2, -1e-9, "1e3"])
def test_delta_is_below_one_and_not_negative(value: Any) -> None:
    with pytest.raises(ParameterError, match="at least 0 and below 1"):
        parse_delta(value)


def test_delta_may_be_zero_and_epsilon_keeps_its_name() -> None:
    assert parse_delta(0) == 0
    with pytest.raises(ParameterError, match=r"max_epsilon must be above zero"):
        parse_epsilon(0, name="max_epsilon")


def test_a_long_wrong_text_is_cut_in_the_message() -> None:
    with pytest.raises(ParameterError) as caught:
        exact("x" * 1000, name="epsilon")
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("amount", "down", "up"),
    [
        (Fraction(1, 3), "0.333333", "0.333334"),
        (Fraction(1, 5), "0.2", "0.2"),
        (Fraction(0), "0", "0"),
        (Fraction(100), "100", "100"),
        (Fraction(1, 10**9), "1e-09", "1e-09"),
        (Fraction(2, 3 * 10**9), "6.66666e-10", "6.66667e-10"),
        (Fraction(10**20), "1e+20", "1e+20"),
        (Fraction(1, 3 * 10**400), "3.33333e-401", "3.33334e-401"),
        (Fraction(10**400), "1e+400", "1e+400"),
    ],
)
def test_what_is_left_is_shown_rounded_down_and_what_is_asked_rounded_up(
    amount: Fraction, down: str, up: str
) -> None:
    assert show_down(amount) == down
    assert show_up(amount) == up
    assert Fraction(down) <= amount <= Fraction(up)


def test_show_rounds_to_six_digits() -> None:
    assert show(Fraction(1, 3)) == "0.333333"
    assert show(Fraction(2, 3)) == "0.666667"
    assert show(Fraction(10**400)) == "1e+400"
