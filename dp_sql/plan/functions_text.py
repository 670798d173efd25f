"""The rows of functions of texts.

Offsets, lengths and patterns are constants: from a column DuckDB may raise, or take gigabytes. A
text that grows beyond LONGEST bytes is NULL, so that no row's value decides how much memory is used.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from dp_sql.plan.arguments import (
    LONGEST,
    LengthRule,
    as_texts,
    booleans,
    constant_texts,
    fixed,
    given_text,
    integer_of,
    text_domain,
    text_of,
    whole_constants,
    whole_numbers,
)
from dp_sql.plan.conversion import cast
from dp_sql.plan.domain import UNKNOWN, Domain
from dp_sql.plan.expression import Call, Literal
from dp_sql.plan.intervals import interval
from dp_sql.plan.signature import Args, Function, TypeProblem, arity
from dp_sql.plan.sql_text import once
from dp_sql.schema.sqltype import BIGINT, BOOLEAN, INTEGER, VARCHAR, SqlType

_WIDEST = 1_000  # characters that LPAD and RPAD may fill up to, and copies that REPEAT may make
_LAST_CHARACTER = 0x10FFFF


def _same_length(name: str) -> Function:
    """Return a function of one text that keeps its number of characters, or lessens it."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1)
        return as_texts(name, args, 1), VARCHAR

    return Function(
        name, typing, text_domain(lambda n, _args: n[0]), lambda t, _call: f"{name}({t[0]})"
    )


def _trim(name: str) -> Function:
    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1, 2)
        typed = as_texts(name, args, len(args))
        constant_texts(name, typed[1:])
        return typed, VARCHAR

    return Function(
        name, typing, text_domain(lambda n, _args: n[0]), lambda t, _call: f"{name}({', '.join(t)})"
    )


def _size(name: str, most_each: int) -> Function:
    """Return a function that counts parts of a text, at most `most_each` of each character."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1)
        return as_texts(name, args, 1), BIGINT

    def domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
        longest = domains[0].max_length
        high = None if longest is None else Fraction(longest * most_each)
        return Domain(Fraction(0), high, Fraction(1))

    return Function(name, typing, domain, lambda t, _call: f"{name}({t[0]})")


def _part(name: str, least: int, most: int, result: LengthRule) -> Function:
    """Return a function that takes a part of a text by constant numbers."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, least, most)
        whole_constants(name, args[1:])
        return (*as_texts(name, args[:1], 1), *(cast(arg, BIGINT) for arg in args[1:])), VARCHAR

    return Function(name, typing, text_domain(result), lambda t, _call: f"{name}({', '.join(t)})")


def _part_length(lengths: tuple[int | None, ...], args: Args) -> int | None:
    """Return the most characters of a part: what the last argument says, if it is given."""
    wanted = abs(integer_of(args[-1])) if len(args) > 2 else None
    known = [n for n in (lengths[0], wanted) if n is not None]
    return min(known, default=None)


def _side_length(lengths: tuple[int | None, ...], args: Args) -> int | None:
    """Return the most characters of LEFT or RIGHT; a negative number leaves that many out."""
    count = integer_of(args[1])
    if count < 0:
        return None if lengths[0] is None else max(0, lengths[0] + count)
    return count if lengths[0] is None else min(count, lengths[0])


def _search(name: str) -> Function:
    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 2)
        return as_texts(name, args, 2), BOOLEAN

    return Function(name, typing, booleans, lambda t, _call: f"{name}({t[0]}, {t[1]})")


def _joined_typing(name: str) -> Callable[[Args], tuple[Args, SqlType]]:
    """Return the typing of || and CONCAT, which write every type as a text."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        if name == "||":
            arity(name, args, 2)
        else:
            arity(name, args, 1, max(1, len(args)))
        return tuple(cast(arg, VARCHAR) for arg in args), VARCHAR

    return typing


def _total(lengths: tuple[int | None, ...], _args: Args) -> int | None:
    known = [n for n in lengths if n is not None]
    return sum(known) if len(known) == len(lengths) else None


def _joined_text(texts: tuple[str, ...], _call: Call) -> str:
    return once(
        texts[0],
        lambda x: once(
            texts[1],
            lambda y: f"(CASE WHEN strlen({x}) + strlen({y}) <= {LONGEST} THEN {x} || {y} END)",
        ),
    )


def _concat_text(texts: tuple[str, ...], _call: Call) -> str:
    """Return the texts that aren't NULL one after the other."""

    def join(done: tuple[str, ...], rest: tuple[str, ...]) -> str:
        if rest:
            return once(rest[0], lambda x: join((*done, x), rest[1:]))
        bytes_ = " + ".join(f"coalesce(strlen({x}), 0)" for x in done)
        return f"(CASE WHEN {bytes_} <= {LONGEST} THEN concat({', '.join(done)}) END)"

    return join((), texts)


