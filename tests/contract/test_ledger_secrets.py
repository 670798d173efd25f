"""Passwords of a ledger in PostgreSQL: where they come from, and that they are shown nowhere."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import pytest
from budget_cases import budget, laplace, statement
from ledger_cases import new_ledger
from postgres_cluster import PASSWORD, Cluster

from dp_sql.budget import (
    open_ledger,
    place_text,
)
from dp_sql.errors import LedgerError
from dp_sql.schema.catalog import AccountantKind

ONE = budget("1", "1e-6", AccountantKind.PURE, "1e-6")
HALF = {"a": laplace("0.5")}


def shown_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + str(error) + repr(error)


def test_the_password_is_shown_nowhere(
    postgres: str, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = postgres.replace(PASSWORD, "n0t-the-secret")
    texts = []
    for where in (
        wrong,
        postgres.replace("ledger_", "nowhere_"),
        postgres.replace(str(cluster.folder), str(cluster.folder / "nowhere")),
        f"postgresql://owner:{PASSWORD}@/x?no_such_option=1",
        f"postgresql://owner:{PASSWORD}%zz@/x",
        f"postgresql://owner:{PASSWORD}@h:{PASSWORD}/x",
        f"mysql://owner:{PASSWORD}@/x",
        f"Postgres+other://owner:{PASSWORD}@/x",
    ):
        with pytest.raises(LedgerError) as caught:
            open_ledger(where)
        texts.append(shown_of(caught.value))
    with new_ledger(postgres, ONE) as ledger:
        texts += [repr(ledger), repr(ledger._store), ledger._store.name, repr(vars(ledger))]
        ledger.reserve(statement(), HALF)
        ledger.export(texts.append)
        texts += [str(ledger.verify()), repr(list(ledger.entries()))]
        with pytest.raises(LedgerError) as caught, ledger._store.transaction(write=True) as raw:
            raw.execute("SELECT no_such_column")
        texts.append(shown_of(caught.value))
    texts.append(caplog.text)
    for text in texts:
        assert PASSWORD not in text
        assert "n0t-the-secret" not in text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@host:5432/db?sslmode=require", "postgresql://host:5432/db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql:///db?host=/run&password=x", "postgresql:///db"),
        ("postgresql://u:p@a:1,b:2/db", "postgresql://a:1,b:2/db"),
        # passwords that should have been escaped
        ("postgresql://u:p@ss@host/db", "postgresql://…"),
        ("postgresql://u:p/ss@host/db", "postgresql://…"),
        ("postgresql://u:p?ss@host/db", "postgresql://…"),
        ("postgresql://u:p#ss@host/db", "postgresql://…"),
        ("postgresql://host/db?password=p@ss", "postgresql://…"),
        ("shop.ledger", "shop.ledger"),
    ],
)
def test_of_a_url_the_place_alone_is_shown(url: str, shown: str) -> None:
    assert place_text(url) == shown


def test_a_password_comes_from_a_variable_or_a_passfile_too(
    postgres: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare = postgres.replace(f":{PASSWORD}", "")
    with pytest.raises(LedgerError, match="can't be reached"):
        open_ledger(bare)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    open_ledger(bare).close()
    monkeypatch.delenv("PGPASSWORD")
    passfile = tmp_path / "passfile"
    passfile.write_text(f"*:*:*:owner:{PASSWORD}\n")
    passfile.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    open_ledger(bare).close()
    open_ledger(bare.replace("postgresql://", "postgres://")).close()


def test_without_the_driver_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    monkeypatch.delitem(__import__("sys").modules, "dp_sql.budget.postgres")
    with pytest.raises(LedgerError) as caught:
        open_ledger("postgresql://host/db")
    assert caught.value.hint == "pip install 'dp-sql[postgres]'"
