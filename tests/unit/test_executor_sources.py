"""One file is one protected table, whatever link leads to it."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.errors import SchemaError

_HEAD = """version: 1
database: "duckdb://"
privacy: {level: user, adjacency: add_remove, defaults: {epsilon: 0.5, delta: 1e-9}}
tables:
"""
_PROTECTED = """  %s:
    source: %s
    owner: u
    budget: {epsilon: 1, delta: 1e-6, accountant: sequential}
    columns: {u: {type: integer}}
"""
_PUBLIC = """  %s: {source: %s, public: true, columns: {u: {type: integer}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one table under its name, a symbolic link and a hard link."""
    duckdb.sql("SELECT range AS u FROM range(9)").write_parquet(str(tmp_path / "a.parquet"))
    (tmp_path / "symbolic.parquet").symlink_to("a.parquet")
    os.link(tmp_path / "a.parquet", tmp_path / "hard.parquet")
    return tmp_path


def _schema(folder: Path, *tables: str) -> Path:
    path = folder / "s.yaml"
    path.write_text(_HEAD + "".join(tables), encoding="utf-8")
    return path


@pytest.mark.parametrize("link", ["symbolic.parquet", "hard.parquet"])
@pytest.mark.parametrize("twin", [_PROTECTED, _PUBLIC])
def test_a_link_to_a_protected_file_is_no_second_table(folder: Path, link: str, twin: str) -> None:
    schema = _schema(folder, _PROTECTED % ("a", "a.parquet"), twin % ("b", link))
    with pytest.raises(SchemaError, match="links to one file"):
        dp_sql.connect(schema, ledger=":memory:")


def test_public_tables_may_share_a_file(folder: Path) -> None:
    schema = _schema(folder, _PUBLIC % ("a", "a.parquet"), _PUBLIC % ("b", "symbolic.parquet"))
    with dp_sql.connect(schema, ledger=":memory:") as connection:
        assert connection.sql("SELECT COUNT(*) FROM a, b").fetchall() == [(81,)]
