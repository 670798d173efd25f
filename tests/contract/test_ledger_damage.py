"""Files that are no ledger, damaged, locked, read-only, full, moved: one clear error, no lost charge."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from budget_cases import UNIT, budget, laplace, selection, statement
from ledger_cases import LARGE, new_ledger, run_children

from dp_sql.budget import open_ledger, store
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.record import OWNER
from dp_sql.errors import LedgerError
from dp_sql.schema.catalog import AccountantKind


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a closed ledger with six statements."""
    where = tmp_path / "shop.ledger"
    with new_ledger(where) as ledger:
        ledger.register("unused", "unused", UNIT, LARGE)
        for number in range(6):
            record = statement(f"SELECT {number}", "ada")
            ledger.reserve(record, {"a": laplace("0.5"), "b": laplace("0.25")})
    return where


def content(ledger: Ledger) -> object:
    entries = [(e.number, e.query_id, e.sql, e.spend, e.events) for e in ledger.entries()]
    return ledger.state("a"), ledger.state("b"), entries, ledger.raises()


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"folder of the ledger .* doesn't exist"):
        open_ledger(tmp_path / "nowhere" / "shop.ledger")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="is no file"):
        open_ledger(tmp_path)


def test_a_ring_of_links_is_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    with pytest.raises(LedgerError, match="can't be"):
        open_ledger(tmp_path / "one")


