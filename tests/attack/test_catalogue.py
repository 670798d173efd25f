"""Every attack of the catalogue has a test under its number, or a reason in the table."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from attack.catalogue import CATALOGUE, ELSEWHERE, INCIDENTS, REASONS

HERE = Path(__file__).parent
NUMBER = re.compile(r"[A-F]\d{2,3}")
IN_A_NAME = re.compile(r"_([a-f]\d{2,3})(?=_)")


def numbers_of(source: str) -> set[str]:
    """Return the attacks that a file of tests names: as a case's text, or in a test's name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found |= {number.upper() for number in IN_A_NAME.findall(node.name)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value} if NUMBER.fullmatch(node.value) else set()
    return found


@cache
def with_tests() -> frozenset[str]:
    files = [file for file in HERE.glob("test_*.py") if file.name != Path(__file__).name]
    return frozenset().union(*(numbers_of(file.read_text(encoding="utf-8")) for file in files))


def catalogue() -> set[str]:
    return {letter + number for letter, line in CATALOGUE.items() for number in line.split()}


def test_every_attack_has_a_test_or_a_reason() -> None:
    assert len(catalogue()) == 203
    assert catalogue() - with_tests() - set(ELSEWHERE) - set(INCIDENTS) - set(REASONS) == set()


def test_no_number_is_invented() -> None:
    """What tests name beside it was dropped from the catalogue, and is tested all the same."""
    dropped = {"C57", "E41"}
    assert with_tests() | set(ELSEWHERE) | set(INCIDENTS) | set(REASONS) <= catalogue() | dropped


def test_tests_elsewhere_are_there() -> None:
    for number, (file, name) in ELSEWHERE.items():
        text = (HERE.parent / file).read_text(encoding="utf-8")
        assert f"def test_{name}(" in text, number


def test_incidents_are_cases_of_attacks_that_are_with_tests() -> None:
    for incident, attacks in INCIDENTS.items():
        for attack in attacks.split():
            assert attack in with_tests() | set(ELSEWHERE), f"{incident}: {attack}"


def test_a_number_in_a_comment_is_no_test() -> None:
    assert numbers_of('# A01\nX = ("A02", 1)\ndef test_b03_c105_is(): "A04 too"') == {
        "A02", "B03", "C105",
    }  # fmt: skip
