"""What changes between two times that the same is asked: the schema, public rows, the ledger, the store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from repeat_cases import BIG, CITIES, COUNT, connected, filled, schema

from dp_sql.errors import BudgetExceededError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return filled(tmp_path)


def test_a_schema_that_says_something_else_has_no_answer_yet(folder: Path) -> None:
    with connected(folder) as connection:
        connection.sql(CITIES)
    for old, new in {
        "bounds: [-5, 10]": "bounds: [-5, 11]",
        "max_groups: 2": "max_groups: 1",
        "max_rows_per_group: 3": "max_rows_per_group: 2",
        "[oslo, rome, bonn]": "[oslo, rome]",
        "owner: id\n": "owner: id\n    data_version: 2\n",
        "type: double, bounds": "type: float, bounds",
        "epsilon: 0.25, delta: 1e-9": "epsilon: 0.25, delta: 2e-9",
    }.items():
        schema(folder, **{old: new})
        with connected(folder) as connection:
            assert bool(connection.sql(CITIES).cost) == (old != "epsilon: 0.25, delta: 1e-9"), new
    schema(folder)
    with connected(folder) as connection:
        assert connection.sql(CITIES).cost == {}  # the first one is still there


def test_what_the_schema_says_of_other_things_changes_nothing(folder: Path) -> None:
    with connected(folder) as connection:
        connection.sql(CITIES)
    schema(folder, **{"budget: {epsilon: 500,": "budget: {epsilon: 5e2,"})
    with connected(folder) as connection:
        assert connection.sql(CITIES).cost == {}


def test_a_public_table_with_other_rows_makes_another_release(folder: Path) -> None:
    def cost() -> object:
        with connected(folder) as connection:
            return connection.sql(BIG).cost

    towns = folder / "towns.csv"
    text = towns.read_text("utf-8")
    assert cost()
    towns.write_text(text.replace("rome,true", "rome,false"), "utf-8")
    assert cost()
    lines = text.splitlines()
    towns.write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n", "utf-8")
    assert not cost()  # the rows of the first time, in another order
    with connected(folder) as connection:
        connection.sql(COUNT)
        towns.write_text(text + "kyiv,true\n", "utf-8")
    with connected(folder) as connection:
        assert connection.sql(COUNT).cost == {}  # which doesn't read it
        assert connection.sql(BIG).cost


def test_answers_of_another_ledger_are_none(folder: Path) -> None:
    with connected(folder, ledger=folder / "one.ledger") as connection:
        connection.sql(COUNT)
    shutil.copy(folder / "one.ledger.answers", folder / "two.ledger.answers")
    with connected(folder, ledger=folder / "two.ledger") as connection:
        assert connection.sql(COUNT).cost
        assert connection.sql(COUNT).cost == {}


def test_without_the_store_everything_is_paid_again(folder: Path) -> None:
    file = folder / "own.ledger.answers"
    with connected(folder, ledger=folder / "own.ledger") as connection:
        for lose in (
            file.unlink,
            lambda: connection._answers.clear("owner"),
            lambda: file.write_bytes(b"x"),
        ):
            assert connection.sql(COUNT).cost
            assert connection.sql(COUNT).cost == {}
            lose()
        assert connection.sql(COUNT).cost
        assert connection._ledger.verify().problems == ()


def test_a_repeat_takes_nothing_of_any_block(folder: Path) -> None:
    days = ", ".join(map(str, range(10)))
    schema(
        folder,
        **{
            "level: user, unit: person": "level: event",
            "budget: {epsilon: 500, delta: 1e-3}": "budget: {epsilon: 1, delta: 1e-3, accountant: pure, "
            "blocks: pay, per_analyst: {epsilon: 0.5}}",
            "pay: {type: double, bounds: [-5, 10]}": f"pay: {{type: integer, values: [{days}]}}",
            "    owner: id\n": "",
            "    limits: {max_groups: 2, max_rows_per_group: 3}\n": "",
        },
    )
    one, two = (f"{COUNT} WHERE pay = {day}" for day in (1, 2))
    with connected(folder, analyst="ada") as ada, connected(folder, analyst="eve") as eve:
        first = ada.sql(one, epsilon=0.5)
        ada.sql(two, epsilon=0.5)
        for _ in range(3):
            assert eve.sql(one, epsilon=0.5).fetchall() == first.fetchall()
        with pytest.raises(BudgetExceededError, match=r"block 1 of .* for eve"):
            eve.sql(f"{one} AND age > 3", epsilon="0.1")
        assert eve.sql(f"{two} AND age > 3", epsilon="0.5").cost  # another block
        with connected(folder) as owner:
            assert owner.sql(
                f"{one} AND age > 3", epsilon=0.5
            ).cost  # the block has half of its own left
            assert owner._ledger.verify().problems == ()
