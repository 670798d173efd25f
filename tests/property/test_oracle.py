"""The brute-force oracle: no neighbour moves a released vector further than the analysis says.

It knows the definition of adjacency, the text of a statement and the integers that the lowered SQL
gives, and nothing of how the analysis derives its numbers. SENSITIVITY.md asks for this test.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from random import Random
from typing import Any

import pytest
from oracle import small_engine
from oracle.judge import (
    compare,
    compare_distincts,
    compare_histograms,
    compare_sampled,
    released,
)
from oracle.neighbours import Database, database, neighbours, rows_of
from oracle.small_engine import SmallEngine, Sums
from oracle.small_schema import PUBLIC, small_catalog
from oracle.statements import pick, statement

from dp_sql.errors import DPSQLError, InternalError
from dp_sql.executor import lower_distinct, lower_histogram, lower_relation
from dp_sql.mechanisms.distinct import matched as _matched
from dp_sql.parser.statement import parse
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.relation import (
    BoundGroups,
    CountMeasure,
    Measure,
    PresenceMeasure,
    Relation,
    SumMeasure,
)
from dp_sql.plan.release import PlannedRelease
from dp_sql.planner.sets import plan_sets
from dp_sql.privacy.contribution import Box, ContributionSet, Profile, Simplex
from dp_sql.privacy.unit import Adjacency, Level
from dp_sql.schema.catalog import Catalog, KeyRule, Mechanisms
from dp_sql.sensitivity import contribution, delta
from dp_sql.sensitivity.contribution import derive

COUNTS: Counter[str] = Counter()
MOST_NEIGHBOURS = 3
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(1000), Fraction(1, 10**13))


@cache
def engine() -> SmallEngine:
    """Return the one engine of this process: all small catalogs have the same tables."""
    return SmallEngine(small_catalog(), {name: rows for name, (_, rows) in PUBLIC.items()})


RULES = (tuple(KeyRule), *((rule,) for rule in KeyRule))
"""Which rules may select keys: all, or one of them."""


def random_catalog(r: Random) -> Catalog:
    return small_catalog(
        pick(r, (Level.USER, Level.USER, Level.EVENT)),
        pick(r, (Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION)),
        group_size=pick(r, (1, 1, 2)),
        max_groups=pick(r, (1, 2, 3)),
        max_rows=pick(r, (1, 2, 3)),
    )


def sums(plan: PlannedRelease) -> Sums:
    return released(plan, engine().totals(plan)), engine().chosen(plan)


def examine(r: Random, words: str = "", write: Callable[..., str] = statement) -> None:
    """Check one random statement on one random database against all its neighbours.

    words: a pattern that the statement holds. write: what writes it.
    """
    catalog = random_catalog(r)
    user = catalog.unit.level is Level.USER
    sql = write(r, user=user)
    while not re.search(words, sql):
        sql = write(r, user=user)
    if user:
        catalog = replace(catalog, mechanisms=Mechanisms(keys=pick(Random(sql), RULES)))
    COUNTS["statements"] += 1
    try:
        query = parse(sql, catalog)
        plans = [
            plan
            for x in query.releases
            for plan in plan_sets(x, catalog, engine(), pick(r, EPSILONS))
        ]
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
    near = r.sample(near, min(len(near), MOST_NEIGHBOURS))
    COUNTS["neighbours"] += len(near)
    engine().stage("visits", [rows_of(d) for d in (data, *near)])
    engine().use("visits", 0)
    before = [sums(plan) for plan in plans]
    weights = [engine().histograms(plan) for plan in plans]
    values = [engine().distincts(plan) for plan in plans]
    blocks = [engine().sampled(plan) for plan in plans]
    for part, other in enumerate(near, start=1):
        engine().use("visits", part)
        told = partial(described, sql, catalog, data, other)
        for plan, fact, old, held, counted, sums_of in zip(
            plans, facts, before, weights, values, blocks, strict=True
        ):
            compare(plan, fact, old, sums(plan), told, COUNTS)
            compare_histograms(plan, fact, held, engine().histograms(plan), told, COUNTS)
            compare_distincts(plan, fact, counted, engine().distincts(plan), told, COUNTS)
            compare_sampled(plan, fact, sums_of, engine().sampled(plan), told, COUNTS)


def described(sql: str, catalog: Catalog, data: Database, other: Database) -> str:
    limits = catalog.tables["visits"].limits
    return f"{sql}\n{catalog.unit}\n{limits}\nD : {data}\nD': {other}"


def report(name: str) -> None:
    shown = {k: v for k, v in COUNTS.items() if not k.startswith("refused: ")}
    print(f"\n{name}: {shown}")  # noqa: T201  counts belong to the test's output


@pytest.mark.parametrize("share", range(4))
def test_no_neighbour_moves_a_vector_further_than_derived(share: int) -> None:
    COUNTS.clear()
    for index in range(170):
        examine(Random(f"share-{share}-{index}"))
    report(f"oracle, share {share}")
    assert COUNTS["plans"] >= 140
    assert COUNTS["neighbours"] >= 400
    assert COUNTS["reached"] >= 40
    assert COUNTS["histograms"] >= 20
    assert COUNTS["filled"] >= 4
    assert COUNTS["distincts"] >= 20
    assert COUNTS["vouched"] >= 4
    assert COUNTS["rounds"] >= 6  # that are second ones


def test_no_neighbour_moves_blocks_further_than_derived() -> None:
    COUNTS.clear()
    for index in range(14):
        examine(Random(f"sampled-{index}"), write=partial(statement, sampled=True))
    report("oracle, aggregates over blocks")
    assert COUNTS["sampled"] >= 25


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


_ENFORCED = lower_relation._bound
_ROW_SET = contribution._row_set


def _without_ends(measure: Measure, *rest: Any) -> str:
    free = (
        measure
        if not isinstance(measure, CountMeasure | SumMeasure)
        else replace(measure, per_unit=None)
    )
    return _ENFORCED(free, *rest)


def _undivided(measure: Measure, *rest: Any) -> str:
    whole = isinstance(measure, PresenceMeasure) and measure.weight
    return f"CAST({measure.weight} AS BIGINT)" if whole else _ENFORCED(measure, *rest)  # type: ignore[union-attr]


RANKED, COUNTED = r"MEDIAN|QUANTILE|MIN|MAX", r"COUNT\(DISTINCT (?!\w*uid)"
MUTANTS: dict[str, tuple[object, str, Callable[..., object], str]] = {
    "one end forgotten": (delta, "_one_sided", _too_small, ""),
    "substitution as add_remove": (delta, "_two_sided", lambda c, g, _: delta._one_sided(c, g), ""),
    "a pair weighs like one column": (
        contribution, "_row_set",
        lambda m: Simplex(m.size, m.axes[0].total) if isinstance(m, PairMeasure) else _ROW_SET(m),
        "CORR|COVAR|REGR",
    ),
    "groups not bounded": (
        lower_relation, "_few",
        lambda r: f"({lower_relation.lower_relation(_unbounded(r))}) AS pairs_", "",
    ),
    "rows not bounded": (
        lower_relation, "_bound", lambda _, value, *__: f"CAST({value} AS HUGEINT)", "",
    ),
    "a weight that isn't divided": (lower_relation, "_bound", _undivided, ""),
    "values not spread": (
        lower_histogram, "_weight", lambda s: f"CAST(n * {1 << s.low_bits} AS BIGINT)",
        RANKED,
    ),
    "values vouched for without a cap": (
        small_engine, "matched",
        lambda pairs, caps: dict.fromkeys(caps, _matched(pairs, [1000])[1000]), COUNTED,
    ),
    "groups of distinct values not bounded": (
        lower_distinct, "group_order", lambda *_: "u", COUNTED,
    ),
    "groups of a histogram not bounded": (
        lower_histogram, "group_order", lambda _: "u", RANKED,  # one rank for all groups of a unit
    ),
    "the statement's bounds forgotten": (lower_relation, "_bound", _without_ends, "contribution"),
}  # fmt: skip


FIRST = {"groups of distinct values not bounded": 36, "one end forgotten": 40}
"""The statements before which nothing is found: they would only take time."""


@pytest.mark.parametrize("name", MUTANTS)
def test_the_oracle_finds_a_wrong_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    *patch, words = MUTANTS[name]
    monkeypatch.setattr(*patch)

    def search() -> None:
        first = FIRST.get(name, 0)
        for index in range(first, first + 400):  # the first that is found ends it
            examine(Random(f"mutant-{index}"), words)

    with pytest.raises(AssertionError):
        search()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_no_neighbour_moves_a_vector_further_than_derived_long(seed: int) -> None:
    COUNTS.clear()
    for index in range(600):
        examine(Random(f"{seed}-{index}"), write=partial(statement, sampled=index % 6 == 0))
    report(f"oracle, seed {seed}")
    assert COUNTS["plans"] >= 450
