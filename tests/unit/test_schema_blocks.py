"""`budget.blocks`: which columns may be blocks, under which accountants, and what is refused."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from schema_texts import changed, error_of, load_text

from dp_sql.errors import SchemaError
from dp_sql.executor.duckdb_engine import DuckDBEngine
from dp_sql.executor.sources import locate
from dp_sql.privacy.blocks import spanned
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit

EVENT = """\
version: 1
database: duckdb:///shop.duckdb
privacy: {level: event}
tables:
  sales:
    budget: {epsilon: 5, delta: 1e-6, blocks: day}
    columns:
      day: {type: date}
      shop: {type: integer}
      at: {type: timestamp}
      price: {type: double}
      paid: {type: boolean}
"""
USER = """\
version: 1
database: duckdb:///shop.duckdb
privacy: {level: user, unit: customer}
tables:
  Customers:
    owner: ID
    budget: {epsilon: 5, delta: 1e-6, blocks: Cohort}
    columns:
      ID: {type: bigint, unique: true}
      Cohort: {type: integer, immutable: true}
  orders:
    owner: customer
    budget: {epsilon: 5, delta: 1e-6, blocks: customer}
    columns: {order_id: {type: bigint}, customer: {type: bigint}}
  items:
    owner: {through: orders, on: order_id}
    budget: {epsilon: 5, delta: 1e-6}
    columns: {order_id: {type: bigint}, sku: {type: varchar}}
"""
DAY = ("blocks: day", "blocks: Day")


def test_blocks_are_a_column_and_its_type(tmp_path: Path) -> None:
    budget = load_text(changed(EVENT, DAY), tmp_path).tables["sales"].budget
    assert budget is not None
    assert (budget.blocks, budget.block_column) == ("day DATE", "day")
    for column in ("shop", "paid"):
        assert load_text(changed(EVENT, ("blocks: day", f"blocks: {column}")), tmp_path)
    tables = load_text(USER, tmp_path).tables
    budgets = [tables[t].budget for t in ("customers", "orders", "items")]
    assert [b and b.blocks for b in budgets] == ["cohort INTEGER", "customer BIGINT", None]


@pytest.mark.parametrize(
    ("text", "change", "message", "hint"),
    [
        (EVENT, ("blocks: day", "blocks: dya"), "declares no column `dya`", ""),
        (EVENT, ("blocks: day", "blocks: price"), "`price` is a DOUBLE", "the day"),
        (EVENT, ("blocks: day", "blocks: at"), "`at` is a TIMESTAMP", "as a date"),
        (EVENT, ("level: event", "level: event, adjacency: substitution"), "renyi", "zcdp"),
        (
            changed(EVENT, ("blocks: day", "blocks: day, accountant: advanced")),
            ("level: event", "level: event, group_size: 2"), "advanced doesn't add up", "zcdp",
        ),
        (
            changed(EVENT, ("blocks: day", "blocks: day, accountant: zcdp")),
            ("level: event", "level: event, group_size: 65"), "differ in 65 blocks", "group_size",
        ),
        (EVENT, ("shop: {", "shop: {immutable: true, "), "that `budget.blocks` names", "remove it"),
        (USER, (", unique: true", ""), "may differ between a user's rows", "unique: true` at `ID`"),
        (USER, (", immutable: true", ""), "or change", "immutable: true` at `Cohort`"),
        (USER, ("blocks: customer", "blocks: order_id"), "`order_id` may differ", "level event"),
        (
            USER, ("on: order_id}\n    budget: {", "on: order_id}\n    budget: {blocks: sku, "),
            "another table says", "remove it",
        ),
    ],
)  # fmt: skip
def test_what_is_not_proved_is_refused(
    tmp_path: Path, text: str, change: tuple[str, str], message: str, hint: str
) -> None:
    error = error_of(changed(text, change), tmp_path)
    assert message in error.message
    assert hint in (error.hint or hint)
    assert error.position is not None


@pytest.mark.parametrize("accountant", ["pure", "sequential", "zcdp"])
def test_where_a_unit_moves_sums_alone_guard_a_table(tmp_path: Path, accountant: str) -> None:
    moved = changed(
        EVENT,
        ("level: event", "level: event, adjacency: substitution"),
        ("blocks: day", f"blocks: day, accountant: {accountant}"),
    )
    assert load_text(moved, tmp_path).unit.adjacency is Adjacency.SUBSTITUTION


def test_neighbours_differ_in_two_blocks_where_a_unit_moves_between_them() -> None:
    by: dict[Adjacency, PrivacyUnit] = {
        a: PrivacyUnit(Level.EVENT, a, 3)
        for a in (Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION, Adjacency.ZERO_OUT)
    }
    assert [spanned(unit, "t", "day") for unit in by.values()] == [3, 6, 3]
    metric = PrivacyUnit(
        Level.EVENT, Adjacency.METRIC, latitudes=frozenset({("t", "lat")}), radius=1  # type: ignore[arg-type]
    )  # fmt: skip
    assert (spanned(metric, "t", "day"), spanned(metric, "t", "lat")) == (1, 2)


@pytest.mark.parametrize(
    ("ddl", "well"),
    [
        ("id BIGINT PRIMARY KEY, cohort INTEGER", True),
        ("id BIGINT UNIQUE, cohort INTEGER", True),
        ("id BIGINT, cohort INTEGER, UNIQUE (id, cohort)", False),
        ("id BIGINT, cohort INTEGER", False),
        ("id VARCHAR PRIMARY KEY, cohort INTEGER", False),  # '1' and '01' are one owner
    ],
)
def test_that_a_user_has_one_row_is_asked_of_the_database(
    tmp_path: Path, ddl: str, *, well: bool
) -> None:
    connection = duckdb.connect(str(tmp_path / "shop.duckdb"))
    connection.execute(f"CREATE TABLE customers ({ddl})")
    connection.execute("CREATE TABLE orders (order_id BIGINT, customer BIGINT)")
    connection.execute("CREATE TABLE items (order_id BIGINT, sku VARCHAR)")
    connection.close()
    catalog = load_text(USER, tmp_path)
    if well:
        DuckDBEngine(catalog, locate(catalog, None, None)).close()
        return
    with pytest.raises(SchemaError, match="each owner must have one row"):
        DuckDBEngine(catalog, locate(catalog, None, None))
