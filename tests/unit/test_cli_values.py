from __future__ import annotations

import json
import math
from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_sql.cli.values import exact_text, is_numeric_type, json_text, visible, with_interval


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "true"),
        (12345678901234567890, "12345678901234567890"),
        (0.1, "0.1"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (Decimal("1.50"), "1.50"),
        (Decimal("1E+3"), "1000"),
        (date(1998, 6, 30), "1998-06-30"),
        (datetime(1998, 6, 30, 1, 2, 3), "1998-06-30 01:02:03"),  # noqa: DTZ001
        (timedelta(days=1), "1 day, 0:00:00"),
        (b"\x00\xff", "\\x00ff"),
        ([1, None], "[1, NULL]"),
        ({"a": 0.5}, "{a: 0.5}"),
    ],
)
def test_values_keep_every_digit(value: object, text: str) -> None:
    assert exact_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (2**70, str(2**70)),
        (math.nan, '"nan"'),
        (math.inf, '"inf"'),
        (Decimal("1.50"), "1.50"),
        (date(1998, 6, 30), '"1998-06-30"'),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        ('é"\n', '"é\\"\\n"'),
    ],
)
def test_json_is_json(value: object, text: str) -> None:
    assert json_text(value) == text
    json.loads(text)


@pytest.mark.parametrize(
    ("value", "interval", "text"),
    [
        (123, (119.0, 127.0), "123 ± 4"),
        (123, (120.0, 130.0), "123 [120, 130]"),
        (61722, (61693.0, 61752.0), "61722 ± 30"),
        (-3, (-133.0, 127.0), "-3 ± 130"),
        (69712, (69652.0, 69772.0), "69712 ± 60"),
        (5, (4.5, 5.5), "5 ± 1"),  # a count's error is a whole number, rounded up
        (35.893724, (35.393724, 36.393724), "35.89 ± 0.50"),
        (35.893724, (35.3, 40.0), "35.9 [35.3, 40.0]"),
        (0.00012345, (0.00012045, 0.00012645), "0.0001234 ± 0.0000030"),
        (-0.001, (-1.001, 0.999), "0.0 ± 1.0"),
        (12.5, (12.5, 12.5), "12.5"),
        (12.5, (-math.inf, 13.0), "12.5 [-inf, 13.0]"),
        (12.5, (math.nan, 13.0), "12.5"),
        (1e20, (0.9e20, 1.1e20), "1e+20 [9e+19, 1.1e+20]"),
        (12.5, None, "12.5"),
        (None, (0.0, 1.0), "NULL"),
        ("a", (0.0, 1.0), "a"),
        (True, (0.0, 2.0), "true"),
        (Decimal("10.25"), (9.25, 11.25), "10.2 ± 1.0"),
    ],
)
def test_intervals_stand_beside_values(
    value: object, interval: tuple[float, float] | None, text: str
) -> None:
    assert with_interval(value, interval) == text


@given(
    st.one_of(st.integers(-(10**9), 10**9), st.floats(-1e9, 1e9)),
    st.floats(1e-6, 1e6),
    st.floats(1e-6, 1e6),
)
def test_a_shown_interval_is_never_narrower_by_more_than_the_rounded_digit(
    value: float, below: float, above: float
) -> None:
    low, high = value - below, value + above
    text = with_interval(value, (low, high))
    if "±" in text:
        centre, error = (float(part) for part in text.split(" ± "))
        digit = error / 10 if error < 1e3 or isinstance(value, float) else 0.0
        assert centre - error <= low + 0.011 * max(below, above) + digit
        assert centre + error >= high - 0.011 * max(below, above) - digit
    elif "[" in text:
        shown_low, shown_high = (float(end) for end in text.split("[")[1].rstrip("]").split(", "))
        assert shown_low <= low
        assert shown_high >= high


def test_control_characters_are_written_out() -> None:
    assert visible("a\x1b[31mb\nc\u202ed é漢") == "a\\x1b[31mb\\nc\\u202ed é漢"


def test_numbers_are_known_by_their_type() -> None:
    assert all(map(is_numeric_type, ("BIGINT", "DOUBLE", "DECIMAL(12,2)")))
    assert not any(
        map(is_numeric_type, ("VARCHAR", "DATE", "BOOLEAN", "INTEGER[]", "DECIMAL(1)[]"))
    )
