"""Sums on either side of a join on the owner, multiplied, are the sums over its pairs, bit by bit."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING

import duckdb
import pytest
from small_catalog import CATALOG

from dp_sql.executor.lower_relation import release_sql, second_sql, selection_sql
from dp_sql.parser.statement import parse
from dp_sql.plan.relation import BoundGroups, BoundRows, DropKeys, KeepKeys, Relation, SumPerUnit
from dp_sql.planner.plan import plan_release
from dp_sql.planner.sampling import over_sample
from dp_sql.schema.catalog import KeyRule, Mechanisms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dp_sql.plan.public import Image
    from dp_sql.plan.release import PlannedRelease

BOTH = "FROM visits v JOIN users u USING (user_id)"
TWICE = "FROM visits v JOIN visits w ON v.user_id = w.user_id"
EARLY = [
    f"SELECT plan, COUNT(*) AS n {BOTH} GROUP BY plan",
    f"SELECT plan, region, COUNT(*) AS n, AVG(amount) AS a {BOTH} GROUP BY plan, region",
    f"SELECT region, COUNT(amount) AS n, SUM(minutes) AS s {BOTH} WHERE plan <> 'pro' GROUP BY region",
    f"SELECT VAR_POP(amount), SUM(amount) {BOTH} WHERE minutes > 10 AND plan IS NOT NULL",
    f"SELECT CORR(amount, minutes), COUNT(DISTINCT v.user_id) FILTER (WHERE amount > 3) {BOTH}",
    f"SELECT w.region, COUNT(*), SUM(v.minutes), AVG(v.amount) {TWICE} AND w.minutes > 5 GROUP BY w.region",
    f"SELECT w.category, v.category, COUNT(v.amount) {TWICE} GROUP BY w.category, v.category",
    "SELECT COUNT(*) FROM (SELECT DISTINCT user_id, day FROM visits) d JOIN users u USING (user_id)",
    (
        "SELECT plan, SUM(t) FROM (SELECT user_id, CLAMP(SUM(minutes), 0, 9) t FROM visits GROUP BY user_id) "
        "JOIN users USING (user_id) GROUP BY plan"
    ),
]
PAIRED = [
    "SELECT plan, COUNT(*) FROM visits v LEFT JOIN users u USING (user_id) GROUP BY plan",
    f"SELECT SUM(v.minutes + w.minutes) {TWICE}",
    f"SELECT SUM(v.minutes), SUM(w.minutes) {TWICE}",
    f"SELECT COUNT(*) {TWICE} AND v.minutes < w.minutes",
    f"SELECT v.region || w.region, COUNT(*) {TWICE} GROUP BY 1",
    "SELECT name, COUNT(*) FROM visits JOIN regions USING (region) GROUP BY name",
]


class _Facts:
    def image(self, image: Image, limit: int) -> tuple[tuple[object, ...], ...] | None:
        assert image.expressions
        assert limit > 2
        return (("n",), ("s",))

    def frequency(self, table: str, columns: tuple[str, ...]) -> int | None:
        return 1 if (table, columns) == ("regions", ("region",)) else None


def planned(sql: str, rows: int = 20, keys: tuple[KeyRule, ...] = tuple(KeyRule)) -> PlannedRelease:
    catalog = replace(
        CATALOG,
        mechanisms=Mechanisms(keys=keys),
        tables={
            name: t
            if t.limits is None
            else replace(t, limits=replace(t.limits, max_rows_per_group=rows))
            for name, t in CATALOG.tables.items()
        },
    )
    (release,) = parse(sql, catalog).releases
    return plan_release(release, catalog, _Facts(), Fraction(1))


def partners_of(relation: Relation) -> int | None:
    while not isinstance(relation, SumPerUnit):
        assert isinstance(relation, BoundRows | BoundGroups)
        relation = relation.source
    return relation.partners


def over_pairs(relation: Relation) -> Relation:
    """The same relation, its pairs summed after the join."""
    if isinstance(relation, SumPerUnit):
        return replace(relation, partners=None)
    assert isinstance(relation, BoundRows | BoundGroups | KeepKeys | DropKeys)
    return replace(relation, source=over_pairs(relation.source))


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """Units with no row, one, and so many that their pairs pass every bound; NULLs, NaN, infinities."""
    random = Random(7)
    con = duckdb.connect()
    con.execute("CREATE SCHEMA data")
    con.execute(
        "CREATE TABLE data.visits (user_id BIGINT, category VARCHAR, day DATE, region VARCHAR, "
        "amount DOUBLE, minutes INTEGER)"
    )
    con.execute("CREATE TABLE data.users (user_id BIGINT, plan VARCHAR)")
    con.execute("CREATE TABLE data.regions (region VARCHAR, name VARCHAR)")
    texts, numbers = (
        ["a", "b", None],
        [0.0, -0.0, 1e9, float("nan"), float("-inf"), None, 2.5, 99.75],
    )
    for user in [None, *range(40)]:
        for _ in range(random.choice([0, 1, 2, 3, 30])):
            con.execute(
                "INSERT INTO data.visits VALUES (?, ?, DATE '2024-01-01' + CAST(? AS INTEGER), ?, ?, ?)",
                [
                    user,
                    random.choice(texts),
                    random.randrange(60),
                    random.choice(["n", "s", "x"]),
                    random.choice(numbers),
                    random.choice([None, 0, 5, 7, 60, 2**31 - 1, -9]),
                ],
            )
        for _ in range(random.choice([0, 1, 1, 2, 50])):
            con.execute(
                "INSERT INTO data.users VALUES (?, ?)", [user, random.choice(["pro", *texts])]
            )
    yield con
    con.close()


@pytest.mark.parametrize("rows", [1, 3, 20, 10_000])
@pytest.mark.parametrize("sql", EARLY)
def test_the_exact_tables_are_those_of_the_pairs(
    sql: str, rows: int, duck: duckdb.DuckDBPyConnection
) -> None:
    plan = planned(sql, rows)
    assert partners_of(plan.relation) is not None
    paired = replace(plan, relation=over_pairs(plan.relation))
    table = sorted(duck.sql(release_sql(plan)).fetchall(), key=repr)
    assert len(table) > (len(plan.keys) > 0)
    assert table == sorted(duck.sql(release_sql(paired)).fetchall(), key=repr)
    if plan.selection_relation is not None:
        paired = replace(plan, selection_relation=over_pairs(plan.selection_relation))
        assert sorted(duck.sql(selection_sql(plan)).fetchall(), key=repr) == sorted(
            duck.sql(selection_sql(paired)).fetchall(), key=repr
        )


@pytest.mark.parametrize("sql", [sql for sql in EARLY if "GROUP BY plan" in sql])
def test_both_rounds_of_a_selection_weigh_the_units_of_the_pairs(
    sql: str, duck: duckdb.DuckDBPyConnection
) -> None:
    plan = planned(sql, keys=(KeyRule.TWO_ROUNDS,))
    first, second = plan.selection_relation, plan.second_relation
    assert first is not None
    assert second is not None
    paired = replace(plan, selection_relation=over_pairs(first), second_relation=over_pairs(second))
    found = duck.sql(selection_sql(plan)).fetchall()
    assert sorted(found, key=repr) == sorted(duck.sql(selection_sql(paired)).fetchall(), key=repr)
    shown = "SELECT 'pro' AS v0 UNION ALL SELECT NULL"
    duck.execute("CREATE SCHEMA IF NOT EXISTS stage")
    duck.execute(f'CREATE OR REPLACE TABLE stage."{plan.release.name}_shown" AS {shown}')
    rest = duck.sql(second_sql(plan)).fetchall()
    assert {key for key, _ in rest} == {key for key, _ in found} - {"pro", None}
    assert sorted(rest) == sorted(duck.sql(second_sql(paired)).fetchall())


@pytest.mark.parametrize("sql", PAIRED)
def test_what_reads_both_sides_is_summed_over_pairs(sql: str) -> None:
    assert partners_of(planned(sql).relation) is None


def test_more_partners_than_are_told_apart_change_nothing(duck: duckdb.DuckDBPyConnection) -> None:
    """With two they differ: the number isn't idle."""
    plan = planned(EARLY[2], 20)
    whole = duck.sql(release_sql(plan)).fetchall()

    def told(relation: Relation, partners: int) -> Relation:
        if isinstance(relation, SumPerUnit):
            return replace(relation, partners=partners)
        assert isinstance(relation, BoundRows | BoundGroups)
        return replace(relation, source=told(relation.source, partners))

    most = partners_of(plan.relation)
    assert most is not None
    for partners, same in ((most, True), (most * 1000, True), (2, False)):
        changed = replace(plan, relation=told(plan.relation, partners))
        assert (sorted(duck.sql(release_sql(changed)).fetchall()) == sorted(whole)) is same


@pytest.mark.parametrize("sql", EARLY[:2])
def test_a_sample_has_the_same_units_on_either_side(
    sql: str, duck: duckdb.DuckDBPyConnection
) -> None:
    plan = over_sample(planned(sql, 20), Fraction(1, 3))
    assert partners_of(plan.relation) is not None
    table = sorted(duck.sql(release_sql(plan)).fetchall(), key=repr)
    paired = replace(plan, relation=over_pairs(plan.relation))
    assert table == sorted(duck.sql(release_sql(paired)).fetchall(), key=repr)
    whole = duck.sql(release_sql(planned(sql, 20))).fetchall()
    assert sum(row[-1] for row in table) < sum(row[-1] for row in whole)


def test_bounds_so_wide_that_products_could_overflow_are_summed_over_pairs() -> None:
    assert partners_of(planned(EARLY[3], 2**40).relation) is None
