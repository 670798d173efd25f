"""The two sides of a join on the owner, each of which can be summed before they meet."""

from __future__ import annotations

from functools import reduce

from dp_sql.dataclass import dataclass
from dp_sql.plan.expression import Call, Column, Expression, Ref, columns_of
from dp_sql.plan.relation import MeasureRows, arguments, output
from dp_sql.plan.rows import Filter, Join, JoinKind
from dp_sql.sensitivity.ownership import conjuncts, owner_of


@dataclass(frozen=True, slots=True)
class Sides:
    """What is measured of one side of a join, and the side that only says how often.

    measured: the rows of the side that the measures read, with their part of the keys.
    partners: the rows of the other side with the rest of the keys, and no measure.
    """

    measured: MeasureRows
    partners: MeasureRows


def sides_of(rows: MeasureRows) -> Sides | None:
    """Return the sides of measured rows that are an inner join on the owner; None for all others.

    Claim:   for each unit and group, the measured rows are the pairs of one row of `measured` and
             one of `partners` with this unit and this group's values in their keys.
    Why:     an inner join with its filters keeps the pairs for which every conjunct is true. One
             conjunct says that the sides' owners are equal, and every other one reads columns of one
             side: it keeps or drops rows of that side whatever their partner. A key reads one side
             too, so a group is a group of either side. The owners have one type, so that equal ones
             are one value in both.
             A sample of the units has the same units on both sides.
    Assumes: expressions are deterministic.
    Source:  [YanLarson1995]
    """
    source, parts = rows.source, list[Expression]()
    while isinstance(source, Filter):
        parts += conjuncts(source.predicate)
        source = source.source
    if not isinstance(source, Join) or source.kind is not JoinKind.INNER:
        return None
    parts += conjuncts(source.condition)
    owners = owner_of(source.left), owner_of(source.right)
    if any(o is None for o in owners) or len({o.type for o in owners if o is not None}) > 1:
        return None
    rest = [part for part in parts if not _equal_owners(part, owners)]
    if len(rest) == len(parts):
        return None
    own = [{column.number for column in output(side)} for side in (source.left, source.right)]
    read = [e for measure in rows.measures for e in arguments(measure)]
    at = _side(own, *read)
    keys = [_side(own, key) for key in rows.key_expressions]
    tests = [_side(own, part) for part in rest]
    if None in (at, *keys, *tests):
        return None
    made = []
    for i, side in enumerate((source.left, source.right)):
        kept = [k for k, key_side in enumerate(keys) if key_side == i]
        filters = [part for part, test in zip(rest, tests, strict=True) if test == i]
        made.append(
            MeasureRows(
                reduce(Filter, filters, side),
                tuple(rows.keys[k] for k in kept),
                tuple(rows.key_expressions[k] for k in kept),
                rows.measures if i == at else (),
                rows.vectors if i == at else (),
                rows.sample,
            )
        )
    return Sides(*(made if at == 0 else made[::-1]))


def _equal_owners(part: Expression, owners: tuple[Column | None, Column | None]) -> bool:
    return (
        isinstance(part, Call)
        and part.function == "="
        and all(isinstance(arg, Ref) for arg in part.args)
        and {arg.column for arg in part.args if isinstance(arg, Ref)} == set(owners)
    )


def _side(own: list[set[int]], *expressions: Expression) -> int | None:
    """Return which side expressions read, the first if neither; None where they read both."""
    read = {column.number for e in expressions for column in columns_of(e)}
    return next((i for i, columns in enumerate(own) if read <= columns), None)
