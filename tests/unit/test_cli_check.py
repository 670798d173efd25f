from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from dp_sql.cli.check import check_schema
from dp_sql.connection import connect
from dp_sql.demo import SCHEMA
from dp_sql.errors import SchemaError
from dp_sql.executor import confine


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    for name in ("cdnow.yaml", "cdnow.parquet"):
        shutil.copy(SCHEMA.with_name(name), tmp_path / name)
    return tmp_path / "cdnow.yaml"


def edit(schema: Path, old: str, new: str) -> None:
    text = schema.read_text(encoding="utf-8")
    assert old in text
    schema.write_text(text.replace(old, new), encoding="utf-8")


def test_a_sound_schema_has_no_errors_and_nothing_is_written(schema: Path) -> None:
    report = check_schema(schema)
    text = "\n".join(report.lines)
    assert report.errors == 0
    assert "isn't there yet" in text
    assert "purchases, protected, 4 columns, owner: customer_id" in text
    assert "every declared column" in text
    assert report.lines[-1] == "Nothing is wrong."
    assert not schema.with_name("dp_sql.ledger").exists()


def test_a_column_without_bounds_is_told_and_is_no_error(schema: Path) -> None:
    edit(schema, "dollars: {type: double, bounds: [0, 300]}", "dollars: {type: double}")
    report = check_schema(schema)
    assert report.errors == 0
    assert any(line.strip().endswith("averaged: dollars") for line in report.lines)


def test_a_column_that_the_data_lack_is_an_error(schema: Path) -> None:
    edit(schema, "dollars:", "euros:")
    report = check_schema(schema)
    assert report.errors == 1
    assert any("no column 'euros'" in line for line in report.lines)


def test_a_missing_file_is_an_error_of_its_table_alone(schema: Path, tmp_path: Path) -> None:
    edit(
        schema,
        "tables:\n",
        "tables:\n  regions: {source: none.parquet, public: true, columns: {a: {type: bigint}}}\n",
    )
    report = check_schema(schema)
    assert report.errors == 1
    assert any("'none.parquet'" in line for line in report.lines)
    assert any("every declared column" in line for line in report.lines)
    assert check_schema(schema, data_dir=tmp_path / "nowhere").errors == 2


def test_a_registered_table_shows_what_is_left(schema: Path) -> None:
    connect(schema).close()
    report = check_schema(schema)
    assert report.errors == 0
    assert any(line.startswith("  registered; ") for line in report.lines)


def test_a_table_that_a_ledger_does_not_know_is_not_registered_by_the_check(
    schema: Path, tmp_path: Path
) -> None:
    ledger = tmp_path / "shared.ledger"
    connect(schema, ledger=ledger).close()
    shutil.copy(tmp_path / "cdnow.parquet", tmp_path / "other.parquet")
    edit(schema, "source: cdnow.parquet", "source: other.parquet")
    for _ in range(2):
        report = check_schema(schema, ledger=ledger)
        assert report.errors == 0
        assert any("not registered yet" in line for line in report.lines)


def test_a_budget_that_was_edited_is_an_error(schema: Path) -> None:
    connect(schema).close()
    edit(schema, "budget: {epsilon: 10,", "budget: {epsilon: 100,")
    report = check_schema(schema)
    assert report.errors == 1
    assert any("Error (ledger)" in line for line in report.lines)


def test_a_damaged_ledger_is_an_error_and_the_data_are_checked_all_the_same(schema: Path) -> None:
    schema.with_name("dp_sql.ledger").write_bytes(b"no ledger" * 200)
    report = check_schema(schema)
    assert report.errors == 1
    assert any("every declared column" in line for line in report.lines)


def test_a_wrong_schema_file_is_raised(schema: Path) -> None:
    edit(schema, "owner:", "ower:")
    with pytest.raises(SchemaError):
        check_schema(schema)


@pytest.mark.parametrize(
    ("system", "landlock", "told"),
    [
        ("linux", 6, "confined: files, network, memory, processor time and core dumps"),
        ("linux", 3, "not confined on this system: network, which takes Landlock for TCP"),
        ("linux", -1, "not confined on this system: files, which takes Landlock, of Linux 5.13"),
        ("darwin", 0, "not confined on this system: memory, which takes Linux"),
        ("win32", 0, "not confined on this system: processor time, which takes a Unix"),
    ],
)
def test_walls_that_the_system_lacks_are_told(
    system: str, landlock: int, told: str, schema: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confine, "_landlock", lambda: landlock)
    monkeypatch.setattr("dp_sql.executor.confine.sys", SimpleNamespace(platform=system))
    lines = check_schema(schema).lines
    walls = lines[lines.index("workers") + 1 :]
    assert any(line.strip().startswith(told) for line in walls)
    edit(schema, "version: 1", "version: 1\nworker: {in_process: true}")
    lines = check_schema(schema).lines
    assert lines[lines.index("workers") + 1].strip().startswith("none: the process that connects")
