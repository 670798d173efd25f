"""Attacks B: noise that can be told, repeated, chosen or cut off."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attack.scene import Scene, scene

import dp_sql
from dp_sql.cli import main as command_line
from dp_sql.errors import DPSQLError
from dp_sql.mechanisms.sampler import ExactSampler


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("people"), "event") as opened:
        yield opened


def test_b01_b02_released_counts_are_whole_numbers_on_a_public_lattice(people: Scene) -> None:
    """The set of possible answers doesn't depend on the true one: every whole number is possible."""
    for sql in ("SELECT COUNT(*) FROM people", "SELECT COUNT(*) FROM people WHERE FALSE"):
        answers = {people.connection.sql(sql, epsilon=1).fetchall()[0][0] for _ in range(60)}
        assert all(type(n) is int for n in answers)
        assert len({n % 2 for n in answers}) == 2


def test_b02_sums_of_floats_lie_on_the_same_lattice_whatever_the_rows_are(people: Scene) -> None:
    sums = [
        people.connection.sql(f"SELECT SUM(salary) FROM people WHERE uid = {n}", epsilon=1).fetchall()
        for n in (1, 8) for _ in range(20)
    ]  # fmt: skip
    grids = [float(value).as_integer_ratio()[1] for ((value,),) in sums]
    assert max(grids[:20]) == max(grids[20:]) <= 2**20


def test_b05_rounding_in_the_text_rounds_the_noisy_value(people: Scene) -> None:
    """ROUND above the aggregate is post-processing: it doesn't change the noise or its cost."""
    plain = people.connection.sql("SELECT AVG(age) FROM people", epsilon=1)
    rounded = people.connection.sql("SELECT ROUND(AVG(age), -9) AS r FROM people", epsilon=1)
    assert rounded.fetchall() == [(0.0,)]
    assert plain.cost["people"].epsilon == rounded.cost["people"].epsilon


def test_b07_nobody_can_choose_or_seed_the_noise() -> None:
    words = {"seed", "random_state", "rng", "generator", "sensitivity", "scale", "noise"}
    functions = [dp_sql.connect, *(f for _, f in inspect.getmembers(dp_sql.Connection, callable))]
    for function in functions:
        try:
            names = set(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            continue
        assert not names & words, function
    assert not any(
        word in inspect.getsource(command_line).lower() for word in ("--seed", "random_state")
    )


def test_b10_a_fork_doesnt_repeat_the_noise_of_its_parent() -> None:
    """Run in a fresh process: a test process with threads shouldn't fork."""
    text = """
import os
from dp_sql.mechanisms.sampler import ExactSampler
sampler = ExactSampler()
sampler.laplace(1000, 5)
read, write = os.pipe()
for _ in range(2):
    child = os.fork()
    if child == 0:
        os.write(write, (str(sampler.laplace(10**9, 1)[0]) + "\\n").encode())
        os._exit(0)
    os.waitpid(child, 0)
print(os.read(read, 4096).decode() + str(sampler.laplace(10**9, 1)[0]))
"""
    place = str(Path(dp_sql.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": place},
    )
    lines = done.stdout.split()
    assert len(lines) == 3
    assert len(set(lines)) == 3


def test_b11_no_noise_is_made_in_sql(people: Scene) -> None:
    people.connection.sql("SELECT city, COUNT(*), AVG(salary) FROM people GROUP BY city", epsilon=1)
    sent = " ".join(people.connection._engine.statements(people.ran[-1]))
    assert "random" not in sent.lower()
    assert "setseed" not in sent.lower()


def test_b13_b14_noise_is_neither_cut_off_nor_drawn_again(people: Scene) -> None:
    """Of 300 noisy counts of nobody half are below zero, up to chance (six standard deviations)."""
    sql = " UNION ALL ".join(["SELECT COUNT(*) AS n FROM people WHERE FALSE"] * 30)
    counts: list[Any] = []
    for _ in range(10):
        counts += [n for (n,) in people.connection.sql(sql, epsilon=3).fetchall()]
    below = sum(n < 0 for n in counts)
    above = sum(n > 0 for n in counts)
    assert abs(below - above) < 6 * np.sqrt(len(counts))
    assert max(counts) > 20
    assert min(counts) < -20


def test_b16_b22_every_statement_has_fresh_noise_and_is_charged(people: Scene) -> None:
    texts = ["age = 51", "51 = age", "age + 0 = 51", "age = 51"]
    answers, spent = set(), []
    for text in texts * 5:
        result = people.connection.sql(f"SELECT COUNT(*) FROM people WHERE {text}", epsilon="0.001")
        answers.add(result.fetchall()[0][0])
        spent.append(result.cost["people"].epsilon)
    assert len(answers) > 10
    assert all(cost > 0 for cost in spent)


def test_b17_extreme_noise_is_refused_before_it_is_paid(people: Scene) -> None:
    before = people.spent()
    for epsilon in ("1e-300", "1e-40"):
        with pytest.raises(DPSQLError):
            people.connection.sql("SELECT SUM(salary) FROM people", epsilon=epsilon)
    assert people.spent() == before
    sampler = ExactSampler()
    assert len(set(sampler.laplace(2**50, 50).tolist())) == 50
    assert len(set(sampler.gaussian(2**50, 50).tolist())) == 50


def test_b20_types_come_from_the_plan(people: Scene) -> None:
    for where in ("TRUE", "FALSE"):
        items = "COUNT(*) AS n, SUM(age) AS s, SUM(salary) AS t, AVG(age) AS a"
        sql = f"SELECT {items} FROM people WHERE {where}"
        result = people.connection.sql(sql, epsilon=1)
        assert result.types == ["BIGINT", "BIGINT", "DOUBLE", "DOUBLE"]
        assert [type(v) for v in result.fetchall()[0]] == [int, int, float, float]
