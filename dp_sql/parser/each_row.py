"""Aggregates over what each outer row sees, whatever conditions say which rows these are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dp_sql.parser.aggregates import aggregate_name
from dp_sql.parser.correlated import mixing, require_near
from dp_sql.parser.links import conjunction
from dp_sql.parser.person import PersonGroups
from dp_sql.parser.renumber import renumbered
from dp_sql.parser.scope import Named, PrivateRows, Scope, Source, Statement
from dp_sql.plan import functions
from dp_sql.plan.expression import Call, Case, Cast, Column, Expression, Ref, columns_of
from dp_sql.plan.relation import output
from dp_sql.plan.rows import GroupRows, Join, JoinKind, Rows
from dp_sql.sensitivity.ownership import is_protected, owner_of, owners_of, same_owner

_MOST = 3
"""How many subqueries of one block may read its rows a second time: each doubles what is read."""


class EachRow:
    """The groups of rows that each outer row sees, by the values that the subquery reads of it.

    named: the columns of the outer row that aggregates read. scope: what can be named in the
    aggregates, these columns too.

    Claim:   an outer row gets the aggregates of the rows that it sees, all of its own owner.
    Why:     rows that agree in all the values that conditions and aggregates read see the same rows,
             and aggregate the same of them. So the distinct values are joined to the rows on the
             conditions, and grouped by the values; the owner is among them, so values and groups are
             one owner's.
    Assumes: `sensitivity.locality` checks the groups and both joins.
    Source:  [Neumann2015]
    """

    def __init__(
        self,
        statement: Statement,
        node: exp.Expr,
        inner: tuple[Rows, Scope, Sequence[Expression]],
        around: Sequence[Rows],
        named: Sequence[exp.Column] = (),
    ) -> None:
        self._statement, self._node = statement, node
        self._relation, scope, correlated = inner
        own = {c.number for c in output(self._relation)}
        read = [c for part in correlated for c in columns_of(part) if c.number not in own]
        found = [(n, c) for n in named if (c := scope.find(n)) is not None]
        read += [c for _, c in found]
        owners = [o for rows in around if (o := owner_of(rows)) is not None]
        self._values = {
            c: statement.column(c.name, c.type) for c in dict.fromkeys([*read, *owners[:1]])
        }
        self._condition = _with(conjunction(list(correlated)), self._values)
        by: list[Expression] = [Ref(c) for c in self._values.values()]
        self.scope = scope
        if found:
            more = (
                Source(n.table, (Named(n.name, self._values[c]),), by_alias=bool(n.table))
                for n, c in found
            )
            self.scope = replace(scope, sources=(*scope.sources, *more), outer=None)
        self.groups = PersonGroups(statement, self.scope, self._relation, by, padded=True)

    def joined(self, rows: Rows) -> Rows:
        """Return the outer rows with the columns of their groups.

        Raises QueryError where rows of several owners would meet.
        """
        read = [Ref(c) for c in self._values]
        require_near(self._statement, self._node, read, rows)
        named = tuple(Named(c.name, c) for c in self._values)
        copy = renumbered(PrivateRows(rows, named, is_protected(rows)), self._statement)
        keys = tuple(self._values.values())
        values = GroupRows(copy.relation, keys, tuple(Ref(n.column) for n in copy.columns), ())
        owners = owners_of(rows)
        if is_protected(rows) and not owners_of(values):
            raise self._statement.unsupported(
                "where the outer row has no owner, a value from a subquery is matched with it by "
                "equality, and its aggregates don't read it.",
                self._node,
                hint="WHERE inner.column = outer.column, and the outer columns outside of the "
                "subquery: (SELECT MAX(y) FROM …) - x",
            )
        if is_protected(self._relation) and not same_owner(values, self._relation, self._condition):
            raise mixing(self._statement, self._node, rows, self._relation)
        seen = self.groups.relation(Join(values, self._relation, JoinKind.INNER, self._condition))
        same: list[Expression] = [
            functions.call("=" if c.number in owners else "is_not_distinct_from", (Ref(c), Ref(v)))
            for c, v in self._values.items()
        ]
        return Join(rows, seen, JoinKind.LEFT, conjunction(same))


def read_by_aggregates(items: Sequence[exp.Expr], outer: Sequence[exp.Column]) -> list[exp.Column]:
    """Return the outer columns in some items, if aggregates read all of them; else none.

    Beside an aggregate such a column would be NULL for an outer row that sees no rows.
    """
    inside = [
        (c, item) for item in items for c in item.find_all(exp.Column) if any(c is o for o in outer)
    ]
    within = all(_in_aggregate(column, item) for column, item in inside)
    return [column for column, _ in inside] if within else []


def _in_aggregate(column: exp.Column, item: exp.Expr) -> bool:
    node: exp.Expr | None = column
    while node is not None and node is not item.parent:
        if isinstance(node, exp.Filter) or aggregate_name(node) is not None:
            return True
        node = node.parent
    return False


def require_few(statement: Statement, node: exp.Expr, number: int) -> None:
    """Raise UnsupportedSQLError for more subqueries of a block that read its rows again than it may have."""
    if number > _MOST:
        raise statement.unsupported(
            f"at most {_MOST} subqueries of a block are matched with the outer row by more than "
            "equalities.",
            node,
            hint="WHERE inner.column = outer.column alone, or windows",
        )


def _with(expression: Expression, columns: Mapping[Column, Column]) -> Expression:
    """Return an expression with some columns in the place of others."""
    match expression:
        case Ref(column=column):
            return Ref(columns.get(column, column))
        case Call(args=args):
            return replace(expression, args=tuple(_with(a, columns) for a in args))
        case Case(branches=branches, otherwise=otherwise):
            made = tuple((_with(w, columns), _with(v, columns)) for w, v in branches)
            return replace(expression, branches=made, otherwise=_with(otherwise, columns))
        case Cast(operand=operand):
            return replace(expression, operand=_with(operand, columns))
        case _:
            return expression
