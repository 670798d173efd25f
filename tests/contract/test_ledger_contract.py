"""What every ledger promises, whatever it keeps its rows in."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from budget_cases import UNIT, budget, gaussian, laplace, selection, statement
from ledger_cases import ROOT, new_ledger

from dp_sql.budget import accountant, open_ledger
from dp_sql.budget.accountant import EPSILON_UNITS
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.record import Receipt, Status
from dp_sql.errors import BudgetExceededError, LedgerError
from dp_sql.privacy.cost import FREE
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.catalog import AccountantKind

ONE = budget("1", "1e-6", AccountantKind.PURE, "1e-6")


@pytest.fixture
def ledger(anywhere: str | Path) -> Iterator[Ledger]:
    with new_ledger(anywhere, ONE) as opened:
        yield opened


def spent(ledger: Ledger, identity: str = "a") -> int:
    found = ledger.state(identity).spent.pure
    assert found is not None
    return found


def test_a_reserved_statement_is_charged_to_every_table_it_reads(ledger: Ledger) -> None:
    record = statement("SELECT 1", "ada")
    receipt = ledger.reserve(record, {"b": laplace("0.25"), "a": selection("0.5", "1e-7")})
    assert receipt == Receipt(1, record.query_id)
    assert spent(ledger, "a") == EPSILON_UNITS // 2
    assert spent(ledger, "b") == EPSILON_UNITS // 4
    first, second = ledger.entries()
    assert (first.identity, second.identity) == ("a", "b")
    assert first.events == selection("0.5", "1e-7").events
    assert first.spend == ledger.state("a").spent
    for entry in (first, second):
        assert (entry.query_id, entry.analyst, entry.sql) == (record.query_id, "ada", "SELECT 1")
        assert entry.status is Status.RESERVED
    assert ledger.verify().entries == 2
    assert ledger.verify().problems == ()


def test_a_statement_that_does_not_fit_leaves_no_trace(ledger: Ledger) -> None:
    ledger.reserve(statement(), {"a": laplace("0.8")})
    with pytest.raises(BudgetExceededError, match=r"0\.2 of epsilon 1 is left"):
        ledger.reserve(statement(), {"a": laplace("0.5")})
    assert [entry.number for entry in ledger.entries()] == [1]
    assert spent(ledger) == EPSILON_UNITS * 8 // 10
    assert ledger.reserve(statement(), {"a": laplace("0.2")}).statement == 2


@pytest.mark.parametrize("full", ["a", "b"])
def test_several_tables_are_charged_all_or_none(ledger: Ledger, full: str) -> None:
    ledger.reserve(statement(), {full: laplace("1")})
    before = {identity: ledger.state(identity) for identity in "ab"}
    with pytest.raises(BudgetExceededError, match=f"`{full}`"):
        ledger.reserve(statement(), {"a": laplace("0.5"), "b": laplace("0.5")})
    assert {identity: ledger.state(identity) for identity in "ab"} == before


@pytest.mark.parametrize("kind", list(AccountantKind))
def test_a_table_keeps_its_accountant_and_what_it_spent(
    kind: AccountantKind, tmp_path: Path
) -> None:
    spec = budget("1", "2e-6", kind)
    with new_ledger(tmp_path / "shop.ledger", spec) as ledger:
        ledger.reserve(statement(), {"a": laplace("0.1")})
        before = ledger.state("a")
    with open_ledger(tmp_path / "shop.ledger") as again:
        again.register("a", "a", UNIT, spec)
        assert again.state("a") == before
        assert again.state("a").registration.rule == before.registration.rule
        other = next(each for each in AccountantKind if each is not kind)
        with pytest.raises(LedgerError, match="Editing a schema changes no budget"):
            again.register("a", "a", UNIT, replace(spec, accountant=other))
        with pytest.raises(BudgetExceededError):
            again.reserve(statement(), {"a": laplace("1")})
        assert again.verify().problems == ()


def test_several_statements_are_charged_in_order_or_none_is(ledger: Ledger) -> None:
    first, second = statement("SELECT 1"), statement("SELECT 2", "ada")
    asked = [(first, {"b": laplace("0.25")}), (second, {"a": laplace("0.5"), "b": laplace("0.5")})]
    assert ledger.reserve_all(asked) == (Receipt(1, first.query_id), Receipt(2, second.query_id))
    entries = [(e.number, e.statement, e.identity, e.sql, e.analyst) for e in ledger.entries()]
    assert entries == [
        (1, 1, "b", "SELECT 1", "owner"),
        (2, 2, "a", "SELECT 2", "ada"),
        (3, 2, "b", "SELECT 2", "ada"),
    ]
    assert (spent(ledger, "a"), spent(ledger, "b")) == (EPSILON_UNITS // 2, EPSILON_UNITS * 3 // 4)
    assert ledger.state("b").statements == 2
    assert ledger.verify().problems == ()
    before = {identity: ledger.state(identity) for identity in "ab"}
    for identity in "ab":  # each fits alone
        three = [(statement(), {identity: laplace("0.25")}) for _ in range(3)]
        with pytest.raises(BudgetExceededError, match=f"Asked epsilon 0.75 of `{identity}`"):
            ledger.reserve_all(three)
    assert {identity: ledger.state(identity) for identity in "ab"} == before
    assert len(list(ledger.entries())) == 3


def test_a_table_that_is_not_registered_is_refused(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="knows no table 'c'"):
        ledger.reserve(statement(), {"a": laplace("0.5"), "c": laplace("0.5")})
    with pytest.raises(LedgerError, match="knows no table 'c'"):
        ledger.state("c")
    assert spent(ledger) == 0


def test_a_query_id_pays_once(ledger: Ledger) -> None:
    record = statement()
    ledger.reserve(record, {"a": laplace("0.5")})
    with pytest.raises(LedgerError, match="query id"):
        ledger.reserve(record, {"a": laplace("0.5")})
    assert spent(ledger) == EPSILON_UNITS // 2


def test_a_statement_that_reads_no_protected_table_is_listed_nowhere_but_has_a_receipt(
    ledger: Ledger,
) -> None:
    assert ledger.reserve(statement(), {}).statement == 1
    assert list(ledger.entries()) == []
    assert ledger.reserve(statement(), {"a": FREE}).statement == 2
    assert ledger.state("a").statements == 1


def test_what_became_of_a_statement_is_noted_once_and_changes_no_charge(ledger: Ledger) -> None:
    receipts = [ledger.reserve(statement(), {"a": laplace("0.25")}) for _ in range(3)]
    assert ledger.finish(receipts[0], Status.ANSWERED)
    assert ledger.finish(receipts[1], Status.FAILED)
    assert not ledger.finish(receipts[1], Status.ANSWERED)
    assert not ledger.finish(Receipt(3, "another"), Status.ANSWERED)
    statuses = [entry.status for entry in ledger.entries()]
    assert statuses == [Status.ANSWERED, Status.FAILED, Status.RESERVED]
    assert spent(ledger) == EPSILON_UNITS * 3 // 4
    assert ledger.verify().problems == ()


def test_a_note_on_a_closed_ledger_is_lost_without_an_error(ledger: Ledger) -> None:
    receipt = ledger.reserve(statement(), {"a": laplace("0.25")})
    ledger.close()
    assert not ledger.finish(receipt, Status.ANSWERED)


def test_a_closed_ledger_answers_nothing(ledger: Ledger) -> None:
    ledger.close()
    ledger.close()
    for use in (
        lambda: ledger.reserve(statement(), {"a": laplace("0.25")}),
        lambda: ledger.register("c", "c", UNIT, ONE),
        lambda: ledger.state("a"),
        lambda: list(ledger.entries()),
        ledger.registrations,
        ledger.verify,
    ):
        with pytest.raises(LedgerError, match="is closed"):
            use()


def test_registering_a_table_again_changes_nothing(ledger: Ledger) -> None:
    ledger.reserve(statement(), {"a": laplace("0.25")})
    before = ledger.state("a")
    ledger.register("a", "another name", replace(UNIT, name="Unit"), ONE)
    assert ledger.state("a") == before
    assert [known.identity for known in ledger.registrations()] == ["a", "b"]


@pytest.mark.parametrize(
    "spec",
    [
        replace(ONE, epsilon=Fraction(2)),
        replace(ONE, epsilon=Fraction(1, 2)),
        replace(ONE, delta=Fraction(1, 10**5)),
        replace(ONE, selection_delta=Fraction(0)),
        replace(ONE, accountant=AccountantKind.SEQUENTIAL),
    ],
)
def test_a_budget_is_not_changed_by_registering_again(ledger: Ledger, spec: object) -> None:
    with pytest.raises(LedgerError, match="registered with epsilon 1, delta 1e-06") as caught:
        ledger.register("a", "a", UNIT, spec)  # type: ignore[arg-type]
    assert "a second budget" in str(caught.value.hint)
    assert ledger.state("a").registration.spec == ONE


@pytest.mark.parametrize(
    "unit",
    [
        PrivacyUnit(Level.EVENT, Adjacency.ADD_REMOVE),
        PrivacyUnit(Level.USER, Adjacency.SUBSTITUTION),
        PrivacyUnit(Level.USER, Adjacency.ADD_REMOVE, group_size=2),
        PrivacyUnit(Level.USER, Adjacency.ADD_REMOVE, name="house"),
    ],
)
def test_a_table_keeps_the_unit_that_its_charges_were_priced_for(
    ledger: Ledger, unit: PrivacyUnit
) -> None:
    with pytest.raises(LedgerError, match="level user, adjacency add_remove, group_size 1"):
        ledger.register("a", "a", unit, ONE)
    assert ledger.state("a").registration.unit == UNIT


ZERO = PrivacyUnit(
    Level.USER, Adjacency.ZERO_OUT, kept=frozenset({("y", "uid"), ("z", 'a, "b"'), ("z", "uid")})
)
OWNED = replace(UNIT, owner='"cust"')
METRIC = PrivacyUnit(
    Level.EVENT,
    Adjacency.METRIC,
    latitudes=frozenset({("z", "lat"), ("y", "lat")}),
    longitudes=frozenset({("z", "lon")}),
    radius=Fraction(201, 2),
)


@pytest.mark.parametrize(
    ("unit", "other", "words"),
    [
        (ZERO, replace(ZERO, kept=ZERO.kept | {("z", "c")}), 'columns protected but a, "b", uid'),
        (ZERO, replace(ZERO, kept=ZERO.kept - {("z", "uid")}), "zero_out"),
        (ZERO, PrivacyUnit(Level.USER, Adjacency.ADD_REMOVE), "zero_out"),
        (OWNED, replace(OWNED, owner='"ord"'), 'owner "cust"; now'),
        (OWNED, replace(OWNED, owner=""), 'owner "cust"; now'),
        (replace(ZERO, owner='"uid"'), replace(ZERO, owner='"a"'), 'owner "uid", all columns'),
        (METRIC, replace(METRIC, radius=Fraction(100)), "radius 100.5 of lat, lon"),
        (METRIC, replace(METRIC, latitudes=frozenset({("z", "lon")})), "metric"),
        (METRIC, replace(METRIC, longitudes=frozenset()), "metric"),
    ],
)
def test_a_table_keeps_the_columns_and_the_radius_that_its_charges_were_priced_for(
    ledger: Ledger, unit: PrivacyUnit, other: PrivacyUnit, words: str
) -> None:
    ledger.register("z", "Z", unit, ONE)
    ledger.reserve(statement(), {"z": laplace("0.1")})
    elsewhere = replace(unit, kept=unit.kept - {("y", "uid")})
    ledger.register("z", "Z", replace(elsewhere, latitudes=unit.latitudes - {("y", "lat")}), ONE)
    assert ledger.state("z").registration.unit == unit.of_table("z")
    with pytest.raises(LedgerError, match=re.escape(words)):
        ledger.register("z", "Z", other, ONE)
    assert ledger.verify().problems == ()


def test_a_table_of_before_owners_were_registered_is_charged_as_it_was(ledger: Ledger) -> None:
    ledger.register("a", "a", OWNED, ONE)
    assert ledger.state("a").registration.unit == UNIT


def test_rows_are_rows_whatever_they_are_called(ledger: Ledger) -> None:
    rows = PrivacyUnit(Level.EVENT, Adjacency.ADD_REMOVE, name="row")
    ledger.register("rows", "rows", rows, ONE)
    ledger.register("rows", "rows", replace(rows, name="visit"), ONE)


def test_the_state_says_how_many_more_of_the_last_kind_fit(ledger: Ledger) -> None:
    assert ledger.state("a").repeats is None
    ledger.reserve(statement(), {"a": laplace("0.8"), "b": laplace("0.8")})
    assert ledger.state("a").repeats == 0
    ledger.reserve(statement(), {"a": laplace("0.05")})
    state = ledger.state("a")
    assert (state.repeats, state.statements) == (3, 2)
    assert state.shares[0].left == Fraction(15, 100)


def test_accountants_of_tables_are_their_own(ledger: Ledger) -> None:
    ledger.register("r", "r", UNIT, budget("3", "2e-6"))
    ledger.register("s", "s", UNIT, budget("3", "2e-6", AccountantKind.SEQUENTIAL))
    cost = gaussian(100, "0.5", "1e-9")
    ledger.reserve(statement(), {"r": cost, "s": cost})
    with pytest.raises(BudgetExceededError, match="no finite epsilon"):
        ledger.reserve(statement(), {"a": cost, "r": cost})
    assert ledger.state("r").spent.pure is None
    assert ledger.state("r").statements == 1
    assert ledger.state("s").spent.epsilon == EPSILON_UNITS // 2


def test_more_entries_than_a_page_are_listed_in_order() -> None:
    with new_ledger(":memory:", ONE) as ledger:
        for _ in range(510):
            ledger.reserve(statement(), {"a": FREE})
        assert [entry.number for entry in ledger.entries()] == list(range(1, 511))
        assert ledger.verify().entries == 510


def test_sixteen_threads_never_overspend(ledger: Ledger) -> None:
    granted: list[int] = []

    def spend() -> None:
        count = 0
        try:
            while True:
                ledger.reserve(statement(), {"a": laplace("0.01")})
                count += 1
        except BudgetExceededError:
            granted.append(count)

    threads = [threading.Thread(target=spend) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 16
    assert sum(granted) == 100
    assert spent(ledger) == EPSILON_UNITS
    assert ledger.verify().problems == ()


def test_each_ledger_in_memory_is_its_own() -> None:
    with new_ledger(":memory:", ONE) as one, new_ledger(":memory:", ONE) as other:
        one.reserve(statement(), {"a": laplace("1")})
        assert spent(other) == 0


def test_a_file_remembers(tmp_path: Path) -> None:
    path = tmp_path / "a folder" / "ledger of #1 100%?.db"
    path.parent.mkdir()
    with new_ledger(path, ONE) as ledger:
        ledger.reserve(statement(), {"a": laplace("0.8")})
        before = ledger.state("a"), list(ledger.entries())
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    with new_ledger(path, ONE) as ledger:
        assert (ledger.state("a"), list(ledger.entries())) == before
        with pytest.raises(BudgetExceededError):
            ledger.reserve(statement(), {"a": laplace("0.5")})


def test_two_ledgers_on_one_file_see_each_others_charges(tmp_path: Path) -> None:
    path = tmp_path / "shop.ledger"
    with new_ledger(path, ONE) as one, open_ledger(path) as other:
        one.reserve(statement(), {"a": laplace("0.8")})
        with pytest.raises(BudgetExceededError):
            other.reserve(statement(), {"a": laplace("0.5")})
        other.reserve(statement(), {"a": laplace("0.2")})
        assert spent(one) == EPSILON_UNITS


def test_a_relative_path_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with new_ledger("shop.ledger", ONE) as ledger:
        monkeypatch.chdir(tmp_path / "elsewhere")
        ledger.reserve(statement(), {"a": laplace("0.5")})
    assert list((tmp_path / "elsewhere").iterdir()) == []
    with open_ledger(tmp_path / "shop.ledger") as again:
        assert spent(again) == EPSILON_UNITS // 2


def test_a_file_is_written_ahead_and_synced_at_every_commit(tmp_path: Path) -> None:
    with new_ledger(tmp_path / "shop.ledger") as ledger:
        receipt = ledger.reserve(statement(), {"a": laplace("0.5")})
        for notes in range(2):  # a note needs no sync, and what comes after a note does
            with ledger._store.transaction(write=True) as connection:
                assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
                assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
            assert ledger.finish(receipt, Status.ANSWERED) == (notes == 0)


def test_a_transaction_inside_another_of_its_thread_does_not_end_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as a signal handler may start one; SQLite would roll back the outer one with the inner
    refused: list[str] = []

    def interrupted(*arguments: object) -> object:
        with pytest.raises(LedgerError) as caught:
            ledger.reserve(statement(), {"a": laplace("0.25")})
        refused.append(caught.value.message)
        return accountant.price(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("dp_sql.budget.debit.price", interrupted)
    ledger.reserve(statement(), {"a": laplace("0.5")})
    monkeypatch.undo()
    assert len(refused) == 1
    assert "in the middle of a transaction" in refused[0]
    assert spent(ledger) == EPSILON_UNITS // 2
    ledger.reserve(statement(), {"a": laplace("0.5")})
    assert spent(ledger) == EPSILON_UNITS


def test_a_table_keeps_its_order_when_a_later_version_would_choose_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = budget("1")
    with new_ledger(tmp_path / "shop.ledger", spec) as ledger:
        before = ledger.state("a").registration.alpha
    monkeypatch.setattr("dp_sql.budget.ledger.order_of", lambda _: 3.5)
    with new_ledger(tmp_path / "shop.ledger", spec) as ledger:
        ledger.register("c", "c", UNIT, spec)
        assert ledger.state("a").registration.alpha == before == accountant.order_of(spec)
        assert ledger.state("c").registration.alpha == 3.5


def test_sqlite_is_imported_when_a_ledger_opens_and_not_before() -> None:
    code = (
        "import sys; from dp_sql.budget import open_ledger; import dp_sql.budget.left; "
        "assert 'sqlite3' not in sys.modules; open_ledger(':memory:'); "
        "assert 'sqlite3' in sys.modules; "
        "assert not {'sqlalchemy', 'psycopg'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)}, check=True)
