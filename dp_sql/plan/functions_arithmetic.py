"""The rows of + - * / // % and unary minus.

Integers and decimals widen so that no row can overflow; where DuckDB's widest type ends, a guard
gives NULL. What constants and casts can reach counts: `a + b + 1` of INTEGER columns is a BIGINT.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from dp_sql.plan import functions_calendar as calendar
from dp_sql.plan import intervals
from dp_sql.plan.conversion import cast, common_type, decimal_of, literal_decimal
from dp_sql.plan.domain import UNKNOWN, Domain
from dp_sql.plan.expression import Call, Cast, Expression, Literal
from dp_sql.plan.reach import combined, reach
from dp_sql.plan.signature import Args, Function, TypeProblem, arity, described
from dp_sql.plan.sql_text import canonical, literal, once, positive_zero
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import INTEGER_BITS, Kind, SqlType

_HUGE_LIMIT = float(2**127 - 2**77)  # three roundings of a DOUBLE below the end of HUGEINT


def _numbers(name: str, args: Args) -> None:
    arity(name, args, 2)
    for arg in args:
        if not arg.type.is_numeric and arg.type.kind is not Kind.NULL:
            raise TypeProblem(f"{name} takes numbers, not {described(arg.type)}")


def _ring_typing(name: str) -> Callable[[Args], tuple[Args, SqlType]]:
    """Return the typing of + - *."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        timed = calendar.arithmetic_typing(name, args)
        if timed is not None:
            return timed
        _numbers(name, args)
        shared = common_type(args[0].type, args[1].type)
        if shared.kind is Kind.NULL:
            shared = sqltype.INTEGER
        args = tuple(cast(arg, shared) if arg.type.kind is Kind.NULL else arg for arg in args)
        if shared.is_float:
            return tuple(cast(arg, shared) for arg in args), shared
        if shared.kind is Kind.DECIMAL:
            return _decimal_ring(name, args)
        return _integer_ring(name, args)

    return typing


def _integer_ring(name: str, args: Args) -> tuple[Args, SqlType]:
    ranges = [r for r in map(reach, args) if r is not None]
    result = combined(name, ranges)
    everything = [*ranges, result] if result is not None else ranges
    low, high = min(r[0] for r in everything), max(r[1] for r in everything)
    least, most = INTEGER_BITS[Kind.BIGINT]
    type_ = sqltype.BIGINT if result and least <= low and high <= most else sqltype.HUGEINT
    return tuple(cast(arg, type_) for arg in args), type_


def _decimal_ring(name: str, args: Args) -> tuple[Args, SqlType]:
    """Type a sum or product of decimals as DuckDB does, but past 18 digits without its check."""
    left, right = (literal_decimal(arg) for arg in args)
    if name == "*":
        one, two = left.type, right.type
        scale = one.scale + two.scale
        if scale > 38:
            return tuple(cast(arg, sqltype.DOUBLE) for arg in args), sqltype.DOUBLE
        if max(one.precision, two.precision) <= 18 < one.precision + two.precision:
            one = SqlType(Kind.DECIMAL, 19, one.scale)
        precision = min(38, one.precision + two.precision)
        return (cast(left, one), right), SqlType(Kind.DECIMAL, precision, scale)
    shared = common_type(left.type, right.type)
    if shared.precision == 18:
        shared = SqlType(Kind.DECIMAL, 19, shared.scale)
    result = SqlType(Kind.DECIMAL, min(38, shared.precision + 1), shared.scale)
    return (cast(left, shared), cast(right, shared)), result


def _may_be_infinite(expression: Expression) -> bool:
    match expression:
        case Literal():
            return False
        case Cast(operand=operand):
            return operand.type.is_float or operand.type.kind is Kind.VARCHAR
        case _:
            return True


