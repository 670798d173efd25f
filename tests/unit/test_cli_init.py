"""`dpsql init`: what the catalog says, nothing of the rows, and every decision left to a person."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from dp_sql.cli.check import ONLY_THE_OWNER, check_schema
from dp_sql.cli.init import write_schema
from dp_sql.connection import connect
from dp_sql.errors import EngineError, SchemaError
from dp_sql.schema.loader import load
from dp_sql.schema.undecided import undecided

TABLES = """
CREATE TYPE mood AS ENUM ('sulky', 'merry');
CREATE TABLE customers (id BIGINT PRIMARY KEY, name VARCHAR NOT NULL, mood mood, email VARCHAR UNIQUE);
CREATE TABLE orders (id INT PRIMARY KEY, customer_id BIGINT REFERENCES customers (id),
    tags VARCHAR[], total DECIMAL(12, 2), zoned TIMESTAMPTZ, "on day" DATE, weight DOUBLE, "null" INT);
CREATE TABLE lines (order_id INT REFERENCES orders (id), line INT, price DOUBLE,
    PRIMARY KEY (order_id, line));
"""
ROWS = """
INSERT INTO customers VALUES (1, 'Xanthippe', 'merry', 'x@e.org'), (2, 'Bo', 'sulky', NULL);
INSERT INTO orders VALUES (1, 1, NULL, 5, NULL, '2024-01-01', 3, 1),
    (2, NULL, NULL, 777, NULL, NULL, 'nan', 1),
    (3, 2, NULL, -4, NULL, NULL, 99, 2);
INSERT INTO lines VALUES (1, 1, 5), (1, 2, 7), (2, 1, 9);
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(TABLES)
        connection.execute(ROWS)
    return path


def decided(text: str) -> str:
    """Return a first schema after a person has decided everything in it."""
    owners = {
        "customers": "id",
        "orders": "customer_id",
        "lines": "{through: orders, on: {order_id: id}}",
    }
    for table, owner in owners.items():
        text = re.sub(rf"(  {table}:\n    owner: )DECIDE.*", rf"\1{owner}", text)
    text = text.replace("unit: DECIDE", "unit: customer")
    text = text.replace("budget: DECIDE", "budget: {epsilon: 1, delta: 1e-6}")
    text = text.replace('"decimal(12,2)"}', '"decimal(12,2)", bounds: [0, 500]}')
    text = text.replace("weight: {type: double}", "weight: {type: double, bounds: [0, 10]}")
    text = text.replace("mood: {type: varchar}", "mood: {type: varchar, values: [merry]}")
    return re.sub(r"# DECIDE.*", "", text)


def test_a_first_schema_says_what_the_catalog_says(database: Path) -> None:
    said = write_schema(database, None)
    text = database.with_suffix(".yaml").read_text(encoding="utf-8")
    assert said.startswith(f"wrote {database.with_suffix('.yaml')}: 3 tables, all protected\n")
    assert f"{len(undecided(text))} lines say DECIDE" in said
    for line in [
        'database: "duckdb:///shop.duckdb"',
        "      id: {type: bigint, nullable: false, unique: true}",
        "      name: {type: varchar, nullable: false}",
        "      email: {type: varchar, unique: true}",
        '      total: {type: "decimal(12,2)"}  # DECIDE bounds: [lowest, highest]',
        '      "on day": {type: date}  # DECIDE bounds: [lowest, highest]',
        "      # tags: VARCHAR[] is no type that statements can read",
        '    unique: [["order_id", "line"]]',
    ]:
        assert line in text.splitlines()
    assert "order_id, or {through: orders, on: {order_id: id}}" in text
    assert "id (the primary key) where each row is one person; email (unique)" in text
    assert "public: true" in text
    assert "public: true\n" not in re.sub(r"#.*", "", text)


def test_a_first_schema_is_the_same_whatever_the_rows_are(database: Path, tmp_path: Path) -> None:
    write_schema(database, None)
    first = database.with_suffix(".yaml").read_text(encoding="utf-8")
    for word in ("Xanthippe", "777", "2024", "merry", "sulky"):
        assert word not in first
    (tmp_path / "empty").mkdir()
    other = tmp_path / "empty" / "shop.duckdb"
    with duckdb.connect(str(other)) as connection:
        connection.execute(TABLES.replace("'sulky', 'merry'", "'other'"))
    write_schema(other, None)
    assert other.with_suffix(".yaml").read_text(encoding="utf-8") == first


def test_check_refuses_a_first_schema_until_all_is_decided(database: Path) -> None:
    write_schema(database, None)
    schema = database.with_suffix(".yaml")
    text = schema.read_text(encoding="utf-8")
    report = check_schema(schema)
    assert report.errors == len(undecided(text)) > 10
    assert report.lines[0].endswith("not finished")
    with pytest.raises(SchemaError):
        connect(schema)
    schema.write_text(decided(text) + "# DECIDE one thing\n", encoding="utf-8")
    report = check_schema(schema)
    assert report.errors == 1
    assert report.lines[1] == "yours to decide"
    assert report.lines[2].endswith("# DECIDE one thing")
    schema.write_text(decided(text).replace("version: 1", "version: 2 # DECIDE\nfoo: 3"))
    report = check_schema(schema)
    assert report.errors == 2
    assert any("no key 'foo'" in line for line in report.lines)


