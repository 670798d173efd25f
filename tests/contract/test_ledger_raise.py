"""Raises of a budget: the owner's alone, durable, one link of the chain, and never a refund."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from budget_cases import UNIT, budget, gaussian, laplace, rule_of, selection, statement
from ledger_cases import new_ledger, run_children

from dp_sql.budget import open_ledger
from dp_sql.budget.accountant import EPSILON_UNITS, filter_of, fits
from dp_sql.budget.export import verify_export
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.raising import lowered
from dp_sql.budget.record import OWNER, Asked, Status
from dp_sql.errors import BudgetExceededError, LedgerError
from dp_sql.schema.catalog import AccountantKind

ONE = budget("1", "0", AccountantKind.PURE, "0")
TWO = budget("2", "0", AccountantKind.PURE, "0")


@pytest.fixture
def ledger(anywhere: str | Path) -> Iterator[Ledger]:
    with new_ledger(anywhere, ONE) as opened:
        yield opened


def exported(ledger: Ledger) -> list[str]:
    lines: list[str] = []
    ledger.export(lines.append)
    return lines


def test_a_raise_makes_room_and_refunds_nothing(ledger: Ledger) -> None:
    ledger.reserve(statement(), {"a": laplace("1")})
    before = ledger.state("a").spent
    assert ledger.raise_budget("a", TWO, OWNER, "a new consent").budget == ONE
    assert ledger.state("a").spent == before
    assert ledger.state("a").statements == 1
    ledger.reserve(statement(), {"a": laplace("1")})
    with pytest.raises(BudgetExceededError):
        ledger.reserve(statement(), {"a": laplace("0.0625")})
    assert ledger.state("b").registration.budget == ONE
    (raised,) = ledger.raises()
    assert (raised.number, raised.identity, raised.reason) == (2, "a", "a new consent")
    assert [entry.number for entry in ledger.entries()] == [1, 3]
    assert ledger.verify().problems == ()
    assert ledger.verify().entries == 3


def test_a_raised_table_is_registered_with_the_new_budget_alone(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="Editing a schema changes no budget") as failure:
        ledger.register("a", "a", UNIT, TWO)
    assert failure.value.hint is not None
    assert "dpsql budget raise SCHEMA a" in failure.value.hint
    ledger.raise_budget("a", TWO, OWNER, "")
    ledger.register("a", "a", UNIT, TWO)
    with pytest.raises(LedgerError, match="was raised to epsilon 2") as failure:
        ledger.register("a", "a", UNIT, ONE)
    assert failure.value.hint is not None
    assert "budget raise" not in failure.value.hint
    assert ledger.state("a").lines()[1] == "raised; registered with epsilon 1"


@pytest.mark.parametrize(
    ("by", "epsilon", "delta", "selected", "message"),
    [
        ("ada", "2", "2e-6", "1e-6", "'ada' is an analyst"),
        (OWNER, "1", "2e-6", "1e-6", "already"),
        (OWNER, "0.5", "2e-6", "1e-6", "would lower epsilon"),
        (OWNER, "2", "1e-6", "5e-7", "would lower delta and selection_delta"),
        (OWNER, "2", "2e-6", "5e-7", "would lower selection_delta"),
        (OWNER, "2", "2e-6", "15e-7", "what selection_delta leaves of delta"),
    ],
)
def test_what_is_no_raise_of_the_owner_is_refused_and_leaves_no_trace(
    by: str, epsilon: str, delta: str, selected: str, message: str
) -> None:
    with new_ledger(":memory:", budget()) as ledger:
        wanted = budget(epsilon, delta, AccountantKind.RENYI, selected)
        with pytest.raises(LedgerError, match=message):
            ledger.raise_budget("a", wanted, by, "")
        assert ledger.raises() == []
        assert ledger.verify().entries == 0


def test_the_accountant_and_the_order_stay(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="accountant pure for life"):
        ledger.raise_budget("a", budget("2", "1e-6", AccountantKind.SEQUENTIAL), OWNER, "")
    with pytest.raises(LedgerError, match="knows no table"):
        ledger.raise_budget("z", TWO, OWNER, "")
    ledger.register("r", "r", UNIT, budget())
    before = ledger.state("r").registration
    ledger.reserve(statement(), {"r": gaussian(64)})
    spent = ledger.state("r").spent
    ledger.raise_budget("r", budget("3", "4e-6", AccountantKind.RENYI, "2e-6"), OWNER, "")
    after = ledger.state("r").registration
    assert after.alpha == before.alpha
    assert after.digest == before.digest
    assert ledger.state("r").spent == spent
    assert after.rule.rdp > before.rule.rdp


@pytest.mark.parametrize("kind", list(AccountantKind))
def test_a_higher_budget_fits_whatever_a_lower_one_fits(kind: AccountantKind) -> None:
    """Claim of `accountant`: with the order kept, each rule's room grows with each amount."""
    amounts = [("1", "2e-6", "1e-6"), ("1", "4e-6", "1e-6"), ("1", "6e-6", "3e-6")]
    amounts += [("1.5", "6e-6", "3e-6"), ("9", "1e-3", "1e-4")]
    specs = [budget(e, d, kind, s) for e, d, s in amounts]
    first = rule_of(specs[0])
    rules = [filter_of(spec, first.alpha) for spec in specs]
    assert [lowered(*pair) for pair in pairwise(specs)] == [[]] * 4
    for lower, higher in pairwise(rules):
        assert lower.epsilon <= higher.epsilon
        assert lower.delta <= higher.delta
        assert lower.selection_delta <= higher.selection_delta
        assert lower.rdp <= higher.rdp
        assert higher.alpha == first.alpha
    with new_ledger(":memory:", specs[0]) as ledger:
        ledger.reserve(statement(), {"a": selection("0.1", "1e-7")})
        spent = ledger.state("a").spent
    assert all(fits(rule, spent, spent) for rule in rules)


