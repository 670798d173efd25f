"""The rows of functions of whole numbers: bits, divisors and factorials."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import reduce

from dp_sql.plan.arguments import typed_nulls, whole_numbers
from dp_sql.plan.conversion import cast, common_type
from dp_sql.plan.domain import UNKNOWN, Domain
from dp_sql.plan.expression import Call
from dp_sql.plan.intervals import interval, magnitude
from dp_sql.plan.signature import Args, Function, arity
from dp_sql.plan.sql_text import cast_text, literal, once
from dp_sql.schema.sqltype import BIGINT, HUGEINT, INTEGER, INTEGER_BITS, Kind, SqlType

_MOST_FACTORIAL = 33  # of which the factorial is a HUGEINT
_WHOLE = Fraction(1)
_FAR = 2.0**126  # products below have room in a HUGEINT, also when rounded


def _together(name: str, args: Args) -> tuple[Args, SqlType]:
    """Return whole numbers as their common type."""
    whole_numbers(name, args)
    type_ = reduce(common_type, (arg.type for arg in args))
    type_ = INTEGER if type_.kind is Kind.NULL else type_
    return tuple(cast(arg, type_) for arg in args), type_


def _bitwise(name: str, domain: Callable[[tuple[Domain, ...], Args], Domain]) -> Function:
    """Return & | or xor of two whole numbers."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 2)
        return _together(name, args)

    def text(texts: tuple[str, ...], _call: Call) -> str:
        a, b = texts
        return f"xor({a}, {b})" if name == "xor" else f"({a} {name} {b})"

    return Function(name, typing, domain, text)


def _natural(domain: Domain) -> bool:
    return domain.low is not None and domain.low >= 0


def _and_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    """Return 0 to the smallest end of operands that aren't negative: & takes bits away from each."""
    ends = [d.high for d in domains if _natural(d) and d.high is not None]
    if ends:
        return Domain(Fraction(0), min(ends), _WHOLE)
    return Domain(Fraction(0) if any(map(_natural, domains)) else None, None, _WHOLE)


def _or_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    """Return 0 to all the bits that the ends have, for operands that aren't negative."""
    if not all(map(_natural, domains)):
        return UNKNOWN
    ends = [d.high for d in domains if d.high is not None]
    if len(ends) < len(domains):
        return Domain(Fraction(0), None, _WHOLE)
    return interval(0, 2 ** max(end.__floor__() for end in ends).bit_length() - 1)


def _complement_typing(args: Args) -> tuple[Args, SqlType]:
    arity("~", args, 1)
    return _together("~", args)


def _complement_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    """Return -1 - x, or the largest number minus x for a type without negative ones."""
    (x,) = domains
    least, most = INTEGER_BITS[args[0].type.kind]
    top = least + most
    return Domain(
        None if x.high is None else top - x.high, None if x.low is None else top - x.low, _WHOLE
    )


def _shift_typing(name: str) -> Callable[[Args], tuple[Args, SqlType]]:
    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 2)
        return _together(name, args)

    return typing


def _left_text(texts: tuple[str, ...], call: Call) -> str:
    """Return x << y, NULL where DuckDB raises: negative operands, and bits that leave the type."""
    most = INTEGER_BITS[call.type.kind][1]
    bits = most.bit_length() + (INTEGER_BITS[call.type.kind][0] < 0)

    def body(x: str, y: str) -> str:
        return (
            f"(CASE WHEN {x} = 0 AND {y} >= 0 THEN {x}"
            f" WHEN {x} >= 0 AND {y} >= 0 AND {y} < {bits}"
            f" AND {x} <= ({literal(most, call.type)} >> {y}) THEN {x} << {y} END)"
        )

    return once(texts[0], lambda x: once(texts[1], lambda y: body(x, y)))


def _left_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    x, y = domains
    low, high = (max(d.low or Fraction(0), Fraction(0)) for d in domains), (x.high, y.high)
    (least, fewest), (most, farthest) = low, high
    if most is None or farthest is None or farthest > 128 or most < least or farthest < fewest:
        return Domain(Fraction(0), None, _WHOLE)
    return Domain(least * 2 ** int(fewest), most * 2 ** int(farthest), _WHOLE)


