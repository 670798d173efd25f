"""Attacks D16, D17, D35 on files: schemas that explode, paths that climb, and one file under two names."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.errors import DPSQLError, EngineError, LedgerError, SchemaError
from dp_sql.schema.loader import load

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {level: event}
tables:
  t:
    source: t.parquet
    budget: {epsilon: 1, delta: 0.001, accountant: sequential}
    columns: {a: {type: integer, bounds: [0, 9]}}
"""
SECOND = """
  u:
    source: u.parquet
    REST
    columns: {a: {type: integer, bounds: [0, 9]}}
"""
BUDGET = "budget: {epsilon: 1, delta: 0.001, accountant: sequential}"
PUBLIC = "public: true"


def place(folder: Path, text: str = SCHEMA) -> Path:
    """Write a schema and the file t.parquet beside it."""
    with duckdb.connect() as data:
        data.execute(f"COPY (SELECT 5 AS a FROM range(9)) TO '{folder}/t.parquet' (FORMAT parquet)")
    path = folder / "schema.yaml"
    path.write_text(text, encoding="utf-8")
    return path


LAUGHS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 10)}]" for i in range(12)]
)
BOMBS = {
    "aliases of aliases": LAUGHS,
    "an alias of itself": "version: &v [*v]",
    "a merged mapping": SCHEMA + "\n<<: {version: 2}\n",
    "a merged alias": "base: &b {version: 1}\n<<: *b\n",
    "an object of Python": SCHEMA.replace(
        "version: 1", "version: !!python/object/apply:os.system [id]"
    ),
    "brackets": "[" * 900_000,
    "braces": "{" * 900_000,
    "dashes": "- " * 400_000,
    "question marks": "? " * 400_000,
    "an integer of 900,000 digits": SCHEMA.replace("version: 1", "version: " + "9" * 900_000),
    "a huge hexadecimal number": SCHEMA.replace("[0, 9]", "[0, 0x" + "f" * 900_000 + "]"),
    "an exponent of nine digits": SCHEMA.replace("[0, 9]", "[0, 1e999999999]"),
    "a negative exponent": SCHEMA.replace("epsilon: 1,", "epsilon: 1e-999999999,"),
    "sixty-base numbers": SCHEMA.replace("[0, 9]", "[0, 190:20:30:40:50]"),
    "a key of a megabyte": "x" * 999_000 + ": 1",
    "colons": ": " * 400_000,
    "quotes": '"' * 900_001,
    "escapes": '"' + "\\x41" * 200_000 + '"',
    "comments": "#\n" * 100_000,
    "folded lines": ">\n" + " a\n" * 60_000,
    "many tables": SCHEMA + "".join(f"  t{i}: {{}}\n" for i in range(8_000)),
    "many documents": "---\n" * 200_000,
    "more than a megabyte": "#" * 1_000_001,
}


