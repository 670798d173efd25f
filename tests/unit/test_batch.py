"""Statements declared together: what each gets of epsilon, one charge for all, answers in order."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dp_sql
from dp_sql import stages
from dp_sql.budget.record import Status
from dp_sql.errors import BudgetExceededError, EngineError, ParameterError, QueryError

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {level: user, unit: person, defaults: {delta: 1e-6}, caps: {epsilon: 100000}}
tables:
  people:
    source: people.csv
    owner: id
    budget: {epsilon: 1000, delta: 0.1, accountant: sequential}
    limits: {max_groups: 2, max_rows_per_group: 3}
    columns:
      id: {type: integer}
      city: {type: varchar, values: [oslo, rome, bonn], nullable: false}
      name: {type: varchar}
      pay: {type: double, bounds: [-5, 10]}
  towns:
    public: true
    source: towns.csv
    columns: {town: {type: varchar}}
"""
COUNT = "SELECT COUNT(*) FROM people"
CITIES = "SELECT city, COUNT(*) AS n FROM people GROUP BY city ORDER BY city"
NAMES = "SELECT name, COUNT(DISTINCT id) FROM people GROUP BY name"


@pytest.fixture
def people(tmp_path: Path) -> Iterator[dp_sql.Connection]:
    rows = [f"{i},{('oslo', 'rome')[i % 2]},n{i % 3},{i % 7}" for i in range(40)]
    (tmp_path / "people.csv").write_text("\n".join(["id,city,name,pay", *rows]) + "\n")
    (tmp_path / "towns.csv").write_text("town\noslo\nrome\n")
    path = tmp_path / "people.yaml"
    path.write_text(SCHEMA, encoding="utf-8")
    with dp_sql.connect(path, ledger=":memory:", reuse=False) as connection:
        yield connection


def epsilons(results: list[dp_sql.Result]) -> list[Fraction]:
    return [r.cost["people"].epsilon if r.cost else Fraction(0) for r in results]


@pytest.mark.slow
def test_statements_of_a_batch_read_samples_of_their_own(people: dp_sql.Connection) -> None:
    sizes = set()
    for _ in range(6):
        first, second = people.batch([COUNT, CITIES], epsilon=150, sample_rate="0.5")
        ((whole,),) = first.fetchall()
        sizes.add((whole, sum(n for _, n in second.fetchall())))
        assert first.notes == (
            "Numbers are those of a sample that holds each unit with probability 0.5.",
        )
    assert len({one for one, _ in sizes}) > 1
    assert any(one != other for one, other in sizes)
    noisy = people.batch([COUNT, CITIES], epsilon=1, sample_rate="0.5")
    assert sum(epsilons(noisy)) <= 1
    with pytest.raises(ParameterError, match="sample_rate"):
        people.batch([COUNT], epsilon=1, sample_rate=2)
    with pytest.raises(QueryError, match="private keys"):
        people.batch([COUNT, NAMES], epsilon=1, sample_rate="0.5")


@pytest.mark.parametrize("reuse", [False, True])
def test_equal_statements_of_a_batch_read_samples_of_their_own(
    people: dp_sql.Connection, tmp_path: Path, *, reuse: bool
) -> None:
    """Two on one sample would lose more than two on samples of their own, for which they are charged."""
    people.close()
    with dp_sql.connect(tmp_path / "people.yaml", ledger=":memory:", reuse=reuse) as connection:
        results = connection.batch([COUNT] * 8, epsilon=600, delta=0, sample_rate="0.5")
        assert all(0 < cost < 80 for cost in epsilons(results))
        found = [result.fetchall() for result in results]
        assert len(set(map(str, found))) > 1
        if reuse:
            again = connection.batch([COUNT] * 8, epsilon=600, delta=0, sample_rate="0.5")
            assert [(r.fetchall(), r.cost) for r in again] == [(one, {}) for one in found]


def test_releases_of_one_statement_read_samples_of_their_own(
    people: dp_sql.Connection, tmp_path: Path
) -> None:
    people.close()
    with dp_sql.connect(tmp_path / "people.yaml", ledger=":memory:") as connection:
        listed = ", ".join(f"({COUNT})" for _ in range(8))
        result = connection.sql(f"SELECT {listed}", epsilon=600, delta=0, sample_rate="0.5")
        assert len(set(result.fetchall()[0])) > 1


def test_answers_come_in_order_and_at_huge_epsilon_are_duckdbs(people: dp_sql.Connection) -> None:
    results = people.batch([CITIES, "SELECT COUNT(*) AS n FROM towns", COUNT], epsilon=1000)
    assert [r.fetchall() for r in results] == [
        [("oslo", 20), ("rome", 20)],
        [(2,)],
        [(40,)],
    ]
    assert results[1].cost == {}


def test_equal_statements_share_evenly_and_all_is_spent(people: dp_sql.Connection) -> None:
    assert epsilons(people.batch([COUNT] * 4, epsilon=1)) == [Fraction(1, 4)] * 4


def test_a_weight_of_eight_gets_twice_the_epsilon(people: dp_sql.Connection) -> None:
    small, large = epsilons(people.batch([COUNT, COUNT], epsilon="0.3", weights=[1, 8]))
    assert float(small) == pytest.approx(0.1, abs=1e-4)
    assert float(large) == pytest.approx(0.2, abs=1e-4)
    assert small + large <= Fraction(3, 10)


