"""Subqueries in expressions of a private block: on public data, on releases, or on the same owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dp_sql.parser.correlated import mixing, require_near
from dp_sql.parser.expressions import Expressions
from dp_sql.parser.links import conjunction, shared_owner
from dp_sql.parser.scalar_subqueries import ScalarSubqueries, Step
from dp_sql.parser.scope import Environment, OpenBlock, PrivateRows, Scope, Statement
from dp_sql.plan import functions
from dp_sql.plan.expression import Expression, Literal, Ref
from dp_sql.plan.rows import Mark, Rows
from dp_sql.plan.signature import TypeProblem
from dp_sql.schema import sqltype
from dp_sql.sensitivity.ownership import is_protected, owners_of, same_owner

if TYPE_CHECKING:
    from dp_sql.parser.blocks import Blocks


class Subqueries:
    """The subqueries of one block. Each gives a column, which `applied` adds to the block's rows.

    around: the relations that the block reads.
    """

    def __init__(
        self,
        statement: Statement,
        blocks: Blocks,
        env: Environment,
        scope: Scope,
        around: Sequence[Rows],
    ) -> None:
        self._statement = statement
        self._blocks = blocks
        self._env = env
        self._scope = scope
        self._steps: list[Step] = []
        self._values = ScalarSubqueries(statement, blocks, env, scope, around, self._take)

    def _take(self, step: Step) -> None:
        self._steps.append(step)

    def __len__(self) -> int:
        """Return how many columns `applied` has still to add."""
        return len(self._steps)

    def applied(self, rows: Rows) -> Rows:
        """Return the rows with the columns of the subqueries that were met so far."""
        for step in self._steps:
            rows = step(rows)
        self._steps = []
        return rows

    def meaning(self, node: exp.Expr) -> Expression | None:
        """Return the column that a subquery becomes; None for every other node."""
        match node:
            case exp.Exists():
                return self._exists(node)
            case exp.In() if node.args.get("query") is not None:
                return self._in(node, node.this, node.args["query"])
            case exp.EQ() if isinstance(node.expression, exp.Any):
                return self._in(node, node.this, node.expression.this)
            case exp.NEQ() if isinstance(node.expression, exp.All):
                found = self._in(node, node.this, node.expression.this)
                return functions.call("not", (found,))
            case exp.Any() | exp.All():
                raise self._statement.unsupported(
                    "ANY and ALL are answered as = ANY and <> ALL.",
                    node,
                    hint="compare with a MIN or MAX of the subquery",
                )
            case exp.Subquery() | exp.Select() | exp.SetOperation():
                return self._values.value(node)
            case _:
                return None

    def _binder(self) -> Expressions:
        return Expressions(self._scope, {}, (self.meaning,))

    def _rows(self, node: exp.Expr, query: exp.Expr) -> PrivateRows:
        """Return the rows of a subquery, whose order and repeats don't matter without a LIMIT."""
        inner = query.unnest() if isinstance(query, exp.Subquery) else query
        if isinstance(inner, exp.Select):
            inner = inner.copy()
            distinct = inner.args.get("distinct")
            if not inner.args.get("limit") and not inner.args.get("offset"):
                inner.set("order", None)
                if distinct is not None and distinct.args.get("on") is None:
                    inner.set("distinct", None)
        env = self._env.inside(self._scope)
        bound = self._blocks.query(inner, env, rows=True)
        if isinstance(bound, OpenBlock):
            return self._blocks.stage(bound.tree, node, self._env)
        return bound

    def _mark(
        self,
        node: exp.Expr,
        right: PrivateRows,
        operand: Expression | None,
        value: Expression | None,
    ) -> Expression:
        column = self._statement.column("matched", sqltype.BOOLEAN, nullable=operand is not None)

        def step(rows: Rows) -> Rows:
            condition = self._together(node, rows, right, operand, value)
            return Mark(rows, right.relation, column, condition, operand, value)

        self._steps.append(step)
        return Ref(column)

    def _together(
        self,
        node: exp.Expr,
        rows: Rows,
        right: PrivateRows,
        operand: Expression | None,
        value: Expression | None,
    ) -> Expression:
        """Return the condition under which rows meet, refused where those of two owners could."""
        parts = list(right.correlated)
        require_near(self._statement, node, parts, rows, right.relation)
        compared = list(parts)
        if operand is not None and value is not None:
            compared.append(functions.call("=", (operand, value)))
        everything: Expression = Literal(value=True, type=sqltype.BOOLEAN)
        given = conjunction(parts) if parts else everything
        if not is_protected(right.relation) or not is_protected(rows):
            return given
        if parts and same_owner(rows, right.relation, given):
            return given
        if operand is not None and _are_owners(rows, right.relation, operand, value):
            return given
        extra = (
            shared_owner(rows, right.relation, conjunction(compared), self._statement.catalog)
            if compared
            else None
        )
        if extra is not None:
            return conjunction([*parts, extra])
        raise mixing(self._statement, node, rows, right.relation)

    def _exists(self, node: exp.Exists) -> Expression:
        query = node.this
        inner = query.unnest() if isinstance(query, exp.Subquery) else query
        if isinstance(inner, exp.Select) and inner.args.get("limit") is not None:
            count = inner.args["limit"].expression
            if isinstance(count, exp.Literal) and count.is_int and int(count.name) >= 1:
                inner = inner.copy()
                inner.set("limit", None)
        return self._mark(node, self._rows(node, inner), None, None)

    def _in(self, node: exp.Expr, operand: exp.Expr, query: exp.Expr) -> Expression:
        left = self._binder().bind(operand)
        right = self._rows(node, query)
        if len(right.columns) != 1:
            raise self._statement.wrong("the subquery of IN has one column.", node)
        try:
            equal = functions.call("=", (left, Ref(right.columns[0].column)))
        except TypeProblem as problem:
            raise self._statement.wrong(f"{problem}", node) from None
        return self._mark(node, right, equal.args[0], equal.args[1])


def _are_owners(rows: Rows, right: Rows, operand: Expression, value: Expression | None) -> bool:
    return (
        isinstance(operand, Ref)
        and isinstance(value, Ref)
        and operand.column.number in owners_of(rows)
        and value.column.number in owners_of(right)
    )
