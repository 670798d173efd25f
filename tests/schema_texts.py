"""Schema texts that tests change one word at a time, and ways to load them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_sql.errors import SchemaError
from dp_sql.schema.catalog import Catalog
from dp_sql.schema.loader import load

SHOP = """\
version: 1
database: duckdb:///shop.duckdb
privacy:
  level: user
  adjacency: add_remove
  group_size: 2
  unit: customer
  defaults: {epsilon: 0.1, delta: 1e-9}
  caps: {epsilon: 1.0}
tables:
  orders:
    source: data/orders.parquet
    id: shop-orders
    owner: customer_id
    budget: {epsilon: 5, delta: 1e-6, accountant: renyi}
    limits: {max_groups: 4, max_rows_per_group: 20, min_units_per_group: 3}
    columns:
      order_id: {type: bigint, unique: true}
      customer_id: {type: bigint}
      ordered_on: {type: date, bounds: [2020-01-01, 2026-12-31]}
      status: {type: varchar, values: [open, paid, NO, "1"]}
      total: {type: double, bounds: [0, 2000]}
      note: {type: varchar, max_length: 200}
  Items:
    owner: {through: orders, on: order_id}
    budget: {epsilon: 5, delta: 1e-6, accountant: sequential}
    columns:
      order_id: {type: bigint}
      price: {type: "decimal(12,2)", bounds: [0, 500], nullable: false}
      quantity: {type: integer, bounds: [1, 50]}
    data_version: 7
    round_counts: true
  regions:
    public: true
    unique: [[region, population]]
    columns: {region: {type: varchar, unique: true}, population: {type: bigint, max_frequency: 2}}
"""


def load_text(text: str, folder: Path, database: str | None = None) -> Catalog:
    """Return the catalog of a schema text, by way of a file in `folder`."""
    file = folder / "shop.yaml"
    file.write_text(text, encoding="utf-8")
    return load(file, database=database)


def changed(text: str, *changes: tuple[str, str]) -> str:
    """Return the text with each old part, which must be there, replaced by the new one."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def error_of(text: str, folder: Path, database: str | None = None) -> SchemaError:
    """Return the error that loading the text raises."""
    with pytest.raises(SchemaError) as caught:
        load_text(text, folder, database)
    return caught.value


def check_refusal(
    folder: Path, change: tuple[str, str], message: str, place: tuple[int, int]
) -> SchemaError:
    """Return the error of SHOP with one part changed, after checking its words and its place."""
    line, column = place
    error = error_of(changed(SHOP, change), folder)
    assert message in str(error)
    assert f"{folder / 'shop.yaml'}, line {line}, column {column}: " in str(error)
    assert error.position is not None
    assert (error.position.line, error.position.column) == place
    return error
