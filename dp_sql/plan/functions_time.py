"""The rows of functions of dates and timestamps: parts, truncation, differences, names, formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from fractions import Fraction

from dp_sql.plan import intervals
from dp_sql.plan.arguments import fixed, text_of
from dp_sql.plan.conversion import (
    DAY_MICROSECONDS,
    cast,
    common_type,
    microseconds_of,
    read,
)
from dp_sql.plan.domain import UNKNOWN, Domain
from dp_sql.plan.expression import Call, Expression, Literal
from dp_sql.plan.functions_calendar import FIRST, from_timestamp, in_calendar, to_timestamp
from dp_sql.plan.intervals import interval
from dp_sql.plan.signature import Args, Function, TypeProblem, arity, described
from dp_sql.schema.sqltype import BIGINT, DATE, DOUBLE, TIMESTAMP, VARCHAR, Kind, SqlType

_DATED = (Kind.DATE, Kind.TIMESTAMP)

# part -> the values that it can have; None where they follow the date
PARTS: Mapping[str, Domain | None] = {
    "year": None,
    "isoyear": None,
    "decade": None,
    "century": None,
    "millennium": None,
    "yearweek": None,
    "epoch": None,
    "era": interval(0, 1),
    "quarter": interval(1, 4),
    "month": interval(1, 12),
    "week": interval(1, 53),
    "day": interval(1, 31),
    "dow": interval(0, 6),
    "isodow": interval(1, 7),
    "doy": interval(1, 366),
    "hour": interval(0, 23),
    "minute": interval(0, 59),
    "second": interval(0, 59),
    "millisecond": interval(0, 59_999),
    "microsecond": interval(0, 59_999_999),
}
_OTHER_NAMES = {
    "dayofweek": "dow",
    "weekday": "dow",
    "dayofyear": "doy",
    "dayofmonth": "day",
    "weekofyear": "week",
}
_FUNCTIONS = {"dow": "dayofweek", "doy": "dayofyear"}
_OF_TIMES = ("hour", "minute", "second", "millisecond", "microsecond", "epoch")
_OF_INTERVALS = (*_OF_TIMES, "day", "month", "quarter", "year", "decade", "century", "millennium")
UNITS = (
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "decade",
    "century",
)
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FORMAT = re.compile(r"(?:[^%]|%-?[YymdHIMSfjpaAbBuwUWVGgn%]|%[-dHIMSmjy])*", re.DOTALL)
_LONGEST_FORMAT = 100


def part_name(name: str) -> str:
    """Return the one name of a date part: plural, long and upper-case names are others of it."""
    lower = name.lower()
    for candidate in (lower, lower.removesuffix("s")):
        known = _OTHER_NAMES.get(candidate, candidate)
        if known in PARTS:
            return known
    return lower


def constant_name(function: str, arg: Expression, known: tuple[str, ...]) -> str:
    """Return the one name of a constant part or unit. Raises TypeProblem for all but `known`."""
    value = arg.value if isinstance(arg, Literal) else None
    name = part_name(value) if isinstance(value, str) else None
    if name not in known:
        shown = f"'{value}'" if isinstance(value, str) else "an expression"
        raise TypeProblem(f"{function} doesn't take {shown}; it takes one of {', '.join(known)}")
    return name


def dated(function: str, arg: Expression) -> Expression:
    """Return a date or timestamp; a constant text is read as a timestamp."""
    if isinstance(arg, Literal) and isinstance(arg.value, str):
        return read(arg, TIMESTAMP)
    if arg.type.kind is Kind.NULL:
        return cast(arg, TIMESTAMP)
    if arg.type.kind not in _DATED:
        raise TypeProblem(f"{function} takes a date or timestamp, not {described(arg.type)}")
    return arg


def _part_argument(function: str, part: str, arg: Expression) -> Expression:
    """Return what a part can be taken from: also a TIME or an INTERVAL, for parts that it has."""
    if arg.type.kind is Kind.TIME and part in _OF_TIMES:
        return arg
    if arg.type.kind is Kind.INTERVAL and part in _OF_INTERVALS:
        return arg
    return dated(function, arg)


def _part_type(part: str) -> SqlType:
    return DOUBLE if part == "epoch" else BIGINT


def _part_text(part: str, text: str) -> str:
    """Return the part by its own function: date_part of a constant NULL is a DOUBLE in DuckDB."""
    return f"{_FUNCTIONS.get(part, part)}({text})"


def _date_part_typing(args: Args) -> tuple[Args, SqlType]:
    arity("date_part", args, 2)
    part = constant_name("date_part", args[0], tuple(PARTS))
    argument = _part_argument("date_part", part, args[1])
    return (Literal(part, VARCHAR), argument), _part_type(part)


def _named_part(name: str) -> Function:
    """Return a function that is named after the part it takes, such as year(x)."""
    part = part_name(name)

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1)
        return (_part_argument(name, part, args[0]),), _part_type(part)

    return Function(
        name,
        typing,
        lambda d, args: part_domain(part, d[0], args[0].type),
        lambda t, _call: _part_text(part, t[0]),
    )


def part_domain(part: str, domain: Domain, type_: SqlType) -> Domain:
    """Return the values of a part of dates in a domain; of an interval any part may be negative."""
    if type_.kind is Kind.INTERVAL:
        return interval(-11, 11) if part == "month" else UNKNOWN
    same = PARTS[part]
    if same is not None:
        return same
    if type_.kind is Kind.TIME:
        return interval(0, 86_400, None)

    def image(value: Fraction) -> Fraction | None:
        at = to_timestamp(value, type_)
        return None if at is None else _part_of(part, at)

    return intervals.monotone(domain, image, None if part == "epoch" else Fraction(1))


def _part_of(part: str, at: datetime) -> Fraction:
    iso = at.isocalendar()
    match part:
        case "isoyear":
            return Fraction(iso.year)
        case "decade":
            return Fraction(at.year // 10)
        case "century":
            return Fraction((at.year - 1) // 100 + 1)
        case "millennium":
            return Fraction((at.year - 1) // 1000 + 1)
        case "yearweek":
            return Fraction(iso.year * 100 + iso.week)
        case "epoch":
            return Fraction(microseconds_of(at), 1_000_000)
        case _:
            return Fraction(at.year)


def _trunc_typing(args: Args) -> tuple[Args, SqlType]:
    arity("date_trunc", args, 2)
    unit = constant_name("date_trunc", args[0], UNITS)
    return (Literal(unit, VARCHAR), cast(dated("date_trunc", args[1]), TIMESTAMP)), TIMESTAMP


def _trunc_text(texts: tuple[str, ...], call: Call) -> str:
    unit = text_of(call.args[0])
    return in_calendar(texts[1], TIMESTAMP, lambda x: f"date_trunc('{unit}', {x})")


def _trunc_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    unit = text_of(args[0])

    def image(value: Fraction) -> Fraction | None:
        at = to_timestamp(value, TIMESTAMP)
        start = None if at is None else _truncated(unit, at)
        return None if start is None else from_timestamp(start, TIMESTAMP)

    return intervals.monotone(domains[1], image, Fraction(1))


def _truncated(unit: str, at: datetime) -> datetime | None:
    """Return the start of the unit that a timestamp lies in; None before the year 1."""
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "microsecond":
            return at
        case "millisecond":
            return at.replace(microsecond=at.microsecond // 1000 * 1000)
        case "second":
            return at.replace(microsecond=0)
        case "minute":
            return at.replace(second=0, microsecond=0)
        case "hour":
            return at.replace(minute=0, second=0, microsecond=0)
        case "day":
            return day
        case "week":
            return None if day - FIRST < timedelta(7) else day - timedelta(day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return day.replace(month=(at.month - 1) // 3 * 3 + 1, day=1)
        case _:
            years = {"year": 1, "decade": 10, "century": 100}[unit]
            year = at.year // years * years
            return day.replace(year=year, month=1, day=1) if year else None


def _diff_typing(args: Args) -> tuple[Args, SqlType]:
    arity("date_diff", args, 3)
    unit = constant_name("date_diff", args[0], UNITS)
    first, second = (dated("date_diff", arg) for arg in args[1:])
    shared = common_type(first.type, second.type)
    return (Literal(unit, VARCHAR), cast(first, shared), cast(second, shared)), BIGINT


def _diff_text(texts: tuple[str, ...], call: Call) -> str:
    unit, type_ = text_of(call.args[0]), call.args[1].type
    return in_calendar(
        texts[1],
        type_,
        lambda x: in_calendar(texts[2], type_, lambda y: f"date_diff('{unit}', {x}, {y})"),
    )


def difference_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    """Return the domain of the number of unit starts between two dates, from their ends."""
    unit, type_ = text_of(args[0]), args[1].type

    def image(value: Fraction) -> Fraction | None:
        at = to_timestamp(value, type_)
        return None if at is None else Fraction(_index(unit, at))

    first, second = (intervals.monotone(d, image, Fraction(1)) for d in domains[1:])
    return intervals.subtract(second, first)


def _index(unit: str, at: datetime) -> int:
    """Return the number of the unit that a timestamp lies in, counted from some start."""
    micros = microseconds_of(at)
    month = at.year * 12 + at.month - 1
    lengths = {
        "microsecond": 1,
        "millisecond": 1000,
        "second": 1_000_000,
        "minute": 60_000_000,
        "hour": 3_600_000_000,
        "day": DAY_MICROSECONDS,
    }
    match unit:
        case "week":
            return (micros // DAY_MICROSECONDS + 3) // 7  # 1970-01-01 was a Thursday
        case "month":
            return month
        case "quarter":
            return month // 3
        case "year" | "decade" | "century":
            return at.year // {"year": 1, "decade": 10, "century": 100}[unit]
        case _:
            return micros // lengths[unit]


def _name(name: str, values: tuple[str, ...]) -> Function:
    """Return a function that names a part of a date in English, by one of `values`."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1)
        return (dated(name, args[0]),), VARCHAR

    longest = Domain(max_length=max(map(len, values)))
    return Function(
        name, typing, fixed(longest), lambda t, _call: f"{name}({t[0]})", lambda _args: values
    )


