"""The rows of functions of real numbers: logarithms, trigonometry, roots, and what a DOUBLE is."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dp_sql.plan import intervals
from dp_sql.plan.arguments import booleans, fixed, numbers
from dp_sql.plan.conversion import cast, position
from dp_sql.plan.domain import UNKNOWN, Domain
from dp_sql.plan.expression import Call, Literal
from dp_sql.plan.intervals import interval
from dp_sql.plan.signature import Args, Function, TypeProblem, arity
from dp_sql.plan.sql_text import canonical, literal, once, positive_zero
from dp_sql.schema.sqltype import BOOLEAN, DOUBLE, SqlType

_HALF_TURN = Fraction(math.pi)  # rounded; intervals of it are widened
_Rule = Callable[[Domain], Domain]


def _doubles(name: str, count: int) -> Callable[[Args], tuple[Args, SqlType]]:
    """Return the typing of a function of numbers that DuckDB computes as DOUBLE."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, count)
        numbers(name, args)
        return tuple(cast(arg, DOUBLE) for arg in args), DOUBLE

    return typing


def _real(name: str, domain: _Rule, text: Callable[[str], str] | None = None) -> Function:
    """Return a function of one DOUBLE; where it has no value it is NULL.

    text: from the text of a canonical argument to one that is canonical.
    """

    def plain(x: str) -> str:
        return canonical(f"{name}({x})", DOUBLE)

    return Function(
        name,
        _doubles(name, 1),
        lambda d, _args: domain(d[0]),
        lambda t, _call: (text or plain)(t[0]),
    )


def _unknown(_x: Domain) -> Domain:
    return UNKNOWN


def _between(low: Fraction | int, high: Fraction | int) -> _Rule:
    found = intervals.widened(interval(low, high, None))
    return lambda _x: found


def _rising(
    function: Callable[[float], float], least: Fraction | None = None, most: Fraction | None = None
) -> _Rule:
    """Return the domain of a function that never falls, whose values lie from `least` to `most`."""

    def domain(x: Domain) -> Domain:
        image = intervals.monotone(x, lambda v: intervals.real(function, v))
        low = least if image.low is None else image.low
        high = most if image.high is None else image.high
        return intervals.widened(Domain(low, high))

    return domain


def _sqrt_domain(x: Domain) -> Domain:
    if x.high is not None and x.high < 0:
        return UNKNOWN
    low = Fraction(0) if x.low is None or x.low < 0 else x.low
    return _rising(math.sqrt)(Domain(low, x.high))


def _sqrt_text(text: str) -> str:
    return once(text, lambda x: f"(CASE WHEN {x} >= 0 THEN sqrt({x}) END)")


def _cosh_domain(x: Domain) -> Domain:
    most = intervals.magnitude(x)
    top = None if most is None else intervals.real(math.cosh, most)
    return intervals.widened(Domain(Fraction(1), top))


def _even_domain(x: Domain) -> Domain:
    return intervals.monotone(x, lambda v: 2 * _away(v / 2))


def _away(value: Fraction) -> Fraction:
    return Fraction(math.floor(value) if value < 0 else math.ceil(value))


def _logarithm_text(name: str) -> Callable[[str], str]:
    def body(x: str) -> str:
        minus_infinity = literal(float("-inf"), DOUBLE)
        return (
            f"(CASE WHEN {x} > 0 THEN {positive_zero(f'{name}({x})', DOUBLE)}"
            f" WHEN {x} = 0 THEN {minus_infinity} END)"
        )

    return lambda text: once(text, body)


def _logarithm(name: str, function: Callable[[float], float]) -> Function:
    return _real(name, _rising(function), _logarithm_text(name))


def _log_typing(args: Args) -> tuple[Args, SqlType]:
    """Type log(x), of base 10, and log(base, x)."""
    arity("log", args, 1, 2)
    numbers("log", args)
    base = position(args[0]) if isinstance(args[0], Literal) else None
    if len(args) > 1 and (base is None or base <= 0 or base == 1):
        raise TypeProblem("log takes a constant base above 0 that isn't 1")
    return tuple(cast(arg, DOUBLE) for arg in args), DOUBLE


