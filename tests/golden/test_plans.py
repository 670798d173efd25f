"""Queries with their plans, facts and lowered SQL, as text. --update-golden rewrites the file."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from small_catalog import CATALOG

from dp_sql.executor.lower_relation import release_sql, second_sql, selection_sql
from dp_sql.executor.lower_sampled import sampled_sql
from dp_sql.parser.statement import parse
from dp_sql.plan.printer import relation_text
from dp_sql.planner.sets import plan_sets
from dp_sql.sensitivity.contribution import derive

if TYPE_CHECKING:
    import pytest

    from dp_sql.plan.public import Image

GOLDEN = Path(__file__).with_name("plans.txt")
STATEMENTS = [
    "SELECT COUNT(*) FROM visits",
    "SELECT region, COUNT(*) AS n, AVG(amount) FROM visits GROUP BY region HAVING n > 10 ORDER BY n",
    "SELECT category, COUNT(*) FROM visits WHERE minutes > 30 GROUP BY category",
    "SELECT region, category, SUM(amount) FROM visits GROUP BY ALL",
    "SELECT VAR_SAMP(minutes), COUNT(DISTINCT user_id) FILTER (WHERE amount > 5) FROM visits",
    "WITH v AS (SELECT minutes * 2 AS m, region AS r FROM visits) SELECT r, SUM(m) FROM v GROUP BY r",
    "SELECT name, COUNT(*) FROM visits JOIN regions USING (region) GROUP BY name",
    "SELECT COUNT(*) * 1.0 / (SELECT COUNT(*) FROM users) FROM visits",
    "SELECT name FROM regions ORDER BY name",
    "SELECT region, category, SUM(amount), GROUPING(region) FROM visits GROUP BY ROLLUP (region, category)",
    "SELECT plan, COUNT(*) FROM visits v, users u WHERE v.user_id = u.user_id AND minutes > 9 GROUP BY plan",
    "SELECT AVG(t) FROM (SELECT user_id, SUM(amount) AS t FROM visits GROUP BY user_id)",
    "SELECT name, COUNT(v.minutes) FROM regions r LEFT JOIN visits v USING (region) GROUP BY name",
    "SELECT COUNT(*) FROM users u WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.user_id = u.user_id)",
    "SELECT SUM(r) FROM (SELECT user_id, RANK() OVER (PARTITION BY user_id ORDER BY day) r FROM visits)",
    "SELECT COUNT(*) FROM (SELECT user_id, category FROM visits EXCEPT SELECT user_id, plan FROM users)",
    (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed=1, min_privacy_units_per_group=9) "
        "region, SUM(minutes, contribution_bounds_per_group => (-2.5, 90)) AS s FROM visits GROUP BY region"
    ),
    (
        "SELECT COUNT(*, contribution_bounds_per_group => (1, 3)), "
        "AVG(minutes, contribution_bounds_per_group => (10, 20)) FROM visits"
    ),
    "SELECT region, CORR(amount, minutes) AS c, COUNT(*) FROM visits GROUP BY region",
    "SELECT region, SAMPLE_AND_AGGREGATE('median', amount, 0, 99, 25) AS m, COUNT(*) FROM visits GROUP BY 1",
    "SELECT SAMPLE_AND_AGGREGATE('skewness', amount, -2, 2, 25) FROM visits",
    "SELECT REGR_SLOPE(amount, minutes), REGR_AVGY(minutes, amount) FILTER (WHERE minutes > 9) FROM visits",
    "SELECT region, VECTOR_SUM([amount, minutes], 2.5) FROM visits GROUP BY region",
]


class _Facts:
    """Public facts of a world with two regions."""

    def image(self, image: Image, limit: int) -> tuple[tuple[object, ...], ...] | None:
        assert image.expressions
        assert limit > 2
        return (("north",), ("south",))

    def frequency(self, table: str, columns: tuple[str, ...]) -> int | None:
        return 1 if (table, columns) == ("regions", ("region",)) else None


def _described(sql: str) -> str:
    query = parse(sql, CATALOG)
    lines = [f"# {sql}"]
    for release in query.releases:
        for plan in plan_sets(release, CATALOG, _Facts(), Fraction(1)):
            facts = derive(plan, CATALOG.unit, _Facts())
            lines.append(relation_text(plan.relation))
            lines.append(f"groups {facts.groups} of {facts.cells}")
            lines += [f"{v.rule}: {v.change.l1}, {v.change.l2_squared}" for v in facts.vectors]
            if plan.in_table:
                lines.append(release_sql(plan))
            if plan.selection_relation is not None:
                lines.append(selection_sql(plan))
            lines += [sampled_sql(sampled) for sampled in plan.sampled]
            if plan.second_relation is not None:
                lines.append(second_sql(plan))
    lines.append(f"residual: {query.residual.sql}")
    text = "\n".join(lines)
    return re.sub(r"(hash\([^()]*CAST\()\d+ AS", r"\1<hash key> AS", text)


def test_plans_are_as_they_were(request: pytest.FixtureRequest) -> None:
    text = "\n\n".join(_described(sql) for sql in STATEMENTS) + "\n"
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
