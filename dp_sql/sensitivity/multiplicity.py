"""How many rows of a private relation one unit owns, and which operators are unit-local."""

from __future__ import annotations

from typing import assert_never

from dp_sql.errors import InternalError, NotPrivateError
from dp_sql.plan.expression import Call, Expression, Ref, columns_of
from dp_sql.plan.public import PublicFacts
from dp_sql.plan.relation import (
    BoundGroups,
    BoundRows,
    Filter,
    Join,
    JoinKind,
    KeepKeys,
    MeasureRows,
    Project,
    Relation,
    Scan,
    SumPerUnit,
    output,
)
from dp_sql.privacy.unit import Level
from dp_sql.sensitivity.ownership import is_protected, owners_of


def rows_per_unit(relation: Relation, level: Level, public: PublicFacts) -> int | None:
    """Return how many rows one unit owns at most; None where nothing bounds them.

    Claim:   a change of one unit touches at most so many rows, all of them that unit's own.
    Why:     a scan's row belongs to one unit; filters and projections read one row; a join with
             public rows gives each row as many partners as its condition allows.
    Assumes: expressions are deterministic (the function table holds no others).
    Source:  [McSherry2009]

    Raises InternalError for a relation that is not unit-local: the parser should have refused it.
    """
    match relation:
        case Scan(public=is_public, owner=owner):
            if is_public:
                return None
            if level is Level.USER and owner is None:
                raise InternalError("a protected scan without an owner")
            return 1 if level is Level.EVENT else None
        case Filter(source=source):
            return rows_per_unit(source, level, public)
        case Project(source=source):
            rows = rows_per_unit(source, level, public)
            if level is Level.USER and is_protected(source) and not owners_of(relation):
                raise InternalError("a projection lost the owner")
            return rows
        case Join(left=left, right=right, kind=kind, condition=condition):
            if is_protected(left) and is_protected(right):
                raise InternalError("a join of two protected relations")
            if is_protected(right) and kind is JoinKind.LEFT:
                raise InternalError("an outer join whose rows belong to nobody")
            protected, other = (right, left) if is_protected(right) else (left, right)
            rows = rows_per_unit(protected, level, public)
            if rows is None or not is_protected(protected):
                return None
            return rows if _at_most_one(other, condition, public) else None
        case MeasureRows() | KeepKeys() | SumPerUnit() | BoundRows() | BoundGroups():
            raise InternalError("a bounded relation below the measure")
        case _:
            assert_never(relation)


def _at_most_one(other: Relation, condition: Expression, public: PublicFacts) -> bool:
    """Return whether a row finds at most one partner in the public relation `other`.

    Claim:   top-level equalities fix every column of a verified unique key of a public table.
    Why:     two partners would agree in the whole key, which the verification excludes; NULL keys
             equal nothing.
    Assumes: the verifying query and the statement see the same public data.
    """
    base = other
    while isinstance(base, Filter):
        base = base.source
    if not isinstance(base, Scan):
        return False
    own = {column.number for column in output(base)}
    fixed: dict[int, str] = {}
    names = {c.number: s for c, s in zip(base.columns, base.sources, strict=True)}
    for part in conjuncts(condition):
        if isinstance(part, Call) and part.function == "=":
            for side, against in (part.args, part.args[::-1]):
                reads = {c.number for c in columns_of(against)}
                if isinstance(side, Ref) and side.column.number in own and not reads & own:
                    fixed[side.column.number] = names[side.column.number]
    if not fixed:
        return False
    columns = tuple(sorted(set(fixed.values())))
    return any(public.is_unique(base.table, (c,)) for c in columns) or public.is_unique(
        base.table, columns
    )


def conjuncts(condition: Expression) -> list[Expression]:
    """Return the parts of a top-level AND."""
    if isinstance(condition, Call) and condition.function == "and":
        return [part for arg in condition.args for part in conjuncts(arg)]
    return [condition]


def require_bounded(rows: int | None) -> int:
    """Return the number of rows per unit at event level, or raise NotPrivateError."""
    if rows is None:
        raise NotPrivateError(
            "this join can repeat a row any number of times, so one row's effect has no bound.",
            hint="join public tables on a column that is unique there",
        )
    return rows
