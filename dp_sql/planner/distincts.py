"""From COUNT(DISTINCT x) to the pairs that it counts, and for how many values a unit may vouch."""

from __future__ import annotations

import secrets
from fractions import Fraction

from dp_sql.plan.distinct import Distinct
from dp_sql.plan.expression import Column
from dp_sql.plan.relation import CountMeasure, MeasureRows
from dp_sql.plan.release import Aggregate, AggregateKind
from dp_sql.planner.bounded import Frame, kept


def plan_distincts(frame: Frame) -> dict[str, Distinct]:
    """Return the plans of the aggregates that count distinct values, by their names, without shares."""
    return {a.name: _distinct(frame, a) for a in frame.release.aggregates if counts_values(a)}


def _distinct(frame: Frame, aggregate: Aggregate) -> Distinct:
    release = frame.release
    values = tuple(frame.column(f"d{i}", v.type) for i, v in enumerate(aggregate.values))
    counted: tuple[tuple[Column, ...], ...] = ((frame.column("v"),),)
    expressions = (*(k.expression for k in release.keys), *aggregate.values)
    relation = MeasureRows(
        release.source, (*frame.columns, *values), expressions, (CountMeasure(None),), counted
    )
    caps = caps_of(aggregate, frame.limits.max_rows_per_group) if frame.user else ()
    known = aggregate.argument is not None
    return Distinct(kept(relation, frame), values, known, caps, secrets.randbits(63), Fraction(0))


def caps_of(aggregate: Aggregate, max_rows: int) -> tuple[int, ...]:
    """Return for how many values of a group a unit may vouch: the statement's bound, or powers of two.

    max_rows: how many rows of a unit count in a group; it has no more values than that.
    """
    if aggregate.bounds is not None:
        return (max(1, int(aggregate.bounds[1])),)
    caps = [1]
    while 2 * caps[-1] < max_rows:
        caps.append(2 * caps[-1])
    return tuple(dict.fromkeys([*caps, max_rows]))


def counts_values(aggregate: Aggregate) -> bool:
    """Return whether an aggregate counts distinct values other than owners."""
    return aggregate.kind is AggregateKind.COUNT_DISTINCT
