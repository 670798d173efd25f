"""The store of answers: what it finds was paid for, it stays small, and any damage is an empty store."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from ledger_cases import paid_for

from dp_sql.budget import answers, open_answers
from dp_sql.budget.answers import Answer, Answers, store_beside
from dp_sql.errors import LedgerError

PAID = {"q1": frozenset({"t"}), "q2": frozenset({"t", "u"})}


def charged(query_id: str) -> frozenset[str]:
    return PAID.get(query_id, frozenset())


@pytest.fixture(params=["file", "memory", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Answers]:
    if request.param == "postgres":
        with paid_for(str(request.getfixturevalue("emptied")), PAID) as ledger:
            yield open_answers(ledger.store.name, ledger)
        return
    made = Answers(tmp_path / "x.answers" if request.param == "file" else None, charged)
    yield made
    made.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.answers"


def keep(store: Answers, name: str = "f", body: bytes = b"body", query: str = "q1") -> None:
    store.keep(name, query, ["t"], body, "ada")


def test_what_was_kept_is_found_by_everybody_and_seen_by_who_drew_it(store: Answers) -> None:
    assert store.find("f", "ada") is None
    keep(store)
    assert store.find("f", "ada") == Answer(b"body", seen=True)
    assert store.find("f", "eve") == Answer(b"body", seen=False)
    store.saw(["f", "unknown"], "eve")
    assert store.find("f", "eve") == Answer(b"body", seen=True)
    assert store.find("g", "ada") is None
    assert store.size() == (1, 4)


def test_the_first_answer_stays_and_whoever_drew_another_has_not_seen_it(store: Answers) -> None:
    keep(store)
    store.keep("f", "q2", ["t"], b"another", "eve")
    assert store.find("f", "eve") == Answer(b"body", seen=False)


@pytest.mark.parametrize(("query", "tables"), [("q9", ["t"]), ("q1", ["t", "u"]), ("q1", ["u"])])
def test_an_answer_that_the_ledger_did_not_charge_is_none(
    store: Answers, query: str, tables: list[str]
) -> None:
    store.keep("f", query, tables, b"free", "ada")
    assert store.find("f", "ada") is None
    assert store.size() == (0, 0)  # so the next one, which is paid, is kept
    store.keep("f", "q2", tables, b"paid", "ada")
    assert store.find("f", "ada") == Answer(b"paid", seen=True)


def test_answers_of_one_root_are_found_together_where_they_were_paid(store: Answers) -> None:
    for name, root in (("a", "r"), ("b", "r"), ("c", "s"), ("d", "")):
        store.keep(name, "q1", ["t"], name.encode(), "ada", root, f"noise of {name}")
    store.keep("free", "q1", ["u"], b"free", "ada", "r", "")
    assert [one.body for one in store.alike("r", "eve")] == [b"b", b"a"]
    assert store.alike("r", "ada")[1] == Answer(b"a", seen=True, noise="noise of a")
    assert store.alike("r", "eve")[1] == Answer(b"a", seen=False, noise="noise of a")
    assert store.find("free", "ada") is None  # nobody paid for it, so it is forgotten
    assert store.alike("", "ada") == store.alike("x", "ada") == []
    store.refresh(["t"], "owner")
    assert store.alike("r", "ada") == []


def test_a_refresh_forgets_what_reads_the_table_and_counts_for_it_alone(store: Answers) -> None:
    store.keep("both", "q2", ["t", "u"], b"", "ada")
    store.keep("one", "q2", ["u"], b"", "ada")
    assert store.versions(["t"]) == {"t": answers.Version(0, "")}
    assert store.refresh(["t"], "owner")["t"].number == 1
    assert store.find("both", "ada") is None
    assert store.find("one", "ada") is not None
    store.refresh(["t"], "owner")
    found = store.versions(["t", "u"])
    assert found is not None
    assert [found["t"].number, found["u"].number] == [2, 0]
    assert found["t"].time > "2025"


def test_clearing_forgets_answers_and_keeps_versions(store: Answers) -> None:
    store.refresh(["t"], "owner")
    keep(store)
    keep(store, "g")
    assert store.clear("owner") == 2
    assert store.size() == (0, 0)
    found = store.versions(["t"])
    assert found is not None
    assert found["t"].number == 1
    keep(store)
    assert store.find("f", "eve") == Answer(b"body", seen=False)


def test_analysts_neither_refresh_nor_clear(store: Answers) -> None:
    keep(store)
    for act in (lambda: store.refresh(["t"], "ada"), lambda: store.clear("ada")):
        with pytest.raises(LedgerError, match="'ada' is an analyst"):
            act()
    assert store.size() == (1, 4)


def test_what_was_used_longest_ago_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Answers(tmp_path / "x.answers", charged)
    monkeypatch.setattr(answers, "MOST_ANSWERS", 3)
    monkeypatch.setattr(answers, "_RECENT", 0)
    for name in "abc":
        keep(store, name)
    assert store.find("a", "ada") is not None
    keep(store, "d")
    assert [name for name in "abcd" if store.find(name, "ada")] == ["a", "c", "d"]
    monkeypatch.setattr(answers, "MOST_BYTES", 10)
    keep(store, "e", b"12345678")
    assert [name for name in "abcde" if store.find(name, "ada")] == ["e"]
    monkeypatch.setattr(answers, "MOST_BYTES_OF_ONE", 8)
    keep(store, "f", b"123456789")
    assert store.find("f", "ada") is None
    assert store.size() == (1, 8)


@pytest.mark.parametrize(
    "column", ["fingerprint", "query_id", "identities", "body", "root", "noise", "digest"]
)
@pytest.mark.parametrize("value", [b"g", "g", None, 7, b"\xff"])
def test_a_changed_row_is_none(path: Path, column: str, value: object) -> None:
    store = Answers(path, charged)
    keep(store)
    with closing(sqlite3.connect(path)) as connection, connection:
        try:
            connection.execute(f"UPDATE answers SET {column} = CAST(? AS BLOB)", (value,))
        except sqlite3.IntegrityError:
            return  # no NULLs
    assert store.find("f", "ada") is None
    store.refresh(["t"], "owner")
    assert store.size()[0] == 0 or column == "fingerprint"
    keep(store)
    assert store.find("f", "ada") == Answer(b"body", seen=True)


def test_an_answer_can_not_be_given_another_name(path: Path) -> None:
    store = Answers(path, charged)
    keep(store)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE answers SET fingerprint = 'g'")
    assert store.find("g", "ada") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"no database at all" * 100),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
        lambda path: _execute(path, "DROP TABLE answers"),
        lambda path: path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 12000),
    ],
)
def test_a_damaged_file_is_an_empty_store(path: Path, damage: object) -> None:
    store = Answers(path, charged)
    for number in range(40):
        keep(store, str(number), b"x" * 500)
    damage(path)  # type: ignore[operator]
    found = [store.find(str(number), "ada") for number in range(40)]
    assert not any(found)
    for _ in range(3):  # the first tries may be what finds the damage
        keep(store, "new")
        store.find("new", "ada")
    assert store.find("new", "ada") == Answer(b"body", seen=True)


def test_a_store_of_another_layout_is_replaced(path: Path) -> None:
    store = Answers(path, charged)
    keep(store)
    store.close()
    _execute(path, "PRAGMA user_version = 99")
    assert store.find("f", "ada") is None
    keep(store)
    assert store.find("f", "ada") is not None


def test_a_forked_child_opens_its_own(path: Path) -> None:
    for store in (Answers(path, charged), Answers(None, charged)):
        keep(store)
        store._lock.acquire()  # as if another thread were in it
        child = os.fork()
        if child == 0:
            found = store.find("f", "ada") is not None
            keep(store, "child")
            os._exit(int(found != (store._path is not None)))
        store._lock.release()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert store.find("f", "ada") is not None
        assert (store.find("child", "ada") is not None) == (store._path is not None)


def _execute(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql)


def test_a_store_that_can_not_be_written_finds_nothing_and_raises_for_acts_alone(
    tmp_path: Path,
) -> None:
    store = Answers(tmp_path / "none" / "x.answers", charged)
    keep(store)
    store.saw(["f"], "ada")
    assert store.find("f", "ada") is None
    assert store.versions(["t"]) is None
    assert store.size() == (0, 0)
    with pytest.raises(LedgerError, match="can't be written"):
        store.refresh(["t"], "owner")
    with pytest.raises(LedgerError, match="can't be written"):
        store.clear("owner")


def test_a_locked_store_finds_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_WAIT_SECONDS", 0.01)
    store = Answers(path, charged)
    keep(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert store.find("f", "ada") is None
        assert store.versions(["t"]) is None
        other.execute("ROLLBACK")
    assert store.find("f", "ada") is not None


def test_threads_share_a_store(store: Answers) -> None:
    def work(start: int) -> None:
        for number in range(start, start + 20):
            keep(store, str(number))
            store.find(str(number - 5), "eve")

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.size() == (40, 160)


def test_the_file_lies_beside_the_ledger_and_is_its_owners(tmp_path: Path) -> None:
    assert store_beside(":memory:") is None
    (tmp_path / "link").symlink_to(tmp_path / "x.ledger")
    place = store_beside(tmp_path / "link")
    assert place == tmp_path / "x.ledger.answers"
    keep(Answers(place, charged))
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    names = {file.name for file in tmp_path.glob("*.answers*")}
    assert names == {"x.ledger.answers", "x.ledger.answers-journal"}
