"""A block of private rows: FROM and WHERE, then what groups it, windows over it, or a release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dp_sql.parser import examples, nearby
from dp_sql.parser.aggregates import has_aggregate
from dp_sql.parser.column_lists import with_items
from dp_sql.parser.correlated import keys_of, require_own, unmatched
from dp_sql.parser.dialect import Reading
from dp_sql.parser.distinct_rows import opened
from dp_sql.parser.expressions import Expressions, Hook, merged_owners
from dp_sql.parser.group_keys import grouping, key_nodes
from dp_sql.parser.joins import Step, Way, join
from dp_sql.parser.links import belongs_to_one, conjunction
from dp_sql.parser.ordering import Kept, bind_item, first_rows, limit_of, order_of
from dp_sql.parser.person import PersonGroups
from dp_sql.parser.release_block import ReleaseBlock
from dp_sql.parser.scope import (
    Environment,
    Named,
    OpenBlock,
    PrivateRows,
    Scope,
    Statement,
)
from dp_sql.parser.select_list import in_having, listed
from dp_sql.parser.subqueries import Subqueries
from dp_sql.parser.windows import Windows
from dp_sql.plan.expression import Call, Column, Expression, Ref, columns_of
from dp_sql.plan.functions import call
from dp_sql.plan.nulls import not_true_on
from dp_sql.plan.relation import output
from dp_sql.plan.rows import Filter, GroupRows, Order, Project, Rows
from dp_sql.schema.catalog import ascii_lower
from dp_sql.sensitivity.ownership import holds_owner, is_protected, owner_of, owners_of

if TYPE_CHECKING:
    from dp_sql.parser.blocks import Blocks


class PrivateBlock:
    """One block that reads protected rows.

    relation: the rows of its FROM and WHERE. correlated: conjuncts of its WHERE that read the block
    around it as well; they are not part of the relation. values: what the rows stand for where it is
    distinct values of several persons' rows.
    """

    def __init__(
        self,
        statement: Statement,
        blocks: Blocks,
        env: Environment,
        node: exp.Select,
        source: tuple[list[Step], Scope],
    ) -> None:
        self._statement = statement
        self._blocks = blocks
        self._env = env
        written, self._scope = source
        steps, self.values = opened(written)
        self._node = node = with_items(self._scope, node)
        self._aliases = {
            ascii_lower(item.alias): item.this
            for item in node.expressions
            if isinstance(item, exp.Alias)
        }
        read = tuple(step.rows.relation for step in steps)
        self._subqueries = Subqueries(statement, blocks, env, self._scope, read)
        self.relation, self._padded, self.correlated = self._filtered(steps)
        self._hooks: tuple[Hook, ...] = (
            self._subqueries.meaning,
            merged_owners(self._scope, self.relation),
        )
        self._keys = keys_of(self.relation, self.correlated, statement.catalog)

    def _filtered(self, steps: list[Step]) -> tuple[Rows, frozenset[int], tuple[Expression, ...]]:
        """Return the rows of FROM and WHERE, and the conditions that reach outside."""
        where = self._node.args.get("where")
        early: list[Expression] = []
        late: list[Expression] = []
        correlated = self._outside(steps)
        visible = {n.column.number for s in self._scope.sources for n in s.columns}
        visible |= {c.number for c in self._scope.merged.values()}
        visible |= {n.column.number for step in steps for n in step.rows.columns}
        binder = Expressions(self._scope, self._aliases, (self._subqueries.meaning,))
        for part in _parts(where.this) if where is not None else []:
            if has_aggregate(part):
                raise self._statement.wrong(
                    "an aggregate can't stand in WHERE: it has no value before the rows are chosen.",
                    part,
                    hint="HAVING, or a subquery: x > (SELECT AVG(x) FROM t)",
                    tries=nearby.after_aggregates(self._node, part),
                )
            before = len(self._subqueries)
            bound = binder.bind_condition(part)
            if len(self._subqueries) > before:
                late.append(bound)
            elif all(c.number in visible for c in columns_of(bound)):
                early.append(bound)
            else:
                correlated.append(bound)
        joined = join(self._statement, steps, early)
        for test in early:
            reads = any(c.number in joined.padded for c in columns_of(test))
            if reads and not not_true_on(test, joined.padded):
                raise self._nobody()
        relation = self._subqueries.applied(joined.relation)
        own = {c.number for c in output(relation)}
        near = [e for e in late if all(c.number in own for c in columns_of(e))]
        correlated += [e for e in late if e not in near]
        if near:
            relation = Filter(relation, conjunction(near))
        owners = owners_of(relation)
        return relation, joined.padded, tuple(_as_equality(e, owners) for e in correlated)

    def _outside(self, steps: list[Step]) -> list[Expression]:
        """Return the conditions of subqueries of FROM that read the block around this one."""
        found = [part for step in steps for part in step.outside]
        if found and any(step.way in (Way.RIGHT, Way.FULL) for step in steps):
            raise self._statement.unsupported(
                "a subquery of FROM can't read the block around it beside a RIGHT or FULL JOIN.",
                self._node,
                hint="compare its columns in the WHERE of the block that it is in",
            )
        return found

    def bound(self, *, top: bool) -> PrivateRows | OpenBlock:
        """Return what the block is. top: it is the statement's own."""
        node = self._node
        aggregated = any(
            has_aggregate(part)
            for part in (
                *node.expressions,
                *(node.args[k] for k in ("having", "qualify", "order") if node.args.get(k)),
            )
        )
        grouped = node.args.get("group") is not None or aggregated
        if grouped and is_protected(self.relation):
            found = self._personal_keys(top=top)
            if found is not None and self.values is not None:
                raise self.values.refused()
            return self._release(top=top) if found is None else self._person(*found)
        if grouped:
            nodes = key_nodes(self._statement, node)
            if not nodes:
                raise self._lone()
            return self._person([*(self._binder().bind(n) for n in nodes), *self._keys])
        if top and node.args.get("distinct") is not None:
            return self._release(top=top)
        if node.args.get("having") is not None:
            raise self._statement.wrong("HAVING needs an aggregate.", node.args["having"])
        return self._rows(self.relation, self._hooks, self._subqueries)

    def _binder(self) -> Expressions:
        return Expressions(self._scope, self._aliases, self._hooks)

    def _release(self, *, top: bool) -> OpenBlock:
        if self.correlated:
            raise self._lone()
        block = ReleaseBlock(
            self._statement,
            self._scope,
            self.relation,
            self._aliases,
            self._blocks,
            self._env,
            self._padded,
            self.values,
        )
        return OpenBlock(block.rewrite(self._node, top=top))

    def _lone(self) -> Exception:
        return self._statement.unsupported(
            "an aggregate that depends on the outer row is answered as a value: "
            "x > (SELECT AVG(y) …).",
            self._node,
            hint="WHERE x = (SELECT MAX(y) FROM … WHERE …); EXISTS (SELECT 1 FROM …) for whether rows "
            "are there",
        )

    def _personal_keys(
        self, *, top: bool
    ) -> tuple[list[Expression], Sequence[tuple[int, ...]]] | None:
        """Return the keys of a block that groups each person's rows apart; None for a release.

        With several sets of keys, these as well: the owner is in each of them.
        A key whose every value leads to one owner is grouped by the owner besides.
        """
        nodes, sets = grouping(self._statement, self._node)
        owners = owners_of(self.relation)
        if top or not owners or not nodes:
            return None
        keys = []
        for item in nodes:
            if has_aggregate(item):
                return None
            keys.append(self._binder().bind(item))
        if len(sets) > 1:
            owned = [any(holds_owner(keys[place], owners) for place in one) for one in sets]
            if any(owned) and not all(owned):
                raise self._statement.not_private(
                    "some of these sets of keys have the owner's column, and some mix persons.",
                    self._node.args["group"],
                    hint="the owner's column in each of them, as in GROUP BY owner, ROLLUP (x)",
                    tries=(examples.per_person(self.relation, self._statement.catalog),),
                )
            return (keys, sets) if all(owned) and not self._keys else None
        keys += self._keys
        if any(holds_owner(k, owners) for k in keys):
            return keys, ()
        columns = [k.column for k in keys if isinstance(k, Ref)]
        catalog = self._statement.catalog
        if any(belongs_to_one(self.relation, c, catalog) for c in columns):
            owner = owner_of(self.relation)
            return None if owner is None else ([*keys, Ref(owner)], ())
        return None

    def _person(self, keys: list[Expression], sets: Sequence[tuple[int, ...]] = ()) -> PrivateRows:
        if self._padded:
            raise self._nobody()
        require_own(self._scope, self._node, keys)
        inner = self._subqueries
        groups = PersonGroups(
            self._statement,
            self._scope,
            self.relation,
            keys,
            self._aliases,
            self._hooks,
            sets=sets,
        )
        above = Subqueries(self._statement, self._blocks, self._env, self._scope, ())
        hooks: tuple[Hook, ...] = (groups.meaning, above.meaning)
        by = [Ref(groups.column_of(key)) for key in self._keys]
        windows = self._windows(groups.relation(), by, hooks)
        having = self._node.args.get("having")
        condition = (
            None
            if having is None
            else in_having(self._scope, self._aliases, hooks).bind_condition(having.this)
        )
        hooks = (*hooks, windows.meaning)
        items = self._selected(hooks, groups.keys())
        qualify = self._node.args.get("qualify")
        binder = Expressions(self._scope, self._aliases, hooks)
        last = None if qualify is None else binder.bind_condition(qualify.this)
        if self.correlated and not self._keys and windows:
            raise unmatched(self._statement, self._node, self.relation, "a window")
        kept = self._kept()
        order = order_of(self._scope, self._node, binder)
        relation: Rows = groups.relation(inner.applied(self.relation))
        relation = above.applied(relation)
        if condition is not None:
            relation = Filter(relation, condition)
        relation = windows.relation(relation)
        if last is not None:
            relation = Filter(relation, last)
        distinct = self._node.args.get("distinct") is not None
        if kept is not None:
            relation = self._limited(relation, by, order, kept, distinct=distinct)
        return self._finished(relation, items, distinct)

    def _limited(
        self,
        rows: Rows,
        by: Sequence[Expression],
        order: list[Order],
        kept: Kept,
        *,
        distinct: bool,
    ) -> Rows:
        """Return the first rows of those that each outer row sees."""
        if not by:
            raise unmatched(self._statement, self._node, self.relation, "LIMIT")
        if distinct:
            raise self._statement.unsupported(
                "DISTINCT with LIMIT isn't answered in a subquery that depends on the outer row.",
                self._node,
                hint="GROUP BY … ORDER BY … LIMIT …",
            )
        require_own(self._scope, self._node, [item.expression for item in order])
        return first_rows(self._statement, rows, by, order, kept)

    def _rows(self, relation: Rows, hooks: tuple[Hook, ...], subqueries: Subqueries) -> PrivateRows:
        """Return the rows of a block without groups: windows, QUALIFY, DISTINCT, the select list."""
        if self._padded:
            raise self._nobody()
        node = self._node
        windows = self._windows(relation, self._keys, self._hooks[1:])
        hooks = (*hooks, windows.meaning)
        items = self._selected(hooks, None)
        qualify = node.args.get("qualify")
        binder = Expressions(self._scope, self._aliases, hooks)
        condition = None if qualify is None else binder.bind_condition(qualify.this)
        distinct = node.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        kept = self._kept()
        order = order_of(self._scope, node, binder)
        firsts = [] if on is None else on.expressions or [on]
        by = [bind_item(self._scope, e, node, binder) for e in firsts]
        if self.correlated and not self._keys and (on is not None or windows):
            what = "DISTINCT ON" if on is not None else "a window"
            raise unmatched(self._statement, node, self.relation, what)
        relation = subqueries.applied(windows.relation(relation))
        if condition is not None:
            relation = Filter(relation, condition)
        if on is not None:
            relation = self._first(relation, [*by, *self._keys], order)
        repeats = (distinct is not None and on is None) or self._again(node, items)
        if kept is not None:
            relation = self._limited(relation, self._keys, order, kept, distinct=repeats)
        return self._finished(relation, items, repeats)

    def _again(self, node: exp.Select, items: Sequence[tuple[str, Expression]]) -> bool:
        """Return whether the rows are distinct values of several persons' rows again, with all columns."""
        if self.values is None:
            return False
        shown = {bound.column for _, bound in items if isinstance(bound, Ref)}
        parts = ("qualify", "distinct", "limit", "offset")
        if not shown.issuperset(self.values.columns) or any(node.args.get(k) for k in parts):
            raise self.values.refused()
        return True

    def _windows(self, rows: Rows, keys: Sequence[Expression], hooks: tuple[Hook, ...]) -> Windows:
        named = list(self._node.args.get("windows") or [])
        return Windows(self._statement, self._scope, rows, self._aliases, named, keys, hooks)

    def _first(self, rows: Rows, by: list[Expression], order: list[Order]) -> Rows:
        """Return the first row of each value of DISTINCT ON, by a total order."""
        owners = owners_of(rows)
        if is_protected(rows) and not any(holds_owner(e, owners) for e in by):
            raise self._distinct()
        require_own(self._scope, self._node, [*by, *(item.expression for item in order)])
        return first_rows(self._statement, rows, list(dict.fromkeys(by)), order)

    def _distinct(self) -> Exception:
        owner = owner_of(self.relation)
        return self._statement.not_private(
            "DISTINCT over the rows of several persons lets one decide about another's row.",
            self._node,
            hint=f"{self._counted()}, COUNT(*) over this subquery alone, or "
            + (
                "aggregate, then use DISTINCT on the result"
                if owner is None
                else f"SELECT DISTINCT {owner.name}, …"
            ),
            tries=(
                f"SELECT COUNT(*) FROM ({self._node.sql(dialect=Reading)})",
                examples.distinct(self.relation, self._statement.catalog),
            ),
        )

    def _counted(self) -> str:
        """Return what counts the combinations of the select list."""
        items = [item.unalias().sql(dialect=Reading) for item in self._node.expressions]
        counted = items[0] if len(items) == 1 else f"({', '.join(items)})"
        return f"COUNT(DISTINCT {counted})"

    def _nobody(self) -> Exception:
        return self._statement.not_private(
            "this outer join keeps rows of a public table, which belong to nobody.",
            self._node,
            hint="an inner join, or aggregate in this block and group by the public table's columns",
        )

    def _kept(self) -> Kept | None:
        """Return which rows LIMIT keeps of those that an outer row sees, None without one."""
        node = self._node
        found = node.args.get("limit") or node.args.get("offset")
        if found is None:
            return None
        if self.correlated:
            return limit_of(self._statement, node)
        owner = owner_of(self.relation)
        hint = "LIMIT after the aggregate"
        if owner is not None:
            by = f"PARTITION BY {owner.name} ORDER BY …"
            hint = f"QUALIFY row_number() OVER ({by}) <= 3, or {hint}"
        raise self._statement.not_private(
            "LIMIT over the rows of several persons lets one decide about another's row.",
            found,
            hint=hint,
            tries=(
                *nearby.aggregated(self._node),
                examples.first_rows(self.relation, self._statement.catalog),
            ),
        )

    def _selected(
        self, hooks: tuple[Hook, ...], keys: list[Column] | None
    ) -> list[tuple[str, Expression]]:
        binder = Expressions(self._scope, self._aliases, hooks)
        found = [
            pair for item in self._node.expressions for pair in listed(item, self._scope, binder)
        ]
        if keys is not None and any(isinstance(i, exp.Star) for i in self._node.expressions):
            raise self._statement.wrong("* can't stand beside groups.", self._node)
        return found

    def _finished(
        self,
        relation: Rows,
        items: list[tuple[str, Expression]],
        distinct: bool,  # noqa: FBT001
    ) -> PrivateRows:
        """Return the select list over the rows, the owner kept whatever the list says."""
        visible: list[Named] = []
        columns: dict[int, Column] = {}
        expressions: dict[int, Expression] = {}
        for name, bound in items:
            column = (
                bound.column if isinstance(bound, Ref) else self._statement.column(name, bound.type)
            )
            visible.append(Named(name, column))
            columns[column.number] = column
            expressions[column.number] = bound
        owners = owners_of(relation)
        own = {c.number: c for c in output(relation)}
        reads = {c.number: c for e in self.correlated for c in columns_of(e)}
        hidden = [c for n, c in reads.items() if n in own]
        owner = owner_of(relation)
        if owner is not None:
            hidden.append(owner)
        for column in hidden:
            if column.number not in columns and (not distinct or Ref(column) in self._keys):
                columns[column.number] = column
                expressions[column.number] = Ref(column)
        owned = any(holds_owner(e, owners) for e in expressions.values())
        mixed = distinct and is_protected(relation) and not owned
        if mixed and (self.correlated or (owners and owner is None)):
            raise self._distinct()
        if self.values is not None:
            self.values.require_alone(relation)
        if {c.number for c in output(self.relation)} & reads.keys() - columns.keys():
            what = "DISTINCT" if distinct else "GROUP BY"
            raise unmatched(self._statement, self._node, self.relation, what)
        read = {c.number for e in expressions.values() for c in columns_of(e)}
        if not read <= set(own):
            raise self._statement.unsupported(
                "a column of the block around a subquery can be compared in its WHERE only.",
                self._node,
            )
        made = tuple(columns.values())
        if mixed and owner is not None:
            columns[owner.number], expressions[owner.number] = owner, Ref(owner)
        projected: Rows = Project(relation, tuple(columns.values()), tuple(expressions.values()))
        if distinct:
            projected = GroupRows(projected, made, tuple(Ref(c) for c in made), ())
        personal = "each row is one person's" if isinstance(relation, GroupRows) else ""
        return PrivateRows(
            projected,
            tuple(visible),
            is_protected(relation),
            self.correlated,
            personal,
            self._distinct if mixed else None,
        )


def _as_equality(condition: Expression, owners: frozenset[int]) -> Expression:
    """Return IS NOT DISTINCT FROM an owner as =, which is true where it is: an owner is never NULL."""
    if not isinstance(condition, Call) or condition.function != "is_not_distinct_from":
        return condition
    owned = any(holds_owner(arg, owners) for arg in condition.args)
    return call("=", condition.args) if owned else condition


def _parts(condition: exp.Expr) -> list[exp.Expr]:
    """Return the parts of a top-level AND, as written."""
    if isinstance(condition, exp.And):
        return [*_parts(condition.this), *_parts(condition.expression)]
    if isinstance(condition, exp.Paren) and isinstance(condition.this, exp.And):
        return _parts(condition.this)
    return [condition]
