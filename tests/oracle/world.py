"""A database file and everything that answers statements over it, but for the ledger.

What an analyst can see of a statement is kept in one value, so that two worlds can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import duckdb
from oracle.small_engine import Row, literal

from dp_sql import stages
from dp_sql.amounts import Amounts, parts
from dp_sql.executor.duckdb_engine import DuckDBEngine
from dp_sql.executor.sources import locate
from dp_sql.explain import explanation
from dp_sql.mechanisms.sampler import Sampler, sampler_named
from dp_sql.parser.scope import Describe
from dp_sql.parser.statement import parse
from dp_sql.plan.release import Release
from dp_sql.postprocess.embedded import DuckDBPostProcessor
from dp_sql.postprocess.processor import PostProcessor
from dp_sql.privacy.cost import Cost
from dp_sql.schema.catalog import Catalog


@dataclass(frozen=True)
class Seen:
    """What an analyst sees of an answer, and what the database was sent."""

    sent: tuple[str, ...]
    columns: tuple[str, ...]
    types: tuple[str, ...]
    costs: Mapping[str, Cost]
    explained: str
    rows: list[tuple[Any, ...]]


class NoState:
    """A budget without a history, for EXPLAIN."""

    people = None

    def lines(self) -> list[str]:
        return []

    def taken(self, cost: Cost) -> str:
        return f"takes epsilon {cost.epsilon}"


def describing(post: PostProcessor) -> Describe:
    """Return what tells the parser the columns of a text above releases."""

    def describe(
        sql: str, public_tables: tuple[str, ...], releases: Sequence[Release]
    ) -> tuple[tuple[str, str], ...]:
        tables = {release.name: stages.declared(release) for release in releases}
        return post.columns(sql, public_tables, tables)

    return describe


class World:
    """One data set behind a catalog. Use it as a context manager."""

    def __init__(
        self, folder: Path, catalog: Catalog, rows: Mapping[str, Sequence[Row]], name: str
    ) -> None:
        file = folder / f"{name}.duckdb"
        connection: Any = duckdb.connect(str(file))
        for table, spec in catalog.tables.items():
            columns = ", ".join(f'"{k}" {c.type}' for k, c in spec.columns.items())
            connection.execute(f'CREATE TABLE "{table}" ({columns})')
            types = [str(c.type) for c in spec.columns.values()]
            for row in rows[table]:
                texts = ", ".join(literal(v, t) for v, t in zip(row, types, strict=True))
                connection.execute(f'INSERT INTO "{table}" VALUES ({texts})')
        connection.close()
        self.catalog = replace(catalog, path=folder / "schema.yaml", database=f"duckdb:///{file}")
        sources = locate(self.catalog, None, None)
        self.engine = DuckDBEngine(self.catalog, sources)
        self._sampler: Sampler = sampler_named("exact")
        self.post: PostProcessor = DuckDBPostProcessor(
            self.catalog,
            sources.public_parquet(self.catalog),
            self.engine.public_columns,
            self._sampler,
        )

    def prepare(self, sql: str, epsilon: Fraction, delta: Fraction) -> stages.Prepared:
        query = parse(sql, self.catalog, describing(self.post))
        spent = parts(query, Amounts(), Amounts(epsilon, delta), self.catalog.defaults)
        public = stages.StagedFacts(query, self.engine, self.post)
        return stages.prepare(query, self.catalog, self.engine, public, spent)

    def ask(
        self, sql: str, epsilon: Fraction = Fraction(1), delta: Fraction = Fraction(1, 10**6)
    ) -> Seen:
        prepared = self.prepare(sql, epsilon, delta)
        sent = tuple(text for s in prepared.steps for text in self.engine.statements(s.plan))
        course = stages.Course(prepared, self.catalog, self.post)
        answer = course.finish(stages.fresh(self.engine, self.post, self._sampler))
        told = explanation(prepared, self.catalog, {t: NoState() for t in prepared.costs}, {}, {})  # type: ignore[misc]
        return Seen(sent, answer.columns, answer.types, prepared.costs, told, answer.rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()
        self.post.close()
