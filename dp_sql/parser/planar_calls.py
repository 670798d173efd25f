"""PLANAR_LAPLACE: where a call of the text may stand, and what it holds."""

from __future__ import annotations

from sqlglot import exp

from dp_sql.errors import NotPrivateError, ParameterError
from dp_sql.mechanisms.planar import scale_of
from dp_sql.parser.options import number_text
from dp_sql.parser.scope import Statement
from dp_sql.privacy.amount import exact

NAME = "planar_laplace"
_EXAMPLE = (
    "PLANAR_LAPLACE(lat, lon, 0.01): points 100 metres from each other are told apart at epsilon 1"
)


def is_planar(node: exp.Expr) -> bool:
    """Return whether `node` moves a point at random."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == NAME


def check_planar(statement: Statement, node: exp.Expr) -> None:
    """Raise QueryError where a call above the releases isn't of a point and a constant per metre."""
    if len(node.expressions) != 3:
        raise statement.wrong(
            "PLANAR_LAPLACE takes a latitude, a longitude and an epsilon per metre.",
            node,
            hint=_EXAMPLE,
        )
    place = node.expressions[2]
    text = number_text(place)
    if text is None:
        raise statement.unsupported(
            "the epsilon per metre of PLANAR_LAPLACE is a number in the statement.",
            place,
            hint=_EXAMPLE,
        )
    try:
        scale_of(exact(text, name="epsilon per metre"))
    except ParameterError as error:
        raise statement.out_of_range(error.message, place, hint=_EXAMPLE) from None


def of_protected(statement: Statement, node: exp.Expr) -> NotPrivateError:
    """Return the error for a call over protected rows."""
    return statement.not_private(
        "PLANAR_LAPLACE moves one point, and what else is shown of a protected row, that it is there "
        "first of all, it doesn't hide.",
        node,
        hint="AVG(lat) and AVG(lon), or COUNT(*) by round(lat, 2) and round(lon, 2); PLANAR_LAPLACE is "
        "for constants, public tables and released values",
    )
