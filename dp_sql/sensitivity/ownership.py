"""Ownership: which columns of a relation hold the owner of the row. It travels with the column."""

from __future__ import annotations

from typing import assert_never

from dp_sql.plan.expression import Column, Ref
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
    inputs,
    output,
)


def is_protected(relation: Relation) -> bool:
    """Return whether a relation reads a protected table."""
    if isinstance(relation, Scan):
        return not relation.public
    return any(is_protected(source) for source in inputs(relation))


def owners_of(relation: Relation) -> frozenset[int]:
    """Return the numbers of the columns that hold the owner of the row and are never NULL.

    Claim:   every row belongs to the value of each such column, and to one owner only.
    Why:     a scan keeps rows whose owner is not NULL; filters and projections work row by row; in
             a join at most one side is protected, and a padded side never gives an owner.
    Assumes: joins of two protected relations are refused (`sensitivity.multiplicity` checks it).
    Source:  [Wilson2020]
    """
    match relation:
        case Scan(owner=owner):
            return frozenset() if owner is None else frozenset({owner.number})
        case Filter(source=source) | KeepKeys(source=source):
            return owners_of(source)
        case Project(source=source, columns=columns, expressions=expressions):
            below = owners_of(source)
            return frozenset(
                column.number
                for column, expression in zip(columns, expressions, strict=True)
                if isinstance(expression, Ref) and expression.column.number in below
            )
        case Join(left=left, right=right, kind=kind):
            kept = owners_of(left)
            return kept if kind is JoinKind.LEFT else kept | owners_of(right)
        case MeasureRows(source=source):
            return owners_of(source)
        case SumPerUnit(source=source):
            return owners_of(source)
        case BoundRows(source=source) | BoundGroups(source=source):
            return owners_of(source)
        case _:
            assert_never(relation)


def owner_of(relation: Relation) -> Column | None:
    """Return one column that holds the owner, or None at event level and for public relations."""
    numbers = owners_of(relation)
    return next((column for column in output(_rows(relation)) if column.number in numbers), None)


def _rows(relation: Relation) -> Relation:
    """Return the relation of private rows below what the planner put on top."""
    match relation:
        case MeasureRows(source=source) | KeepKeys(source=source) | SumPerUnit(source=source):
            return _rows(source)
        case BoundRows(source=source) | BoundGroups(source=source):
            return _rows(source)
        case _:
            return relation
