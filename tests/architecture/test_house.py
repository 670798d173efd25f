"""The house stands as it was drawn: imports, public names, sources, error codes, sizes of files."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import dp_sql
from dp_sql import errors

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dp_sql"
KEY = re.compile(r"\[([A-Z][A-Za-z]+\d*[a-z]?)\]")
CLAIM_PARTS = ("Why:", "Assumes:")


def modules() -> list[Path]:
    found = sorted(PACKAGE.rglob("*.py"))
    assert len(found) > 50
    return found


def test_imports_go_down_the_floors_only() -> None:
    tool = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([str(tool)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "0 broken" in done.stdout


def test_the_public_names_are_these_and_all_are_there() -> None:
    assert dp_sql.__all__ == sorted(dp_sql.__all__)
    assert set(dp_sql.__all__) >= {"connect", "Connection", "Result", "DPSQLError"}
    for name in dp_sql.__all__:
        assert getattr(dp_sql, name) is not None
    kinds = {n for n, v in vars(errors).items() if inspect.isclass(v) and issubclass(v, Exception)}
    assert kinds <= set(dp_sql.__all__), "every exception is public"


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = "duckdb", "numpy", "sqlglot", "pydantic", "ruamel", "sqlite3", "typer", "rich"
    text = f"import sys, dp_sql; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def sources(text: str) -> set[str]:
    """Return the keys on the Source lines of a module, and in sentences that name a source."""
    found: set[str] = set()
    for line in text.splitlines():
        if "Source:" in line or re.search(r"\[[A-Z][A-Za-z]+\d{4}[a-z]?\]", line):
            found |= {k for k in KEY.findall(line.split("Source:")[-1]) if k not in ("T", "Any")}
    return found


def test_every_source_is_in_the_list_of_citations_and_every_citation_is_used() -> None:
    listed = re.findall(
        r"^\* \[(\w+)\]: ", (PACKAGE / "CITATIONS.md").read_text(), flags=re.MULTILINE
    )
    assert len(listed) == len(set(listed))
    assert listed == sorted(listed, key=str.lower)
    used: Counter[str] = Counter()
    missing = []
    for module in modules():
        for key in sources(module.read_text(encoding="utf-8")):
            used[key] += 1
            if key not in listed:
                missing.append(f"{module.relative_to(ROOT)}: [{key}]")
    assert missing == []
    assert [key for key in listed if not used[key]] == []


def test_every_claim_says_why_and_what_it_assumes() -> None:
    """A rule that privacy rests on carries Claim, Why and Assumes."""
    incomplete, count = [], 0
    for module in modules():
        lines = module.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if re.match(r"\s*#?\s*Claim:", line):
                count += 1
                block = "\n".join(lines[number : number + 45])
                incomplete += [
                    f"{module.relative_to(ROOT)}:{number + 1} lacks {part}"
                    for part in CLAIM_PARTS
                    if part not in block
                ]
    assert incomplete == []
    assert count >= 20


def test_every_error_code_is_in_the_readme_and_is_its_own() -> None:
    kinds = [
        v for v in vars(errors).values() if inspect.isclass(v) and issubclass(v, errors.DPSQLError)
    ]
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes) >= 9
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [code for code in codes if f"`{code}`" not in readme] == []


@pytest.mark.parametrize("folder", ["dp_sql", "tests", "examples"])
def test_files_have_at_most_500_lines(folder: str) -> None:
    long = {
        str(f.relative_to(ROOT)): n
        for f in sorted((ROOT / folder).rglob("*.py"))
        if (n := len(f.read_text(encoding="utf-8").splitlines())) > 500
    }
    assert long == {}


def test_test_files_have_names_of_their_own() -> None:
    names = Counter(f.name for f in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_nothing_is_left_undone() -> None:
    words = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError|breakpoint)\b")
    found = [
        f"{module.relative_to(ROOT)}:{number}: {line.strip()}"
        for module in modules()
        for number, line in enumerate(module.read_text(encoding="utf-8").splitlines(), 1)
        if words.search(line)
    ]
    assert found == []


def test_the_tests_of_this_file_can_fail() -> None:
    assert sources("    Source: [Nobody1999], [Other]") == {"Nobody1999", "Other"}
    assert sources("    as [Nobody1999] shows") == {"Nobody1999"}
    assert sources("x: list[int] = y[T]") == set()
