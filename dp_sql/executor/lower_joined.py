"""Lowers two relations that differ only in what they measure to one statement, which reads rows once."""

from __future__ import annotations

from dp_sql.executor.lower_relation import totals
from dp_sql.plan.relation import (
    BoundGroups,
    BoundRows,
    MeasureRows,
    Relation,
    SumPerUnit,
)
from dp_sql.plan.release import PlannedRelease


def joined_sql(plan: PlannedRelease) -> str | None:
    """Return the statement of a release's table with the column that selects its keys as the last one.

    None where either has rows of its own.

    Claim:   its columns, but the last, are those of `release_sql`, and keys and last column are those
             of `selection_sql`.
    Why:     both relations have the same rows, keys and limits, and keep a unit's groups by the same
             hash key, so their pairs of unit and group are the same; what is measured of a pair and
             summed over pairs doesn't depend on what else is.
    Assumes: nothing.  Source: SQL's GROUP BY.
    """
    apart = plan.selection_relation
    if apart is None or not plan.in_table:
        return None
    both = _both(plan.relation, apart)
    return None if both is None else totals(both)


def _both(first: Relation, second: Relation) -> Relation | None:
    """Return one relation that measures what two do, None where they differ in anything else."""
    match first, second:
        case MeasureRows(), MeasureRows():
            same = (first.source, first.keys, first.key_expressions, first.sample) == (
                second.source, second.keys, second.key_expressions, second.sample,
            )  # fmt: skip
            if not same:
                return None
            return MeasureRows(
                first.source,
                first.keys,
                first.key_expressions,
                first.measures + second.measures,
                first.vectors + second.vectors,
                first.sample,
            )
        case SumPerUnit(), SumPerUnit() if first.partners is None and second.partners is None:
            below = _both(first.source, second.source)
            return None if below is None else SumPerUnit(below, first.count)
        case BoundGroups(), BoundGroups() if (first.max_groups, first.hash_key) == (
            second.max_groups,
            second.hash_key,
        ):
            below = _both(first.source, second.source)
            if below is None:
                return None
            return BoundGroups(below, first.max_groups, first.hash_key)
        case BoundRows(), BoundRows() if first.max_rows == second.max_rows:
            below = _both(first.source, second.source)
            bits = first.low_bits + second.low_bits
            return None if below is None else BoundRows(below, first.max_rows, bits)
        case _:
            return None
