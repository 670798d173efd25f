"""Accounts below a table: blocks, periods, analysts, and the budget over all tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest
from budget_cases import UNIT, budget, gaussian, laplace, selection, statement

from dp_sql.budget import open_ledger, open_store
from dp_sql.budget.accountant import EPSILON_UNITS
from dp_sql.budget.export import verify_export
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.periods import next_period, period_at
from dp_sql.budget.record import OWNER, Charge
from dp_sql.budget.store import Store
from dp_sql.errors import BudgetExceededError, InternalError, LedgerError
from dp_sql.privacy.cost import FREE, Cost
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.catalog import AccountantKind, BudgetSpec, Cap, Renew

ONE = budget("1", "1e-6", AccountantKind.PURE, "1e-6")
DAYS = replace(ONE, blocks="day")
MONTHLY = replace(ONE, renew=Renew.MONTHLY)
CAPPED = replace(ONE, cap=Cap(Fraction(1, 2), Fraction(1, 10**6), Fraction(1, 10**6)))


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.day = "2026-11-30"

    def __call__(self) -> datetime:
        return datetime.fromisoformat(f"{self.day}T12:00:00").replace(tzinfo=UTC)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(anywhere: str | Path, clock: Clock) -> Iterator[Ledger]:
    with Ledger(open_store(anywhere), clock) as opened:
        yield opened
        assert opened.verify().problems == ()
        lines: list[str] = []
        opened.export(lines.append)
        assert verify_export(lines).problems == ()


def days(cost: Cost, *names: str) -> Charge:
    return Charge(cost, frozenset(names))


def ask(ledger: Ledger, cost: Cost | Charge, table: str = "t", analyst: str = OWNER) -> None:
    ledger.reserve(statement(analyst=analyst), {table: cost})


def refused(ledger: Ledger, cost: Cost | Charge, match: str, **more: str) -> None:
    before = len(list(ledger.entries()))
    with pytest.raises(BudgetExceededError, match=match):
        ask(ledger, cost, **more)
    assert len(list(ledger.entries())) == before


def test_each_block_has_the_whole_budget_less_what_all_blocks_spent(ledger: Ledger) -> None:
    ledger.register("t", "visits", UNIT, DAYS)
    ask(ledger, days(laplace("0.5"), "mon", "tue"))
    ask(ledger, days(laplace("0.5"), "mon"))
    refused(ledger, days(laplace("0.0625"), "mon", "wed"), "block mon of `visits`; nothing of")
    refused(ledger, laplace("0.0625"), "block mon of `visits`")
    ask(ledger, days(laplace("1"), "wed"))
    ask(ledger, days(laplace("0.25"), "tue"))
    refused(ledger, days(laplace("0.5"), "tue"), r"block tue of `visits`; 0\.25 of epsilon 1")


def test_a_charge_to_every_block_counts_for_blocks_that_come_later(ledger: Ledger) -> None:
    ledger.register("t", "visits", UNIT, DAYS)
    ask(ledger, laplace("0.5"))
    ask(ledger, days(laplace("0.25"), "mon"))
    refused(ledger, laplace("0.5"), r"block mon of `visits`; 0\.25 of epsilon 1 is left")
    refused(ledger, days(laplace("1"), "new"), r"block new of `visits`; 0\.5 of epsilon 1 is left")
    ask(ledger, laplace("0.25"))
    refused(ledger, days(laplace("0.5"), "new"), r"0\.25 of epsilon 1")
    refused(ledger, laplace("0.5"), r"Asked epsilon 0\.5 of `visits`; 0\.25 of")
    ask(ledger, Charge(laplace("1"), frozenset()))  # reads no block


def test_under_two_rules_each_block_may_fit_by_another(ledger: Ledger) -> None:
    ledger.register("t", "visits", UNIT, replace(budget("1", "2e-6"), blocks="day"))
    ask(ledger, days(gaussian(100), "noisy"))  # no finite epsilon from here on
    for _ in range(8):
        ask(ledger, days(laplace("0.1"), "loud"))
    for _ in range(2):
        ask(ledger, laplace("0.1"))
    refused(ledger, laplace("0.1"), "block loud of `visits`")
    ask(ledger, days(laplace("0.1"), "noisy", "other"))


def test_blocks_of_a_table_that_has_none_are_a_mistake(ledger: Ledger) -> None:
    ledger.register("t", "visits", UNIT, ONE)
    with pytest.raises(InternalError, match="has no blocks"):
        ask(ledger, days(laplace("0.5"), "mon"))
    assert list(ledger.entries()) == []


def test_a_batch_is_charged_to_all_blocks_or_to_none(ledger: Ledger) -> None:
    ledger.register("t", "visits", UNIT, DAYS)
    ledger.register("u", "users", UNIT, ONE)
    first = (statement(), {"t": days(laplace("0.5"), "mon", "tue"), "u": laplace("0.5")})
    second = (statement(), {"t": laplace("0.5"), "u": laplace("0.25")})
    third = (statement(), {"t": days(laplace("0.25"), "tue")})
    with pytest.raises(BudgetExceededError, match=r"Asked epsilon 1\.25 of block tue of `visits`"):
        ledger.reserve_all([first, second, third])
    assert list(ledger.entries()) == []
    assert ledger.state("u").spent.pure == 0
    ledger.reserve_all([first, second])
    found = [(e.identity, e.scope and e.scope.blocks) for e in ledger.entries()]
    assert found == [("t", {"mon", "tue"}), ("u", None), ("t", None), ("u", None)]
    refused(ledger, days(laplace("0.0625"), "tue"), "nothing of epsilon 1 is left")
    ask(ledger, days(laplace("0.5"), "wed"))


def test_a_new_period_has_the_budget_again(ledger: Ledger, clock: Clock) -> None:
    ledger.register("t", "visits", UNIT, MONTHLY)
    ask(ledger, laplace("1"))
    refused(ledger, laplace("0.0625"), "nothing of epsilon 1 is left")
    clock.day = "2026-12-01"
    assert ledger.state("t").spent.pure == 0
    ask(ledger, laplace("0.5"))
    assert ledger.state("t").spent.pure == EPSILON_UNITS // 2
    assert [e.scope.period for e in ledger.entries() if e.scope] == ["2026-11", "2026-12"]


def test_no_clock_gives_a_period_twice(ledger: Ledger, clock: Clock) -> None:
    ledger.register("t", "visits", UNIT, MONTHLY)
    ask(ledger, laplace("0.5"))
    clock.day = "2027-01-15"  # it jumps ahead: a period is opened early
    ask(ledger, laplace("0.8"))
    for day in ("2026-11-30", "2026-12-31", "1970-01-01", "2027-01-31"):
        clock.day = day
        refused(ledger, laplace("0.5"), r"0\.2 of epsilon 1 is left")
    clock.day = "2026-11-30"
    ask(ledger, laplace("0.2"))
    clock.day = "2027-01-02"
    refused(ledger, laplace("0.0625"), "nothing")
    clock.day = "2027-02-01"
    ask(ledger, laplace("1"))


@pytest.mark.parametrize(
    ("renew", "same", "later"),
    [
        (Renew.DAILY, "2026-11-30", "2026-12-01"),
        (Renew.WEEKLY, "2026-12-06", "2026-12-07"),
        (Renew.YEARLY, "2026-12-31", "2027-01-01"),
    ],
)
def test_periods_follow_the_calendar(
    ledger: Ledger, clock: Clock, renew: Renew, same: str, later: str
) -> None:
    ledger.register("t", "visits", UNIT, replace(ONE, renew=renew))
    ask(ledger, laplace("1"))
    clock.day = same
    refused(ledger, laplace("0.0625"), "nothing")
    clock.day = later
    ask(ledger, laplace("1"))


def test_an_analyst_has_a_part_of_the_table(ledger: Ledger) -> None:
    ledger.register("t", "visits", UNIT, CAPPED)
    ask(ledger, laplace("0.5"), analyst="ada")
    refused(
        ledger, laplace("0.0625"), "the part of `visits` that is for ada; nothing", analyst="ada"
    )
    ask(ledger, laplace("0.25"), analyst="grace")
    refused(ledger, laplace("0.5"), r"of `visits`; 0\.25 of epsilon 1", analyst="grace")
    ask(ledger, laplace("0.25"))
    refused(ledger, laplace("0.0625"), "of `visits`; nothing of epsilon 1 is left", analyst="grace")


def test_the_owner_has_no_cap_and_periods_and_blocks_renew_those_of_analysts(
    ledger: Ledger, clock: Clock
) -> None:
    ledger.register("t", "visits", UNIT, replace(CAPPED, renew=Renew.DAILY, blocks="day"))
    ask(ledger, days(laplace("1"), "mon"))
    ask(ledger, days(laplace("0.5"), "tue", "wed"), analyst="ada")
    refused(ledger, days(laplace("0.25"), "wed"), "block wed of the part", analyst="ada")
    ask(ledger, days(laplace("0.25"), "thu"), analyst="ada")
    clock.day = "2026-12-01"
    ask(ledger, days(laplace("0.5"), "wed"), analyst="ada")
    refused(ledger, days(laplace("0.25"), "wed"), "block wed of the part", analyst="ada")


def test_an_answer_that_was_released_before_counts_for_who_sees_it_first(ledger: Ledger) -> None:
    ledger.register("t", "visits", UNIT, CAPPED)
    ask(ledger, laplace("0.25"), analyst="ada")
    shown = Charge(FREE, learned=laplace("0.25"))
    ask(ledger, shown, analyst="grace")
    assert ledger.state("t").spent.pure == EPSILON_UNITS // 4
    refused(ledger, laplace("0.5"), r"for grace; 0\.25 of epsilon 0\.5 is left", analyst="grace")
    both = Charge(laplace("0.0625"), learned=laplace("0.25"))
    ask(ledger, both, analyst="grace")
    refused(ledger, shown, "for grace; nothing of epsilon 0.5 is left", analyst="grace")
    assert ledger.state("t").spent.pure == EPSILON_UNITS * 5 // 16


def test_what_is_shown_of_blocks_is_the_fullest_and_a_new_one(ledger: Ledger) -> None:
    cap = replace(CAPPED, blocks="day")
    ledger.register("t", "visits", UNIT, cap)
    ask(ledger, laplace("0.25"))
    ask(ledger, days(laplace("0.25"), "mon", "tue"), analyst="ada")
    ask(ledger, days(laplace("0.125"), "mon"), analyst="grace")
    state = ledger.state("t", "grace")
    assert state.lines() == (
        "budget: epsilon 1, delta 1e-06 (pure accountant)",
        "for each day; of the one that has spent most:",
        "epsilon: 62.5 % used, 0.375 left",
        "delta of key selection: 0 % used, 1e-06 left",
        "a day that nobody asked alone: epsilon 0.75 left, delta of key selection 1e-06 left",
        "each analyst: epsilon 0.5, delta 1e-06",
        "  grace: epsilon: 25 % used, 0.375 left; delta of key selection: 0 % used, 1e-06 left",
        "3 more like the last statement fit",
    )
    assert state.left() == "epsilon 0.375 of 1; grace: epsilon 0.375 of 0.5; 3 more like this"
    assert ledger.state("t", "ada").repeats == 1
    assert [part.analyst for part in ledger.state("t").parts] == ["ada", "grace"]


@pytest.mark.parametrize("anywhere", ["memory"], indirect=True)
def test_a_cap_has_an_order_of_its_own(ledger: Ledger) -> None:
    cap = Cap(Fraction(1, 2), Fraction("1e-6"), Fraction("5e-7"))
    ledger.register("t", "visits", UNIT, replace(budget("5", "2e-6"), cap=cap))
    ledger.register(
        "small",
        "small",
        UNIT,
        BudgetSpec(cap.epsilon, cap.delta, AccountantKind.RENYI, cap.selection_delta),
    )
    fit = 0
    with suppress(BudgetExceededError):
        while True:
            ask(ledger, laplace("0.01"), analyst="ada")
            fit += 1
    refused(ledger, laplace("0.01"), "the part of `visits`", analyst="ada")
    for _ in range(fit):
        ask(ledger, laplace("0.01"), "small")
    refused(ledger, laplace("0.01"), "`small`", table="small")
    assert fit > 100  # more than the plain sum admits


def test_the_budget_over_all_tables_takes_the_sum_of_a_statement(ledger: Ledger) -> None:
    ledger.register_people("customer", UNIT, ONE)
    ledger.register("a", "a", UNIT, ONE, people="customer")
    ledger.register("b", "b", UNIT, DAYS, people="customer")
    ledger.register("alone", "alone", UNIT, ONE)
    both = {"a": selection("0.25", "1e-7"), "b": days(laplace("0.5"), "mon")}
    ledger.reserve(statement(), both)
    entries = [(e.identity, e.spend.pure) for e in ledger.entries()]
    quarter = EPSILON_UNITS // 4
    assert entries == [("a", quarter), ("b", 2 * quarter), ("people:customer", 3 * quarter)]
    message = r"the budget of each `customer` over all tables; 0\.25 of epsilon 1 is left"
    refused(ledger, days(laplace("0.5"), "tue"), message, table="b")
    ask(ledger, laplace("0.25"), "a")
    refused(ledger, laplace("0.0625"), "each `customer`", table="a")
    ask(ledger, laplace("1"), "alone")


def test_no_edited_schema_loses_the_budget_over_all_tables(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="knows no table"):
        ledger.register("a", "a", UNIT, ONE, people="customer")
    ledger.register_people("customer", UNIT, ONE)
    ledger.register_people("client", UNIT, ONE)
    ledger.register("a", "a", UNIT, ONE, people="customer")
    ledger.register("b", "b", UNIT, ONE)
    for table, people in (("a", None), ("a", "client"), ("b", "customer")):
        with pytest.raises(LedgerError, match="over all tables"):
            ledger.register(table, table, UNIT, ONE, people=people)
    with pytest.raises(LedgerError, match="Editing a schema changes no budget"):
        ledger.register_people("customer", UNIT, replace(ONE, epsilon=Fraction(2)))
    other = PrivacyUnit(Level.USER, Adjacency.SUBSTITUTION)
    with pytest.raises(LedgerError, match="registered to protect"):
        ledger.register_people("customer", other, ONE)


@pytest.mark.parametrize(
    "other",
    [
        MONTHLY,
        DAYS,
        CAPPED,
        replace(CAPPED, cap=Cap(Fraction(3, 4), Fraction("1e-6"), Fraction("1e-6"))),
        replace(MONTHLY, renew=Renew.DAILY),
        replace(DAYS, blocks="hour"),
        ONE,
    ],
    ids=str,
)
@pytest.mark.parametrize("first", [ONE, MONTHLY, DAYS, CAPPED], ids=str)
def test_editing_a_schema_refills_nothing(
    ledger: Ledger, first: BudgetSpec, other: BudgetSpec
) -> None:
    ledger.register("t", "visits", UNIT, first)
    ledger.register("t", "visits", UNIT, first)
    if other == first:
        return
    with pytest.raises(LedgerError, match="Editing a schema changes no budget"):
        ledger.register("t", "visits", UNIT, other)
    if first == CAPPED and other.cap is not None:
        ledger.raise_budget("t", other, OWNER, "")
        ledger.register("t", "visits", UNIT, other)
    else:
        with pytest.raises(LedgerError, match="can't change"):
            ledger.raise_budget("t", replace(other, epsilon=Fraction(2)), OWNER, "")


def test_a_raised_cap_makes_room_and_refunds_nothing(ledger: Ledger) -> None:
    ledger.register("t", "visits", UNIT, CAPPED)
    ask(ledger, laplace("0.5"), analyst="ada")
    assert CAPPED.cap is not None
    more = replace(CAPPED, cap=replace(CAPPED.cap, epsilon=Fraction(3, 4)))
    ledger.raise_budget("t", more, OWNER, "ada has signed")
    ask(ledger, laplace("0.25"), analyst="ada")
    refused(ledger, laplace("0.0625"), "for ada; nothing of epsilon 0.75", analyst="ada")
    with pytest.raises(LedgerError, match="epsilon per analyst"):
        ledger.raise_budget("t", replace(CAPPED, epsilon=Fraction(2)), OWNER, "")


def test_everything_is_there_after_a_restart(tmp_path: Path, clock: Clock) -> None:
    spec = replace(CAPPED, renew=Renew.WEEKLY, blocks="day")
    for _ in range(2):
        with Ledger(open_store(tmp_path / "shop.ledger"), clock) as ledger:
            ledger.register("t", "visits", UNIT, spec)
            ask(ledger, days(laplace("0.25"), "mon"), analyst="ada")
    with Ledger(open_store(tmp_path / "shop.ledger"), clock) as ledger:
        refused(ledger, days(laplace("0.25"), "mon"), "for ada; nothing", analyst="ada")
        assert ledger.verify().problems == ()
        assert ledger.state("t").registration.spec == spec


def _raw(ledger: Ledger, change: str) -> None:
    connection = ledger._store._connection
    assert connection is not None
    connection.execute("PRAGMA foreign_keys = OFF")
    assert connection.execute(change).rowcount > 0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("DELETE FROM scopes WHERE entry = 1", "Entry 1 was changed"),
        ("UPDATE scopes SET period = '2026-12' WHERE entry = 1", "Entry 1 was changed"),
        ("UPDATE scopes SET blocks = '[\"a\"]' WHERE entry = 1", "Entry 1 was changed"),
        ("UPDATE scopes SET blocks = '[\"a\", 1]' WHERE entry = 1", "entry 1 can't be read"),
        ("UPDATE scopes SET cap = NULL WHERE entry = 1", "Entry 1 was changed"),
        ("DELETE FROM accounts WHERE block = 'mon'", "is not the sum of its entries"),
        ("UPDATE accounts SET entries = 9 WHERE part = 'peak'", "can't be read"),
        ("UPDATE accounts SET period = '2026-12'", "can't be read"),
        ("UPDATE accounts SET analyst = 'bob' WHERE analyst = 'ada'", "can't be read"),
        ("DELETE FROM terms", "can't be read"),
        ("UPDATE terms SET renew = 'daily'", "can't be read"),
        ("UPDATE cap_raises SET cap_epsilon = '9/10'", "can't be read"),
        ("DELETE FROM cap_raises", "can't be read"),
        ("DELETE FROM entries WHERE identity LIKE 'people%'", "Entry 2 is missing"),
    ],
)
def test_verify_finds_what_was_changed(clock: Clock, change: str, problem: str) -> None:
    with Ledger(open_store(":memory:"), clock) as ledger:
        ledger.register_people("customer", UNIT, ONE)
        spec = replace(CAPPED, renew=Renew.MONTHLY, blocks="day")
        ledger.register("a", "visits", UNIT, spec, people="customer")
        ask(ledger, days(laplace("0.25"), "mon"), "a", "ada")
        assert spec.cap is not None
        more = replace(spec, cap=replace(spec.cap, epsilon=Fraction(3, 4)))
        ledger.raise_budget("a", more, OWNER, "")
        assert ledger.verify().problems == ()
        _raw(ledger, change)
        assert any(problem in found for found in ledger.verify().problems)


def test_verify_finds_charges_that_a_faulty_ledger_would_make(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(open_store(":memory:"), clock) as ledger:
        ledger.register_people("customer", UNIT, ONE)
        ledger.register("a", "a", UNIT, replace(CAPPED, renew=Renew.DAILY), people="customer")
        ask(ledger, laplace("0.25"), "a", "ada")
        with monkeypatch.context() as patch:
            patch.setattr("dp_sql.budget.lines.fits", lambda *_: True)
            ask(ledger, laplace("0.5"), "a", "ada")
        with monkeypatch.context() as patch:
            patch.setattr("dp_sql.budget.debit.period_at", lambda *_: "2026-11-29")
            ask(ledger, laplace("0.0625"), "a")
        with monkeypatch.context() as patch:
            patch.setattr(
                "dp_sql.budget.ledger.with_people", lambda _, costs: {"a": Charge(costs["a"])}
            )
            ask(ledger, laplace("0.0625"), "a")
        assert ledger.verify().problems == (
            "The entries of `a` exceed what ada may spend, from entry 3 on.",
            "Entry 5 went to other accounts than it should.",
            "Statement 4 wasn't charged to a budget over all tables.",
        )


@pytest.mark.parametrize(
    ("renew", "time", "period", "following"),
    [
        (Renew.NEVER, "2026-11-30T23:59:59+00:00", "", None),
        (Renew.DAILY, "2027-01-01T01:00:00+02:00", "2026-12-31", "2027-01-01"),
        (Renew.WEEKLY, "2027-01-03T23:59:59+00:00", "2026-W53", "2027-01-04"),
        (Renew.WEEKLY, "2024-12-30T00:00:00+00:00", "2025-W01", "2025-01-06"),
        (Renew.MONTHLY, "2024-01-31T00:00:00+00:00", "2024-01", "2024-02-01"),
        (Renew.YEARLY, "2024-02-29T00:00:00+00:00", "2024", "2025-01-01"),
        (Renew.YEARLY, "9999-02-01T00:00:00+00:00", "9999", None),
        (Renew.MONTHLY, "9999-12-01T00:00:00+00:00", "9999-12", None),
    ],
)
def test_a_period_is_one_of_the_calendar_in_utc(
    renew: Renew, time: str, period: str, following: str | None
) -> None:
    assert period_at(renew, datetime.fromisoformat(time), "") == period
    found = next_period(renew, period)
    assert (None if found is None else found.isoformat()) == following


def forged(change: Callable[[dict[str, object]], None], kind: str) -> str:
    """Return the problems of an export in which one line was changed and the chain was left."""
    with Ledger(open_store(":memory:"), Clock()) as ledger:
        ledger.register("t", "visits", UNIT, replace(CAPPED, renew=Renew.MONTHLY))
        ask(ledger, laplace("0.25"), analyst="ada")
        lines: list[str] = []
        ledger.export(lines.append)
    rows = [json.loads(line) for line in lines]
    for row in rows:
        if row["kind"] == kind:
            change(row)
    return " ".join(verify_export(map(json.dumps, rows)).problems)


def test_an_export_holds_the_accounts_too() -> None:
    assert forged(dict.clear, "none of these") == ""
    assert "was changed" in forged(lambda row: row.update(period="2026-12"), "charge")
    assert "was changed" in forged(lambda row: row.update(period=None, cap=None), "charge")
    assert "can't be read" in forged(lambda row: row.update(renew="daily"), "table")


def test_a_store_can_be_shared_by_two_ledgers(tmp_path: Path, clock: Clock) -> None:
    """The last period is read in the transaction of the charge, not kept by a process."""
    store: Store = open_store(tmp_path / "shop.ledger")
    late = Clock()
    late.day = "2027-01-01"
    with Ledger(store, clock) as one, Ledger(open_store(tmp_path / "shop.ledger"), late) as two:
        one.register("t", "visits", UNIT, MONTHLY)
        ask(one, laplace("0.5"))
        ask(two, laplace("0.8"))
        refused(one, laplace("0.5"), r"0\.2 of epsilon 1 is left")


def test_an_analyst_without_a_name_is_nobody() -> None:
    with pytest.raises(ValueError, match="has a name"):
        statement(analyst="")


def test_a_plain_ledger_makes_no_accounts() -> None:
    with open_ledger(":memory:") as ledger:
        ledger.register("t", "visits", UNIT, ONE)
        ask(ledger, laplace("0.5"), analyst="ada")
        assert [entry.scope for entry in ledger.entries()] == [None]
