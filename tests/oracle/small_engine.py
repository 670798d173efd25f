"""An engine for the oracle: the lowered SQL itself, over tables that change from run to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from itertools import accumulate
from typing import Any

import duckdb
import numpy as np

from dp_sql.executor import lower_public, lower_relation, lower_rows
from dp_sql.executor.duckdb_embedded import PINNED
from dp_sql.executor.lower_distinct import distinct_sql
from dp_sql.executor.lower_histogram import histogram_sql
from dp_sql.executor.lower_sampled import sampled_sql
from dp_sql.mechanisms.distinct import matched
from dp_sql.plan.distinct import Distinct
from dp_sql.plan.facts import PairTable
from dp_sql.plan.public import Image
from dp_sql.plan.relation import DropKeys, inputs
from dp_sql.plan.release import PlannedRelease
from dp_sql.plan.sql_text import identifier
from dp_sql.schema.catalog import Catalog

Row = tuple[object, ...]
Totals = dict[Row, tuple[int, ...]]
"""Exact integers by group key."""
Sums = tuple[Totals, tuple[Totals, ...]]
"""Those of a release, and of each round that selects its keys apart."""


class SmallEngine:
    """One in-memory DuckDB with the engine's own settings; protected rows are replaced at will."""

    def __init__(
        self, catalog: Catalog, public_rows: Mapping[str, Sequence[Row]], *, threads: int = 1
    ) -> None:
        self._catalog = catalog
        self._connection: Any = duckdb.connect(":memory:", config={"threads": threads})
        for setting in PINNED:
            self._connection.execute(setting)
        self._connection.execute(f"CREATE SCHEMA {lower_rows.DATA}")
        self._types: dict[str, list[str]] = {}
        for name, spec in catalog.tables.items():
            self._types[name] = [str(c.type) for c in spec.columns.values()]
            columns = ", ".join(f'"{k}" {c.type}' for k, c in spec.columns.items())
            self._connection.execute(f'CREATE TABLE {lower_rows.DATA}."{name}" ({columns})')
            if name in public_rows:
                self.load(name, public_rows[name])

    def load(self, table: str, rows: Sequence[Row]) -> None:
        """Replace the rows of a table."""
        target = f'{lower_rows.DATA}."{table}"'
        self._connection.execute(f"DELETE FROM {target}")
        if rows:
            types = self._types[table]
            listed = ", ".join(
                f"({', '.join(literal(v, t) for v, t in zip(row, types, strict=True))})"
                for row in rows
            )
            self._connection.execute(f"INSERT INTO {target} VALUES {listed}")

    def stage(self, table: str, parts: Sequence[Sequence[Row]]) -> None:
        """Keep several sets of rows for a table, for `use`: texts are read once for all of them."""
        columns = ", ".join(f"c{i} {t}" for i, t in enumerate(self._types[table]))
        self._connection.execute(
            f'CREATE OR REPLACE TABLE "staged_{table}" (part INTEGER, {columns})'
        )
        types = ["INTEGER", *self._types[table]]
        listed = ", ".join(
            f"({', '.join(literal(v, t) for v, t in zip((part, *row), types, strict=True))})"
            for part, rows in enumerate(parts)
            for row in rows
        )
        if listed:
            self._connection.execute(f'INSERT INTO "staged_{table}" VALUES {listed}')

    def use(self, table: str, part: int) -> None:
        """Replace the rows of a table by a staged set."""
        target = f'{lower_rows.DATA}."{table}"'
        self._connection.execute(f"DELETE FROM {target}")
        self._connection.execute(
            f'INSERT INTO {target} SELECT * EXCLUDE (part) FROM "staged_{table}" '
            f"WHERE part = {part}"
        )

    def query(self, sql: str) -> list[Row]:
        return list(self._connection.execute(sql).fetchall())

    def totals(self, plan: PlannedRelease) -> Totals:
        """Return the exact sums of a release, as the engine would seal them."""
        if not plan.in_table:
            return {}
        return split(self.query(lower_relation.release_sql(plan)), len(plan.keys))

    def chosen(self, plan: PlannedRelease) -> tuple[Totals, ...]:
        """Return the units of each private combination, for each round, where they are counted apart."""
        return tuple(split(self.query(text), len(plan.private)) for text in rounds_of(plan))

    def sampled(self, plan: PlannedRelease) -> list[Totals]:
        """Return the sums of the blocks of each aggregate over blocks."""
        return [split(self.query(sampled_sql(s)), len(plan.keys)) for s in plan.sampled]

    def histograms(self, plan: PlannedRelease) -> list[Totals]:
        """Return the weights of each histogram of a release, by group and place."""
        places = len(plan.keys) + 1
        return [split(self.query(histogram_sql(h)), places) for h in plan.histograms]

    def distincts(self, plan: PlannedRelease) -> list[Totals]:
        """Return the counts of distinct values by group, one for each cap."""
        return [self._counted(distinct, len(plan.keys)) for distinct in plan.distincts]

    def _counted(self, distinct: Distinct, keys: int) -> Totals:
        rows = self.query(distinct_sql(distinct))
        if not distinct.caps:
            return split(rows, keys)
        groups: dict[Row, list[Row]] = {}
        for row in rows:
            groups.setdefault(row[:keys], []).append(row[keys:])
        ends = list(accumulate(map(len, groups.values())))
        both = np.array([pair for pairs in groups.values() for pair in pairs], np.uint64)
        units, values = both.reshape(-1, 2).T
        found = list(matched(PairTable(list(groups), ends, units, values), distinct.caps).values())
        return {key: tuple(int(n[i]) for n in found) for i, key in enumerate(groups)}

    def image(self, image: Image, limit: int) -> tuple[Row, ...] | None:
        rows = self.query(lower_public.image_sql(image, limit))
        return None if len(rows) > limit else tuple(rows)

    def frequency(self, table: str, columns: tuple[str, ...]) -> int | None:
        if not self._catalog.tables[table].public:
            return None
        [(most,)] = self.query(lower_public.frequency_sql(table, columns))
        return 1 if int(str(most)) <= 1 else None


