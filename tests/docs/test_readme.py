"""The README's commands and queries run as they are written, and give what it shows but for noise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dp_sql import errors
from dp_sql.cli.words import ABOVE, AGGREGATES, FUNCTIONS
from dp_sql.schema.loader import load

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROMPT, CONTINUED, SHELL = "dpsql> ", "  ...> ", "$ "
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")


@dataclass
class Step:
    """One command, and the lines that it printed when the README was written."""

    command: str
    shown: list[str]
    in_shell: bool


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def steps() -> Iterator[Step]:
    """Yield the commands of the console blocks in order."""
    for block in blocks("console"):
        step: Step | None = None
        for line in block.splitlines():
            if line.startswith((PROMPT, SHELL)):
                if step is not None:
                    yield step
                prompt = PROMPT if line.startswith(PROMPT) else SHELL
                step = Step(line.removeprefix(prompt), [], prompt == PROMPT)
            elif step is None:
                raise AssertionError(f"{line!r} stands before a command")
            elif line.startswith(CONTINUED):
                step.command += "\n" + line.removeprefix(CONTINUED)
            else:
                step.shown.append(line)
        if step is not None:
            yield step


def environment(home: Path) -> dict[str, str]:
    """Return an environment in which `dpsql` is this checkout's and its home is the test's."""
    command = home / "dpsql"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dp_sql.cli.main "$@"\n')
    command.chmod(0o700)
    return os.environ | {
        "PATH": f"{home}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "DPSQL_HOME": str(home / "data"),
    }


def run(command: list[str], home: Path, text: str = "") -> str:
    """Return what a command prints, on both streams in one, run in the folder of the README."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(home),
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return done.stdout


def run_steps(home: Path) -> list[str]:
    """Return what each step prints: those of a shell one after the other in one demo."""
    alone = iter([run(["sh", "-c", s.command], home) for s in steps() if not s.in_shell])
    # a line of its own that the shell prints between two answers
    typed = "\n\\mark\n".join(s.command for s in steps() if s.in_shell)
    printed = run(["dpsql", "demo", "--fresh"], home, typed + "\n\\mark\n")
    mark = re.escape("Error (parameter): there is no command \\mark.")
    inside = iter(re.split(rf"^{mark}\n.*\n", printed, flags=re.MULTILINE))
    return [next(inside if step.in_shell else alone) for step in steps()]


def shape(text: str) -> list[str]:
    """Return the lines of an output without its rules, its spacing, its numbers and its machine's walls."""
    lines = [line for line in text.splitlines() if not line.startswith(("╭", "├", "╰"))]
    lines = [line for line in lines if not line.startswith(("  confined", "  not confined"))]
    plain = (NUMBER.sub("N", line) for line in lines)
    plain = (line.replace("N ± N", "V").replace("N [N, N]", "V") for line in plain)
    return [re.sub(r"\s+", " ", line.replace("│", "|")).strip() for line in plain]


def test_commands_and_queries_print_what_the_readme_shows(tmp_path: Path) -> None:
    shown = list(steps())
    printed = run_steps(tmp_path)
    assert len([s for s in shown if s.in_shell]) >= 5
    for step, text in zip(shown, printed, strict=True):
        assert shape(text) == shape("\n".join(step.shown)), step.command


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    code, again = blocks("python")
    printed = run([sys.executable, "-W", "error", "-c", code], tmp_path).splitlines()
    assert re.fullmatch(r"\['n', 'mean'\] \[\(\d+, \d+\.\d+\)\]", printed[0])
    assert re.fullmatch(r"\[\(\(\d+\.\d+, \d+\.\d+\), \(\d+\.\d+, \d+\.\d+\)\)\]", printed[1])
    assert printed[2] == "1/2"
    assert any("SUM(cds)" in line.upper().replace("CDS", "cds") for line in printed)
    printed = run([sys.executable, "-W", "error", "-c", again], tmp_path).splitlines()
    assert printed == ["True {}", "1/10"]


def test_the_two_commands_stand_there_and_ci_runs_the_second() -> None:
    start = "python3 -m venv .venv && .venv/bin/pip install -e "
    assert [b.strip() for b in blocks("sh")] == [
        f"{start}. && .venv/bin/dpsql demo",
        f"{start}'.[test]' && .venv/bin/pytest",
    ]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for part in ("-m venv", "pip install", "-e '.[test]'", "bin/pytest", "mypy", "lint-imports"):
        assert part in script


def test_every_error_code_is_explained() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.DPSQLError)
    ]
    assert len({kind.code for kind in kinds}) == len(kinds)
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", README, re.MULTILINE)
    assert set(rows) == {(kind.code, kind.__name__) for kind in kinds}


def test_the_schema_of_the_readme_is_that_of_the_demo() -> None:
    shown = blocks("yaml")[0]
    for file in ("dp_sql/demo/cdnow.yaml", "schemas/cdnow.yaml"):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert shown == text[text.index("version: 1") :]


def test_the_parts_of_schemas_that_the_readme_shows_are_accepted(tmp_path: Path) -> None:
    for number, part in enumerate(blocks("yaml")[1:]):
        file = tmp_path / f"{number}.yaml"
        columns = "    columns: {customer_id: {type: integer}}\n"
        file.write_text(
            f"version: 1\ndatabase: duckdb:///shop.duckdb\n{part}{columns}", encoding="utf-8"
        )
        assert load(file).people is not None


@pytest.mark.parametrize("word", [*FUNCTIONS, *AGGREGATES, *ABOVE])
def test_every_function_and_aggregate_is_named(word: str) -> None:
    section = README.split("## The SQL it answers")[1].split("\n## ")[0]
    assert re.search(rf"`{word}(?:\(\*\))?`", section), word


def test_files_that_the_readme_names_are_there() -> None:
    names = set(re.findall(r"`((?:dp_sql|schemas|examples)/[\w./]*|\.ci/run|LICENSE)`", README))
    assert len(names) > 5
    for name in names:
        assert (ROOT / name).exists(), name
