"""The rows of comparisons, of SQL's logic of three values, and of what chooses among values."""

from __future__ import annotations

from collections.abc import Callable

from dp_sql.plan import intervals
from dp_sql.plan.arguments import booleans
from dp_sql.plan.conversion import (
    cast,
    chosen_type,
    common_type,
    is_null,
    position,
    read,
    unify,
)
from dp_sql.plan.domain import UNKNOWN, Domain
from dp_sql.plan.expression import Call, Literal
from dp_sql.plan.signature import Args, Function, TypeProblem, arity, described
from dp_sql.plan.sql_text import cast_text, once
from dp_sql.schema.sqltype import BOOLEAN, Kind, SqlType


def _comparison(name: str, operator: str) -> Function:
    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 2)
        return unify(args, what=name)[0], BOOLEAN

    return Function(name, typing, booleans, lambda t, _call: f"({t[0]} {operator} {t[1]})")


def _between() -> Function:
    def typing(args: Args) -> tuple[Args, SqlType]:
        arity("BETWEEN", args, 3)
        return unify(args, what="BETWEEN")[0], BOOLEAN

    return Function(
        "between", typing, booleans, lambda t, _call: f"({t[0]} BETWEEN {t[1]} AND {t[2]})"
    )


def _in() -> Function:
    def typing(args: Args) -> tuple[Args, SqlType]:
        if len(args) < 2:
            raise TypeProblem("IN takes at least one value")
        if not all(isinstance(arg, Literal) for arg in args[1:]):
            raise TypeProblem("IN takes a list of constants; write OR for anything else")
        return unify(args, what="IN")[0], BOOLEAN

    return Function("in", typing, booleans, lambda t, _call: f"({t[0]} IN ({', '.join(t[1:])}))")


def _null_test(name: str, words: str) -> Function:
    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(words, args, 1)
        return args, BOOLEAN

    return Function(name, typing, booleans, lambda t, _call: f"({t[0]} {words})")


def condition(what: str, args: Args) -> Args:
    """Return the arguments as conditions. Raises TypeProblem for one that isn't true or false."""
    for arg in args:
        if arg.type.kind not in (Kind.BOOLEAN, Kind.NULL):
            raise TypeProblem(f"{what} takes conditions, not {described(arg.type)}")
    return tuple(cast(arg, BOOLEAN) for arg in args)


def _connective(name: str) -> Function:
    word = name.upper()

    def typing(args: Args) -> tuple[Args, SqlType]:
        if len(args) < 2:
            raise TypeProblem(f"{word} takes at least 2 conditions")
        return condition(word, args), BOOLEAN

    return Function(name, typing, booleans, lambda t, _call: f"({f' {word} '.join(t)})")


def _not_typing(args: Args) -> tuple[Args, SqlType]:
    arity("NOT", args, 1)
    return condition("NOT", args), BOOLEAN


def _chosen(domains: tuple[Domain, ...], args: Args) -> Domain:
    """Return the hull of the arguments; a constant NULL adds nothing."""
    kept = [d for d, arg in zip(domains, args, strict=True) if not is_null(arg)]
    return intervals.hull(kept) if kept else UNKNOWN


def _choice(
    name: str, least: int, most: int | None, domain: Callable[[tuple[Domain, ...], Args], Domain]
) -> Function:
    """Return a function whose value is one of its arguments, all of one type."""
    word = "COALESCE" if name == "ifnull" else name.upper()

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, least, most or max(len(args), least))
        return unify(args, what=name, meet=chosen_type)

    return Function(name, typing, domain, lambda t, _call: f"{word}({', '.join(t)})")


def _extreme_domain(*, largest: bool) -> Callable[[tuple[Domain, ...], Args], Domain]:
    """Return the rule of GREATEST or LEAST, which pass over NULL.

    The hull of all, cut by the constants: they are never passed over.
    """

    def domain(domains: tuple[Domain, ...], args: Args) -> Domain:
        result = _chosen(domains, args)
        low, high = result.low, result.high
        for constant in (position(arg) for arg in args):
            if constant is None:
                continue
            if largest:
                low = constant if low is None else max(low, constant)
            else:
                high = constant if high is None else min(high, constant)
        return Domain(low, high, result.step, result.max_length)

    return domain


