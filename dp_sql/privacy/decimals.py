"""Decimal arithmetic with as many digits as a result calls for."""

from __future__ import annotations

from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_HALF_EVEN,
    Context,
    DivisionByZero,
    InvalidOperation,
    Overflow,
)


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