def _replace_typing(args: Args) -> tuple[Args, SqlType]:
    arity("replace", args, 3)
    typed = as_texts("replace", args, 3)
    constant_texts("replace", typed[1:])
    return typed, VARCHAR


def _growth(args: Args) -> tuple[int, int] | None:
    """Return bytes that REPLACE looks for and writes instead, None where it can't grow a text."""
    old, new = (
        len(arg.value.encode()) if isinstance(arg, Literal) and isinstance(arg.value, str) else 0
        for arg in args[1:]
    )
    return (old, new) if 0 < old < new else None


def _replace_text(texts: tuple[str, ...], call: Call) -> str:
    x, old, new = texts
    growth = _growth(call.args)
    if growth is None:
        return f"replace({x}, {old}, {new})"
    limit = LONGEST * growth[0] // growth[1]
    return once(
        x, lambda v: f"(CASE WHEN strlen({v}) <= {limit} THEN replace({v}, {old}, {new}) END)"
    )


def _replace_domain(domains: tuple[Domain, ...], args: Args) -> Domain:
    longest = domains[0].max_length
    old, new = (
        len(arg.value) if isinstance(arg, Literal) and isinstance(arg.value, str) else 0
        for arg in args[1:]
    )
    if longest is None:
        return UNKNOWN
    if 0 < old < new:
        return Domain(max_length=longest // old * new + longest % old)
    return Domain(max_length=longest)


def _code(name: str, of_nothing: int) -> Function:
    """Return a function that gives the number of the first character; `of_nothing`: that of ''."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1)
        return as_texts(name, args, 1), INTEGER

    whole = interval(of_nothing, _LAST_CHARACTER)
    return Function(name, typing, fixed(whole), lambda t, _call: f"{name}({t[0]})")


def _chr_typing(args: Args) -> tuple[Args, SqlType]:
    arity("chr", args, 1)
    whole_numbers("chr", args)
    return (args[0] if args[0].type.is_integer else cast(args[0], INTEGER),), VARCHAR


def _chr_text(texts: tuple[str, ...], _call: Call) -> str:
    """Return the character of a number, NULL for one that no character has."""
    return once(
        texts[0],
        lambda x: (
            f"(CASE WHEN {x} BETWEEN 0 AND {_LAST_CHARACTER} AND NOT {x} BETWEEN {0xD800} AND {0xDFFF}"
            f" THEN chr(TRY_CAST({x} AS INTEGER)) END)"
        ),
    )


def _strpos_typing(args: Args) -> tuple[Args, SqlType]:
    arity("strpos", args, 2)
    return as_texts("strpos", args, 2), BIGINT


def _strpos_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    """Return 0 to the last place; '' is found at 1 also in ''."""
    longest = domains[0].max_length
    high = None if longest is None else Fraction(max(1, longest))
    return Domain(Fraction(0), high, Fraction(1))


def _pad(name: str) -> Function:
    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 3)
        whole_constants(name, args[1:2], 0, _WIDEST)
        if not given_text(name, args[2], "what it fills up with"):
            raise TypeProblem(f"{name} takes at least one character to fill up with")
        return (*as_texts(name, args[:1], 1), cast(args[1], INTEGER), args[2]), VARCHAR

    return Function(
        name,
        typing,
        text_domain(lambda _lengths, args: integer_of(args[1])),
        lambda t, _call: f"{name}({', '.join(t)})",
    )


def _repeat_typing(args: Args) -> tuple[Args, SqlType]:
    arity("repeat", args, 2)
    whole_constants("repeat", args[1:], 0, _WIDEST)
    return (*as_texts("repeat", args[:1], 1), cast(args[1], BIGINT)), VARCHAR


def _repeat_text(texts: tuple[str, ...], call: Call) -> str:
    copies = integer_of(call.args[1])
    limit = LONGEST // max(1, copies)
    return once(
        texts[0], lambda x: f"(CASE WHEN strlen({x}) <= {limit} THEN repeat({x}, {texts[1]}) END)"
    )


def _repeat_length(lengths: tuple[int | None, ...], args: Args) -> int | None:
    return None if lengths[0] is None else lengths[0] * integer_of(args[1])


def _split_typing(args: Args) -> tuple[Args, SqlType]:
    arity("split_part", args, 3)
    given_text("split_part", args[1], "what separates the parts")
    whole_constants("split_part", args[2:])
    return (*as_texts("split_part", args[:2], 2), cast(args[2], BIGINT)), VARCHAR


def _translate_typing(args: Args) -> tuple[Args, SqlType]:
    arity("translate", args, 3)
    for arg in args[1:]:
        given_text("translate", arg, "the characters")
    return as_texts("translate", args, 3), VARCHAR


def _separated_typing(args: Args) -> tuple[Args, SqlType]:
    arity("concat_ws", args, 2, max(2, len(args)))
    given_text("concat_ws", args[0], "what stands between the texts")
    return tuple(cast(arg, VARCHAR) for arg in args), VARCHAR


def _separated_text(texts: tuple[str, ...], call: Call) -> str:
    """Return the texts that aren't NULL, separated."""
    between = len(text_of(call.args[0]).encode()) * (len(texts) - 2)

    def join(done: tuple[str, ...], rest: tuple[str, ...]) -> str:
        if rest:
            return once(rest[0], lambda x: join((*done, x), rest[1:]))
        bytes_ = " + ".join(f"coalesce(strlen({x}), 0)" for x in done)
        inner = ", ".join((texts[0], *done))
        return f"(CASE WHEN {bytes_} <= {LONGEST - between} THEN concat_ws({inner}) END)"

    return join((), texts[1:])


def _separated_length(lengths: tuple[int | None, ...], args: Args) -> int | None:
    total = _total(lengths[1:], args[1:])
    return None if total is None else total + len(text_of(args[0])) * (len(args) - 2)


def _made(name: str, length: int | None) -> Function:
    """Return a function of one text that gives one of `length` characters, None if it varies."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1)
        return as_texts(name, args, 1), VARCHAR

    return Function(
        name, typing, fixed(Domain(max_length=length)), lambda t, _call: f"{name}({t[0]})"
    )


ROWS = (
    *(_same_length(name) for name in ("lower", "upper")),
    *(_trim(name) for name in ("trim", "ltrim", "rtrim")),
    _same_length("reverse"),
    _size("length", 1),
    _size("length_grapheme", 1),
    _size("strlen", 4),
    _size("bit_length", 32),
    _part("substring", 2, 3, _part_length),
    _part("substr", 2, 3, _part_length),
    _part("left", 2, 2, _side_length),
    _part("right", 2, 2, _side_length),
    _part("substring_grapheme", 2, 3, lambda n, _args: n[0]),  # one has any number of characters
    *(_part(name, 2, 2, lambda n, _args: n[0]) for name in ("left_grapheme", "right_grapheme")),
    *(_search(name) for name in ("starts_with", "ends_with", "contains")),
    Function("||", _joined_typing("||"), text_domain(_total), _joined_text),
    Function("concat", _joined_typing("concat"), text_domain(_total), _concat_text),
    Function("replace", _replace_typing, _replace_domain, _replace_text),
    _code("ascii", 0),
    _code("unicode", -1),
    Function("chr", _chr_typing, fixed(Domain(max_length=1)), _chr_text),
    Function("strpos", _strpos_typing, _strpos_domain, lambda t, _call: f"strpos({t[0]}, {t[1]})"),
    _pad("lpad"),
    _pad("rpad"),
    Function("repeat", _repeat_typing, text_domain(_repeat_length), _repeat_text),
    Function(
        "split_part",
        _split_typing,
        text_domain(lambda n, _args: n[0]),
        lambda t, _call: f"split_part({', '.join(t)})",
    ),
    Function(
        "translate",
        _translate_typing,
        text_domain(lambda n, _args: n[0]),
        lambda t, _call: f"translate({', '.join(t)})",
    ),
    Function("concat_ws", _separated_typing, text_domain(_separated_length), _separated_text),
    _made("md5", 32),
    _made("sha1", 40),
    _made("sha256", 64),
    _made("nfc_normalize", None),
    _made("strip_accents", None),
)
