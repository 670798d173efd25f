"""The engine of the oracle over several tables: statements are prepared once, data change under them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from oracle.family_data import Database
from oracle.family_schema import COLUMNS, PUBLIC, family_catalog
from oracle.small_engine import Row, SmallEngine
from oracle.statements import pick
from oracle.world import describing

from dp_sql.executor import lower_rows, staging
from dp_sql.mechanisms.sampler import ExactSampler
from dp_sql.parser.statement import parse
from dp_sql.plan.release import Query, Stage
from dp_sql.postprocess.embedded import DuckDBPostProcessor
from dp_sql.schema.catalog import Catalog

STAGED = ("0", "1", "2", "a", "b", "-1", "2.5", "1e300", None)
"""What a result of an earlier release may be; a text that its type can't hold is NULL."""


class FamilyEngine(SmallEngine):
    """One in-memory DuckDB; whole databases take turns in it."""

    def __init__(self) -> None:
        super().__init__(family_catalog(), {name: rows for name, (_, rows) in PUBLIC.items()})
        self._parts: Sequence[Database] = ()
        self.query(f"CREATE SCHEMA {lower_rows.STAGE}")
        self._post = DuckDBPostProcessor(family_catalog(), {}, self._public_columns, ExactSampler())
        self._loaded: dict[str, tuple[Row, ...]] = dict.fromkeys(COLUMNS, ())
        self._prepared: list[str] = []
        self._read: list[str] = []

    def _public_columns(self, table: str) -> Mapping[str, Any]:
        found = self._connection.execute(f'SELECT * FROM {lower_rows.DATA}."{table}"')
        columns: Mapping[str, Any] = found.fetchnumpy()
        return columns

    def parse(self, sql: str, catalog: Catalog) -> Query:
        return parse(sql, catalog, describing(self._post))

    def results(self, stages: Sequence[Stage], r: Random) -> None:
        """Let the results of earlier releases be anything: noise could have made them so."""
        for stage in stages:
            count = 1 if stage.single else r.randrange(4)
            texts = tuple(tuple(pick(r, STAGED) for _ in stage.columns) for _ in range(count))
            target = f'{lower_rows.STAGE}."{stage.name}"'
            staging.load(self._connection, target, [str(c.type) for c in stage.columns], texts)

    def hold(self, parts: Sequence[Database], texts: Sequence[str]) -> list[list[Row]]:
        """Keep databases, and prepare statements over the first one; return their rows there.

        The first text runs twice: as the engine runs it, and without DuckDB's optimizer, which leaves
        nothing of the data in a prepared plan. Both have to give the same rows.
        """
        for text in self._prepared:
            if text.startswith("EXECUTE"):
                self.query(text.replace("EXECUTE", "DEALLOCATE"))
        self._prepared = []
        self._parts = parts
        self._read = [t for t in COLUMNS if any(f'{lower_rows.DATA}."{t}"' in x for x in texts)]
        self.turn(0)
        optimized = self.query(texts[0])
        self.query("PRAGMA disable_optimizer")
        for index, text in enumerate(texts):
            if " ASOF " in text:  # DuckDB 2.0.1 can run a prepared ASOF join once only
                self._prepared.append(text)
                continue
            self.query(f"PREPARE oracle_{index} AS {text}")
            self._prepared.append(f"EXECUTE oracle_{index}")
        plain = self.answers()
        self.query("PRAGMA enable_optimizer")
        assert bits(optimized) == bits(plain[0]), f"the optimizer changes the answer\n{texts[0]}"
        return plain

    def turn(self, part: int) -> None:
        """Let a database's rows be the rows of the tables that the statements read."""
        for table in self._read:
            rows = self._parts[part][table]
            if self._loaded[table] != rows or repr(self._loaded[table]) != repr(rows):
                self.load(table, rows)
                self._loaded[table] = rows

    def answers(self) -> list[list[Row]]:
        """Return the rows of the prepared statements over the rows that are loaded now."""
        return [self.query(text) for text in self._prepared]


def bits(rows: Sequence[Row]) -> list[str]:
    """Return rows in an order of their own; equal texts are equal bits and types."""
    return sorted(map(repr, rows))
