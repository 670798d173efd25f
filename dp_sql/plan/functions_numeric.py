"""The rows of functions of a number that keep its type: absolute values, signs and rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dp_sql.plan import intervals
from dp_sql.plan.arguments import numbers, typed_nulls
from dp_sql.plan.conversion import cast
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Call, Literal
from dp_sql.plan.reach import reach
from dp_sql.plan.signature import Args, Function, TypeProblem, arity
from dp_sql.plan.sql_text import canonical, literal, once, positive_zero
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import INTEGER_BITS, Kind, SqlType

_MOST_PLACES = 400  # decimal places beyond which rounding changes no DOUBLE


def _number(name: str, args: Args) -> None:
    """Raise TypeProblem unless there is exactly one argument and it is a number."""
    arity(name, args, 1)
    numbers(name, args)


def _widened(args: Args, more: int) -> tuple[Args, SqlType]:
    """Return one integer as the type that holds it and its negative, `more` away from zero."""
    least, most = reach(args[0]) or (0, 0)
    low, high = INTEGER_BITS[Kind.BIGINT]
    top = max(-least, most) + more
    type_ = sqltype.BIGINT if top <= high and low <= least else sqltype.HUGEINT
    return (cast(args[0], type_), *args[1:]), type_


def _abs_typing(args: Args) -> tuple[Args, SqlType]:
    _number("abs", args)
    args = typed_nulls(args, sqltype.BIGINT)
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
    return typed_nulls(args, sqltype.BIGINT), SqlType(Kind.TINYINT)


def _sign_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    low, high = (
        -1 if end is None and i == 0 else 1 if end is None else (end > 0) - (end < 0)
        for i, end in enumerate((domains[0].low, domains[0].high))
    )
    return intervals.interval(low, high)


def _places(name: str, args: Args) -> int:
    """Return the constant number of decimal places of ROUND or TRUNC, 0 where it isn't given."""
    if len(args) == 1:
        return 0
    places = args[1].value if isinstance(args[1], Literal) else None
    if type(places) is not int or abs(places) > _MOST_PLACES:
        raise TypeProblem(
            f"{name} takes a constant number of decimal places"
            f" from -{_MOST_PLACES} to {_MOST_PLACES}"
        )
    return places


def _round_typing(args: Args) -> tuple[Args, SqlType]:
    arity("round", args, 1, 2)
    places = _places("round", args)
    numbers("round", args[:1])
    args = (*typed_nulls(args[:1], sqltype.DOUBLE), *args[1:])
    type_ = args[0].type
    if type_.is_integer:
        return _widened(args, 10**-places) if -38 <= places < 0 else (args, type_)
    if type_.kind is Kind.DECIMAL:
        if places < 0 and type_.precision < 38:  # 99 rounds to 100
            wider = SqlType(Kind.DECIMAL, type_.precision + 1, type_.scale)
            if type_.scale:
                args, type_ = (cast(args[0], wider), *args[1:]), wider
            elif -places <= type_.precision:  # DuckDB widens by itself
                type_ = wider
        return args, SqlType(Kind.DECIMAL, type_.precision, min(type_.scale, max(places, 0)))
    return args, type_


def _round_text(texts: tuple[str, ...], call: Call) -> str:
    """Return ROUND. Only whole numbers rounded to tens and beyond can leave their type."""
    x, type_ = texts[0], call.type
    places = _places("round", call.args)
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
    places = _places("round", args)
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


def _even_typing(name: str) -> Callable[[Args], tuple[Args, SqlType]]:
    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 2)
        places = _places(name, args)
        numbers(name, args[:1])
        value = typed_nulls(args[:1], sqltype.DOUBLE)[0]
        type_ = value.type
        if not type_.is_float and places < 0:
            value, type_ = cast(value, sqltype.DOUBLE), sqltype.DOUBLE
        elif type_.kind is Kind.DECIMAL:
            type_ = SqlType(Kind.DECIMAL, type_.precision, min(type_.scale, places))
        return (value, args[1]), type_

    return typing


