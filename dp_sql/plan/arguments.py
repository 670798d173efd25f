"""What the rows of the function table ask of their arguments, and domains that many of them share."""

from __future__ import annotations

from collections.abc import Callable

from dp_sql.plan.conversion import cast
from dp_sql.plan.domain import BOOLEANS, Domain
from dp_sql.plan.expression import Expression, Literal
from dp_sql.plan.pattern import Pattern, PatternProblem, read_pattern
from dp_sql.plan.signature import Args, TypeProblem, described
from dp_sql.schema.sqltype import VARCHAR, Kind, SqlType

LONGEST = 10_000  # bytes of a text that a function may make out of shorter ones
LONGEST_CONSTANT = 1_000  # characters of a constant text
FARTHEST = 2**31 - 1  # offset or length in a text

LengthRule = Callable[[tuple[int | None, ...], Args], int | None]


def as_texts(name: str, args: Args, count: int) -> Args:
    """Return the first `count` arguments as texts, the others as they are.

    Raises TypeProblem for one of them that isn't a text.
    """
    for arg in args[:count]:
        if arg.type.kind not in (Kind.VARCHAR, Kind.NULL):
            raise TypeProblem(f"{name} takes a text, not {described(arg.type)}")
    return (*(cast(arg, VARCHAR) for arg in args[:count]), *args[count:])


def constant_texts(name: str, args: Args) -> None:
    """Raise TypeProblem unless all arguments are constants, and short ones."""
    for arg in args:
        if not isinstance(arg, Literal):
            raise TypeProblem(f"{name} takes a constant text here")
        if isinstance(arg.value, str) and len(arg.value) > LONGEST_CONSTANT:
            raise TypeProblem(f"{name} takes a text of at most {LONGEST_CONSTANT} characters here")


def whole_constants(name: str, args: Args, least: int = -FARTHEST, most: int = FARTHEST) -> None:
    """Raise TypeProblem unless all arguments are constant whole numbers from least to most."""
    for arg in args:
        value = arg.value if isinstance(arg, Literal) else None
        if type(value) is not int or not least <= value <= most:
            raise TypeProblem(f"{name} takes a constant whole number from {least} to {most} here")


def integer_of(arg: Expression) -> int:
    """Return the value of a constant that `whole_constants` let pass."""
    assert isinstance(arg, Literal) and type(arg.value) is int  # noqa: S101, PT018  (typed)
    return arg.value


def text_of(arg: Expression) -> str:
    """Return the value of a constant that the typing knows to be a text."""
    assert isinstance(arg, Literal) and isinstance(arg.value, str)  # noqa: S101, PT018  (typed)
    return arg.value


def given_text(name: str, arg: Expression, what: str) -> str:
    """Return a constant text. Raises TypeProblem for anything else; `what` names it there."""
    value = arg.value if isinstance(arg, Literal) else None
    if not isinstance(value, str):
        raise TypeProblem(f"{name} takes {what} as a constant text")
    constant_texts(name, (arg,))
    return value


def given_pattern(name: str, arg: Expression) -> Pattern:
    """Return a constant regular expression, read. Raises TypeProblem for anything else."""
    text = given_text(name, arg, "its pattern")
    try:
        return read_pattern(text)
    except PatternProblem as problem:
        raise TypeProblem(f"{name} can't read the pattern '{text[:60]}': {problem}") from None


def text_domain(result: LengthRule) -> Callable[[tuple[Domain, ...], Args], Domain]:
    """Return the domain of a text whose length in characters follows from those of the arguments."""

    def domain(domains: tuple[Domain, ...], args: Args) -> Domain:
        return Domain(max_length=result(tuple(d.max_length for d in domains), args))

    return domain


def booleans(_domains: tuple[Domain, ...], _args: Args) -> Domain:
    """Return the domain of true and false."""
    return BOOLEANS


def fixed(domain: Domain) -> Callable[[tuple[Domain, ...], Args], Domain]:
    """Return a rule that gives the same domain whatever the arguments are."""
    return lambda _domains, _args: domain


def numbers(name: str, args: Args) -> None:
    """Raise TypeProblem unless all arguments are numbers."""
    for arg in args:
        if not arg.type.is_numeric and arg.type.kind is not Kind.NULL:
            raise TypeProblem(f"{name} takes a number, not {described(arg.type)}")


def whole_numbers(name: str, args: Args) -> None:
    """Raise TypeProblem unless all arguments are whole numbers."""
    for arg in args:
        if not arg.type.is_integer and arg.type.kind is not Kind.NULL:
            raise TypeProblem(f"{name} takes a whole number, not {described(arg.type)}")


def typed_nulls(args: Args, type_: SqlType) -> Args:
    """Return the arguments with each bare NULL as a NULL of the type."""
    return tuple(cast(arg, type_) if arg.type.kind is Kind.NULL else arg for arg in args)
