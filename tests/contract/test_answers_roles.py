"""The store of answers in PostgreSQL: what one analyst paid is free to all, and a role can't spoil it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from attack.scene import schema, write
from ledger_cases import change, paid_for
from postgres_cluster import Cluster
from postgres_roles import login, url_of

import dp_sql
from dp_sql.budget import existing_ledger, open_answers, open_ledger, postgres_answers_layout
from dp_sql.budget.answers import Answer, Answers
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.record import StatementRecord
from dp_sql.cli.main import main
from dp_sql.errors import LedgerError
from dp_sql.privacy.cost import FREE

COUNT = "SELECT COUNT(*) FROM people"
PAID = {"of-grace": ["a"], "of-grace-too": ["a", "b"]}


@pytest.fixture
def roles(cluster: Cluster, worker: str) -> Iterator[tuple[str, str]]:
    """Yield two login roles that may do nothing yet."""
    with (
        login(cluster, worker, f"ada_{worker}") as ada,
        login(cluster, worker, f"grace_{worker}") as grace,
    ):
        yield ada, grace


@pytest.fixture
def owner(postgres: str, roles: tuple[str, str]) -> Iterator[Ledger]:
    with paid_for(postgres, PAID, "grace") as ledger:
        for role, analyst in zip(roles, ("ada", "grace"), strict=True):
            ledger.grant(role, analyst)
        yield ledger


@pytest.fixture
def ada(owner: Ledger, cluster: Cluster, database: str, roles: tuple[str, str]) -> Iterator[Ledger]:
    url = url_of(cluster, database, roles[0])
    assert owner
    with paid_for(url, {"of-ada": ["a"]}, "ada") as ledger:
        yield ledger


def store(ledger: Ledger) -> Answers:
    return open_answers(ledger.store.name, ledger)


def keep(ledger: Ledger, name: str, query: str, analyst: str, body: bytes = b"body") -> None:
    store(ledger).keep(name, query, ["a"], body, analyst)


def test_what_one_analyst_paid_another_is_shown_for_free(
    tmp_path: Path,
    postgres: str,
    cluster: Cluster,
    database: str,
    roles: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write(tmp_path, schema("event"))
    path.write_text(f'ledger: "{postgres}"\n{path.read_text()}')

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        return capsys.readouterr().out

    dp_sql.connect(path).close()
    urls = {}
    for name, role in zip(("ada", "grace"), roles, strict=True):
        assert "GRANT INSERT ON answers, seen TO" in run(
            "ledger", "grant", str(path), role, "--analyst", name
        )
        urls[name] = url_of(cluster, database, role)
    with dp_sql.connect(path, ledger=urls["grace"], analyst="grace") as connection:
        first = connection.sql(COUNT, epsilon="0.5").fetchall()
    for analyst in ("ada", "grace", None):
        place = urls.get(analyst or "", postgres)
        with dp_sql.connect(path, ledger=place, analyst=analyst) as connection:
            again = connection.sql(f"{COUNT} -- of {analyst}", epsilon="0.5")
            assert (again.fetchall(), again.cost) == (first, {})
            if analyst == "ada":
                assert [entry.sql for entry in connection.ledger()] == [f"{COUNT} -- of ada"]
                with pytest.raises(LedgerError, match="'ada' is an analyst"):
                    connection.refresh()
    assert run("answers", "show", str(path)).startswith("1 answer, ")
    assert "asked anew" in run("answers", "refresh", str(path))
    assert run("answers", "show", str(path)).startswith("0 answers, 0 of 64 MiB")
    with dp_sql.connect(path, ledger=urls["ada"], analyst="ada") as connection:
        assert connection.sql(COUNT, epsilon="0.5").cost
    assert run("answers", "clear", str(path)).startswith("1 answer forgotten")
    with dp_sql.connect(path) as connection:
        assert connection.sql(COUNT, epsilon="0.5").cost
        assert connection._ledger.verify().problems == ()


def test_a_role_finds_what_others_paid_and_not_who(ada: Ledger, owner: Ledger) -> None:
    keep(owner, "f", "of-grace", "grace")
    keep(ada, "g", "of-ada", "ada")
    assert store(ada).find("f", "ada") == Answer(b"body", seen=False)
    store(ada).saw(["f"], "ada")
    assert store(ada).find("f", "ada") == Answer(b"body", seen=True)
    assert store(owner).find("g", "grace") == Answer(b"body", seen=False)
    assert store(owner).find("f", "grace") == Answer(b"body", seen=True)
    with ada.store.transaction(write=False) as transaction:
        everything = [
            str(list(row))
            for table in ("answers", "seen", "versions", "statements")
            for row in transaction.execute(f"SELECT * FROM {table}")
        ]
        assert len(everything) == 5
    assert not [
        row for row in everything if "'grace'" in row or ("SELECT" in row and "of-ada" not in row)
    ]


FORGED = [
    "DELETE FROM answers",
    "DELETE FROM seen",
    "TRUNCATE answers, seen",
    "UPDATE answers SET body = ''",
    "UPDATE answers SET used = 9223372036854775807",
    (
        "INSERT INTO answers SELECT 'z', query_id, identities, body, size, used, root, noise, digest "
        "FROM answers"
    ),
    "INSERT INTO answers VALUES ('z', 'of-ada', '[\"b\"]', '', 0, 0, '', '', '')",
    "INSERT INTO answers VALUES ('z', 'of-ada', '[]', '', 0, 0, '', '', '')",
    "INSERT INTO answers VALUES ('z', 'nothing', '[\"a\"]', '', 0, 0, '', '', '')",
    "INSERT INTO seen VALUES ('f', 'grace')",
    "INSERT INTO versions VALUES ('a', 7, '')",
    "UPDATE versions SET version = 7",
    "UPDATE answers_layout SET version = 7",
    "SELECT nextval('answer_uses')",
    (
        "CREATE OR REPLACE FUNCTION charged_to(query TEXT) RETURNS TABLE (identity TEXT) LANGUAGE sql "
        "AS 'SELECT 1'"
    ),
    "DROP TRIGGER make_room ON answers",
]


def test_a_role_forges_no_answer_of_others_and_ends_none(ada: Ledger, owner: Ledger) -> None:
    keep(owner, "f", "of-grace", "grace")
    store(owner).refresh(["b"], "owner")
    for forged in FORGED:
        with pytest.raises(LedgerError, match=r"role may not|keeps what it holds"):
            pytest.fail(f"{forged} changed {change(ada, forged)} rows")
    for act in (lambda: store(ada).clear("owner"), lambda: store(ada).refresh(["a"], "owner")):
        with pytest.raises(LedgerError, match="role may not"):
            act()
    assert store(owner).find("f", "grace") == Answer(b"body", seen=True)
    assert store(owner).size() == (1, 4)


def test_a_statement_that_was_free_pays_for_no_answer(ada: Ledger, owner: Ledger) -> None:
    ada.reserve(StatementRecord("free", "ada", "SELECT 1"), {"a": FREE})
    keep(ada, "f", "free", "ada")
    assert store(owner).size() == (0, 0)
    keep(ada, "f", "of-ada", "ada")
    assert store(owner).size() == (1, 4)


def test_a_made_up_answer_names_its_maker_and_a_false_digest_is_no_answer(
    ada: Ledger, owner: Ledger
) -> None:
    change(ada, "INSERT INTO answers VALUES ('f', 'of-ada', '[\"a\"]', 'x', 99, -5, '', '', 'no')")
    with owner.store.transaction(write=False) as transaction:
        found = transaction.execute(
            "SELECT a.size, a.used > 0, s.analyst FROM answers AS a JOIN statements AS s USING (query_id)"
        ).fetchone()
    assert list(found) == [1, True, "ada"]
    assert store(ada).find("f", "ada") is None
    assert store(owner).find("f", "owner") is None  # and it is gone
    keep(owner, "f", "of-grace", "grace")
    assert store(ada).find("f", "ada") == Answer(b"body", seen=False)


def test_what_was_used_longest_ago_makes_room(ada: Ledger, owner: Ledger) -> None:
    text = "SELECT pg_get_functiondef('make_room()'::regprocedure) AS it".replace("::", r"\:\:")
    with owner.store.transaction(write=True) as transaction:
        made = transaction.execute(text).fetchone()["it"]
        smaller = made.replace("> 10000", "> 3").replace(f"> {64 * 2**20}", "> 10")
        assert smaller.count("> 3 OR") == smaller.count("> 10 LOOP") == 1
        transaction.execute(smaller.replace(":", r"\:"))
    for name in "abc":
        keep(ada, name, "of-ada", "ada", b"1")
    change(ada, "SELECT use_answer('a')")
    keep(ada, "d", "of-ada", "ada", b"1")
    assert [name for name in "abcd" if store(ada).find(name, "ada")] == ["a", "c", "d"]
    keep(ada, "e", "of-ada", "ada", b"12345678")
    assert [name for name in "abcde" if store(ada).find(name, "ada")] == ["a", "d", "e"]
    keep(ada, "f", "of-ada", "ada", b"12345678901")
    assert store(ada).size() == (0, 0)
    assert store(ada).find("e", "ada") is None


def test_a_ledger_from_before_it_had_answers_gets_them_from_its_owner(
    ada: Ledger,
    owner: Ledger,
    postgres: str,
    roles: tuple[str, str],
    cluster: Cluster,
    database: str,
) -> None:
    keep(owner, "f", "of-grace", "grace")
    for table in ("answers_layout", "seen", "answers", "versions"):
        change(owner, f"DROP TABLE {table}")
    change(owner, "DROP SEQUENCE answer_uses")
    for function in ("charged_to", "use_answer", "only_paid", "make_room"):
        change(owner, f"DROP FUNCTION {function}")
    url = url_of(cluster, database, roles[0])
    with open_ledger(url) as ledger:  # it may not make them, and asks as before
        assert store(ledger).versions(["a"]) is None
        assert store(ledger).find("f", "ada") is None
        keep(ledger, "f", "of-ada", "ada")
        assert store(ledger).size() == (0, 0)
    found = existing_ledger(postgres)
    assert found is not None
    with found:
        assert store(ada).find("f", "ada") is None  # not granted yet
        found.grant(roles[0], "ada")
        keep(ada, "f", "of-ada", "ada")
        assert store(found).find("f", "owner") == Answer(b"body", seen=False)
        assert store(ada).find("f", "ada") == Answer(b"body", seen=True)
        later = f"UPDATE answers_layout SET version = {postgres_answers_layout.VERSION + 1}"
        change(found, later)
    open_ledger(postgres).close()


def test_a_roles_own_tables_and_functions_get_around_nothing(
    ada: Ledger, owner: Ledger, cluster: Cluster, database: str, roles: tuple[str, str]
) -> None:
    keep(owner, "f", "of-grace", "grace")
    assert ada
    looks = (
        "CREATE FUNCTION pg_temp.leak(text) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN "
        "IF $1 LIKE '%grace%' THEN RAISE EXCEPTION 'leaked %', $1; END IF; RETURN true; END $$"
    )
    forged = "INSERT INTO dp_sql.answers VALUES ('z', 'of-ada', '[\"b\"]', '', 0, 0, '')"
    with psycopg.connect(url_of(cluster, database, roles[0]), autocommit=True) as raw:
        raw.execute(looks.encode())
        for table, column in (("statements", "sql || analyst"), ("seen", "analyst")):
            asked = f"SELECT count(*) FROM dp_sql.{table} WHERE pg_temp.leak({column})"
            assert raw.execute(asked.encode()).fetchone() == (int(table == "statements"),)
        for table in ("statements", "entries"):
            raw.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM dp_sql.{table}".encode())
        raw.execute("UPDATE pg_temp.entries SET identity = 'b'")
        raw.execute("SET search_path = pg_temp, dp_sql")
        assert raw.execute("SELECT identity FROM charged_to('of-ada')").fetchall() == [("a",)]
        with pytest.raises(psycopg.DatabaseError, match="nobody paid for it"):
            raw.execute(forged.encode())
        for setting in ("row_security = off", "session_replication_role = replica", "ROLE owner"):
            with pytest.raises(psycopg.DatabaseError):
                raw.execute(f"SET {setting}; SELECT * FROM dp_sql.statements".encode())
    assert store(owner).size() == (1, 4)


def test_a_child_and_threads_go_on_with_it(owner: Ledger) -> None:
    keep(owner, "f", "of-grace", "grace")
    child = os.fork()
    if child == 0:
        os._exit(int(store(owner).find("f", "grace") is None))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def work(start: int) -> None:
        for number in range(start, start + 10):
            keep(owner, str(number), "of-grace", "grace")
            store(owner).find(str(number - 5), "ada")

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store(owner).size() == (16, 64)
