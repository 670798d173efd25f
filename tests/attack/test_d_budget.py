"""Attacks D: statements that want to be answered for less than they cost."""

from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attack.scene import Scene, scene, schema, write

import dp_sql
from dp_sql import stages
from dp_sql.errors import (
    BudgetExceededError,
    DPSQLError,
    EngineError,
    InternalError,
    ParameterError,
)
from dp_sql.privacy.sealed import Sealed

COUNT = "SELECT COUNT(*) FROM people"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("people"), "event") as opened:
        yield opened


def small(folder: Path, *, epsilon: str, accountant: str = "pure", level: str = "event") -> Path:
    budget = f"{{epsilon: {epsilon}, delta: 0.001, accountant: {accountant}}}"
    text = schema(level).replace("{epsilon: 1000000, delta: 0.1}", budget)
    return write(folder, text)


def test_d07_repeats_are_free_and_cant_be_averaged(tmp_path: Path) -> None:
    texts = [
        COUNT,
        f"{COUNT} ORDER BY 1",
        f"{COUNT} HAVING COUNT(*) > -1e9",
        f"  {COUNT}  -- again",
    ]
    with dp_sql.connect(small(tmp_path, epsilon="1"), ledger=":memory:") as connection:
        answers = {tuple(connection.sql(sql, epsilon="0.25")) for sql in texts * 5}
        assert len(answers) == 1
        assert connection.budget()["people"].spent.pure == 10**12 // 4


def test_d07_the_same_query_is_charged_each_time_it_is_drawn(tmp_path: Path) -> None:
    with dp_sql.connect(small(tmp_path, epsilon="1"), ledger=":memory:", reuse=False) as connection:
        for _ in range(4):
            connection.sql(COUNT, epsilon="0.25")
        with pytest.raises(BudgetExceededError):
            connection.sql(COUNT, epsilon="0.25")


BAD_EPSILON = [
    float("nan"), float("inf"), -float("inf"), 0, -1, 0.0, "nan", "inf", "-1", "1_0", "", "x",
    "0x10", True, False, Decimal("NaN"), Decimal("Infinity"), np.float32("nan"), np.float32("inf"), 1 + 2j,
    [1], b"1", "1/2", "½", "٣", "1e", " ", Fraction(0), Fraction(-1, 2), b"1",
]  # fmt: skip


@pytest.mark.parametrize("epsilon", BAD_EPSILON, ids=repr)
def test_d08_d10_d11_epsilon_is_a_finite_number_above_zero(epsilon: Any, people: Scene) -> None:
    before, runs = people.spent(), len(people.ran)
    with pytest.raises(ParameterError):
        people.connection.sql(COUNT, epsilon=epsilon)
    assert people.spent() == before
    assert len(people.ran) == runs


@pytest.mark.parametrize(
    "delta", [1, 1.0, 2, "1.5", -1e-9, float("nan"), float("inf"), True, "x", "nan"]
)
def test_d13_delta_is_below_one(delta: Any, people: Scene) -> None:
    before = people.spent()
    with pytest.raises(ParameterError):
        people.connection.sql(
            "SELECT name, COUNT(*) FROM people GROUP BY name", epsilon=1, delta=delta
        )
    assert people.spent() == before


def test_d13_deltas_add_up_to_their_part_of_the_budget(tmp_path: Path) -> None:
    sql = "SELECT name, COUNT(*) FROM people GROUP BY name"
    with dp_sql.connect(
        small(tmp_path, epsilon="100"), ledger=":memory:", reuse=False
    ) as connection:
        asked = 0
        with pytest.raises(BudgetExceededError):  # noqa: PT012  the loop is the attack
            for _ in range(100):
                connection.sql(sql, epsilon="0.1", delta="0.0001")
                asked += 1
        assert 1 <= asked <= 10


