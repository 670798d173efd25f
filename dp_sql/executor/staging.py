"""Brings small results into a DuckDB connection: every value as text, cast back to its type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dp_sql.plan.sql_text import identifier

Texts = Sequence[tuple[str | None, ...]]


def load(
    connection: Any,
    target: str,
    types: Sequence[str],
    rows: Texts,
    unique: Sequence[int] = (),
) -> None:
    """Create the table `target` with columns v0, v1, … from rows of texts; None is NULL.

    unique: positions of columns; of rows that agree in all of them one is kept. A text that
    its type can't hold is NULL. Raises duckdb.Error.
    """
    staged = {}
    items = []
    for index, kind in enumerate(types):
        values = np.empty(len(rows), dtype=object)
        for row, texts in enumerate(rows):
            values[row] = texts[index]
        staged[f"s{index}"] = values
        cast = f"CAST(s{index} AS VARCHAR)"
        items.append(f"TRY_CAST({cast} AS {kind}) AS {identifier(f'v{index}')}")
    told = ", ".join(identifier(f"v{position}") for position in unique)
    once = f"DISTINCT ON ({told}) " if unique else ""
    connection.register("staged_", staged)
    try:
        connection.execute(
            f"CREATE OR REPLACE TABLE {target} AS SELECT {once}{', '.join(items)} FROM staged_"
        )
    finally:
        connection.unregister("staged_")
