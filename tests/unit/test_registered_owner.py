"""Who a person is belongs to an account for life: no second schema has weaker persons, or none."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.cli.check import check_schema
from dp_sql.errors import LedgerError

OWN = """version: 1
database: "duckdb://"
privacy: {level: user, unit: customer}
tables:
  t:
    source: t.parquet
    owner: cust
    budget: {epsilon: 1, delta: 1e-6}
    columns: {cust: {type: bigint}, ord: {type: bigint}}
"""
THROUGH = """version: 1
database: "duckdb://"
privacy: {level: user, unit: customer}
tables:
  items:
    source: items.parquet
    owner: {through: orders, on: {ord: id, shop: shop}}
    budget: {epsilon: 1, delta: 1e-6}
    columns: {ord: {type: bigint}, shop: {type: bigint}, line: {type: bigint}}
  orders:
    source: t.parquet
    owner: cust
    budget: {epsilon: 1, delta: 1e-6}
    columns: {cust: {type: bigint}, id: {type: bigint}, ord: {type: bigint}, shop: {type: bigint}}
    unique: [[id, shop], [ord, shop]]
"""
PUBLIC = """version: 1
database: "duckdb://"
privacy: {level: user, unit: customer}
tables:
  t:
    source: t.parquet
    public: true
    columns: {cust: {type: bigint}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    orders = "SELECT 0 AS cust, range AS ord, range AS id, 0 AS shop FROM range(9)"
    duckdb.sql(f"COPY ({orders}) TO '{tmp_path / 't.parquet'}'")
    duckdb.sql(f"COPY ({orders}) TO '{tmp_path / 'other.parquet'}'")
    items = "SELECT range AS ord, 0 AS shop, range AS line FROM range(9)"
    duckdb.sql(f"COPY ({items}) TO '{tmp_path / 'items.parquet'}'")
    return tmp_path


def opened(folder: Path, text: str, *changes: tuple[str, str]) -> None:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "s.yaml"
    path.write_text(text)
    dp_sql.connect(path, in_process=True).close()


@pytest.mark.parametrize(
    "change", [("owner: cust", "owner: ord"), ("unit: customer", "unit: house")]
)
def test_another_person_is_refused(folder: Path, change: tuple[str, str]) -> None:
    opened(folder, OWN)
    with pytest.raises(LedgerError, match='customer, owner "cust"; now') as caught:
        opened(folder, OWN, change)
    assert "a new `id`" in str(caught.value.hint)
    opened(folder, OWN, ("owner: cust", "owner: CUST"), ("unit: customer", "unit: Customer"))


ELSEWHERE = """  orders:
    source: t.parquet
"""


@pytest.mark.parametrize(
    "changes",
    [
        # the other table's own account is a new one in each, so the path alone tells
        [("owner: cust", "owner: ord"), ("source: t.", "id: x\n    source: t.")],
        [(ELSEWHERE, ELSEWHERE.replace("t.", "other."))],
        [("on: {ord: id,", "on: {ord: ord,")],
        [("on: {ord: id,", "on: {line: id,")],
        [("owner: {through: orders, on: {ord: id, shop: shop}}", "owner: line")],
    ],
)
def test_another_path_to_a_person_is_refused(folder: Path, changes: list[tuple[str, str]]) -> None:
    opened(folder, THROUGH)
    with pytest.raises(LedgerError, match="`items` was registered to protect"):
        opened(folder, THROUGH, *changes)


def test_a_path_is_the_same_under_other_names_and_in_another_order(folder: Path) -> None:
    opened(folder, THROUGH)
    opened(folder, THROUGH, ("orders", "Buys"), ("ord: id, shop: shop", "SHOP: shop, Ord: ID"))
    (folder / "t.parquet").rename(folder / "moved.parquet")
    opened(folder, THROUGH, ("source: t.", "source: moved."))


@pytest.mark.parametrize("place", ["t", "hard", "moved", "named"])
def test_protected_data_are_not_public_in_another_schema(folder: Path, place: str) -> None:
    opened(folder, PUBLIC)
    opened(folder, OWN)
    os.link(folder / "t.parquet", folder / "hard.parquet")
    (folder / "t.parquet").rename(folder / "moved.parquet")
    if place != "moved":
        (folder / "moved.parquet").rename(folder / "t.parquet")
    file = {"named": "t", "moved": "moved"}.get(place, place)
    new = f"id: other\n    source: {file}." if place == "named" else f"source: {file}."
    with pytest.raises(LedgerError, match="the ledger knows its data as protected"):
        opened(folder, PUBLIC, ("source: t.", new))


def test_other_data_may_be_public(folder: Path) -> None:
    opened(folder, OWN)
    opened(folder, PUBLIC, ("source: t.", "source: other."))
    (folder / "t.parquet").unlink()
    with pytest.raises(LedgerError, match="as protected"):
        opened(folder, PUBLIC, ("source: t.", "source: other."))
    opened(folder, PUBLIC, ("source: t.", "id: other\n    source: other."))


@pytest.mark.parametrize("text", [THROUGH, OWN])
def test_check_tells_what_a_connection_would(folder: Path, text: str) -> None:
    opened(folder, text)
    path = folder / "s.yaml"
    assert check_schema(path).errors == 0
    path.write_text(text.replace("owner: cust", "owner: ord"))
    assert check_schema(path).errors == text.count("budget:")
    path.write_text(PUBLIC)
    assert check_schema(path).errors == 1
