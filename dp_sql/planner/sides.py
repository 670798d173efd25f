"""Whether the sides of a join are summed before they meet."""

from __future__ import annotations

from typing import assert_never

from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.relation import (
    MOST_ROWS,
    CountMeasure,
    MeasureRows,
    MomentMeasure,
    PresenceMeasure,
    SumMeasure,
)
from dp_sql.plan.vector import NormMeasure
from dp_sql.sensitivity.sides import sides_of

_Scaled = CountMeasure | SumMeasure | MomentMeasure | PairMeasure | PresenceMeasure
_HUGE = 2**127 - 1


def partners_of(measured: MeasureRows, max_rows: int, bits: tuple[int, ...]) -> int | None:
    """Return how many rows of a join's other side are told apart; None to sum the pairs themselves.

    max_rows: of a unit in a group. bits: the low bits that each measure carries through the division.

    Claim:   with n rows of the other side, n and min(n, partners) give the same bounded components,
             and no integer operation overflows.
    Why:     every sum over pairs is n times a sum s over rows of the measured side. Bounded, a count
             or a sum other than 0 lies at its end from `partners` on, where it is at least that end;
             a moment vector is s * max_rows / c for c * n > max_rows, whatever n is. The largest
             intermediate result of either is computed here from 2^45 rows.
    Assumes: no database has more rows than that.
    """
    measures = [m for m in measured.measures if not isinstance(m, NormMeasure)]
    if sides_of(measured) is None or len(measures) < len(measured.measures):
        return None  # the squares of a vector's sums would need more room
    partners = 1 + max([max_rows, *(_end(m, max_rows) for m in measures)])
    largest = max(
        (_largest(m, max_rows, b) for m, b in zip(measures, bits, strict=True)), default=1
    )
    return partners if largest * partners * MOST_ROWS <= _HUGE else None


def _end(measure: _Scaled, max_rows: int) -> int:
    """Return the largest amount at which one unit's component in a group is bounded."""
    match measure:
        case CountMeasure(per_unit=ends):
            return max(map(abs, ends)) if ends is not None else max_rows
        case SumMeasure(ends=ends, per_unit=per_unit):
            return max(map(abs, per_unit or ends)) * (1 if per_unit else max_rows)
        case MomentMeasure() | PairMeasure() | PresenceMeasure():
            return max_rows
        case _:
            assert_never(measure)


def _largest(measure: _Scaled, max_rows: int, bits: int) -> int:
    """Return what one row adds at most to an intermediate result of a measure."""
    match measure:
        case CountMeasure() | PresenceMeasure():
            return 1
        case SumMeasure(ends=ends):
            return max(map(abs, ends), default=0)
        case MomentMeasure(rows=rows):
            return 4 * max([measure.total, *map(abs, rows or ())]) * max_rows << bits
        case PairMeasure():
            return 16 * measure.total * max_rows << bits
        case _:
            assert_never(measure)
