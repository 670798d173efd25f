"""Batches whose noise is joint: what they are charged under each accountant, and when they aren't."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dp_sql
from dp_sql.batch import read_batch
from dp_sql.budget.accountant import DELTA_UNITS, EPSILON_UNITS
from dp_sql.budget.record import Entry
from dp_sql.budget.store import Kind
from dp_sql.mechanisms.calibrate_gaussian import log_delta
from dp_sql.mechanisms.together import joint_epsilon
from dp_sql.parser.statement import parse
from dp_sql.privacy.event import GaussianEvent, KeySelectionEvent, pure_epsilon

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {{level: user, unit: person, defaults: {{delta: 1e-6}}{people}}}
{mechanisms}
tables:
  people:
    source: people.csv
    owner: id
    budget: {budget}
    limits: {{max_groups: 2, max_rows_per_group: 1}}
    columns:
      id: {{type: integer}}
      city: {{type: varchar, values: [oslo, rome, bonn], nullable: false}}
      name: {{type: varchar}}
      pay: {{type: double, bounds: [-5, 10]}}
  others:
    source: others.csv
    owner: id
    budget: {{epsilon: 10, delta: 1e-4, accountant: sequential}}
    limits: {{max_groups: 2, max_rows_per_group: 1}}
    columns: {{id: {{type: integer}}, pay: {{type: double, bounds: [-5, 10]}}}}
  towns:
    public: true
    source: towns.csv
    columns: {{town: {{type: varchar}}}}
"""
COUNT = "SELECT COUNT(*) FROM people WHERE pay > {}"
COUNTS = [COUNT.format(i / 20) for i in range(14)]
NAMES = "SELECT name, COUNT(DISTINCT id) FROM people GROUP BY name"
MEDIAN = "SELECT MEDIAN(pay) FROM people WHERE pay > {}"

Open = Callable[..., AbstractContextManager[dp_sql.Connection]]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    rows = [f"{i},{('oslo', 'rome')[i % 2]},n{i % 3},{i % 7}" for i in range(400)]
    for name in ("people", "others"):
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,city,name,pay", *rows]) + "\n")
    (tmp_path / "towns.csv").write_text("town\noslo\nrome\n")

    @contextmanager
    def open_one(
        accountant: str,
        *,
        mechanisms: str = "",
        people: str = "",
        more: str = "",
        ledger: str | None = None,
        analyst: str | None = None,
    ) -> Iterator[dp_sql.Connection]:
        budget = f"{{epsilon: 10, delta: 1e-4, accountant: {accountant}{more}}}"
        path = tmp_path / "people.yaml"
        path.write_text(SCHEMA.format(budget=budget, mechanisms=mechanisms, people=people))
        place = ":memory:" if ledger is None else tmp_path / ledger
        with dp_sql.connect(path, ledger=place, analyst=analyst) as connection:
            yield connection

    return open_one


def entries(connection: dp_sql.Connection) -> list[Entry]:
    return list(connection._ledger.entries())


def is_private(entry: Entry, epsilon: float, delta: float) -> bool:
    """Whether the events of an entry, Gaussian noise and keys, are (epsilon, delta)-DP together."""
    noises = [e.noise if isinstance(e, KeySelectionEvent) else e for e in entry.events]
    assert all(isinstance(noise, GaussianEvent) for noise in noises)
    square = sum(n.l2_squared / n.sigma**2 for n in noises if isinstance(n, GaussianEvent))
    selected = sum(float(e.delta) for e in entry.events if isinstance(e, KeySelectionEvent))
    return math.exp(log_delta(epsilon, math.sqrt(square))) + selected <= delta


