"""Lowers measures of two arguments: few sums of powers in one pass over the rows, then algebra."""

from __future__ import annotations

from math import comb

from dp_sql.plan.pair import Axis, PairMeasure
from dp_sql.plan.relation import MOST_ROWS

_FITS = 2**63 - 1
_HUGE = 2**127 - 1


def powers(measure: PairMeasure, first: str, second: str) -> tuple[str, ...]:
    """Return the products of powers of both places, each NULL where either is, without the power 0.

    Of two axes of degree 0 it is the first place, for its count.
    first, second: the columns of the places. In the order of (i, j) for a^i b^j, j running faster.

    Claim:   no product overflows.
    Why:     a^i b^j <= K^d L^e = total, which fits a BIGINT, or else the factors are HUGEINT.
    Assumes: 0 <= a <= K and 0 <= b <= L.
    """
    if measure.total > _FITS:
        first, second = (f"CAST({text} AS HUGEINT)" for text in (first, second))
    known = {
        (1, 0): f"CASE WHEN {second} IS NOT NULL THEN {first} END",
        (0, 1): f"CASE WHEN {first} IS NOT NULL THEN {second} END",
    }
    one, two = measure.axes
    found = []
    for i in range(one.degree + 1):
        for j in range(two.degree + 1):
            if i and j:
                found.append(" * ".join([first] * i + [second] * j))
            elif i + j == 1:
                found.append(known[i, j])
            elif i:
                found.append(f"({known[1, 0]}) * {first}")
            elif j:
                found.append(f"({known[0, 1]}) * {second}")
    return tuple(found) or (known[1, 0],)


def pair_components(measure: PairMeasure, names: tuple[str, ...], rows: str | None) -> list[str]:
    """Return the sums of a measure's components over rows.

    names: of the sums of `powers`, each with the fields `count` and `value`. rows: of the number of
    all rows, for the component of NULLs.

    Claim:   these are the sums of plan.pair's components, exactly, and no step overflows.
    Why:     the polynomial i of degree d over K cells is the sum over k of
             C(d, i) C(d - i, k - i) (-1)^(k - i) K^(d - k) a^k, so a product of two is a sum over
             (k, l) of constants times a^k b^l, and their sums over rows are those of `powers`; over
             a^0 b^0 it is the number of rows with both values. For n rows the terms are at most 4 K^d
             of one axis in all, 16 `total` n of both, which `pair_holds` keeps in a HUGEINT.
    Assumes: fewer than 2^45 rows; all are those of `powers`.
    Source:  [Bernstein1912]
    """
    one, two = measure.axes
    width = two.degree + 1
    count = f"{names[0]}.count"
    sums = [f"CAST({count} AS HUGEINT)", *(f"{name}.value" for name in names)]
    parts = []
    for first in _polynomials(one):
        for second in _polynomials(two):
            terms = [
                sums[k * width + m] if a * b == 1 else f"{sums[k * width + m]} * {_big(a * b)}"
                for k, a in enumerate(first)
                for m, b in enumerate(second)
                if a * b
            ]
            parts.append(f"({' + '.join(terms)})")
    if rows is not None:
        parts.append(f"(({rows} - {count}) * {_big(measure.total)})")
    return parts


def pair_holds(measure: PairMeasure) -> bool:
    """Return whether every intermediate result of `pair_components` fits a HUGEINT."""
    return 16 * measure.total * MOST_ROWS <= _HUGE


def _polynomials(axis: Axis) -> list[list[int]]:
    """Return the Bernstein polynomials of an axis, each as the factors of the powers of a."""
    d, cells = axis.degree, axis.cells
    return [
        [
            comb(d, i) * comb(d - i, k - i) * (-1) ** (k - i) * cells ** (d - k) if k >= i else 0
            for k in range(d + 1)
        ]
        for i in range(d + 1)
    ]


def _big(number: int) -> str:
    return f"CAST({number} AS HUGEINT)"
