"""Other databases' spellings whose meaning is plain, and columns by a pattern."""

from __future__ import annotations

import pytest
from small_catalog import CATALOG

from dp_sql.errors import QueryError
from dp_sql.parser.statement import parse

SAME = [
    ("SELECT region, COUNT(*) FROM visits GROUP BY region WITH ROLLUP",
     "SELECT region, COUNT(*) FROM visits GROUP BY ROLLUP (region)"),
    ("SELECT region, category, SUM(amount) FROM visits GROUP BY region, category WITH CUBE",
     "SELECT region, category, SUM(amount) FROM visits GROUP BY CUBE (region, category)"),
    ("SELECT DATE_PART(month, day) AS m, COUNT(*) FROM visits GROUP BY m",
     "SELECT DATE_PART('month', day) AS m, COUNT(*) FROM visits GROUP BY m"),
    ("SELECT COUNT(*) FROM visits WHERE DATEPART(Year, day) = 2024",
     "SELECT COUNT(*) FROM visits WHERE DATE_PART('Year', day) = 2024"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "meant"), SAME)
def test_a_spelling_has_the_plan_of_what_it_means(written: str, meant: str) -> None:
    first, second = parse(written, CATALOG), parse(meant, CATALOG)
    assert first.residual.sql == second.residual.sql
    assert [r.sets for r in first.releases] == [r.sets for r in second.releases]
    for one, two in zip(first.releases, second.releases, strict=True):
        assert (one.source, one.keys) == (two.source, two.keys)


def test_a_column_comes_before_a_word_for_a_part_of_a_date() -> None:
    with pytest.raises(QueryError, match="doesn't take an expression"):
        parse("SELECT COUNT(*) FROM (SELECT category AS year, day FROM visits) WHERE "
              "DATE_PART(year, day) = 3", CATALOG)  # fmt: skip
