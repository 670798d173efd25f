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
        (row,) = connection._engine._database.rows("SELECT count(*), count(x), sum(x) FROM data.a")
    assert row == (4, 2, 7)


@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT", "NFC", "POSIX", "de"])
@pytest.mark.parametrize("through", ["TABLE", "VIEW"])
def test_texts_are_told_apart_by_their_bits(tmp_path: Path, collation: str, through: str) -> None:
    """A collation that takes two owners for one would bound both as one."""
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as con:
        try:
            con.execute(f'CREATE TABLE t (u VARCHAR COLLATE "{collation}", x INTEGER)')
        except duckdb.Error:
            pytest.skip(f"this DuckDB has no collation {collation}")
        con.execute("INSERT INTO t VALUES ('a', 1), ('A', 2), ('á', 3), ('a\u0301', 4)")
        merges = len(con.sql("SELECT u, count(*) FROM t GROUP BY u").fetchall()) < 4
        con.execute("CREATE VIEW w AS SELECT * FROM t")
        con.execute('CREATE VIEW good AS SELECT u COLLATE "POSIX" AS u, x FROM t')
    name = "t" if through == "TABLE" else "w"
    head = _HEAD.replace("duckdb://", "duckdb:///shop.duckdb")
    table = (_PROTECTED % (name, "-")).replace("    source: -\n", "").replace("integer", "varchar")
    path = tmp_path / "s.yaml"
    path.write_text(head + table, encoding="utf-8")
    if merges:
        with pytest.raises(SchemaError, match="has a collation"):
            dp_sql.connect(path, ledger=":memory:")
        path.write_text(head + table.replace(f"  {name}:", "  good:"), encoding="utf-8")
    with dp_sql.connect(path, ledger=":memory:") as opened:
        assert opened.sql(f"SELECT COUNT(*) FROM {'good' if merges else name}").fetchall()