def test_a_finished_schema_is_sound_and_answered(database: Path) -> None:
    write_schema(database, None)
    schema = database.with_suffix(".yaml")
    schema.write_text(decided(schema.read_text(encoding="utf-8")), encoding="utf-8")
    assert check_schema(schema).errors == 0
    assert list(load(schema).tables) == ["customers", "lines", "orders"]
    with connect(schema, ledger=":memory:") as connection:
        assert len(connection.sql("SELECT COUNT(*) FROM lines", epsilon=0.5).fetchall()) == 1


def test_the_check_of_the_data_counts_what_they_break(database: Path) -> None:
    write_schema(database, None)
    schema = database.with_suffix(".yaml")
    text = decided(schema.read_text(encoding="utf-8")).replace(
        '"null": {type: integer}', '"null": {type: integer, unique: true}'
    )
    text = text.replace("null: {type: integer}", "null: {type: integer, unique: true}")
    schema.write_text(text, encoding="utf-8")
    assert all("for the owner alone" not in line for line in check_schema(schema).lines)
    lines = list(check_schema(schema, data=True).lines)
    found = lines[lines.index(ONLY_THE_OWNER) + 1 : -1]
    assert found == [
        "  customers: rows with mood outside of its values, which groups by it leave out: 1",
        "  orders: rows with total outside of its bounds, which count as the nearest one: 2",
        "  orders: rows where weight is NaN, read as NULL: 1",
        "  orders: rows with weight outside of its bounds, which count as the nearest one: 1",
        "  orders: rows without an owner (customer_id is NULL), which are left out: 1",
        "  orders: values of null in more than one row, and declared unique: 1",
    ]


def test_the_check_of_the_data_finds_children_without_parents(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "s.duckdb")) as connection:
        connection.execute("CREATE TABLE p (id INT, who INT); CREATE TABLE c (p INT, t VARCHAR)")
        connection.execute("INSERT INTO p VALUES (1, 1), (1, 2); INSERT INTO c VALUES (1, 'aaa')")
        connection.execute("INSERT INTO c VALUES (7, NULL), (NULL, 'a')")
    schema = tmp_path / "s.yaml"
    schema.write_text(
        """
version: 1
database: duckdb:///s.duckdb
privacy: {level: user}
tables:
  p:
    owner: who
    budget: {epsilon: 1, delta: 1e-6}
    columns: {id: {type: integer, unique: true}, who: {type: integer}}
  c:
    owner: {through: p, on: {p: id}}
    budget: {epsilon: 1, delta: 1e-6}
    columns: {p: {type: integer}, t: {type: varchar, max_length: 2, nullable: false}}
"""
    )
    lines = list(check_schema(schema, data=True).lines)
    assert lines[lines.index(ONLY_THE_OWNER) + 1 : -1] == [
        "  p: values of id in more than one row, and declared unique: 1",
        "  c: rows without t, which is declared never NULL: 1",
        "  c: rows with t longer than 2 characters, which is cut: 1",
        "  c: rows without an owner (p has no such row), which are left out: 2",
    ]


def test_the_word_may_be_a_value_of_a_list() -> None:
    assert undecided("status: {type: varchar, values: [DECIDE, DONE]}\nDECIDE: {type: date}") == ()
    assert [u.line for u in undecided("a: 1\nb: DECIDE\nc: DECIDE # d\ne: 1 # DECIDE f\n")] == [
        2,
        3,
        4,
    ]


def test_nothing_is_overwritten(database: Path, tmp_path: Path) -> None:
    target = tmp_path / "mine.yaml"
    target.write_text("mine")
    with pytest.raises(SchemaError, match="is there already"):
        write_schema(database, target)
    assert target.read_text() == "mine"
    with pytest.raises(SchemaError, match="can't be written"):
        write_schema(database, tmp_path / "nowhere" / "x.yaml")


def test_a_folder_of_files_is_a_database(database: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    with duckdb.connect(str(database), read_only=True) as connection:
        connection.execute(f"COPY orders TO '{folder}/orders.parquet'")
    (folder / "visits.csv").write_text("Person;Day\n17;2024-01-02\n")
    assert "2 tables" in write_schema(folder, tmp_path / "all.yaml")
    text = (tmp_path / "all.yaml").read_text(encoding="utf-8")
    assert 'database: "files"' in text
    assert '    source: "orders.parquet"' in text
    assert "      Person: {type: varchar}  # DECIDE type, and bounds if it is a number" in text
    assert "DECIDE see that the first line of the file names its columns" in text
    assert "2024" not in text
    write_schema(folder, None)
    assert 'database: "."' in (folder / "schema.yaml").read_text(encoding="utf-8")
    write_schema(folder / "orders.parquet", None)
    assert 'source: "orders.parquet"' in (folder / "orders.yaml").read_text(encoding="utf-8")


def test_what_holds_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.duckdb").write_text("no database")
    (tmp_path / "folder").mkdir()
    (tmp_path / "bad.parquet").write_text("no rows")
    for place, message in [
        ("nowhere", "there is no file or folder"),
        ("text.duckdb", "is no DuckDB database"),
        ("folder", "holds no table"),
        ("bad.parquet", "can't be read as a Parquet file"),
    ]:
        with pytest.raises(EngineError, match=message):
            write_schema(tmp_path / place, None)
    assert not list(tmp_path.glob("*.yaml"))
