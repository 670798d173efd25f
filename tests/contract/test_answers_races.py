"""Processes that ask the same at once, or are killed while they do: no answer but one that was paid."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dp_sql

ROOT = Path(__file__).parents[2]
CHILDREN = Path(__file__).with_name("answer_children.py")
SCHEMA = """
version: 1
database: "duckdb://"
privacy: {level: user, unit: person, defaults: {epsilon: 0.5}}
tables:
  people:
    source: people.csv
    owner: id
    budget: {epsilon: 1e6, delta: 1e-4}
    columns:
      id: {type: integer}
      pay: {type: double, bounds: [0, 10]}
"""


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    rows = "".join(f"{i},{i % 10}\n" for i in range(200))
    (tmp_path / "people.csv").write_text(f"id,pay\n{rows}", "utf-8")
    path = tmp_path / "people.yaml"
    path.write_text(SCHEMA, "utf-8")
    return path


def run(schema: Path, *arguments: object) -> Any:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(CHILDREN), str(schema), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def unpaid(schema: Path, told: list[list[Any]]) -> list[str]:
    """Return the statements that gave more answers than were paid for."""
    with dp_sql.connect(schema, ledger=f"{schema}.ledger") as connection:
        assert connection._ledger.verify().problems == ()
        paid = Counter(entry.sql for entry in connection.ledger() if entry.spend.epsilon)
        answers = Counter(sql for sql, _ in {(sql, value) for sql, value in told})
        return [sql for sql, count in answers.items() if count > paid[sql]]


def raced(schema: Path, tries: int) -> None:
    found = run(schema, tries, tries)
    print(f"{found['killed']} processes killed, {len(found['told'])} answers told")  # noqa: T201
    assert found["killed"] <= tries
    assert found["killed"] >= tries / 2 or tries == 1  # a single one may end before it is killed
    assert len(found["told"]) >= tries * 5
    assert unpaid(schema, found["told"]) == []


def test_processes_that_ask_the_same_or_are_killed_tell_what_was_paid(schema: Path) -> None:
    raced(schema, 1)


@pytest.mark.slow
def test_hundreds_of_them_tell_what_was_paid(schema: Path) -> None:
    raced(schema, 300)
