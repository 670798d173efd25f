"""The interval that an expression's values lie in, bottom up, and what a condition says of columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import assert_never

from dp_sql.plan import intervals
from dp_sql.plan.conversion import DAY_MICROSECONDS, is_null, position
from dp_sql.plan.domain import BOOLEANS, UNKNOWN, Domain
from dp_sql.plan.expression import Call, Case, Cast, Expression, Literal, Ref
from dp_sql.plan.functions import FUNCTIONS, step_of
from dp_sql.schema.sqltype import Kind, SqlType

_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}
_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def domain_of(expression: Expression, columns: Mapping[int, Domain]) -> Domain:
    """Return the domain of an expression.

    columns: domains of columns by number; a column that isn't there is unknown. NULL values count
    nothing. The result is a claim, true where those of the columns are; for floats up to rounding.
    """
    match expression:
        case Literal():
            return literal_domain(expression)
        case Ref(column=column):
            found = columns.get(column.number, UNKNOWN)
            return BOOLEANS if column.type.kind is Kind.BOOLEAN and found == UNKNOWN else found
        case Call(function="if", args=(condition, chosen, otherwise)):
            return _case(((condition, chosen),), otherwise, columns)
        case Call(function=name, args=args, type=type_):
            inner = tuple(domain_of(arg, columns) for arg in args)
            return _stepped(intervals.short(FUNCTIONS[name].domain(inner, args)), type_)
        case Case(branches=branches, otherwise=otherwise):
            return _case(branches, otherwise, columns)
        case Cast(operand=operand, type=type_):
            return _cast(domain_of(operand, columns), operand.type, type_)
        case _:
            assert_never(expression)


def literal_domain(literal: Literal) -> Domain:
    """Return the domain of a constant: its one value, or its length for a text."""
    if isinstance(literal.value, str):
        return Domain(max_length=len(literal.value))
    place = position(literal)
    if place is None:
        return UNKNOWN
    step = step_of(literal.type)
    return Domain(place, place, step)


def _stepped(domain: Domain, type_: SqlType) -> Domain:
    """Return the domain with the step that its type can have: none for floats."""
    if type_.is_float:
        return replace(domain, step=None)
    return domain if domain.step is not None else replace(domain, step=step_of(type_))


def _case(
    branches: tuple[tuple[Expression, Expression], ...],
    otherwise: Expression,
    columns: Mapping[int, Domain],
) -> Domain:
    """Return the hull of the branches, each where its condition holds; NULL adds nothing."""
    found = []
    for condition, value in branches:
        if not is_null(value):
            found.append(domain_of(value, narrow(columns, condition)))
        columns = narrow_to_rest(columns, condition)
    if not is_null(otherwise):
        found.append(domain_of(otherwise, columns))
    return intervals.hull(found) if found else UNKNOWN


def _cast(inner: Domain, source: SqlType, target: SqlType) -> Domain:
    if source.kind is Kind.DATE and target.kind is Kind.TIMESTAMP:
        day = Domain(Fraction(DAY_MICROSECONDS), Fraction(DAY_MICROSECONDS), Fraction(1))
        return intervals.multiply(inner, day)
    if source.kind is Kind.TIMESTAMP and target.kind is Kind.DATE:
        return intervals.monotone(inner, lambda x: Fraction(x // DAY_MICROSECONDS), Fraction(1))
    if target.kind is Kind.BOOLEAN:
        return BOOLEANS
    if target.kind is Kind.VARCHAR:
        return inner if source.kind is Kind.VARCHAR else UNKNOWN
    if not target.is_numeric or not (source.is_numeric or source.kind is Kind.BOOLEAN):
        return replace(UNKNOWN, step=step_of(target))
    step = step_of(target)
    if step is None:
        return replace(inner, step=None)
    if inner.step is not None and (inner.step / step).denominator == 1:
        return inner
    # rounded to the nearest multiple, halves either way
    half = step / 2
    return Domain(
        None if inner.low is None else -((half - inner.low) // step) * step,
        None if inner.high is None else (inner.high + half) // step * step,
        step,
    )


def narrow(columns: Mapping[int, Domain], predicate: Expression) -> Mapping[int, Domain]:
    """Return the domains of the columns of rows for which a predicate is true.

    Conjuncts that compare a column with a constant count, BETWEEN and IN among them; all others
    are passed over. A condition that no declared value meets changes nothing.
    """
    match predicate:
        case Call(function="and", args=args):
            for arg in args:
                columns = narrow(columns, arg)
            return columns
        case Call(function="not", args=(inner,)):
            return narrow_to_rest(columns, inner)
        case Call(function="between", args=(value, low, high)):
            return _compared(_compared(columns, value, ">=", low), value, "<=", high)
        case Call(function="in", args=(value, *listed)):
            places = [position(item) for item in listed if not is_null(item)]
            known = [place for place in places if place is not None]
            if not known or len(known) < len(places):
                return columns
            return _cut(columns, value, min(known), max(known))
        case Call(function=name, args=(first, second)) if name in _OPPOSITE:
            if isinstance(_uncast(first), Ref):
                return _compared(columns, first, name, second)
            return _compared(columns, second, _MIRROR.get(name, name), first)
        case _:
            return columns


def narrow_to_rest(columns: Mapping[int, Domain], predicate: Expression) -> Mapping[int, Domain]:
    """Return the domains of the rows for which a predicate is not true.

    Where its column is NULL a comparison is not true either: such a row gives no value.
    """
    match predicate:
        case Call(function="or", args=args):
            for arg in args:
                columns = narrow_to_rest(columns, arg)
            return columns
        case Call(function=name, args=args, type=type_) if name in _OPPOSITE:
            return narrow(columns, Call(_OPPOSITE[name], args, type_))
        case _:
            return columns


def _compared(
    columns: Mapping[int, Domain], value: Expression, operator: str, constant: Expression
) -> Mapping[int, Domain]:
    place = position(constant)
    ref = _uncast(value)
    if place is None or not isinstance(ref, Ref):
        return columns
    step = step_of(ref.column.type)
    if ref.column.type.kind is Kind.DATE and value.type.kind is Kind.TIMESTAMP:
        step = Fraction(DAY_MICROSECONDS)
    match operator:
        case "=":
            return _cut(columns, value, place, place)
        case ">=":
            return _cut(columns, value, place, None)
        case "<=":
            return _cut(columns, value, None, place)
        case ">":
            return _cut(columns, value, place if step is None else (place // step + 1) * step, None)
        case "<":
            return _cut(
                columns, value, None, place if step is None else -(-place // step + 1) * step
            )
        case _:
            return columns


def _cut(
    columns: Mapping[int, Domain], value: Expression, low: Fraction | None, high: Fraction | None
) -> Mapping[int, Domain]:
    """Return the domains with the column under `value` cut to [low, high]."""
    ref = _uncast(value)
    if not isinstance(ref, Ref):
        return columns
    column = ref.column
    if column.type.kind is Kind.DATE and value.type.kind is Kind.TIMESTAMP:
        low = None if low is None else low / DAY_MICROSECONDS
        high = None if high is None else high / DAY_MICROSECONDS
    step = step_of(column.type)
    if step is not None:
        low = None if low is None else -(-low // step) * step
        high = None if high is None else high // step * step
    if low is not None and high is not None and low > high:
        return columns
    old = columns.get(column.number, replace(UNKNOWN, step=step))
    return {**columns, column.number: intervals.intersect(old, Domain(low, high))}


def _uncast(value: Expression) -> Expression:
    """Return the column under casts that keep every value (up to rounding) or give NULL."""
    while isinstance(value, Cast):
        source, target = value.operand.type, value.type
        numbers = source.is_numeric and target.is_numeric and not target.is_integer
        exact = numbers or (source.is_integer and target.is_integer)
        dates = source.kind is Kind.DATE and target.kind is Kind.TIMESTAMP
        if not exact and not dates:
            return value
        if target.kind is Kind.DECIMAL and source.is_float:
            return value
        value = value.operand
    return value
