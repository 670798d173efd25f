"""The rows of functions that make dates and timestamps, number them, or compare two of them."""

from __future__ import annotations

import re
from fractions import Fraction

from dp_sql.plan import intervals
from dp_sql.plan.arguments import as_texts, fixed, given_text, text_of, typed_nulls, whole_numbers
from dp_sql.plan.conversion import DAY_MICROSECONDS, cast, common_type, microseconds_of, read
from dp_sql.plan.domain import UNKNOWN, Domain
from dp_sql.plan.expression import Call, Expression, IntervalValue, Literal
from dp_sql.plan.functions_calendar import FIRST, LAST, from_timestamp, in_calendar
from dp_sql.plan.functions_time import UNITS, constant_name, dated, difference_domain
from dp_sql.plan.intervals import interval
from dp_sql.plan.signature import Args, Function, TypeProblem, arity, described
from dp_sql.plan.sql_text import once
from dp_sql.schema.sqltype import (
    BIGINT,
    DATE,
    DOUBLE,
    INTERVAL,
    TIMESTAMP,
    VARCHAR,
    Kind,
    SqlType,
)

_READ = re.compile(r"(?:[^%]|%-?[YymdHIMSfjpaAbB%]|%-[dHIMSmjy])*", re.DOTALL)
_LONGEST_MONTH = 31
_MICROSECONDS = {"epoch_ms": 1000, "epoch_us": 1, "make_timestamp": 1}  # of one unit of a number
_JULIAN_1970 = 2_440_588  # the Julian day of 1970-01-01
_LIMITS = ((1, 9999), (1, 12), (1, 31), (0, 23), (0, 59))  # year, month, day, hour, minute


def _numbered_typing(name: str, args: Args) -> tuple[Args, SqlType]:
    """Type a number of units since 1970 as a timestamp."""
    arity(name, args, 1)
    whole_numbers(name, args)
    return typed_nulls(args, BIGINT), TIMESTAMP


