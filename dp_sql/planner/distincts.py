"""From COUNT(DISTINCT x) to the pairs that it counts, and for how many values a unit may vouch."""

from __future__ import annotations

from dp_sql.plan.release import Aggregate, AggregateKind


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
