"""VECTOR_SUM([x1, …], max_norm): what a call of the text holds, or why it isn't answered."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction

from sqlglot import exp

from dp_sql.dataclass import dataclass
from dp_sql.errors import ParameterError, QueryError
from dp_sql.parser import aggregates
from dp_sql.parser.dialect import Reading
from dp_sql.parser.expressions import Expressions
from dp_sql.parser.options import number_text
from dp_sql.parser.scope import Statement
from dp_sql.plan import functions
from dp_sql.plan.expression import Expression, Literal, Ref
from dp_sql.plan.nulls import null_on
from dp_sql.plan.vector import MOST_ENTRIES
from dp_sql.privacy.amount import exact
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind

NAME = "VECTOR_SUM"
_LEAST, _MOST = Fraction(1, 10**100), Fraction(10**100)


@dataclass(frozen=True, slots=True)
class SummedVector:
    """The vector of a call, its first entry NULL where the call's FILTER isn't true, and its limit."""

    entries: tuple[Expression, ...]
    max_norm: Fraction


def vector_of(
    statement: Statement,
    call: aggregates.Call,
    binder: Expressions,
    owners: Collection[int],
    padded: Collection[int],
) -> SummedVector:
    """Return what a call of VECTOR_SUM asks.

    owners, padded: the numbers of the owners' columns, and of those that an outer join pads.
    Raises QueryError for a call that isn't answered.
    """
    function = call.node.this if isinstance(call.node, exp.Filter) else call.node
    parts = function.expressions
    if len(parts) != 2 or not isinstance(parts[0], exp.Array):
        raise statement.unsupported(
            f"{NAME} takes a list of numbers, written out, and the length that a row's may have.",
            call.node,
            hint=_example(parts),
        )
    if call.bounds:
        raise statement.unsupported(
            f"a row's vector is bounded by its length, the second argument of {NAME}.",
            call.bounds[0],
            hint=_example(parts),
        )
    listed, limit = parts
    if not 1 <= len(listed.expressions) <= MOST_ENTRIES:
        raise statement.unsupported(
            f"a vector has from 1 to {MOST_ENTRIES} entries.",
            listed,
            hint=_example([exp.Array(expressions=listed.expressions[:2])]),
        )
    entries = [_entry(statement, binder, owners, node) for node in listed.expressions]
    if padded and not any(null_on(entry, padded) for entry in entries):
        raise statement.not_private(
            f"this {NAME} would count rows of the public table that match nobody.",
            call.node,
            hint="an inner join",
        )
    if call.condition is not None:
        condition = binder.bind_condition(call.condition)
        entries[0] = functions.case(((condition, entries[0]),), Literal(None, sqltype.NULL))
    return SummedVector(tuple(entries), _limit(statement, limit, _example(parts)))


def _example(parts: list[exp.Expr]) -> str:
    """Return a call as it should be, with the entries of the text where there are some."""
    first = next(iter(parts), None)
    entries = (
        first.expressions if isinstance(first, exp.Array) else [] if first is None else [first]
    )
    plain = not any(e.find(exp.Distinct, exp.Order, exp.Array) for e in entries)
    listed = ", ".join(e.sql(dialect=Reading) for e in entries) if plain and entries else "x, y"
    return f"{NAME}([{listed}], 1)"


def _entry(
    statement: Statement, binder: Expressions, owners: Collection[int], node: exp.Expr
) -> Expression:
    if aggregates.has_aggregate(node):
        raise statement.wrong("an aggregate can't stand in an aggregate.", node)
    entry = binder.bind(node)
    if not entry.type.is_numeric and entry.type.kind not in (Kind.BOOLEAN, Kind.NULL):
        raise statement.wrong(f"{NAME} takes numbers, not {entry.type}.", node)
    if isinstance(entry, Ref) and entry.column.number in owners:
        raise statement.not_private("the owner's column can be counted, not computed with.", node)
    return entry


def _limit(statement: Statement, node: exp.Expr, hint: str) -> Fraction:
    def refused(message: str) -> QueryError:
        return statement.out_of_range(message, node, hint=hint)

    text = number_text(node)
    if text is None:
        raise refused(f"the length in {NAME} is a constant number.")
    try:
        limit = exact(text, name="the length")
    except ParameterError as error:
        raise refused(error.message) from None
    if not _LEAST <= limit <= _MOST:
        raise refused("the length of a row's vector is between 1e-100 and 1e100.")
    return limit
