"""A statement that was asked before with more noise: what it lacks is drawn, paid and shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from repeat_cases import ABOVE, BIG, CITIES, COUNT, connected, filled, schema, spent

import dp_sql
from dp_sql.errors import BudgetExceededError, EngineError
from dp_sql.mechanisms.sampler import ExactSampler
from dp_sql.repeats import TOPPED_UP, Draws

CAPS = "caps: {epsilon: 100}}"
GAUSSIAN = {CAPS: f"{CAPS}\nmechanisms: {{noise: [gaussian]}}"}
LIMITS = "    limits: {max_groups: 2, max_rows_per_group: 3}\n"
BUDGET = "budget: {epsilon: 500, delta: 1e-3}"
SUMS = [
    COUNT,
    CITIES,
    BIG,
    "SELECT SUM(age), COUNT(*) FROM people",
    "SELECT SUM(pay), VAR_SAMP(age) FROM people",
    "SELECT city, COUNT(*), SUM(age) FROM people GROUP BY ROLLUP (city)",
    "SELECT COUNT(DISTINCT id), AVG(pay) / 2 FROM people WHERE age > 40",
    "SELECT VECTOR_SUM([pay, age], 20) FROM people",
    "SELECT city, DP_INTERVAL_LOW(COUNT(*)) FROM people GROUP BY city",
]
IN_FULL = {
    "private keys": "SELECT job, COUNT(*) FROM people GROUP BY job",
    "a median beside": "SELECT COUNT(*), MEDIAN(pay) FROM people",
    "distinct values": "SELECT COUNT(*), COUNT(DISTINCT job) FROM people",
    "a choice": "SELECT MODE(age) FROM people",
}


def accountant(kind: str, **more: str) -> dict[str, str]:
    return {BUDGET: f"{BUDGET[:-1]}, accountant: {kind}}}", **GAUSSIAN, **more}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Connection]:
    place = filled(tmp_path_factory.mktemp("shared"))
    schema(place, **accountant("zcdp"))
    with connected(place, ledger=":memory:", in_process=True) as connection:
        yield connection


@pytest.fixture
def people(shared: dp_sql.Connection) -> dp_sql.Connection:
    """Return a connection, under zCDP, to which nothing was asked of the data as they are now."""
    shared.refresh()
    return shared


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = filled(tmp_path)
    schema(place, **GAUSSIAN)
    return place


def rdp(connection: dp_sql.Connection) -> int:
    found: int = spent(connection)["people"].rdp
    return found


def taken(connection: dp_sql.Connection, sql: str, **options: Any) -> tuple[dp_sql.Result, int]:
    before = rdp(connection)
    result = connection.sql(sql, **options)
    return result, rdp(connection) - before


@pytest.mark.parametrize("sql", SUMS)
def test_what_is_debited_is_what_the_more_accurate_one_would_have_cost_less(
    people: dp_sql.Connection, sql: str
) -> None:
    whole = taken(people, sql, epsilon=2)[1]
    people.refresh()
    first, paid = taken(people, sql, epsilon=0.5)
    assert first.notes == ()
    second, more = taken(people, sql, epsilon=2)
    assert second.notes == (TOPPED_UP,)
    assert not second.repeated
    assert whole * (1 - 3e-6) - 2 <= paid + more <= whole + 2  # each is rounded up to a unit
    assert second.cost["people"].epsilon < 2
    rows = sorted(map(repr, second))
    ends = sorted(map(repr, second.intervals(0.9)))
    again = people.sql(sql, epsilon=2)
    assert (again.cost, again.repeated, again.notes) == ({}, True, ())
    assert sorted(map(repr, again)) == rows
    assert sorted(map(repr, again.intervals(0.9))) == ends
    assert sorted(map(repr, people.sql(sql, epsilon=0.5))) == sorted(map(repr, first))  # as it was


def test_what_is_drawn_is_what_is_charged(
    people: dp_sql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    gaussian = ExactSampler.gaussian

    def recorded(self: ExactSampler, sigma: int, size: int) -> Any:
        drawn.append(sigma)
        return gaussian(self, sigma, size)

    monkeypatch.setattr(ExactSampler, "gaussian", recorded)
    for epsilon in (0.5, 1, 2):
        drawn.clear()
        cost = people.sql(
            "SELECT city, COUNT(*), SUM(age) FROM people GROUP BY city", epsilon=epsilon
        )
        assert drawn == [event.sigma for event in cost.cost["people"].events]
        assert len(drawn) > 0
    assert people._ledger.verify().problems == ()


@pytest.mark.parametrize(("sql", "name"), [(sql, name) for name, sql in IN_FULL.items()])
def test_a_release_of_another_kind_is_paid_in_full(
    people: dp_sql.Connection, sql: str, name: str
) -> None:
    whole = taken(people, sql, epsilon=2)[1]
    people.refresh()
    people.sql(sql, epsilon=0.5)
    second, more = taken(people, sql, epsilon=2)
    assert (more, second.notes, second.cost["people"].epsilon) == (whole, (), 2), name


def test_less_epsilon_laplace_noise_and_samples_are_drawn_anew(
    people: dp_sql.Connection, tmp_path: Path
) -> None:
    people.sql(COUNT, epsilon=2)
    assert people.sql(COUNT, epsilon=1).cost["people"].epsilon == 1
    people.sql(COUNT, epsilon=1, sample_rate=0.5)
    assert people.sql(COUNT, epsilon=2, sample_rate=0.5).cost["people"].epsilon == 2
    people.sql(f"{COUNT} WHERE age > 3", epsilon=1)
    assert people.sql(f"{COUNT} WHERE age > 4", epsilon=2).cost["people"].epsilon == 2
    place = filled(tmp_path)
    with connected(place, ledger=":memory:", in_process=True) as laplace:
        laplace.sql(COUNT, epsilon=1)
        assert laplace.sql(COUNT, epsilon=2).cost["people"].epsilon == 2


def test_the_most_accurate_answer_is_topped_up_and_steps_add_up(people: dp_sql.Connection) -> None:
    whole = taken(people, COUNT, epsilon=3)[1]
    people.refresh()
    costs = [taken(people, COUNT, epsilon=e)[1] for e in (0.5, 1, 2)]
    people.sql(COUNT, epsilon=0.25)  # used last, and in full
    prepared = people._prepare(COUNT, *[3, *[None] * 4])
    (top,) = people._repeats.known(prepared, Draws()).topped.values()
    assert top.noises.draws == 4  # of as many measurements will it be the mean
    costs.append(taken(people, COUNT, epsilon=3)[1])
    assert sum(costs) == pytest.approx(whole, rel=1e-5)


def test_what_reads_a_topped_up_stage_is_another_release(people: dp_sql.Connection) -> None:
    people.sql(ABOVE, epsilon=1)
    second = people.sql(ABOVE, epsilon=2)
    assert second.notes == (TOPPED_UP,)
    assert 1 < second.cost["people"].epsilon < 2  # of the average less, of the count all


@pytest.mark.parametrize("kind", ["sequential", "advanced", "renyi"])
def test_every_accountant_takes_less_than_for_a_whole_one(tmp_path: Path, kind: str) -> None:
    place = filled(tmp_path)
    schema(place, **accountant(kind))
    with connected(place, ledger=":memory:", in_process=True) as connection:

        def amounts(epsilon: float) -> list[int]:
            before = spent(connection)["people"]
            connection.sql(CITIES, epsilon=epsilon)
            after = spent(connection)["people"]
            names = ("epsilon", "delta") if kind == "sequential" else ("rdp",)
            return [getattr(after, name) - getattr(before, name) for name in names]

        whole = amounts(1)
        connection.refresh()
        amounts(0.6)
        more = amounts(1)
        assert 0 < more[0] < whole[0]
        assert more[1:] == whole[1:]  # the delta of a statement


def test_event_level_is_topped_up_alike(tmp_path: Path) -> None:
    place = filled(tmp_path)
    event = {"level: user, unit: person": "level: event", "    owner: id\n": "", LIMITS: ""}
    schema(place, **accountant("zcdp", **event))
    with connected(place, ledger=":memory:", in_process=True) as connection:
        whole = taken(connection, CITIES, epsilon=2)[1]
        connection.refresh()
        first, second = (taken(connection, CITIES, epsilon=e) for e in (1, 2))
        assert second[0].notes == (TOPPED_UP,)
        assert first[1] + second[1] == pytest.approx(whole, rel=1e-5)


def test_explain_says_what_is_topped_up_and_what_it_costs(people: dp_sql.Connection) -> None:
    people.sql(COUNT, epsilon=0.5)
    before = rdp(people)
    text = people.explain(COUNT, epsilon=1)
    assert "  topped up: released before with more noise (data version 1 refreshed 20" in text
    assert "one more measurement, of epsilon 0.850265 in place of 1, is drawn and paid" in text
    assert "Cost to people: epsilon 0.850265, delta 1e-09" in text
    assert "discrete Gaussian of sigma 16.5 on each number" in text  # what the answer will have
    assert rdp(people) == before
    assert people.sql(COUNT, epsilon=1).cost["people"].epsilon == pytest.approx(0.850265, abs=1e-6)
    assert "free: released before" in people.explain(COUNT, epsilon=1)


def test_nothing_is_topped_up_without_reuse_or_after_a_refresh(folder: Path) -> None:
    with connected(folder, reuse=False, in_process=True) as connection:
        connection.sql(COUNT, epsilon=0.5)
        assert connection.sql(COUNT, epsilon=1).cost["people"].epsilon == 1
    with connected(folder, in_process=True) as connection:
        connection.sql(COUNT, epsilon=0.5)
    with connected(folder, reuse=False, in_process=True) as connection:
        assert connection.sql(COUNT, epsilon=1).cost["people"].epsilon == 1
        connection.refresh("people")
    with connected(folder, in_process=True) as connection:
        assert connection.sql(COUNT, epsilon=1).cost["people"].epsilon == 1


def test_it_outlives_the_connection_and_needs_the_charge_of_what_it_adds_to(folder: Path) -> None:
    ledgers = [folder / f"{name}.ledger" for name in "ab"]
    with connected(folder, ledger=ledgers[0], in_process=True) as connection:
        connection.sql(CITIES, epsilon=0.5)
    with connected(folder, ledger=ledgers[0], in_process=True) as connection:
        second = connection.sql(CITIES, epsilon=1)
        assert second.notes == (TOPPED_UP,)
        rows = sorted(second)
    with connected(folder, ledger=ledgers[0], in_process=True) as connection:
        assert sorted(connection.sql(CITIES, epsilon=1)) == rows
    (folder / "a.ledger.answers").rename(folder / "b.ledger.answers")
    with connected(folder, ledger=ledgers[1], in_process=True) as connection:  # it paid for nothing
        assert connection.sql(CITIES, epsilon=2).cost["people"].epsilon == 2
    with connected(folder, ledger=ledgers[0], in_process=True) as connection:
        assert connection.sql(CITIES, epsilon=1).cost["people"].epsilon == 1  # the answers are gone


def test_who_was_not_told_of_the_earlier_one_has_all_of_it_counted(folder: Path) -> None:
    schema(folder, **{**GAUSSIAN, BUDGET: f"{BUDGET[:-1]}, per_analyst: {{epsilon: 20}}}}"})
    with (
        connected(folder, analyst="ada", in_process=True) as ada,
        connected(folder, analyst="eve", in_process=True) as eve,
    ):
        ada.sql(COUNT, epsilon=1)
        texts = {who: con.explain(COUNT, epsilon=2) for who, con in (("ada", ada), ("eve", eve))}
        assert "own part" not in texts["ada"]
        assert "Of your own part of people: epsilon 2, delta 1e-09, since you are" in texts["eve"]
        for text in texts.values():
            assert "Cost to people: epsilon 1.69" in text
        result = eve.sql(COUNT, epsilon=2)
        assert result.cost["people"].epsilon < 2
        assert "own part" in ada.explain(COUNT, epsilon=2)  # which she hasn't seen
        third = eve.explain(COUNT, epsilon=3)
        assert "topped up" in third
        assert "own part" not in third


def test_a_cap_is_full_where_the_whole_does_not_fit(folder: Path) -> None:
    cap = f"{BUDGET[:-1]}, accountant: sequential, per_analyst: {{epsilon: 1.9}}}}"
    schema(folder, **{**GAUSSIAN, BUDGET: cap})
    with (
        connected(folder, analyst="ada", in_process=True) as ada,
        connected(folder, analyst="eve", in_process=True) as eve,
    ):
        ada.sql(COUNT, epsilon=1)
        before = spent(ada)
        with pytest.raises(BudgetExceededError, match="for eve"):
            eve.sql(COUNT, epsilon=2)
        assert spent(ada) == before
        assert eve.sql(COUNT, epsilon=1).cost == {}


def test_a_batch_with_joint_noise_draws_all_of_it(people: dp_sql.Connection) -> None:
    statements = [COUNT, "SELECT SUM(age) FROM people"]
    for statement in statements:
        people.sql(statement, epsilon=0.1)
    joint = people.batch(statements, epsilon=1, delta=1e-6)
    assert all(any("whole batch" in note for note in one.notes) for one in joint)
    assert all(TOPPED_UP not in one.notes for one in joint)


def test_a_batch_in_parts_is_topped_up_and_the_same_release_once(people: dp_sql.Connection) -> None:
    people.sql(COUNT, epsilon=0.5)
    twice = f"SELECT ({COUNT}), ({COUNT})"
    protected, _ = people.batch([twice, "SELECT COUNT(*) FROM towns"], epsilon=2)
    assert protected.notes == (TOPPED_UP,)
    assert protected.cost["people"].epsilon == pytest.approx(0.844, abs=1e-3)  # once, of 1
    ((one, two),) = protected
    assert one == two


def test_a_failure_keeps_nothing_and_leaves_the_earlier_one(
    people: dp_sql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.sql(COUNT, epsilon=0.5)

    def fails(*_: object) -> None:
        raise EngineError("nothing is read")

    with monkeypatch.context() as patch:
        patch.setattr(people._engine, "execute", fails)
        with pytest.raises(EngineError):
            people.sql(COUNT, epsilon=1)
    again = people.sql(COUNT, epsilon=1)
    assert again.notes == (TOPPED_UP,)
    assert people.sql(COUNT, epsilon=0.5).cost == {}