def test_a_changed_or_removed_raise_is_found(tmp_path: Path) -> None:
    path = tmp_path / "shop.ledger"
    with new_ledger(path, ONE) as ledger:
        ledger.reserve(statement(), {"a": laplace("1")})
        ledger.raise_budget("a", TWO, OWNER, "why")
        ledger.reserve(statement(), {"a": laplace("1")})
        ledger.raise_budget("a", budget("3", "0", AccountantKind.PURE, "0"), OWNER, "")
    whole = path.read_bytes()
    for edit, problem in [
        ("UPDATE raises SET epsilon = '9/1' WHERE id = 4", "raise 4 can't be read"),
        ("UPDATE raises SET epsilon = '9/1' WHERE id = 2", "Raise 2 was changed."),
        ("UPDATE raises SET reason = 'because' WHERE id = 2", "Raise 2 was changed."),
        ("DELETE FROM raises WHERE id = 2", "Entry 2 is missing."),
        ("DELETE FROM raises", "Entry 2 is missing."),
    ]:
        path.write_bytes(whole)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(edit)
        with open_ledger(path) as ledger:
            assert problem in ledger.verify().problems[0]
            if "id = 4" in edit:
                with pytest.raises(LedgerError, match="damaged"):
                    ledger.reserve(statement(), {"a": laplace("0.0625")})


def test_a_known_head_finds_what_was_cut_off_at_the_end(tmp_path: Path) -> None:
    path, copy = tmp_path / "shop.ledger", tmp_path / "copy.ledger"
    with new_ledger(path, ONE) as ledger:
        ledger.reserve(statement(), {"a": laplace("0.5")})
    copy.write_bytes(path.read_bytes())
    with open_ledger(path) as ledger:
        early = ledger.verify().head
        ledger.reserve(statement(), {"a": laplace("0.5")})
        head = ledger.verify(early).head
        assert ledger.verify(head).problems == ledger.verify(early).problems == ()
    with open_ledger(copy) as ledger:
        assert ledger.verify(early).problems == ()
        assert "which it had before" in ledger.verify(head).problems[0]


def test_an_export_can_be_verified_without_the_ledger(ledger: Ledger) -> None:
    receipt = ledger.reserve(statement("SELECT 'Ünü'\n", "ada"), {"a": laplace("0.5")})
    ledger.finish(receipt, Status.ANSWERED)
    ledger.raise_budget("b", TWO, OWNER, "why")
    ledger.reserve(statement(), {"a": laplace("0.25"), "b": laplace("2")})
    lines = exported(ledger)
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds == ["ledger", "table", "table", "charge", "raise", "charge", "charge", "end"]
    assert verify_export(lines) == ledger.verify()
    assert verify_export(lines, ledger.verify().head).problems == ()
    assert verify_export(lines, "1" * 64).problems != ()


