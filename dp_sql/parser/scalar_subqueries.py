"""Subqueries that are values: of public data and releases, or of the rows that belong to one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dp_sql.parser.aggregates import has_aggregate
from dp_sql.parser.by_key import joined_by_key
from dp_sql.parser.correlated import (
    keys_of,
    mixing,
    outer_columns,
    pair,
    reads_outer,
    require_near,
    require_own,
    unmatched,
)
from dp_sql.parser.each_row import EachRow, read_by_aggregates, require_few
from dp_sql.parser.expressions import Expressions
from dp_sql.parser.links import belongs_to_one, conjunction, scan_of, shared_owner
from dp_sql.parser.one_row import one_row
from dp_sql.parser.ordering import Kept, first_rows, limit_of, order_of
from dp_sql.parser.person import PersonGroups
from dp_sql.parser.scope import Environment, PrivateRows, Scope, Statement
from dp_sql.plan import functions
from dp_sql.plan.expression import Expression, Literal, Ref
from dp_sql.plan.row_aggregates import typed
from dp_sql.plan.rows import (
    GroupRows,
    Join,
    JoinKind,
    RowAggregateKind,
    Rows,
    Scan,
)
from dp_sql.plan.signature import TypeProblem
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import ascii_lower
from dp_sql.sensitivity.ownership import is_protected, owner_of, owners_of, same_owner, scans_of

if TYPE_CHECKING:
    from dp_sql.parser.blocks import Blocks

_PARTS = ("expressions", "from_", "joins", "where", "order", "limit", "offset")

Step = Callable[[Rows], Rows]


class ScalarSubqueries:
    """The subqueries of one block that are values.

    around: the relations that the block reads. add: takes the steps that give its rows the values.
    """

    def __init__(
        self,
        statement: Statement,
        blocks: Blocks,
        env: Environment,
        scope: Scope,
        around: Sequence[Rows],
        add: Callable[[Step], None],
    ) -> None:
        self._statement = statement
        self._blocks = blocks
        self._env = env
        self._scope = scope
        self._around = around
        self._add = add
        self._each_rows = 0

    def value(self, node: exp.Expr) -> Expression:
        """Return the column that a subquery becomes; the outer rows get it by a step."""
        query = node.unnest() if isinstance(node, exp.Subquery) else node
        if isinstance(query, exp.Select) and reads_outer(query, self._env, self._scope):
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

        self._add(step)
        return Ref(rows.columns[0].column)

    def _correlated(self, query: exp.Select) -> Expression:
        """Return the value over the rows that belong to this row: an aggregate, or their first.

        The rows are grouped by what the subquery compares with the outer row, then joined to it.
        """
        for key, value in query.args.items():
            if key not in _PARTS and value not in (None, False, []):
                raise self._statement.unsupported(
                    "a subquery that depends on the outer row is an aggregate with a WHERE, or "
                    "ORDER BY … LIMIT 1.",
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
        apart = any(pair(part, relation) is None for part in correlated)
        read = read_by_aggregates([item], outer_columns(query, self._env, self._scope))
        if (apart or read) and has_aggregate(item) and not query.args.get("limit"):
            return self._each(query, (relation, scope, correlated), item, read)
        if not correlated:
            raise self._statement.unsupported(
                "a subquery that is a value reads the row around it in its WHERE.",
                outer_columns(query, self._env, self._scope)[0],
                hint="that column outside of the subquery: x + (SELECT …)",
            )
        pairs = [self._pair(part, relation, query) for part in correlated]
        keys = [inner for inner, _ in pairs]
        aggregated = has_aggregate(item)
        superfluous = next((k for k in ("limit", "offset", "order") if query.args.get(k)), None)
        if aggregated and superfluous is not None:
            word = "ORDER BY" if superfluous == "order" else superfluous.upper()
            raise self._statement.unsupported(
                f"an aggregate is one row: it needs no {word}.",
                query.args[superfluous],
                hint=f"the subquery without its {word}",
            )
        place = self._by_public(relation, pairs)
        if place is not None and aggregated:
            return self._released_by(place, relation, scope, item, pairs)
        kept = limit_of(self._statement, query)
        if kept is not None:
            relation = self._first(query, relation, scope, correlated, kept)
        owner = owner_of(relation)
        by = keys if owner is None else [*keys, Ref(owner)]
        groups = PersonGroups(self._statement, scope, relation, by, padded=True)
        if aggregated:
            value = Expressions(scope, {}, (groups.meaning,)).bind(item)
        elif kept is not None:
            value = self._smallest(groups, Expressions(scope).bind(item), item)
        else:
            value = self._only_row(groups, relation, scope, item, keys)
        grouped = groups.relation()

        def step(rows: Rows) -> Rows:
            require_near(self._statement, query, [outer for _, outer in pairs], rows)
            equal: list[Expression] = [
                functions.call("=", (Ref(groups.column_of(inner)), outer)) for inner, outer in pairs
            ]
            condition = conjunction(equal)
            if is_protected(relation) and not same_owner(rows, grouped, condition):
                compared = conjunction([functions.call("=", pair) for pair in pairs])
                shared = shared_owner(rows, relation, compared, self._statement.catalog)
                if shared is None:
                    tries = joined_by_key(query, outer_columns(query, self._env, self._scope))
                    raise mixing(self._statement, query, rows, relation, tries)
                condition = conjunction([condition, shared])
            return Join(rows, grouped, JoinKind.LEFT, condition)

        self._add(step)
        return value

    def _each(
        self,
        query: exp.Select,
        inner: tuple[Rows, Scope, Sequence[Expression]],
        item: exp.Expr,
        read: Sequence[exp.Column],
    ) -> Expression:
        """Return an aggregate over rows that more than equalities say are seen by an outer row.

        read: the columns of the outer row in the aggregate.
        """
        self._each_rows += 1
        require_few(self._statement, query, self._each_rows)
        each = EachRow(self._statement, query, inner, self._around, read)
        self._add(each.joined)
        return Expressions(each.scope, {}, (each.groups.meaning,)).bind(item)

    def _first(
        self,
        query: exp.Select,
        relation: Rows,
        scope: Scope,
        correlated: Sequence[Expression],
        kept: Kept,
    ) -> Rows:
        """Return the one row that LIMIT 1 keeps of those that belong to each outer row."""
        keys = keys_of(relation, correlated, self._statement.catalog)
        if not keys:
            raise unmatched(self._statement, query, relation, "LIMIT")
        if kept[1] is None or kept[1] > 1:
            raise self._statement.unsupported(
                "a subquery that is a value has one row.", query, hint="ORDER BY … LIMIT 1"
            )
        aliases = {ascii_lower(i.alias): i.this for i in query.expressions if i.alias}
        order = order_of(scope, query, Expressions(scope, aliases))
        require_own(scope, query, [o.expression for o in order])
        return first_rows(self._statement, relation, keys, order, kept)

    def _pair(
        self, part: Expression, relation: Rows, query: exp.Expr
    ) -> tuple[Expression, Expression]:
        """Return (inner, outer) of an equality between the subquery's row and the outer one."""
        found = pair(part, relation)
        if found is None:
            raise self._statement.unsupported(
                "a value from a subquery is matched with the outer row by equality.",
                query,
                hint="WHERE inner.column = outer.column",
            )
        return found

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

        self._add(step)
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
        given = frozenset(e.column.number for e in keys if isinstance(e, Ref))
        if one_row(relation, given, self._statement.catalog):
            return self._smallest(groups, bound, item)
        smallest = f"MIN({item.sql(dialect='duckdb')})"
        raise self._statement.unsupported(
            "this subquery may find several rows for one, and it would be one of them.",
            item,
            hint=f"an aggregate in the subquery, such as {smallest}, or ORDER BY … LIMIT 1",
            tries=[self._statement.with_column(item, smallest)]
            if isinstance(item, exp.Column)
            else (),
        )

    def _smallest(self, groups: PersonGroups, bound: Expression, item: exp.Expr) -> Expression:
        """Return the value of groups of one row each."""
        try:
            typed(RowAggregateKind.MIN, bound)
        except TypeProblem:
            raise self._statement.unsupported(
                f"a subquery's value of type {bound.type} isn't answered.", item
            ) from None
        return Ref(groups.added(RowAggregateKind.MIN, bound, "value"))