@pytest.mark.parametrize(
    "accountant",
    ["sequential", "advanced", pytest.param("zcdp", marks=pytest.mark.slow), "renyi"],
)
def test_many_counts_are_one_entry_that_is_private_as_a_whole(
    opened: Open, accountant: str
) -> None:
    with opened(accountant) as connection:
        results = connection.batch(COUNTS, epsilon=1, delta="1e-6")
        (entry,) = entries(connection)
        assert len(entry.events) == len(COUNTS)
        assert is_private(entry, 1.0, 1e-6)
        assert not is_private(entry, 0.98, 1e-6)
        assert entry.sql.split(";\n") == COUNTS
        for result in results:
            assert "cost is that of all of it" in result.notes[-1]
            assert Fraction(98, 100) < result.cost["people"].epsilon <= 1
            assert result.cost["people"].delta == Fraction(1, 10**6)
        spent = connection.budget()["people"].spent
        assert 0.98 * EPSILON_UNITS < spent.epsilon <= EPSILON_UNITS
        assert spent.delta == DELTA_UNITS // 10**6
        assert spent.pure is None
        square = sum(
            e.l2_squared / e.sigma**2 for e in entry.events if isinstance(e, GaussianEvent)
        )
        if (
            accountant == "advanced"
        ):  # as one statement of that epsilon, not as a sum of small squares
            assert spent.rdp is not None
            assert spent.rdp / EPSILON_UNITS == pytest.approx((spent.epsilon / EPSILON_UNITS) ** 2)
        elif accountant != "sequential":
            alpha = connection.budget()["people"].registration.alpha or 0
            expected = square / 2 * (alpha if accountant == "renyi" else 1)
            assert spent.rdp is not None
            assert spent.rdp / EPSILON_UNITS == pytest.approx(expected)


def test_answers_have_the_joint_noise(opened: Open) -> None:
    with opened("sequential") as connection:
        results = connection.batch(COUNTS, epsilon=1)
        exact = [sum(i % 7 > limit / 20 for i in range(400)) for limit in range(14)]
        off = np.array([r.fetchall()[0][0] for r in results]) - np.array(exact)
        # sigma is 4.22 sqrt(14) = 15.8: 14 chi-squares are 2.4 to 45 but for one run in 10,000
        assert 2.4 < float(np.sum(off.astype(float) ** 2)) / 15.8**2 < 45
        low, high = results[0].intervals()[0][0] or (0.0, 0.0)
        assert 60 < high - low < 64  # twice 1.96 sigma


def test_keys_and_what_is_chosen_share_too(opened: Open) -> None:
    queries = [*COUNTS, NAMES, *[MEDIAN.format(i) for i in range(-4, 1)], "SELECT 1 AS one"]
    with opened("sequential") as connection:
        results = connection.batch(queries, epsilon=2, delta="1e-6")
        assert results[-1].fetchall() == [(1,)]
        assert results[-1].cost == {}
        (entry,) = entries(connection)
        kinds = {type(event).__name__ for event in entry.events}
        assert kinds == {"GaussianEvent", "KeySelectionEvent", "PureEvent"}
        proved = joint_epsilon(entry.events, Fraction(1, 10**6), 100)
        assert proved is not None
        assert 1.98 < float(proved) <= 2
        alone = [e for e in map(pure_epsilon, entry.events) if e is not None]
        assert sum(alone) < 2


def test_a_heavier_weight_is_less_noise(opened: Open) -> None:
    with opened("sequential") as connection:
        connection.batch(COUNTS, epsilon=1, weights=[16, *[1] * 13])
        first, second, *_ = entries(connection)[0].events
        assert isinstance(first, GaussianEvent)
        assert isinstance(second, GaussianEvent)
        ratio = (second.sigma**2 / second.l2_squared) / (first.sigma**2 / first.l2_squared)
        assert ratio == pytest.approx(4, rel=0.2)  # rho is in proportion to the weight's root


def ways_of(connection: dp_sql.Connection, queries: list[str], delta: str | None = "1e-6") -> int:
    read = None if delta is None else Fraction(delta)
    return len(list(connection._ways(read_batch(queries, 1, read, None), None)))


def test_what_cannot_be_charged_as_one_keeps_its_parts(opened: Open) -> None:
    with opened("sequential") as connection:
        assert ways_of(connection, COUNTS[:3]) == 1  # Laplace noise is less
        assert ways_of(connection, COUNTS, "0") == 1
        assert ways_of(connection, COUNTS, None) == 2  # the schema's delta, for all of them
        connection.sql("SET delta = 0")
        assert ways_of(connection, COUNTS, None) == 1
    same = COUNTS[:1] * 40
    with opened("renyi", mechanisms="mechanisms: {noise: [laplace]}") as connection:
        assert ways_of(connection, same) == 2
    with opened("pure") as connection:
        assert ways_of(connection, same) == 1
    with opened("renyi", people=", budget: {epsilon: 3}") as connection:
        assert ways_of(connection, same) == 1  # the budget over all tables is pure
    blocks = ", blocks: id"
    with opened("sequential", more=blocks) as connection:
        assert ways_of(connection, COUNTS) == 2  # each debits every block
        named = [f"{query} AND id = 3" for query in COUNTS]
        assert ways_of(connection, [*COUNTS, *named[:1]]) == 1