@pytest.mark.parametrize(
    "text", [b"x", b"orders,1\n" * 1000, b"SQLite format 3\x00" + b"\x00" * 20]
)
def test_a_file_of_somebody_else_is_left_as_it_is(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "orders.csv"
    path.write_bytes(text)
    with pytest.raises(LedgerError, match=r"is no ledger of dp_sql\. It was left as it is"):
        open_ledger(path)
    assert path.read_bytes() == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_database_of_somebody_else_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with raw(path) as other:
        other.execute("CREATE TABLE statements(id INTEGER PRIMARY KEY)")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="is no ledger"):
        open_ledger(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_empty_file_is_a_ledger_that_was_cut(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(LedgerError, match="is an empty file"):
        open_ledger(path)
    assert path.read_bytes() == b""


def test_a_log_without_its_ledger_is_not_taken_for_a_new_one(path: Path) -> None:
    path.rename(path.with_name("shop.ledger-wal"))
    with pytest.raises(LedgerError, match="-wal file was left behind"):
        open_ledger(path)
    assert not path.exists()


def test_a_ledger_of_another_layout_is_refused(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    with pytest.raises(LedgerError, match="layout 99"):
        open_ledger(path)


def test_a_ledger_without_its_tables_is_damaged(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("DROP TABLE schema_version")
    with pytest.raises(LedgerError, match="is damaged"):
        open_ledger(path)


@pytest.mark.parametrize(
    "rule",
    [
        "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE id = NEW.id; END",
        "CREATE TRIGGER t BEFORE INSERT ON statements BEGIN SELECT RAISE(IGNORE); END",
        "CREATE VIEW v AS SELECT 1",
        "DROP TRIGGER entries_follow_raises",
        """DROP TABLE schema_version; CREATE VIEW schema_version AS WITH RECURSIVE r(version) AS
        (SELECT 1 UNION ALL SELECT version FROM r) SELECT max(version) AS version FROM r""",
    ],
)
def test_a_ledger_with_rules_of_another_is_damaged(path: Path, rule: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(rule)
    with pytest.raises(LedgerError, match="damaged"):
        open_ledger(path)


def test_damaged_text_in_an_error_of_sqlite_is_damage_too(path: Path) -> None:
    # SQLite quotes the statement that made the table, which is no UTF-8 any more
    whole = path.read_bytes()
    assert whole.count(b"CREATE TABLE sums") == 1
    path.write_bytes(whole.replace(b"CREATE TABLE sums", b"CREATE TABLE \x8a \x8a "))
    with pytest.raises(LedgerError, match="is damaged"):
        open_ledger(path)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7])
def test_a_truncated_ledger_is_damaged(path: Path, share: float) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(LedgerError, match="is damaged"), open_ledger(path) as ledger:
        ledger.reserve(statement(), {"a": laplace("0.5")})


def test_verify_finds_a_cut_last_page(path: Path) -> None:
    with open_ledger(path) as ledger:  # the file ends with rows, not with a table that has none
        for _ in range(20):
            ledger.reserve(statement(), {"a": laplace("0.5")})
    path.write_bytes(path.read_bytes()[:-100])
    with open_ledger(path) as ledger:
        assert ledger.verify().problems != ()


def flips(path: Path, tries: int, seed: int) -> None:
    """Change bytes of the file: it is the same to all readers, or somebody says what is wrong."""
    with open_ledger(path) as ledger:
        higher = budget("2000000", "1e-6", AccountantKind.PURE, "0")
        ledger.raise_budget("a", higher, OWNER, "a new consent")
        before = content(ledger)
    whole = path.read_bytes()
    chances = random.Random(seed)
    noticed = 0
    for _ in range(tries):
        broken = bytearray(whole)
        place = chances.randrange(len(whole))
        broken[place] ^= chances.randrange(1, 256)
        path.write_bytes(broken)
        try:
            with open_ledger(path) as ledger:
                if ledger.verify().problems:
                    noticed += 1
                else:
                    assert content(ledger) == before, f"byte {place} changed what the ledger says"
        except LedgerError:
            noticed += 1
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    assert noticed > tries / 20


def test_a_changed_byte_is_noticed_or_harmless(path: Path) -> None:
    flips(path, tries=150, seed=1)


@pytest.mark.slow
def test_each_of_many_changed_bytes_is_noticed_or_harmless(path: Path) -> None:
    flips(path, tries=5000, seed=2)


EVENTS = json.dumps([{"v": 1, "event": "gaussian", "sigma": "9", "l2_squared": "1"}])


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET pure = '1' WHERE id = 3",
        "UPDATE entries SET rdp = '0' WHERE id = 3",
        "UPDATE entries SET delta = '7' WHERE id = 3",
        "UPDATE entries SET epsilon = '1e3' WHERE id = 3",
        f"UPDATE entries SET events = '{EVENTS}' WHERE id = 3",
        "UPDATE entries SET events = '[]' WHERE id = 3",
        "UPDATE entries SET events = 'x' WHERE id = 3",
        "UPDATE entries SET identity = 'b' WHERE id = 3",
        "UPDATE entries SET identity = 'z' WHERE id = 3",
        "UPDATE entries SET statement = 5 WHERE id = 3",
        "UPDATE entries SET statement = 99 WHERE id = 3",
        "UPDATE entries SET hash = previous WHERE id = 3",
        "UPDATE entries SET id = 300 WHERE id = 3",
        "DELETE FROM entries WHERE id = 3",
        "DELETE FROM entries WHERE id = 12",
        "DELETE FROM entries",
        "DELETE FROM statements WHERE id = 3",
        "UPDATE statements SET sql = 'SELECT 99' WHERE id = 3",
        "UPDATE statements SET sql_hash = 'x' WHERE id = 3",
        "UPDATE statements SET analyst = 'eve' WHERE id = 3",
        "UPDATE statements SET time = '2000-01-01' WHERE id = 3",
        "UPDATE statements SET query_id = 'x' WHERE id = 3",
        "UPDATE statements SET sql = x'ff' WHERE id = 3",
        "UPDATE tables SET epsilon = '9000000/1' WHERE identity = 'a'",
        "UPDATE tables SET adjacency = 'metric' WHERE identity = 'a'",
        "UPDATE tables SET level = 'x' WHERE identity = 'a'",
        "UPDATE tables SET alpha = '2.0' WHERE identity = 'a'",
        "UPDATE tables SET group_size = 0 WHERE identity = 'a'",
        "UPDATE tables SET epsilon = '1/0' WHERE identity = 'a'",
        "UPDATE tables SET selection_delta = '0/11' WHERE identity = 'a'",
        "UPDATE entries SET pure = '0' || pure WHERE id = 3",
        "UPDATE entries SET events = events || ' ' WHERE id = 3",
        "DELETE FROM tables WHERE identity = 'b'",
        "DELETE FROM tables WHERE identity = 'unused'",
        "UPDATE tables SET name = 'x' WHERE identity = 'unused'",
        "DELETE FROM sums WHERE identity = 'unused'",
        "UPDATE sums SET pure = '0' WHERE identity = 'a'",
        "UPDATE sums SET entries = 1 WHERE identity = 'a'",
        "UPDATE sums SET digest = 'x' WHERE identity = 'a'",
        "DELETE FROM sums WHERE identity = 'a'",
    ],
)
def test_verify_finds_what_was_changed_or_removed(path: Path, change: str) -> None:
    with raw(path) as connection:
        assert connection.execute(change).rowcount > 0
    with open_ledger(path) as ledger:
        assert ledger.verify().problems


def test_verify_names_the_entry_that_is_missing(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("DELETE FROM entries WHERE id = 3")
    with open_ledger(path) as ledger:
        assert ledger.verify().problems == (
            "Entry 3 is missing.",
            "Entry 4 doesn't follow the one before it.",
            "The sums of `a` are not those of its entries.",
        )


def test_verify_finds_a_table_that_is_over_its_budget(path: Path) -> None:
    with open_ledger(path) as ledger:
        rule = ledger.state("a").registration.rule
        assert ledger.verify().problems == ()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("dp_sql.budget.lines.fits", lambda *_: True)
            ledger.reserve(statement(), {"a": selection("0.01", "1e-3")})
        assert rule.selection_delta == 0
        assert ledger.verify().problems == (
            "The entries of `a` exceed its budget, from entry 13 on.",
        )


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE sums SET pure = '0' WHERE identity = 'a'",
        "UPDATE sums SET pure = '-1' WHERE identity = 'a'",
        "UPDATE sums SET pure = NULL WHERE identity = 'a'",
        "UPDATE sums SET pure = 'NaN' WHERE identity = 'a'",
        "DELETE FROM sums WHERE identity = 'a'",
        "UPDATE tables SET epsilon = '9000000/1' WHERE identity = 'a'",
    ],
)
def test_nothing_is_charged_on_top_of_sums_that_were_changed(path: Path, change: str) -> None:
    with raw(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        if "NULL" in change:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')")
            connection.execute("PRAGMA writable_schema = RESET")
        connection.execute(change)
    with open_ledger(path) as ledger:
        with pytest.raises(LedgerError, match="is damaged"):
            ledger.reserve(statement(), {"a": laplace("0.5")})
        assert len(list(ledger.entries())) == 12


def test_a_ledger_that_another_process_holds_is_locked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUSY_SECONDS", 0.2)
    with open_ledger(path) as ledger, raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="held by another process"):
            ledger.reserve(statement(), {"a": laplace("0.5")})
        with pytest.raises(LedgerError, match="held by another process"):
            open_ledger(path)
        assert ledger.state("a").statements == 6
        other.execute("ROLLBACK")
        ledger.reserve(statement(), {"a": laplace("0.5")})
        assert ledger.state("a").statements == 7


