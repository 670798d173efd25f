"""Schemas of the measurements, as text."""

from __future__ import annotations


def visits(file: str, level: str, groups: int, rows: int) -> str:
    """Return a schema over the visits of `visits.py` at one level; category is a private key."""
    user = level == "user"
    owner = "    owner: user_id\n" if user else ""
    limits = f"    limits: {{max_groups: {groups}, max_rows_per_group: {rows}}}\n" if user else ""
    regions = ", ".join(f"region_{i:02d}" for i in range(20))
    return (
        "version: 1\n"
        f'database: "duckdb:///{file}"\n'
        f"privacy: {{level: {level}, unit: user}}\n"
        "tables:\n"
        "  visits:\n"
        f"{owner}"
        "    budget: {epsilon: 1e9, delta: 0.1, accountant: sequential}\n"
        f"{limits}"
        "    columns:\n"
        "      user_id: {type: bigint}\n"
        f"      region: {{type: varchar, values: [{regions}], nullable: false}}\n"
        "      category: {type: varchar}\n"
        "      day: {type: date, bounds: [2024-01-01, 2024-12-30], nullable: false}\n"
        "      amount: {type: double, bounds: [0, 500]}\n"
    )
