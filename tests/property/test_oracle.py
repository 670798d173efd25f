"""The brute-force oracle: no neighbour moves a released vector further than the analysis says.

It knows the definition of adjacency, the text of a statement and the integers that the lowered SQL
gives, and nothing of how the analysis derives its numbers. SENSITIVITY.md asks for this test.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle.neighbours import Database, database, neighbours, rows_of
from oracle.small_engine import SmallEngine, Totals
from oracle.small_schema import PUBLIC, small_catalog
from oracle.statements import pick, statement

from dp_sql.errors import DPSQLError, InternalError
from dp_sql.executor import lower_relation
from dp_sql.parser.statement import parse
from dp_sql.plan.facts import Facts
from dp_sql.plan.relation import BoundGroups, Relation
from dp_sql.plan.release import PlannedRelease
from dp_sql.planner.plan import plan_release
from dp_sql.privacy.contribution import Box, Change, ContributionSet, Profile, Simplex
from dp_sql.privacy.unit import Adjacency, Level
from dp_sql.schema.catalog import Catalog
from dp_sql.sensitivity import delta
from dp_sql.sensitivity.contribution import derive

COUNTS: Counter[str] = Counter()
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(1000), Fraction(1, 10**13))


@cache
def engine() -> SmallEngine:
    """Return the one engine of this process: all small catalogs have the same tables."""
    return SmallEngine(small_catalog(), {name: rows for name, (_, rows) in PUBLIC.items()})


def random_catalog(r: Random) -> Catalog:
    return small_catalog(
        pick(r, (Level.USER, Level.USER, Level.EVENT)),
        pick(r, (Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION)),
        group_size=pick(r, (1, 1, 2)),
        max_groups=pick(r, (1, 2, 3)),
        max_rows=pick(r, (1, 2, 3)),
    )


def shifts(before: Totals, after: Totals, first: int, count: int) -> list[int]:
    """Return how far each component of a vector moves in each group; absent groups are zero."""
    nothing = (0,) * (first + count)
    return [
        abs(a - b)
        for key in before.keys() | after.keys()
        for a, b in zip(
            before.get(key, nothing)[first : first + count],
            after.get(key, nothing)[first : first + count],
            strict=True,
        )
    ]


def check(moved: list[int], change: Change, told: Callable[[], str]) -> None:
    """Assert that a change covers the shifts of a vector, for every convex cost that is tried."""
    l1, l2_squared = sum(moved), sum(s * s for s in moved)
    assert l1 <= change.l1, f"L1 {l1} > {change.l1}\n{told()}"
    assert l2_squared <= change.l2_squared, f"L2^2 {l2_squared} > {change.l2_squared}\n{told()}"
    largest = max((s for profile in change.profiles for s, n in profile if n), default=0)
    assert max(moved, default=0) <= largest, f"{max(moved)} > {largest}\n{told()}"
    if not largest:
        return
    for index, cost in enumerate(COSTS):
        total = sum(cost(s / largest) for s in moved if s)
        most = max(sum(n * cost(s / largest) for s, n in p) for p in change.profiles)
        assert total <= most * (1 + 1e-9), f"cost {index}: {total} > {most}\n{told()}"


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
    before: tuple[Totals, Totals | None],
    after: tuple[Totals, Totals | None],
    told: Callable[[], str],
) -> None:
    first = 0
    for index, (vector, fact) in enumerate(zip(plan.vectors, facts.vectors, strict=True)):
        apart = plan.selection_relation is not None and index == plan.selection
        count = len(vector.columns)
        if apart:
            assert before[1] is not None
            assert after[1] is not None
            moved = shifts(before[1], after[1], 0, count)
        else:
            moved = shifts(before[0], after[0], first, count)
            first += count
        check(moved, fact.change, told)
        COUNTS["vectors"] += 1
        if fact.change.l1 and sum(moved) == fact.change.l1:
            COUNTS["reached"] += 1


def sums(plan: PlannedRelease) -> tuple[Totals, Totals | None]:
    return released(plan, engine().totals(plan)), engine().chosen(plan)


def examine(r: Random) -> None:
    """Check one random statement on one random database against all its neighbours."""
    catalog = random_catalog(r)
    user = catalog.unit.level is Level.USER
    sql = statement(r, user=user)
    COUNTS["statements"] += 1
    try:
        query = parse(sql, catalog)
        plans = [plan_release(x, catalog, engine(), pick(r, EPSILONS)) for x in query.releases]
        facts = [derive(plan, catalog.unit, engine()) for plan in plans]
    except InternalError as error:
        pytest.fail(f"{error}\n{sql}")
    except DPSQLError as error:
        COUNTS["refused"] += 1
        COUNTS["refused: " + error.message[:60]] += 1
        return
    COUNTS["plans"] += len(plans)
    data = database(r, user=user)
    substitution = catalog.unit.adjacency is Adjacency.SUBSTITUTION
    near = list(
        neighbours(
            r, data, user=user, substitution=substitution, group_size=catalog.unit.group_size
        )
    )
    COUNTS["neighbours"] += len(near)
    engine().stage("visits", [rows_of(d) for d in (data, *near)])
    engine().use("visits", 0)
    before = [sums(plan) for plan in plans]
    for part, other in enumerate(near, start=1):
        engine().use("visits", part)
        for plan, fact, old in zip(plans, facts, before, strict=True):
            compare(
                plan,
                fact,
                old,
                sums(plan),
                partial(described, sql, catalog, data, other),
            )


def described(sql: str, catalog: Catalog, data: Database, other: Database) -> str:
    limits = catalog.tables["visits"].limits
    return f"{sql}\n{catalog.unit}\n{limits}\nD : {data}\nD': {other}"


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


def report(name: str) -> None:
    shown = {k: v for k, v in COUNTS.items() if not k.startswith("refused: ")}
    print(f"\n{name}: {shown}")  # noqa: T201  counts belong to the test's output


def test_no_neighbour_moves_a_vector_further_than_derived() -> None:
    @settings(
        max_examples=680,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=QUIET,
    )
    @given(st.randoms(use_true_random=False))
    def search(r: Random) -> None:
        examine(r)

    COUNTS.clear()
    search()
    report("oracle")
    assert COUNTS["plans"] >= 600
    assert COUNTS["neighbours"] >= 2_500
    assert COUNTS["reached"] >= 250


def _too_small(contribution: ContributionSet, groups: int) -> Profile:
    """Return the change of a rule that takes one end for the larger of both."""
    assert isinstance(contribution, Box | Simplex)
    if isinstance(contribution, Simplex):
        return ((contribution.total, groups),)
    return tuple(
        (-low or high, groups)
        for low, high in zip(contribution.low, contribution.high, strict=True)
    )


def _unbounded(relation: Relation) -> Relation:
    return relation.source if isinstance(relation, BoundGroups) else relation


MUTANTS: dict[str, tuple[object, str, Callable[..., object]]] = {
    "one end forgotten": (delta, "_one_sided", _too_small),
    "substitution as add_remove": (delta, "_two_sided", lambda c, g, _: delta._one_sided(c, g)),
    "groups not bounded": (
        lower_relation, "_pairs",
        lambda r: f"({lower_relation.lower_relation(_unbounded(r))}) AS pairs_",
    ),
    "rows not bounded": (
        lower_relation, "_bound", lambda _, value, *__: f"CAST({value} AS HUGEINT)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_the_oracle_finds_a_wrong_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[name])

    def search() -> None:
        for index in range(100):
            examine(Random(f"mutant-{index}"))

    with pytest.raises(AssertionError):
        search()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_no_neighbour_moves_a_vector_further_than_derived_long(seed: int) -> None:
    COUNTS.clear()
    for index in range(600):
        examine(Random(f"{seed}-{index}"))
    report(f"oracle, seed {seed}")
    assert COUNTS["plans"] >= 450
