"""What the keys of a schema mean together."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from schema_texts import SHOP, changed, error_of, load_text

from dp_sql.privacy.unit import Adjacency
from dp_sql.schema.catalog import AccountantKind, BudgetSpec, Limits, OwnerThrough, WorkerSpec

BUDGET = "{epsilon: 5, delta: 1e-6, accountant: renyi}"
OWNER = "    owner: {through: orders, on: order_id}\n"
EVENT = (
    ("level: user", "level: event"),
    ("    owner: customer_id\n", ""),
    (OWNER, ""),
    ("    limits: {max_groups: 4, max_rows_per_group: 20, min_units_per_group: 3}\n", ""),
)


@pytest.mark.parametrize(
    ("budget", "delta", "selection"),
    [
        ("{epsilon: 5, delta: 1e-6}", "1e-6", "5e-7"),
        ("{epsilon: 5, delta: 1e-6, selection_delta: 1e-7}", "1e-6", "1e-7"),
        ("{epsilon: 5, delta: 1e-6, selection_delta: 0}", "1e-6", "0"),
        ("{epsilon: 5, delta: 1e-6, accountant: sequential}", "1e-6", "1e-6"),
        ("{epsilon: 5, delta: 1e-6, accountant: sequential, selection_delta: 0}", "1e-6", "0"),
        ("{epsilon: 5, accountant: sequential}", "0", "0"),
        ("{epsilon: 5, delta: 1e-6, accountant: zcdp}", "1e-6", "5e-7"),
        ("{epsilon: 5, delta: 1e-6, accountant: zcdp, selection_delta: 0}", "1e-6", "0"),
        ("{epsilon: 5, delta: 1e-6, accountant: advanced}", "1e-6", "5e-7"),
        ("{epsilon: 5, delta: 1e-6, accountant: advanced, selection_delta: 9e-7}", "1e-6", "9e-7"),
        ("{epsilon: 5, accountant: pure}", "0", "0"),
        ("{epsilon: 5, delta: 1e-6, accountant: pure}", "1e-6", "1e-6"),
        ("{epsilon: 5, delta: 1e-6, selection_delta: 1e-6, accountant: pure}", "1e-6", "1e-6"),
    ],
)
def test_how_delta_is_divided(tmp_path: Path, budget: str, delta: str, selection: str) -> None:
    found = load_text(changed(SHOP, (BUDGET, budget)), tmp_path).tables["orders"].budget
    kind = next((kind for kind in AccountantKind if kind.value in budget), AccountantKind.RENYI)
    assert found == BudgetSpec(Fraction(5), Fraction(delta), kind, Fraction(selection))


def test_a_default_may_equal_its_cap(tmp_path: Path) -> None:
    text = changed(SHOP, ("caps: {epsilon: 1.0}", "caps: {epsilon: 0.10}"))
    defaults = load_text(text, tmp_path).defaults
    assert defaults.epsilon == defaults.max_epsilon == Fraction(1, 10)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (None, Limits(1, 1, 1)),
        ("{}", Limits(1, 1, 1)),
        ("{max_groups: 7}", Limits(7, 1, 1)),
        ("{max_rows_per_group: 7}", Limits(1, 7, 1)),
    ],
)
def test_limits_left_out_are_one(tmp_path: Path, limits: str | None, expected: Limits) -> None:
    old = "    limits: {max_groups: 4, max_rows_per_group: 20, min_units_per_group: 3}\n"
    new = "" if limits is None else f"    limits: {limits}\n"
    assert load_text(changed(SHOP, (old, new)), tmp_path).tables["orders"].limits == expected


def test_at_level_event_rows_are_units(tmp_path: Path) -> None:
    text = changed(SHOP, *EVENT)
    orders = load_text(text, tmp_path).tables["orders"]
    assert (orders.owner, orders.limits) == (None, Limits(1, 1, 1))
    place = "    columns:\n      order_id: {type: bigint, unique"
    limited = changed(text, (place, "    limits: LIMITS\n" + place))
    for limits, expected in (
        ("{min_units_per_group: 5}", Limits(1, 1, 5)),
        ("{max_groups: 1, max_rows_per_group: 1}", Limits(1, 1, 1)),
    ):
        found = load_text(changed(limited, ("LIMITS", limits)), tmp_path)
        assert found.tables["orders"].limits == expected
    for key in ("max_groups", "max_rows_per_group"):
        error = error_of(changed(limited, ("LIMITS", f"{{{key}: 2}}")), tmp_path)
        assert f"limits.{key}: at level event a unit is one row of one group" in str(error)
        assert error.position is not None
        assert error.position.line == 15


def test_substitution_is_supported(tmp_path: Path) -> None:
    text = changed(SHOP, ("adjacency: add_remove", "adjacency: substitution"))
    assert load_text(text, tmp_path).unit.adjacency is Adjacency.SUBSTITUTION


def test_adjacency_and_unit_have_defaults(tmp_path: Path) -> None:
    text = changed(SHOP, ("  adjacency: add_remove\n  group_size: 2\n  unit: customer\n", ""))
    unit = load_text(text, tmp_path).unit
    assert (unit.adjacency, unit.group_size, unit.name) == (Adjacency.ADD_REMOVE, 1, "unit")


def test_names_are_found_whatever_their_capitals(tmp_path: Path) -> None:
    text = changed(
        SHOP,
        ("owner: customer_id", "owner: CUSTOMER_ID"),
        ("{through: orders, on: order_id}", "{through: Orders, on: {Order_Id: ORDER_ID}}"),
        ("[[region, population]]", "[[Region, POPULATION]]"),
    )
    tables = load_text(text, tmp_path).tables
    assert tables["orders"].owner == "customer_id"
    assert tables["items"].owner == OwnerThrough("orders", (("order_id", "order_id"),))
    assert tables["regions"].unique == (("region", "population"),)


def test_two_steps_of_ownership_and_two_columns(tmp_path: Path) -> None:
    notes = (
        "  remarks:\n"
        "    owner: {through: Items, on: {item: order_id, amount: quantity}}\n"
        "    budget: {epsilon: 1, delta: 1e-6}\n"
        '    columns: {item: {type: bigint}, amount: {type: "decimal(9,0)"}}\n'
    )
    owner = load_text(SHOP + notes, tmp_path).tables["remarks"].owner
    assert owner == OwnerThrough("items", (("item", "order_id"), ("amount", "quantity")))


def test_public_tables_may_share_a_file(tmp_path: Path) -> None:
    twins = "".join(
        f"  r{i}: {{source: r.csv, public: true, columns: {{a: {{type: int}}}}}}\n" for i in (1, 2)
    )
    assert len(load_text(SHOP + twins, tmp_path).tables) == 5


@pytest.mark.parametrize("database", ["duckdb:////data/shop.duckdb", "data", "/data", "shop.db"])
def test_places_of_data(tmp_path: Path, database: str) -> None:
    text = changed(SHOP, ("duckdb:///shop.duckdb", database))
    assert load_text(text, tmp_path).database == database


def test_ledger_sampler_and_versions(tmp_path: Path) -> None:
    text = changed(
        SHOP,
        ("version: 1\n", "version: 1\nledger: shop.ledger\nsampler: opendp\n"),
        ("data_version: 7", "data_version: 2026-01-31"),
    )
    catalog = load_text(text, tmp_path)
    assert (catalog.ledger, catalog.sampler) == ("shop.ledger", "opendp")
    assert catalog.tables["items"].data_version == "2026-01-31"


def test_a_worker_and_its_limits(tmp_path: Path) -> None:
    plain = load_text(SHOP, tmp_path)
    assert plain.worker == WorkerSpec(4 * 2**30, 600.0, None, in_process=False)
    assert not plain.bucketed
    text = "worker: {memory: 500MB, seconds: 2.5, cpu_seconds: 7}\nanswer_time: bucketed\n"
    catalog = load_text(changed(SHOP, ("version: 1\n", f"version: 1\n{text}")), tmp_path)
    assert catalog.worker == WorkerSpec(500 * 2**20, 2.5, 7.0)
    assert catalog.worker.processor_seconds == 7
    assert catalog.bucketed
    here = changed(SHOP, ("version: 1\n", "version: 1\nworker: {in_process: true}\n"))
    assert load_text(here, tmp_path).worker == WorkerSpec(in_process=True)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("memory: 2", "worker.memory must be a memory size"),
        ("memory: 255MB", "from 256MB to 1024GB"),
        ("memory: 1025GB", "from 256MB to 1024GB"),
        ("memory: 2GB; SET x = 1", "must be a memory size"),
        ("memory: 1_000MB", "must be a memory size"),
        ("seconds: 0", "worker.seconds must be from 0.1 to 86,400 seconds"),
        ("seconds: .nan", "seconds"),
        ("seconds: .inf", "seconds"),
        ("seconds: true", "worker.seconds must be a number of seconds, not"),
        ("cpu_seconds: 1e9", "worker.cpu_seconds must be from 0.1 to 86,400 seconds"),
        ("in_process: 1", "in_process"),
        ("seconds:", "seconds"),
        ("network: true", "network"),
    ],
)
def test_limits_of_a_worker_out_of_range(tmp_path: Path, key: str, message: str) -> None:
    error = error_of(changed(SHOP, ("version: 1\n", f"version: 1\nworker:\n  {key}\n")), tmp_path)
    assert message in str(error)
    assert error.position is not None
    assert error.position.line == 3
