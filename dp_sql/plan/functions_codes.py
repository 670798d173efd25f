"""The rows of functions that write a value in another code: hexadecimal, binary, for URLs, hashed.

A text grows by these, so that a long one gives NULL (`arguments.LONGEST`).
"""

from __future__ import annotations

from fractions import Fraction

from dp_sql.plan.arguments import LONGEST, as_texts, fixed, whole_numbers
from dp_sql.plan.conversion import cast
from dp_sql.plan.domain import UNKNOWN, Domain
from dp_sql.plan.expression import Call
from dp_sql.plan.intervals import interval
from dp_sql.plan.signature import Args, Function, arity
from dp_sql.plan.sql_text import once
from dp_sql.schema.sqltype import BIGINT, INTEGER_BITS, VARCHAR, Kind, SqlType

_CHARACTER = 4  # bytes of a character at most
_UBIGINT = SqlType(Kind.UBIGINT)


def _shorter(name: str, growth: int, text: str) -> str:
    """Return a call over a text, NULL for one that `growth` bytes for each make too long."""
    limit = LONGEST // growth
    return once(text, lambda x: f"(CASE WHEN strlen({x}) <= {limit} THEN {name}({x}) END)")


def _digits(name: str, growth: int) -> Function:
    """Return HEX or BIN, with `growth` digits a byte: of a text, or of the bits of a whole number."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1)
        if args[0].type.kind is Kind.VARCHAR:
            return args, VARCHAR
        whole_numbers(name, args)
        wide = args[0].type.kind in (Kind.HUGEINT, Kind.UBIGINT)
        return (args if wide else tuple(cast(arg, BIGINT) for arg in args)), VARCHAR

    def domain(domains: tuple[Domain, ...], args: Args) -> Domain:
        if args[0].type.kind is Kind.VARCHAR:
            longest = domains[0].max_length
            return Domain(max_length=None if longest is None else longest * growth * _CHARACTER)
        least, most = INTEGER_BITS[args[0].type.kind]
        return Domain(max_length=(most - least).bit_length() // 8 * growth)

    def text(texts: tuple[str, ...], call: Call) -> str:
        if call.args[0].type.kind is Kind.VARCHAR:
            return _shorter(name, growth, texts[0])
        return f"{name}({texts[0]})"

    return Function(name, typing, domain, text)


def _encoded(args: Args) -> tuple[Args, SqlType]:
    arity("url_encode", args, 1)
    return as_texts("url_encode", args, 1), VARCHAR


def _encoded_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    longest = domains[0].max_length
    return UNKNOWN if longest is None else Domain(max_length=longest * 3 * _CHARACTER)


def _hashed(name: str) -> Function:
    """Return a half of the MD5 of a text as a number."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1)
        return as_texts(name, args, 1), _UBIGINT

    whole = interval(0, INTEGER_BITS[Kind.UBIGINT][1], Fraction(1))
    return Function(name, typing, fixed(whole), lambda t, _call: f"{name}({t[0]})")


ROWS = (
    _digits("hex", 2),
    _digits("bin", 8),
    Function(
        "url_encode", _encoded, _encoded_domain, lambda t, _call: _shorter("url_encode", 3, t[0])
    ),
    _hashed("md5_number_lower"),
    _hashed("md5_number_upper"),
)