def _right_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    """Return the domain of x >> y, which lies between x and 0 whatever y is."""
    (x, _) = domains
    return Domain(
        None if x.low is None else min(x.low, Fraction(0)),
        None if x.high is None else max(x.high, Fraction(0)),
        _WHOLE,
    )


def _count_typing(args: Args) -> tuple[Args, SqlType]:
    arity("bit_count", args, 1)
    whole_numbers("bit_count", args)
    args = typed_nulls(args, INTEGER)
    wide = args[0].type.kind in (Kind.HUGEINT, Kind.UBIGINT)
    return args, SqlType(Kind.SMALLINT if wide else Kind.TINYINT)


def _count_domain(_domains: tuple[Domain, ...], args: Args) -> Domain:
    least, most = INTEGER_BITS[args[0].type.kind]
    return interval(0, (most - least).bit_length())


def _divisor_typing(name: str) -> Callable[[Args], tuple[Args, SqlType]]:
    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 2)
        typed, shared = _together(name, args)
        type_ = HUGEINT if shared.kind in (Kind.HUGEINT, Kind.UBIGINT) else BIGINT
        return tuple(cast(arg, type_) for arg in typed), type_

    return typing


def _divisor_text(name: str) -> Callable[[tuple[str, ...], Call], str]:
    """Return GCD or LCM, computed as HUGEINT: NULL where the result has no room in the type."""

    def body(x: str, y: str) -> str:
        least = literal(INTEGER_BITS[Kind.HUGEINT][0], HUGEINT)
        if name == "gcd":
            guard = f"{x} <> {least} AND {y} <> {least}"
        else:
            size = f"abs(CAST({x} AS DOUBLE) * CAST({y} AS DOUBLE))"
            guard = f"{size} < {literal(_FAR, SqlType(Kind.DOUBLE))}"
        return f"(CASE WHEN {guard} THEN {name}({x}, {y}) END)"

    def text(texts: tuple[str, ...], call: Call) -> str:
        a, b = (cast_text(t, call.type, HUGEINT) for t in texts)
        found = once(a, lambda x: once(b, lambda y: body(x, y)))
        return cast_text(found, HUGEINT, call.type)

    return text


def _gcd_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    ends = [magnitude(d) for d in domains]
    known = [end for end in ends if end is not None]
    return Domain(Fraction(0), max(known) if len(known) == len(ends) else None, _WHOLE)


def _lcm_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    first, second = (magnitude(d) for d in domains)
    known = first is not None and second is not None
    return Domain(Fraction(0), first * second if known else None, _WHOLE)  # type: ignore[operator]


def _factorial_typing(args: Args) -> tuple[Args, SqlType]:
    arity("factorial", args, 1)
    whole_numbers("factorial", args)
    return typed_nulls(args, INTEGER), HUGEINT


def _factorial_text(texts: tuple[str, ...], _call: Call) -> str:
    return once(
        texts[0],
        lambda x: (
            f"(CASE WHEN {x} BETWEEN 0 AND {_MOST_FACTORIAL}"
            f" THEN factorial(TRY_CAST({x} AS INTEGER)) END)"
        ),
    )


def _factorial_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    (x,) = domains
    low = 0 if x.low is None else min(max(int(x.low), 0), _MOST_FACTORIAL)
    high = _MOST_FACTORIAL if x.high is None else max(min(int(x.high), _MOST_FACTORIAL), low)
    return interval(math.factorial(low), math.factorial(high))


ROWS = (
    _bitwise("&", _and_domain),
    _bitwise("|", _or_domain),
    _bitwise("xor", _or_domain),
    Function("~", _complement_typing, _complement_domain, lambda t, _call: f"(~{t[0]})"),
    Function("<<", _shift_typing("<<"), _left_domain, _left_text),
    Function(">>", _shift_typing(">>"), _right_domain, lambda t, _call: f"({t[0]} >> {t[1]})"),
    Function("bit_count", _count_typing, _count_domain, lambda t, _call: f"bit_count({t[0]})"),
    Function("gcd", _divisor_typing("gcd"), _gcd_domain, _divisor_text("gcd")),
    Function("lcm", _divisor_typing("lcm"), _lcm_domain, _divisor_text("lcm")),
    Function("factorial", _factorial_typing, _factorial_domain, _factorial_text),
)
