"""Writes a DuckDB file of made-up rows, for audits: no row of the owner's data is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb


def write_made_up(file: Path, statements: Sequence[str]) -> None:
    """Run SQL of our own in a new database file."""
    with duckdb.connect(str(file)) as database:
        for statement in statements:
            database.execute(statement)