def _numbered_text(name: str, texts: tuple[str, ...]) -> str:
    """Return the timestamp of a number of units since 1970, NULL outside the years 1 to 9999."""
    unit = _MICROSECONDS[name]
    low, high = -(-microseconds_of(FIRST) // unit), microseconds_of(LAST) // unit
    return once(
        texts[0],
        lambda x: (
            f"(CASE WHEN {x} BETWEEN {low} AND {high} THEN {name}(TRY_CAST({x} AS BIGINT)) END)"
        ),
    )


def _numbered_domain(name: str, domains: tuple[Domain, ...]) -> Domain:
    unit = Fraction(_MICROSECONDS[name])
    return intervals.multiply(domains[0], Domain(unit, unit, Fraction(1)))


def _epoch(name: str) -> Function:
    """Return a function from a date or timestamp to units since 1970; EPOCH_MS also goes back."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1)
        if name == "epoch_ms" and args[0].type.is_integer:
            return _numbered_typing(name, args)
        return (dated(name, args[0]),), BIGINT

    def domain(domains: tuple[Domain, ...], args: Args) -> Domain:
        type_ = args[0].type
        if type_.is_integer:
            return _numbered_domain(name, domains)
        micros = DAY_MICROSECONDS if type_.kind is Kind.DATE else 1
        scale = Fraction(micros, _MICROSECONDS[name])
        return intervals.monotone(domains[0], lambda x: Fraction(int(x * scale)), Fraction(1))

    def text(texts: tuple[str, ...], call: Call) -> str:
        type_ = call.args[0].type
        if type_.is_integer:
            return _numbered_text(name, texts)
        return in_calendar(texts[0], type_, lambda x: f"{name}({x})")

    return Function(name, typing, domain, text)


def _made(name: str, texts: tuple[str, ...]) -> str:
    """Return a date or timestamp of numbers, NULL where they are none.

    Claim:   it raises for no numbers.
    Why:     each is inside its limits before they are put together, and TRY gives NULL for a day
             that its month hasn't.
    Assumes: TRY catches what these functions raise (measured, tried in the tests).
    Source:  [DuckDB2025]
    """

    def bind(done: tuple[str, ...], rest: tuple[str, ...]) -> str:
        if rest:
            return once(rest[0], lambda x: bind((*done, x), rest[1:]))
        inside = [f"{x} BETWEEN {a} AND {b}" for x, (a, b) in zip(done, _LIMITS, strict=False)]
        inside += [f"{x} >= 0 AND {x} < 60" for x in done[len(_LIMITS) :]]
        made = f"TRY({name}({', '.join(done)}))"
        return f"(CASE WHEN {' AND '.join(inside)} THEN {made} END)"

    return bind((), texts)


def _date_typing(args: Args) -> tuple[Args, SqlType]:
    arity("make_date", args, 3)
    whole_numbers("make_date", args)
    return tuple(cast(arg, BIGINT) for arg in args), DATE


def _years(domains: tuple[Domain, ...], type_: SqlType) -> Domain:
    """Return the domain of what is made of a year and smaller parts: whole years."""
    low = 1 if domains[0].low is None else min(max(int(domains[0].low), 1), 9999)
    high = 9999 if domains[0].high is None else max(min(int(domains[0].high), 9999), low)
    return Domain(
        from_timestamp(FIRST.replace(year=low), type_),
        from_timestamp(LAST.replace(year=high), type_),
        Fraction(1),
    )


def _timestamp_typing(args: Args) -> tuple[Args, SqlType]:
    """Type a number of microseconds, or year, month, day, hour, minute and second."""
    if len(args) == 1:
        return _numbered_typing("make_timestamp", args)
    arity("make_timestamp", args, 6)
    whole_numbers("make_timestamp", args[:5])
    second = args[5]
    if not second.type.is_numeric and second.type.kind is not Kind.NULL:
        raise TypeProblem(f"make_timestamp takes a number, not {described(second.type)}")
    return (*(cast(arg, BIGINT) for arg in args[:5]), cast(second, DOUBLE)), TIMESTAMP


def _timestamp_text(texts: tuple[str, ...], _call: Call) -> str:
    if len(texts) == 1:
        return _numbered_text("make_timestamp", texts)
    return _made("make_timestamp", texts)


def _timestamp_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    if len(domains) == 1:
        return _numbered_domain("make_timestamp", domains)
    found = _years(domains, TIMESTAMP)
    next_year = None if found.high is None else found.high + 1  # 59.9999999 seconds round up
    return Domain(found.low, next_year, Fraction(1))


def _width(arg: Expression) -> IntervalValue:
    """Return the width of a bucket. Raises TypeProblem unless it is constant, whole and positive."""
    value = arg.value if isinstance(arg, Literal) else None
    if isinstance(value, IntervalValue):
        short = value.days * DAY_MICROSECONDS + value.microseconds
        if (value.months > 0 and not value.days and not value.microseconds) or (
            not value.months and short > 0
        ):
            return value
    raise TypeProblem(
        "time_bucket takes a constant interval above 0, of months or of days and smaller parts"
    )


def _bucket_typing(args: Args) -> tuple[Args, SqlType]:
    arity("time_bucket", args, 2, 3)
    _width(args[0])
    value = dated("time_bucket", args[1])
    if len(args) == 2:
        return (args[0], value), value.type
    if not isinstance(args[2], Literal):
        raise TypeProblem("time_bucket takes a constant date or timestamp to count from")
    origin = dated("time_bucket", read(args[2], value.type))
    shared = common_type(value.type, origin.type)
    return (args[0], cast(value, shared), cast(origin, shared)), shared


def _bucket_text(texts: tuple[str, ...], call: Call) -> str:
    origin = "".join(f", {t}" for t in texts[2:])
    return in_calendar(texts[1], call.type, lambda x: f"time_bucket({texts[0]}, {x}{origin})")


def _bucket_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    """Return the domain of a bucket's start, at most its width before the value."""
    width = _width(args[0])
    days = width.months * _LONGEST_MONTH + width.days
    micros = Fraction(days * DAY_MICROSECONDS + width.microseconds)
    back = micros / DAY_MICROSECONDS if args[1].type.kind is Kind.DATE else micros
    x = domains[1]
    low = None if x.low is None else Fraction((x.low - back).__floor__())
    return Domain(low, x.high, Fraction(1))


def _parse(name: str) -> Function:
    """Return STRPTIME: a text as a timestamp, by a constant format, NULL where it doesn't fit."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 2)
        pattern = given_text(name, args[1], "its format")
        if not pattern or not _READ.fullmatch(pattern):
            raise TypeProblem(f"{name} doesn't know the format '{pattern[:60]}'")
        return as_texts(name, args, 2), TIMESTAMP

    return Function(name, typing, fixed(UNKNOWN), lambda t, _call: f"try_strptime({t[0]}, {t[1]})")


def _sub_typing(args: Args) -> tuple[Args, SqlType]:
    arity("date_sub", args, 3)
    unit = constant_name("date_sub", args[0], UNITS)
    first, second = (dated("date_sub", arg) for arg in args[1:])
    shared = common_type(first.type, second.type)
    return (Literal(unit, VARCHAR), cast(first, shared), cast(second, shared)), BIGINT


def _sub_text(texts: tuple[str, ...], call: Call) -> str:
    unit, type_ = text_of(call.args[0]), call.args[1].type
    return in_calendar(
        texts[1],
        type_,
        lambda x: in_calendar(texts[2], type_, lambda y: f"date_sub('{unit}', {x}, {y})"),
    )


def _sub_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    """Return the domain of the number of whole units: between 0 and the number of their starts."""
    zero = interval(0, 0)
    return intervals.hull((difference_domain(domains, args), zero))


def _age_typing(args: Args) -> tuple[Args, SqlType]:
    if len(args) == 1:
        raise TypeProblem("age takes two dates: what it is at the time of asking isn't answered")
    arity("age", args, 2)
    return tuple(cast(dated("age", arg), TIMESTAMP) for arg in args), INTERVAL


def _age_text(texts: tuple[str, ...], _call: Call) -> str:
    return in_calendar(
        texts[0],
        TIMESTAMP,
        lambda x: in_calendar(texts[1], TIMESTAMP, lambda y: f"age({x}, {y})"),
    )


def _month_typing(args: Args) -> tuple[Args, SqlType]:
    arity("days_in_month", args, 1)
    return (dated("days_in_month", args[0]),), BIGINT


def _julian_typing(args: Args) -> tuple[Args, SqlType]:
    arity("julian", args, 1)
    return (dated("julian", args[0]),), DOUBLE


def _julian_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    day = 1 if args[0].type.kind is Kind.DATE else DAY_MICROSECONDS
    return intervals.widened(intervals.monotone(domains[0], lambda x: x / day + _JULIAN_1970))


ROWS = (
    Function(
        "julian",
        _julian_typing,
        _julian_domain,
        lambda t, call: in_calendar(t[0], call.args[0].type, lambda x: f"julian({x})"),
    ),
    _epoch("epoch_ms"),
    _epoch("epoch_us"),
    Function(
        "make_date",
        _date_typing,
        lambda d, _args: _years(d, DATE),
        lambda t, _call: _made("make_date", t),
    ),
    Function("make_timestamp", _timestamp_typing, _timestamp_domain, _timestamp_text),
    Function("time_bucket", _bucket_typing, _bucket_domain, _bucket_text),
    _parse("strptime"),
    _parse("try_strptime"),
    Function("date_sub", _sub_typing, _sub_domain, _sub_text),
    Function("age", _age_typing, fixed(UNKNOWN), _age_text),
    Function(
        "days_in_month",
        _month_typing,
        fixed(interval(28, 31)),
        lambda t, call: in_calendar(t[0], call.args[0].type, lambda x: f"days_in_month({x})"),
    ),
)
