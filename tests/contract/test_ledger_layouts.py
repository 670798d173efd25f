"""A ledger that an earlier dp_sql wrote goes on: nothing is lost, and what is new works."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest
from budget_cases import UNIT, budget, laplace, statement

from dp_sql.budget import is_url, layout, open_ledger, postgres_layout
from dp_sql.budget.export import verify_export
from dp_sql.budget.record import Charge, Status
from dp_sql.errors import BudgetExceededError
from dp_sql.schema.catalog import AccountantKind

ORDERS, ITEMS = "/data/shop.parquet", "id:items"
PURE = budget("1", "1e-6", AccountantKind.PURE, "1e-6")


@pytest.fixture(params=["file", "postgres"])
def first(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """Return a ledger of layout 1."""
    if request.param == "file":
        return restored(tmp_path, "ledger_v1.sql")
    url = str(request.getfixturevalue("postgres"))
    rows = (Path(__file__).with_name("ledger_v1.sql").read_text(encoding="utf-8")).splitlines()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA dp_sql")
        connection.execute("SET search_path = dp_sql")
        for statement_of_layout in layout._FIRST:
            connection.execute(postgres_layout._portable(statement_of_layout).encode())
        for table in ("schema_version", "tables", "statements", "entries", "sums"):
            for row in rows:
                if row.startswith(f'INSERT INTO "{table}"'):
                    connection.execute(row.encode())
    return url


def restored(folder: Path, dump: str) -> Path:
    """Return a ledger made from the text that was dumped of one."""
    path = folder / "shop.ledger"
    text = Path(__file__).with_name(dump).read_text(encoding="utf-8")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA application_id = 0x64705371")
        connection.executescript(text)
    return path


def layout_of(path: str | Path) -> object:
    if is_url(path):
        with psycopg.connect(str(path)) as server:
            return server.execute("SELECT version FROM dp_sql.schema_version").fetchall()
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT version FROM schema_version").fetchall()


def test_a_ledger_of_layout_1_is_upgraded_and_keeps_everything(first: str | Path) -> None:
    assert layout_of(first) == [(1,)]
    with open_ledger(first) as ledger:
        assert ledger.verify().problems == ()
        assert ledger.verify().entries == 4
        assert [e.analyst for e in ledger.entries()] == ["ada", "grace", "grace", "owner"]
        assert [e.status for e in ledger.entries()][::3] == [Status.ANSWERED, Status.RESERVED]
        ledger.register(ORDERS, "orders", UNIT, PURE)
        assert ledger.state(ORDERS).spent.pure == 5 * 10**11
        assert ledger.state(ITEMS).spent.pure is None
        assert ledger.raises() == []
    assert layout_of(first) == [(layout.VERSION,)]


def test_a_ledger_of_layout_2_keeps_every_row_and_every_digest(tmp_path: Path) -> None:
    path = restored(tmp_path, "ledger_v2.sql")
    old = ("tables", "statements", "entries", "raises", "sums")
    with closing(sqlite3.connect(path)) as raw:
        before = {table: raw.execute(f"SELECT * FROM {table}").fetchall() for table in old}
    with open_ledger(path) as ledger:
        found = ledger.verify()
        assert (found.problems, found.entries) == ((), 5)
        exported = Path(__file__).with_name("ledger_v2.jsonl").read_text(encoding="utf-8")
        assert verify_export(exported.splitlines()) == found
        again: list[str] = []
        ledger.export(again.append)
        assert verify_export(again) == found
        with closing(sqlite3.connect(path)) as raw:
            assert before == {t: raw.execute(f"SELECT * FROM {t}").fetchall() for t in old}
        raised = budget("1.5", "1e-6", AccountantKind.PURE, "1e-6")
        ledger.register(ORDERS, "orders", UNIT, raised)
        ledger.register("new", "new", UNIT, replace(PURE, blocks="day"))
        days = Charge(laplace("0.5"), frozenset({"mon"}))
        ledger.reserve(statement(), {ORDERS: laplace("1"), "new": days})
        assert ledger.verify().problems == ()
    assert layout_of(path) == [(3,)]


def test_an_older_dp_sql_can_not_charge_a_table_that_has_accounts(first: str | Path) -> None:
    """It knows the digest of what a table had before, and finds another."""
    with open_ledger(first) as ledger:
        ledger.register("new", "new", UNIT, replace(PURE, blocks="day"))
        (known,) = (each for each in ledger.registrations() if each.identity == "new")
    assert replace(known, spec=PURE).digest != known.digest
    assert replace(known, people="people:x").digest != known.digest


def test_an_upgraded_ledger_can_be_spent_and_raised(first: str | Path) -> None:
    with open_ledger(first) as ledger:
        ledger.reserve(statement(), {ORDERS: laplace("0.5")})
        with pytest.raises(BudgetExceededError):
            ledger.reserve(statement(), {ORDERS: laplace("0.25")})
        higher = budget("2", "1e-6", AccountantKind.PURE, "1e-6")
        assert ledger.raise_budget(ORDERS, higher, "owner", "").budget == PURE
        ledger.reserve(statement(), {ORDERS: laplace("1")})
    with open_ledger(first) as ledger:
        assert ledger.state(ORDERS).registration.budget.epsilon == Fraction(2)
        assert ledger.verify().problems == ()
        assert ledger.verify().entries == 7


def test_many_upgrade_one_ledger_at_once(first: str | Path) -> None:
    def spend(_: int) -> None:
        with open_ledger(first) as ledger:
            ledger.reserve(statement(), {ITEMS: laplace("0.0625")})

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(spend, range(8)))
    with open_ledger(first) as ledger:
        assert ledger.verify().problems == ()
        assert ledger.verify().entries == 12


def test_an_older_dp_sql_that_has_the_ledger_open_can_not_reuse_the_number_of_a_raise(
    tmp_path: Path,
) -> None:
    first = restored(tmp_path, "ledger_v1.sql")
    with open_ledger(first) as ledger:
        ledger.raise_budget(ORDERS, budget("2", "1e-6", AccountantKind.PURE, "1e-6"), "owner", "")
    with closing(sqlite3.connect(first)) as old:
        copy = "SELECT MAX(id) + 1, statement, identity, pure, rdp, selection_delta, epsilon, delta"
        insert = f"INSERT INTO entries {copy}, events, previous, hash FROM entries"
        with pytest.raises(sqlite3.IntegrityError, match="follows the last raise"):
            old.execute(insert)
