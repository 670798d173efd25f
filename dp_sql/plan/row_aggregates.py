"""Aggregates and windows over one owner's rows: their types, and the interval of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import isqrt

from dp_sql.plan import intervals
from dp_sql.plan.conversion import step_of
from dp_sql.plan.domain import BOOLEANS, UNKNOWN, Domain
from dp_sql.plan.domains import domain_of
from dp_sql.plan.expression import Cast, Expression
from dp_sql.plan.rows import RowAggregate, RowAggregateKind, WindowFunction
from dp_sql.plan.signature import TypeProblem
from dp_sql.schema.sqltype import BIGINT, BOOLEAN, DOUBLE, HUGEINT, Kind, SqlType

_Kind = RowAggregateKind
_MOMENTS = (_Kind.VAR_POP, _Kind.VAR_SAMP, _Kind.STDDEV_POP, _Kind.STDDEV_SAMP)
SHAPES = (_Kind.SKEWNESS, _Kind.KURTOSIS, _Kind.KURTOSIS_POP)
"""The aggregates of third and fourth moments."""
_MOMENT_WINDOWS = {kind.value.lower(): kind for kind in _MOMENTS}
_ONE_OF = (
    _Kind.MIN,
    _Kind.MAX,
    _Kind.QUANTILE_DISC,
    _Kind.ARG_MIN,
    _Kind.ARG_MAX,
    _Kind.MODE,
    _Kind.FIRST,
    _Kind.LAST,
    _Kind.ELEMENT,
)  # fmt: skip  kinds that give one of the values
_OF_DISTINCT = (_Kind.SUM_DISTINCT, _Kind.AVG_DISTINCT)
_SUMS = (_Kind.SUM, _Kind.AVG, *_OF_DISTINCT)
_DIGITS = 24  # of decimals whose sum over 2^45 rows still fits DECIMAL(38)
ORDERED = (Kind.DATE, Kind.TIMESTAMP, Kind.TIME, Kind.VARCHAR, Kind.BOOLEAN)


def needs_grid(kind: RowAggregateKind, argument: Expression | None) -> bool:
    """Return whether an aggregate is over steps of a grid, so that its argument needs bounds."""
    if argument is None:
        return False
    return kind in (*_MOMENTS, *SHAPES, _Kind.COVAR_POP) or (
        kind in (_Kind.SUM, _Kind.AVG) and argument.type.is_float
    )


def typed(kind: RowAggregateKind, argument: Expression | None) -> tuple[Expression | None, SqlType]:
    """Return an aggregate's argument as it is computed with, and its result's type.

    Claim:   no sum overflows: of 2^45 rows at most, whole numbers of 64 bits and decimals of 24
             digits add up to less than 2^127 and 10^38.
    Why:     larger whole numbers and decimals are cast first; what doesn't fit is NULL.
    Assumes: one owner has at most 2^45 rows.

    Raises:
        TypeProblem: for an argument that the aggregate doesn't take.
    """
    if argument is None:
        return None, BIGINT
    type_ = argument.type
    match kind:
        case _Kind.COUNT | _Kind.COUNT_DISTINCT:
            return argument, BIGINT
        case _Kind.BOOL_AND | _Kind.BOOL_OR:
            if type_.kind is not Kind.BOOLEAN:
                raise TypeProblem(f"{kind.value} takes conditions, not {type_}")
            return argument, BOOLEAN
        case _ if kind in _ONE_OF:
            if not type_.is_numeric and type_.kind not in ORDERED:
                raise TypeProblem(f"{kind.value} isn't answered for {type_}")
            return argument, type_
        case _:
            return _number(kind, argument, type_)


def _number(
    kind: RowAggregateKind, argument: Expression, type_: SqlType
) -> tuple[Expression, SqlType]:
    if type_.kind is Kind.BOOLEAN and kind in _SUMS:
        argument, type_ = Cast(argument, BIGINT), BIGINT
    if not type_.is_numeric:
        raise TypeProblem(f"{kind.value} takes numbers, not {type_}")
    if kind not in _SUMS:
        return Cast(argument, DOUBLE) if type_ != DOUBLE else argument, DOUBLE
    if type_.is_float:
        if kind in _OF_DISTINCT:
            raise TypeProblem(f"{kind.value[:3]}(DISTINCT …) takes whole numbers or decimals")
        return argument, DOUBLE
    if type_.kind is Kind.HUGEINT:
        argument, result = Cast(argument, BIGINT), HUGEINT
    elif type_.kind is Kind.DECIMAL:
        if type_.precision > _DIGITS:
            narrow = SqlType(Kind.DECIMAL, _DIGITS, min(type_.scale, _DIGITS))
            argument = Cast(argument, narrow)
        result = SqlType(Kind.DECIMAL, 38, argument.type.scale)
    else:
        result = HUGEINT
    return argument, DOUBLE if kind in (_Kind.AVG, _Kind.AVG_DISTINCT) else result


def aggregate_domain(
    aggregate: RowAggregate, columns: Mapping[int, Domain], limit: int | None
) -> Domain:
    """Return the interval of an aggregate over up to `limit` rows of one owner; None for any number.

    columns: domains of the columns below. The result is a claim about the declared data: what is
    released is clamped to it.
    """
    one = Fraction(1)
    if aggregate.kind.value.startswith("COUNT"):
        return Domain(Fraction(0), None if limit is None else Fraction(limit), one)
    if aggregate.argument is None:
        return UNKNOWN
    inner = domain_of(aggregate.argument, columns)
    match aggregate.kind:
        case _Kind.BOOL_AND | _Kind.BOOL_OR:
            return BOOLEANS
        case kind if kind in _ONE_OF:
            return inner
        case _Kind.COVAR_POP if aggregate.second is not None:
            return _together(inner, domain_of(aggregate.second, columns))
        case _Kind.MAD:
            if inner.low is None or inner.high is None:
                return UNKNOWN
            return Domain(Fraction(0), inner.high - inner.low)
        case kind if kind in SHAPES:
            return UNKNOWN
        case _Kind.AVG | _Kind.AVG_DISTINCT | _Kind.MEDIAN | _Kind.QUANTILE_CONT:
            return Domain(inner.low, inner.high)
        case _Kind.SUM | _Kind.SUM_DISTINCT:
            low = _times(min, inner.low, limit)
            return Domain(low, _times(max, inner.high, limit), step_of(aggregate.column.type))
        case _:
            return _spread(aggregate.kind, inner)


def _times(
    farther: Callable[[Fraction, Fraction], Fraction], end: Fraction | None, rows: int | None
) -> Fraction | None:
    """Return an end of a sum of up to so many values, None where it has none."""
    if end is None:
        return None
    one = farther(end, Fraction(0))
    return one * rows if rows is not None else one if one == 0 else None


def _together(first: Domain, second: Domain) -> Domain:
    """Return the interval of a covariance: at most the roots of both variances' largest values."""
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return UNKNOWN
    most = (first.high - first.low) * (second.high - second.low) / 4
    return Domain(-most, most)


