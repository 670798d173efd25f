"""Attacks B on where noise comes from: floats, processes, threads, and numbers drawn twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attack.scene import PEOPLE, Scene, person, scene, schema, write

import dp_sql
from dp_sql.errors import DPSQLError
from dp_sql.mechanisms import sampler
from dp_sql.mechanisms.sampler import ExactSampler, Integers, Rate
from dp_sql.stages import fresh

GAUSSIAN = "{epsilon: 1000000, delta: 0.1, accountant: zcdp}"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("people"), "event") as opened:
        yield opened


def test_b04_gaussian_noise_is_whole_numbers_too(tmp_path: Path) -> None:
    """Released values are whole numbers of lattice steps, whatever the noise and the rows are."""
    text = schema("event").replace("{epsilon: 1000000, delta: 0.1}", GAUSSIAN)
    sql = ", ".join(f"SUM(salary) FILTER (WHERE uid <> {i}) AS s{i}" for i in range(9))
    with dp_sql.connect(write(tmp_path, text), ledger=":memory:", reuse=False) as connection:
        told = connection.explain(f"SELECT {sql} FROM people", epsilon=1, delta="1e-5")
        assert "gaussian" in told.lower()
        steps: set[int] = set()
        for _ in range(6):
            (row,) = connection.sql(f"SELECT {sql} FROM people", epsilon=1, delta="1e-5").fetchall()
            steps |= {float(value).as_integer_ratio()[1] for value in row}
    assert max(steps) <= 2**20


LATTICE = [
    "SUM(salary)",
    "AVG(salary)",
    "COUNT(*)",
    "SUM(age)",
    "VAR_POP(age)",
    "CORR(age, salary)",
]


class Counting:
    """A sampler that gives no noise and notes what it was asked for."""

    name = "counting"

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def laplace(self, scale: int, size: int) -> Integers:
        self.asked.append(("laplace", scale, size))
        return np.zeros(size, dtype=np.int64)

    def gaussian(self, sigma: int, size: int) -> Integers:
        self.asked.append(("gaussian", sigma, size))
        return np.zeros(size, dtype=np.int64)

    def choose(self, gaps: Integers, rate: Rate, *, exponential: bool = False) -> Integers:
        self.asked.append(("choose", gaps.shape, rate, exponential))
        return np.zeros(len(gaps), dtype=np.int64)


def worlds(folder: Path) -> Iterator[dp_sql.Connection]:
    """Yield connections to data without anybody, to the scene's, and to data of extreme rows."""
    import duckdb  # noqa: PLC0415  only here

    extreme = [person(salary=v, age=a) for v, a in ((1e308, 2**31 - 1), (-1e308, -1), (5e-324, 0))]
    for name, rows in (("none", []), ("some", PEOPLE), ("wild", [*PEOPLE, *extreme])):
        (folder / name).mkdir()
        path = write(folder / name, schema("event"))
        with duckdb.connect(str(folder / name / "scene.duckdb")) as data:
            data.execute("DELETE FROM people")
            for row in rows:
                data.execute("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        with dp_sql.connect(path, ledger=":memory:", reuse=False) as connection:
            yield connection


def test_b01_b02_b19_the_lattice_and_the_draws_are_the_same_on_all_data(tmp_path: Path) -> None:
    """Which values can come out, and what is drawn in which order, is a function of the plan."""
    seen = set()
    for connection in worlds(tmp_path):
        asked = Counting()
        connection._repeats._anew = fresh(connection._engine, connection._post, asked)
        told = []
        for call in LATTICE:
            for group in ("", "city, "):
                sql = f"SELECT {group}{call} AS v FROM people" + " GROUP BY city" * bool(group)
                connection.sql(sql, epsilon="0.7")
            told.append(connection.explain(sql, epsilon="0.7"))
        connection.sql("SELECT MEDIAN(age), MAX(salary), MODE(age) FROM people", epsilon=1)
        seen.add((tuple(asked.asked), tuple(told)))
    assert len(seen) == 1
    ((draws, _),) = seen
    assert len(draws) >= 12


def test_b05_values_are_put_on_the_lattice_before_the_noise(
    people: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise two rows that differ below the lattice's step give the same sum."""
    used = people.connection
    monkeypatch.setattr(used._repeats, "_anew", fresh(used._engine, used._post, Counting()))
    sums = set()
    for value in ("1000", "1000 + 1e-12"):
        sql = f"SELECT SUM(CLAMP({value} + 0 * age, 0, 1e5)) FROM people WHERE age = 34"
        sums |= set(people.connection.sql(sql, epsilon=1).fetchall())
    assert sums == {(1000.0,)}


def test_b07_no_setting_of_numpy_or_python_chooses_the_noise(people: Scene) -> None:
    import random  # noqa: PLC0415  the attack

    answers = []
    for _ in range(2):
        random.seed(7)
        np.random.seed(7)  # noqa: NPY002  the attack
        sql = "SELECT SUM(salary) FROM people"
        answers.append([people.connection.sql(sql, epsilon="0.01").fetchall() for _ in range(4)])
    assert answers[0] != answers[1]


def test_b08_every_bit_is_asked_of_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """With bits that repeat, noise repeats: there is no other source, and no state beside it."""
    known = os.urandom(1 << 18)
    draws = []
    for _ in range(2):
        place = [0]

        def fixed(size: int, place: list[int] = place) -> bytes:
            place[0] += size
            assert place[0] <= len(known)
            return known[place[0] - size : place[0]]

        monkeypatch.setattr(sampler.os, "urandom", fixed)
        exact = ExactSampler()
        gaps = np.arange(12, dtype=np.int64).reshape(3, 4) % 4
        draws.append(
            [exact.laplace(1000, 50).tolist(), exact.gaussian(1000, 50).tolist(),
             exact.choose(gaps, Rate(1, 3)).tolist(), exact.laplace(10**9, 50).tolist()]
        )  # fmt: skip
    assert draws[0] == draws[1]
    monkeypatch.undo()
    assert ExactSampler().laplace(1000, 50).tolist() != draws[0][0]


FORKED = """
import os, sys, threading
sys.path.insert(0, {tests!r})
from attack.scene import schema, write
from pathlib import Path
import dp_sql
connection = dp_sql.connect(write(Path({folder!r}), schema("event")), ledger=":memory:", reuse=False)
sampler = connection._sampler
gaps = __import__("numpy").zeros((40, 1000), dtype="int64")
from dp_sql.mechanisms.sampler import Rate
from dp_sql.planner.plan import secrets
def draw():
    return (sampler.laplace(10**12, 2).tolist(), sampler.gaussian(10**12, 2).tolist(),
            sampler.choose(gaps, Rate(1, 0)).tolist(), secrets.randbits(64))
draw()
read, write_ = os.pipe()
def told(name):
    os.write(write_, (repr(draw()) + "\\n").encode())
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        threads = [threading.Thread(target=told, args=(i,)) for i in range(2)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        os._exit(0)
    children.append(child)
[os.waitpid(child, 0) for child in children]
told("parent")
os.close(write_)
print(os.fdopen(read).read(), end="")
"""


def test_b10_processes_and_their_threads_draw_apart(tmp_path: Path) -> None:
    """Three children of two threads each and their parent: no number comes twice, of any kind."""
    root = Path(dp_sql.__file__).parent.parent
    text = FORKED.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    lines = [eval(line) for line in done.stdout.splitlines()]  # noqa: S307  our own child's
    assert len(lines) == 7
    for kind in range(4):
        assert len({repr(line[kind]) for line in lines}) == 7


def test_b10_threads_of_one_process_draw_apart() -> None:
    exact = ExactSampler()
    with ThreadPoolExecutor(8) as pool:
        draws = list(pool.map(lambda _: exact.laplace(2**50, 20).tolist(), range(40)))
    assert len({value for some in draws for value in some}) > 790


def test_b16_no_two_columns_and_no_two_groups_share_noise(people: Scene) -> None:
    counts = ", ".join(f"COUNT(*) AS c{i}" for i in range(8))
    sql = f"SELECT city, {counts} FROM people WHERE FALSE GROUP BY city"
    rows = [row[1:] for row in people.connection.sql(sql, epsilon="0.0001").fetchall()]
    assert len(rows) == 4
    assert len({value for row in rows for value in row}) in (4, 32)  # equal columns are one, or 8
    sums = "SELECT SUM(age) AS a, SUM(age + 1) AS b, SUM(age + 2) AS c FROM people WHERE FALSE"
    (three,) = people.connection.sql(sums, epsilon="0.0001").fetchall()
    assert len(set(three)) == 3


def test_b17_every_scale_that_is_drawn_is_one_that_costs_what_it_says(people: Scene) -> None:
    """Over all magnitudes of epsilon noise has a scale of at least 1, or there is none to be had."""
    drawn = 0
    for power in range(-14, 7):
        for call in ("COUNT(*)", "SUM(salary)", "AVG(age)"):
            try:
                cost = people.connection.sql(
                    f"SELECT {call} FROM people", epsilon=f"1e{power}"
                ).cost
            except DPSQLError:
                continue
            drawn += 1
            assert 0 < cost["people"].epsilon <= Fraction(10) ** power
    assert drawn >= 40
