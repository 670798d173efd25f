from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

import dp_sql.connection
from dp_sql import __version__
from dp_sql.cli.main import main
from dp_sql.demo import SCHEMA

COUNT = "SELECT COUNT(*) FROM purchases"
WHOLE = 69_659  # purchases; limits leave about 61,700 of them


class Ran:
    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


class Run:
    """Runs `dpsql` in this process, with a home folder of the test's own."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Ran:
        self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        code = ended.value.code
        out, err = self._capsys.readouterr()
        return Ran(code if isinstance(code, int) else 0, out, err)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setenv("DPSQL_HOME", str(tmp_path / "home"))
    return Run(capsys, monkeypatch)


@pytest.fixture
def schema(tmp_path: Path) -> str:
    for name in ("cdnow.yaml", "cdnow.parquet"):
        shutil.copy(SCHEMA.with_name(name), tmp_path / name)
    return str(tmp_path / "cdnow.yaml")


def test_version(run: Run) -> None:
    ran = run("--version")
    assert (ran.status, ran.out) == (0, f"dpsql {__version__}\n")


def test_help_names_every_command(run: Run) -> None:
    ran = run("--help")
    assert ran.status == 0
    for command in ("repl", "query", "check", "tune", "demo"):
        assert f"\n    {command} " in ran.out


@pytest.mark.parametrize("arguments", [("nothing",), ("query",), ("demo", "--old"), ("--loud",)])
def test_a_wrong_command_line_is_exit_status_2(run: Run, arguments: tuple[str, ...]) -> None:
    ran = run(*arguments)
    assert ran.status == 2
    assert ran.out == ""
    assert "Traceback" not in ran.err


def test_query_takes_an_accuracy_in_place_of_epsilon(run: Run, schema: str) -> None:
    ran = run("query", schema, "-c", COUNT, "--within", "100", "--confidence", "0.9")
    assert (ran.status, "count_star()" in ran.out) == (0, True)
    note, cost = ran.err.splitlines()
    assert note == "Note: Values within 100 in 90 % of runs take epsilon 0.459."
    assert cost.startswith("Cost to purchases: epsilon 0.458")


def test_tune_prints_proposals_on_stdout_and_their_cost_on_stderr(run: Run, schema: str) -> None:
    ran = run("tune", schema, "purchases", "--epsilon", "1", "--by", "cds", "--bounds", "dollars")
    assert ran.status == 0
    for words in ("max_groups", "max_rows_per_group", "dollars", "To paste below purchases"):
        assert words in ran.out
    assert ran.err.startswith("Cost to purchases: epsilon 1. Left: epsilon 9 of 10, ")
    for wrong, words in (
        (("purchases", "--epsilon", "2"), "above the cap of 1"),
        (("purchase", "--epsilon", "1"), "there is no table"),
        (("purchases", "--epsilon", "1", "--bounds", "dollars=5"), "isn't column=low:high"),
    ):
        ran = run("tune", schema, *wrong)
        assert (ran.status, ran.out) == (1, "")
        assert words in ran.err
    assert run("tune", schema, "purchases").status == 2


@pytest.mark.parametrize("form", ["table", "csv", "json", "md"])
def test_query_prints_the_answer_on_stdout_and_its_cost_on_stderr(
    run: Run, schema: str, form: str
) -> None:
    ran = run("query", schema, "-c", f"{COUNT};", "--format", form, "--epsilon", "1")
    assert ran.status == 0
    assert ran.err.startswith("Cost to purchases: epsilon 1. Left: epsilon 9 of 10, Rényi ")
    assert "Cost" not in ran.out
    match form:
        case "csv":
            (name,), (value,) = csv.reader(io.StringIO(ran.out))
        case "json":
            ((name, value),) = json.loads(ran.out)[0].items()
        case "md":
            name, value = (line.strip("| \n") for line in ran.out.splitlines()[::2])
        case _:
            name, value = (ran.out.splitlines()[i].strip("│ ") for i in (1, 3))
            value, error = value.split(" ± ")
            assert 10 < float(error) < 200
    assert name == "count_star()"
    assert WHOLE * 0.8 < float(value) < WHOLE


def test_query_reads_standard_input(run: Run, schema: str) -> None:
    ran = run("query", schema, "-c", "-", "--format", "csv", stdin=b"\xef\xbb\xbfSELECT 1 AS x;\n")
    assert (ran.status, ran.out, ran.err) == (0, "x\n1\n", "")


def test_the_ledger_remembers_who_asked_and_what_is_left(run: Run, schema: str) -> None:
    first = run("query", schema, "-c", COUNT, "--epsilon", "1", "--analyst", "ada")
    second = run("query", schema, "-c", COUNT, "--epsilon", "1")
    assert first.status == second.status == 0
    assert first.err != second.err
    assert Path(schema).with_name("dp_sql.ledger").is_file()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["-c", "SELECT wrong FROM purchases"], "query"),
        (["-c", "SELECT dollars FROM purchases"], "not_private"),
        (["-c", "DROP TABLE purchases"], "unsupported_sql"),
        (["-c", "SELECT 1; SELECT 2"], "unsupported_sql"),
        (["-c", ""], "query"),
        (["-c", "SELECT '\udcff'"], "query"),
        (["-c", COUNT, "--epsilon", "0"], "parameter"),
        (["-c", COUNT, "--epsilon=-1"], "parameter"),
        (["-c", COUNT, "--epsilon", "nan"], "parameter"),
        (["-c", COUNT, "--epsilon", "inf"], "parameter"),
        (["-c", COUNT, "--epsilon", "much"], "parameter"),
        (["-c", COUNT, "--within", "5"], "parameter"),
        (["-c", COUNT, "--within", "500", "--epsilon", "1"], "parameter"),
        (["-c", COUNT, "--confidence", "0.9"], "parameter"),
        (["-c", "SELECT AVG(cds) FROM purchases", "--within", "5"], "unsupported_sql"),
        (["-c", COUNT, "--epsilon", "1.01"], "parameter"),
        (["-c", COUNT, "--delta", "1"], "parameter"),
        (["-c", COUNT, "--format", "xml"], "parameter"),
        (["-c", COUNT, "--data-dir", "/nowhere"], "engine"),
        (["-c", COUNT, "--database", "duckdb:///nowhere.duckdb"], "engine"),
    ],
)
def test_an_error_is_one_clear_message_and_costs_nothing(
    run: Run, schema: str, arguments: list[str], code: str
) -> None:
    ran = run("query", schema, *arguments)
    assert ran.status == 1
    assert ran.out == ""
    assert ran.err.startswith(f"Error ({code}): ")
    assert "Traceback" not in ran.err
    assert "Left: epsilon 9.8 of 10," in run("query", schema, "-c", COUNT).err


def test_a_missing_schema_is_a_schema_error(run: Run, tmp_path: Path) -> None:
    for arguments in (["query", "-c", COUNT], ["check"], ["repl"], []):
        ran = run(*arguments[:1], str(tmp_path / "none.yaml"), *arguments[1:])
        assert ran.status == 1
        assert ran.err.startswith("Error (schema): ")


def test_a_ledger_that_is_no_ledger_is_a_clear_error(run: Run, schema: str, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"no ledger at all" * 100)
    ran = run("query", schema, "-c", COUNT, "--ledger", str(tmp_path / "bad"))
    assert ran.status == 1
    assert ran.err.startswith("Error (ledger): ")


def test_input_that_is_not_utf_8_is_a_clear_error(run: Run, schema: str) -> None:
    for arguments in (["query", schema, "-c", "-"], [schema]):
        ran = run(*arguments, stdin=b"SELECT 1;\nSELECT '\xff';")
        assert ran.status == 1
        assert "UTF-8" in ran.err


def test_a_schema_alone_opens_the_shell(run: Run, schema: str) -> None:
    ran = run(schema, stdin=b"SELECT 1 AS one; SELECT 2 AS two")
    assert ran.status == 0
    assert "one" in ran.out
    assert "two" in ran.out
    ran = run("repl", schema, "--ledger", ":memory:", stdin=b"\\d\n\\q\nSELECT 1 AS one;")
    assert ran.status == 0
    assert "purchases" in ran.out
    assert "one" not in ran.out
    assert not Path(schema).with_name("dp_sql.ledger").with_name("memory").exists()


def test_a_pipe_goes_on_after_an_error_and_ends_with_status_1(run: Run, schema: str) -> None:
    ran = run(schema, stdin=b"SELECT wrong FROM purchases;\nSELECT 2 AS two;\n")
    assert ran.status == 1
    assert "two" in ran.out
    assert ran.err.startswith("Error (query): ")


def test_the_demo_answers_a_pipe_and_keeps_its_budget(run: Run, tmp_path: Path) -> None:
    first = run("demo", stdin=f"\\set epsilon 1\n{COUNT}".encode())
    again = run("demo", stdin=b"\\budget\n")
    assert first.status == again.status == 0
    assert "count_star()" in first.out
    assert (tmp_path / "home" / "demo.ledger").is_file()
    assert "epsilon: 10 % used" in again.out
    (tmp_path / "home" / "kept").touch()
    fresh = run("demo", "--fresh", stdin=b"\\budget\n")
    assert fresh.status == 0
    assert "epsilon: 0 % used" in fresh.out
    assert (tmp_path / "home" / "kept").is_file()


def test_an_unexpected_failure_shows_neither_its_text_nor_a_traceback(
    run: Run, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object, **_options: object) -> NoReturn:
        raise RuntimeError("row 17 holds Jane Roe")

    monkeypatch.setattr(dp_sql.connection, "connect", broken)
    ran = run("query", schema, "-c", COUNT)
    assert ran.status == 1
    assert ran.err.startswith("Error (internal): RuntimeError at ")
    assert "Jane" not in ran.err


def test_ctrl_c_is_exit_status_130(run: Run, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_arguments: object, **_options: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(dp_sql.connection, "connect", stopped)
    ran = run("query", schema, "-c", COUNT)
    assert ran.status == 130
    assert ran.err.startswith("Stopped.")


def test_a_folder_that_can_not_be_written_is_a_clear_error(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DPSQL_HOME", os.path.join(tmp_path, "file", "below"))  # noqa: PTH118
    ran = run("demo", stdin=b"")
    assert ran.status == 1
    assert "DPSQL_HOME" in ran.err


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dp_sql.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_program_ends_with_all_that_it_wrote_and_a_finished_ledger(
    run: Run, schema: str, tmp_path: Path
) -> None:
    ledger = str(tmp_path / "program.ledger")
    asked = ("query", schema, "--ledger", ledger, "-c", COUNT, "--format", "csv", "--epsilon")
    ended = program(*asked, "1")
    assert (ended.returncode, len(ended.stdout.splitlines())) == (0, 2)
    assert ended.stderr.startswith("Cost to purchases: epsilon 1. Left: epsilon 9 ")
    assert not Path(f"{ledger}-wal").exists()
    assert run(*asked, "1").err == "It was released before, and is free.\n"
    assert run(*asked, "0.5").err.startswith("Cost to purchases: epsilon 0.5. Left: epsilon 8.5 ")
    refused = program(*asked, "100")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Error")