def test_each_table_is_charged_for_its_own_statements(opened: Open) -> None:
    queries = [*COUNTS, *[query.replace("people", "others") for query in COUNTS[:2]]]
    with opened("sequential") as connection:
        results = connection.batch(queries, epsilon=1, delta="1e-6")
        first, second = entries(connection)
        counts = {len(first.events), len(second.events)}
        assert counts == {14, 2}
        assert results[0].cost["people"].epsilon > Fraction(8, 10)
        others = results[-1].cost["others"].epsilon
        assert others < Fraction(5, 10)
        own = next(entry for entry in (first, second) if len(entry.events) == 2)
        assert is_private(own, float(others), 1e-6)
        assert set(results[0].cost) == {"people"}


def test_where_joint_noise_has_no_room_the_parts_are_asked(opened: Open) -> None:
    with opened("renyi") as connection:
        # half of the table's delta is kept for keys: joint noise for all of it is beyond the rule
        results = connection.batch(COUNTS, epsilon=10, delta="1e-4")
        assert len(entries(connection)) == len(COUNTS)
        assert sum(r.cost["people"].epsilon for r in results) <= 10
        assert results[0].notes == ()


def test_a_batch_stays_whole_where_only_laplace_noise_is_allowed(opened: Open) -> None:
    laplace = "mechanisms: {noise: [laplace]}"
    many = [COUNT.format(i / 20) for i in range(60)]
    with opened("zcdp", mechanisms=laplace) as connection:
        connection.batch(many, epsilon=1, delta="1e-6")
        (entry,) = entries(connection)
        losses = [loss for loss in map(pure_epsilon, entry.events) if loss is not None]
        assert len(losses) == 60
        assert sum(losses) > 1
        proved = joint_epsilon(entry.events, Fraction(1, 10**6), 0)
        assert proved is not None
        assert proved <= 1


def test_a_joint_batch_that_is_asked_again_is_free(opened: Open) -> None:
    with opened("sequential") as connection:
        first = connection.batch(COUNTS, epsilon=1, delta="1e-6")
        spent = connection.budget()["people"].spent
        again = connection.batch(COUNTS, epsilon=1, delta="1e-6")
        assert [r.fetchall() for r in again] == [r.fetchall() for r in first]
        assert connection.budget()["people"].spent == spent
        assert all(r.cost == {} and r.notes == () for r in again)
        connection.batch([*COUNTS, COUNT.format(5)], epsilon=1, delta="1e-6")
        assert connection.budget()["people"].spent.epsilon > 1.9 * EPSILON_UNITS


def forget(connection: dp_sql.Connection, count: int) -> None:
    """Forget the answers that were kept first."""
    with connection._answers._session(Kind.NOTE) as store:
        store.execute(
            "DELETE FROM answers WHERE fingerprint IN "
            "(SELECT fingerprint FROM answers ORDER BY used LIMIT :count)",
            {"count": count},
        )


@pytest.mark.parametrize("accountant", ["sequential", "renyi"])
def test_of_a_joint_batch_only_what_is_drawn_is_charged(opened: Open, accountant: str) -> None:
    with opened(accountant) as connection:
        first = connection.batch(COUNTS, epsilon=1, delta="1e-6")
        forget(connection, 5)
        again = connection.batch(COUNTS, epsilon=1, delta="1e-6")
        _, entry = entries(connection)
        assert len(entry.events) == 5
        charged = entry.spend.epsilon / EPSILON_UNITS
        assert 0.4 < charged < 0.7  # 14 statements cost 1, and it grows like the square root
        assert is_private(entry, charged, 1e-6)
        assert not is_private(entry, 0.98 * charged, 1e-6)
        assert [bool(result.cost) for result in again] == [True] * 5 + [False] * 9
        costs = [math.ceil(r.cost["people"].epsilon * EPSILON_UNITS) for r in again[:5]]
        assert costs == [entry.spend.epsilon] * 5
        assert "cost is that of all of it" in again[0].notes[-1]
        assert again[-1].notes == ()
        assert [r.fetchall() for r in again[5:]] == [r.fetchall() for r in first[5:]]
        noises = [event for event in entry.events if isinstance(event, GaussianEvent)]
        assert {n.sigma**2 / n.l2_squared for n in noises} == {
            n.sigma**2 / n.l2_squared
            for n in entries(connection)[0].events
            if isinstance(n, GaussianEvent)
        }