def _nullif_typing(args: Args) -> tuple[Args, SqlType]:
    arity("nullif", args, 2)
    second = read(args[1], args[0].type)
    try:
        common_type(args[0].type, second.type)
    except TypeProblem as problem:
        raise TypeProblem(f"nullif: {problem}") from None
    return (args[0], second), args[0].type


def _nullif_text(texts: tuple[str, ...], call: Call) -> str:
    first, second = (arg.type for arg in call.args)
    shared = common_type(first, second)
    other = cast_text(texts[1], second, shared)
    return once(
        texts[0],
        lambda x: f"(CASE WHEN {cast_text(x, first, shared)} = {other} THEN NULL ELSE {x} END)",
    )


def _nullif_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    """Return the first domain; without 0, where that is taken out of whole steps from one end."""
    first, second = domains
    if (
        second.low != 0
        or second.high != 0
        or first.step is None
        or not isinstance(args[1], Literal)
    ):
        return first
    if first.low == 0 and (first.high is None or first.high >= first.step):
        return Domain(first.step, first.high, first.step)
    if first.high == 0 and (first.low is None or first.low <= -first.step):
        return Domain(first.low, -first.step, first.step)
    return first


def _clamp_typing(args: Args) -> tuple[Args, SqlType]:
    arity("clamp", args, 3)
    if not all(isinstance(arg, Literal) and arg.value is not None for arg in args[1:]):
        raise TypeProblem("clamp takes constant bounds; use LEAST and GREATEST for others")
    typed, type_ = unify(args, what="clamp")
    if not type_.is_numeric and type_.kind not in (Kind.DATE, Kind.TIMESTAMP):
        raise TypeProblem(f"clamp takes a number, a date or a timestamp, not {described(type_)}")
    low, high = position(typed[1]), position(typed[2])
    if low is None or high is None or low > high:
        raise TypeProblem("clamp takes a lower bound that is at most its upper bound")
    return typed, type_


def _clamp_text(texts: tuple[str, ...], _call: Call) -> str:
    low, high = texts[1:]
    return once(
        texts[0],
        lambda x: f"(CASE WHEN {x} < {low} THEN {low} WHEN {x} > {high} THEN {high} ELSE {x} END)",
    )


def _clamp_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    value, low, high = domains
    step = intervals.common_step(value.step, intervals.common_step(low.step, high.step))
    return intervals.intersect(Domain(low.low, high.high, step), value)


def _if_typing(args: Args) -> tuple[Args, SqlType]:
    arity("if", args, 3)
    values, type_ = unify(args[1:], what="if", meet=chosen_type)
    return (*condition("if", args[:1]), *values), type_


def _if_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    return _chosen(domains[1:], args[1:])


ROWS = (
    *(_comparison(name, name) for name in ("=", "<>", "<", "<=", ">", ">=")),
    _comparison("is_distinct_from", "IS DISTINCT FROM"),
    _comparison("is_not_distinct_from", "IS NOT DISTINCT FROM"),
    _between(),
    _in(),
    _null_test("is_null", "IS NULL"),
    _null_test("is_not_null", "IS NOT NULL"),
    _connective("and"),
    _connective("or"),
    Function("not", _not_typing, booleans, lambda t, _call: f"(NOT {t[0]})"),
    _choice("coalesce", 1, None, _chosen),
    _choice("ifnull", 2, 2, _chosen),
    _choice("least", 1, None, _extreme_domain(largest=False)),
    _choice("greatest", 1, None, _extreme_domain(largest=True)),
    Function("nullif", _nullif_typing, _nullif_domain, _nullif_text),
    Function("clamp", _clamp_typing, _clamp_domain, _clamp_text),
    Function(
        "if",
        _if_typing,
        _if_domain,
        lambda t, _call: f"(CASE WHEN {t[0]} THEN {t[1]} ELSE {t[2]} END)",
    ),
)
