"""CSV files: the header says how they are read; what doesn't fit is an error, never a shorter table."""

from __future__ import annotations

from pathlib import Path

import pytest

import dp_sql
from dp_sql.cli.check import check_schema
from dp_sql.errors import DPSQLError, EngineError, SchemaError

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {level: user, unit: person}
tables:
  people:
    source: people.csv
    owner: id
    budget: {epsilon: 1e12, delta: 0.1, accountant: sequential}
    columns:
      id: {type: integer}
      city: {type: varchar, values: [oslo, "a;b", "c,d"]}
      pay: {type: integer, bounds: [0, 9]}
"""


def write(folder: Path, data: bytes) -> Path:
    (folder / "people.csv").write_bytes(data)
    path = folder / "people.yaml"
    path.write_text(SCHEMA, encoding="utf-8")
    return path


def answer(folder: Path, data: bytes) -> list[tuple[object, ...]]:
    with dp_sql.connect(write(folder, data), ledger=":memory:") as connection:
        sql = "SELECT city, COUNT(*), SUM(pay) FROM people GROUP BY city"
        return connection.sql(sql, epsilon=10**9).fetchall()


GOOD = [
    (b"id,city,pay\n1,oslo,3\n2,,4\n", [("oslo", 1, 3), (None, 1, 4)]),
    (b"id;city;pay\n1;oslo;3\n2;c,d;4\n3;c,d;4\n4;c,d;4\n", [("c,d", 3, 12), ("oslo", 1, 3)]),
    (b'id,city,pay\n1,"c,d",3\n2,"a;b",4\n', [("a;b", 1, 4), ("c,d", 1, 3)]),
    (b"\xef\xbb\xbfPAY\tother\tId\tCITY\r\n3\tx\t1\toslo\r\n", [("oslo", 1, 3)]),
    (b"city|pay|id\noslo|3|1\n\noslo|4|2\n", [("oslo", 2, 7)]),
    (b'id,city,pay,note\n1,oslo,3,"two\nlines, and ""quotes"""\n', [("oslo", 1, 3)]),
    (b"id,city,pay\n", []),
    (b"id,city,pay", []),
]


@pytest.mark.parametrize(("data", "rows"), GOOD, ids=[repr(data) for data, _ in GOOD])
def test_the_header_says_how_a_file_is_read(
    data: bytes, rows: list[tuple[object, ...]], tmp_path: Path
) -> None:
    assert answer(tmp_path, data) == rows


BAD = [
    (b"id;city;pay\n1;oslo;3\n2;rome\n3;bonn;4;5\n", EngineError),
    (b"id,city,pay\n1,oslo,3\n2,oslo\n", EngineError),
    (b"id,city,pay\n1,oslo,3\n2,oslo,4,5\n", EngineError),
    (b'id,city,pay\n1,"oslo,3\n2,oslo,4\n', EngineError),
    (b"id,city,pay\n1,osl\xff,3\n", EngineError),
    (b"\xffid,city,pay\n1,oslo,3\n", EngineError),
    (b"id city pay\n1 oslo 3\n", SchemaError),
    (b"17,oslo,3\n18,oslo,4\n", SchemaError),
    (b"id,city,pay,pay\n1,oslo,3,4\n", SchemaError),
    (b"", SchemaError),
]


@pytest.mark.parametrize(("data", "kind"), BAD, ids=[repr(data) for data, _ in BAD])
def test_a_file_that_isnt_like_its_header_is_refused_when_it_is_opened_and_by_check(
    data: bytes, kind: type[DPSQLError], tmp_path: Path
) -> None:
    with pytest.raises(kind) as caught:
        answer(tmp_path, data)
    assert not {"17", "18", "rome", "bonn", "oslo"} & set(
        str(caught.value).replace("'", " ").split()
    )
    assert check_schema(write(tmp_path, data), ledger=":memory:").errors == 1


def test_one_persons_row_doesnt_turn_how_the_others_are_read(tmp_path: Path) -> None:
    """With a guessed separator, texts full of semicolons made another table of all rows."""
    rows = b"".join(b"%d,oslo,3\n" % i for i in range(5))
    odd = b"".join(b'%d,"a;b;c;d;e",3\n' % i for i in range(9, 99))
    assert answer(tmp_path, b"id,city,pay\n" + rows + odd)[0] == ("oslo", 5, 15)
