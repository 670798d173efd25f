"""A budget follows the data: through other paths, renames and moves, and into no second ledger."""

from __future__ import annotations

import os
import re
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.budget.moved import account_of
from dp_sql.errors import LedgerError

SCHEMA = """
version: 1
database: "duckdb://{database}"
privacy: {{level: user, unit: person}}
tables:
  people:
    {place}
    owner: id
    budget: {{epsilon: 1, delta: 1e-5}}
    columns: {{id: {{type: bigint}}}}
"""
COUNT = "SELECT COUNT(*) FROM people"


def schema(path: Path, source: str = "", database: str = "") -> Path:
    place = f"source: {source}" if source else ""
    path.write_text(SCHEMA.format(place=place, database=f"/{database}" if database else ""))
    return path


def spent(path: Path, table: str = "people", **where: Path) -> bool:
    with dp_sql.connect(path, in_process=True, **where) as connection:  # type: ignore[arg-type]
        return bool(connection.budget()[table].spent.epsilon)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "data"
    (place / "below").mkdir(parents=True)
    (place / "below" / "p.csv").write_text("id\n1\n2\n")
    with dp_sql.connect(schema(place / "a.yaml", "below/p.csv"), in_process=True) as connection:
        connection.sql(COUNT, epsilon="0.5")
    return place


def test_a_file_keeps_its_budget_under_other_paths_and_names(folder: Path) -> None:
    first = folder / "below" / "p.csv"
    (folder / "link.csv").symlink_to(first)
    os.link(first, folder / "hard.csv")
    for name in ("link.csv", "hard.csv"):
        assert spent(schema(folder / "b.yaml", name)), name
    (folder / "hard.csv").unlink()
    first.rename(folder / "q.csv")
    assert spent(schema(folder / "b.yaml", "q.csv"))
    (folder / "other.csv").write_text("id\n3\n")
    moved = folder.rename(folder.with_name("moved"))
    assert spent(schema(moved / "b.yaml", "q.csv"))


def test_other_data_have_their_own(folder: Path) -> None:
    (folder / "other.csv").write_text("id\n3\n")
    assert not spent(schema(folder / "b.yaml", "other.csv"))


def test_a_second_ledger_of_the_same_data_is_refused(folder: Path) -> None:
    below = schema(folder / "below" / "c.yaml", "p.csv")
    with pytest.raises(LedgerError, match="would be a second one"):
        spent(below)
    with pytest.raises(LedgerError, match="would be a second one"):
        spent(schema(folder / "c.yaml", "p.csv"), data_dir=folder / "below")
    (folder / "dp_sql.ledger").rename(folder / "below" / "dp_sql.ledger")
    assert spent(below)
    with pytest.raises(LedgerError, match="would be a second one"):
        spent(folder / "a.yaml")


def test_a_database_that_is_renamed_or_linked_keeps_its_ledger(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "x.duckdb")) as made:
        made.execute("CREATE TABLE people AS SELECT range AS id FROM range(9)")
    path = schema(tmp_path / "x.yaml", database="x.duckdb")
    with dp_sql.connect(path, in_process=True) as connection:
        connection.sql(COUNT, epsilon="0.5")
    os.link(tmp_path / "x.duckdb", tmp_path / "y.duckdb")
    path = schema(path, database="y.duckdb")
    with pytest.raises(LedgerError, match="would be a second one"):
        spent(path)
    (tmp_path / "x.duckdb").unlink()
    with pytest.raises(LedgerError, match="would be a second one"):
        spent(path)
    (tmp_path / "x.duckdb.ledger").rename(tmp_path / "y.duckdb.ledger")
    assert spent(path)


def test_of_several_files_that_are_gone_the_owner_says_which(tmp_path: Path) -> None:
    new = str(tmp_path / "new.csv")
    gone = [(str(tmp_path / "a.csv"), "t"), (str(tmp_path / "b.csv"), "T")]
    with pytest.raises(LedgerError, match="2 tables `t` whose files are gone"):
        account_of(new, "t", gone)
    assert account_of(new, "t", gone[:1]) == gone[0][0]
    assert account_of(new, "u", gone) == new
    assert account_of("id:x", "t", gone) == "id:x"
    assert account_of(f"{tmp_path}/x.duckdb#t", "t", gone) == f"{tmp_path}/x.duckdb#t"