def rounds_of(plan: PlannedRelease) -> list[str]:
    """Return the statements that select keys apart.

    The second round's leaves out about a third of the keys, the same ones for all data, as if the first
    had shown them: what it showed is the same on both neighbours.
    """
    texts = []
    if plan.selection_relation is not None:
        texts.append(lower_relation.selection_sql(plan))
    drop = plan.second_relation
    if drop is None:
        return texts
    while not isinstance(drop, DropKeys):
        (drop,) = inputs(drop)
    keys = [lower_rows.name(key) for key in lower_relation.measured_rows(drop).keys]
    items = ", ".join(f"{key} AS v{i}" for i, key in enumerate(keys))
    shown = (
        f"(SELECT DISTINCT {items} FROM ({lower_relation.lower_relation(drop.source)}) AS all_ "
        f"WHERE hash({', '.join(keys)}) % 3 = 0)"
    )
    text = lower_relation.second_sql(plan)
    table = f"{lower_rows.STAGE}.{identifier(drop.stage)}"
    assert text.count(table) == 1
    return [*texts, text.replace(table, shown)]


def split(rows: Sequence[Row], keys: int) -> Totals:
    """Return fetched rows as integers by key; a key that comes twice is an error."""
    totals: Totals = {}
    for row in rows:
        assert row[:keys] not in totals, f"the group {row[:keys]} comes twice"
        values = row[keys:]
        assert all(type(v) is int for v in values), f"not exact integers: {values}"
        totals[row[:keys]] = values  # type: ignore[assignment]
    return totals


def literal(value: object, kind: str) -> str:
    """Return a value as a constant of DuckDB."""
    if value is None:
        return "NULL"
    if isinstance(value, str | date | datetime):
        return "'" + str(value).replace("'", "''") + "'"
    return f"'{value}'::{kind}"
