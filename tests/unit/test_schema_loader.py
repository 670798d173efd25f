from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from schema_texts import SHOP, changed, error_of, load_text

from dp_sql.errors import SchemaError
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.catalog import (
    AccountantKind,
    BudgetSpec,
    Limits,
    OwnerThrough,
    PrivacyDefaults,
)
from dp_sql.schema.loader import load
from dp_sql.schema.sqltype import Kind, SqlType

ROOT = Path(__file__).parents[2]


def test_everything_declared_is_in_the_catalog(tmp_path: Path) -> None:
    catalog = load_text(SHOP, tmp_path)
    assert catalog.path == tmp_path / "shop.yaml"
    assert catalog.database == "duckdb:///shop.duckdb"
    assert catalog.unit == PrivacyUnit(Level.USER, Adjacency.ADD_REMOVE, 2, "customer")
    assert catalog.defaults == PrivacyDefaults(
        Fraction(1, 10), Fraction(1, 10**9), Fraction(1), None
    )
    assert (catalog.ledger, catalog.sampler) == (None, "exact")
    assert list(catalog.tables) == ["orders", "items", "regions"]

    orders = catalog.tables["orders"]
    assert (orders.name, orders.source, orders.identity) == (
        "orders",
        "data/orders.parquet",
        "shop-orders",
    )
    assert (orders.owner, orders.public, orders.data_version) == ("customer_id", False, "1")
    assert orders.budget == BudgetSpec(
        Fraction(5), Fraction(1, 10**6), AccountantKind.RENYI, Fraction(1, 2 * 10**6)
    )
    assert orders.limits == Limits(4, 20, 3)
    assert orders.columns["order_id"].unique
    ordered_on = orders.columns["ordered_on"]
    assert (ordered_on.low, ordered_on.high) == (date(2020, 1, 1), date(2026, 12, 31))
    assert orders.columns["status"].values == ("open", "paid", "NO", "1")
    assert orders.columns["total"].low == 0.0
    assert isinstance(orders.columns["total"].low, float)
    assert orders.columns["note"].max_length == 200

    items = catalog.table("ITEMS")
    assert items is not None
    assert items.name == "Items"
    assert items.owner == OwnerThrough("orders", (("order_id", "order_id"),))
    assert items.budget is not None
    assert items.budget.selection_delta == Fraction(1, 10**6)
    assert items.limits == Limits(1, 1, 1)
    assert items.columns["price"].type == SqlType(Kind.DECIMAL, 12, 2)
    assert items.columns["price"].high == Decimal("500.00")
    assert not items.columns["price"].nullable
    assert items.columns["quantity"].low == 1
    assert (items.data_version, items.round_counts) == ("7", True)

    regions = catalog.tables["regions"]
    assert (regions.public, regions.budget, regions.limits, regions.owner) == (
        True,
        None,
        None,
        None,
    )
    assert regions.unique == (("region", "population"),)
    assert regions.columns["population"].max_frequency == 2


def test_the_catalog_can_not_be_changed(tmp_path: Path) -> None:
    catalog = load_text(SHOP, tmp_path)
    with pytest.raises(TypeError):
        catalog.tables["x"] = catalog.tables["orders"]  # type: ignore[index]
    with pytest.raises(TypeError):
        catalog.tables["orders"].columns["x"] = None  # type: ignore[index]


def test_amounts_are_the_decimals_that_the_file_shows(tmp_path: Path) -> None:
    text = changed(
        SHOP,
        ("{epsilon: 5, delta: 1e-6, accountant: renyi}", "{epsilon: 0.1, delta: 0.3e-6}"),
        ("caps: {epsilon: 1.0}", "caps: {epsilon: 0.30000000000000000000000000000001}"),
    )
    catalog = load_text(text, tmp_path)
    budget = catalog.tables["orders"].budget
    assert budget is not None
    assert budget.epsilon == Fraction(1, 10) != Fraction(0.1)
    assert budget.delta == Fraction(3, 10**7)
    assert catalog.defaults.max_epsilon == Fraction(3 * 10**31 + 1, 10**32)