def test_a_reader_holds_up_nobody(path: Path) -> None:
    with open_ledger(path) as ledger, raw(path) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM entries").fetchall()
        ledger.reserve(statement(), {"a": laplace("0.5")})


@pytest.mark.parametrize("replaced", [False, True])
def test_a_ledger_that_is_taken_away_while_open_charges_nothing(
    path: Path, *, replaced: bool
) -> None:
    with open_ledger(path) as ledger:
        away = path.with_name("away")
        path.rename(away)
        if replaced:
            shutil.copy(away, path)
        with pytest.raises(LedgerError, match="moved, replaced or removed"):
            ledger.reserve(statement(), {"a": laplace("0.5")})
        away.replace(path)
        ledger.reserve(statement(), {"a": laplace("0.5")})
        assert ledger.state("a").statements == 7


class Stuck(sqlite3.Connection):
    """A connection whose transactions can't be rolled back."""

    def rollback(self) -> None:
        raise sqlite3.OperationalError("disk I/O error")


def test_a_connection_that_can_not_roll_back_is_replaced(path: Path) -> None:
    with open_ledger(path) as ledger:
        used = sqlite3.connect(path, isolation_level=None, factory=Stuck)
        used.row_factory = sqlite3.Row
        ledger._store._connection = used
        with pytest.raises(LedgerError, match="knows no table"):
            ledger.reserve(statement(), {"a": laplace("0.5"), "z": laplace("0.5")})
        ledger.reserve(statement(), {"a": laplace("0.5")})
        assert ledger._store._connection is not used
        assert ledger.state("a").statements == 7


