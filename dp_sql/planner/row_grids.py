"""Grids for floating sums over one owner's rows, so that they are exact in every order."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import assert_never

from dp_sql.errors import NotPrivateError, Position, UnsupportedSQLError
from dp_sql.plan import functions
from dp_sql.plan.domain import Domain
from dp_sql.plan.domains import domain_of
from dp_sql.plan.expression import Expression, Literal
from dp_sql.plan.printer import expression_text
from dp_sql.plan.row_aggregates import SHAPES, moment_of, needs_grid
from dp_sql.plan.rows import (
    Filter,
    Grid,
    GroupRows,
    Join,
    Mark,
    Project,
    RowAggregate,
    RowAggregateKind,
    Rows,
    Scan,
    SetRows,
    StageScan,
    WindowFunction,
    WindowRows,
)
from dp_sql.planner.lineage import column_domains
from dp_sql.schema.catalog import Catalog
from dp_sql.schema.sqltype import DOUBLE

_SUM_STEPS = 2**62  # between 0 and the larger bound: a step fits a BIGINT, 2^45 of them a HUGEINT
_MOMENT_STEPS = 2**30  # either side of the middle; the square fits a BIGINT
_LARGEST = Fraction(10**150)  # half the range of an argument: its square fits a DOUBLE
_SHAPE_STEPS = 2**19  # likewise; of fourth powers, 2^45 rows fit a HUGEINT


def with_grids(rows: Rows, catalog: Catalog, limit: int) -> Rows:
    """Return the relation with a grid for every sum and moment of floats in it.

    Raises NotPrivateError for an argument without bounds: its sum would depend on the order of rows.
    """

    def again(source: Rows) -> Rows:
        return with_grids(source, catalog, limit)

    match rows:
        case Scan() | StageScan():
            return rows
        case Filter(source=source) | Project(source=source):
            return replace(rows, source=again(source))
        case Join() | Mark() | SetRows():
            return replace(rows, left=again(rows.left), right=again(rows.right))
        case GroupRows(source=source, aggregates=aggregates):
            if any(needs_grid(a.kind, a.argument) for a in aggregates):
                below = column_domains(source, catalog, limit)
                aggregates = tuple(gridded(a, below) for a in aggregates)
            return replace(rows, source=again(source), aggregates=aggregates)
        case WindowRows(source=source, functions=listed):
            if any(_is_float_sum(f) or moment_of(f) is not None for f in listed):
                below = column_domains(source, catalog, limit)
                listed = tuple(_window_gridded(f, below) for f in listed)
            return replace(rows, source=again(source), functions=listed)
        case _:
            assert_never(rows)


def _is_float_sum(function: WindowFunction) -> bool:
    return function.name in ("sum", "avg") and function.arguments[0].type.is_float


def _window_gridded(function: WindowFunction, columns: Mapping[int, Domain]) -> WindowFunction:
    if _is_float_sum(function):
        grid = _sum_grid(function.arguments[0], columns, function.place)
        return replace(function, grid=grid)
    if moment_of(function) is None:
        return function
    centred, grid = _centred(function.arguments[0], columns, function.place)
    return replace(function, arguments=(centred,), grid=grid)


def gridded(
    aggregate: RowAggregate, columns: Mapping[int, Domain], whose: str = "one person's"
) -> RowAggregate:
    """Return the aggregate with its grid, if it needs one. columns: domains of those it reads.

    Raises NotPrivateError where it needs a grid and its argument has no bounds. whose: the rows that
    it is over, for the message.
    """
    argument, kind = aggregate.argument, aggregate.kind
    if argument is None or not needs_grid(kind, argument):
        return aggregate
    place = aggregate.place
    if kind in (RowAggregateKind.SUM, RowAggregateKind.AVG):
        return replace(aggregate, grid=_sum_grid(argument, columns, place, whose))
    steps = _SHAPE_STEPS if kind in SHAPES else _MOMENT_STEPS
    centred, grid = _centred(argument, columns, place, whose, steps)
    if aggregate.second is None:
        return replace(aggregate, argument=centred, grid=grid)
    second, other = _centred(aggregate.second, columns, place, whose)
    return replace(aggregate, argument=centred, grid=grid, second=second, second_grid=other)


def _centred(
    argument: Expression,
    columns: Mapping[int, Domain],
    place: tuple[str, Position] | None,
    whose: str = "one person's",
    steps: int = _MOMENT_STEPS,
) -> tuple[Expression, Grid]:
    """Return the distance from the middle of the bounds, which moments don't depend on, and its grid."""
    low, high = _ends(argument, columns, place, whose)
    far = max(abs(low), abs(high)) > sys.float_info.max
    middle = 0.0 if far else float((low + high) / 2)
    half = max(high - Fraction(middle), Fraction(middle) - low)
    if half > _LARGEST:
        text, position = (None, None) if place is None else place
        raise UnsupportedSQLError(
            f"the bounds of {expression_text(argument)} are too far apart: squares of its values would "
            "pass the range of DOUBLE.",
            hint=f"CLAMP({expression_text(argument)}, -1e100, 1e100), or the values in another unit",
            text=text,
            position=position,
        )
    centred = functions.call("-", (argument, Literal(middle, DOUBLE)))
    return centred, Grid(-half, half, _step(half, steps))


def _sum_grid(
    argument: Expression,
    columns: Mapping[int, Domain],
    place: tuple[str, Position] | None,
    whose: str = "one person's",
) -> Grid:
    low, high = _outward(*_ends(argument, columns, place, whose))
    return Grid(low, high, _step(max(abs(low), abs(high)), _SUM_STEPS))


def _outward(low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    """Return the nearest DOUBLEs around a range, so that some DOUBLE lies in it: a grid has one then."""
    if max(abs(low), abs(high)) > sys.float_info.max:
        return low, high
    first, last = float(low), float(high)
    first = math.nextafter(first, -math.inf) if first > low else first
    last = math.nextafter(last, math.inf) if last < high else last
    ends = (first, last)
    return (Fraction(first), Fraction(last)) if all(map(math.isfinite, ends)) else (low, high)


def _ends(
    argument: Expression,
    columns: Mapping[int, Domain],
    place: tuple[str, Position] | None,
    whose: str,
) -> tuple[Fraction, Fraction]:
    domain = domain_of(argument, columns)
    if domain.low is not None and domain.high is not None:
        return domain.low, domain.high
    text, position = (None, None) if place is None else place
    what = expression_text(argument)
    raise NotPrivateError(
        f"{what} has no bounds: a floating sum over {whose} rows is made exact on a grid "
        "between bounds.",
        hint=f"declare bounds for its columns, or write CLAMP({what}, low, high)",
        text=text,
        position=position,
    )


def _step(most: Fraction, steps: int) -> Fraction:
    """Return the smallest power of two of which at most `steps` lie between 0 and `most`."""
    if most == 0:
        return Fraction(1)
    ratio = most / steps
    exponent = ratio.numerator.bit_length() - ratio.denominator.bit_length()
    step = Fraction(2) ** exponent
    while step * steps < most:
        step *= 2
    return step
