"""Every script of examples/ runs from any folder and prints what it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dp_sql.demo import SCHEMA

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = {
    "budget.py": [
        r"Asked epsilon 1 of `purchases`",
        r"answered [1-9]\d* times",
        r"answered 0 times",
    ],
    "census.py": [
        r"Protects one row",
        r"Female: \d+ adults, \d+\.\d years old",
        r"Male: \d+ adults, \d+\.\d years old",
        r"\d+\.\d %\s+\d+  High school graduate",
    ],
    "daily.py": [
        r"Asked epsilon 0.\d+ of `sales`",
        r"whole.yaml: 7 days were answered",
        r"Day 366, 2026-01-01: about \d+ sales",
        r"debits 1 block of day: 2026-01-01",
        r"daily.yaml: 366 days were answered",
    ],
    "gradient_descent.py": [
        r"weights: one -?\d",
        r"20 steps of epsilon 0.1 on samples of 5% of 5\d{4} persons",
        r"Rényi: 0\.\d+ % used",
        r"right for (6[6-9]|7\d)\.\d% of the others, where 5\d\.\d% are of one kind",
    ],
    "sufficient_statistics.py": [
        r"weights: one -?\d",
        r"65 sums in one statement of epsilon 0.5",
        r"right for 7[0-4]\.\d% of the others, where 5\d\.\d% are of one kind",
    ],
    "local_sensitivity.py": [
        r"Median age and most frequent sex at epsilon 1",
        r"100,000 rows  permute_and_flip      median off by 0\.\d\d years +\(NULL  0 times\), mode right  7",
        r"2,000 rows  propose_test_release  median off by \d+\.\d\d years",
        r"200 rows  smooth_sensitivity    median off by \d+\.\d\d years",
        r"200 rows  propose_test_release  median never shown +\(NULL  7 times\)",
        r"permute_and_flip, was off by least on [23] of 3",
    ],
    "purchases.py": [
        r"purchases: 6\d{4}",
        r"1997-01: \d+ orders, with 95 % confidence between",
        r"1998-06",
        r"\['mean', 'turnover', 'orders'\] \(\d+\.\d+, \d+\.\d+, \d+\)",
        r"it cost epsilon 0.5",
    ],
}


def test_every_example_is_run() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    before = set((ROOT / "schemas").iterdir())
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    position = 0
    for pattern in EXPECTED[name]:
        found = re.compile(pattern).search(done.stdout, position)
        assert found is not None, f"{pattern} is not in {done.stdout[position:]}"
        position = found.end()
    assert set((ROOT / "schemas").iterdir()) == before  # the ledger was elsewhere
    assert list(tmp_path.iterdir()) == []


def test_the_demo_has_the_schema_of_schemas_and_its_data_with_their_origin() -> None:
    text = (ROOT / "schemas" / "cdnow.yaml").read_text(encoding="utf-8")
    first, _, rest = text.partition("\n")
    assert first.startswith("# yaml-language-server")
    assert SCHEMA.read_text(encoding="utf-8") == rest
    assert SCHEMA.with_name("cdnow.parquet").is_file()
    assert "69,659" in SCHEMA.with_name("ORIGIN.md").read_text(encoding="utf-8")