def test_a_statement_whose_noise_is_larger_gets_more(people: dp_sql.Connection) -> None:
    # a unit touches two cities, so at one epsilon the noise on them is twice that on the count
    one, cities = epsilons(people.batch([COUNT, CITIES], epsilon=1))
    assert float(cities / one) == pytest.approx(2 ** (2 / 3), rel=1e-3)


def test_no_other_split_has_a_smaller_error(people: dp_sql.Connection) -> None:
    def error(parts: tuple[float, ...]) -> float:
        total = 0.0
        for query, weight, part in zip([COUNT, CITIES, COUNT], [1, 1, 5], parts, strict=True):
            prepared = people._prepare(query, part, None, None, None, None)
            noise = prepared.steps[0].measurement.noises[0]
            total += weight * (noise.scale / noise.lattice / 3) ** 2
        return total

    best = tuple(
        map(float, epsilons(people.batch([COUNT, CITIES, COUNT], epsilon=1, weights=[1, 1, 5])))
    )
    for move in (
        (0.04, -0.04, 0),
        (-0.04, 0.04, 0),
        (0, 0.04, -0.04),
        (0, -0.04, 0.04),
        (0.03, 0, -0.03),
    ):
        other = tuple(b + m for b, m in zip(best, move, strict=True))
        assert error(best) < error(other)
    assert error(best) < 0.95 * error((1 / 3, 1 / 3, 1 / 3))


def test_choices_and_distinct_values_have_their_share(people: dp_sql.Connection) -> None:
    queries = ["SELECT MEDIAN(pay) FROM people", "SELECT COUNT(DISTINCT name) FROM people", COUNT]
    spent = epsilons(people.batch(queries, epsilon=2))
    assert min(spent) > Fraction(1, 10)
    assert Fraction(199, 100) < sum(spent) <= 2


def test_delta_goes_to_those_who_spend_it(people: dp_sql.Connection) -> None:
    results = people.batch([COUNT, NAMES, NAMES], epsilon=1, delta="1e-6")
    deltas = [r.cost["people"].delta for r in results]
    assert deltas[0] == 0
    assert 0 < deltas[1] <= Fraction(1, 2 * 10**6)
    assert sum(deltas) <= Fraction(1, 10**6)
    own = people.batch([COUNT, NAMES], epsilon=1)[1].cost["people"].delta
    assert Fraction(1, 2 * 10**6) < own <= Fraction(1, 10**6)


def test_a_batch_that_does_not_fit_charges_nothing(people: dp_sql.Connection) -> None:
    before = people.budget()
    with pytest.raises(BudgetExceededError, match=r"of `people`; 1000 of epsilon 1000 is left"):
        people.batch([COUNT] * 20, epsilon=1200)
    assert people.budget() == before
    people.batch([COUNT] * 20, epsilon=1000)
    with pytest.raises(BudgetExceededError):
        people.sql(COUNT, epsilon=10)


def test_a_batch_with_a_statement_that_is_refused_charges_nothing(
    people: dp_sql.Connection,
) -> None:
    before = people.budget()
    for wrong in (
        "SELECT pay FROM people",
        "SELECT COUNT(* FROM people",
        "SET epsilon = 1",
        f"EXPLAIN {COUNT}",
    ):
        with pytest.raises(QueryError):
            people.batch([COUNT, wrong], epsilon=1)
    assert people.budget() == before


def test_a_failure_leaves_all_charged_and_unanswered(
    people: dp_sql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, calls = stages.Course.finish, []

    def failing(*arguments: Any) -> Any:
        calls.append(people.budget()["people"].statements)
        if len(calls) == 2:
            raise EngineError("it failed")
        return finish(*arguments)

    monkeypatch.setattr(stages.Course, "finish", failing)
    with pytest.raises(EngineError):
        people.batch([COUNT, CITIES, COUNT], epsilon=1)
    assert calls == [3, 3]  # all are charged before the first row is read
    entries = list(people._ledger.entries())
    assert [entry.sql for entry in entries] == [COUNT, CITIES, COUNT]
    assert {entry.status for entry in entries} == {Status.FAILED}
    assert people._ledger.verify().problems == ()


@pytest.mark.parametrize(
    ("queries", "amounts", "message"),
    [
        ([], {"epsilon": 1}, "at least one"),
        (COUNT, {"epsilon": 1}, "a list of statements"),
        ([COUNT], {"epsilon": 0}, "above zero"),
        ([COUNT], {"epsilon": 1, "delta": 1}, "below 1"),
        ([COUNT], {"epsilon": 1, "weights": []}, "1 statements have 0 weights"),
        ([COUNT], {"epsilon": 1, "weights": [0]}, "weight lies between"),
        ([COUNT], {"epsilon": 1, "weights": ["nan"]}, "finite"),
        ([COUNT] * 2, {"epsilon": "0.000000000001"}, "above zero"),
        ([COUNT], {"epsilon": 200000}, "cap"),
    ],
)
def test_what_a_batch_may_not_ask(
    people: dp_sql.Connection, queries: Any, amounts: dict[str, Any], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        people.batch(queries, **amounts)
    assert people.budget()["people"].statements == 0