def test_d14_budgets_are_exact(tmp_path: Path) -> None:
    with dp_sql.connect(
        small(tmp_path, epsilon="0.3"), ledger=":memory:", reuse=False
    ) as connection:
        for part in (0.1, 0.2):
            connection.sql(COUNT, epsilon=part)
        with pytest.raises(BudgetExceededError):
            connection.sql(COUNT, epsilon="0.000000000001")
    other = tmp_path / "other"
    other.mkdir()
    with dp_sql.connect(small(other, epsilon="0.35"), ledger=":memory:", reuse=False) as connection:
        for _ in range(7):
            connection.sql(COUNT, epsilon=0.05)
        with pytest.raises(BudgetExceededError):
            connection.sql(COUNT, epsilon=0.05)


def test_d17_a_new_connection_finds_what_was_spent(tmp_path: Path) -> None:
    path = small(tmp_path, epsilon="1")
    for _ in range(2):
        with dp_sql.connect(path) as connection:
            connection.refresh()
            connection.sql(COUNT, epsilon="0.5")
    with dp_sql.connect(path) as connection, pytest.raises(BudgetExceededError):
        connection.sql(f"{COUNT} WHERE true", epsilon="0.5")


def test_d16_a_renamed_or_edited_schema_doesnt_refill_the_budget(tmp_path: Path) -> None:
    path = small(tmp_path, epsilon="1")
    with dp_sql.connect(path) as connection:
        connection.sql(COUNT, epsilon=1)
    copied = tmp_path / "copy.yaml"
    copied.write_text(path.read_text() + "\n# edited\n", encoding="utf-8")
    with dp_sql.connect(copied) as connection, pytest.raises(BudgetExceededError):
        connection.sql(COUNT, epsilon="0.5")


def test_d20_d22_disjoint_conditions_add_up(tmp_path: Path) -> None:
    with dp_sql.connect(small(tmp_path, epsilon="1"), ledger=":memory:", reuse=False) as connection:
        connection.sql(f"{COUNT} WHERE age <= 50", epsilon="0.5")
        connection.sql(f"{COUNT} WHERE age > 50", epsilon="0.5")
        with pytest.raises(BudgetExceededError):
            connection.sql(f"{COUNT} WHERE age > 50", epsilon="0.5")


COSTS = [
    "SELECT COUNT(*) FROM people",
    "SELECT city, COUNT(*), AVG(age) FROM people GROUP BY city",
    "SELECT name, COUNT(*) FROM people GROUP BY name",
    "SELECT (SELECT COUNT(*) FROM people) AS a, (SELECT SUM(age) FROM people) AS b",
]


@pytest.mark.parametrize("sql", COSTS)
def test_d25_the_cost_comes_from_the_plan_and_is_at_most_what_was_asked(
    sql: str, people: Scene
) -> None:
    costs = {
        people.connection.sql(sql, epsilon="0.5", delta="1e-6").cost["people"] for _ in range(3)
    }
    assert len(costs) == 1
    (cost,) = costs
    assert Fraction(49, 100) <= cost.epsilon <= Fraction(1, 2)
    assert cost.delta <= Fraction(1, 10**6)


def test_d26_a_wrong_statement_is_wrong_before_the_budget_is_asked(tmp_path: Path) -> None:
    with dp_sql.connect(
        small(tmp_path, epsilon="0.1"), ledger=":memory:", reuse=False
    ) as connection:
        texts = set()
        for sql in (
            "SELECT COUNT(*) FROM people",
            "SELECT COUNT(*) FROM people WHERE name = 'bob'",
        ):
            with pytest.raises(BudgetExceededError) as caught:
                connection.sql(sql, epsilon=5)
            texts.add(str(caught.value))
        assert len(texts) == 1
        with pytest.raises(DPSQLError) as wrong:
            connection.sql("SELECT salry FROM people", epsilon=5)
        assert not isinstance(wrong.value, BudgetExceededError)


def test_d28_explain_reads_no_protected_row_and_costs_nothing(people: Scene) -> None:
    before, runs = people.spent(), len(people.ran)
    texts = {people.connection.explain(sql, epsilon=1, delta="1e-6") for sql in COSTS[:1] * 3}
    assert len(texts) == 1
    people.connection.sql(f"EXPLAIN {COSTS[1]}", epsilon=1)
    assert len(people.ran) == runs
    assert people.spent() == before


