"""The rows of functions of texts.

Offsets, lengths and patterns are constants: from a column DuckDB may raise, or take gigabytes. A
text that grows beyond LONGEST bytes is NULL, so that no row's value decides how much memory is used.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from dp_sql.plan.conversion import cast
from dp_sql.plan.domain import BOOLEANS, UNKNOWN, Domain
from dp_sql.plan.expression import Call, Literal
from dp_sql.plan.signature import Args, Function, TypeProblem, arity, described
from dp_sql.plan.sql_text import once
from dp_sql.schema.sqltype import BIGINT, BOOLEAN, VARCHAR, Kind, SqlType

LONGEST = 10_000  # bytes of a text that || CONCAT and REPLACE may make
_LONGEST_PATTERN = 1_000  # characters of a constant pattern
_FARTHEST = 2**31 - 1  # offset or length in SUBSTRING, LEFT and RIGHT

_LengthRule = Callable[[tuple[int | None, ...], Args], int | None]


def _texts(name: str, args: Args, count: int) -> Args:
    """Return the first `count` arguments as texts, the others as they are."""
    for arg in args[:count]:
        if arg.type.kind not in (Kind.VARCHAR, Kind.NULL):
            raise TypeProblem(f"{name} takes a text, not {described(arg.type)}")
    return (*(cast(arg, VARCHAR) for arg in args[:count]), *args[count:])


def _constant_texts(name: str, args: Args) -> None:
    for arg in args:
        if not isinstance(arg, Literal):
            raise TypeProblem(f"{name} takes a constant text here")
        if isinstance(arg.value, str) and len(arg.value) > _LONGEST_PATTERN:
            raise TypeProblem(f"{name} takes a text of at most {_LONGEST_PATTERN} characters here")


def _whole_constant(name: str, args: Args) -> None:
    for arg in args:
        value = arg.value if isinstance(arg, Literal) else None
        if type(value) is not int or abs(value) > _FARTHEST:
            raise TypeProblem(f"{name} takes a constant whole number up to {_FARTHEST} here")


def _integer(arg: Literal | object) -> int:
    assert isinstance(arg, Literal) and type(arg.value) is int  # noqa: S101, PT018  (typed)
    return arg.value


def _as_text(result: _LengthRule) -> Callable[[tuple[Domain, ...], Args], Domain]:
    def domain(domains: tuple[Domain, ...], args: Args) -> Domain:
        return Domain(max_length=result(tuple(d.max_length for d in domains), args))

    return domain


def _booleans(_domains: tuple[Domain, ...], _args: Args) -> Domain:
    return BOOLEANS


def _same_length(name: str) -> Function:
    """Return a function of one text that keeps its number of characters."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1)
        return _texts(name, args, 1), VARCHAR

    return Function(
        name, typing, _as_text(lambda n, _args: n[0]), lambda t, _call: f"{name}({t[0]})"
    )


def _trim(name: str) -> Function:
    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1, 2)
        typed = _texts(name, args, len(args))
        _constant_texts(name, typed[1:])
        return typed, VARCHAR

    return Function(
        name, typing, _as_text(lambda n, _args: n[0]), lambda t, _call: f"{name}({', '.join(t)})"
    )


def _length_typing(args: Args) -> tuple[Args, SqlType]:
    arity("length", args, 1)
    return _texts("length", args, 1), BIGINT


def _length_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    longest = domains[0].max_length
    return Domain(Fraction(0), None if longest is None else Fraction(longest), Fraction(1))


def _part(name: str, least: int, most: int, result: _LengthRule) -> Function:
    """Return a function that takes a part of a text by constant numbers."""

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, least, most)
        _whole_constant(name, args[1:])
        return (*_texts(name, args[:1], 1), *(cast(arg, BIGINT) for arg in args[1:])), VARCHAR

    return Function(name, typing, _as_text(result), lambda t, _call: f"{name}({', '.join(t)})")


def _part_length(lengths: tuple[int | None, ...], args: Args) -> int | None:
    """Return the most characters of a part: what the last argument says, if it is given."""
    wanted = abs(_integer(args[-1])) if len(args) > 2 else None
    known = [n for n in (lengths[0], wanted) if n is not None]
    return min(known, default=None)


def _side_length(lengths: tuple[int | None, ...], args: Args) -> int | None:
    """Return the most characters of LEFT or RIGHT; a negative number leaves that many out."""
    count = _integer(args[1])
    if count < 0:
        return None if lengths[0] is None else max(0, lengths[0] + count)
    return count if lengths[0] is None else min(count, lengths[0])


def _search(name: str) -> Function:
    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 2)
        return _texts(name, args, 2), BOOLEAN

    return Function(name, typing, _booleans, lambda t, _call: f"{name}({t[0]}, {t[1]})")


def _like(name: str) -> Function:
    word = name.upper()

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(word, args, 2)
        typed = _texts(word, args, 2)
        _constant_texts(word, typed[1:])
        return typed, BOOLEAN

    return Function(name, typing, _booleans, lambda t, _call: f"({t[0]} {word} {t[1]})")


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
    typed = _texts("replace", args, 3)
    _constant_texts("replace", typed[1:])
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


ROWS = (
    *(_same_length(name) for name in ("lower", "upper")),
    *(_trim(name) for name in ("trim", "ltrim", "rtrim")),
    Function("length", _length_typing, _length_domain, lambda t, _call: f"length({t[0]})"),
    _part("substring", 2, 3, _part_length),
    _part("substr", 2, 3, _part_length),
    _part("left", 2, 2, _side_length),
    _part("right", 2, 2, _side_length),
    *(_search(name) for name in ("starts_with", "ends_with", "contains")),
    _like("like"),
    _like("ilike"),
    Function("||", _joined_typing("||"), _as_text(_total), _joined_text),
    Function("concat", _joined_typing("concat"), _as_text(_total), _concat_text),
    Function("replace", _replace_typing, _replace_domain, _replace_text),
)
