"""How a shown key is written is a function of the key, not of whose row it was read from first.

Rows hold values that are equal to the database and written in several ways: signed zeros, NaNs of other
bits. Whoever is there, the bytes of an answer with the same keys are the same.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import duckdb
import pytest

import dp_sql

SCHEMA = """
version: 1
database: duckdb:///keys.duckdb
privacy: {level: event, adjacency: add_remove}
tables:
  t:
    budget: {epsilon: 1e12, delta: 0.1}
    columns:
      f: {type: double}
      g: {type: float}
      d: {type: "decimal(9,2)"}
      s: {type: varchar}
"""
WRITTEN = ("0.0", "-0.0", "'nan'", "-'nan'::DOUBLE", "1e-60", "-1e-60")
ORDERS = (WRITTEN, WRITTEN[::-1], (*WRITTEN[3:], *WRITTEN[:3]))
KEYS = (
    "f",
    "g",
    "-f",
    "f * 0",
    "ROUND(f)",
    "f::VARCHAR",
    "f::FLOAT",
    "ABS(g)",
    "f + g",
    "d::DOUBLE * f",
    "g::VARCHAR || s",
)


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return schemas over the same values whose rows come in other orders, so other rows come first."""
    found = []
    for number, order in enumerate(ORDERS):
        folder = tmp_path_factory.mktemp(f"keys{number}")
        (folder / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
        with duckdb.connect(str(folder / "keys.duckdb")) as data:
            data.execute("CREATE TABLE t(f DOUBLE, g FLOAT, d DECIMAL(9,2), s VARCHAR)")
            for text in order:
                data.execute(f"INSERT INTO t SELECT {text}, {text}, -0.00, '' FROM range(300)")
        found.append(folder / "schema.yaml")
    return found


def test_equal_keys_are_the_same_bytes_whatever_row_comes_first(orders: list[Path]) -> None:
    seen: dict[str, set[bytes]] = {key: set() for key in KEYS}
    for path in orders:
        with dp_sql.connect(path, ledger=":memory:") as connection:
            for key in KEYS:
                sql = f"SELECT {key} AS k, COUNT(*) AS n FROM t GROUP BY k"
                result = connection.sql(sql, epsilon="1e6", delta="1e-6")
                rows = [(repr(k), n) for k, n in result.fetchall()]
                frame = result.arrow().to_pydict()
                seen[key].add(pickle.dumps((rows, repr(frame), result.types)))
    assert {key: len(texts) for key, texts in seen.items()} == dict.fromkeys(KEYS, 1)


def test_duckdb_itself_shows_the_row_that_came_first() -> None:
    """What the engine must not do: the comparison can fail."""
    with duckdb.connect() as data:
        shown = {
            str(
                data.execute(
                    f"SELECT f FROM (VALUES ({a}::DOUBLE), ({b})) AS t(f) GROUP BY f"
                ).fetchone()
            )
            for a, b in (("0.0", "-0.0"), ("-0.0", "0.0"))
        }
    assert len(shown) == 2
