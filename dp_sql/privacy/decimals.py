"""Decimal arithmetic with as many digits as a result calls for."""

from __future__ import annotations

from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
)
from fractions import Fraction


def context(precision: int) -> Context:
    """Return a decimal context of so many digits whose exponents don't end before 10^(10^17)."""
    return Context(
        prec=precision,
        rounding=ROUND_HALF_EVEN,
        Emin=MIN_EMIN,
        Emax=MAX_EMAX,
        capitals=1,
        clamp=0,
        flags=[],
        traps=[InvalidOperation, DivisionByZero, Overflow],
    )


def digits_of(number: int) -> int:
    """Return a number of decimal digits that holds `number`."""
    return number.bit_length() * 4 // 13 + 1  # 4/13 is above log10(2)


def decimal_text(number: Fraction) -> str:
    """Return a number as a decimal, exact where 40 digits suffice, else away from 0."""
    away = Context(prec=40, rounding=ROUND_CEILING if number > 0 else ROUND_FLOOR)
    value = away.divide(Decimal(number.numerator), Decimal(number.denominator))
    return format(value.normalize(), "f")
