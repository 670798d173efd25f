"""Physical unit-locality: a unit's rows are the same bits whoever else is there, on many threads.

Small tables on one thread hide what an engine does with ties and floats, so this runs on 300,000
rows, shuffled, with other units removed, on 1, 2 and 8 threads.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from random import Random

import pytest
from oracle.big_engine import RUNS, BigEngine, levels
from oracle.judge import (
    compare,
    compare_distincts,
    compare_histograms,
    compare_sampled,
    released,
)
from oracle.small_engine import SmallEngine, Totals
from oracle.small_schema import PUBLIC, small_catalog
from oracle.statements import statement

from dp_sql.errors import QueryError
from dp_sql.executor import lower_relation, lower_rows
from dp_sql.parser.statement import parse
from dp_sql.plan.relation import BoundRows
from dp_sql.plan.release import PlannedRelease
from dp_sql.planner.sets import plan_sets
from dp_sql.schema.catalog import Catalog
from dp_sql.sensitivity.contribution import derive
from dp_sql.sensitivity.ownership import owner_of

ROWS = 300_000
SETUP = f"""
CREATE TABLE everything AS SELECT
    CASE WHEN h(i, 1) % 50 > 0
        THEN CAST(floor(20000 * (h(i, 2) % 10000 / 1e4) ** 3) AS BIGINT) END AS uid,
    CAST(h(i, 3) % 12 AS INTEGER) - 4 AS x,
    CASE WHEN h(i, 4) % 9 > 0 THEN CAST(h(i, 4) % 5 AS INTEGER) END AS n,
    CASE WHEN h(i, 5) % 7 > 0 THEN CAST(h(i, 5) % 7 AS TINYINT) END AS p,
    CASE h(i, 6) % 9 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN -0.0 WHEN 2 THEN 0.0 WHEN 3 THEN 'inf'::DOUBLE
        WHEN 4 THEN NULL ELSE h(i, 7) % 100000 / 3e4 - 1.7 END AS f,
    CAST(h(i, 8) % 500 / 100.0 - 2 AS DECIMAL(6,2)) AS m,
    CASE WHEN h(i, 9) % 6 > 0 THEN CAST(h(i, 9) % 40 AS BIGINT) * 1000000007 END AS z,
    CASE h(i, 10) % 3 WHEN 0 THEN true WHEN 1 THEN false END AS b,
    CASE h(i, 11) % 4 WHEN 0 THEN 'a' WHEN 1 THEN 'b' WHEN 2 THEN 'c' END AS s,
    CASE h(i, 12) % 5 WHEN 0 THEN 'k1' WHEN 1 THEN 'k2' WHEN 2 THEN 'k3 ' WHEN 3 THEN '' END AS t,
    CASE WHEN h(i, 13) % 8 > 0 THEN DATE '2024-01-28' + CAST(h(i, 13) % 8 AS INTEGER) END AS d
FROM range({ROWS}) AS r(i)
"""

STATEMENTS = [
    "SELECT COUNT(*), AVG(f), VAR_POP(x), SUM(m), CORR(f, m) FROM visits",
    """SELECT s, t, COUNT(*), SUM(f), COUNT(DISTINCT uid)
       FROM visits WHERE x > -2 OR f > 0 GROUP BY s, t""",
    "SELECT z, SUM(x * p), STDDEV(m) FROM visits GROUP BY z",
    "SELECT f, COUNT(f) FROM visits GROUP BY f",
    """SELECT ROUND(f), x % 3, AVG(f * m)
       FROM (SELECT uid, f, x, m + n AS m FROM visits WHERE NOT b) q GROUP BY ALL""",
    """SELECT h.half, h.w, COUNT(*), SUM(h.w + v.f)
       FROM visits v LEFT JOIN pairs h ON v.n = h.n GROUP BY 1, 2""",
    """SELECT g.area, t, AVG(CLAMP(z, 0, 1e9)) FILTER (WHERE d > DATE '2024-01-30')
       FROM visits v JOIN regions g USING (t) GROUP BY ALL""",
]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return small_catalog(max_groups=3, max_rows=4)


@pytest.fixture(scope="module")
def big(catalog: Catalog) -> BigEngine:
    public = {name: rows for name, (_, rows) in PUBLIC.items()}
    part = "SELECT * FROM everything WHERE NOT coalesce({removed}, false)"
    return BigEngine(catalog, public, [SETUP], {"visits": part})


def check_locality(big: BigEngine, catalog: Catalog, sql: str) -> int:
    """Assert that every level of a statement is unit-local; return how many were compared.

    The rows below the measure are compared too, with all that they hold.
    """
    found = []
    for release in parse(sql, catalog).releases:
        for plan in plan_sets(release, catalog, big.engine, Fraction(1)):
            assert isinstance(plan.relation, BoundRows)
            found += levels(plan)
        owner = owner_of(release.source)
        assert owner is not None
        rows = lower_relation.lower_relation(release.source)
        found.append(f"SELECT {lower_rows.name(owner)} AS u, * FROM ({rows})")
    return big.compare(found, sql)


OFTEN_READ = (0, 5)  # of the statements: the others take their turn in the slow runs


@pytest.mark.parametrize(
    "sql",
    [
        s if i in OFTEN_READ else pytest.param(s, marks=pytest.mark.slow)
        for i, s in enumerate(STATEMENTS)
    ],
)
def test_a_units_rows_stay_the_same_bits(big: BigEngine, catalog: Catalog, sql: str) -> None:
    assert check_locality(big, catalog, sql) >= 2 * len(RUNS)


def test_the_comparison_finds_a_floating_sum_and_ties(big: BigEngine) -> None:
    """What the engine must not do changes other people's rows here: the test can fail."""
    table = f"{lower_rows.DATA}.visits"
    tied = f"SELECT uid AS u, x, lag(m) OVER (PARTITION BY uid ORDER BY x) AS before FROM {table}"
    finite = "CASE WHEN isfinite(f) THEN f * 1e-3 END"
    for text in (f"SELECT uid AS u, sum({finite}) AS total FROM {table} GROUP BY uid", tied):
        big.read(removed="false", order="ALL", threads=1)
        big.digest("base_0", "u", text)
        removed, order, threads = RUNS[1]
        big.read(removed=removed, order=order, threads=threads)
        big.digest("other", "u", text)
        assert big.different("base_0", "other", removed) > 0


