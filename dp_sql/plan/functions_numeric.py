"""The rows of functions of one number (and of POWER), as DuckDB computes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dp_sql.plan import intervals
from dp_sql.plan.conversion import cast
from dp_sql.plan.domain import UNKNOWN, Domain
from dp_sql.plan.expression import Call, Literal
from dp_sql.plan.reach import reach
from dp_sql.plan.signature import Args, Function, TypeProblem, arity, described
from dp_sql.plan.sql_text import canonical, literal, once, positive_zero
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import INTEGER_BITS, Kind, SqlType

_MOST_PLACES = 400  # decimal places beyond which rounding changes no DOUBLE


def _number(name: str, args: Args) -> None:
    """Raise TypeProblem unless there is exactly one argument and it is a number."""
    arity(name, args, 1)
    _numeric(name, args)


def _numeric(name: str, args: Args) -> None:
    for arg in args:
        if not arg.type.is_numeric and arg.type.kind is not Kind.NULL:
            raise TypeProblem(f"{name} takes a number, not {described(arg.type)}")


def _typed_null(args: Args, type_: SqlType) -> Args:
    """Return the arguments with a bare NULL as a NULL of the type."""
    return tuple(cast(arg, type_) if arg.type.kind is Kind.NULL else arg for arg in args)


def _widened(args: Args, more: int) -> tuple[Args, SqlType]:
    """Return one integer as the type that holds it and its negative, `more` away from zero."""
    least, most = reach(args[0]) or (0, 0)
    low, high = INTEGER_BITS[Kind.BIGINT]
    top = max(-least, most) + more
    type_ = sqltype.BIGINT if top <= high and low <= least else sqltype.HUGEINT
    return (cast(args[0], type_), *args[1:]), type_


def _abs_typing(args: Args) -> tuple[Args, SqlType]:
    _number("abs", args)
    args = _typed_null(args, sqltype.BIGINT)
    return _widened(args, 0) if args[0].type.is_integer else (args, args[0].type)


def _abs_text(texts: tuple[str, ...], call: Call) -> str:
    (x,) = texts
    bits = reach(call.args[0])
    if bits is not None and -bits[0] > INTEGER_BITS[call.type.kind][1]:
        least = literal(INTEGER_BITS[call.type.kind][0], call.type)
        return once(x, lambda v: f"(CASE WHEN {v} <> {least} THEN abs({v}) END)")
    return f"abs({x})"


def _abs_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    (x,) = domains
    if x.low is not None and x.low >= 0:
        return x
    if x.high is not None and x.high <= 0:
        return intervals.negate(x)
    return Domain(Fraction(0), intervals.magnitude(x), x.step)


def _sign_typing(args: Args) -> tuple[Args, SqlType]:
    _number("sign", args)
    return _typed_null(args, sqltype.BIGINT), SqlType(Kind.TINYINT)


def _sign_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    low, high = (
        -1 if end is None and i == 0 else 1 if end is None else (end > 0) - (end < 0)
        for i, end in enumerate((domains[0].low, domains[0].high))
    )
    return intervals.interval(low, high)


def _places(args: Args) -> int:
    """Return the constant number of decimal places of ROUND, 0 where it isn't given."""
    if len(args) == 1:
        return 0
    places = args[1].value if isinstance(args[1], Literal) else None
    if type(places) is not int or abs(places) > _MOST_PLACES:
        raise TypeProblem(
            f"round takes a constant number of decimal places from -{_MOST_PLACES} to {_MOST_PLACES}"
        )
    return places


def _round_typing(args: Args) -> tuple[Args, SqlType]:
    arity("round", args, 1, 2)
    places = _places(args)
    _numeric("round", args[:1])
    args = (*_typed_null(args[:1], sqltype.DOUBLE), *args[1:])
    type_ = args[0].type
    if type_.is_integer:
        return _widened(args, 10**-places) if -38 <= places < 0 else (args, type_)
    if type_.kind is Kind.DECIMAL:
        if places < 0 and type_.precision < 38:  # 99 rounds to 100
            wider = SqlType(Kind.DECIMAL, type_.precision + 1, type_.scale)
            args, type_ = (cast(args[0], wider), *args[1:]), wider
        return args, SqlType(Kind.DECIMAL, type_.precision, min(type_.scale, max(places, 0)))
    return args, type_


