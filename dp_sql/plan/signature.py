"""What a row of the function table holds, and how a call that doesn't fit it is refused."""

from __future__ import annotations

from collections.abc import Callable

from dp_sql.dataclass import dataclass
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Call, Expression, LiteralValue
from dp_sql.schema.sqltype import Kind, SqlType

Args = tuple[Expression, ...]


class TypeProblem(Exception):  # noqa: N818  (the parser turns it into a QueryError at its place)
    """An expression has no type: says what is wrong in a sentence, with the types that were met."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function or operator.

    typing: from the arguments as written to the arguments as converted and the type of the result;
        raises TypeProblem.
    domain: from the domains of the converted arguments, and these, to the domain of the result.
    text: from the lowered arguments and the call to DuckDB's text for it. It raises for no value
        of its arguments, gives canonical values for canonical ones, and otherwise what DuckDB gives.
    values: from the converted arguments to every value but NULL that the function can have, where
        these are few whatever its arguments hold and no range of whole numbers; else None.
    """

    name: str
    typing: Callable[[Args], tuple[Args, SqlType]]
    domain: Callable[[tuple[Domain, ...], Args], Domain]
    text: Callable[[tuple[str, ...], Call], str]
    values: Callable[[Args], tuple[LiteralValue, ...] | None] | None = None


def arity(name: str, args: Args, least: int, most: int | None = None) -> None:
    """Raise TypeProblem unless there are `least` to `most` (by default exactly `least`) arguments."""
    top = least if most is None else most
    if least <= len(args) <= top:
        return
    wanted = f"{least}" if least == top else f"{least} to {top}"
    plural = "" if wanted == "1" else "s"
    raise TypeProblem(f"{name} takes {wanted} argument{plural}, not {len(args)}")


def described(type_: SqlType) -> str:
    """Return a type as messages name it."""
    return "NULL" if type_.kind is Kind.NULL else str(type_)