def test_json_is_yaml(tmp_path: Path) -> None:
    document = {
        "version": 1,
        "database": "duckdb://",
        "privacy": {"level": "event", "defaults": {"epsilon": 1, "delta": 1e-9}},
        "tables": {
            "visits": {
                "source": "visits.parquet",
                "budget": {"epsilon": 1e12, "delta": 0.1, "accountant": "sequential"},
                "limits": {"max_groups": 1, "max_rows_per_group": 1},
                "columns": {"capital-gain": {"type": "bigint", "bounds": [0.0, 100000]}},
            }
        },
    }
    catalog = load_text(json.dumps(document), tmp_path)
    assert catalog.unit.name == "row"
    assert catalog.defaults.delta == Fraction(1, 10**9)
    column = catalog.tables["visits"].columns["capital-gain"]
    assert (column.low, column.high) == (0, 100000)
    assert isinstance(column.low, int)


def test_the_database_of_the_call_wins(tmp_path: Path) -> None:
    text = changed(SHOP, ("duckdb:///shop.duckdb", "postgresql://host/shop"))
    assert load_text(text, tmp_path, "duckdb:///other.db").database == "duckdb:///other.db"
    without = changed(SHOP, ("database: duckdb:///shop.duckdb\n", ""))
    assert load_text(without, tmp_path, "data").database == "data"
    error = error_of(SHOP, tmp_path, "spark://x")
    assert "database=: spark databases are not supported yet" in str(error)


def test_a_relative_path_is_kept_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_text(SHOP, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert load("shop.yaml").path == tmp_path / "shop.yaml"


def test_the_file_is_read_anew_each_time(tmp_path: Path) -> None:
    assert load_text(SHOP, tmp_path).unit.group_size == 2
    again = load_text(changed(SHOP, ("group_size: 2", "group_size: 3")), tmp_path)
    assert again.unit.group_size == 3


def test_the_catalog_needs_neither_pydantic_nor_ruamel() -> None:
    code = (
        "import sys, dp_sql.schema.catalog, dp_sql.schema.sqltype; "
        "sys.exit('pydantic' in sys.modules or 'ruamel.yaml' in sys.modules)"
    )
    # the package's own __init__ may import more, so it is left out of this process
    bare = "import sys, types; p = types.ModuleType('dp_sql'); p.__path__ = [sys.argv[1]]; "
    run = subprocess.run(
        [sys.executable, "-c", bare + "sys.modules['dp_sql'] = p; " + code, str(ROOT / "dp_sql")],
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.returncode == 0


@pytest.mark.parametrize("name", ["cdnow", "census"])
def test_the_example_schemas_load(name: str) -> None:
    catalog = load(ROOT / "schemas" / f"{name}.yaml")
    assert catalog.defaults.max_epsilon == 1
    for table in catalog.tables.values():
        assert table.budget == BudgetSpec(
            Fraction(10), Fraction(1, 10**6), AccountantKind.RENYI, Fraction(1, 2 * 10**6)
        )


def test_cdnow_protects_customers() -> None:
    purchases = load(ROOT / "schemas" / "cdnow.yaml").tables["purchases"]
    assert (purchases.owner, purchases.limits) == ("customer_id", Limits(4, 20))
    assert purchases.columns["dollars"].high == 300.0
    assert not purchases.columns["day"].nullable


def test_census_protects_rows() -> None:
    catalog = load(ROOT / "schemas" / "census.yaml")
    census = catalog.tables["census"]
    assert catalog.unit.level is Level.EVENT
    assert (census.owner, census.limits, len(census.columns)) == (None, Limits(1, 1), 43)
    assert census.columns["union_member"].values == ("No", "Not in universe", "Yes")


def test_several_problems_are_told_at_once(tmp_path: Path) -> None:
    text = changed(
        SHOP,
        ("level: user", "level: usr"),
        ("max_groups: 4", "max_groups: 0"),
        ("epsilon: 5", "epsilon: five"),
    )
    error = error_of(text, tmp_path)
    assert error.position is not None
    assert (error.position.line, error.position.column) == (4, 10)
    assert error.others == (
        "line 15, column 23: tables.orders.budget.epsilon must be a number, not the text 'five'.",
        "line 16, column 26: tables.orders.limits.max_groups must be at least 1.",
    )
    assert all(other in str(error) for other in error.others)


def test_an_error_shows_the_line(tmp_path: Path) -> None:
    error = error_of(changed(SHOP, ("max_length", "max_lenght")), tmp_path)
    assert isinstance(error, SchemaError)
    first, line, carets = str(error).splitlines()
    assert first == (
        f"{tmp_path / 'shop.yaml'}, line 23, column 29: tables.orders.columns.note has no key "
        "'max_lenght'. Did you mean `max_length`?"
    )
    assert line == "        note: {type: varchar, max_lenght: 200}"
    assert carets == "                              ^^^^^^^^^^"
