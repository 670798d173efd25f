"""The owner's commands: budgets shown and raised, the ledger listed, verified and exported."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dp_sql.budget import open_ledger
from dp_sql.cli.budgets import budgets_text, raise_budget
from dp_sql.cli.ledgers import Where, entries_text, export, moment, verification_text
from dp_sql.cli.main import main
from dp_sql.connection import connect
from dp_sql.demo import SCHEMA
from dp_sql.errors import LedgerError, ParameterError

COUNT = "SELECT COUNT(*) FROM purchases"
ANY = (None, None)


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    for name in ("cdnow.yaml", "cdnow.parquet"):
        shutil.copy(SCHEMA.with_name(name), tmp_path / name)
    return tmp_path / "cdnow.yaml"


@pytest.fixture
def asked(schema: Path) -> Path:
    """Return a schema of which ada, grace and the owner asked something."""
    for analyst, epsilon in (("ada", "0.5"), ("grace", "0.25"), (None, "0.125")):
        with connect(schema, analyst=analyst) as connection:
            connection.sql(f"{COUNT}  -- {analyst}\n", epsilon=epsilon)
    return schema


def declare(schema: Path, epsilon: str) -> None:
    text = schema.read_text(encoding="utf-8")
    assert "budget: {epsilon: 10," in text
    schema.write_text(text.replace("budget: {epsilon: 10,", f"budget: {{epsilon: {epsilon},"))


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_table_that_is_not_registered_shows_what_is_declared(schema: Path) -> None:
    text = budgets_text(Where(schema), None)
    assert text.startswith("purchases\n  not registered yet; declared: epsilon 10, delta 1e-06")
    assert not schema.with_name("dp_sql.ledger").exists()
    assert "not registered" in budgets_text(Where(schema, ledger=":memory:"), None)
    open_ledger(schema.with_name("dp_sql.ledger")).close()
    assert "not registered" in budgets_text(Where(schema), None)


def test_a_budget_is_shown_with_what_fits_of_ones_own_last_statement(asked: Path) -> None:
    assert "% used" in budgets_text(Where(asked), None)
    more = {who: budgets_text(Where(asked), who) for who in (None, "ada", "grace", "eve")}
    assert len({text for text in more.values() if "more like the last statement" in text}) == 3
    assert "more like" not in more["eve"]


def test_the_owner_raises_a_budget_to_what_the_schema_declares(asked: Path) -> None:
    with pytest.raises(LedgerError, match=r"has epsilon 10, .* already"):
        raise_budget(Where(asked), "purchases", "owner", "")
    declare(asked, "20")
    with pytest.raises(LedgerError, match="Editing a schema changes no budget"):
        connect(asked)
    assert "the schema declares another: epsilon 20" in budgets_text(Where(asked), None)
    text = raise_budget(Where(asked), "PURCHASES", "owner", "new consent")
    assert text.startswith("purchases: raised from epsilon 10, delta 1e-06")
    assert "to epsilon 20, delta 1e-06" in text
    with connect(asked) as connection:
        state = connection.budget()["purchases"]
        assert state.registration.budget.epsilon == 20
        assert state.statements == 3
    shown = budgets_text(Where(asked), None)
    assert "raised to epsilon 20, delta 1e-06: new consent" in shown


def test_an_analyst_and_a_lower_amount_raise_nothing(asked: Path) -> None:
    declare(asked, "20")
    with pytest.raises(LedgerError, match="'ada' is an analyst"):
        raise_budget(Where(asked), "purchases", "ada", "")
    asked.write_text(asked.read_text().replace("epsilon: 20,", "epsilon: 5,"))
    with pytest.raises(LedgerError, match="would lower epsilon"):
        raise_budget(Where(asked), "purchases", "owner", "")
    for reason in ("new\x1b[31m", "two\nlines", "\udce9"):
        with pytest.raises(ParameterError, match="one line of text"):
            raise_budget(Where(asked), "purchases", "owner", reason)
    with pytest.raises(ParameterError, match="no protected table 'sales'"):
        raise_budget(Where(asked), "sales", "owner", "")
    with open_ledger(asked.with_name("dp_sql.ledger")) as ledger:
        assert ledger.raises() == []


def test_a_table_nobody_connected_to_has_nothing_to_raise(schema: Path) -> None:
    with pytest.raises(LedgerError, match="nothing was asked yet"):
        raise_budget(Where(schema), "purchases", "owner", "")
    assert not schema.with_name("dp_sql.ledger").exists()


def test_the_ledger_is_listed_with_raises_in_their_place(asked: Path) -> None:
    declare(asked, "20")
    raise_budget(Where(asked), "purchases", "owner", "consent")
    text = entries_text(Where(asked), None, None, ANY, None)
    first, second, third, raised = text.splitlines()[3:7]
    assert "│ ada " in first
    assert "│     0.5 │" in first
    assert "laplace │ answered" in first
    assert "grace" in second
    assert "-- None" in third
    assert "raised to │ BUDGET RAISED: consent" in raised
    assert text.endswith("3 statements.\n")
    ledger = Where(asked.with_name("dp_sql.ledger"))
    assert entries_text(ledger, "purchases", None, ANY, None) == text
    assert entries_text(ledger, None, "ada", ANY, None).endswith("1 statement.\n")
    assert "grace" not in entries_text(ledger, None, "ada", ANY, None)
    assert entries_text(ledger, None, None, (moment("2999-01-01"), None), None) == "0 statements.\n"
    assert "BUDGET" not in entries_text(ledger, None, None, (None, moment("2001-01-01")), None)
    with pytest.raises(ParameterError, match="no table 'sales'"):
        entries_text(ledger, "sales", None, ANY, None)


def test_a_statement_without_an_answer_is_told(asked: Path) -> None:
    path = asked.with_name("dp_sql.ledger")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE statements SET status = 'reserved' WHERE id = 2")
    assert "unanswered" in entries_text(Where(path), None, "grace", ANY, None)


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert moment(None) is None
    assert moment("2026-01-31") == "2026-01-31T00:00:00+00:00"
    assert moment("2026-01-31T01:30+01:00") == "2026-01-31T00:30:00+00:00"
    with pytest.raises(ParameterError, match="is no date or time"):
        moment("yesterday")


def test_a_sound_ledger_and_its_export_verify_alike(asked: Path, tmp_path: Path) -> None:
    text, sound = verification_text(Where(asked), None)
    assert sound
    assert text.startswith("3 entries, nothing is wrong.\nhead: ")
    file = tmp_path / "all.jsonl"
    assert str(file) in export(Where(asked), file)
    assert verification_text(Where(file), None) == (text, True)
    head = text.split()[-1]
    assert verification_text(Where(file), head) == (text, True)
    assert not verification_text(Where(file), "0" * 63 + "1")[1]
    with pytest.raises(LedgerError, match="is there already"):
        export(Where(asked), file)
    with pytest.raises(LedgerError, match="can't be written"):
        export(Where(asked), tmp_path / "nowhere" / "x.jsonl")


def test_a_changed_ledger_fails_with_its_first_bad_row(
    asked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = asked.with_name("dp_sql.ledger")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE statements SET analyst = 'eve' WHERE id = 2")
    assert run("ledger", "verify", path) == 1
    assert capsys.readouterr().out.startswith("Entry 2 was changed.\n")


def test_the_commands_of_the_command_line(
    asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("ledger", "show", asked, "--analyst", "ada", "--since", "2001-01-01") == 0
    assert "1 statement." in capsys.readouterr().out
    assert run("ledger", "verify", asked) == 0
    assert run("ledger", "export", asked) == 0
    assert capsys.readouterr().out.count('{"kind": "charge"') == 3
    assert run("budget", "show", asked) == 0
    declare(asked, "20")
    assert run("budget", "raise", asked, "purchases", "--analyst", "ada") == 1
    assert "Error (ledger): 'ada' is an analyst" in capsys.readouterr().err
    assert run("budget", "raise", asked, "purchases", "--reason", "consent") == 0
    assert run("ledger", "show", asked, "--ledger", ":memory:") == 1
    assert run("ledger", "show", tmp_path / "none.yaml") == 1
    assert run("init", asked.with_name("cdnow.parquet")) == 1
    assert "is there already" in capsys.readouterr().err
    assert run("init", asked.with_name("cdnow.parquet"), "--output", tmp_path / "new.yaml") == 0
    assert run("check", tmp_path / "new.yaml") == 1
    assert run("check", asked, "--data") == 0
    assert "for the owner alone" in capsys.readouterr().out
    assert run("budget") == run("ledger", "repair", asked) == 2


def test_an_analyst_sees_his_or_her_own_statements_alone(asked: Path) -> None:
    with connect(asked, analyst="ada") as connection:
        assert [entry.analyst for entry in connection.ledger()] == ["ada"]
        own = connection.budget()["purchases"].repeats
    with connect(asked) as connection:
        assert [entry.analyst for entry in connection.ledger()] == ["ada", "grace", "owner"]
        last = connection.budget()["purchases"].repeats
    assert own is not None
    assert last is not None
    assert own < last


@pytest.mark.parametrize("name", ["owner", " Owner ", "", "  ", "a\nb", "\udce9"])
def test_no_analyst_is_called_the_owner(schema: Path, name: str) -> None:
    with pytest.raises(ParameterError, match="an analyst can't be called"):
        connect(schema, analyst=name)
    assert not schema.with_name("dp_sql.ledger").exists()