def test_d04_a_failure_after_the_debit_stays_charged(
    people: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = people.spent()

    def failing(*_: object, **__: object) -> None:
        raise EngineError("it failed")

    monkeypatch.setattr(stages.Course, "finish", failing)
    with pytest.raises(EngineError):
        people.connection.sql(COUNT, epsilon=1)
    assert people.spent() != before


def test_d05_the_debit_comes_before_the_first_row_is_read(
    people: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    engine = people.connection._engine
    execute = engine.execute
    before = people.spent()

    def spy(plan: Any, statements: tuple[str, ...], stages: Any = ()) -> Any:
        seen.append(people.spent())
        return execute(plan, statements, stages)

    monkeypatch.setattr(engine, "execute", spy)
    people.connection.sql(COUNT, epsilon=1)
    assert seen == [people.spent()]
    assert seen[0] != before


SENTINELS = ("alice", "x-secret", "90000", "40000")


def test_d29_no_log_line_and_no_text_of_an_object_holds_a_row(
    people: Scene, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    result = people.connection.sql(
        "SELECT city, SUM(salary) AS s FROM people GROUP BY city", epsilon=1
    )
    people.connection.sql("SELECT COUNT(*) FROM people WHERE note = 'x-secret'", epsilon="0.01")
    texts = [repr(result), repr(people.connection), repr(people.connection._engine), caplog.text]
    texts += [*capfd.readouterr(), repr(people.connection._ledger), repr(people.ran)]
    for text in texts:
        assert not any(word in text for word in SENTINELS if word != "x-secret")


def test_d29_exact_values_travel_sealed(people: Scene) -> None:
    people.connection.sql(COUNT, epsilon=1)
    people.connection.sql("SELECT MEDIAN(age) FROM people", epsilon=1)
    for plan in people.ran[-2:]:
        engine = people.connection._engine
        sums = engine.execute(plan, engine.statements(plan))
        for sealed in (sums.table, *sums.histograms):
            assert isinstance(sealed, Sealed)
            assert "3" not in repr(sealed)
            for look in (
                str,
                list,
                len,
                bool,
                hash,
                pickle.dumps,
                copy.copy,
                copy.deepcopy,
                "{}".format,
            ):
                with pytest.raises(InternalError):
                    look(sealed)
    assert len(sums.histograms) == 1


def test_d35_the_schema_of_a_connection_is_a_frozen_snapshot(people: Scene, tmp_path: Path) -> None:
    path = people.connection.catalog.path
    path.write_text(path.read_text().replace("bounds: [0, 120]", "bounds: [0, 1000000]"))
    cost = people.connection.explain("SELECT SUM(age) FROM people", epsilon=1)
    assert "[0, 120]" in cost
    with pytest.raises((AttributeError, TypeError)):
        people.connection.catalog.path = tmp_path  # type: ignore[misc]


def test_d19_both_tables_of_a_statement_are_charged_or_none(tmp_path: Path) -> None:
    text = (
        schema("event")
        + """
  second:
    source: second.csv
    budget: {epsilon: 0.1, delta: 0.01, accountant: pure}
    columns: {a: {type: integer, bounds: [0, 1]}}
"""
    )
    (tmp_path / "second.csv").write_text("a\n1\n0\n")
    with dp_sql.connect(
        write(tmp_path, text), data_dir=tmp_path, ledger=":memory:", reuse=False
    ) as connection:
        both = "SELECT (SELECT COUNT(*) FROM people) AS a, (SELECT COUNT(*) FROM second) AS b"
        cost = connection.sql(both, epsilon="0.1").cost
        assert set(cost) == {"people", "second"}
        before = {name: state.lines() for name, state in connection.budget().items()}
        with pytest.raises(BudgetExceededError):
            connection.sql(both, epsilon=1)
        assert {name: state.lines() for name, state in connection.budget().items()} == before