def test_a_changed_export_is_found_and_the_first_bad_row_is_named(ledger: Ledger) -> None:
    for _ in range(3):
        ledger.reserve(statement("SELECT 1"), {"a": laplace("0.25")})
    ledger.raise_budget("a", TWO, OWNER, "why")
    lines = exported(ledger)
    assert verify_export(lines).problems == ()
    charge = lines[4]
    for changed, problem in [
        (charge.replace("SELECT 1", "SELECT 2"), "The statement of entry 2 was changed."),
        (charge.replace('"analyst": "owner"', '"analyst": "ada"'), "Entry 2 was changed."),
        (charge.replace('"pure": "250000000000"', '"pure": "1"'), "Entry 2 was changed."),
        (charge.replace('"scale":', '"size":').replace('"scale"', ""), "line 5 can't be read"),
        ("not JSON", "line 5 can't be read"),
        (lines[3], "Entry 2 is missing."),
    ]:
        assert changed != charge
        found = verify_export([*lines[:4], changed, *lines[5:]]).problems
        assert problem in found[0], changed
    assert verify_export([*lines[:4], *lines[5:]]).problems[0] == "Entry 2 is missing."
    assert verify_export(lines[:-1]).problems == ("The last lines are missing.",)
    assert verify_export([*lines[:-2], lines[-1]]).problems == ("The last entries are missing.",)
    assert verify_export([]).problems == ("The last lines are missing.",)
    assert verify_export([*lines, lines[-1]]).problems != ()
    assert verify_export(lines[1:]).problems != ()


def test_entries_are_found_by_table_analyst_and_time(ledger: Ledger) -> None:
    for analyst in ("ada", "grace", "ada"):
        ledger.reserve(statement(analyst=analyst), {"a": laplace("0.25"), "b": laplace("0.125")})
    times = [entry.time for entry in ledger.entries()]
    assert [e.number for e in ledger.entries(Asked(analyst="ada"))] == [1, 2, 5, 6]
    assert [e.number for e in ledger.entries(Asked(analyst="ada", identity="b"))] == [2, 6]
    assert len(list(ledger.entries(Asked(since=times[0])))) == 6
    assert list(ledger.entries(Asked(until=times[0]))) == []
    assert list(ledger.entries(Asked(analyst="x' OR '1'='1"))) == []


def test_how_many_more_fit_is_about_the_analysts_own_last_statement(ledger: Ledger) -> None:
    ledger.reserve(statement(analyst="ada"), {"a": laplace("0.25")})
    ledger.reserve(statement(analyst="grace"), {"a": laplace("0.0625")})
    assert ledger.state("a").repeats == 11
    assert ledger.state("a", "ada").repeats == 2
    assert ledger.state("a", "grace").repeats == 11
    assert ledger.state("a", "eve").repeats is None


def test_processes_that_raise_and_spend_at_once_keep_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "shop.ledger"
    new_ledger(path, ONE).close()
    found = run_children("raise_race", path, 8)
    assert found["codes"] == [0] * 8
    with open_ledger(path) as ledger:
        state = ledger.state("a")
        assert ledger.verify().problems == ()
        assert len(found["raised"]) == len(set(found["raised"])) == len(ledger.raises()) >= 1
        assert state.registration.budget.epsilon == 9
        assert state.spent.pure is not None
        assert 0 < state.spent.pure <= 9 * EPSILON_UNITS
        assert len(found["paid"]) == state.statements == len({e.query_id for e in ledger.entries()})


def killed(tmp_path: Path, tries: int, seed: int) -> None:
    path = tmp_path / "shop.ledger"
    new_ledger(path, ONE).close()
    found = run_children("raise_kills", path, tries, seed, timeout=tries * 2 + 60)
    print(f"{tries} raising processes killed: {found}")  # noqa: T201  pytest -s shows how many
    assert found["tries"] == tries
    assert found["problems"] == []
    assert found["lost"] == 0
    assert found["told"] <= found["raises"] <= found["told"] + tries
    assert found["raises"] > tries / 2


def test_no_raise_that_was_told_is_lost_with_its_process(tmp_path: Path) -> None:
    killed(tmp_path, tries=15, seed=1)


@pytest.mark.slow
def test_no_raise_of_a_thousand_killed_processes_is_lost(tmp_path: Path) -> None:
    killed(tmp_path, tries=1000, seed=2)
