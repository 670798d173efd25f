"""Caps of analysts, periods and the budget over all tables, through SQL and the command line."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest
from schema_texts import SHOP, changed, error_of, load_text

import dp_sql
from dp_sql.cli.budgets import budgets_text, raise_budget
from dp_sql.cli.check import check_schema
from dp_sql.cli.ledgers import Where, entries_text, verification_text
from dp_sql.errors import BudgetExceededError, LedgerError, ParameterError
from dp_sql.schema.catalog import AccountantKind, BudgetSpec, Cap, Renew

SCHEMA = """\
version: 1
database: "duckdb://"
privacy: {level: user, unit: customer, budget: {epsilon: 2}}
tables:
  orders:
    source: orders.csv
    owner: id
    budget: {epsilon: 1, delta: 1e-6, renew: monthly, per_analyst: {epsilon: 0.5}}
    columns: {id: {type: integer}, pay: {type: integer, bounds: [0, 9]}}
  visits:
    source: visits.csv
    owner: id
    budget: {epsilon: 5, accountant: pure}
    columns: {id: {type: integer}}
"""
COUNT = "SELECT COUNT(*) FROM orders"
BOTH = "SELECT (SELECT COUNT(*) FROM orders) + (SELECT COUNT(*) FROM visits)"


class Clock:
    """The clock of all ledgers in a test."""

    def __init__(self) -> None:
        self.day = "2026-11-30"

    def __call__(self) -> datetime:
        return datetime.fromisoformat(f"{self.day}T12:00:00").replace(tzinfo=UTC)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("dp_sql.budget.ledger._now", found)
    return found


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    (tmp_path / "orders.csv").write_text("id,pay\n1,3\n2,4\n")
    (tmp_path / "visits.csv").write_text("id\n1\n2\n")
    path = tmp_path / "shop.yaml"
    path.write_text(SCHEMA, encoding="utf-8")
    return path


@pytest.fixture
def ada(schema: Path, clock: Clock) -> Iterator[dp_sql.Connection]:
    assert clock.day
    with dp_sql.connect(schema, analyst="ada", reuse=False) as connection:
        yield connection


def edited(schema: Path, *changes: tuple[str, str]) -> Path:
    schema.write_text(changed(SCHEMA, *changes), encoding="utf-8")
    return schema


def test_an_analyst_spends_a_part_of_the_table(ada: dp_sql.Connection, schema: Path) -> None:
    ada.sql(COUNT, epsilon="0.4")
    with pytest.raises(BudgetExceededError) as failure:
        ada.sql(COUNT, epsilon="0.3")
    message = str(failure.value)
    assert " of the part of `orders` that is for ada; 0.1 of epsilon 0.5 is left" in message
    assert failure.value.hint == "epsilon = 0.1 would fit"
    ada.sql(COUNT, epsilon="0.1")
    with dp_sql.connect(schema, analyst="grace", reuse=False) as grace:
        grace.sql(COUNT, epsilon="0.4")
        with pytest.raises(BudgetExceededError) as failure:
            grace.sql(COUNT, epsilon="0.2")
        message = str(failure.value)
        assert "of `orders`; 0.1 of epsilon 1" in message
        assert "the part of `orders` that is for grace; 0.1 of epsilon 0.5" in message
        assert failure.value.hint == "epsilon = 0.1 would fit"
    with dp_sql.connect(schema, reuse=False) as owner:
        owner.sql(COUNT, epsilon="0.1")


def test_each_sees_the_table_and_his_or_her_own_part(ada: dp_sql.Connection, schema: Path) -> None:
    ada.sql(COUNT, epsilon="0.2")
    with (
        dp_sql.connect(schema, analyst="grace", reuse=False) as grace,
        dp_sql.connect(schema, reuse=False) as owner,
    ):
        seen = grace.budget()["orders"].lines()
        assert "  grace: epsilon: 0 % used, 0.5 left; Rényi: 0 % used" in "\n".join(seen)
        assert "ada" not in "\n".join(seen)
        assert seen[1] == (
            "for each month, not for all time; this month is 2026-11 until 2026-12-01 (UTC). "
            "Over several months a unit may lose the sum"
        )
        assert "epsilon: 20 % used, 0.8 left" in seen
        assert "each analyst: epsilon 0.5, delta 1e-06" in seen
        over_all = (
            "the budget of each `customer` over all tables, epsilon 2: epsilon: 10 % used, 1.8 left"
        )
        assert over_all in seen
        assert list(grace.ledger()) == []
        assert "  ada: epsilon: 40 % used, 0.3 left" in "\n".join(owner.budget()["orders"].lines())
        assert "2 like it fit" in grace.explain(COUNT, epsilon="0.2")
        assert "1 like it fits" in ada.explain(COUNT, epsilon="0.2")
        assert "4 like it fit" in owner.explain(COUNT, epsilon="0.2")
        assert ada.budget()["orders"].repeats == 1


def test_several_tables_are_one_charge_to_the_unit(schema: Path, clock: Clock) -> None:
    with dp_sql.connect(schema, reuse=False) as owner:
        explained = owner.explain(
            "SELECT COUNT(*) FROM orders JOIN visits USING (id)", epsilon="0.5"
        )
        assert (
            "Cost over all tables: epsilon 1\n"
            "  of the budget of each `customer` over all tables: takes epsilon 1 (50 %); 2 like it fit"
        ) in explained
        owner.sql("SELECT COUNT(*) FROM orders JOIN visits USING (id)", epsilon="0.125")
        first = owner.budget()["visits"].people
        assert first is not None
        assert first.spent.pure == 10**12 // 4
    with dp_sql.connect(schema, ledger=":memory:", reuse=False) as owner:
        result = owner.sql(BOTH, epsilon=1)
        spent = sum((cost.epsilon for cost in result.cost.values()), Fraction(0))
        people = owner.budget()["visits"].people
        assert people is not None
        assert people.spent.pure == spent * 10**12
        clock.day = "2026-12-01"  # the tables are renewed, the unit's budget isn't
        owner.sql("SELECT COUNT(*) FROM visits", epsilon=2 - spent)
        with pytest.raises(BudgetExceededError, match="each `customer` over all tables; nothing"):
            owner.sql(COUNT, epsilon="0.1")
        before = len(list(owner.ledger()))
        with pytest.raises(BudgetExceededError):
            owner.batch([COUNT, "SELECT COUNT(*) FROM visits"], epsilon="0.1")
        assert len(list(owner.ledger())) == before


def test_a_budget_over_all_tables_without_delta_has_laplace_noise(
    ada: dp_sql.Connection, schema: Path
) -> None:
    many = f"SELECT {', '.join(f'SUM(pay + {n})' for n in range(30))} FROM orders"
    assert "Laplace" in ada.explain(many, epsilon="0.5", delta="1e-7")
    edited(schema, ("budget: {epsilon: 2}", "budget: {epsilon: 2, delta: 1e-6}"))
    with dp_sql.connect(schema, ledger=":memory:", reuse=False) as owner:
        assert "Gaussian" in owner.explain(many, epsilon="0.5", delta="1e-7")


def test_a_batch_is_held_to_every_account(ada: dp_sql.Connection) -> None:
    with pytest.raises(BudgetExceededError, match="of the part of `orders` that is for ada"):
        ada.batch([COUNT, "SELECT SUM(pay) FROM orders"], epsilon="0.6")
    ada.batch([COUNT, "SELECT SUM(pay) FROM orders"], epsilon="0.5")
    with pytest.raises(BudgetExceededError, match="for ada; nothing"):
        ada.sql(COUNT, epsilon="0.001")


def test_a_new_month_has_the_budget_again_and_no_clock_has_it_twice(
    ada: dp_sql.Connection, clock: Clock
) -> None:
    ada.sql(COUNT, epsilon="0.5")
    clock.day = "2026-12-01"
    ada.sql(COUNT, epsilon="0.5")
    clock.day = "2026-11-01"
    with pytest.raises(BudgetExceededError, match="for ada; nothing"):
        ada.sql(COUNT, epsilon="0.1")
    said = "this month is 2026-12 until 2027-01-01 (UTC), begun early by a clock that was ahead."
    assert said in ada.budget()["orders"].lines()[1]
    assert "ada: epsilon 0 of 0.5, " in ada.budget()["orders"].left()
    assert "; each customer: epsilon 1 of 2; 0 more like this" in ada.budget()["orders"].left()


CHANGES = [
    ("renew: monthly", "renew: daily"),
    (", renew: monthly", ""),
    ("per_analyst: {epsilon: 0.5}", "per_analyst: {epsilon: 0.6}"),
    (", per_analyst: {epsilon: 0.5}", ""),
    (", budget: {epsilon: 2}", ""),
    ("budget: {epsilon: 2}", "budget: {epsilon: 3}"),
    ("unit: customer", "unit: client"),
    ("level: user", "level: user, adjacency: substitution"),
]


def test_no_edited_or_copied_schema_refills_anything(schema: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "l.ledger"
    with dp_sql.connect(schema, ledger=ledger, reuse=False) as owner:
        owner.sql(COUNT, epsilon="0.5")
    copy = schema.with_name("copy.yaml")
    copy.write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "linked").symlink_to(tmp_path)
    with (
        dp_sql.connect(tmp_path / "linked" / "copy.yaml", ledger=ledger, reuse=False) as again,
        pytest.raises(BudgetExceededError, match=r"0\.5 of epsilon 1 is left"),
    ):
        again.sql(COUNT, epsilon="0.6")
    for change in CHANGES:
        copy.write_text(changed(SCHEMA, change), encoding="utf-8")
        with pytest.raises(LedgerError, match=r"Editing a schema|over all tables|to protect"):
            dp_sql.connect(copy, ledger=ledger)
    assert check_schema(copy, ledger=ledger).errors > 0


def test_whatever_a_schema_is_called_the_data_have_one_ledger(schema: Path, tmp_path: Path) -> None:
    with dp_sql.connect(schema) as owner:
        owner.sql(COUNT, epsilon="0.9")
    assert schema.with_name("dp_sql.ledger").is_file()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "linked").symlink_to(tmp_path)
    folder = SCHEMA.replace('"duckdb://"', str(tmp_path / "linked"))
    places = ((tmp_path, None, SCHEMA), (elsewhere, tmp_path, SCHEMA), (elsewhere, None, folder))
    for number, (place, data, text) in enumerate(places):
        copy = place / f"{number}.yaml"
        copy.write_text(text, encoding="utf-8")
        with (
            dp_sql.connect(copy, data_dir=data) as again,
            pytest.raises(BudgetExceededError, match=r"0\.1\d* of epsilon 1 is left"),
        ):
            again.sql(COUNT, epsilon="0.5")
        shown = budgets_text(Where(copy, data_dir=data), None)
        assert "90 % used" in shown
        assert len(list(place.glob("*.ledger"))) == (1 if place == tmp_path else 0)


def test_a_ledger_under_its_former_name_is_not_forgotten(schema: Path) -> None:
    with dp_sql.connect(schema, ledger=schema.with_suffix(".ledger")) as owner:
        owner.sql(COUNT, epsilon=1)
    with pytest.raises(LedgerError, match="has the name of the schema") as failure:
        dp_sql.connect(schema)
    assert failure.value.hint is not None
    assert "ledger: shop.ledger" in failure.value.hint
    edited(schema, ("version: 1\n", "version: 1\nledger: shop.ledger\n"))
    with dp_sql.connect(schema) as owner, pytest.raises(BudgetExceededError):
        owner.sql(COUNT, epsilon="0.1")


def test_a_table_under_another_name_is_the_same_table(schema: Path, tmp_path: Path) -> None:
    with dp_sql.connect(schema, ledger=tmp_path / "l.ledger", reuse=False) as owner:
        owner.sql(COUNT, epsilon=1)
    renamed = edited(schema, ("  orders:\n", "  purchases:\n"))
    with (
        dp_sql.connect(renamed, ledger=tmp_path / "l.ledger", reuse=False) as owner,
        pytest.raises(BudgetExceededError, match="nothing of epsilon 1 is left"),
    ):
        owner.sql("SELECT COUNT(*) FROM purchases", epsilon="0.1")


def test_the_owner_raises_a_cap_and_the_budget_over_all_tables(
    ada: dp_sql.Connection, schema: Path
) -> None:
    ada.sql(COUNT, epsilon="0.5")
    edited(schema, ("{epsilon: 0.5}", "{epsilon: 0.75}"), ("{epsilon: 2}", "{epsilon: 3}"))
    where = Where(schema)
    for name in ("orders", "customer"):
        with pytest.raises(LedgerError, match="only the owner"):
            raise_budget(where, name, "ada", "")
    text = raise_budget(where, "orders", "owner", "ada has signed")
    assert "per analyst epsilon 0.75" in text
    assert "to epsilon 3" in raise_budget(where, "customer", "owner", "")
    with pytest.raises(ParameterError, match="no protected table 'client'"):
        raise_budget(where, "client", "owner", "")
    ada.sql(COUNT, epsilon="0.25")
    shown = budgets_text(where, "ada")
    assert "  raised; registered with epsilon 2\n" in shown
    assert "    ada: epsilon: 100 % used, 0 left" in shown
    assert ": ada has signed\n" in shown
    assert "each customer, over all tables\n" in shown
    assert "the schema declares another" not in shown
    entries = entries_text(where, None, None, (None, None), None)
    assert "orders, 2026-11" in entries
    assert "each customer" in entries
    assert verification_text(where, None)[1]
    assert check_schema(schema).errors == 0


@pytest.mark.parametrize(
    ("change", "message", "place"),
    [
        ("per_analyst: {epsilon: 6}", "one analyst may spend 6, and all together 5.", (15, 62)),
        ("per_analyst: {epsilon: 2, delta: 1e-5}", "one analyst may spend 1e-05", (15, 72)),
        ("per_analyst: {delta: 1e-7}", "per_analyst needs an epsilon.", (15, 39)),
        ("per_analyst: {epsilon: 2, delta: 0}", "needs a delta above 0.", (15, 72)),
    ],
)
def test_a_cap_that_makes_no_sense_is_refused(
    tmp_path: Path, change: str, message: str, place: tuple[int, int]
) -> None:
    where = "tables.orders.budget.per_analyst"
    error = error_of(changed(SHOP, ("accountant: renyi", change)), tmp_path)
    assert message in str(error)
    assert where in str(error)
    assert f"line {place[0]}, column {place[1]}" in str(error)


def test_the_budget_of_a_unit_over_all_tables_has_conditions(tmp_path: Path) -> None:
    for change, message in (
        (("  unit: customer\n", "  budget: {epsilon: 1}\n"), "a unit that has a name"),
        (("  unit: customer\n", "  unit: c\n  budget: {delta: 0}\n"), "needs an epsilon"),
    ):
        assert message in str(error_of(changed(SHOP, change), tmp_path))
    event = SCHEMA.replace("level: user", "level: event").replace("    owner: id\n", "")
    with pytest.raises(dp_sql.errors.SchemaError, match="at level event a unit is one row"):
        load_text(event, tmp_path)


def test_what_a_schema_says_of_accounts_is_in_the_catalog(tmp_path: Path) -> None:
    text = changed(
        SHOP,
        ("accountant: renyi", "renew: weekly, per_analyst: {epsilon: 2, delta: 4e-7}"),
        ("accountant: sequential", "accountant: sequential, per_analyst: {epsilon: 1}"),
        ("  unit: customer\n", "  unit: customer\n  budget: {epsilon: 9, delta: 2e-6}\n"),
    )
    catalog = load_text(text, tmp_path)
    half = Fraction(1, 10**6) / 2
    assert catalog.tables["orders"].budget == BudgetSpec(
        Fraction(5),
        2 * half,
        AccountantKind.RENYI,
        half,
        Renew.WEEKLY,
        None,
        Cap(Fraction(2), Fraction("4e-7"), Fraction("2e-7")),
    )
    items = catalog.tables["items"].budget
    assert items is not None
    assert items.cap == Cap(Fraction(1), 2 * half, 2 * half)
    assert catalog.people == BudgetSpec(
        Fraction(9), Fraction("2e-6"), AccountantKind.RENYI, Fraction("1e-6")
    )
