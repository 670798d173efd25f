"""A hint about an aggregate quotes the statement's own text, so it can be run."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden.shop import write_shop

import dp_sql
from dp_sql.errors import NotPrivateError, Position
from dp_sql.planner.written import written_argument


@pytest.mark.parametrize(
    ("text", "column", "argument"),
    [
        ("SELECT AVG( a -\n (SELECT AVG(b) FROM t) ) FROM t", 8, "a - (SELECT AVG(b) FROM t)"),
        ("SELECT SUM(CASE WHEN c = ')' THEN 1 END)", 8, "CASE WHEN c = ')' THEN 1 END"),
        ("SELECT SUM(DISTINCT a)", 8, None),
        ("SELECT COVAR_POP(a, b)", 8, None),
        ("SELECT SUM(a -- ) )\n)", 8, None),
        ("SELECT SUM(a", 8, None),
        ("SELECT SUM", 8, None),
    ],
)
def test_the_argument_is_found(text: str, column: int, argument: str | None) -> None:
    assert written_argument(text, Position(1, column, 3)) == argument


def test_what_the_hint_says_is_answered(tmp_path: Path) -> None:
    write_shop(tmp_path)
    with dp_sql.connect(tmp_path / "visits.yaml", ledger=":memory:") as connection:
        with pytest.raises(NotPrivateError) as caught:
            connection.sql(
                "SELECT AVG(amount - (SELECT AVG(amount) FROM visits)) FROM visits", epsilon=1
            )
        hint = (caught.value.hint or "").partition(" with the range")[0]
        assert hint == "AVG(CLAMP(amount - (SELECT AVG(amount) FROM visits), 0, 100))"
        assert connection.sql(f"SELECT {hint} FROM visits", epsilon=1, delta="1e-9").fetchall()
