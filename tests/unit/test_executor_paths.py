"""Of a table exactly its declared file is read, whatever the folders above it are called."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.errors import SchemaError
from dp_sql.executor.inventory import inventory

_SCHEMA = """version: 1
database: "{database}"
privacy: {{level: user, adjacency: add_remove, defaults: {{epsilon: 0.5, delta: 1e-9}}}}
tables:
  t:
{source}
    {protection}
    columns: {{u: {{type: integer}}, c0: {{type: integer}}}}
"""
_PROTECTED = """owner: u
    limits: {max_groups: 1, max_rows_per_group: 1}
    budget: {epsilon: 1000000, delta: 1e-6, accountant: sequential}"""
_PUBLIC = "public: true"


def _data(folder: Path, rows: int, suffix: str) -> None:
    """Write a file of rows whose column u is never 7."""
    folder.mkdir()
    file = folder / f"f.{suffix}"
    table = f"SELECT range + 10 AS u, range + 10 AS c0 FROM range({rows})"
    with duckdb.connect() as connection:
        if suffix == "duckdb":
            connection.execute(f"ATTACH '{folder.parent}/new' AS d")
            connection.execute(f"CREATE TABLE d.t AS {table}; DETACH d")
        else:
            connection.execute(f"COPY ({table}) TO '{folder.parent}/new' (FORMAT {suffix})")
    (folder.parent / "new").rename(file)


def _schema(folder: Path, suffix: str, protection: str = _PROTECTED) -> Path:
    path = folder / "s.yaml"
    database = "duckdb:///f.duckdb" if suffix == "duckdb" else "duckdb://"
    source = "" if suffix == "duckdb" else f"    source: f.{suffix}"
    path.write_text(
        _SCHEMA.format(database=database, source=source, protection=protection), "utf-8"
    )
    return path


@pytest.mark.parametrize("suffix", ["parquet", "csv", "duckdb"])
@pytest.mark.parametrize(
    ("name", "protection"),
    [("q?", _PUBLIC), ("da*ta", _PROTECTED), ("d[a]ta", _PROTECTED), ("a\\b", _PROTECTED)],
)
def test_a_path_that_is_a_pattern_of_several_is_refused(
    tmp_path: Path, name: str, suffix: str, protection: str
) -> None:
    _data(tmp_path / name, 1, suffix)
    with pytest.raises(SchemaError, match="pattern of files") as refused:
        dp_sql.connect(_schema(tmp_path / name, suffix, protection), ledger=":memory:")
    assert str(refused.value.hint).startswith("rename the file or its folder")
    with pytest.raises(SchemaError, match="pattern of files"):
        inventory(tmp_path / name / f"f.{suffix}")
    (tmp_path / "link").symlink_to(name)
    with pytest.raises(SchemaError, match="pattern of files"):
        inventory(tmp_path / "link" / f"f.{suffix}")


@pytest.mark.parametrize("suffix", ["parquet", "csv", "duckdb"])
def test_other_signs_in_a_path_are_only_signs(tmp_path: Path, suffix: str) -> None:
    name = "~{a,b} ]'%41#"
    for folder, rows in ((name, 10), ("~a ]'%41#", 100), ("~{a,b} ]'A#", 100)):
        _data(tmp_path / folder, rows, suffix)
    schema = _schema(tmp_path / name, suffix)
    with dp_sql.connect(schema, ledger=":memory:", in_process=True) as connection:
        assert connection.sql("SELECT COUNT(*) FROM t", epsilon=1000).fetchall() == [(10,)]


@pytest.mark.parametrize("column", ["u", "c0"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_the_name_of_a_folder_is_no_column(tmp_path: Path, column: str, suffix: str) -> None:
    _data(tmp_path / f"{column}=7", 10, suffix)
    query = "SELECT COUNT(*) FROM t WHERE u = 7 OR c0 = 7"
    for protection in (_PROTECTED, _PUBLIC):
        schema = _schema(tmp_path / f"{column}=7", suffix, protection)
        with dp_sql.connect(schema, ledger=":memory:", in_process=True) as connection:
            assert connection.sql(query, epsilon=1000).fetchall() == [(0,)]
    found = inventory(tmp_path / f"{column}=7")
    assert [c.name for c in found[0].columns] == ["u", "c0"]
    _data(tmp_path / "more=7", 10, suffix)
    assert [c.name for c in inventory(tmp_path / "more=7")[0].columns] == ["u", "c0"]
