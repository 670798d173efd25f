"""Roles of a PostgreSQL server: an analyst's role asks, sees its own, and can change nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from attack.scene import schema, write
from budget_cases import UNIT, budget, laplace, statement
from ledger_cases import change, new_ledger
from postgres_cluster import PASSWORD, Cluster
from postgres_roles import SECRET, login, url_of

import dp_sql
from dp_sql.budget import open_ledger
from dp_sql.budget.accountant import EPSILON_UNITS
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.record import OWNER, Asked, Status
from dp_sql.cli.main import main
from dp_sql.errors import BudgetExceededError, LedgerError
from dp_sql.schema.catalog import AccountantKind, Cap, Renew

ONE = budget("1", "1e-6", AccountantKind.PURE, "1e-6")
TERMS = replace(
    ONE, renew=Renew.MONTHLY, cap=Cap(Fraction(1, 2), Fraction(1, 10**6), Fraction(1, 10**6))
)
QUARTER = {"a": laplace("0.25")}


@pytest.fixture
def role(cluster: Cluster, worker: str) -> Iterator[str]:
    """Yield a login role that may do nothing yet, with a name that needs quotes."""
    with login(cluster, worker, f'ada "{worker}"') as name:
        yield name


@pytest.fixture
def owner(postgres: str) -> Iterator[Ledger]:
    with new_ledger(postgres, ONE) as opened:
        opened.register("t", "t", UNIT, TERMS)
        yield opened


@pytest.fixture
def url(cluster: Cluster, database: str, role: str) -> str:
    return url_of(cluster, database, role)


@pytest.fixture
def ada(owner: Ledger, role: str, url: str) -> Iterator[Ledger]:
    owner.grant(role, "ada")
    owner.reserve(
        statement("SELECT 'of grace'", "grace"), {"a": laplace("0.25"), "t": laplace("0.25")}
    )
    owner.raise_budget("b", budget("2", "1e-6", AccountantKind.PURE, "1e-6"), OWNER, "why")
    with open_ledger(url) as opened:
        yield opened


def test_an_analysts_role_asks_and_its_charges_are_in_the_one_chain(
    ada: Ledger, owner: Ledger
) -> None:
    receipt = ada.reserve(statement("SELECT 1", "ada"), {"a": laplace("0.25"), "t": laplace("0.5")})
    assert ada.finish(receipt, Status.ANSWERED)
    assert not ada.finish(receipt, Status.FAILED)
    ada.register("a", "a", UNIT, ONE)  # known: it only compares
    owner.reserve(statement(), QUARTER)
    with pytest.raises(BudgetExceededError, match="the part of `t` that is for ada"):
        ada.reserve(statement(analyst="ada"), {"t": laplace("0.25")})
    with pytest.raises(BudgetExceededError):
        ada.reserve(statement(analyst="ada"), {"a": laplace("0.5")})
    ada.reserve(statement(analyst="ada"), QUARTER)
    assert owner.state("a").spent.pure == EPSILON_UNITS == ada.state("a").spent.pure
    assert owner.verify().problems == ()
    assert owner.verify().entries == 7


def test_an_analysts_role_sees_its_own_statements_alone(ada: Ledger, owner: Ledger) -> None:
    ada.reserve(statement("SELECT 'of ada'", "ada"), {"a": laplace("0.25"), "t": laplace("0.25")})
    assert {entry.sql for entry in owner.entries()} == {"SELECT 'of ada'", "SELECT 'of grace'"}
    for asked in (Asked(), Asked(analyst="ada")):
        assert {entry.sql for entry in ada.entries(asked)} == {"SELECT 'of ada'"}
    assert list(ada.entries(Asked(analyst="grace"))) == []
    assert ada.state("a", "grace").repeats is None
    with ada._store.transaction(write=False) as transaction:
        for table, mine in {"statements": 1, "entries": 2, "scopes": 1, "accounts": 2}.items():
            found = list(transaction.execute(f"SELECT * FROM {table}"))
            assert len(found) == mine, table
            assert "grace" not in str(found)
    for look in (ada.verify, lambda: ada.export(str)):
        with pytest.raises(LedgerError, match="sees its own statements"):
            look()


def test_an_analysts_role_asks_in_no_other_name_and_does_nothing_of_the_owners(
    ada: Ledger, owner: Ledger
) -> None:
    before = owner.verify()
    for acts in (
        lambda: ada.reserve(statement(analyst="grace"), QUARTER),
        lambda: ada.reserve(statement(analyst=OWNER), QUARTER),
        lambda: ada.register("c", "c", UNIT, ONE),
        lambda: ada.raise_budget("a", budget("9", "1e-6", AccountantKind.PURE, "1e-6"), OWNER, ""),
        lambda: ada.grant("postgres", "ada"),
    ):
        with pytest.raises(LedgerError, match="role"):
            acts()
    assert owner.verify() == before
    assert [known.identity for known in owner.registrations()] == ["a", "b", "t"]


FORGED = [
    "UPDATE sums SET pure = '0', entries = entries + 1",
    "UPDATE sums SET pure = '-1'",
    "UPDATE sums SET pure = 'inf', entries = 0",
    "UPDATE sums SET identity = 'z' WHERE identity = 'a'",
    "DELETE FROM sums",
    "INSERT INTO sums SELECT 'z', entries, pure, rdp, selection_delta, epsilon, delta, digest FROM sums",
    "UPDATE accounts SET pure = '0'",
    "UPDATE accounts SET analyst = 'ada'",
    "DELETE FROM accounts",
    (
        "INSERT INTO accounts SELECT identity, analyst, '2999-01', part, block, entries, pure, rdp, "
        "selection_delta, epsilon, delta, digest FROM accounts"
    ),
    (
        "INSERT INTO accounts SELECT identity, 'grace', '2000-01', part, block, entries, pure, rdp, "
        "selection_delta, epsilon, delta, digest FROM accounts"
    ),
    "UPDATE statements SET status = 'reserved'",
    "UPDATE statements SET sql = 'SELECT 2'",
    "UPDATE statements SET analyst = 'ada'",
    "DELETE FROM statements",
    "INSERT INTO statements VALUES (3, 'q', 't', 'ada', 'answered', 'h', 's')",
    "INSERT INTO statements VALUES (9223372036854775807, 'q', 't', 'ada', 'reserved', 'h', 's')",
    "UPDATE entries SET pure = '0'",
    "DELETE FROM entries",
    "DELETE FROM raises",
    "UPDATE raises SET epsilon = '9/1'",
    (
        "INSERT INTO raises SELECT id + 1, identity, time, '9/1', delta, selection_delta, reason, hash, hash "
        "FROM raises"
    ),
    "UPDATE tables SET epsilon = '9/1'",
    "UPDATE terms SET renew = 'daily'",
    "UPDATE schema_version SET version = 1",
    "TRUNCATE entries, scopes",
    "TRUNCATE sums",
    "DROP TRIGGER only_more ON sums",
    "ALTER TABLE statements DISABLE ROW LEVEL SECURITY",
    "CREATE TABLE mine (id int)",
    "SET LOCAL session_replication_role = replica",
    "DROP VIEW chain_end",
]


def test_an_analysts_role_forges_nothing(ada: Ledger, owner: Ledger) -> None:
    ada.finish(ada.reserve(statement(analyst="ada"), {"t": laplace("0.25")}), Status.ANSWERED)
    before = owner.verify()
    assert before.problems == ()
    for forged in FORGED:
        with pytest.raises(LedgerError, match=r"role may not|keeps what it holds"):
            pytest.fail(f"{forged} changed {change(ada, forged)} rows")
        assert owner.verify() == before, forged


def test_who_stands_above_the_rules_or_is_nobody_is_granted_nothing(
    owner: Ledger, role: str, cluster: Cluster
) -> None:
    for name, analyst, message in [
        ("owner", "ada", "owns the ledger or stands above its rules"),
        ("nobody", "ada", "has no role 'nobody'"),
        (role, OWNER, "can't ask as"),
        (role, " Owner", "can't ask as"),
        (role, "", "can't ask as"),
        (role, "a\0", "can't ask as"),
    ]:
        with pytest.raises(LedgerError, match=message):
            owner.grant(name, analyst)
    quoted = '"' + role.replace('"', '""') + '"'
    cluster.run(f"ALTER ROLE {quoted} BYPASSRLS")
    with pytest.raises(LedgerError, match="stands above its rules"):
        owner.grant(role, "ada")
    cluster.run(f"ALTER ROLE {quoted} NOBYPASSRLS", f"GRANT owner TO {quoted}")
    with pytest.raises(LedgerError, match="owns the ledger"):
        owner.grant(role, "ada")
    with open_ledger(":memory:") as file, pytest.raises(LedgerError, match="is a file"):
        file.grant(role, "ada")


def test_a_grant_can_be_given_again_and_to_another_name(owner: Ledger, role: str, url: str) -> None:
    odd = "ada'); DROP TABLE sums; --\\ :x %s"
    for analyst in ("ada", "ada", odd):
        owner.grant(role, analyst)
    with open_ledger(url) as ledger:
        ledger.reserve(statement(analyst=odd), QUARTER)
        with pytest.raises(LedgerError, match="role may not"):
            ledger.reserve(statement(analyst="ada"), QUARTER)
    assert [entry.analyst for entry in owner.entries()] == [odd]


def test_a_role_without_a_grant_and_a_ledger_that_it_may_not_make(
    postgres: str, role: str, url: str, cluster: Cluster, database: str
) -> None:
    with pytest.raises(LedgerError, match="role may not"):
        open_ledger(url)
    new_ledger(postgres, ONE).close()
    with pytest.raises(LedgerError, match="role may not"):
        open_ledger(url)
    found = "SELECT count(*) FROM information_schema.role_table_grants WHERE grantee = 'PUBLIC' "
    assert cluster.run(found + "AND table_schema = 'dp_sql'", database=database) == [(0,)]
    assert role


def run(*words: str) -> object:
    with pytest.raises(SystemExit) as caught:
        main(words)
    return caught.value.code


def test_owner_and_analyst_ask_through_the_whole_engine(
    tmp_path: Path, postgres: str, role: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, schema("event"))
    path.write_text(f'ledger: "{postgres}"\n{path.read_text()}')
    count = "SELECT COUNT(*) FROM people"
    with dp_sql.connect(path) as connection:
        connection.sql(count, epsilon="0.5")
        texts = [connection.explain(count, epsilon=1), repr(connection), repr(connection.catalog)]
        texts += [repr(entry) for entry in connection.ledger()]
    assert run("ledger", "grant", str(path), role, "--analyst", "ada") == 0
    assert "CREATE POLICY" in capsys.readouterr().out
    with dp_sql.connect(path, ledger=url, analyst="ada") as connection:
        connection.sql(count, epsilon="0.25")
        assert [entry.analyst for entry in connection.ledger()] == ["ada"]
        texts.append(repr(connection))
    with dp_sql.connect(path, ledger=url) as connection, pytest.raises(LedgerError, match="role"):
        connection.sql(count, epsilon="0.25")
    assert run("ledger", "verify", url) == 2
    assert run(url) == 2
    path.write_text(
        f'ledger: "{postgres}"\n{path.read_text()}'
    )  # the key twice, with its line shown
    assert run("check", str(path)) == 1
    shown = capsys.readouterr()
    assert 'ledger: "postgresql://****' in shown.err + shown.out
    texts += [shown.out, shown.err]
    path.write_text(path.read_text().partition("\n")[2])
    for command in (["check"], ["budget", "show"], ["ledger", "show"], ["ledger", "verify"]):
        assert run(*command, str(path)) == 0
    shown = capsys.readouterr()
    assert "postgresql:///ledger" in shown.out
    assert "0.75" in shown.out or "ada" in shown.out
    for text in (*texts, shown.out, shown.err):
        assert PASSWORD not in text
        assert SECRET not in text
