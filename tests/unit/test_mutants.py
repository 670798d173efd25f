"""The tests that `tests/mutants.py` runs for a module are there, and those that notice come first."""

from __future__ import annotations

from pathlib import Path

import mutants
import pytest

MODULES = mutants.ROOT / "dp_sql"


def test_every_test_and_module_that_is_named_is_there() -> None:
    named = " ".join([*mutants.TESTS.values(), *mutants.EXERCISED.values()]).split()
    assert [name for name in named if not (mutants.ROOT / "tests" / name).is_file()] == []
    assert [m for m in mutants.EXERCISED if not (MODULES / f"{m}.py").is_file()] == []


@pytest.mark.parametrize(
    ("module", "test"),
    [
        ("sensitivity/spans.py", "unit/test_sensitivity_blocks.py"),
        ("sensitivity/multiplicity.py", "unit/test_fan_out.py"),
        ("sensitivity/drift.py", "unit/test_sensitivity_drift.py"),
        ("planner/sampling.py", "unit/test_sampling.py"),
        ("executor/lower_measure.py", "property/test_lowering_measures.py"),
    ],
)
def test_a_mutant_meets_the_tests_of_its_module_first(module: str, test: str) -> None:
    assert f"tests/{test}" in mutants.tests_of(MODULES / module)[:3]


def test_tests_that_import_a_module_stand_for_it() -> None:
    file = MODULES / "executor" / "lower_sums.py"
    assert [Path(name).name for name in mutants.importing(file)] == [
        "test_planner_pairs.py", "test_lowering_pairs.py", "test_lowering_sums.py",
    ]  # fmt: skip
