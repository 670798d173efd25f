"""How far neighbours move a released vector, held against what the analysis says of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from oracle.small_engine import Sums, Totals

from dp_sql.plan.facts import Facts
from dp_sql.plan.release import PlannedRelease
from dp_sql.privacy.contribution import Ball, Change
from dp_sql.privacy.unit import Adjacency

_FULL = 0.999  # of the squared distance: as good as all of it
COSTS: tuple[Callable[[float], float], ...] = (
    lambda x: x**1.5,
    lambda x: x**4,
    lambda x: math.exp(3 * x) - 1,
    lambda x: math.exp(20 * x) - 1,
    lambda x: math.log(2 / 3 * math.exp(x) + 1 / 3 * math.exp(-2 * x)),  # Rényi, order 2
    lambda x: max(0.0, x - 0.25),
    lambda x: max(0.0, x - 0.5),
    lambda x: max(0.0, x - 0.9),
    lambda x: x + 5 * max(0.0, x - 0.6),
)
"""Convex costs of one coordinate's shift, in parts of the largest; each is 0 at 0 and increases."""
ROUND = (0, 1, 4)
"""The places of those costs that a ball's profiles cover: concave or convex in the shift's square."""


def shifts(before: Totals, after: Totals, first: int, count: int, absent: int = 0) -> list[int]:
    """Return how far each component of a vector moves in each group; absent groups are `absent`."""
    nothing = (absent,) * (first + count)
    return [
        abs(a - b)
        for key in before.keys() | after.keys()
        for a, b in zip(
            before.get(key, nothing)[first : first + count],
            after.get(key, nothing)[first : first + count],
            strict=True,
        )
    ]


def check(
    moved: list[int],
    change: Change,
    told: Callable[[], str],
    costs: Sequence[int] = range(len(COSTS)),
) -> None:
    """Assert that a change covers the shifts of a vector, for every convex cost that is tried."""
    l1, l2_squared = sum(moved), sum(s * s for s in moved)
    assert l1 <= change.l1, f"L1 {l1} > {change.l1}\n{told()}"
    assert l2_squared <= change.l2_squared, f"L2^2 {l2_squared} > {change.l2_squared}\n{told()}"
    largest = max((s for profile in change.profiles for s, n in profile if n), default=0)
    assert max(moved, default=0) <= largest, f"{max(moved)} > {largest}\n{told()}"
    if not largest:
        return
    for index in costs:
        cost = COSTS[index]
        total = sum(cost(s / largest) for s in moved if s)
        most = max(sum(n * cost(s / largest) for s, n in p) for p in change.profiles)
        assert total <= most * (1 + 1e-9), f"cost {index}: {total} > {most}\n{told()}"


def compare_histograms(
    plan: PlannedRelease,
    facts: Facts,
    before: list[Totals],
    after: list[Totals],
    told: Callable[[], str],
    counts: Counter[str],
) -> None:
    """Hold how far the weights of every histogram move against the facts.

    What a neighbour adds, and what it takes away, is at most k units' weight in a group, in k times
    as many groups; under add_remove both together.
    """
    units = facts.unit.group_size
    one_sided = facts.unit.adjacency is Adjacency.ADD_REMOVE
    for held, holding, fact in zip(before, after, facts.histograms, strict=True):
        old, new = released(plan, held), released(plan, holding)
        moved: dict[object, list[int]] = {}
        for cell in old.keys() | new.keys():
            (step,) = (y - x for x, y in zip(old.get(cell, (0,)), new.get(cell, (0,)), strict=True))
            found = moved.setdefault(cell[:-1], [0, 0])
            found[step < 0] += abs(step)
        sides = (
            [[sum(m) for m in moved.values()]]
            if one_sided
            else list(zip(*moved.values(), strict=True))
        )
        for side in sides:
            most = max(side, default=0)
            assert most <= units * fact.weight, f"{most} > {fact.weight}\n{told()}"
            touched = sum(1 for weight in side if weight)
            assert touched <= units * fact.groups, f"{touched} > {fact.groups} groups\n{told()}"
            assert sum(side) <= units * fact.weight * fact.full, told()
            counts["histograms"] += 1
            counts["filled"] += most == units * fact.weight


def compare_distincts(
    plan: PlannedRelease,
    facts: Facts,
    before: list[Totals],
    after: list[Totals],
    told: Callable[[], str],
    counts: Counter[str],
) -> None:
    """Hold how far every count of distinct values moves against the facts, at every cap."""
    units = facts.unit.group_size
    sides = 1 if facts.unit.adjacency is Adjacency.ADD_REMOVE else 2
    rows = zip(plan.distincts, before, after, facts.distincts, strict=True)
    for distinct, held, holding, fact in rows:
        old, new = released(plan, held), released(plan, holding)
        caps = distinct.caps or (1,)
        for place, cap in enumerate(caps):
            nothing = (0,) * len(caps)
            moved = [
                abs(new.get(key, nothing)[place] - old.get(key, nothing)[place])
                for key in old.keys() | new.keys()
            ]
            most = max(moved, default=0)
            assert most <= units * fact.weight * cap, f"{most} > {fact.weight} * {cap}\n{told()}"
            touched = sum(1 for step in moved if step)
            assert touched <= sides * units * fact.groups, told()
            assert fact.cells is None or touched <= fact.cells, told()
            assert sum(moved) <= sides * units * fact.weight * cap * fact.full, told()
            counts["distincts"] += 1
            counts["vouched"] += most == units * fact.weight * cap


def compare_sampled(
    plan: PlannedRelease,
    facts: Facts,
    before: list[Totals],
    after: list[Totals],
    told: Callable[[], str],
    counts: Counter[str],
) -> None:
    """Hold how far the sums of blocks move against the facts. A group that isn't there says nothing."""
    first = len(plan.summed)
    rows = zip(plan.vectors[first:], facts.vectors[first:], before, after, strict=True)
    for vector, fact, held, holding in rows:
        moved = shifts(held, holding, 0, 1, vector.nothing)
        check(moved, fact.change, told)
        counts["sampled"] += 1
        counts["exact"] += fact.change.l1 == 0
        counts["blocks reached"] += bool(fact.change.l1) and sum(moved) == fact.change.l1


def released(plan: PlannedRelease, totals: Totals) -> Totals:
    """Return the groups that can be released: those whose public keys are in the public lists."""
    kept = totals
    for space in plan.public:
        allowed = set(space.values)
        kept = {
            key: values
            for key, values in kept.items()
            if tuple(key[p] for p in space.positions) in allowed
        }
    return kept


def compare(
    plan: PlannedRelease,
    facts: Facts,
    before: Sums,
    after: Sums,
    told: Callable[[], str],
    counts: Counter[str],
) -> None:
    """Hold every vector of a release, and the selection's where it is apart, against the facts."""
    first = 0
    for index, (vector, fact) in enumerate(zip(plan.summed, facts.vectors, strict=False)):
        count = len(vector.columns)
        if plan.selection_relation is not None and index in plan.selections:
            place = plan.selections.index(index)
            moved = shifts(before[1][place], after[1][place], 0, count)
            counts["rounds"] += place
        else:
            moved = shifts(before[0], after[0], first, count)
            first += count
        ball = isinstance(fact.contribution, Ball)
        check(moved, fact.change, told, ROUND if ball else range(len(COSTS)))
        counts["vectors"] += 1
        counts["exact"] += fact.change.l1 == 0
        if fact.change.l1 and sum(moved) == fact.change.l1:
            counts["reached"] += 1
        if ball and sum(s * s for s in moved) > _FULL * fact.change.l2_squared > 0:
            counts["filled"] += 1