def _round_text(texts: tuple[str, ...], call: Call) -> str:
    """Return ROUND. Only whole numbers rounded to tens and beyond can leave their type."""
    x, type_ = texts[0], call.type
    places = _places(call.args)
    plain = f"round({x})" if len(texts) == 1 else f"round({x}, {places})"
    if type_.is_float:
        return positive_zero(plain, type_)
    if places >= 0 and (type_.is_integer or places >= call.args[0].type.scale):
        return x
    if places >= 0:
        return plain
    if places < -38:
        return once(x, lambda v: f"(CASE WHEN {v} IS NOT NULL THEN {literal(0, type_)} END)")
    ten, half = 10**-places, 10**-places // 2
    if type_.is_integer:
        most = INTEGER_BITS[type_.kind][1]
        low, high = reach(call.args[0]) or (0, 0)
        safe = max(-low, high) + ten <= most
    else:
        most = 10**type_.precision - 1
        safe = call.args[0].type.scale > 0 or type_.precision < 38
    if safe:
        return plain
    limit = min(most // ten * ten + half - 1, 2**127 - 1 - half)
    ends = f"{literal(-limit, type_)} AND {literal(limit, type_)}"
    return once(x, lambda v: f"(CASE WHEN {v} BETWEEN {ends} THEN round({v}, {places}) END)")


def _round_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    places = _places(args)
    unit = Fraction(10) ** -places
    step = unit
    if domains[0].step is not None:
        if domains[0].step % unit == 0:
            return domains[0]
        step = unit
    return intervals.monotone(domains[0], lambda x: _half_away(x / unit) * unit, step)


def _half_away(value: Fraction) -> Fraction:
    whole = math.floor(abs(value) + Fraction(1, 2))
    return Fraction(-whole if value < 0 else whole)


def _whole_typing(name: str) -> Callable[[Args], tuple[Args, SqlType]]:
    def typing(args: Args) -> tuple[Args, SqlType]:
        _number(name, args)
        args = _typed_null(args, sqltype.DOUBLE)
        type_ = args[0].type
        if type_.kind is Kind.DECIMAL:
            return args, SqlType(Kind.DECIMAL, type_.precision, 0)
        if type_.is_integer and name != "trunc":  # as DuckDB types them
            return (cast(args[0], sqltype.DOUBLE),), sqltype.DOUBLE
        return args, type_

    return typing


def _whole_text(name: str) -> Callable[[tuple[str, ...], Call], str]:
    def text(texts: tuple[str, ...], call: Call) -> str:
        if call.type.is_integer:
            return texts[0]
        plain = f"{name}({texts[0]})"
        return positive_zero(plain, call.type) if call.type.is_float else plain

    return text


def _whole(name: str, image: Callable[[Fraction], int]) -> Function:
    def domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
        return intervals.monotone(domains[0], lambda x: Fraction(image(x)), Fraction(1))

    return Function(name, _whole_typing(name), domain, _whole_text(name))


def _real(name: str, domain: Callable[[Domain], Domain], text: Callable[[str], str]) -> Function:
    """Return a function of one DOUBLE."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        _number(name, args)
        return (cast(args[0], sqltype.DOUBLE),), sqltype.DOUBLE

    return Function(name, typing, lambda d, _args: domain(d[0]), lambda t, _call: text(t[0]))


def _sqrt_domain(x: Domain) -> Domain:
    low = Fraction(0) if x.low is None or x.low < 0 else x.low
    if x.high is not None and x.high < 0:
        return UNKNOWN
    return intervals.widened(
        intervals.monotone(Domain(low, x.high), lambda v: intervals.real(math.sqrt, v))
    )


def _sqrt_text(x: str) -> str:
    return f"(CASE WHEN {x} >= 0 THEN sqrt({x}) END)"


def _logarithm(name: str, function: Callable[[float], float]) -> Function:
    minus_infinity = literal(float("-inf"), sqltype.DOUBLE)

    def domain(x: Domain) -> Domain:
        return intervals.widened(intervals.monotone(x, lambda v: intervals.real(function, v)))

    def body(x: str) -> str:
        return (
            f"(CASE WHEN {x} > 0 THEN {positive_zero(f'{name}({x})', sqltype.DOUBLE)}"
            f" WHEN {x} = 0 THEN {minus_infinity} END)"
        )

    return _real(name, domain, lambda x: once(x, body))


def _exp_domain(x: Domain) -> Domain:
    image = intervals.monotone(x, lambda v: intervals.real(math.exp, v))
    low = Fraction(0) if image.low is None else image.low
    return intervals.widened(Domain(low, image.high))


def _power(name: str) -> Function:
    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 2)
        _numeric(name, args)
        return tuple(cast(arg, sqltype.DOUBLE) for arg in args), sqltype.DOUBLE

    def text(texts: tuple[str, ...], _call: Call) -> str:
        return canonical(f"pow({texts[0]}, {texts[1]})", sqltype.DOUBLE)

    return Function(name, typing, _power_domain, text)


def _power_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    """Return the domain of x^y: on pieces where it is monotone in each, from the corners."""
    x, y = domains
    if x.low is None or x.high is None or y.low is None or y.high is None:
        return UNKNOWN
    corners = [_power_at(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
    whole = y.low == y.high and y.low.denominator == 1 and y.low >= 0
    if not (x.low > 0 or (x.low >= 0 and y.low >= 0) or whole):
        return UNKNOWN
    if whole and x.low < 0 < x.high and y.low % 2 == 0:
        corners.append(Fraction(0) if y.low else Fraction(1))
    if x.low == 0 and y.low == 0 < y.high:
        corners.append(Fraction(0))
    known = [corner for corner in corners if corner is not None]
    if len(known) < len(corners):
        return UNKNOWN
    return intervals.widened(Domain(min(known), max(known)))


def _power_at(base: Fraction, exponent: Fraction) -> Fraction | None:
    return intervals.real(lambda b: math.pow(b, float(exponent)), base)


ROWS = (
    Function("abs", _abs_typing, _abs_domain, _abs_text),
    Function("sign", _sign_typing, _sign_domain, lambda t, _call: f"sign({t[0]})"),
    Function("round", _round_typing, _round_domain, _round_text),
    _whole("floor", math.floor),
    _whole("ceil", math.ceil),
    _whole("ceiling", math.ceil),
    _whole("trunc", math.trunc),
    _real("sqrt", _sqrt_domain, lambda x: once(x, _sqrt_text)),
    _logarithm("ln", math.log),
    _logarithm("log", math.log10),
    _logarithm("log10", math.log10),
    _logarithm("log2", math.log2),
    _real("exp", _exp_domain, lambda x: f"exp({x})"),
    _power("power"),
    _power("pow"),
)
