"""Attacks D over time and among analysts: names, new rows, halves of answers, and rounded amounts."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from attack.scene import schema, write

import dp_sql
from dp_sql.errors import BudgetExceededError, EngineError

COUNT = "SELECT COUNT(*) FROM people"


def small(folder: Path, epsilon: str = "1") -> Path:
    budget = f"{{epsilon: {epsilon}, delta: 0.001, accountant: sequential}}"
    return write(folder, schema("event").replace("{epsilon: 1000000, delta: 0.1}", budget))


def test_d31_analysts_share_the_budget_of_a_table(tmp_path: Path) -> None:
    path = small(tmp_path)
    for name in ("ann", "ben"):
        with dp_sql.connect(path, analyst=name, reuse=False) as connection:
            connection.sql(COUNT, epsilon="0.5")
    for who in ("ann", "ben", "new", None):
        with (
            dp_sql.connect(path, analyst=who, reuse=False) as connection,
            pytest.raises(BudgetExceededError),
        ):
            connection.sql(COUNT, epsilon="0.01")


def test_d34_new_rows_bring_no_new_budget(tmp_path: Path) -> None:
    path = small(tmp_path)
    with dp_sql.connect(path) as connection:
        connection.sql(COUNT, epsilon=1)
    with duckdb.connect(str(tmp_path / "scene.duckdb")) as data:
        data.execute("INSERT INTO people SELECT * REPLACE (uid + 1000 AS uid) FROM people")
        data.execute("CREATE TABLE fresh AS SELECT * FROM people")
        data.execute("DROP TABLE people")
        data.execute("ALTER TABLE fresh RENAME TO people")
    with dp_sql.connect(path) as connection, pytest.raises(BudgetExceededError):
        connection.sql(COUNT, epsilon="0.01")


def test_d32_an_answer_that_is_read_in_part_is_paid_whole(tmp_path: Path) -> None:
    with dp_sql.connect(small(tmp_path), ledger=":memory:") as connection:
        cursor = connection.cursor()
        connection.sql("SET epsilon = 0.5")
        cursor.execute("SELECT city, COUNT(*) FROM people GROUP BY city")
        cursor.fetchone()
        cursor.close()
        connection.sql(COUNT, epsilon="0.5")
        with pytest.raises(BudgetExceededError):
            connection.sql(COUNT, epsilon="0.01")


def test_d32_a_statement_that_is_stopped_while_it_runs_stays_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dp_sql.connect(small(tmp_path), ledger=":memory:") as connection:
        engine = connection._engine
        known: Callable[..., Any] = engine.execute

        def stopped(*arguments: Any) -> Any:
            known(*arguments)
            raise EngineError("the statement was stopped.")

        monkeypatch.setattr(engine, "execute", stopped)
        for _ in range(2):
            with pytest.raises(EngineError):
                connection.sql(COUNT, epsilon="0.5")
        monkeypatch.undo()
        with pytest.raises(BudgetExceededError):
            connection.sql(COUNT, epsilon="0.01")


@pytest.mark.parametrize("spent", ["0.1", "0.0000001", "0.3333333333", "0.999999999999"])
def test_d37_what_is_shown_as_left_fits_and_a_little_more_does_not(
    spent: str, tmp_path: Path
) -> None:
    with dp_sql.connect(small(tmp_path), ledger=":memory:") as connection:
        connection.sql(COUNT, epsilon=spent)
        with pytest.raises(BudgetExceededError) as caught:
            connection.sql(COUNT, epsilon=1)
        offered = re.search(r"epsilon = ([0-9.]+) would fit", str(caught.value))
        assert offered is not None, caught.value
        state = connection.budget()["people"]
        (share,) = (one for one in state.shares if one.rule == "epsilon")
        assert Fraction(Decimal(offered[1])) <= share.left == share.budget - (share.spent or 0)
        connection.sql(COUNT, epsilon=offered[1])
        with pytest.raises(BudgetExceededError):
            connection.sql(COUNT, epsilon="0.01")