def test_tables_of_one_database_have_an_account_each(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    file.touch()
    known = [(f"{file}#t", "t")]
    assert account_of(f"{file}#u", "u", known) == f"{file}#u"
    os.link(file, tmp_path / "y.duckdb")
    assert account_of(f"{tmp_path}/y.duckdb#t", "t", known) == f"{file}#t"
    assert account_of(f"{tmp_path}/y.duckdb#u", "u", known) == f"{tmp_path}/y.duckdb#u"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "x.duckdb"
    with duckdb.connect(str(file)) as duck:
        duck.execute("CREATE TABLE people AS SELECT 1::BIGINT AS id")
    return file


def test_a_ledger_that_is_named_is_no_second_one(database: Path, tmp_path: Path) -> None:
    path = schema(tmp_path / "s.yaml", database=database.name)
    with dp_sql.connect(path, in_process=True) as connection:
        connection.sql(COUNT, epsilon="0.5")
    first = database.with_name(f"{database.name}.ledger")
    for place in (tmp_path / "other.ledger", tmp_path / "dp_sql.ledger"):
        with pytest.raises(LedgerError, match="would be a second one"):
            spent(path, ledger=place)
        assert not place.exists()
    assert spent(path, ledger=first)
    first.rename(tmp_path / "other.ledger")
    assert spent(path, ledger=tmp_path / "other.ledger")


def test_a_table_of_another_name_is_the_owners_to_tell(database: Path, tmp_path: Path) -> None:
    path = schema(tmp_path / "s.yaml", database=database.name)
    with dp_sql.connect(path, in_process=True) as connection:
        connection.sql(COUNT, epsilon="0.5")
    with duckdb.connect(str(database)) as duck:
        duck.execute("CREATE VIEW persons AS FROM people")
    path.write_text(path.read_text().replace("people:", "persons:"))
    assert not spent(path, "persons")
    with duckdb.connect(str(database)) as duck:
        duck.execute("DROP VIEW persons")
        duck.execute("ALTER TABLE people RENAME TO Others")
    path.write_text(path.read_text().replace("persons:", "others:"))
    for apart in (True, False):
        with pytest.raises(LedgerError, match="`others` is the same under another name") as refused:
            dp_sql.connect(path, in_process=not apart)
    hint = str(refused.value.hint)
    same = re.search(r'id: "[^"]*"', hint)
    assert same is not None
    text = path.read_text()
    path.write_text(text.replace("owner: id", f"owner: id\n    {same[0]}"))
    assert spent(path, "others")
    path.write_text(text.replace("owner: id", "owner: id\n    id: mine"))
    assert not spent(path, "others")


def test_another_database_beside_the_same_files_is_no_second_budget(tmp_path: Path) -> None:
    files, apart = tmp_path / "files", tmp_path / "apart"
    for folder in (files, apart):
        folder.mkdir()
    (files / "p.csv").write_text("id\n1\n2\n")
    path = schema(files / "s.yaml", "p.csv")
    with dp_sql.connect(path, in_process=True) as connection:
        connection.sql(COUNT, epsilon="0.5")
    empty = apart / "e.duckdb"
    duckdb.connect(str(empty)).close()
    where = {"database": f"duckdb:///{empty}", "data_dir": files}
    with pytest.raises(LedgerError, match="would be a second one"):
        spent(path, **where)  # type: ignore[arg-type]
    (files / "dp_sql.ledger").rename(files / "e.duckdb.ledger")
    with pytest.raises(LedgerError, match="would be a second one"):
        spent(path)


def test_files_that_moved_below_their_ledger_have_no_second_one(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "below" / "p.csv").rename(folder / "sub" / "p.csv")
    with pytest.raises(LedgerError, match="would be a second one"):
        spent(schema(folder / "b.yaml", "p.csv"), data_dir=folder / "sub")