def _ring_text(name: str) -> Callable[[tuple[str, ...], Call], str]:
    def text(texts: tuple[str, ...], call: Call) -> str:
        if calendar.is_temporal(call):
            return calendar.arithmetic_text(name, texts, call)
        a, b = texts
        plain = f"({a} {name} {b})"
        if call.type.is_float:
            return _float_ring(name, plain, call)
        if call.type.kind is Kind.DECIMAL:
            total = sum(arg.type.precision for arg in call.args) if name == "*" else 0
            widest = max(total, *(arg.type.precision + (name != "*") for arg in call.args))
            limit = 10.0 ** (38 - call.type.scale) * (1 - 1e-14)
            return plain if widest <= 38 else _guarded(name, a, b, limit)
        ranges = [r for r in map(reach, call.args) if r is not None]
        result = combined(name, ranges)
        low, high = INTEGER_BITS[call.type.kind]
        if result is not None and low <= result[0] and result[1] <= high:
            return plain
        return _guarded(name, a, b, _HUGE_LIMIT)

    return text


def _float_ring(name: str, plain: str, call: Call) -> str:
    """Make a float sum or product canonical, given that its operands are.

    inf - inf and 0 * inf are NaN, so both operands of a sum, or one of a product, are infinite.
    A sum of canonical numbers is never -0.0; a product may be.
    """
    infinite = [_may_be_infinite(arg) for arg in call.args]
    if name == "*":
        zero_constant = any(isinstance(a, Literal) and a.value == 0 for a in call.args)
        constant = any(isinstance(a, Literal) for a in call.args) and not zero_constant
        if constant or not any(infinite):
            return positive_zero(plain, call.type)
        return canonical(plain, call.type)
    return canonical(plain, call.type) if all(infinite) else plain


def _guarded(name: str, a: str, b: str, limit: float) -> str:
    """Return an exact operation of the widest type, NULL where the result may not fit.

    Claim:   the operation under the guard never overflows.
    Why:     the guard computes it in DOUBLE, off by three roundings at most; `limit` is further
             below the true limit than that.
    Assumes: DuckDB's CASE evaluates a branch on the rows of its condition only (tested).
    Source:  [IEEE754]
    """
    top = literal(limit, sqltype.DOUBLE)

    def body(x: str, y: str) -> str:
        guard = f"abs(CAST({x} AS DOUBLE) {name} CAST({y} AS DOUBLE)) < {top}"
        return f"(CASE WHEN {guard} THEN {x} {name} {y} END)"

    return once(a, lambda x: once(b, lambda y: body(x, y)))


def _ring_domain(
    name: str, rule: Callable[[Domain, Domain], Domain]
) -> Callable[[tuple[Domain, ...], Args], Domain]:
    def domain(domains: tuple[Domain, ...], args: Args) -> Domain:
        if any(calendar.is_time_type(arg.type) for arg in args):
            return calendar.arithmetic_domain(name, domains, args)
        return rule(*domains)

    return domain


def _quotient_typing(args: Args) -> tuple[Args, SqlType]:
    _numbers("/", args)
    shared = common_type(args[0].type, args[1].type)
    type_ = shared if shared.is_float else sqltype.DOUBLE
    return tuple(cast(arg, type_) for arg in args), type_


def _quotient_text(texts: tuple[str, ...], call: Call) -> str:
    """Return x / y: infinite where DuckDB says so, NULL for 0 / 0 and infinite over infinite."""
    plain = f"({texts[0]} / {texts[1]})"
    divisor = call.args[1]
    if isinstance(divisor, Literal) and divisor.value not in (None, 0):
        return positive_zero(plain, call.type)
    return canonical(plain, call.type)


def _whole_typing(args: Args) -> tuple[Args, SqlType]:
    """Type x // y: whole for integers; for other numbers DuckDB divides as / does."""
    _numbers("//", args)
    shared = common_type(args[0].type, args[1].type)
    if shared.is_integer:
        return _integer_ring("//", args)
    if shared.kind is Kind.NULL:
        return tuple(cast(arg, sqltype.BIGINT) for arg in args), sqltype.BIGINT
    type_ = shared if shared.is_float else sqltype.DOUBLE
    return tuple(cast(arg, type_) for arg in args), type_


