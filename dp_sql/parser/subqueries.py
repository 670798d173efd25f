"""Subqueries in expressions of a private block: on public data, on releases, or on the same owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dp_sql.parser.aggregates import has_aggregate
from dp_sql.parser.correlated import mixing, outer_columns, require_near
from dp_sql.parser.expressions import Expressions
from dp_sql.parser.links import conjunction, shared_owner
from dp_sql.parser.row_values import OPPOSITE, SIGNS, row_of
from dp_sql.parser.scalar_subqueries import ScalarSubqueries, Step
from dp_sql.parser.scope import Environment, OpenBlock, PrivateRows, Scope, Statement
from dp_sql.plan import functions
from dp_sql.plan.expression import Expression, Literal, Ref
from dp_sql.plan.rows import Mark, Rows
from dp_sql.plan.signature import TypeProblem
from dp_sql.schema import sqltype
from dp_sql.sensitivity.ownership import holds_owner, is_protected, owners_of, same_owner

if TYPE_CHECKING:
    from dp_sql.parser.blocks import Blocks
Pair = tuple[Expression, Expression]
"""A value of the outer row and what it is compared with."""


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
                return self._any(node, "=", node.this, node.args["query"])
            case exp.Binary() if isinstance(node.expression, exp.Any | exp.All):
                return self._quantified(node, node.expression)
            case exp.Subquery() | exp.Select() | exp.SetOperation():
                return self._values.value(node)
            case _:
                return None

    def _sides(self, query: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
        """Return both sides of a UNION that reads the outer row; None for every other subquery.

        Whether a row is among a union's is whether it is among one side's.
        """
        union = query.unnest() if isinstance(query, exp.Subquery) else query
        plain = isinstance(union, exp.Union) and not any(
            v for k, v in union.args.items() if k not in ("this", "expression", "distinct")
        )
        if not plain or not outer_columns(union, self._env, self._scope):
            return None
        return union.this, union.expression

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

    def _together(
        self, node: exp.Expr, rows: Rows, right: PrivateRows, equal: Sequence[Pair]
    ) -> list[Expression]:
        """Return the conditions under which rows meet, refused where those of two owners could.

        equal: pairs of values that are compared by equality besides.
        """
        parts = list(right.correlated)
        require_near(self._statement, node, parts, rows, right.relation)
        if not is_protected(right.relation) or not is_protected(rows):
            return parts
        if parts and same_owner(rows, right.relation, conjunction(parts)):
            return parts
        if any(_are_owners(rows, right.relation, pair) for pair in equal):
            return parts
        compared = [*parts, *(functions.call("=", pair) for pair in equal)]
        extra = (
            shared_owner(rows, right.relation, conjunction(compared), self._statement.catalog)
            if compared
            else None
        )
        if extra is None:
            raise mixing(self._statement, node, rows, right.relation)
        return [*parts, extra]

    def _quantified(self, node: exp.Binary, many: exp.Any | exp.All) -> Expression | None:
        """Return what a comparison with ANY or ALL rows of a subquery is; None for a list.

        For ALL it is the opposite of what it is for ANY with the opposite sign, NULL included.
        """
        sign, query = SIGNS.get(type(node)), many.this
        if isinstance(query.unnest() if isinstance(query, exp.Paren) else query, exp.Array):
            return None
        if sign is None:
            raise self._statement.unsupported("ANY and ALL follow a comparison.", node)
        if isinstance(many, exp.Any):
            return self._any(node, sign, node.this, query)
        return functions.call("not", (self._any(node, OPPOSITE[sign], node.this, query),))

    def _any(self, node: exp.Expr, sign: str, operand: exp.Expr, query: exp.Expr) -> Expression:
        """Return whether an operand, or a row of them, compares so with some row of a subquery."""
        sides = self._sides(query)
        if sides is not None:
            return functions.call("or", tuple(self._any(node, sign, operand, s) for s in sides))
        written = row_of(operand)
        if written is not None and sign != "=":
            raise self._statement.unsupported(
                "rows are compared with those of a subquery by = ANY, <> ALL, IN and NOT IN.", node
            )
        left = [self._binder().bind(part) for part in (written or [operand])]
        right = self._rows(node, query)
        if len(right.columns) != len(left):
            raise self._statement.wrong(
                f"the subquery has {len(right.columns)} columns, and {len(left)} are compared.",
                node,
            )
        pairs = []
        for a, named in zip(left, right.columns, strict=True):
            try:
                one, two = functions.call(sign, (a, Ref(named.column))).args
            except TypeProblem as problem:
                raise self._statement.wrong(f"{problem}", node) from None
            pairs.append((one, two))
        if sign == "=" and len(pairs) == 1:
            return self._in(node, right, pairs[0])
        return self._some(node, right, sign, pairs)

    def _in(self, node: exp.Expr, right: PrivateRows, pair: Pair) -> Expression:
        column = self._statement.column("matched", sqltype.BOOLEAN)

        def step(rows: Rows) -> Rows:
            condition = _all(self._together(node, rows, right, [pair]))
            return Mark(rows, right.relation, column, condition, *pair)

        self._take(step)
        return Ref(column)

    def _some(
        self, node: exp.Expr, right: PrivateRows, sign: str, pairs: Sequence[Pair]
    ) -> Expression:
        """Return whether some row compares so in every pair: true, else NULL for one that may.

        Claim:   a row decides about rows of its own owner alone.
        Why:     both marks are of rows that meet on the owner. Where that is one of the pairs, it
                 stays a condition: owners are never NULL, so what isn't equal in it can't be NULL.
        Assumes: `sensitivity.locality` checks the marks.
        """
        found = self._statement.column("matched", sqltype.BOOLEAN, nullable=False)
        maybe = self._statement.column("unknown", sqltype.BOOLEAN, nullable=False)

        def step(rows: Rows) -> Rows:
            equal = pairs if sign == "=" else []
            met = self._together(node, rows, right, equal)
            sure = [p for p in equal if _are_owners(rows, right.relation, p)]
            met += [functions.call("=", p) for p in sure]
            rest = [functions.call(sign, p) for p in pairs if p not in sure]
            rows = Mark(rows, right.relation, found, _all([*met, *rest]))
            null = functions.call("is_null", (_all(rest),))
            return Mark(rows, right.relation, maybe, _all([*met, null]))

        self._take(step)
        true, false = (Literal(value=v, type=sqltype.BOOLEAN) for v in (True, False))
        unknown = functions.cast(Literal(None, sqltype.NULL), sqltype.BOOLEAN)
        return functions.case(((Ref(found), true), (Ref(maybe), unknown)), false)

    def _exists(self, node: exp.Exists) -> Expression:
        query = node.this
        sides = self._sides(query)
        if sides is not None:
            found = (self._exists(exp.Exists(this=side.copy())) for side in sides)
            return functions.call("or", tuple(found))
        inner = query.unnest() if isinstance(query, exp.Subquery) else query
        if isinstance(inner, exp.Select) and inner.args.get("limit") is not None:
            count = inner.args["limit"].expression
            if isinstance(count, exp.Literal) and count.is_int and int(count.name) >= 1:
                inner = inner.copy()
                inner.set("limit", None)
        if isinstance(inner, exp.Select) and outer_columns(inner, self._env, self._scope):
            tested = self._of_aggregates(inner)
            if tested is not None:
                return tested
        right = self._rows(node, inner)
        column = self._statement.column("matched", sqltype.BOOLEAN, nullable=False)

        def step(rows: Rows) -> Rows:
            condition = _all(self._together(node, rows, right, []))
            return Mark(rows, right.relation, column, condition)

        self._take(step)
        return Ref(column)

    def _of_aggregates(self, query: exp.Select) -> Expression | None:
        """Return whether one row of aggregates is there, by its HAVING; None for any other subquery."""
        items, having = query.expressions, query.args.get("having")
        if query.args.get("group") is not None or not any(has_aggregate(i) for i in items):
            return None
        if having is None:
            raise self._statement.unsupported(
                "an aggregate without GROUP BY is one row, whatever it counts: EXISTS of it is always "
                "true.",
                items[0],
                hint="EXISTS (SELECT 1 FROM …), or a condition on its value: (SELECT COUNT(*) FROM …) > 0",
                tries=[self._statement.with_call(i.unalias(), "1") for i in items[:1]],
            )
        value = query.copy()
        value.set("having", None)
        value.set("expressions", [having.this.copy()])
        false = Literal(value=False, type=sqltype.BOOLEAN)
        return functions.call("coalesce", (self._values.value(value), false))


def _all(parts: Sequence[Expression]) -> Expression:
    if not parts:
        return Literal(value=True, type=sqltype.BOOLEAN)
    return conjunction(list(parts))


def _are_owners(rows: Rows, right: Rows, pair: Pair) -> bool:
    """Return whether both values are owners, which are never NULL."""
    first, second = pair
    return holds_owner(first, owners_of(rows)) and holds_owner(second, owners_of(right))
