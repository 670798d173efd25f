"""Lowers counts of distinct values: which unit has which value, or how many values there are."""

from __future__ import annotations

from dp_sql.executor.lower_kept import kept
from dp_sql.executor.lower_public import fetched
from dp_sql.executor.lower_relation import group_order, lower_relation, measured_rows
from dp_sql.executor.lower_rows import name
from dp_sql.plan.distinct import Distinct
from dp_sql.plan.relation import BoundGroups


def distinct_sql(distinct: Distinct) -> str:
    """Return the statement of a count of distinct values.

    At event level it gives keys and the number of values, a row a group. At user level keys, the
    hashes of unit and value, a row a pair, sorted by group, unit and value. The order of units and of
    values is that of keyed hashes: it doesn't depend on who else is there.
    """
    relation = distinct.relation
    bound = relation if isinstance(relation, BoundGroups) else None
    inner = relation if bound is None else bound.source
    measured = measured_rows(inner)
    values = [name(c) for c in distinct.values]
    keys = [name(k) for k in measured.keys[: len(measured.keys) - len(values)]]
    shown = [fetched(name(k), k.type) for k in measured.keys[: len(keys)]]
    rows = f"({lower_relation(inner)}) AS rows_"
    known = f" WHERE {values[0]} IS NOT NULL" if distinct.known else ""
    inside = kept(inner, "n") if keys else ""
    if not distinct.caps:
        pairs = f"SELECT {', '.join([*keys, *values])}, count(*) AS n FROM {rows}{known} "
        pairs += f"GROUP BY {', '.join([*keys, *values])}"
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join([*shown, 'count(*)'])} FROM ({pairs}) AS pairs_{inside}{group}"
    items = ["u", *keys, *values]
    pairs = (
        f"SELECT {', '.join(items)}, count(*) AS n FROM {rows}{known} GROUP BY {', '.join(items)}"
    )
    pairs = f"SELECT * FROM ({pairs}) AS pairs_{inside}"
    few = ""
    if bound is not None:
        order = group_order(bound, len(keys))
        rank = f"dense_rank() OVER (PARTITION BY u ORDER BY {order}) AS rank_"
        pairs = f"SELECT *, {rank} FROM ({pairs}) AS all_"
        few = f" WHERE rank_ <= {bound.max_groups}"
    secret = f"CAST({distinct.hash_key} AS HUGEINT)"
    found = [f"hash(u, {secret}) AS unit_", f"hash({', '.join(values)}, {secret}) AS value_"]
    hashed = f"SELECT DISTINCT {', '.join([*keys, *found])} FROM ({pairs}) AS ranked_{few}"
    by = ", ".join([*keys, "unit_", "value_"])
    return (
        f"SELECT {', '.join([*shown, 'unit_', 'value_'])} FROM ({hashed}) AS hashed_ ORDER BY {by}"
    )
