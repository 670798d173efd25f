"""`dpsql answers`, and what the command line says of what was released before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dp_sql.cli.answers import answers_text, clear, refresh
from dp_sql.cli.ledgers import Where, entries_text
from dp_sql.cli.main import main
from dp_sql.connection import connect
from dp_sql.demo import SCHEMA
from dp_sql.errors import LedgerError, ParameterError

COUNT = "SELECT COUNT(*) FROM purchases"


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    for name in ("cdnow.yaml", "cdnow.parquet"):
        shutil.copy(SCHEMA.with_name(name), tmp_path / name)
    return tmp_path / "cdnow.yaml"


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_answers_are_shown_refreshed_and_cleared(
    schema: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = Where(schema)
    with pytest.raises(LedgerError, match="There is no ledger"):
        answers_text(where)
    with connect(schema) as connection:
        connection.sql(COUNT, epsilon=0.5)
    assert answers_text(where).startswith("1 answer, ")
    assert answers_text(where).endswith(" of 64 MiB\npurchases: data version 1\n")
    asked = ("query", schema, "-c", COUNT, "--epsilon", "0.5", "--format", "csv")
    assert run(*asked) == 0
    assert capsys.readouterr().err == "It was released before, and is free.\n"
    assert run("answers", "refresh", schema, "PURCHASES") == 0
    assert capsys.readouterr().out == "purchases: what was asked before is asked anew\n"
    assert run(*asked) == 0
    assert capsys.readouterr().err.startswith("Cost to purchases: epsilon 0.5.")
    assert run("answers", "refresh", schema) == 0
    text = answers_text(where)
    assert text.startswith(
        "0 answers, 0 of 64 MiB\npurchases: data version 1, refreshed 2 times, last 20"
    )
    with connect(schema) as connection:
        connection.sql(COUNT, epsilon=0.25)
    assert run("answers", "clear", schema) == run("answers", "show", schema) == 0
    assert "1 answer forgotten; what was spent stays spent\n0 answers" in capsys.readouterr().out


def test_only_the_owner_of_the_data_ends_what_is_free(
    schema: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(schema) as connection:
        connection.sql(COUNT, epsilon=0.5)
    with pytest.raises(LedgerError, match="only the owner"):
        refresh(Where(schema), None, "ada")
    with pytest.raises(LedgerError, match="only the owner"):
        clear(Where(schema), "ada")
    with pytest.raises(ParameterError, match="no protected table 'nobody'"):
        refresh(Where(schema), "nobody", "owner")
    assert run("answers", "clear", schema, "--analyst", "ada") == 1
    assert "'ada' is an analyst" in capsys.readouterr().err
    assert answers_text(Where(schema)).startswith("1 answer,")


def test_the_ledger_shows_who_was_shown_what_for_free(schema: Path) -> None:
    for analyst in ("ada", "eve"):
        with connect(schema, analyst=analyst) as connection:
            connection.sql(COUNT, epsilon=0.5)
    paid, free = entries_text(Where(schema), None, None, (None, None), None).splitlines()[3:5]
    assert [cell.strip() for cell in paid.strip("│").split("│")][2:7] == [
        "ada", "purchases", "0.5", "0", "laplace"
    ]  # fmt: skip
    assert [cell.strip() for cell in free.strip("│").split("│")][2:7] == [
        "eve", "purchases", "0", "0", "released before"
    ]  # fmt: skip
