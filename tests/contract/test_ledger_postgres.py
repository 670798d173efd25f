"""A ledger in PostgreSQL: its transactions, hostile settings, and what a lost server does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from budget_cases import budget, laplace, statement
from ledger_cases import new_ledger
from postgres_cluster import Cluster

from dp_sql.budget import (
    existing_ledger,
    open_ledger,
    rows,
    store,
)
from dp_sql.budget.accountant import EPSILON_UNITS
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.record import Status
from dp_sql.errors import LedgerError
from dp_sql.schema.catalog import AccountantKind

ONE = budget("1", "1e-6", AccountantKind.PURE, "1e-6")
HALF = {"a": laplace("0.5")}


@pytest.fixture
def ledger(postgres: str) -> Iterator[Ledger]:
    with new_ledger(postgres, ONE) as opened:
        yield opened


def spent(ledger: Ledger) -> object:
    return ledger.state("a").spent.pure


def backend(ledger: Ledger) -> int:
    """Return the process of the server that a ledger's connection talks to."""
    with ledger._store.transaction(write=False) as transaction:
        return int(transaction.execute("SELECT pg_backend_pid() AS pid").fetchone()["pid"])


def ended(cluster: Cluster, pid: int) -> None:
    cluster.run(f"SELECT pg_terminate_backend({pid}, 5000)")


# what a transaction promises


def test_a_commit_is_on_disk_before_it_returns_and_nobody_else_writes(
    ledger: Ledger, cluster: Cluster, database: str
) -> None:
    def setting(transaction: store.Transaction, name: str) -> str:
        found = transaction.execute("SELECT current_setting(:name) AS it", {"name": name})
        return str(found.fetchone()["it"])

    locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND mode = "
    with ledger._store.transaction(write=True) as transaction:
        assert setting(transaction, "synchronous_commit") == "on"
        assert setting(transaction, "transaction_isolation") == "read committed"
        assert setting(transaction, "lock_timeout") == "10s"
        assert setting(transaction, "statement_timeout") == "0"
        assert setting(transaction, "idle_in_transaction_session_timeout") == "30s"
        assert cluster.run(f"{locks}'ExclusiveLock'", database=database) == [(1,)]
    with ledger._store.note() as transaction:
        assert setting(transaction, "synchronous_commit") == "off"
    with ledger._store.transaction(write=True) as transaction:
        assert setting(transaction, "synchronous_commit") == "on"
    with ledger._store.transaction(write=False) as transaction:
        assert setting(transaction, "transaction_isolation") == "repeatable read"
        assert setting(transaction, "transaction_read_only") == "on"
        assert setting(transaction, "idle_in_transaction_session_timeout") == "0"
        assert cluster.run(f"{locks}'ExclusiveLock'", database=database) == [(0,)]


def test_a_pooler_that_lends_the_session_finds_it_as_it_was(ledger: Ledger) -> None:
    connection: Any = ledger._store._connection  # type: ignore[attr-defined]
    driver = connection.connection.driver_connection
    shown = "SELECT current_setting('search_path'), current_setting('synchronous_commit')"
    before = driver.execute(shown).fetchone()
    assert before == ('"$user", public', "on")
    driver.rollback()
    ledger.reserve(statement(), HALF)
    assert driver.execute(shown).fetchone() == before
    driver.rollback()
    driver.autocommit = True
    driver.execute("DISCARD ALL")  # what a pooler does between two clients
    driver.autocommit = False
    ledger.reserve(statement(), HALF)
    assert spent(ledger) == EPSILON_UNITS


