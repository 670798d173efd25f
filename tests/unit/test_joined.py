"""A table and the weights that select its keys, by one statement, are those of one statement each."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING

import duckdb
import pytest
from small_catalog import CATALOG

from dp_sql.errors import InternalError
from dp_sql.executor.lower_joined import joined_sql
from dp_sql.executor.lower_relation import release_sql, selection_sql
from dp_sql.parser.statement import parse
from dp_sql.plan.relation import BoundGroups, BoundRows, Relation
from dp_sql.planner.plan import plan_release
from dp_sql.schema.catalog import KeyRule, Mechanisms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dp_sql.plan.public import Image
    from dp_sql.plan.release import PlannedRelease


class _NoTables:
    def image(self, image: Image, limit: int) -> None:
        raise InternalError(f"no public table is read: {image}, {limit}")

    def frequency(self, table: str, columns: tuple[str, ...]) -> None:
        raise InternalError(f"no public table is read: {table}, {columns}")


def planned(sql: str, keys: tuple[KeyRule, ...] = (KeyRule.TWO_ROUNDS,)) -> PlannedRelease:
    catalog = replace(CATALOG, mechanisms=Mechanisms(keys=keys))
    (release,) = parse(sql, catalog).releases
    return plan_release(release, catalog, _NoTables(), Fraction(1))


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """Units with no row, a few, and more than the limits in more groups than the limit."""
    random = Random(11)
    con = duckdb.connect()
    con.execute("CREATE SCHEMA data")
    con.execute(
        "CREATE TABLE data.visits (user_id BIGINT, category VARCHAR, day DATE, region VARCHAR, "
        "amount DOUBLE, minutes INTEGER)"
    )
    for user in [None, *range(60)]:
        for _ in range(random.choice([0, 1, 4, 9, 60])):
            con.execute(
                "INSERT INTO data.visits VALUES (?, ?, DATE '2024-01-01', ?, ?, ?)",
                [
                    user,
                    random.choice([None, *"abcdefghij"]),
                    random.choice("nsx"),
                    random.choice([None, float("nan"), -3.0, 2.5, 1e9]),
                    random.choice([None, -9, 0, 30, 2**31 - 1]),
                ],
            )
    yield con
    con.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT category, COUNT(*) FROM visits GROUP BY category",
        "SELECT category, COUNT(minutes), SUM(minutes), AVG(amount) FROM visits GROUP BY category",
        "SELECT category, VAR_POP(amount) FROM visits WHERE region <> 's' GROUP BY category",
        "SELECT category, substring(category, 1, 1) c, CORR(amount, minutes) FROM visits GROUP BY ALL",
    ],
)
def test_one_statement_gives_both_tables(sql: str, duck: duckdb.DuckDBPyConnection) -> None:
    plan = planned(sql)
    text = joined_sql(plan)
    assert text is not None
    both = duck.sql(text).fetchall()
    assert len(both) > 5
    assert {row[:-1] for row in both} == {*duck.sql(release_sql(plan)).fetchall()}
    width = len(plan.keys)
    weights = {(*row[:width], row[-1]) for row in both}
    assert weights == {*duck.sql(selection_sql(plan)).fetchall()}


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        ("SELECT COUNT(*) FROM visits", KeyRule.TWO_ROUNDS),
        ("SELECT category, COUNT(*) FROM visits GROUP BY category", KeyRule.WEIGHTED_GAUSSIAN),
        ("SELECT category, region, COUNT(*) FROM visits GROUP BY ALL", KeyRule.TWO_ROUNDS),
        ("SELECT DISTINCT category FROM visits", KeyRule.TWO_ROUNDS),
    ],
)
def test_statements_that_have_rows_of_their_own_stay_apart(sql: str, keys: KeyRule) -> None:
    assert joined_sql(planned(sql, (keys,))) is None


def test_relations_that_keep_other_groups_stay_apart() -> None:
    """With another hash key or limit the pairs of unit and group are others."""
    plan = planned("SELECT category, COUNT(*) FROM visits GROUP BY category")
    rows = plan.relation
    assert isinstance(rows, BoundRows)
    groups = rows.source
    assert isinstance(groups, BoundGroups)
    others: list[Relation] = [
        replace(rows, max_rows=rows.max_rows + 1),
        replace(rows, source=replace(groups, hash_key=groups.hash_key + 1)),
        replace(rows, source=replace(groups, max_groups=groups.max_groups + 1)),
        replace(rows, source=groups.source),
    ]
    for other in others:
        assert joined_sql(replace(plan, relation=other)) is None
