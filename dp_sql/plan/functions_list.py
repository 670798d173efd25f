"""The rows of functions of a list of constants: which values it holds, and where."""

from __future__ import annotations

from fractions import Fraction

from dp_sql.plan import intervals
from dp_sql.plan.arguments import booleans, whole_numbers
from dp_sql.plan.conversion import cast, chosen_type, is_null, unify
from dp_sql.plan.domain import UNKNOWN, Domain
from dp_sql.plan.expression import Call, Literal, LiteralValue
from dp_sql.plan.signature import Args, Function, TypeProblem, arity
from dp_sql.schema.sqltype import BIGINT, BOOLEAN, INTEGER, SqlType

_MOST = 10_000  # values of a list


def _constants(name: str, args: Args) -> None:
    """Raise TypeProblem unless all arguments but the first, the list, are constants."""
    arity(name, args, 2, _MOST)
    if not all(isinstance(arg, Literal) for arg in args[1:]):
        raise TypeProblem(f"{name} takes a list of constants")


def _listed(name: str, type_: SqlType) -> Function:
    """Return a function of a value and a list: the first argument, and all others."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        _constants(name, args)
        return unify(args, what=name)[0], type_

    def domain(domains: tuple[Domain, ...], args: Args) -> Domain:
        if type_ == BOOLEAN:
            return booleans(domains, args)
        return Domain(Fraction(1), Fraction(len(args) - 1), Fraction(1))

    return Function(name, typing, domain, lambda t, _call: f"{name}([{', '.join(t[1:])}], {t[0]})")


def _extract_typing(args: Args) -> tuple[Args, SqlType]:
    """Type the value at a place, counted from 1, or from the end by a negative number."""
    _constants("list_extract", args)
    whole_numbers("list_extract", args[:1])
    values, type_ = unify(args[1:], what="list_extract", meet=chosen_type)
    return (cast(args[0], BIGINT), *values), type_


def _extract_text(texts: tuple[str, ...], _call: Call) -> str:
    return f"list_extract([{', '.join(texts[1:])}], {texts[0]})"


def _extract_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    kept = [d for d, arg in zip(domains[1:], args[1:], strict=True) if not is_null(arg)]
    return intervals.hull(kept) if kept else UNKNOWN


def _extract_values(args: Args) -> tuple[LiteralValue, ...] | None:
    """Return the list, where each of its values is a constant of the type of them all."""
    listed = [arg.value for arg in args[1:] if isinstance(arg, Literal)]
    return tuple(listed) if len(listed) == len(args) - 1 else None


ROWS = (
    _listed("list_contains", BOOLEAN),
    _listed("list_position", INTEGER),
    Function("list_extract", _extract_typing, _extract_domain, _extract_text, _extract_values),
)
