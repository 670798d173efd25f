"""Covariance, correlation and regression over one person's rows, from moments that are exact."""

from __future__ import annotations

from collections.abc import Callable

from dp_sql.plan import functions
from dp_sql.plan.expression import Expression, Literal
from dp_sql.plan.rows import RowAggregateKind
from dp_sql.schema.sqltype import BIGINT, DOUBLE, NULL

_Kind = RowAggregateKind
PAIRS = frozenset(
    "COVAR_POP COVAR_SAMP CORR REGR_SLOPE REGR_INTERCEPT REGR_R2 REGR_COUNT REGR_AVGX REGR_AVGY "
    "REGR_SXX REGR_SYY REGR_SXY".split()
)
Part = Callable[[RowAggregateKind, Expression], Expression]


def pair_value(
    name: str, part: Part, count: Expression, y: Expression, x: Expression
) -> Expression:
    """Return an aggregate of pairs as one expression over the moments of y and x.

    part: the column of an aggregate; y and x are NULL together. Where DuckDB says NaN it is NULL.
    """
    match name:
        case "REGR_COUNT":
            return count
        case "REGR_AVGX":
            return part(_Kind.AVG, x)
        case "REGR_AVGY":
            return part(_Kind.AVG, y)
        case "REGR_SXX":
            return _times(count, part(_Kind.VAR_POP, x))
        case "REGR_SYY":
            return _times(count, part(_Kind.VAR_POP, y))
        case "REGR_INTERCEPT":
            slope = pair_value("REGR_SLOPE", part, count, y, x)
            return functions.call("-", (part(_Kind.AVG, y), _times(slope, part(_Kind.AVG, x))))
        case _:
            return _of_products(name, part, count, y, x)


def _of_products(
    name: str, part: Part, count: Expression, y: Expression, x: Expression
) -> Expression:
    covariance = part(_Kind.COVAR_POP, y)
    match name:
        case "COVAR_POP":
            return covariance
        case "COVAR_SAMP":
            less = functions.call("-", (count, Literal(1, BIGINT)))
            return _over(_times(covariance, count), less)
        case "REGR_SXY":
            return _times(count, covariance)
        case "REGR_SLOPE":
            return _over(covariance, part(_Kind.VAR_POP, x))
        case _:
            first, second = part(_Kind.VAR_POP, y), part(_Kind.VAR_POP, x)
            root = functions.call("sqrt", (_times(first, second),))
            ends = (Literal(-1.0, DOUBLE), Literal(1.0, DOUBLE))
            correlation = functions.call("clamp", (_over(covariance, root), *ends))
            if name == "CORR":
                return correlation
            zero = Literal(0.0, DOUBLE)
            branches = (
                (functions.call("=", (second, zero)), Literal(None, NULL)),
                (functions.call("=", (first, zero)), Literal(1.0, DOUBLE)),
            )
            return functions.case(branches, _times(correlation, correlation))


def _times(a: Expression, b: Expression) -> Expression:
    return functions.call("*", (a, b))


def _over(a: Expression, b: Expression) -> Expression:
    """Return a quotient, NULL where the divisor is 0."""
    return functions.call("/", (a, functions.call("nullif", (b, Literal(0, BIGINT)))))