TOTALS = {
    "sums": "SELECT s, COUNT(*), AVG(f), CORR(f, m), SUM(m) FROM visits GROUP BY s",
    "private keys": "SELECT z, SUM(x * p), COUNT(f) FROM visits GROUP BY z",
    "choices": "SELECT s, MEDIAN(f), MODE(x), MAX(m) FROM visits WHERE x > -2 OR f > 0 GROUP BY s",
    "distinct values": "SELECT s, COUNT(DISTINCT z), COUNT(DISTINCT f) FROM visits GROUP BY s",
    "vectors": "SELECT s, VECTOR_SUM([f, m, x], 2.5) FROM visits GROUP BY s",
    "blocks": "SELECT SAMPLE_AND_AGGREGATE('median', f, -1, 2, 500) FROM visits",
}
HEAVY = "uid = 0"  # the person with the most rows
OTHER_RUNS = (("hash(row_) DESC", 8), ("hash(CAST(row_ AS VARCHAR))", 2))
OFTEN = ("vectors",)


def exact(engine: SmallEngine, plan: PlannedRelease) -> list[Totals]:
    """Return everything that a release is made from: sums, rounds, blocks, histograms, distinct values."""
    found = [released(plan, engine.totals(plan)), *engine.chosen(plan), *engine.sampled(plan)]
    return [*found, *engine.histograms(plan), *engine.distincts(plan)]


@pytest.mark.parametrize(
    "name", [n if n in OFTEN else pytest.param(n, marks=pytest.mark.slow) for n in TOTALS]
)
def test_true_values_are_exact_in_any_order_and_move_by_their_delta_at_most(
    big: BigEngine, catalog: Catalog, name: str
) -> None:
    (release,) = parse(TOTALS[name], catalog).releases
    engine = big.engine
    plans = plan_sets(release, catalog, engine, Fraction(1))
    facts = [derive(plan, catalog.unit, engine) for plan in plans]
    big.read(removed="false", order="ALL", threads=1)
    base = [exact(engine, plan) for plan in plans]
    counts: Counter[str] = Counter()
    for order, threads in OTHER_RUNS:
        big.read(removed="false", order=order, threads=threads)
        assert [exact(engine, plan) for plan in plans] == base, (order, threads)
    for plan, fact in zip(plans, facts, strict=True):
        sums = released(plan, engine.totals(plan)), engine.chosen(plan)
        others = engine.histograms(plan), engine.distincts(plan), engine.sampled(plan)
        big.read(removed=HEAVY, order="hash(row_)", threads=8)
        less = released(plan, engine.totals(plan)), engine.chosen(plan)

        def told() -> str:
            return TOTALS[name]

        compare(plan, fact, sums, less, told, counts)
        compare_histograms(plan, fact, others[0], engine.histograms(plan), told, counts)
        compare_distincts(plan, fact, others[1], engine.distincts(plan), told, counts)
        compare_sampled(plan, fact, others[2], engine.sampled(plan), told, counts)
    assert sum(counts[k] for k in ("vectors", "histograms", "distincts", "sampled")) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_a_units_rows_stay_the_same_bits_long(big: BigEngine, catalog: Catalog, seed: int) -> None:
    random = Random(f"local-{seed}")
    sql = statement(random, user=True)
    try:
        check_locality(big, catalog, sql)
    except QueryError:
        pytest.skip("refused")
