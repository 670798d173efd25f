"""Lowers histograms: the weights of a group's values by their place on the grid."""

from __future__ import annotations

from dp_sql.errors import InternalError
from dp_sql.executor.lower_kept import kept
from dp_sql.executor.lower_public import fetched
from dp_sql.executor.lower_relation import group_order, lower_relation, measured_rows
from dp_sql.executor.lower_rows import name
from dp_sql.plan.histogram import Histogram
from dp_sql.plan.relation import BoundGroups, Relation, SpreadRows


def histogram_sql(histogram: Histogram) -> str:
    """Return the statement that gives keys, place and weight, a row for each place that is held."""
    measured = measured_rows(histogram.relation)
    keys = [name(k) for k in measured.keys]
    shown = ", ".join([*(fetched(name(k), k.type) for k in measured.keys), "g0"])
    groups = ", ".join([*keys, "g0"])
    relation = histogram.relation
    bound = relation if isinstance(relation, BoundGroups) else None
    inner = relation if bound is None else bound.source
    if not isinstance(inner, SpreadRows):
        return (
            f"SELECT {shown}, n FROM (SELECT {groups}, count(*) AS n FROM {_placed(inner)} "
            f"GROUP BY {groups}) AS cells_{kept(inner, 'n') if keys else ''}"
        )
    ranked = (
        ""
        if bound is None
        else f", dense_rank() OVER (PARTITION BY u ORDER BY {group_order(bound)}) AS rank_"
    )
    few = "" if bound is None else f" WHERE rank_ <= {bound.max_groups}"
    spread = f"SELECT {groups}, {_weight(inner)} AS w{ranked} FROM {_cells(inner.source, keys)}"
    return f"SELECT {shown}, sum(w) FROM ({spread}) AS spread_{few} GROUP BY {groups}"


def _placed(relation: Relation) -> str:
    return f"({lower_relation(relation)}) AS rows_ WHERE g0 IS NOT NULL"


def _cells(relation: Relation, keys: list[str]) -> str:
    """Return a FROM item with a unit's values `n` by group and place, and `c` in the group."""
    unit = ", ".join(["u", *keys])
    counted = (
        f"SELECT {unit}, g0, count(*) AS n, sum(count(*)) OVER (PARTITION BY {unit}) AS c "
        f"FROM {_placed(relation)} GROUP BY {unit}, g0"
    )
    return f"({counted}) AS cells_{kept(relation, 'n') if keys else ''}"


def _weight(spread: SpreadRows) -> str:
    """Return the weight of a unit's `n` values at a place, of `c` in the group.

    Claim:   the weights of a unit in a group add up to max_rows * 2^low_bits at most, and no
             operation overflows.
    Why:     n * m // c truncates, and the n of a group add up to c. A unit has at most 2^45 rows, and
             m is below 2^81.
    Assumes: DuckDB's // of HUGEINT truncates non-negative numbers toward zero.
    """
    whole, most = 1 << spread.low_bits, spread.max_rows << spread.low_bits
    if most >= 2**62:
        raise InternalError("the weight of a unit is a BIGINT")
    return (
        f"CAST(CASE WHEN c > {spread.max_rows} THEN n * CAST({most} AS HUGEINT) // c "
        f"ELSE n * CAST({whole} AS HUGEINT) END AS BIGINT)"
    )
