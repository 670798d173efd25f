"""Noise comes from the operating system alone: no seedable generator is imported in dp_sql."""

from __future__ import annotations

import ast
from pathlib import Path

import dp_sql.mechanisms

PACKAGE = Path(dp_sql.mechanisms.__file__).parents[1]
SEEDABLE = ("random", "numpy.random", "scipy.stats")


def seedable_uses(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name in SEEDABLE]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
            found += [name for name in names if name in SEEDABLE]
        elif (
            isinstance(node, ast.Attribute)
            and node.attr == "random"
            and isinstance(node.value, ast.Name)
        ):
            found.append(f"{node.value.id}.random")
    return found


def test_the_package_imports_no_seedable_generator() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 10
    assert {
        str(f.relative_to(PACKAGE)): u for f in files if (u := seedable_uses(f.read_text()))
    } == {}


def test_numbers_that_follow_from_released_ones_are_for_intervals_alone() -> None:
    users = {f.name for f in PACKAGE.rglob("*.py") if "mechanisms.redraws" in f.read_text()}
    assert users == {"stages.py"}
    text = (PACKAGE / "stages.py").read_text()
    made = [line.strip() for line in text.splitlines() if "redraws(" in line.lower()]
    assert [line for line in made if "interval" not in line] == [
        "def _redraws(self, parsed: Release) -> Redraws:",
        "return Redraws(self._noisy[parsed.name])",
        "draws = self._redraws(parsed)",
    ]
    assert "item_ends(table, items, answer.groups, self._post, draws, level)" in text


def test_the_test_sees_what_it_looks_for() -> None:
    assert seedable_uses("import random") == ["random"]
    assert seedable_uses("from random import gauss") == ["random"]
    assert seedable_uses("from numpy import random") == ["numpy.random"]
    assert seedable_uses("import numpy as np\nx = np.random.default_rng(0)") == ["np.random"]
    assert seedable_uses("import os\nx = os.urandom(8)") == []