def _even_text(name: str) -> Callable[[tuple[str, ...], Call], str]:
    def text(texts: tuple[str, ...], call: Call) -> str:
        places = _places(name, call.args)
        if not call.type.is_float and places >= call.args[0].type.scale:
            return texts[0]
        plain = f"{name}({texts[0]}, {places})"
        return canonical(plain, call.type) if call.type.is_float else plain

    return text


def _even_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    """Return the multiples of a unit around the domain: halves go to either side."""
    unit = Fraction(10) ** -_places("round_even", args)
    if domains[0].step is not None and domains[0].step % unit == 0:
        return domains[0]
    low, high = domains[0].low, domains[0].high
    return Domain(
        None if low is None else math.floor(low / unit) * unit,
        None if high is None else math.ceil(high / unit) * unit,
        unit,
    )


def _even(name: str) -> Function:
    """Return ROUND_EVEN, by either name: halves to the even neighbour, by a number of places."""
    return Function(name, _even_typing(name), _even_domain, _even_text(name))


def _whole_typing(name: str) -> Callable[[Args], tuple[Args, SqlType]]:
    def typing(args: Args) -> tuple[Args, SqlType]:
        _number(name, args)
        args = typed_nulls(args, sqltype.DOUBLE)
        type_ = args[0].type
        if type_.kind is Kind.DECIMAL:
            return args, SqlType(Kind.DECIMAL, type_.precision, 0)
        if type_.is_integer:  # as DuckDB types them
            return (cast(args[0], sqltype.DOUBLE),), sqltype.DOUBLE
        return args, type_

    return typing


def _whole_text(name: str) -> Callable[[tuple[str, ...], Call], str]:
    def text(texts: tuple[str, ...], call: Call) -> str:
        plain = f"{name}({texts[0]})"
        return positive_zero(plain, call.type) if call.type.is_float else plain

    return text


def _whole(name: str, image: Callable[[Fraction], int]) -> Function:
    def domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
        return intervals.monotone(domains[0], lambda x: Fraction(image(x)), Fraction(1))

    return Function(name, _whole_typing(name), domain, _whole_text(name))


def _trunc_typing(args: Args) -> tuple[Args, SqlType]:
    arity("trunc", args, 1, 2)
    places = _places("trunc", args)
    numbers("trunc", args[:1])
    args = (*typed_nulls(args[:1], sqltype.DOUBLE), *args[1:])
    type_ = args[0].type
    if type_.kind is Kind.DECIMAL:
        type_ = SqlType(Kind.DECIMAL, type_.precision, min(type_.scale, max(places, 0)))
    return args, type_


def _trunc_text(texts: tuple[str, ...], call: Call) -> str:
    places = _places("trunc", call.args)
    if call.type.is_integer and places >= 0:
        return texts[0]
    plain = f"trunc({texts[0]})" if len(texts) == 1 else f"trunc({texts[0]}, {places})"
    return positive_zero(plain, call.type) if call.type.is_float else plain


def _trunc_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    unit = Fraction(10) ** -_places("trunc", args)
    if domains[0].step is not None and domains[0].step % unit == 0:
        return domains[0]
    return intervals.monotone(domains[0], lambda x: math.trunc(x / unit) * unit, unit)


ROWS = (
    Function("abs", _abs_typing, _abs_domain, _abs_text),
    Function("sign", _sign_typing, _sign_domain, lambda t, _call: f"sign({t[0]})"),
    Function("round", _round_typing, _round_domain, _round_text),
    _even("round_even"),
    _even("roundbankers"),
    _whole("floor", math.floor),
    _whole("ceil", math.ceil),
    _whole("ceiling", math.ceil),
    Function("trunc", _trunc_typing, _trunc_domain, _trunc_text),
)
