"""Joins of a private block: its items put together so that only rows of one owner ever meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from sqlglot import exp

from dp_sql.dataclass import dataclass
from dp_sql.parser import examples
from dp_sql.parser.each_row import EachRow
from dp_sql.parser.links import computed_owner, conjunction, resolved, shared_owner
from dp_sql.parser.scope import PrivateRows, Statement
from dp_sql.parser.sites import site_of
from dp_sql.parser.subqueries import Subqueries
from dp_sql.plan import functions
from dp_sql.plan.conversion import common_type
from dp_sql.plan.expression import Call, Column, Expression, Literal, Ref, columns_of
from dp_sql.plan.relation import output
from dp_sql.plan.rows import (
    Filter,
    Join,
    JoinKind,
    Mark,
    Order,
    Project,
    Rows,
    Site,
    WindowFunction,
    WindowRows,
)
from dp_sql.plan.signature import TypeProblem
from dp_sql.privacy.unit import Level
from dp_sql.schema import sqltype
from dp_sql.sensitivity.conditions import always_true
from dp_sql.sensitivity.ownership import (
    conjuncts,
    equal_columns,
    is_protected,
    link_of,
    linked,
    owner_of,
    owners_of,
    same_owner,
    with_owner,
)

_INEQUALITIES = (">=", ">", "<=", "<")


class Way(StrEnum):
    """How an item is joined to what stands before it."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    SEMI = "SEMI"
    ANTI = "ANTI"
    ASOF = "ASOF"
    ASOF_LEFT = "ASOF LEFT"
    COMPUTED = "LATERAL"
    EACH = "LATERAL aggregate"


@dataclass(frozen=True, slots=True)
class Step:
    """One item of FROM: its rows, how they are joined, and the conjuncts of its condition.

    merged: for a full join with USING, the columns that become one: (new, left's, right's).
    computed: the columns that a LATERAL without FROM makes of the row before it. each: what a LATERAL
    of aggregates counts and adds up for each row before it. outside: conditions on its rows that read
    the block around the subquery that it is in. tests: the subqueries of `condition`, columns of what
    stands before it.
    """

    rows: PrivateRows
    way: Way
    condition: tuple[Expression, ...]
    node: exp.Expr
    alias: str
    merged: tuple[tuple[Column, Column, Column], ...] = ()
    computed: tuple[tuple[Column, Expression], ...] = ()
    each: EachRow | None = None
    outside: tuple[Expression, ...] = ()
    tests: Subqueries | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """What a FROM and its WHERE read.

    padded: columns that are NULL on those rows of an outer join that the engine leaves out: a public
    side is preserved, and its values are public keys.
    """

    relation: Rows
    padded: frozenset[int]


def join(statement: Statement, steps: Sequence[Step], where: list[Expression]) -> Joined:
    """Return the joined rows of a block, filtered by the conjuncts of its WHERE.

    Raises QueryError for a join that would let rows of several owners meet.
    """
    for step in steps:
        if step.rows.mixed is not None:
            raise step.rows.mixed()
    return _Joiner(statement, where, steps).joined(steps)


