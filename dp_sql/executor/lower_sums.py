"""The sums of a measure's components, from few accumulators: one pass over the rows, then algebra."""

from __future__ import annotations

from typing import assert_never

from dp_sql.executor.lower_pair import pair_components, pair_holds, powers
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.relation import (
    MOST_ROWS,
    CountMeasure,
    Measure,
    MomentMeasure,
    PresenceMeasure,
    SumMeasure,
)
from dp_sql.plan.vector import NormMeasure

ROW_COUNT = "count(*)"
_FITS = 2**63 - 1
_HUGE = 2**127 - 1
_STATE = "EXPORT_STATE AS STRUCT(count BIGINT, value HUGEINT))"


def accumulators(measure: Measure, place: str, second: str = "") -> tuple[str, ...]:
    """Return the aggregates that a measure's components are computed from.

    place: the column of the row's integer (`lower_measure.grids`), NULL where a row gives nothing.
    second: that of the second integer, for a measure of two arguments.
    """
    match measure:
        case CountMeasure(argument=None) | PresenceMeasure(argument=None):
            return (ROW_COUNT,)
        case CountMeasure() | PresenceMeasure():
            return (f"count({place})",)
        case SumMeasure():
            return (_total(place),)
        case NormMeasure(size=size):
            return tuple(_total(f"{place}_{k}") for k in range(size))
        case MomentMeasure(cells=cells, degree=degree, null_component=null_component):
            totals = [_total(place)]
            if degree == 2:
                square = place if cells**2 <= _FITS else f"CAST({place} AS HUGEINT)"
                totals.append(_total(f"{square} * {square}"))
            return (*totals, *((ROW_COUNT,) if null_component else ()))
        case PairMeasure(null_component=null_component):
            totals = [_total(text) for text in powers(measure, place, second)]
            return (*totals, *((ROW_COUNT,) if null_component else ()))
        case _:
            assert_never(measure)


def _total(text: str) -> str:
    """Return the aggregate that counts integers (its field `count`) and adds them up (`value`).

    Claim:   both fields are exact, NULLs apart, and 0 over nothing; no float is made of them.
    Why:     they are what DuckDB's avg keeps of integers until it divides, and here nothing divides.
             The sum of BIGINT or HUGEINT is a HUGEINT, which 2^45 integers of the grids don't fill.
    Assumes: the two fields of avg's state, of DuckDB's versions that are allowed (a test compares
             them with Python's sums of extreme integers, on one thread and on several).
    Source:  [DuckDB2025]

    It is one aggregate for two numbers. And where a statement has two of COUNT, SUM, MIN and MAX,
    DuckDB sorts the rows of every vector by group first, which costs more than all the rest.
    """
    return f"CAST(avg({text}) {_STATE}"


def times(aggregate: str, named: str, factor: str) -> str:
    """Return an accumulator as many times, from the name under which it is read."""
    if not aggregate.endswith(_STATE):
        return f"{named} * {factor}"
    return f"struct_pack(count := {named}.count * {factor}, value := {named}.value * {factor})"


def components(measure: Measure, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sums of a measure's components over rows, from the names of its accumulators.

    Claim:   these are the sums of plan.relation's components, exactly.
    Why:     over n rows with a value a, s = sum a and q = sum a^2: sum (K - a) = K n - s,
             sum (K - a)^2 = K^2 n - 2 K s + q, sum 2a(K - a) = 2 (K s - q); and r - n rows of r
             have no value. With `rows`, s is clamped to [0, K n] first. All are integers below
             2^127 for fewer than 2^45 rows.
    Assumes: with `rows`, the rows are those of one unit and group.
    Source:  [Bernstein1912]
    """
    match measure:
        case CountMeasure() | PresenceMeasure():
            return names
        case SumMeasure():
            return (f"{names[0]}.value",)
        case NormMeasure():
            return tuple(f"{found}.value" for found in names)
        case MomentMeasure(cells=cells, degree=degree, null_component=null_component):
            n, s = f"{names[0]}.count", f"{names[0]}.value"
            if measure.rows is not None:
                s = f"greatest({_big(0)}, least({n} * {_big(cells)}, {s}))"
            if degree == 0:
                parts = [n]
            elif degree == 1:
                parts = [f"({n} * {_big(cells)} - {s})", s]
            else:
                q = f"{names[1]}.value"
                parts = [
                    f"({n} * {_big(cells**2)} - {s} * {_big(2 * cells)} + {q})",
                    f"({s} * {_big(2 * cells)} - 2 * {q})",
                    q,
                ]
            if null_component:
                parts.append(f"(({names[-1]} - {n}) * {_big(measure.total)})")
            return tuple(parts)
        case PairMeasure(null_component=null_component):
            return tuple(pair_components(measure, names, names[-1] if null_component else None))
        case _:
            assert_never(measure)


def _big(number: int) -> str:
    return f"CAST({number} AS HUGEINT)"


def holds(measure: Measure) -> bool:
    """Return whether every intermediate result of `components` fits a HUGEINT."""
    if isinstance(measure, PairMeasure):
        return pair_holds(measure)
    if not isinstance(measure, MomentMeasure):
        return True
    places = max(map(abs, measure.rows or (0, 0)))
    return 4 * max(measure.total, places) * MOST_ROWS <= _HUGE
