"""One file is one protected table, whatever link leads to it."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.errors import EngineError, SchemaError

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


@pytest.mark.parametrize(
    "url", ["duckdb:///shop.duckdb", "shop.duckdb", "duckdb:///{folder}/shop.duckdb"]
)
def test_a_database_file_lies_below_the_schema_unless_absolute(tmp_path: Path, url: str) -> None:
    duckdb.connect(str(tmp_path / "shop.duckdb")).execute("CREATE TABLE a AS SELECT 1 AS u").close()
    text = (_HEAD + _PROTECTED % ("a", "-")).replace("    source: -\n", "")
    schema = tmp_path / "s.yaml"
    schema.write_text(text.replace("duckdb://", url.format(folder=tmp_path)), encoding="utf-8")
    with dp_sql.connect(schema) as connection:
        assert "a" in connection.budget()
    assert (tmp_path / "shop.duckdb.ledger").is_file()


def test_a_database_that_this_process_writes_is_in_use(tmp_path: Path) -> None:
    writing = duckdb.connect(str(tmp_path / "shop.duckdb"))
    writing.execute("CREATE TABLE a AS SELECT 1 AS u")
    text = (_HEAD + _PROTECTED % ("a", "-")).replace("    source: -\n", "")
    schema = tmp_path / "s.yaml"
    schema.write_text(text.replace("duckdb://", "shop.duckdb"), encoding="utf-8")
    with pytest.raises(EngineError, match="in use"):
        dp_sql.connect(schema, ledger=":memory:")
    writing.close()


def test_a_value_of_a_csv_file_that_has_another_type_is_null(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("u,x\n1,5\n1,2\n2,bad\n3,\n", encoding="utf-8")
    schema = _schema(
        tmp_path, (_PROTECTED % ("a", "a.csv")).replace("}}", "}, x: {type: integer}}")
    )
    with dp_sql.connect(schema, ledger=":memory:") as connection:
        (row,) = connection._engine._run("SELECT count(*), count(x), sum(x) FROM data.a")
    assert row == (4, 2, 7)
