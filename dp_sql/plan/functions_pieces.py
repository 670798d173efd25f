"""The rows of functions of the pieces of a text: what separators or a pattern part it into, paths.

DuckDB makes a list of all pieces first, many times as large as the text: a text of more than LONGEST
bytes gives NULL, so that no row's value decides how much memory is used.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from dp_sql.plan.arguments import (
    LONGEST,
    as_texts,
    booleans,
    given_pattern,
    given_text,
    integer_of,
    text_domain,
    text_of,
    whole_constants,
)
from dp_sql.plan.conversion import cast
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Call, Literal
from dp_sql.plan.signature import Args, Function, TypeProblem, arity
from dp_sql.plan.sql_text import once
from dp_sql.schema.sqltype import BIGINT, BOOLEAN, VARCHAR, SqlType

_SPLIT = "string_split"
_SEPARATORS = ("both_slash", "forward_slash", "backslash")


def _short(body: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: once(
        text, lambda x: f"(CASE WHEN strlen({x}) <= {LONGEST} THEN {body(x)} END)"
    )


def _count_domain(domains: tuple[Domain, ...], _args: Args) -> Domain:
    """Return 0 to one more than there are characters."""
    longest = domains[0].max_length
    return Domain(Fraction(0), None if longest is None else Fraction(longest + 1), Fraction(1))


def _separated(args: Args, count: int) -> None:
    arity(_SPLIT, args, count)
    given_text(_SPLIT, args[1], "what separates the parts")


def _item_typing(args: Args) -> tuple[Args, SqlType]:
    _separated(args, 3)
    whole_constants(_SPLIT, args[2:])
    return (*as_texts(_SPLIT, args[:2], 2), cast(args[2], BIGINT)), VARCHAR


def _item_text(texts: tuple[str, ...], _call: Call) -> str:
    """Return one of the parts of a text, NULL where there are fewer."""
    return _short(lambda x: f"list_extract({_SPLIT}({x}, {texts[1]}), {texts[2]})")(texts[0])


def _count_typing(args: Args) -> tuple[Args, SqlType]:
    _separated(args, 2)
    return as_texts(_SPLIT, args, 2), BIGINT


def _count_text(texts: tuple[str, ...], _call: Call) -> str:
    return _short(lambda x: f"len({_SPLIT}({x}, {texts[1]}))")(texts[0])


def _contains_typing(args: Args) -> tuple[Args, SqlType]:
    _separated(args, 3)
    return as_texts("list_contains", args, 3), BOOLEAN


def _contains_text(texts: tuple[str, ...], _call: Call) -> str:
    return _short(lambda x: f"list_contains({_SPLIT}({x}, {texts[1]}), {texts[2]})")(texts[0])


def _matches_typing(args: Args) -> tuple[Args, SqlType]:
    arity("regexp_extract_all", args, 2)
    given_pattern("regexp_extract_all", args[1])
    return as_texts("regexp_extract_all", args, 2), BIGINT


def _matches_text(texts: tuple[str, ...], _call: Call) -> str:
    return _short(lambda x: f"len(regexp_extract_all({x}, {texts[1]}))")(texts[0])


def _path(name: str, most: int) -> Function:
    """Return a function of a part of a path, by a constant name of what separates its folders.

    most: arguments; of three, the second says whether a file's name loses its extension.
    """

    def typing(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1, most)
        options = args[1:]
        if most > 2 and options and isinstance(options[0], Literal) and options[0].type == BOOLEAN:
            options = options[1:]
        for arg in options:
            value = arg.value if isinstance(arg, Literal) else None
            if value not in _SEPARATORS or len(options) > 1:
                raise TypeProblem(f"{name} takes one of {', '.join(_SEPARATORS)} as its separator")
        return as_texts(name, args, 1), VARCHAR

    return Function(
        name, typing, text_domain(lambda n, _args: n[0]), lambda t, _call: f"{name}({', '.join(t)})"
    )


def _overlay_typing(args: Args) -> tuple[Args, SqlType]:
    arity("overlay", args, 3, 4)
    given_text("overlay", args[1], "what it writes")
    whole_constants("overlay", args[2:3])
    whole_constants("overlay", args[3:], 0)  # fewer would write a part twice
    return (*as_texts("overlay", args[:2], 2), *(cast(arg, BIGINT) for arg in args[2:])), VARCHAR


def _overlay_text(texts: tuple[str, ...], call: Call) -> str:
    limit = LONGEST - len(text_of(call.args[1]).encode())
    rest = ", ".join(texts[1:])
    return once(
        texts[0], lambda x: f"(CASE WHEN strlen({x}) <= {limit} THEN overlay({x}, {rest}) END)"
    )


def _overlay_length(lengths: tuple[int | None, ...], args: Args) -> int | None:
    return None if lengths[0] is None else lengths[0] + len(text_of(args[1]))


def _place_typing(args: Args) -> tuple[Args, SqlType]:
    arity("array_extract", args, 2)
    whole_constants("array_extract", args[1:])
    return (*as_texts("array_extract", args[:1], 1), cast(args[1], BIGINT)), VARCHAR


def _slice_typing(args: Args) -> tuple[Args, SqlType]:
    arity("array_slice", args, 3)
    whole_constants("array_slice", args[1:])
    return (
        *as_texts("array_slice", args[:1], 1),
        *(cast(arg, BIGINT) for arg in args[1:]),
    ), VARCHAR


def _slice_length(lengths: tuple[int | None, ...], args: Args) -> int | None:
    first, last = (integer_of(arg) for arg in args[1:])
    wanted = max(0, last - max(first, 1) + 1) if first >= 0 and last >= 0 else None
    known = [n for n in (lengths[0], wanted) if n is not None]
    return min(known, default=None)


ROWS = (
    Function("split_item", _item_typing, text_domain(lambda n, _args: n[0]), _item_text),
    Function("split_count", _count_typing, _count_domain, _count_text),
    Function("split_contains", _contains_typing, booleans, _contains_text),
    Function("match_count", _matches_typing, _count_domain, _matches_text),
    _path("parse_filename", 3),
    _path("parse_dirname", 2),
    _path("parse_dirpath", 2),
    Function("overlay", _overlay_typing, text_domain(_overlay_length), _overlay_text),
    Function(
        "array_extract",
        _place_typing,
        text_domain(lambda _lengths, _args: 1),
        lambda t, _call: f"array_extract({t[0]}, {t[1]})",
    ),
    Function(
        "array_slice",
        _slice_typing,
        text_domain(_slice_length),
        lambda t, _call: f"array_slice({', '.join(t)})",
    ),
)