def test_a_ledger_that_another_process_holds_is_locked_for_writers_alone(
    ledger: Ledger, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUSY_SECONDS", 0.7)
    with open_ledger(postgres) as other:
        with other._store.transaction(write=True):
            with pytest.raises(LedgerError, match=r"held by another process for 0\.7 seconds"):
                ledger.reserve(statement(), HALF)
            with pytest.raises(LedgerError, match="held by another process"):
                open_ledger(postgres)
            assert spent(ledger) == 0
        ledger.reserve(statement(), HALF)
        with other._store.transaction(write=False) as reader:
            list(reader.execute("SELECT * FROM entries"))
            ledger.reserve(statement(), HALF)  # a reader holds up nobody


def test_a_failed_transaction_is_never_taken_for_a_committed_one(ledger: Ledger) -> None:
    # PostgreSQL answers the COMMIT of a failed transaction without an error
    with (
        pytest.raises(LedgerError, match="failed"),
        ledger._store.transaction(write=True) as transaction,
        suppress(Exception),
    ):
        transaction.execute("SELECT 1/0")
    ledger.reserve(statement(), HALF)


# lost connections


def test_a_connection_that_was_lost_between_statements_is_replaced(
    ledger: Ledger, cluster: Cluster
) -> None:
    for _ in range(2):
        ended(cluster, backend(ledger))
        ledger.reserve(statement(), HALF)
    assert spent(ledger) == EPSILON_UNITS
    ended(cluster, backend(ledger))
    assert ledger.verify().problems == ()


def test_a_layout_that_is_not_known_any_more_is_refused_again_and_again(
    ledger: Ledger, cluster: Cluster, database: str
) -> None:
    pid = backend(ledger)
    later = "UPDATE dp_sql.schema_version SET version = 99"  # as a later dp_sql does
    cluster.run("SET session_replication_role = replica", later, database=database)
    ended(cluster, pid)
    for _ in range(3):
        with pytest.raises(LedgerError, match="layout 99"):
            ledger.reserve(statement(), HALF)


def test_a_connection_that_is_lost_in_a_transaction_charges_nothing(
    ledger: Ledger, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = backend(ledger)
    put_sums = rows.put_sums

    def interrupted(*arguments: Any) -> None:
        put_sums(*arguments)
        ended(cluster, victim)

    monkeypatch.setattr(rows, "put_sums", interrupted)
    with pytest.raises(LedgerError, match="lost its connection"):
        ledger.reserve(statement(), HALF)
    monkeypatch.undo()
    assert spent(ledger) == 0
    assert list(ledger.entries()) == []
    ledger.reserve(statement(), HALF)
    assert ledger.verify().problems == ()


@pytest.mark.parametrize("arrived", [False, True])
def test_a_commit_that_nobody_knows_of_is_an_error_and_its_charge_may_stand(
    ledger: Ledger, *, arrived: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialect: Any = ledger._store._engine.dialect  # type: ignore[attr-defined]

    def cut_off(driver: Any) -> None:
        if arrived:
            driver.commit()
        driver.driver_connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(dialect, "do_commit", cut_off)
    with pytest.raises(LedgerError, match="lost its connection"):
        ledger.reserve(statement(), HALF)
    monkeypatch.undo()
    assert [entry.status for entry in ledger.entries()] == [Status.RESERVED] * arrived
    assert spent(ledger) == EPSILON_UNITS // 2 * arrived
    ledger.reserve(statement(), HALF)
    assert ledger.verify().problems == ()


# what is no ledger


def test_a_schema_of_somebody_else_is_left_as_it_is(
    postgres: str, cluster: Cluster, database: str
) -> None:
    cluster.run("CREATE SCHEMA dp_sql", "CREATE TABLE dp_sql.cats (id int)", database=database)
    for opens in (open_ledger, existing_ledger):
        with pytest.raises(LedgerError, match=r"is no ledger of dp_sql\. It was left as it is"):
            opens(postgres)
    found = "SELECT count(*) FROM pg_class WHERE relnamespace = 'dp_sql'::regnamespace"
    assert cluster.run(found, database=database) == [(1,)]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("139999 AS version, false", "older than PostgreSQL 14"),
        ("150000 AS version, true", "standby"),
    ],
)
def test_a_server_that_is_too_old_or_only_follows_is_refused(
    postgres: str, monkeypatch: pytest.MonkeyPatch, said: str, message: str
) -> None:
    asked = f"SELECT {said} AS standby, false AS made, false AS filled"
    monkeypatch.setattr("dp_sql.budget.postgres._SERVER", asked)
    for opens in (open_ledger, existing_ledger):
        with pytest.raises(LedgerError, match=message):
            opens(postgres)


def test_looking_for_a_ledger_makes_none(postgres: str) -> None:
    assert existing_ledger(postgres) is None
    open_ledger(postgres).close()
    found = existing_ledger(postgres)
    assert found is not None
    with found:
        assert found.registrations() == []


@pytest.mark.parametrize(
    ("ruin", "message"),
    [
        ("UPDATE dp_sql.schema_version SET version = 99", "layout 99"),
        ("DELETE FROM dp_sql.schema_version", "layout none"),
        ("DROP TABLE dp_sql.sums", "is damaged"),
        ("ALTER TABLE dp_sql.sums DROP COLUMN digest", "is damaged"),
    ],
)
def test_a_ledger_in_ruins_is_an_error(
    postgres: str, cluster: Cluster, database: str, ruin: str, message: str
) -> None:
    new_ledger(postgres).close()
    cluster.run("SET session_replication_role = replica", ruin, database=database)
    with pytest.raises(LedgerError, match=message), open_ledger(postgres) as ledger:
        ledger.reserve(statement(), HALF)


def test_text_that_postgresql_can_not_hold_is_an_error_and_charges_nothing(ledger: Ledger) -> None:
    for sql in ("SELECT '\0'", "SELECT '\ud800'"):
        with pytest.raises(LedgerError, match="can't hold such a"):
            ledger.reserve(statement(sql), HALF)
    assert spent(ledger) == 0
    odd = "SELECT 'a:b', 5 % 2, '%s %(x)s', $1, \"\\\" -- Ünü 🐈"
    ledger.reserve(statement(odd), HALF)
    assert [entry.sql for entry in ledger.entries()] == [odd]


# a role and a database that are set against us


EVIL = """
CREATE SCHEMA evil;
CREATE TABLE evil.called (name text);
CREATE FUNCTION evil.current_schema() RETURNS name LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO evil.called VALUES ('current_schema'); RETURN 'evil'; END $$;
CREATE FUNCTION evil.version() RETURNS text LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO evil.called VALUES ('version'); RETURN 'PostgreSQL 15.0'; END $$;
CREATE FUNCTION evil.pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO evil.called VALUES ('lock'); END $$;
CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO evil.called VALUES ('current_setting'); RETURN 'on'; END $$;
CREATE FUNCTION evil.same(text, text) RETURNS boolean LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO evil.called VALUES ('='); RETURN true; END $$;
CREATE OPERATOR evil.= (FUNCTION = evil.same, LEFTARG = text, RIGHTARG = text);
CREATE TABLE evil.sums (LIKE dp_sql.sums);
CREATE TABLE evil.schema_version (version int);
GRANT ALL ON SCHEMA evil TO PUBLIC;
GRANT ALL ON ALL TABLES IN SCHEMA evil TO PUBLIC
"""
HOSTILE = {
    "search_path": "evil, pg_temp, pg_catalog, dp_sql",
    "default_transaction_isolation": "'serializable'",
    "default_transaction_read_only": "on",
    "synchronous_commit": "off",
    "lock_timeout": "'1ms'",
    "standard_conforming_strings": "off",
}


def test_settings_of_a_database_change_nothing(
    postgres: str, cluster: Cluster, database: str
) -> None:
    new_ledger(postgres, ONE).close()
    settings = [f"ALTER DATABASE {database} SET {name} = {v}" for name, v in HOSTILE.items()]
    cluster.run(EVIL, database=database)
    try:
        cluster.run(*settings)
        with open_ledger(postgres) as one, open_ledger(postgres) as other:
            one.reserve(statement("SELECT '\\'"), HALF)
            other.reserve(statement(), HALF)
            with pytest.raises(Exception, match="Asked epsilon"):
                one.reserve(statement(), HALF)
            assert one.verify().problems == ()
            assert next(one.entries()).sql == "SELECT '\\'"
    finally:
        cluster.run(f"ALTER DATABASE {database} RESET ALL")
    called = cluster.run("SELECT name FROM evil.called", database=database)
    left = cluster.run("SELECT count(*) FROM evil.sums", database=database)
    cluster.run("DROP SCHEMA evil CASCADE", database=database)
    assert called == []
    assert left == [(0,)]
