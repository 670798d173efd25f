"""The rows of functions of JSON texts, by constant paths. A text that is no JSON gives NULL."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from dp_sql.plan.arguments import FARTHEST, as_texts, booleans, constant_texts, fixed
from dp_sql.plan.domain import UNKNOWN, Domain
from dp_sql.plan.expression import Call, Expression, Literal
from dp_sql.plan.signature import Args, Function, TypeProblem, arity
from dp_sql.plan.sql_text import once
from dp_sql.schema.sqltype import BOOLEAN, VARCHAR, Kind, SqlType

_UBIGINT = SqlType(Kind.UBIGINT)

# $.key."any key"[0][#-1], /key/0, or the name of one key; what holds a * gives lists
_PATH = re.compile(
    r"""\$(?:\.[A-Za-z_]\w*|\."[^"*\\\0]+"|\[\d{1,9}\]|\[\#-[1-9]\d{0,8}\])*"""
    r"""|(?:/[^/~*"\\\0]+)+|[^$/*"\\\0][^*"\\\0]*""",
    re.ASCII,
)


def _path(name: str, arg: Expression) -> None:
    """Raise TypeProblem unless an argument is a constant path that leads to one place."""
    value = arg.value if isinstance(arg, Literal) else None
    if type(value) is int and abs(value) <= FARTHEST and name.startswith("json_extract"):
        return
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        raise TypeProblem(f"{name} takes a constant path such as '$.key[0]' or 'key'")
    constant_texts(name, (arg,))


def _of_json(
    name: str,
    type_: SqlType,
    domain: Callable[[tuple[Domain, ...], Args], Domain],
    least: int = 1,
) -> Function:
    """Return a function of a JSON text and, where `least` is 2 or it is given, a path in it.

    Claim:   its text raises for no row.
    Why:     what isn't JSON is NULL before it is read, and TRY gives NULL for the rest.
    Assumes: TRY catches what these functions raise (measured, tried in the tests).
    Source:  [DuckDB2025]
    """

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, least, 2)
        for arg in args[1:]:
            _path(name, arg)
        return as_texts(name, args, 1), type_

    def text(texts: tuple[str, ...], _call: Call) -> str:
        return once(texts[0], lambda x: body(x, texts[1:]))

    def body(x: str, path: tuple[str, ...]) -> str:
        found = f"{name}({', '.join((x, *path))})"
        plain = f"CAST({found} AS VARCHAR)" if name == "json_extract" else found
        return f"(CASE WHEN json_valid({x}) THEN TRY({plain}) END)"

    return Function(name, typing, domain, text)


def _valid_typing(args: Args) -> tuple[Args, SqlType]:
    arity("json_valid", args, 1)
    return as_texts("json_valid", args, 1), BOOLEAN


def _unknown(_domains: tuple[Domain, ...], _args: Args) -> Domain:
    return UNKNOWN


ROWS = (
    Function("json_valid", _valid_typing, booleans, lambda t, _call: f"json_valid({t[0]})"),
    _of_json("json_extract", VARCHAR, _unknown, least=2),
    _of_json("json_extract_string", VARCHAR, _unknown, least=2),
    _of_json("json_type", VARCHAR, fixed(Domain(max_length=7))),
    _of_json("json_array_length", _UBIGINT, fixed(Domain(Fraction(0), None, Fraction(1)))),
    _of_json("json_exists", BOOLEAN, booleans, least=2),
)