def test_a_table_that_was_refreshed_is_paid_alone(opened: Open) -> None:
    queries = [*COUNTS, *[query.replace("people", "others") for query in COUNTS[:2]]]
    with opened("sequential") as connection:
        connection.batch(queries, epsilon=1, delta="1e-6")
        before = {name: state.spent.epsilon for name, state in connection.budget().items()}
        connection.refresh("others")
        again = connection.batch(queries, epsilon=1, delta="1e-6")
        assert [set(r.cost) for r in again] == [set()] * 14 + [{"others"}] * 2
        after = {name: state.spent.epsilon for name, state in connection.budget().items()}
        assert after == {"people": before["people"], "others": 2 * before["others"]}


def test_what_stands_twice_in_a_batch_is_noise_of_one(opened: Open) -> None:
    twice = "SELECT COUNT(*) FROM people WHERE pay > (SELECT AVG(pay) FROM people)"
    with opened("sequential") as connection:
        one, again, other = connection.batch([twice, twice, COUNTS[0]], epsilon=3, delta=0)
        assert one.fetchall() == again.fetchall()
        assert (again.cost, again.repeated) == ({}, True)
        spent = connection.budget()["people"].spent.epsilon
        owed = one.cost["people"].epsilon + other.cost["people"].epsilon
        assert 0 <= spent - owed * EPSILON_UNITS <= 2  # each is rounded up
        assert 2.99 * EPSILON_UNITS < spent <= 3 * EPSILON_UNITS
    alike = [f"{query} AND pay < 9" for query in COUNTS]
    named = [query.replace("COUNT(*)", "COUNT(*) * 2 AS twice") for query in alike]
    with opened("sequential") as connection:
        *_, first, second = connection.batch([*COUNTS, alike[0], named[0]], epsilon=1, delta="1e-6")
        assert [(2 * n,) for (n,) in first] == second.fetchall()
        assert (second.cost, second.repeated) == ({}, True)
        (entry,) = entries(connection)
        assert len(entry.events) == 15
        assert is_private(entry, entry.spend.epsilon / EPSILON_UNITS, 1e-6)


def test_each_statement_of_a_batch_is_parsed_once(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def counted(query: str, *rest: Any) -> Any:
        asked.append(query)
        return parse(query, *rest)

    monkeypatch.setattr("dp_sql.connection.parse", counted)
    with opened("sequential") as connection:
        connection.batch([*COUNTS, COUNTS[0]], epsilon=1, delta="1e-6")
        assert len(entries(connection)) == 1
    assert asked == COUNTS


def test_an_answer_of_others_counts_against_an_analysts_part_as_one_of_all(opened: Open) -> None:
    cap = ", per_analyst: {epsilon: 2, delta: 1e-5}"
    with opened("sequential", more=cap, ledger="shared") as connection:
        first = connection.batch(COUNTS, epsilon=1, delta="1e-6")
    with opened("sequential", more=cap, ledger="shared", analyst="ada") as connection:
        forget(connection, 3)
        again = connection.batch(COUNTS, epsilon=1, delta="1e-6")
        assert [r.fetchall() for r in again[3:]] == [r.fetchall() for r in first[3:]]
        (entry,) = connection.ledger()
        assert len(entry.events) == 3
        assert entry.spend.epsilon < 0.6 * EPSILON_UNITS
        (own,) = connection.budget()["people"].parts
        assert (
            own.spent.epsilon == entries(connection)[0].spend.epsilon
        )  # as if ada had paid for all
        connection.batch(COUNTS, epsilon=1, delta="1e-6")
        (same,) = connection.budget()["people"].parts
        assert same.spent == own.spent
