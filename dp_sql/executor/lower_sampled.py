"""Lowers SAMPLE_AND_AGGREGATE: an aggregate of each random block of units, then the sum of their steps."""

from __future__ import annotations

from dp_sql.executor.lower_kept import kept
from dp_sql.executor.lower_measure import grid
from dp_sql.executor.lower_public import fetched
from dp_sql.executor.lower_relation import group_order, lower_relation, measured_rows
from dp_sql.executor.lower_row_aggregate import aggregate_sql
from dp_sql.executor.lower_rows import name
from dp_sql.plan.relation import BoundGroups, SumMeasure
from dp_sql.plan.sampled import Sampled


def sampled_sql(sampled: Sampled) -> str:
    """Return the statement that gives keys and the sum of the blocks' steps, a row a group.

    Claim:   the sum is that of `blocks` integers between the measure's ends, each a function of the
             rows of its block alone, bit for bit; and no operation raises.
    Why:     a row's block is a keyed hash of its owner, or, where rows are units, of the row. What is
             computed of a block is `aggregate_sql`, the same in every order of rows. Its result is
             clamped before it is cast (`lower_measure`); NULL and NaN are the middle. Blocks without
             rows aren't there, so the steps are added up from the middle: each such block adds 0, and
             `blocks` middles are added to the sum, which fits a HUGEINT.
    Assumes: hash() reads its arguments alone.
    Source:  [NissimRS2007]

    The hash is hashed again: of two hashes DuckDB makes one by a xor, so that the key alone would
    number the same blocks anew.
    """
    measure, relation = sampled.measure, sampled.relation
    bound = relation if isinstance(relation, BoundGroups) else None
    inner = relation if bound is None else bound.source
    measured = measured_rows(inner)
    count = len(measured.keys) - 1 - len(sampled.content)
    keys = [name(k) for k in measured.keys[:count]]
    rows = f"SELECT * FROM ({lower_relation(inner)}) AS rows_" + (kept(inner, "g0") if keys else "")
    few = ""
    if bound is not None:
        rank = f"dense_rank() OVER (PARTITION BY u ORDER BY {group_order(bound, count)}) AS rank_"
        rows = f"SELECT *, {rank} FROM ({rows}) AS all_"
        few = f" WHERE rank_ <= {bound.max_groups}"
    unit = ", ".join([name(c) for c in sampled.content] or ["u"])
    block = f"hash(hash({unit}, CAST({sampled.hash_key} AS HUGEINT))) % {measure.blocks} AS block_"
    shown = [*keys, name(sampled.value)]
    rows = f"SELECT {', '.join([*shown, block])} FROM ({rows}) AS some_{few}"
    by = [*keys, "block_"]
    result = aggregate_sql(sampled.aggregate, name)
    blocks = f"SELECT {', '.join([*by, f'{result} AS result_'])} FROM ({rows}) AS blocked_ "
    blocks += f"GROUP BY {', '.join(by)}"
    line = SumMeasure(measure.argument, measure.low, measure.high, measure.step)
    steps = grid(line, ("result_", sampled.aggregate.column.type))
    middle = measure.middle
    moved = f"coalesce({steps}, {middle}) - CAST({middle} AS BIGINT) AS steps_"
    places = f"SELECT {', '.join([*keys, moved])} FROM ({blocks}) AS results_"
    total = f"coalesce(sum(steps_), 0) + CAST({middle * measure.blocks} AS HUGEINT)"
    items = [*(fetched(name(k), k.type) for k in measured.keys[:count]), total]
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(items)} FROM ({places}) AS places_{group}"