def _whole_text(texts: tuple[str, ...], call: Call) -> str:
    divisor = call.args[1]
    constant = isinstance(divisor, Literal) and divisor.value not in (None, 0)
    if call.type.is_float:
        plain = f"({texts[0]} / {texts[1]})"
        if constant:
            return positive_zero(plain, call.type)
        zero = literal(0.0, call.type)
        quotient = once(texts[1], lambda y: f"(CASE WHEN {y} <> {zero} THEN {texts[0]} / {y} END)")
        return canonical(quotient, call.type)

    def body(x: str, y: str) -> str:
        if constant and divisor.value != -1:  # type: ignore[union-attr]
            return f"({x} // {y})"
        least = literal(INTEGER_BITS[call.type.kind][0], call.type)
        return (
            f"(CASE WHEN {y} = 0 THEN NULL WHEN {y} = -1 AND {x} = {least} THEN NULL"
            f" ELSE {x} // {y} END)"
        )

    return once(texts[0], lambda x: once(texts[1], lambda y: body(x, y)))


def _whole_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    if not args[0].type.is_integer:
        return _quotient_domain(domains, args)
    parts = [intervals.divide(domains[0], part) for part in intervals.without_zero(domains[1])]
    if not parts:
        return UNKNOWN
    return intervals.monotone(intervals.hull(parts), lambda x: Fraction(int(x)), Fraction(1))


def _quotient_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    return intervals.divide(*domains)


def _rest_typing(args: Args) -> tuple[Args, SqlType]:
    _numbers("%", args)
    shared = common_type(args[0].type, args[1].type)
    if shared.kind is Kind.NULL:
        shared = sqltype.BIGINT
    if shared.kind is Kind.DECIMAL:
        both = [decimal_of(arg.type) for arg in args if arg.type.kind is not Kind.NULL]
        if max(d.precision - d.scale for d in both) + shared.scale > 38:
            shared = sqltype.DOUBLE  # as DuckDB does
    return tuple(cast(arg, shared) for arg in args), shared


def _rest_text(texts: tuple[str, ...], call: Call) -> str:
    """Return x % y, with the sign of x; NULL where y is 0."""
    x, y = texts
    divisor = call.args[1]
    if isinstance(divisor, Literal) and divisor.value not in (None, 0):
        plain = f"({x} % {y})"
    else:
        plain = once(y, lambda d: f"(CASE WHEN {d} <> 0 THEN {x} % {d} END)")
    return canonical(plain, call.type)


def _rest_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    x, y = domains
    most = intervals.magnitude(y)
    step = intervals.common_step(x.step, y.step)
    if most is None:
        own = intervals.magnitude(x)
        return UNKNOWN if own is None else Domain(-own, own, step)
    low = Fraction(0) if x.low is not None and x.low >= 0 else -most
    high = Fraction(0) if x.high is not None and x.high <= 0 else most
    return Domain(low, high, step)


def _negate_typing(args: Args) -> tuple[Args, SqlType]:
    arity("-", args, 1)
    kind = args[0].type.kind
    if args[0].type.is_integer:
        return _integer_ring("negate", args)
    if kind is Kind.NULL:
        return (cast(args[0], sqltype.BIGINT),), sqltype.BIGINT
    if not args[0].type.is_numeric:
        raise TypeProblem(f"- takes a number, not {described(args[0].type)}")
    return args, args[0].type


def _negate_text(texts: tuple[str, ...], call: Call) -> str:
    (x,) = texts
    if call.type.is_float:
        return f"({literal(0.0, call.type)} - {x})"  # 0.0 - 0.0 is 0.0
    ranges = [r for r in map(reach, call.args) if r is not None]
    if ranges and -ranges[0][0] > INTEGER_BITS[call.type.kind][1]:
        least = literal(INTEGER_BITS[call.type.kind][0], call.type)
        return once(x, lambda v: f"(CASE WHEN {v} <> {least} THEN -{v} END)")
    return f"(-{x})"


def _negate_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    return intervals.negate(domains[0])


ROWS = (
    Function("+", _ring_typing("+"), _ring_domain("+", intervals.add), _ring_text("+")),
    Function("-", _ring_typing("-"), _ring_domain("-", intervals.subtract), _ring_text("-")),
    Function("*", _ring_typing("*"), _ring_domain("*", intervals.multiply), _ring_text("*")),
    Function("/", _quotient_typing, _quotient_domain, _quotient_text),
    Function("//", _whole_typing, _whole_domain, _whole_text),
    Function("%", _rest_typing, _rest_domain, _rest_text),
    Function("negate", _negate_typing, _negate_domain, _negate_text),
)
