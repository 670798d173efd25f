"""Exact amounts of privacy loss: epsilon and delta as fractions, never through a binary float."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from numbers import Real

from dp_sql.errors import ParameterError

Amount = str | int | float | Decimal | Fraction
"""Any real number; numpy's are taken too, which are such numbers by their registration alone."""

_PLAIN = re.compile(r"[+-]?(\d{1,60}(\.\d{0,60})?|\.\d{1,60})([eE][+-]?\d{1,3})?", re.ASCII)


def exact(value: Amount, *, name: str) -> Fraction:
    """Return `value` as an exact fraction; a float is read through its shortest decimal form.

    0.1 is one tenth, and so is numpy.float32(0.1). Raises ParameterError for booleans, NaN,
    infinities and for text that is not a plain decimal number.
    """
    if isinstance(value, bool) or not isinstance(value, str | Decimal | Real):
        raise ParameterError(
            f"{name} must be a number, not {type(value).__name__}.", hint=f"{name}=0.5"
        )
    if isinstance(value, Fraction):
        return value
    text = _text(value)
    if not _PLAIN.fullmatch(text):
        shown = text if len(text) <= 40 else text[:37] + "…"
        raise ParameterError(
            f"{name} must be a finite decimal number, not {shown!r}.", hint=f"{name}=0.5"
        )
    return Fraction(Decimal(text))


def _text(value: str | Decimal | Real) -> str:
    """Return the number as people write it; a float, also numpy's, in its shortest form."""
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, int) and value.bit_length() > 200:
        return hex(value)  # beyond the 60 digits that are read, perhaps beyond what str() writes
    return str(value).strip()


def parse_epsilon(value: Amount, *, name: str = "epsilon") -> Fraction:
    """Return an exact epsilon above zero, or raise ParameterError."""
    epsilon = exact(value, name=name)
    if epsilon <= 0:
        raise ParameterError(f"{name} must be above zero.", hint=f"{name}=0.5")
    return epsilon


def parse_delta(value: Amount, *, name: str = "delta") -> Fraction:
    """Return an exact delta in [0, 1), or raise ParameterError."""
    delta = exact(value, name=name)
    if not 0 <= delta < 1:
        raise ParameterError(f"{name} must be at least 0 and below 1.", hint=f"{name}=1e-9")
    return delta


def show(amount: Fraction) -> str:
    """Return `amount` as a short decimal for people: six significant digits, no trailing zeros."""
    return _shown(amount, ROUND_HALF_EVEN)


def show_down(amount: Fraction) -> str:
    """Return `amount` as `show` does, never above it: for what is left."""
    return _shown(amount, ROUND_FLOOR)


def show_up(amount: Fraction) -> str:
    """Return `amount` as `show` does, never below it: for what is asked or spent."""
    return _shown(amount, ROUND_CEILING)


def _shown(amount: Fraction, rounding: str) -> str:
    context = Context(prec=6, rounding=rounding)
    short = context.divide(Decimal(amount.numerator), Decimal(amount.denominator))
    if short and not -300 < short.adjusted() < 300:
        return f"{context.normalize(short):e}"  # no float holds it
    return f"{float(short):.6g}"