class _Joiner:
    def __init__(
        self, statement: Statement, where: list[Expression], steps: Sequence[Step]
    ) -> None:
        self._statement = statement
        self._pool: list[Expression] = []
        self._where = where
        self._steps = steps
        self._last_outer = max(
            (i for i, s in enumerate(steps) if s.way in (Way.RIGHT, Way.FULL)), default=-1
        )
        self._padded: set[int] = set()

    def joined(self, steps: Sequence[Step]) -> Joined:
        leaves: list[Step] = []
        rows: Rows | None = None
        if self._last_outer < 0:
            self._pool += self._where
        for position, step in enumerate(steps):
            if step.way is Way.INNER:
                leaves.append(step)
                self._pool += step.condition
                continue
            rows = self._inner(rows, leaves)
            rows = self._tested(rows, step)
            leaves = []
            condition = tuple(with_owner(rows, part) for part in step.condition)
            rows = self._outer(rows, replace(step, condition=condition))
            if position == self._last_outer:
                self._pool += self._where
        rows = self._inner(rows, leaves)
        if self._pool:
            visible = {c.number for c in output(rows)}
            if any(c.number not in visible for e in self._pool for c in columns_of(e)):
                raise self._statement.unsupported(
                    "a condition of a join can't read the block around a subquery.",
                    steps[-1].node,
                    hint="write that condition in WHERE",
                )
            rows = Filter(rows, conjunction(self._pool))
        return Joined(rows, frozenset(self._padded))

    def _tested(self, rows: Rows, step: Step) -> Rows:
        """Return the rows before a left join with what the subqueries of its ON are."""
        tested = rows if step.tests is None else step.tests.applied(rows)
        if is_protected(tested) and not is_protected(rows):
            raise self._statement.not_private(
                "the subquery in this ON lets protected rows decide about a public table's.",
                step.node,
                hint="a number that is released: 0 < (SELECT COUNT(*) FROM … WHERE …)",
            )
        return tested

    def _take(self, *sides: Rows) -> list[Expression]:
        """Take the conditions from the pool that read these sides alone."""
        visible = {c.number for side in sides for c in output(side)}
        taken = [e for e in self._pool if all(c.number in visible for c in columns_of(e))]
        self._pool = [e for e in self._pool if e not in taken]
        return taken

    def _peek(self, *sides: Rows) -> list[Expression]:
        pool = self._pool
        taken = self._take(*sides)
        self._pool = pool
        return taken

    def _filtered(self, rows: Rows) -> Rows:
        own = self._take(rows)
        return Filter(rows, conjunction(own)) if own else rows

    def _inner(self, rows: Rows | None, leaves: list[Step]) -> Rows:
        """Return the inner join of what stands so far with some items, in an order that works."""
        rest = list(leaves)
        if rows is None:
            first = next((s for s in rest if owners_of(s.rows.relation)), None)
            first = first or next((s for s in rest if s.rows.protected), rest[0])
            rest.remove(first)
            rows = self._filtered(resolved(self._statement, first.rows.relation))
        self._pool = [with_owner(rows, part) for part in self._pool]
        while rest:
            for step in rest:
                found = self._met(rows, step)
                if found is not None:
                    break
            else:
                if self._implied(rows, rest):
                    continue
                step = next((s for s in rest if not s.rows.protected), rest[0])
                if step.rows.protected and is_protected(rows):
                    raise self._refuse(rows, step)
                found = step.rows.relation
            rest.remove(step)
            taken = self._take(rows, found)
            extra = self._extra(rows, found, taken)
            condition = _condition([*taken, *extra])
            rows = Join(rows, found, JoinKind.INNER, condition, site=self._site(step))
        return rows

    def _implied(self, rows: Rows, rest: list[Step]) -> bool:
        """Add the equalities that others imply, a = c where a = b and b = c; return whether any is new.

        They are true wherever the conditions are that they follow from.
        """
        sides = [output(rows), *(output(step.rows.relation) for step in rest)]
        place = {column.number: i for i, side in enumerate(sides) for column in side}
        same: dict[Column, set[Column]] = {}
        for part in (*self._pool, *always_true(rows)):
            for a, b in equal_columns(part):
                if a.type == b.type:
                    joined = same.get(a, {a}) | same.get(b, {b})
                    same.update(dict.fromkeys(joined, joined))
        known = {pair for part in self._pool for pair in equal_columns(part)}
        new = [
            functions.call("=", (Ref(a), Ref(b)))
            for a in same
            for b in same[a]
            if a.number < b.number
            and (a, b) not in known
            and place.get(a.number, -1) != place.get(b.number, -1)
            and {a.number, b.number} <= place.keys()
        ]
        self._pool += new
        return bool(new)

    def _met(self, rows: Rows, step: Step) -> Rows | None:
        """Return the rows of an item if they can be joined now: on the owner, or on anything."""
        item = step.rows.relation
        read = [e for e in self._peek(rows, item) if _reads_both(e, rows, item)]
        if not is_protected(item) or not is_protected(rows):
            return resolved(self._statement, item) if read else None
        condition = _condition(self._peek(rows, item))
        if linked(item, rows, condition):
            return item
        found = resolved(self._statement, item)
        return found if self._local(rows, found, condition) else None

    def _local(self, rows: Rows, item: Rows, condition: Expression) -> bool:
        shared = shared_owner(rows, item, condition, self._statement.catalog)
        return same_owner(rows, item, condition) or shared is not None

    def _extra(self, rows: Rows, item: Rows, taken: list[Expression]) -> list[Expression]:
        """Return the equality of owners that a join on a key of one owner needs besides."""
        if not is_protected(rows) or not is_protected(item) or link_of(item) is not None:
            return []
        condition = _condition(taken)
        if same_owner(rows, item, condition):
            return []
        shared = shared_owner(rows, item, condition, self._statement.catalog)
        return [] if shared is None else [shared]

    def _refuse(self, rows: Rows, step: Step) -> Exception:
        statement = self._statement
        if statement.catalog.unit.level is Level.EVENT:
            return statement.not_private(
                "at level event every row is its own unit, so rows of two protected tables "
                "can't be joined.",
                step.node,
                hint="query each table in a statement of its own",
            )
        first, second = owner_of(rows), owner_of(resolved(statement, step.rows.relation))
        names = "the owner's columns"
        if first is not None and second is not None:
            holders = (s.alias for s in self._steps if first in output(s.rows.relation))
            alias = next(holders, None)
            mine = first.name if alias is None else f"{alias}.{first.name}"
            names = f"{mine} = {step.alias}.{second.name}"
        computed = computed_owner(rows, step.rows.relation, [*step.condition, *self._pool])
        why = (
            ": an expression of the owner's column may be the same for several" if computed else ""
        )
        return statement.not_private(
            f"this join of {step.alias!r} lets rows of different persons meet{why}.",
            step.node,
            hint=f"join protected tables on their owner: … AND {names}",
            tries=(examples.joined(rows, step.rows.relation, statement.catalog),),
        )

    def _outer(self, rows: Rows, step: Step) -> Rows:
        way, item = step.way, step.rows.relation
        if way is Way.EACH and step.each is not None:
            return step.each.joined(resolved(self._statement, rows))
        if way is Way.COMPUTED:
            return self._computed(rows, step)
        if way in (Way.SEMI, Way.ANTI):
            return self._semi(rows, step)
        if way is Way.RIGHT:
            flipped = self._padding(item, rows, step)
            return flipped if flipped is not None else self._left(item, rows, step, JoinKind.LEFT)
        if way is Way.FULL:
            return self._full(rows, step)
        if way is Way.LEFT:
            inner = self._padding(rows, item, step)
            return inner if inner is not None else self._left(rows, item, step, JoinKind.LEFT)
        kind = JoinKind.ASOF if way is Way.ASOF else JoinKind.ASOF_LEFT
        if not is_protected(rows) and is_protected(item):
            raise self._nobody(step)
        return self._left(rows, self._nearest(item, step), step, kind)

    def _computed(self, rows: Rows, step: Step) -> Rows:
        """Return the rows with the columns that are made of each."""
        if self._padded:
            raise self._nobody(step)
        kept = output(rows)
        columns, expressions = zip(*step.computed, strict=True)
        made = Project(rows, (*kept, *columns), (*(Ref(c) for c in kept), *expressions))
        visible = {c.number for c in made.columns}
        if any(c.number not in visible for e in expressions for c in columns_of(e)) or any(
            c.number not in visible for e in step.condition for c in columns_of(e)
        ):
            raise self._statement.unsupported(
                "LATERAL can't read the block around a subquery.",
                step.node,
                hint="compare its columns in the WHERE of the subquery",
            )
        return Filter(made, conjunction(list(step.condition))) if step.condition else made

    def _padding(self, kept: Rows, other: Rows, step: Step) -> Rows | None:
        """Return the inner join that stands for an outer one whose preserved side is public.

        Its rows without a partner belong to nobody; the block above shows them as empty groups.
        """
        if is_protected(kept) or not is_protected(other):
            return None
        other = resolved(self._statement, other)
        self._padded |= {c.number for c in output(other)}
        condition = _condition(list(step.condition))
        return Join(other, kept, JoinKind.INNER, condition, site=self._site(step, kept, condition))

    def _left(self, kept: Rows, other: Rows, step: Step, kind: JoinKind) -> Rows:
        kept = resolved(self._statement, kept)
        condition = _condition(list(step.condition))
        if self._padded and kind is JoinKind.LEFT and self._through(kept, other, condition):
            self._padded |= {c.number for c in output(other)}
        if not is_protected(other) or not is_protected(kept):
            site = self._site(step, other, condition)
            return Join(kept, other, kind, condition, site=site)
        if kind is JoinKind.LEFT and linked(other, kept, condition):
            return Join(kept, other, kind, condition)
        other = resolved(self._statement, other)
        if not self._local(kept, other, condition):
            raise self._refuse(kept, step)
        extra = self._extra(kept, other, list(step.condition))
        return Join(kept, other, kind, _condition([*step.condition, *extra]))

    def _through(self, kept: Rows, other: Rows, condition: Expression) -> bool:
        """Return whether a join finds nothing for a row of a public side that has no partner.

        It compares a column that is NULL on such a row.
        """
        own = {c.number for c in output(other)}
        return any(
            a.number in self._padded and b.number in own and a in output(kept)
            for a, b in equal_columns(condition)
        )

    def _full(self, rows: Rows, step: Step) -> Rows:
        item = resolved(self._statement, step.rows.relation)
        if not is_protected(rows) or not is_protected(item):
            raise self._nobody(step)
        condition = _condition(list(step.condition))
        if not self._local(rows, item, condition):
            raise self._refuse(rows, step)
        extra = self._extra(rows, item, list(step.condition))
        first, second = owner_of(rows), owner_of(item)
        assert first is not None and second is not None  # noqa: S101, PT018  both are local
        try:
            type_ = common_type(first.type, second.type)
        except TypeProblem as problem:
            raise self._statement.wrong(f"{first.name}: {problem}.", step.node) from None
        owner = self._statement.column(first.name, type_, nullable=False)
        full = Join(
            rows,
            item,
            JoinKind.FULL,
            _condition([*step.condition, *extra]),
            (owner, first, second),
        )
        if not step.merged:
            return full
        kept = output(full)
        owners = owners_of(rows) | owners_of(item)
        made = [
            Ref(owner)
            if a.number in owners and b.number in owners
            else functions.call("coalesce", (Ref(a), Ref(b)))
            for _, a, b in step.merged
        ]
        return Project(
            full,
            (*kept, *(new for new, _, _ in step.merged)),
            (*(Ref(c) for c in kept), *made),
        )

    def _site(
        self, step: Step, public: Rows | None = None, condition: Expression | None = None
    ) -> Site:
        """Return where a step stands, or the item among the public rows that a condition reads."""
        own = set() if public is None else set(output(public))
        held = [s for s in self._steps if own.intersection(output(s.rows.relation))]
        read = set() if condition is None else own.intersection(columns_of(condition))
        named = (s for s in held if read.intersection(output(s.rows.relation)))
        found = next(named, held[0] if held else step)
        return site_of(self._statement, found.node, found.alias)

    def _nobody(self, step: Step) -> Exception:
        return self._statement.not_private(
            f"this {step.way.value} JOIN keeps rows that belong to nobody.",
            step.node,
            hint="FROM … LEFT JOIN … ON … GROUP BY the public table's columns"
            if step.way in (Way.EACH, Way.COMPUTED)
            else "an inner join, or put the protected table on the side that is kept",
        )

    def _semi(self, rows: Rows, step: Step) -> Rows:
        item = resolved(self._statement, step.rows.relation)
        if not is_protected(rows) and is_protected(item):
            raise self._nobody(step)
        rows = resolved(self._statement, rows)
        condition, extra = list(step.condition), list[Expression]()
        if is_protected(item):
            if not self._local(rows, item, _condition(condition)):
                raise self._refuse(rows, step)
            extra = self._extra(rows, item, condition)
        column = self._statement.column("matched", sqltype.BOOLEAN, nullable=False)
        marked = Mark(rows, item, column, _condition([*condition, *extra]))
        test: Expression = Ref(column)
        if step.way is Way.ANTI:
            test = functions.call("not", (test,))
        return Filter(marked, test)

    def _nearest(self, item: Rows, step: Step) -> Rows:
        """Return the rows that an ASOF join may find: of those that tie, one by a total order.

        Claim:   which row is found doesn't depend on the order of rows.
        Why:     rows with equal keys and an equal value of the inequality keep their first by an
                 order over all columns, so the nearest value is one row's.
        Assumes: the condition is equalities and one inequality, which is checked here.
        """
        item = resolved(self._statement, item)
        own = {c.number for c in output(item)}
        partition: list[Expression] = []
        unequal = 0
        for part in step.condition:
            if not isinstance(part, Call) or part.function not in ("=", *_INEQUALITIES):
                raise self._asof(step)
            sides = [a for a in part.args if any(c.number in own for c in columns_of(a))]
            if len(sides) != 1 or not all(c.number in own for c in columns_of(sides[0])):
                raise self._asof(step)
            unequal += part.function != "="
            partition.append(sides[0])
        if unequal != 1:
            raise self._asof(step)
        owner = owner_of(item)
        if owner is not None and Ref(owner) not in partition:
            partition.append(Ref(owner))
        column = self._statement.column("nearest", sqltype.BIGINT, nullable=False)
        order = tuple(Order(Ref(c), descending=False, nulls_first=False) for c in output(item))
        ranked = WindowRows(
            item, (WindowFunction("row_number", (), tuple(partition), order, "", column),)
        )
        first = functions.call("=", (Ref(column), Literal(1, sqltype.BIGINT)))
        return Filter(ranked, first)

    def _asof(self, step: Step) -> Exception:
        return self._statement.unsupported(
            "an ASOF join is on equalities and one inequality between the two sides.",
            step.node,
            hint="ON a.owner = b.owner AND a.time >= b.time, and other conditions in WHERE",
        )


def _condition(parts: list[Expression]) -> Expression:
    return conjunction(parts) if parts else Literal(value=True, type=sqltype.BOOLEAN)


def _reads_both(expression: Expression, left: Rows, right: Rows) -> bool:
    read = {c.number for c in columns_of(expression)}
    return all(read & {c.number for c in output(side)} for side in (left, right))


def split(expressions: Sequence[Expression]) -> list[Expression]:
    """Return the conjuncts of several conditions, one by one."""
    return [part for e in expressions for part in conjuncts(e)]
