"""Aggregates of two columns, y and x: what a call of the text holds, or why it isn't answered."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from dp_sql.errors import QueryError
from dp_sql.parser import aggregates
from dp_sql.parser.expressions import Expressions
from dp_sql.parser.scope import Statement
from dp_sql.plan import functions
from dp_sql.plan.expression import Expression, Literal, Ref
from dp_sql.plan.nulls import null_on
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind


def two_arguments(
    statement: Statement,
    call: aggregates.Call,
    binder: Expressions,
    owners: Collection[int],
    padded: Collection[int],
) -> tuple[Expression, Expression]:
    """Return y, NULL where the call's FILTER isn't true, and x.

    owners, padded: the numbers of the owners' columns, and of those that an outer join pads.
    Raises QueryError for a call that isn't answered.
    """
    nodes = (call.argument, call.second)
    if call.extra or call.distinct or nodes[0] is None or nodes[1] is None:
        raise statement.unsupported(
            f"{call.name} takes two numbers, y and x, and nothing more here.",
            call.node,
            hint=f"{call.name}(y, x)",
        )
    if call.bounds:
        raise statement.unsupported(
            f"{call.name} has two arguments, and bounds are of one.",
            call.bounds[0],
            hint=f"{call.name}(CLAMP(y, 0, 100), CLAMP(x, 0, 100))",
        )
    y, x = (_number(statement, call, binder, owners, node) for node in nodes if node is not None)
    if padded and not (null_on(y, padded) or null_on(x, padded)):
        raise statement.not_private(
            f"this {call.name} would count rows of the public table that match nobody.",
            call.node,
            hint="an inner join",
        )
    if call.condition is not None:
        condition = binder.bind_condition(call.condition)
        y = functions.case(((condition, y),), Literal(None, sqltype.NULL))
    return y, x


def _number(
    statement: Statement,
    call: aggregates.Call,
    binder: Expressions,
    owners: Collection[int],
    node: exp.Expr,
) -> Expression:
    if aggregates.has_aggregate(node):
        raise statement.wrong("an aggregate can't stand in an aggregate.", call.node)
    argument = binder.bind(node)
    if not argument.type.is_numeric and argument.type.kind is not Kind.NULL:
        raise _no_number(statement, call, argument, node)
    if isinstance(argument, Ref) and argument.column.number in owners:
        raise statement.not_private("the owner's column can be counted, not computed with.", node)
    return argument


def _no_number(
    statement: Statement, call: aggregates.Call, argument: Expression, node: exp.Expr
) -> QueryError:
    boolean = argument.type.kind is Kind.BOOLEAN
    return statement.wrong(
        f"{call.name} takes numbers, not {argument.type}.",
        node,
        hint="CASE WHEN … THEN 1 ELSE 0 END" if boolean else None,
    )
