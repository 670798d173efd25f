"""How many rows of a private relation one unit owns at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from dp_sql.plan.expression import Call, Column, Expression, Literal, Ref, columns_of
from dp_sql.plan.public import PublicFacts
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
from dp_sql.sensitivity.injective import injective_column
from dp_sql.sensitivity.ownership import conjuncts, is_protected, link_of, owners_of


def rows_per_unit(rows: Rows, level: Level, public: PublicFacts) -> int | None:
    """Return how many rows one unit owns at most; None where nothing bounds them.

    Claim:   a change of one unit touches at most so many rows, all of them that unit's own.
    Why:     at event level a scan's row is a unit. Groups by the owner alone are one row an owner.
             Filters, projections, marks and windows add no row; a join gives a row as many partners
             as its other side has for it; UNION ALL adds up, every other set operation keeps rows
             of its left side, or is a union of two. Of an owner's rows, numbered from 1, so many
             have a number up to n.
    Assumes: the relation is unit-local (`sensitivity.locality`).
    Source:  [McSherry2009]
    """
    match rows:
        case Scan(public=is_public):
            return 1 if level is Level.EVENT and not is_public else None
        case StageScan():
            return None
        case Filter(source=WindowRows() as source, predicate=predicate):
            found = (rows_per_unit(source, level, public), _first(source, predicate))
            return min((n for n in found if n is not None), default=None)
        case Filter(source=source) | Project(source=source) | WindowRows(source=source):
            return rows_per_unit(source, level, public)
        case Mark(left=left):
            return rows_per_unit(left, level, public)
        case GroupRows(source=source, key_expressions=keys):
            owners = owners_of(source)
            alone = owners and all(isinstance(k, Ref) and k.column.number in owners for k in keys)
            return 1 if alone else rows_per_unit(source, level, public)
        case Join():
            return _joined(rows, level, public)
        case SetRows(kind=kind, left=left, right=right):
            first = rows_per_unit(left, level, public)
            if kind not in (SetKind.UNION, SetKind.UNION_ALL):
                return first
            second = rows_per_unit(right, level, public)
            return None if first is None or second is None else first + second
        case _:
            assert_never(rows)


def _joined(join: Join, level: Level, public: PublicFacts) -> int | None:
    left, right = join.left, join.right
    if is_protected(left) and is_protected(right):
        if link_of(left) is not None or link_of(right) is not None:
            return None
        first, second = (rows_per_unit(side, level, public) for side in (left, right))
        if first is None or second is None:
            return None
        if join.kind is JoinKind.FULL:  # all of them match, or none does; between is no more
            return max(first + second, first * second)
        return first * max(1, second)
    protected, other = (right, left) if is_protected(right) else (left, right)
    found = rows_per_unit(protected, level, public)
    if found is None or not is_protected(protected):
        return None
    if join.kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT):
        return found
    most = partners(other, join.condition, public)
    return None if most is None else found * most


def _first(rows: WindowRows, predicate: Expression) -> int | None:
    """Return how many rows an owner has whose ROW_NUMBER is no larger than a constant; None unknown."""
    owners = owners_of(rows.source)
    numbered = {
        f.column.number
        for f in rows.functions
        if f.name == "row_number"
        and f.partition
        and all(isinstance(e, Ref) and e.column.number in owners for e in f.partition)
    }
    for part in conjuncts(predicate):
        match part:
            case Call(
                function="=" | "<=" as sign, args=(Ref(column=column), Literal(value=int(n)))
            ):
                if column.number in numbered:
                    return 1 if sign == "=" else max(n, 0)
    return None


def partners(other: Rows, condition: Expression, public: PublicFacts) -> int | None:
    """Return how many rows of the public relation `other` one row finds at most; None unknown.

    The columns that top-level equalities of `condition` give one value are fixed.
    """
    return _matching(other, fixed_columns(other, condition), public)


def fixed_columns(rows: Rows, condition: Expression) -> frozenset[int]:
    """Return the columns of `rows` that a condition gives one value: it equals what reads none of them.

    A cast of a column that loses nothing gives the column one value too (`injective_column`).
    """
    own = {column.number for column in output(rows)}
    return frozenset(
        column.number
        for part in conjuncts(condition)
        if isinstance(part, Call) and part.function == "="
        for side, against in (part.args, part.args[::-1])
        if (column := injective_column(side)) is not None
        and column.number in own
        and not {c.number for c in columns_of(against)} & own
    )


def _matching(rows: Rows, fixed: frozenset[int], public: PublicFacts) -> int | None:
    """Return how many public rows agree in the columns `fixed` at most; None where nothing says so.

    Claim:   no more rows do, whatever the values.
    Why:     a single row is one. A stage keeps one for all values of its unique columns, and no more
             rows than it says. Values of a whole verified unique key leave one row of a table, those
             of columns of verified frequency f leave f. Groups are told apart by their keys:
             one has them all, and as many as rows have some. A row of a join is a pair, whose right
             part agrees with its left in what the condition makes equal, and the other way round where
             the right part has a fixed column: a padded one is NULL there. NULL equals nothing. Where a
             cast that loses nothing has one value, so has its column.
    Assumes: the verifying query and the statement see the same public data.
    Source:  [McSherry2009]
    """
    match rows:
        case Scan(table=table, columns=columns, sources=sources):
            names = sorted(s for c, s in zip(columns, sources, strict=True) if c.number in fixed)
            sets = {(n,) for n in names} | {tuple(dict.fromkeys(names))} - {()}
            known = [public.frequency(table, one) for one in sorted(sets)]
            return min((f for f in known if f is not None), default=None)
        case StageScan(single=single, unique=unique, most=most):
            told = unique and all(column.number in fixed for column in unique)
            return 1 if single or told or most == 0 else most
        case Filter(source=source) | WindowRows(source=source):
            return _matching(source, fixed, public)
        case Mark(left=left):
            return _matching(left, fixed, public)
        case Project(source=source, columns=columns, expressions=expressions):
            return _matching(source, _below(fixed, columns, expressions), public)
        case GroupRows(source=source, keys=keys, key_expressions=expressions):
            if all(key.number in fixed for key in keys):
                return 1
            return _matching(source, _below(fixed, keys, expressions), public)
        case Join(left=left, right=right, kind=kind, condition=condition):
            first = _matching(left, fixed, public)
            if kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT):
                return first
            if kind is JoinKind.FULL:
                return None
            second = _matching(right, fixed | fixed_columns(right, condition), public)
            found = [] if first is None or second is None else [first * max(1, second)]
            if fixed & {column.number for column in output(right)}:
                first = _matching(left, fixed | fixed_columns(left, condition), public)
                second = _matching(right, fixed, public)
                found += [] if first is None or second is None else [first * second]
            return min(found, default=None)
        case SetRows():
            return None
        case _:
            assert_never(rows)


def _below(
    fixed: frozenset[int], columns: Sequence[Column], expressions: Sequence[Expression]
) -> frozenset[int]:
    """Return the source's columns that the fixed ones of `columns` are, also under casts."""
    below = (
        injective_column(e) for c, e in zip(columns, expressions, strict=True) if c.number in fixed
    )
    return frozenset(column.number for column in below if column is not None)
