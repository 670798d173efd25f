"""Which blocks of a table a release can depend on: parallel composition over many statements.

A table with `budget.blocks` has a budget for each value of one column. A release debits the blocks
whose rows can change it, which its conditions on that column tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import assert_never

from dp_sql.dataclass import dataclass
from dp_sql.plan.expression import Column, Expression, Ref, columns_of
from dp_sql.plan.relation import (
    BoundGroups,
    BoundRows,
    DropKeys,
    KeepKeys,
    MeasureRows,
    Relation,
    SpreadRows,
    SumPerUnit,
)
from dp_sql.plan.release import PlannedRelease
from dp_sql.plan.rows import (
    Filter,
    GroupRows,
    Join,
    JoinKind,
    Mark,
    Project,
    Scan,
    SetRows,
    StageScan,
    WindowRows,
)
from dp_sql.sensitivity.spans import Values, all_of, names_of, open_end, values_where

MOST_BLOCKS = 4096
"""Blocks that one statement debits by name; one that needs more debits every block."""


@dataclass(frozen=True, slots=True)
class Debit:
    """What a release or a statement debits of a table with blocks.

    blocks: the names of the blocks that its answer can depend on; None for every block, NULL among
    them. why: for None, why it is every block, as a clause.
    """

    blocks: frozenset[str] | None
    why: str = ""

    def __or__(self, other: Debit) -> Debit:
        """Return the debit of two that run in one statement, or are parts of one."""
        if self.blocks is None or other.blocks is None:
            return self if self.blocks is None else other
        return _few(self.blocks | other.blocks)


def debit(plans: Iterable[PlannedRelease], table: str, column: str) -> Debit:
    """Return the blocks of `table` by `column`, both in lower case, that planned releases depend on.

    Claim:   no answer changes, in distribution or in any bit before the noise, by rows of the table
             whose value isn't the name of a debited block.
    Why:     every table of sums, choices and keys is a function of the plans' relations, and a
             relation of its scans. A scan takes nothing of a row that some predicate above it
             rejects, where all between the two drop that row's pairs alone and change no other
             row: filters, projections, the inner sides of joins, the preserved side of a left one,
             the rows that a mark is added to; and the condition of a mark says which rows of its
             right side count. Windows, groups, set operations, padded sides and ASOF's right side
             read other rows, or give rows where none matches: no predicate goes through them. What
             is left of a scan's predicates is a set of values of the column (`values_where`), and
             what several scans take is in the union of their sets.
    Assumes: rows are unit-local (`sensitivity.locality`), columns have numbers of their own, and
             public tables, stages and keys don't read the table: it stands in every scan of it.
    Source:  [McSherry2009]
    """
    found = [
        _scan_debit(scan, known, column)
        for plan in plans
        for relation in _relations(plan)
        for scan, known in _restricted(relation, ())
        if scan.table == table
    ]
    return reduce(Debit.__or__, found) if found else Debit(None, "no scan of it is in the plan")


def _relations(plan: PlannedRelease) -> Iterator[Relation]:
    """Yield every relation that a planned release reads."""
    yield plan.relation
    for selected in (plan.selection_relation, plan.second_relation):
        if selected is not None:
            yield selected
    yield from (histogram.relation for histogram in plan.histograms)
    yield from (distinct.relation for distinct in plan.distincts)
    yield from (sampled.relation for sampled in plan.sampled)


def _restricted(
    relation: Relation, known: tuple[Expression, ...]
) -> Iterator[tuple[Scan, tuple[Expression, ...]]]:
    """Yield the scans below, each with the predicates of which one that isn't true drops a row.

    known: those over the columns of `relation`.
    """
    match relation:
        case Scan():
            yield relation, known
        case StageScan():
            return
        case Filter(source=source, predicate=predicate):
            yield from _restricted(source, (*known, predicate))
        case Project(source=source):
            yield from _restricted(source, _passed(relation, known))
        case Join():
            yield from _joined(relation, known)
        case Mark(left=left, right=right, condition=condition):
            yield from _restricted(left, known)
            yield from _restricted(right, (condition,))
        case SetRows(left=left, right=right):
            yield from _restricted(left, ())
            yield from _restricted(right, ())
        case (
            GroupRows()
            | WindowRows()
            | MeasureRows()
            | SumPerUnit()
            | DropKeys()
            | KeepKeys()
            | BoundRows()
            | BoundGroups()
            | SpreadRows()
        ):
            yield from _restricted(relation.source, ())
        case _:
            assert_never(relation)


def _joined(
    join: Join, known: tuple[Expression, ...]
) -> Iterator[tuple[Scan, tuple[Expression, ...]]]:
    match join.kind:
        case JoinKind.INNER:
            left = right = (*known, join.condition)
        case JoinKind.LEFT | JoinKind.ASOF | JoinKind.ASOF_LEFT:
            left, right = known, ()
        case JoinKind.FULL:
            left = right = ()
        case _:
            assert_never(join.kind)
    yield from _restricted(join.left, left)
    yield from _restricted(join.right, right)


def _passed(project: Project, known: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Return the predicates over columns that a projection passes on as they are."""
    changed = {
        c.number for c, e in zip(project.columns, project.expressions, strict=True) if e != Ref(c)
    }
    return tuple(p for p in known if not any(c.number in changed for c in columns_of(p)))


def _scan_debit(scan: Scan, known: tuple[Expression, ...], name: str) -> Debit:
    column = dict(zip(scan.sources, scan.columns, strict=True)).get(name)
    values = None if column is None else _values(known, column)
    if column is None or values is None:
        return Debit(
            None, f"a part of it reads rows that no condition on {name} with constants restricts"
        )
    end = open_end(values)
    if end:
        return Debit(None, f"its condition on {name} has no {end} end")
    blocks = names_of(values, column.type, MOST_BLOCKS)
    return _few(blocks)


def _values(known: tuple[Expression, ...], column: Column) -> Values | None:
    return all_of(v for p in known if (v := values_where(p, column)) is not None)


def _few(blocks: frozenset[str] | None) -> Debit:
    """Return the debit of some blocks, None standing for too many."""
    if blocks is None or len(blocks) > MOST_BLOCKS:
        return Debit(None, f"its conditions leave more than {MOST_BLOCKS:,} blocks")
    return Debit(blocks)
