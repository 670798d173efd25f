"""ORDER BY of a block of releases."""

from __future__ import annotations

import pytest
from small_catalog import CATALOG

from dp_sql.parser.statement import parse


@pytest.mark.parametrize("name", ["total", "amount"])
def test_a_subquery_that_orders_by_its_alias_is_released_once(name: str) -> None:
    sql = (
        f"SELECT category, COUNT(*) - (SELECT COUNT(*) FROM users) AS {name} FROM visits "
        f"GROUP BY category ORDER BY {name}"
    )
    assert len(parse(sql, CATALOG).releases) == 2