def test_a_full_database_charges_nothing_and_recovers(path: Path) -> None:
    with open_ledger(path) as ledger:
        with ledger._store.transaction(write=False) as connection:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
        before = content(ledger)
        long = statement("SELECT " + "1 + " * 10_000 + "1")
        with pytest.raises(LedgerError, match="the disk is full"):
            ledger.reserve(long, {"a": laplace("0.5")})
        assert content(ledger) == before
        with ledger._store.transaction(write=False) as connection:
            connection.execute("PRAGMA max_page_count = 100000")
        ledger.reserve(long, {"a": laplace("0.5")})
        assert ledger.verify().problems == ()


@pytest.mark.parametrize("room", [1_000, 20_000, 50_001])
def test_a_disk_that_fills_up_takes_no_charge_away(path: Path, room: int) -> None:
    found = run_children("full_disk", path, room, "reserve")
    assert "can't" in found["message"]
    with open_ledger(path) as ledger:
        charged = [entry.query_id for entry in ledger.entries()][12:]
        assert set(found["told"]) <= set(charged)
        assert len(charged) <= len(found["told"]) + 1
        assert ledger.verify().problems == ()


@pytest.mark.parametrize("room", [1_000, 30_001])
def test_a_disk_that_fills_up_takes_no_raise_away(path: Path, room: int) -> None:
    found = run_children("full_disk", path, room, "raise")
    assert "can't" in found["message"]
    with open_ledger(path) as ledger:
        raised = [int(entry.epsilon) for entry in ledger.raises()]
        assert raised[: len(found["told"])] == found["told"]
        assert len(raised) <= len(found["told"]) + 1
        assert ledger.verify().problems == ()
        assert ledger.state("a").registration.budget.epsilon == (raised or [1_000_000])[-1]
        ledger.reserve(statement(), {"a": laplace("0.5")})


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """Yield a folder that every user may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o777), (0o666, 0o555), (0, 0o777)])
def test_a_ledger_that_may_not_be_written_is_refused_when_it_opens(
    public_folder: Path, file_mode: int, folder_mode: int
) -> None:
    path = public_folder / "shop.ledger"
    new_ledger(path).close()
    before = path.read_bytes()
    path.chmod(file_mode)
    public_folder.chmod(folder_mode)
    error = run_children("open_as_nobody", path)["error"]
    assert error.startswith(f"The ledger {path}")
    assert "can't be" in error
    assert path.read_bytes() == before


def test_a_ledger_is_not_made_in_a_folder_that_may_not_be_written(public_folder: Path) -> None:
    public_folder.chmod(0o555)
    error = run_children("open_as_nobody", public_folder / "shop.ledger")["error"]
    assert "can't be made" in error
    public_folder.chmod(0o700)
    error = run_children("open_as_nobody", public_folder / "shop.ledger")["error"]
    if os.geteuid() == 0:
        assert "can't be reached" in error
    assert list(public_folder.iterdir()) == []


def test_a_draft_that_was_left_behind_by_a_killed_process_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / ".shop.ledger.0123.new").write_bytes(b"half")
    with new_ledger(tmp_path / "shop.ledger") as ledger:
        assert ledger.reserve(statement(), {"a": laplace("0.5")}).statement == 1


def test_a_ledger_that_two_processes_make_at_once_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shop.ledger"
    link = os.link

    def too_late(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        new_ledger(path).close()  # the other process is quicker
        link(source, target)

    monkeypatch.setattr(os, "link", too_late)
    with open_ledger(path) as ledger:
        assert [known.identity for known in ledger.registrations()] == ["a", "b"]
    assert [file.name for file in tmp_path.iterdir()] == ["shop.ledger"]