def _spread(kind: RowAggregateKind, inner: Domain) -> Domain:
    """Return the interval of a variance: at most (high - low)^2 / 4, twice that for a sample of two."""
    if inner.low is None or inner.high is None:
        return UNKNOWN
    square = (inner.high - inner.low) ** 2
    most = square / (2 if kind in (_Kind.VAR_SAMP, _Kind.STDDEV_SAMP) else 4)
    if kind in (_Kind.STDDEV_POP, _Kind.STDDEV_SAMP):
        scale = 2**64
        root = isqrt(most.numerator * scale**2 // most.denominator) + 1
        most = Fraction(root, scale)
    return Domain(Fraction(0), most)


def moment_of(function: WindowFunction) -> RowAggregateKind | None:
    """Return which variance, or root of one, a window function is; None for all others."""
    return _MOMENT_WINDOWS.get(function.name)


def window_domain(function: WindowFunction, columns: Mapping[int, Domain], limit: int) -> Domain:
    """Return the interval of a window function over up to `limit` rows of one owner."""
    one, zero = Fraction(1), Fraction(0)
    match function.name:
        case "row_number" | "rank" | "dense_rank" | "ntile" | "count" | "count_distinct":
            return Domain(zero, Fraction(limit), one)
        case "percent_rank" | "cume_dist":
            return Domain(zero, one)
        case "sum":
            inner = domain_of(function.arguments[0], columns)
            low = None if inner.low is None else min(inner.low, zero) * limit
            high = None if inner.high is None else max(inner.high, zero) * limit
            return Domain(low, high, step_of(function.column.type))
        case "avg" | "median" | "quantile_cont":
            inner = domain_of(function.arguments[0], columns)
            return Domain(inner.low, inner.high)
        case name if name in _MOMENT_WINDOWS:
            return _spread(_MOMENT_WINDOWS[name], domain_of(function.arguments[0], columns))
        case "lag" | "lead" if len(function.arguments) == 3:
            return intervals.hull(tuple(domain_of(function.arguments[i], columns) for i in (0, 2)))
        case _:
            return domain_of(function.arguments[0], columns) if function.arguments else UNKNOWN