def _log_text(texts: tuple[str, ...], _call: Call) -> str:
    if len(texts) == 1:
        return _logarithm_text("log")(texts[0])
    return canonical(f"log({texts[0]}, {texts[1]})", DOUBLE)


def _log_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    if len(args) == 1:
        return _rising(math.log10)(domains[0])
    base = position(args[0])
    assert base is not None  # noqa: S101  (typed)
    if base > 1:
        return _rising(lambda x: math.log10(x) / math.log10(float(base)))(domains[1])
    falling = _rising(lambda x: -math.log10(x) / math.log10(float(base)))(domains[1])
    return intervals.negate(falling)


def _power(name: str) -> Function:
    def text(texts: tuple[str, ...], _call: Call) -> str:
        return canonical(f"pow({texts[0]}, {texts[1]})", DOUBLE)

    return Function(name, _doubles(name, 2), _power_domain, text)


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


def _of_two(name: str, domain: Callable[[tuple[Domain, ...], Args], Domain]) -> Function:
    def text(texts: tuple[str, ...], _call: Call) -> str:
        return canonical(f"{name}({texts[0]}, {texts[1]})", DOUBLE)

    return Function(name, _doubles(name, 2), domain, text)


def _fmod_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    """Return the domain of x - y * floor(x / y), which lies between 0 and y."""
    y = domains[1]
    return Domain(
        None if y.low is None else min(y.low, Fraction(0)),
        None if y.high is None else max(y.high, Fraction(0)),
    )


def _kind(name: str) -> Function:
    """Return a test of what a DOUBLE is."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        return _doubles(name, 1)(args)[0], BOOLEAN

    return Function(name, typing, booleans, lambda t, _call: f"{name}({t[0]})")


def _pi_typing(args: Args) -> tuple[Args, SqlType]:
    arity("pi", args, 0)
    return args, DOUBLE


_QUARTER = _HALF_TURN / 2

ROWS = (
    _real("sqrt", _sqrt_domain, _sqrt_text),
    _real("cbrt", _rising(math.cbrt)),
    _logarithm("ln", math.log),
    Function("log", _log_typing, _log_domain, _log_text),
    _logarithm("log10", math.log10),
    _logarithm("log2", math.log2),
    _real("exp", _rising(math.exp, Fraction(0)), lambda x: f"exp({x})"),
    _power("power"),
    _power("pow"),
    _real("sin", _between(-1, 1)),
    _real("cos", _between(-1, 1)),
    _real("tan", _unknown),
    _real("cot", _unknown),
    _real("asin", _between(-_QUARTER, _QUARTER)),
    _real("acos", _between(0, _HALF_TURN)),
    _real("atan", _rising(math.atan, -_QUARTER, _QUARTER)),
    _of_two("atan2", fixed(_between(-_HALF_TURN, _HALF_TURN)(UNKNOWN))),
    _real("sinh", _rising(math.sinh)),
    _real("cosh", _cosh_domain),
    _real("tanh", _rising(math.tanh, Fraction(-1), Fraction(1))),
    _real("asinh", _rising(math.asinh)),
    _real("acosh", _rising(math.acosh, Fraction(0))),
    _real("atanh", _rising(math.atanh)),
    _real("degrees", _rising(math.degrees)),
    _real("radians", _rising(math.radians)),
    _real("gamma", _unknown),
    _real("lgamma", _unknown),
    _real("even", _even_domain),
    _of_two("fmod", _fmod_domain),
    _kind("isfinite"),
    _kind("isinf"),
    Function(
        "pi",
        _pi_typing,
        fixed(intervals.widened(interval(_HALF_TURN, _HALF_TURN, None))),
        lambda _t, _call: "pi()",
    ),
)