@pytest.mark.parametrize("name", BOMBS)
def test_d35_no_schema_text_takes_long_or_does_harm(name: str, tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(BOMBS[name], encoding="utf-8")
    start = time.process_time()
    with pytest.raises(SchemaError) as caught:
        load(path)
    assert time.process_time() - start < 20
    assert len(str(caught.value)) < 3000


CLIMBING = (
    "../t.parquet", "x/../../t.parquet", "..\\t.parquet", "/etc/passwd", "/t.parquet", "~/t.parquet",
    "C:t.parquet", "file:///t.parquet", "https://example.org/t.parquet", "s3://b/t.parquet", "t.parquet/..",
    "*.parquet", "t?.parquet", "[t].parquet", "t.parquet\\0.csv", "t.db", "", " ", ".", "..",
    "\\\\host\\t.parquet", "x/./../../t.parquet", "t.parquet;t.csv", "{t,u}.parquet",
)  # fmt: skip


@pytest.mark.parametrize("source", CLIMBING)
def test_d17_no_source_leads_out_of_the_folder(source: str, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    place(tmp_path)  # the file that the paths would reach
    path = place(inner, SCHEMA.replace("source: t.parquet", f'source: "{source}"'))
    (inner / "t.parquet").unlink()
    with pytest.raises((SchemaError, EngineError)) as caught:
        dp_sql.connect(path, ledger=":memory:")
    assert "passwd:" not in str(caught.value)


def _link_out(inner: Path) -> None:
    (inner / "t.parquet").symlink_to(inner.parent / "t.parquet")


def _folder_out(inner: Path) -> None:
    (inner / "sub").symlink_to(inner.parent)


def _ring(inner: Path) -> None:
    (inner / "t.parquet").symlink_to(inner / "t.parquet")


def _pipe(inner: Path) -> None:
    os.mkfifo(inner / "t.parquet")


def _device(inner: Path) -> None:
    (inner / "t.parquet").symlink_to("/dev/zero")


def _directory(inner: Path) -> None:
    (inner / "t.parquet").mkdir()


@pytest.mark.parametrize("made", [_link_out, _folder_out, _ring, _pipe, _device, _directory])
def test_d17_no_link_or_pipe_in_the_folder_is_followed_out(
    made: Callable[[Path], None], tmp_path: Path
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    place(tmp_path)
    source = "sub/t.parquet" if made is _folder_out else "t.parquet"
    path = place(inner, SCHEMA.replace("source: t.parquet", f"source: {source}"))
    (inner / "t.parquet").unlink()
    made(inner)
    with pytest.raises((SchemaError, EngineError)):
        dp_sql.connect(path, ledger=":memory:")


def _symbolic(folder: Path) -> None:
    (folder / "u.parquet").symlink_to(folder / "t.parquet")


def _hard(folder: Path) -> None:
    os.link(folder / "t.parquet", folder / "u.parquet")


@pytest.mark.parametrize("database", ["duckdb:///ring.duckdb", "ring", "~nobody-of-this-name/x"])
def test_d17_a_database_that_leads_nowhere_is_refused(database: str, tmp_path: Path) -> None:
    path = place(tmp_path, SCHEMA.replace("duckdb://", database))
    for name in ("ring.duckdb", "ring"):
        (tmp_path / name).symlink_to(tmp_path / name)
    with pytest.raises((SchemaError, EngineError)):
        dp_sql.connect(path, ledger=":memory:")


@pytest.mark.parametrize("made", [_symbolic, _hard])
@pytest.mark.parametrize("rest", [BUDGET, PUBLIC])
def test_d16_one_file_under_two_names_is_one_table(
    rest: str, made: Callable[[Path], None], tmp_path: Path
) -> None:
    """A second budget for the same rows, or their public twin, is refused however the file is linked."""
    path = place(tmp_path, SCHEMA + SECOND.replace("REST", rest))
    made(tmp_path)
    with pytest.raises(DPSQLError):
        dp_sql.connect(path, ledger=":memory:")


def test_d16_public_tables_may_be_one_file(tmp_path: Path) -> None:
    text = SCHEMA.replace(BUDGET, PUBLIC) + SECOND.replace("REST", PUBLIC)
    path = place(tmp_path, text)
    _symbolic(tmp_path)
    with dp_sql.connect(path, ledger=":memory:") as connection:
        assert connection.sql("SELECT COUNT(*) FROM t, u").fetchall() == [(81,)]


def _ledger_pipe(file: Path) -> None:
    os.mkfifo(file)


def _ledger_device(file: Path) -> None:
    file.symlink_to("/dev/null")


def _ledger_folder(file: Path) -> None:
    file.mkdir()


def _ledger_text(file: Path) -> None:
    file.write_text("spent: 0\n" * 100, encoding="utf-8")


@pytest.mark.parametrize("made", [_ledger_pipe, _ledger_device, _ledger_folder, _ledger_text])
def test_d17_what_is_no_ledger_is_not_taken_for_one(
    made: Callable[[Path], None], tmp_path: Path
) -> None:
    path = place(tmp_path)
    made(tmp_path / "budget.ledger")
    with pytest.raises(LedgerError):
        dp_sql.connect(path, ledger=tmp_path / "budget.ledger")
