"""Keys, amounts and limits that are refused: in which words, and where."""

from __future__ import annotations

from pathlib import Path

import pytest
from schema_texts import SHOP, check_refusal

COLUMNS = (
    "columns: {region: {type: varchar, unique: true}, population: {type: bigint, max_frequency: 2}}"
)
REFUSED: dict[str, tuple[str, str, str, int, int]] = {  # old, new, message, line, column
    "unknown top key": ("version: 1\n", "version: 1\nledgr: x\n", "Did you mean `ledger`?", 2, 1),
    "unknown key far off": (
        "  caps: {epsilon: 1.0}",
        "  zzz: 1",
        "privacy has no key 'zzz'. Known here: `level`, `adjacency`",
        9,
        3,
    ),
    "unknown table key": ("source: data", "sources: data", "Did you mean `source`?", 12, 5),
    "unknown budget key": (
        "delta: 1e-6, accountant: renyi",
        "delta: 1e-6, acountant: renyi",
        "tables.orders.budget has no key 'acountant'. Did you mean `accountant`?",
        15,
        39,
    ),
    "missing version": ("version: 1\n", "", "the schema needs the key `version`", 1, 1),
    "missing columns": (f"    {COLUMNS}\n", "", "tables.regions needs the key `columns`", 33, 3),
    "missing database": (
        "database: duckdb:///shop.duckdb\n",
        "",
        "the schema needs the key `database`",
        1,
        1,
    ),
    "empty key": ("id: shop-orders", "id:", "`id` has no value", 13, 5),
    "version 2": ("version: 1", "version: 2", "version must be 1", 1, 10),
    "version true": ("version: 1", "version: true", "version must be 1", 1, 10),
    "version text": ("version: 1", "version: '1'", "version must be 1", 1, 10),
    "version 1.0": ("version: 1", "version: 1.0", "version must be 1", 1, 10),
    "no tables": ("tables:\n", "tables: {}\nx:\n", "has no key 'x'", 11, 1),
    "tables no mapping": (
        SHOP[SHOP.index("tables:") :],
        "tables: [orders]\n",
        "tables must be a mapping of keys (`key: value`), not a list",
        10,
        1,
    ),
    "tables empty": (
        SHOP[SHOP.index("tables:") :],
        "tables: {}\n",
        "tables must not be empty",
        10,
        1,
    ),
    "columns empty": (COLUMNS, "columns: {}", "tables.regions.columns must not be empty", 36, 5),
    "level": ("level: user", "level: users", "Did you mean `user`?", 4, 10),
    "level number": (
        "level: user",
        "level: 1",
        "can't be the number 1. Known here: user, event",
        4,
        10,
    ),
    "group size 0": ("group_size: 2", "group_size: 0", "must be at least 1", 6, 15),
    "group size huge": ("group_size: 2", "group_size: 1000001", "must be at most 1000000", 6, 15),
    "unit empty": ("unit: customer", "unit: ''", "privacy.unit must not be empty", 7, 9),
    "unit long": ("unit: customer", "unit: " + "x" * 61, "at most 60 characters", 7, 9),
    "epsilon 0": (
        "{epsilon: 5, delta: 1e-6, a",
        "{epsilon: 0, delta: 1e-6, a",
        "epsilon must be above zero",
        15,
        23,
    ),
    "epsilon below 0": (
        "{epsilon: 5, delta: 1e-6, a",
        "{epsilon: -1, delta: 1e-6, a",
        "epsilon must be above zero",
        15,
        23,
    ),
    "epsilon inf": (
        "{epsilon: 5, delta: 1e-6, a",
        "{epsilon: .inf, delta: 1e-6, a",
        "must be a finite decimal number",
        15,
        23,
    ),
    "epsilon nan": (
        "{epsilon: 5, delta: 1e-6, a",
        "{epsilon: .nan, delta: 1e-6, a",
        "must be a finite decimal number",
        15,
        23,
    ),
    "epsilon text": (
        "{epsilon: 5, delta: 1e-6, a",
        "{epsilon: '5', delta: 1e-6, a",
        "must be a number, not the text '5'",
        15,
        23,
    ),
    "epsilon true": (
        "{epsilon: 5, delta: 1e-6, a",
        "{epsilon: true, delta: 1e-6, a",
        "must be a number, not true",
        15,
        23,
    ),
    "epsilon huge": (
        "{epsilon: 5, delta: 1e-6, a",
        "{epsilon: 1e101, delta: 1e-6, a",
        "must be at most 1e+100",
        15,
        23,
    ),
    "epsilon tiny": (
        "{epsilon: 5, delta: 1e-6, a",
        "{epsilon: 1e-13, delta: 1e-6, a",
        "at least 1e-12",
        15,
        23,
    ),
    "delta 1": (
        "{epsilon: 5, delta: 1e-6, accountant: renyi}",
        "{epsilon: 5, delta: 1}",
        "delta must be at least 0 and below 1",
        15,
        33,
    ),
    "delta below 0": (
        "{epsilon: 5, delta: 1e-6, accountant: renyi}",
        "{epsilon: 5, delta: -1e-9}",
        "delta must be at least 0 and below 1",
        15,
        33,
    ),
    "delta tiny": (
        "{epsilon: 5, delta: 1e-6, accountant: renyi}",
        "{epsilon: 5, delta: 1e-25}",
        "at least 1e-24",
        15,
        33,
    ),
    "no epsilon": (
        "{epsilon: 5, delta: 1e-6, accountant: renyi}",
        "{delta: 1e-6}",
        "tables.orders.budget needs the key `epsilon`",
        15,
        5,
    ),
    "renyi without delta": (
        "{epsilon: 5, delta: 1e-6, accountant: renyi}",
        "{epsilon: 5}",
        "the accountant renyi needs a delta above 0",
        15,
        5,
    ),
    "renyi with delta 0": (
        "{epsilon: 5, delta: 1e-6, accountant: renyi}",
        "{epsilon: 5, delta: 0}",
        "the accountant renyi needs a delta above 0",
        15,
        33,
    ),
    "renyi all for selection": (
        "{epsilon: 5, delta: 1e-6, accountant: renyi}",
        "{epsilon: 5, delta: 1e-6, selection_delta: 1e-6}",
        "leaves nothing of the delta 1e-06 for the noise",
        15,
        56,
    ),
    "zcdp without delta": (
        "{epsilon: 5, delta: 1e-6, accountant: renyi}",
        "{epsilon: 5, accountant: zcdp}",
        "the accountant zcdp needs a delta above 0",
        15,
        5,
    ),
    "advanced all for statements": (
        "{epsilon: 5, delta: 1e-6, accountant: renyi}",
        "{epsilon: 5, delta: 1e-6, selection_delta: 1e-6, accountant: advanced}",
        "leaves nothing of the delta 1e-06 for the noise",
        15,
        56,
    ),
    "sequential too much": (
        "{epsilon: 5, delta: 1e-6, accountant: renyi}",
        "{epsilon: 5, delta: 1e-6, selection_delta: 2e-6, accountant: sequential}",
        "is more than the whole delta",
        15,
        56,
    ),
    "pure and a part": (
        "{epsilon: 5, delta: 1e-6, accountant: renyi}",
        "{epsilon: 5, delta: 1e-6, selection_delta: 1e-7, accountant: pure}",
        "with the accountant pure all of delta",
        15,
        56,
    ),
    "accountant": ("accountant: renyi", "accountant: reny", "Did you mean `renyi`?", 15, 51),
    "default above cap": (
        "defaults: {epsilon: 0.1",
        "defaults: {epsilon: 2",
        "privacy.defaults.epsilon 2 is above the cap 1",
        8,
        23,
    ),
    "delta default above cap": (
        "caps: {epsilon: 1.0}",
        "caps: {delta: 1e-10}",
        "privacy.defaults.delta 1e-09 is above the cap 1e-10",
        8,
        35,
    ),
    "limits 0": ("max_groups: 4", "max_groups: 0", "max_groups must be at least 1", 16, 26),
    "limits huge": (
        "max_groups: 4",
        "max_groups: 1000000001",
        "must be at most 1000000000",
        16,
        26,
    ),
    "limits text": (
        "max_groups: 4",
        "max_groups: four",
        "must be a whole number, such as 1, not the text",
        16,
        26,
    ),
    "limits point": ("max_groups: 4", "max_groups: 4.0", "must be a whole number", 16, 26),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_its_reason_at_its_place(tmp_path: Path, case: str) -> None:
    old, new, message, line, column = REFUSED[case]
    check_refusal(tmp_path, (old, new), message, (line, column))