def _last_day_typing(args: Args) -> tuple[Args, SqlType]:
    arity("last_day", args, 1)
    return (dated("last_day", args[0]),), DATE


def _last_day_text(texts: tuple[str, ...], call: Call) -> str:
    return in_calendar(texts[0], call.args[0].type, lambda x: f"last_day({x})")


def _last_day_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    def image(value: Fraction) -> Fraction | None:
        at = to_timestamp(value, args[0].type)
        if at is None:
            return None
        if at.month == 12:
            return from_timestamp(at.replace(day=31), DATE)
        return from_timestamp(at.replace(month=at.month + 1, day=1) - timedelta(1), DATE)

    return intervals.monotone(domains[0], image, Fraction(1))


def _format_typing(args: Args) -> tuple[Args, SqlType]:
    arity("strftime", args, 2)
    value = args[1].value if isinstance(args[1], Literal) else None
    if not isinstance(value, str) or len(value) > _LONGEST_FORMAT:
        raise TypeProblem(
            f"strftime takes a constant format of at most {_LONGEST_FORMAT} characters"
        )
    if not _FORMAT.fullmatch(value):
        raise TypeProblem(f"strftime doesn't know the format '{value}'")
    return (dated("strftime", args[0]), args[1]), VARCHAR


def _format_text(texts: tuple[str, ...], call: Call) -> str:
    return in_calendar(texts[0], call.args[0].type, lambda x: f"strftime({x}, {texts[1]})")


ROWS = (
    Function(
        "date_part",
        _date_part_typing,
        lambda d, args: part_domain(text_of(args[0]), d[1], args[1].type),
        lambda t, call: _part_text(text_of(call.args[0]), t[1]),
    ),
    *(
        _named_part(name)
        for name in (
            "year",
            "isoyear",
            "decade",
            "century",
            "millennium",
            "yearweek",
            "epoch",
            "era",
            "quarter",
            "month",
            "week",
            "weekofyear",
            "day",
            "dayofmonth",
            "dayofweek",
            "weekday",
            "isodow",
            "dayofyear",
            "hour",
            "minute",
            "second",
            "millisecond",
            "microsecond",
        )
    ),
    Function("date_trunc", _trunc_typing, _trunc_domain, _trunc_text),
    Function("date_diff", _diff_typing, difference_domain, _diff_text),
    _name("monthname", _MONTHS),
    _name("dayname", _DAYS),
    Function("last_day", _last_day_typing, _last_day_domain, _last_day_text),
    Function("strftime", _format_typing, fixed(UNKNOWN), _format_text),
)
