"""A release that is asked again costs nothing and says the same; anything else is paid and drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from repeat_cases import ABOVE, BIG, CITIES, COUNT, connected, filled, schema, spent

import dp_sql
from dp_sql import repeats, stages
from dp_sql.budget.record import Status
from dp_sql.errors import (
    BudgetExceededError,
    EngineError,
    InternalError,
    LedgerError,
    ParameterError,
    QueryError,
)
from dp_sql.repeats import Draws

KINDS = [
    COUNT,
    CITIES,
    BIG,
    ABOVE,
    "SELECT job, COUNT(*) FROM people GROUP BY job",
    "SELECT job, city, SUM(pay), VAR_SAMP(age) FROM people GROUP BY ALL",
    "SELECT city, age > 40, MEDIAN(pay), MODE(age), MAX(age) FROM people GROUP BY ALL",
    "SELECT COUNT(DISTINCT job), COUNT(DISTINCT id) FROM people",
    "SELECT city, COUNT(*), AVG(pay) / 2 FROM people GROUP BY ROLLUP (city)",
    "SELECT SAMPLE_AND_AGGREGATE('median', pay, -5, 10, 20) FROM people",
    "SELECT city, AVG(pay), DP_INTERVAL_LOW(AVG(pay)) FROM people GROUP BY city",
    "SELECT CORR(pay, age), COUNT(*) FROM people",
    "SELECT VECTOR_SUM([pay, age], 20) FROM people",
    "SELECT age, COUNT(*) FROM people GROUP BY age HAVING COUNT(*) > 4 ORDER BY 2, 1",
    "SELECT id % 3 AS third, COUNT(*) FROM people GROUP BY third",
    "WITH one AS (SELECT id, SUM(pay) AS s FROM people GROUP BY id) SELECT AVG(CLAMP(s, 0, 9)) FROM one",
]
Open = Callable[..., dp_sql.Connection]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return filled(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Connection]:
    place = filled(tmp_path_factory.mktemp("shared"))
    with dp_sql.connect(place / "people.yaml", ledger=":memory:") as connection:
        yield connection


@pytest.fixture
def alone(folder: Path) -> Iterator[dp_sql.Connection]:
    with dp_sql.connect(folder / "people.yaml", ledger=":memory:") as connection:
        yield connection


@pytest.fixture
def people(shared: dp_sql.Connection) -> dp_sql.Connection:
    """Return a connection to which nothing was asked of the data as they are now."""
    shared.refresh()
    return shared


@pytest.mark.parametrize("sql", KINDS)
def test_a_repeat_is_the_same_to_the_last_bit_and_reads_no_row(
    people: dp_sql.Connection, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    first = people.sql(sql, epsilon=2)
    assert first.cost
    assert not first.repeated
    before, rows = spent(people), sorted(map(repr, first))
    ends = [sorted(map(repr, first.intervals(level))) for level in (0.5, 0.95)]
    for name in ("execute", "execute_second"):
        monkeypatch.setattr(people._engine, name, None)
    again = people.sql(f"{sql}  -- again", epsilon=2)
    assert (again.cost, again.repeated, again.columns) == ({}, True, first.columns)
    assert sorted(map(repr, again)) == rows
    assert [sorted(map(repr, again.intervals(level))) for level in (0.5, 0.95)] == ends
    assert spent(people) == before


def test_two_rounds_of_private_keys_are_one_release(folder: Path) -> None:
    rounds = "caps: {epsilon: 100}}\nmechanisms: {keys: [two_rounds], noise: [gaussian]}"
    schema(folder, **{"caps: {epsilon: 100}}": rounds})
    with connected(folder) as connection:
        sql = "SELECT job, COUNT(DISTINCT id) FROM people GROUP BY job"
        assert connection._prepare(sql, *[2, *[None] * 4]).steps[0].plan.second_relation is not None
        first = connection.sql(sql, epsilon=2)
        assert len(first) > 0
        assert sorted(connection.sql(sql, epsilon=2)) == sorted(first)
        assert connection.sql(sql, epsilon=3).cost


def test_a_sample_is_repeated_like_everything_else(people: dp_sql.Connection) -> None:
    first = people.sql(COUNT, sample_rate=0.5)
    assert people.sql(COUNT, sample_rate=0.5).fetchall() == first.fetchall()
    assert people.sql(COUNT, sample_rate=0.25).cost
    assert people.sql(COUNT).cost


@pytest.mark.parametrize(
    "other",
    [
        "select   count( * ) from PEOPLE",
        "SELECT COUNT(*) * 2 AS twice FROM people ORDER BY 1 LIMIT 5",
        "SELECT COUNT(*) FROM people AS p HAVING COUNT(*) > 3",
        "SELECT n + t.c FROM (SELECT COUNT(*) AS n FROM people), (SELECT COUNT(*) AS c FROM towns) AS t",
        "SELECT COUNT(*), DP_INTERVAL_LOW(COUNT(*)) FROM people",
        "WITH d AS (SELECT COUNT(*) AS c FROM people) SELECT c, 1 FROM d WHERE c > 0",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.25) COUNT(*) FROM people",
    ],
)
def test_statements_that_share_a_release_share_its_answer(
    people: dp_sql.Connection, other: str
) -> None:
    people.sql(COUNT)
    assert people.sql(other).cost == {}


@pytest.mark.parametrize(
    "other",
    [
        "SELECT COUNT(age) FROM people",
        "SELECT COUNT(*) FROM people WHERE true",
        "SELECT COUNT(*) FROM people WHERE age > 3",
        "SELECT COUNT(*), SUM(pay) FROM people",
        "SELECT COUNT(*) FROM people JOIN towns USING (city)",
        "SELECT COUNT(*) FROM people, (SELECT COUNT(*) FROM people)",
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 1){CITIES[6:]}",
    ],
)
def test_other_releases_are_paid(people: dp_sql.Connection, other: str) -> None:
    for sql in (COUNT, "SELECT COUNT(*) FROM people WHERE age > 4", CITIES):
        people.sql(sql)
    assert people.sql(other).cost["people"].epsilon == Fraction(1, 4)


def test_another_epsilon_or_delta_is_another_release(people: dp_sql.Connection) -> None:
    people.sql(CITIES, epsilon=1)
    assert people.sql(CITIES, epsilon="1.01").cost
    jobs = "SELECT job, COUNT(*) FROM people GROUP BY job"
    people.sql(jobs, delta=1e-8)
    assert people.sql(jobs, delta=2e-8).cost
    assert people.sql(jobs, delta=1e-8).cost == {}


def test_answers_outlive_connections_and_are_for_every_analyst(folder: Path) -> None:
    with connected(folder, analyst="ada") as one, connected(folder, analyst="eve") as two:
        first = one.sql(CITIES)
        assert sorted(two.sql(CITIES)) == sorted(first)
        assert two.sql(CITIES).cost == {}
    with connected(folder) as owner:
        assert sorted(owner.sql(CITIES)) == sorted(first)
        entries = list(owner.ledger())
        assert [(e.analyst, e.spend.epsilon > 0) for e in entries] == [
            ("ada", True), ("eve", False), ("eve", False), ("owner", False)
        ]  # fmt: skip
        assert all(e.status is Status.ANSWERED for e in entries)
        table = frozenset(entry.identity for entry in entries)
        charged = [owner._ledger.charged(entry.query_id) for entry in entries]
        assert charged == [table, *[frozenset()] * 3]
        assert owner._ledger.verify().problems == ()
        assert owner.budget()["people"].repeats is not None  # of the last one that cost something


def test_the_hook_for_caps_counts_what_an_analyst_sees_for_the_first_time(folder: Path) -> None:
    with connected(folder, analyst="ada") as ada, connected(folder, analyst="eve") as eve:

        def learned(connection: dp_sql.Connection, draws: Draws | None = None) -> tuple[Any, Any]:
            prepared = connection._prepare(CITIES, *[None] * 5)
            known = connection._repeats.known(prepared, Draws() if draws is None else draws)
            return dict(known.prepared.costs), dict(known.learned.costs)

        cost = ada.sql(CITIES).cost
        assert learned(ada) == ({}, {})
        assert learned(eve) == ({}, cost)
        batch = Draws()
        assert [learned(eve, batch) for _ in range(2)] == [({}, cost), ({}, {})]
        eve.sql(CITIES)
        assert learned(eve) == ({}, {})
        ada._answers.clear("owner")
        assert learned(eve) == learned(ada) == (cost, cost)


def test_a_repeat_counts_against_the_cap_of_who_sees_it_first(folder: Path) -> None:
    budget = "budget: {epsilon: 500, delta: 1e-3}"
    schema(folder, **{budget: f"{budget[:-1]}, per_analyst: {{epsilon: 0.3}}}}"})
    with connected(folder, analyst="ada") as ada, connected(folder, analyst="eve") as eve:
        first = ada.sql(COUNT)
        before = spent(ada)
        assert "Of your own part of people: epsilon 0.25, since" in eve.explain(COUNT)
        assert "own part" not in ada.explain(COUNT)
        assert eve.sql(COUNT).fetchall() == first.fetchall()
        assert spent(ada) == before  # the table's budget
        with pytest.raises(BudgetExceededError, match="for eve"):
            eve.sql(CITIES)
        assert eve.sql(COUNT).cost == eve.sql(COUNT).cost == {}  # seen before
        people = "SELECT AVG(age) FROM people"
        with connected(folder) as owner:
            owner.sql(people, epsilon=0.125)
            with pytest.raises(BudgetExceededError, match="for ada"):
                ada.sql(people, epsilon=0.125)  # free for the table, too much for her
            assert owner.sql(people, epsilon=0.125).cost == {}
            assert owner._ledger.verify().problems == ()


def test_another_engine_version_or_form_makes_another_release(
    people: dp_sql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.sql(COUNT)
    for name in ("_FORM", "VERSION"):
        with monkeypatch.context() as patch:
            patch.setattr(repeats, name, "another")
            assert people.sql(COUNT).cost
    with monkeypatch.context() as patch:
        patch.setattr(people._repeats, "_sampler", "opendp")
        assert people.sql(COUNT).cost
    monkeypatch.setattr(type(people._engine), "version", "duckdb 1.0")
    assert people.sql(COUNT).cost


def test_a_later_stage_is_free_where_everything_before_it_is(people: dp_sql.Connection) -> None:
    average = "SELECT AVG(pay) FROM people"
    people.sql(average, epsilon=1)
    first = people.sql(ABOVE, epsilon=2)
    assert (first.repeated, first.cost["people"].epsilon) == (True, 1)
    assert people.sql(ABOVE, epsilon=2).cost == {}
    people.refresh()
    people.sql(average, epsilon=1)  # another value, so another question
    assert people.sql(ABOVE, epsilon=2).cost["people"].epsilon == 1


def test_a_stage_that_is_drawn_now_leaves_what_reads_it_to_be_paid(
    people: dp_sql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.sql(ABOVE, epsilon=2)
    find = people._answers.find
    lost = (
        people._repeats.known(people._prepare(ABOVE, *[2, *[None] * 4]), Draws()).keys["r0"].whole
    )
    monkeypatch.setattr(
        people._answers, "find", lambda key, who: None if key == lost else find(key, who)
    )
    assert people.sql(ABOVE, epsilon=2).cost["people"].epsilon == 2


def test_the_same_release_twice_in_a_statement_is_one(alone: dp_sql.Connection) -> None:
    twice = alone.sql("SELECT (SELECT COUNT(*) FROM people), (SELECT COUNT(*) FROM people)")
    ((one, two),) = twice
    assert one == two
    assert twice.cost["people"].epsilon == Fraction(1, 8)
    assert alone.budget()["people"].spent.epsilon == 10**12 // 8


def test_the_same_release_twice_in_a_batch_is_paid_once(alone: dp_sql.Connection) -> None:
    results = alone.batch([COUNT, CITIES, COUNT], epsilon=3)
    assert results[0].fetchall() == results[2].fetchall()
    costs = [result.cost for result in results]
    assert costs[2] == {}
    assert sum(cost["people"].epsilon for cost in costs[:2]) > Fraction(299, 100)
    assert [result.repeated for result in results] == [False, False, True]
    assert [entry.sql for entry in alone.ledger()] == [COUNT, CITIES]
    before = spent(alone)
    again = alone.batch([COUNT, CITIES, COUNT], epsilon=3)
    assert [sorted(result) for result in again] == [sorted(result) for result in results]
    assert spent(alone) == before


def test_a_failed_batch_keeps_what_was_drawn_and_paid(
    people: dp_sql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, calls = stages.Course.finish, []

    def failing(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise EngineError("it failed")
        return finish(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(stages.Course, "finish", failing)
        with pytest.raises(EngineError):
            people.batch([COUNT, CITIES], epsilon=2, weights=[1, 1])
    before = spent(people)
    first = next(iter(people.ledger())).events
    assert first
    assert people._answers.size()[0] == 1
    people.batch(
        [COUNT, CITIES], epsilon=2
    )  # the first is there, the second failed and is paid again
    assert spent(people) != before


@pytest.mark.parametrize("together", [False, True])
def test_nothing_tells_how_far_a_statement_came_that_the_data_made_fail(
    people: dp_sql.Connection, monkeypatch: pytest.MonkeyPatch, *, together: bool
) -> None:
    execute, calls = people._engine.execute, []

    def failing(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise EngineError("it failed")
        return execute(*arguments)

    sql = f"SELECT ({COUNT}), (SELECT SUM(pay) FROM people)"

    def ask() -> object:
        return people.batch([COUNT, CITIES], epsilon=2) if together else people.sql(sql, epsilon=2)

    with monkeypatch.context() as patch:
        patch.setattr(people._engine, "execute", failing)
        with pytest.raises(EngineError):
            ask()
    assert len(calls) == 2
    assert people._answers.size()[0] == 0
    assert people.sql(sql, epsilon=2).cost
    assert people.sql(sql, epsilon=2).repeated


def test_an_exhausted_budget_still_gives_what_it_paid_for(folder: Path) -> None:
    schema(folder, **{"budget: {epsilon: 500": "budget: {epsilon: 2"})
    with connected(folder) as connection:
        first = connection.sql(COUNT, epsilon=2)
        with pytest.raises(BudgetExceededError):
            connection.sql(CITIES, epsilon=1)
        assert connection.sql(COUNT, epsilon=2).fetchall() == first.fetchall()


def test_a_refresh_costs_and_is_the_owners(folder: Path) -> None:
    with connected(folder) as owner, connected(folder, analyst="ada") as ada:
        owner.sql(COUNT)
        with pytest.raises(LedgerError, match="only the owner"):
            ada.refresh()
        with pytest.raises(ParameterError, match="no protected table 'towns'"):
            owner.refresh("towns")
        assert ada.sql(COUNT).cost == {}
        owner.refresh("People")
        assert ada.sql(COUNT).cost
        assert owner.sql(COUNT).cost == {}
        owner.refresh()
        assert owner.sql(COUNT).cost


def test_an_answer_of_too_many_numbers_is_not_kept(
    people: dp_sql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "MOST_NUMBERS", 9)
    assert people.sql(CITIES).cost  # three keys, and three numbers each
    assert people.sql(CITIES).cost
    monkeypatch.setattr(repeats, "MOST_NUMBERS", 12)
    assert people.sql(CITIES).cost
    assert people.sql(CITIES).cost == {}


def test_reuse_can_be_switched_off(folder: Path) -> None:
    with connected(folder, reuse=False) as anew:
        assert anew.sql(COUNT).cost
        assert anew.sql(COUNT).cost
        both = anew.sql("SELECT (SELECT COUNT(*) FROM people), (SELECT COUNT(*) FROM people)")
        assert both.cost["people"].epsilon == Fraction(1, 4)
        assert anew._answers.size() == (0, 0)
    with connected(folder) as connection:
        assert connection.sql(COUNT).cost


def test_explain_says_what_is_free(alone: dp_sql.Connection) -> None:
    assert "released before" not in alone.explain(COUNT)
    alone.sql(COUNT)
    text = alone.explain(COUNT)
    assert "  free: released before (data version 1 of people)\n" in text
    assert text.endswith("Cost: none, it was released before.")
    alone.refresh()
    alone.sql("SELECT AVG(pay) FROM people", epsilon=1)
    text = alone.explain(ABOVE, epsilon=2)
    assert "free: released before (data version 1 refreshed 20" in text
    assert "Cost to people: epsilon 1\n" in text


def test_a_public_release_is_no_repeat(people: dp_sql.Connection) -> None:
    for _ in range(2):
        result = people.sql("SELECT COUNT(*) FROM towns")
        assert (result.cost, result.repeated) == ({}, False)
    assert people._answers.size() == (0, 0)


def test_what_counted_as_free_is_never_drawn(
    people: dp_sql.Connection,
) -> None:
    twice = "SELECT (SELECT COUNT(*) FROM people), (SELECT COUNT(*) FROM people)"
    draws = Draws()
    known = people._repeats.known(people._prepare(twice, *[None] * 5), draws)
    assert list(known.free) == ["r1"]
    first, _ = known.prepared.query.releases
    known.course.take(first, people._repeats._anew(first, known.course.steps(first), []))
    with pytest.raises(InternalError, match="neither known nor paid"):
        people._repeats.run(known, None, Draws())


def test_an_error_in_a_stage_of_answers_costs_nothing(people: dp_sql.Connection) -> None:
    several = "SELECT COUNT(*) FROM people WHERE age > (SELECT COUNT(*) FROM people GROUP BY city)"
    with pytest.raises(QueryError, match="several rows"):
        people.sql(several)
    before = spent(people)
    with pytest.raises(QueryError, match="several rows"):
        people.sql(several)
    assert spent(people) == before
