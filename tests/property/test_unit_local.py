"""Physical unit-locality: a unit's rows are the same bits whoever else is there, on many threads.

Small tables on one thread hide what an engine does with ties and floats, so this runs on 300,000
rows, shuffled, with other units removed, on 1, 2 and 8 threads.
"""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from oracle.small_engine import SmallEngine
from oracle.small_schema import PUBLIC, small_catalog
from oracle.statements import statement

from dp_sql.errors import QueryError
from dp_sql.executor import lower_relation
from dp_sql.parser.statement import parse
from dp_sql.plan.relation import BoundRows, MeasureRows, Relation, inputs
from dp_sql.planner.plan import plan_release
from dp_sql.schema.catalog import Catalog
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
    "SELECT COUNT(*), AVG(f), VAR_POP(x), SUM(m) FROM visits",
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


class BigEngine:
    """300,000 rows, and the parts of them that a run reads."""

    def __init__(self, catalog: Catalog) -> None:
        rows = {name: rows for name, (_, rows) in PUBLIC.items()}
        self.engine = SmallEngine(catalog, rows, threads=8)
        self.engine.query("CREATE MACRO h(i, k) AS hash(i * 16 + k)")
        self.engine.query(SETUP)

    def read(self, *, removed: str, order: str, threads: int) -> None:
        """Let `visits` be the rows of `everything` without some units, in some order."""
        target = f'{lower_relation.DATA}."visits"'
        self.engine.query(f"SET threads = {threads}")
        self.engine.query("SET preserve_insertion_order = true")  # so that the order is as asked
        self.engine.query(f"DELETE FROM {target}")
        self.engine.query(
            f"INSERT INTO {target} SELECT * FROM everything WHERE NOT coalesce({removed}, false) "
            f"ORDER BY {order}"
        )
        self.engine.query("SET preserve_insertion_order = false")

    def digest(self, name: str, owner: str, sql: str) -> None:
        """Keep, by unit, a digest of its rows' texts: equal texts are equal bits."""
        self.engine.query(f"CREATE OR REPLACE TEMP TABLE below AS {sql}")
        columns = [str(row[0]) for row in self.engine.query("DESCRIBE below")]
        text = ", ".join(f'CAST("{c}" AS VARCHAR)' for c in columns)
        self.engine.query(
            f"CREATE OR REPLACE TABLE {name} AS SELECT CAST({owner} AS VARCHAR) AS unit, "
            f"count(*) AS rows_, sum(CAST(hash({text}) AS HUGEINT)) AS digest "
            f"FROM below GROUP BY ALL"
        )

    def different(self, a: str, b: str, removed: str) -> int:
        """Return how many units that both have differ, or are in one only."""
        kept = f"WHERE NOT coalesce({removed.replace('uid', 'CAST(unit AS BIGINT)')}, false)"
        ((count,),) = self.engine.query(
            f"SELECT count(*) FROM ((SELECT * FROM {a} {kept} EXCEPT ALL SELECT * FROM {b}) UNION ALL "
            f"(SELECT * FROM {b} EXCEPT ALL SELECT * FROM {a} {kept}))"
        )
        assert isinstance(count, int)
        return count


RUNS = (  # removed units, order of rows, threads
    ("uid % 7 = 3", "hash(uid, x, f, z)", 2),
    ("uid < 40 OR uid > 9000", "hash(z, t, uid) DESC", 8),
    ("false", "f, hash(uid, m)", 8),
)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return small_catalog(max_groups=3, max_rows=4)


@pytest.fixture(scope="module")
def big(catalog: Catalog) -> BigEngine:
    return BigEngine(catalog)


def levels(relation: Relation) -> list[tuple[str, str]]:
    """Return owner and SQL of a bounded relation and of the rows that it is made from."""
    found, node = [("u", lower_relation.lower_relation(relation))], relation
    while not isinstance(node, MeasureRows):
        (node,) = inputs(node)
    owner = owner_of(node.source)
    assert owner is not None
    found.append((lower_relation.name(owner), lower_relation.lower_relation(node.source)))
    return found


def check_locality(big: BigEngine, catalog: Catalog, sql: str) -> int:
    """Assert that every level of a statement is unit-local; return how many were compared."""
    query = parse(sql, catalog)
    compared = 0
    found = []
    for release in query.releases:
        plan = plan_release(release, catalog, big.engine, Fraction(1))
        assert isinstance(plan.relation, BoundRows)
        found += levels(plan.relation)
        if plan.selection_relation is not None:
            found += levels(plan.selection_relation)[:1]
    big.read(removed="false", order="uid, x, f", threads=1)
    for index, (owner, text) in enumerate(found):
        big.digest(f"base_{index}", owner, text)
    for removed, order, threads in RUNS:
        big.read(removed=removed, order=order, threads=threads)
        for index, (owner, text) in enumerate(found):
            big.digest("other", owner, text)
            changed = big.different(f"base_{index}", "other", removed)
            assert changed == 0, f"{changed} units changed: {sql}\n{text}"
            compared += 1
    return compared


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_units_rows_stay_the_same_bits(big: BigEngine, catalog: Catalog, sql: str) -> None:
    assert check_locality(big, catalog, sql) >= 2 * len(RUNS)


def test_the_comparison_finds_a_floating_sum_and_ties(big: BigEngine) -> None:
    """What the engine must not do changes other people's rows here: the test can fail."""
    table = f"{lower_relation.DATA}.visits"
    tied = f"SELECT uid AS u, x, lag(m) OVER (PARTITION BY uid ORDER BY x) AS before FROM {table}"
    finite = "CASE WHEN isfinite(f) THEN f * 1e-3 END"
    for text in (f"SELECT uid AS u, sum({finite}) AS total FROM {table} GROUP BY uid", tied):
        big.read(removed="false", order="uid, x, f", threads=1)
        big.digest("base_0", "u", text)
        removed, order, threads = RUNS[1]
        big.read(removed=removed, order=order, threads=threads)
        big.digest("other", "u", text)
        assert big.different("base_0", "other", removed) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_a_units_rows_stay_the_same_bits_long(big: BigEngine, catalog: Catalog, seed: int) -> None:
    random = Random(f"local-{seed}")
    sql = statement(random, user=True)
    try:
        check_locality(big, catalog, sql)
    except QueryError:
        pytest.skip("refused")
