"""The sums of a measure's components, from few accumulators: one pass over the rows, then algebra."""

from __future__ import annotations

from typing import assert_never

from dp_sql.plan.relation import (
    CountMeasure,
    Measure,
    MomentMeasure,
    PresenceMeasure,
    SumMeasure,
)

_ROWS = 2**45  # more rows than any database holds
_FITS = 2**63 - 1
_HUGE = 2**127 - 1


def accumulators(measure: Measure, place: str) -> tuple[str, ...]:
    """Return the aggregates that a measure's components are computed from.

    place: the column of the row's integer (`lower_measure.grid`), NULL where a row gives nothing.
    """
    match measure:
        case CountMeasure(argument=None) | PresenceMeasure(argument=None):
            return ("count(*)",)
        case CountMeasure() | PresenceMeasure():
            return (f"count({place})",)
        case SumMeasure():
            return (f"coalesce(sum({place}), 0)",)
        case MomentMeasure(cells=cells, degree=degree, null_component=null_component):
            known = [f"count({place})", f"coalesce(sum({place}), 0)"]
            if degree == 2:
                square = place if cells**2 <= _FITS else f"CAST({place} AS HUGEINT)"
                known.append(f"coalesce(sum({square} * {square}), 0)")
            return (*known, *(("count(*)",) if null_component else ()))
        case _:
            assert_never(measure)


def components(measure: Measure, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sums of a measure's components over rows, from the names of its accumulators.

    Claim:   these are the sums of plan.relation's components, exactly.
    Why:     over n rows with a value a, s = sum a and q = sum a^2: sum (K - a) = K n - s,
             sum (K - a)^2 = K^2 n - 2 K s + q, sum 2a(K - a) = 2 (K s - q); and r - n rows of r
             have no value. All are integers below 2^127 for fewer than 2^45 rows.
    Assumes: sums of BIGINT are exact HUGEINT.  Source: [Bernstein1912]
    """
    match measure:
        case CountMeasure() | PresenceMeasure() | SumMeasure():
            return names
        case MomentMeasure(cells=cells, degree=degree, null_component=null_component):
            n, s = names[:2]
            if degree == 1:
                parts = [f"({n} * {_big(cells)} - {s})", s]
            else:
                q = names[2]
                parts = [
                    f"({n} * {_big(cells**2)} - {s} * {_big(2 * cells)} + {q})",
                    f"({s} * {_big(2 * cells)} - 2 * {q})",
                    q,
                ]
            if null_component:
                parts.append(f"(({names[-1]} - {n}) * {_big(measure.total)})")
            return tuple(parts)
        case _:
            assert_never(measure)


def _big(number: int) -> str:
    return f"CAST({number} AS HUGEINT)"


def holds(measure: Measure) -> bool:
    """Return whether every intermediate result of `components` fits a HUGEINT."""
    return not isinstance(measure, MomentMeasure) or 4 * measure.total * _ROWS <= _HUGE
