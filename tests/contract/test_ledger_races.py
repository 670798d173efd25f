"""Processes and threads that spend one budget, fork with it open, or are killed while they do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from budget_cases import budget
from ledger_cases import LARGE, new_ledger, run_children

from dp_sql.budget import open_ledger
from dp_sql.budget.accountant import EPSILON_UNITS
from dp_sql.schema.catalog import AccountantKind, BudgetSpec, Renew

ONE = budget("1", "0", AccountantKind.PURE, "0")
LINED: dict[str, Any] = {"blocks": "day", "renew": Renew.YEARLY}


@pytest.fixture(params=["file", "postgres"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where a ledger goes that processes can share."""
    if request.param == "postgres":
        return str(request.getfixturevalue("emptied"))
    return str(tmp_path / "shop.ledger")


@pytest.mark.parametrize(
    ("path", "processes", "threads", "epsilon", "spec"),
    [
        ("file", 2, 16, "0.01", replace(ONE, **LINED)),
        ("file", 16, 1, "0.02", ONE),
        ("postgres", 6, 1, "0.04", replace(ONE, **LINED)),
        pytest.param("file", 16, 4, "0.001", ONE, marks=pytest.mark.slow),
        pytest.param("postgres", 16, 4, "0.001", ONE, marks=pytest.mark.slow),
    ],
    indirect=["path"],
)
def test_processes_and_threads_are_granted_exactly_the_budget(
    path: str, processes: int, threads: int, epsilon: str, spec: BudgetSpec
) -> None:
    new_ledger(path, spec).close()
    found = run_children("race", path, processes, threads, epsilon, timeout=600)
    assert found["codes"] == [0] * processes
    paid = [query_id for each in found["paid"] for query_id in each]
    assert len(paid) == len(set(paid)) == round(1 / float(epsilon))
    with open_ledger(path) as ledger:
        for identity in ("a", "b"):
            assert ledger.state(identity).spent.pure == EPSILON_UNITS
            assert ledger.state(identity).statements == len(paid)
        assert {entry.query_id for entry in ledger.entries()} == set(paid)
        assert ledger.verify().problems == ()


def killed(path: str, tries: int, seed: int, spec: BudgetSpec = LARGE) -> None:
    new_ledger(path, spec).close()
    found = run_children("kills", path, tries, seed, timeout=tries * 2 + 60)
    print(f"{tries} processes killed: {found}")  # noqa: T201  pytest -s shows how many
    assert found["tries"] == tries
    assert found["problems"] == []
    assert found["lost"] == 0
    assert found["answers"] > tries / 2
    # at most the one statement that was between its charge and its answer
    assert found["answers"] <= found["charges"] <= found["answers"] + tries


def test_no_answer_of_a_killed_process_is_without_its_charge(path: str) -> None:
    killed(path, tries=12, seed=1, spec=replace(LARGE, **LINED))


@pytest.mark.slow
def test_no_answer_of_a_thousand_killed_processes_is_without_its_charge(path: str) -> None:
    killed(path, tries=1000, seed=2)


def test_a_child_goes_on_with_the_ledger_after_its_parent_closed_it(path: str) -> None:
    # SQLite alone loses what the child commits after the parent has closed its connection
    new_ledger(path).close()
    found = run_children("fork", path)
    assert found["code"] == 0
    assert len(found["parent"]) == 4
    assert len(found["child"]) == 6
    with open_ledger(path) as ledger:
        charged = {entry.query_id for entry in ledger.entries()}
        assert charged == {*found["parent"], *found["child"]}
        assert ledger.verify().problems == ()


def test_forks_among_threads_lose_nothing(path: str) -> None:
    new_ledger(path).close()
    found = run_children("fork_among_threads", path, 5)
    assert found["codes"] == [0] * 5
    assert found["children"] == 5
    with open_ledger(path) as ledger:
        assert {entry.query_id for entry in ledger.entries()} == set(found["paid"])
        assert ledger.verify().problems == ()


def test_a_ledger_in_memory_stays_with_the_process_that_opened_it() -> None:
    found = run_children("fork_memory")
    assert "forked_this_one" in found["message"][0]
    assert found["parent"] == 1
