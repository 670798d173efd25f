"""Dates, timestamps and intervals under + and -, and the calendar of domains.

DuckDB raises for far dates: outside the years 1 to 9999 a date here is NULL, before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from fractions import Fraction

from dp_sql.plan import intervals
from dp_sql.plan.conversion import (
    DAY_MICROSECONDS,
    EPOCH,
    cast,
    days_of,
    microseconds_of,
)
from dp_sql.plan.domain import UNKNOWN, Domain
from dp_sql.plan.expression import Call, Expression, IntervalValue, Literal
from dp_sql.plan.signature import Args, TypeProblem, arity, described
from dp_sql.plan.sql_text import literal, once
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind, SqlType

_TIME_KINDS = (Kind.DATE, Kind.TIMESTAMP, Kind.TIME, Kind.INTERVAL)
_MOST_DAYS = 10_000_000  # that a date may be moved by: further is outside every calendar year here
MOVES: Mapping[str, int] = {  # a function of one number -> how many of its unit it makes at most
    "to_years": _MOST_DAYS // 366,
    "to_quarters": _MOST_DAYS // 92,
    "to_months": _MOST_DAYS // 31,
    "to_weeks": _MOST_DAYS // 7,
    "to_days": _MOST_DAYS,
    "to_hours": _MOST_DAYS * 24,
    "to_minutes": _MOST_DAYS * 1_440,
    "to_seconds": _MOST_DAYS * 86_400,
}
FIRST, LAST = datetime.min, datetime.max  # noqa: DTZ901  (a TIMESTAMP has no zone)


def is_time_type(type_: SqlType) -> bool:
    """Return True for dates, timestamps, times and intervals."""
    return type_.kind in _TIME_KINDS


def is_temporal(call: Call) -> bool:
    """Return True for a sum or difference with a date, timestamp or interval in it."""
    return any(is_time_type(arg.type) for arg in call.args)


def arithmetic_typing(name: str, args: Args) -> tuple[Args, SqlType] | None:
    """Type + and - of dates, timestamps and intervals; None where no argument is one.

    date + integer and date - integer are dates; date - date is a number of days; a timestamp minus
    another is an interval; a date or timestamp moved by an interval that is constant, or a limited
    number of units, is a timestamp.
    """
    if not any(is_time_type(arg.type) for arg in args):
        return None
    arity(name, args, 2)
    left, right = (arg.type.kind for arg in args)
    if name == "+" and left is not Kind.DATE and left is not Kind.TIMESTAMP:
        args, left, right = (args[1], args[0]), right, left
    if name != "*" and left in (Kind.DATE, Kind.TIMESTAMP):
        if right is Kind.INTERVAL and _is_short(args[1]):
            return (cast(args[0], sqltype.TIMESTAMP), args[1]), sqltype.TIMESTAMP
        if left is Kind.DATE and args[1].type.is_integer and right is not Kind.HUGEINT:
            return (args[0], cast(args[1], sqltype.BIGINT)), sqltype.DATE
        if name == "-" and left is right is Kind.DATE:
            return args, sqltype.BIGINT
        if name == "-" and right in (Kind.DATE, Kind.TIMESTAMP):
            return tuple(cast(arg, sqltype.TIMESTAMP) for arg in args), sqltype.INTERVAL
    raise TypeProblem(
        f"{described(args[0].type)} {name} {described(args[1].type)} isn't answered"
        " (a date and an integer, or a date or timestamp and an interval that is constant or made by"
        " to_days(…) and the like, are)"
    )


def _is_short(interval: Expression) -> bool:
    return isinstance(interval, Literal) or (
        isinstance(interval, Call) and interval.function in MOVES
    )


def in_calendar(text: str, type_: SqlType, body: Callable[[str], str]) -> str:
    """Return `body` of a date or timestamp of the years 1 to 9999, NULL outside them."""
    first, last = literal(FIRST, type_), literal(LAST, type_)
    if type_.kind is Kind.DATE:
        first, last = literal(FIRST.date(), type_), literal(LAST.date(), type_)
    return once(text, lambda x: f"(CASE WHEN {x} BETWEEN {first} AND {last} THEN {body(x)} END)")


def arithmetic_text(name: str, texts: tuple[str, ...], call: Call) -> str:
    """Return the text of a sum or difference that `arithmetic_typing` typed."""
    a, b = texts
    left, right = (arg.type for arg in call.args)
    if right.is_integer:
        days = once(
            b,
            lambda n: (
                f"(CASE WHEN {n} BETWEEN -{_MOST_DAYS} AND {_MOST_DAYS}"
                f" THEN CAST({n} AS INTEGER) END)"
            ),
        )
        return in_calendar(a, left, lambda x: f"{x} {name} {days}")
    if right.kind is Kind.INTERVAL:
        return in_calendar(a, left, lambda x: f"{x} {name} {b}")
    return in_calendar(a, left, lambda x: in_calendar(b, right, lambda y: f"{x} - {y}"))


def arithmetic_domain(name: str, domains: tuple[Domain, ...], args: Args) -> Domain:
    """Return the domain of a sum or difference that `arithmetic_typing` typed."""
    first, second = domains
    match args[1]:
        case Literal(value=IntervalValue() as moved):
            sign = 1 if name == "+" else -1
            return intervals.monotone(first, lambda x: _moved(x, moved, sign), Fraction(1))
        case _ if args[0].type.kind is Kind.TIMESTAMP:
            return UNKNOWN
        case _:
            return (intervals.add if name == "+" else intervals.subtract)(first, second)


def _moved(micros: Fraction, by: IntervalValue, sign: int) -> Fraction | None:
    start = timestamp_at(micros)
    if start is None:
        return None
    month = start.year * 12 + start.month - 1 + sign * by.months
    year, index = divmod(month, 12)
    if not 1 <= year <= 9999:
        return None
    day = min(start.day, _month_length(year, index + 1))
    middle = start.replace(year=year, month=index + 1, day=day)
    return Fraction(microseconds_of(middle) + sign * (by.days * DAY_MICROSECONDS + by.microseconds))


def _month_length(year: int, month: int) -> int:
    if month == 12:
        return 31
    return (date(year, month + 1, 1) - date(year, month, 1)).days


def timestamp_at(micros: Fraction) -> datetime | None:
    """Return the timestamp of microseconds since 1970, None outside the years 1 to 9999."""
    if not microseconds_of(FIRST) <= micros <= microseconds_of(LAST):
        return None
    return EPOCH + timedelta(microseconds=int(micros))


def to_timestamp(value: Fraction, type_: SqlType) -> datetime | None:
    """Return the value of a date or timestamp domain as a timestamp."""
    return timestamp_at(value * DAY_MICROSECONDS if type_.kind is Kind.DATE else value)


def from_timestamp(value: datetime, type_: SqlType) -> Fraction:
    """Return a timestamp as the value of a date or timestamp domain."""
    if type_.kind is Kind.DATE:
        return Fraction(days_of(value.date()))
    return Fraction(microseconds_of(value))
