"""Subqueries in expressions of a private block: on public data, on releases, or on the same owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dp_sql.parser import examples
from dp_sql.parser.aggregates import has_aggregate
from dp_sql.parser.expressions import Expressions
from dp_sql.parser.links import (
    belongs_to_one,
    conjunction,
    is_unique,
    scan_of,
    shared_owner,
)
from dp_sql.parser.person import PersonGroups
from dp_sql.parser.scope import Environment, OpenBlock, PrivateRows, Scope, Statement
from dp_sql.plan import functions
from dp_sql.plan.expression import Call, Expression, Literal, Ref, columns_of
from dp_sql.plan.relation import output
from dp_sql.plan.rows import (
    GroupRows,
    Join,
    JoinKind,
    Mark,
    RowAggregateKind,
    Rows,
    Scan,
)
from dp_sql.plan.signature import TypeProblem
from dp_sql.schema import sqltype
from dp_sql.sensitivity.ownership import (
    is_protected,
    owner_of,
    owners_of,
    same_owner,
    scans_of,
)

if TYPE_CHECKING:
    from dp_sql.parser.blocks import Blocks

Step = Callable[[Rows], Rows]


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
        self._around = around
        self._steps: list[Step] = []

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
                return self._scalar(node)
            case _:
                return None

    def _binder(self) -> Expressions:
        return Expressions(self._scope, {}, (self.meaning,))

    def _rows(self, node: exp.Expr, query: exp.Expr) -> PrivateRows:
        """Return the rows of a subquery whose order, repeats and first LIMIT don't matter."""
        inner = query.unnest() if isinstance(query, exp.Subquery) else query
        if isinstance(inner, exp.Select):
            inner = inner.copy()
            if not inner.args.get("limit"):
                inner.set("order", None)
            distinct = inner.args.get("distinct")
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
        raise self._refuse(node, rows, right.relation)

    def _refuse(self, node: exp.Expr, rows: Rows, right: Rows) -> Exception:
        first, second = owner_of(rows), owner_of(right)
        hint = "compare the owner's columns in the subquery's WHERE"
        if first is not None and second is not None:
            hint = f"WHERE inner.{second.name} = outer.{first.name} in the subquery"
        return self._statement.not_private(
            "this subquery lets the rows of one person decide about another's.",
            node,
            hint=hint,
            example=examples.among(rows, right, self._statement.catalog),
        )

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

    def _scalar(self, node: exp.Expr) -> Expression:
        query = node.unnest() if isinstance(node, exp.Subquery) else node
        if isinstance(query, exp.Select) and self._is_correlated(query):
            return self._correlated(query)
        bound = self._blocks.query(query, self._env.inside(None))
        if isinstance(bound, PrivateRows):
            raise self._statement.not_private(
                "the rows of a protected table can't be used as one value.",
                node,
                hint="aggregate them in the subquery",
            )
        rows = self._blocks.stage(bound.tree, node, self._env, single=True)
        if len(rows.columns) != 1:
            raise self._statement.wrong("a subquery that is a value has one column.", node)

        def step(outer: Rows) -> Rows:
            everything = Literal(value=True, type=sqltype.BOOLEAN)
            return Join(outer, rows.relation, JoinKind.INNER, everything)

        self._steps.append(step)
        return Ref(rows.columns[0].column)

    def _is_correlated(self, query: exp.Select) -> bool:
        """Return whether a subquery names a column of the block around it."""
        inner = self._blocks.names_of(query, self._env)
        for column in query.find_all(exp.Column):
            if isinstance(column.this, exp.Star):
                continue
            known = inner.knows(column)
            if not known and self._scope.finds(column):
                return True
        return False

    def _correlated(self, query: exp.Select) -> Expression:
        """Return the value of an aggregate over the rows that belong to this row.

        The rows are grouped by what the subquery compares with the outer row, then joined to it.
        """
        for key, value in query.args.items():
            if key not in ("expressions", "from_", "joins", "where") and value not in (
                None,
                False,
                [],
            ):
                raise self._statement.unsupported(
                    "a subquery that depends on the outer row is an aggregate with a WHERE.",
                    query,
                )
        if len(query.expressions) != 1:
            raise self._statement.wrong("a subquery that is a value has one column.", query)
        if query.args.get("from_") is None:
            raise self._statement.unsupported(
                "a subquery without FROM is only its expression.",
                query,
                hint="the expression itself, without SELECT",
            )
        item = query.expressions[0].unalias()
        env = self._env.inside(self._scope)
        relation, scope, correlated = self._blocks.rows_of(query, env)
        pairs = [self._pair(part, relation, query) for part in correlated]
        keys = [inner for inner, _ in pairs]
        place = self._by_public(relation, pairs)
        if place is not None and has_aggregate(item):
            return self._released_by(place, relation, scope, item, pairs)
        owner = owner_of(relation)
        by = keys if owner is None else [*keys, Ref(owner)]
        groups = PersonGroups(self._statement, scope, relation, by, padded=True)
        if has_aggregate(item):
            value = Expressions(scope, {}, (groups.meaning,)).bind(item)
        else:
            value = self._only_row(groups, relation, scope, item, keys)
        grouped = groups.relation()

        def step(rows: Rows) -> Rows:
            equal: list[Expression] = [
                functions.call("=", (Ref(groups.column_of(inner)), outer)) for inner, outer in pairs
            ]
            condition = conjunction(equal)
            if is_protected(relation) and not same_owner(rows, grouped, condition):
                compared = conjunction([functions.call("=", pair) for pair in pairs])
                shared = shared_owner(rows, relation, compared, self._statement.catalog)
                if shared is None:
                    raise self._refuse(query, rows, relation)
                condition = conjunction([condition, shared])
            return Join(rows, grouped, JoinKind.LEFT, condition)

        self._steps.append(step)
        return value

    def _pair(
        self, part: Expression, relation: Rows, query: exp.Expr
    ) -> tuple[Expression, Expression]:
        """Return (inner, outer) of an equality between the subquery's row and the outer one."""
        own = {c.number for c in output(relation)}
        if isinstance(part, Call) and part.function == "=":
            for inner, outer in (part.args, part.args[::-1]):
                reads = {c.number for c in columns_of(inner)}
                if reads and reads <= own and not {c.number for c in columns_of(outer)} & own:
                    return inner, outer
        raise self._statement.unsupported(
            "a value from a subquery is matched with the outer row by equality.",
            query,
            hint="WHERE inner.column = outer.column",
        )

    def _by_public(self, relation: Rows, pairs: list[tuple[Expression, Expression]]) -> Scan | None:
        """Return the public table whose columns protected rows of all owners are compared with."""
        if not is_protected(relation):
            return None
        owners, catalog = owners_of(relation), self._statement.catalog
        inner = [e.column for e, _ in pairs if isinstance(e, Ref)]
        if any(c.number in owners or belongs_to_one(relation, c, catalog) for c in inner):
            return None
        outer = [e.column.number for _, e in pairs if isinstance(e, Ref)]
        if not outer or len(outer) < len(pairs):
            return None
        for scan in (s for rows in self._around for s in scans_of(rows)):
            if scan.public and {c.number for c in scan.columns} >= set(outer):
                return scan
        return None

    def _released_by(
        self,
        place: Scan,
        relation: Rows,
        scope: Scope,
        item: exp.Expr,
        pairs: list[tuple[Expression, Expression]],
    ) -> Expression:
        """Return the value of a release by the values of public columns, an earlier stage.

        The release has every value that the public table holds as a public key.
        """
        names = dict(zip(place.columns, place.sources, strict=True))
        outer = [e.column for _, e in pairs if isinstance(e, Ref)]
        sources = tuple(dict.fromkeys(names[c] for c in outer))
        spec = self._statement.catalog.tables[place.table]
        scan = scan_of(self._statement, spec, sources)
        columns = dict(zip(sources, scan.columns, strict=True))
        values = GroupRows(scan, scan.columns, tuple(Ref(c) for c in scan.columns), ())
        equal: list[Expression] = [
            functions.call("=", (inner, Ref(columns[names[c]])))
            for (inner, _), c in zip(pairs, outer, strict=True)
        ]
        joined = Join(relation, values, JoinKind.INNER, conjunction(equal))
        tree = self._blocks.released(scope, joined, list(scan.columns), item, self._env)
        rows = self._blocks.stage(tree, item, self._env)
        *keys, value = (n.column for n in rows.columns)
        by_name = dict(zip(sources, keys, strict=True))

        def step(around: Rows) -> Rows:
            matched: list[Expression] = [
                functions.call("=", (Ref(by_name[names[c]]), Ref(c))) for c in outer
            ]
            return Join(around, rows.relation, JoinKind.LEFT, conjunction(matched))

        self._steps.append(step)
        if isinstance(item, exp.Count):
            return functions.call("coalesce", (Ref(value), Literal(0, sqltype.BIGINT)))
        return Ref(value)

    def _only_row(
        self,
        groups: PersonGroups,
        relation: Rows,
        scope: Scope,
        item: exp.Expr,
        keys: list[Expression],
    ) -> Expression:
        """Return the value of the one row that a declared unique key leaves."""
        bound = Expressions(scope).bind(item)
        found = {e.column.number for e in keys if isinstance(e, Ref)}
        for scan in scans_of(relation):
            spec = self._statement.catalog.tables[scan.table]
            columns = tuple(
                s for c, s in zip(scan.columns, scan.sources, strict=True) if c.number in found
            )
            if columns and scan.public and is_unique(spec, columns):
                return Ref(groups.added(RowAggregateKind.MIN, bound, "value"))
        raise self._statement.unsupported(
            "this subquery may find several rows for one.",
            item,
            hint="an aggregate such as MIN or COUNT in the subquery",
        )


def _are_owners(rows: Rows, right: Rows, operand: Expression, value: Expression | None) -> bool:
    return (
        isinstance(operand, Ref)
        and isinstance(value, Ref)
        and operand.column.number in owners_of(rows)
        and value.column.number in owners_of(right)
    )
