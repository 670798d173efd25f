"""Unit-locality: whether the rows of one owner depend on that owner's rows and public data alone."""

from __future__ import annotations

from typing import assert_never

from dp_sql.errors import InternalError
from dp_sql.plan.expression import Column, Expression, columns_of
from dp_sql.plan.functions import call
from dp_sql.plan.relation import output
from dp_sql.plan.rows import (
    Filter,
    GroupRows,
    Join,
    JoinKind,
    Mark,
    Project,
    Rows,
    Scan,
    SetKind,
    SetRows,
    StageScan,
    WindowRows,
)
from dp_sql.privacy.unit import Level
from dp_sql.sensitivity.ownership import (
    holds_owner,
    is_protected,
    link_of,
    linked,
    owner_places,
    owners_of,
    same_owner,
)


def require_local(rows: Rows, level: Level) -> None:
    """Raise InternalError for a relation that is not unit-local: the parser should have refused it.

    Claim:   R(D)|u, the rows of owner u, depends on D|u and on public data alone, bit for bit.
    Why:     node by node. Filters, projections and joins with public rows read one protected row. A
             join of two protected sides, a mark and a set operation let rows of one owner meet, by
             `same_owner` or `linked`. A group or a window holds rows of one owner. A left join pads
             the protected side's own rows only.
    Assumes: expressions are deterministic and canonical; the aggregates of GroupRows give the same
             bits in every order of their rows, and so do windows, whose order is total.
    Source:  [McSherry2009], [Wilson2020]
    """
    match rows:
        case Scan() | StageScan():
            return
        case Filter(source=source, predicate=predicate):
            _reads((predicate,), output(source))
            require_local(source, level)
        case Project(source=source, expressions=expressions):
            _reads(expressions, output(source))
            require_local(source, level)
            if level is Level.USER and is_protected(source) and owners_of(source):
                _require(bool(owners_of(rows)), "a projection lost the owner")
        case Join():
            _reads((rows.condition,), (*output(rows.left), *output(rows.right)))
            require_local(rows.left, level)
            require_local(rows.right, level)
            _require_join(rows)
        case Mark():
            _require_mark(rows, level)
        case GroupRows(source=source, key_expressions=keys, aggregates=aggregates):
            read = tuple(e for a in aggregates for e in a.read)
            _reads((*keys, *read), output(source))
            require_local(source, level)
            if is_protected(source):
                _require(bool(owners_of(rows)), "a group of several owners' rows")
        case WindowRows(source=source, functions=functions):
            require_local(source, level)
            owners = owners_of(source)
            for function in functions:
                order = tuple(item.expression for item in function.order)
                _reads((*function.arguments, *function.partition, *order), output(source))
                alone = any(holds_owner(e, owners) for e in function.partition)
                _require(alone or not is_protected(source), "a window over several owners' rows")
        case SetRows():
            require_local(rows.left, level)
            require_local(rows.right, level)
            _require_set(rows, level)
        case _:
            assert_never(rows)


def _require(holds: bool, problem: str) -> None:  # noqa: FBT001  an assertion
    if not holds:
        raise InternalError(problem)


def _reads(expressions: tuple[Expression, ...], columns: tuple[Column, ...]) -> None:
    visible = {column.number for column in columns}
    read = {c.number for e in expressions for c in columns_of(e)}
    _require(read <= visible, "an expression reads a column that isn't there")


def _require_join(join: Join) -> None:
    left, right, kind = join.left, join.right, join.kind
    if is_protected(left) and is_protected(right):
        if kind in (JoinKind.INNER, JoinKind.LEFT) and link_of(right) is not None:
            found = linked(right, left, join.condition)
        elif kind is JoinKind.INNER and link_of(left) is not None:
            found = linked(left, right, join.condition)
        else:
            found = same_owner(left, right, join.condition)
        _require(found, "a join of two protected relations")
    elif is_protected(right):
        _require(kind is JoinKind.INNER, "a join whose rows belong to nobody")
    elif is_protected(left):
        _require(kind is not JoinKind.FULL, "a join whose rows belong to nobody")
    if kind is JoinKind.FULL and is_protected(left):
        owner = join.owner
        _require(
            owner is not None
            and owner[1].number in owners_of(left)
            and owner[2].number in owners_of(right),
            "a full join without an owner",
        )


def _require_mark(mark: Mark, level: Level) -> None:
    require_local(mark.left, level)
    require_local(mark.right, level)
    both = (*output(mark.left), *output(mark.right))
    compared = tuple(e for e in (mark.operand, mark.value) if e is not None)
    _reads((mark.condition, *compared), both)
    if not is_protected(mark.right):
        return
    _require(is_protected(mark.left), "a mark of public rows by protected ones")
    condition = mark.condition
    if mark.operand is not None and mark.value is not None and _owned(mark):
        condition = call("and", (condition, call("=", (mark.operand, mark.value))))
    _require(same_owner(mark.left, mark.right, condition), "a subquery over several owners' rows")


def _owned(mark: Mark) -> bool:
    """Return whether both sides of IN are owners: neither is NULL then, so IN is no more than EXISTS."""
    return all(
        e is not None and holds_owner(e, owners_of(side))
        for e, side in ((mark.operand, mark.left), (mark.value, mark.right))
    )


def _require_set(rows: SetRows, level: Level) -> None:
    left, right = is_protected(rows.left), is_protected(rows.right)
    if not left and not right:
        return
    _require(left, "protected rows taken from public ones")
    if rows.kind is SetKind.UNION_ALL and level is Level.EVENT:
        _require(right, "a union with rows that belong to nobody")
        return
    places = owner_places(rows)
    _require(bool(places), "a set operation without the owner")
    if not right:
        _require(
            rows.kind not in (SetKind.UNION, SetKind.UNION_ALL),
            "a union with rows that belong to nobody",
        )
        return
    owners = owners_of(rows.right)
    columns = output(rows.right)
    _require(
        any(columns[position].number in owners for _, position in places),
        "a set operation of several owners' rows",
    )
