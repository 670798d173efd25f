"""Conditions that hold for every row of a relation."""

from __future__ import annotations

from typing import assert_never

from dp_sql.plan.expression import Expression
from dp_sql.plan.rows import (
    Filter,
    GroupRows,
    Join,
    JoinKind,
    Mark,
    Project,
    Rows,
    Scan,
    SetRows,
    StageScan,
    WindowRows,
)
from dp_sql.sensitivity.ownership import conjuncts


def always_true(rows: Rows) -> list[Expression]:
    """Return conditions that hold for every row, over columns that keep their numbers."""
    match rows:
        case Scan() | StageScan() | SetRows():
            return []
        case Filter(source=source, predicate=predicate):
            return [*always_true(source), *conjuncts(predicate)]
        case Project() | GroupRows() | WindowRows():
            return always_true(rows.source)
        case Mark(left=left):
            return always_true(left)
        case Join(left=left, right=right, kind=kind, condition=condition):
            if kind is JoinKind.FULL:
                return []
            if kind.pads_right:
                return always_true(left)
            return [*always_true(left), *always_true(right), *conjuncts(condition)]
        case _:
            assert_never(rows)
