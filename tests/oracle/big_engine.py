"""300,000 rows in an engine of many threads, to see which persons' rows change a bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oracle.small_engine import Row, SmallEngine

from dp_sql.executor import lower_relation, lower_rows
from dp_sql.plan.relation import MeasureRows, Relation, inputs
from dp_sql.plan.release import PlannedRelease
from dp_sql.schema.catalog import Catalog

RUNS = (  # removed units, order of rows, threads
    ("uid % 7 = 3", "hash(row_)", 2),
    ("uid < 40 OR uid > 9000", "hash(row_) DESC", 8),
    ("false", "hash(CAST(row_ AS VARCHAR))", 8),
)


class BigEngine:
    """All rows lie beside the tables that the engine reads, which hold parts of them.

    tables: how each is filled: a SELECT of all columns in which `{removed}` stands for the condition
        on `uid` of the persons who are gone. They are filled in this order.
    """

    def __init__(
        self,
        catalog: Catalog,
        public: Mapping[str, Sequence[Row]],
        setup: Sequence[str],
        tables: Mapping[str, str],
    ) -> None:
        self.engine = SmallEngine(catalog, public, threads=8)
        self._tables = tables
        self.engine.query("CREATE MACRO h(i, k) AS hash(i * 16 + k)")
        for text in setup:
            self.engine.query(text)

    def read(self, *, removed: str, order: str, threads: int) -> None:
        """Let the tables be without some persons, in some order of rows."""
        self.engine.query(f"SET threads = {threads}")
        self.engine.query("SET preserve_insertion_order = true")  # so that the order is as asked
        for table, text in self._tables.items():
            target = f'{lower_rows.DATA}."{table}"'
            self.engine.query(f"DELETE FROM {target}")
            self.engine.query(
                f"INSERT INTO {target} SELECT * FROM ({text.format(removed=removed)}) AS row_ "
                f"ORDER BY {order}"
            )
        self.engine.query("SET preserve_insertion_order = false")

    def digest(self, name: str, owner: str, sql: str) -> None:
        """Keep, by unit, a digest of its rows' texts: equal texts are equal bits."""
        self.engine.query(f"CREATE OR REPLACE TEMP TABLE below AS {sql}")
        columns = [str(row[0]) for row in self.engine.query("DESCRIBE below")]
        text = ", ".join(f'CAST("{c}" AS VARCHAR)' for c in columns)
        self.engine.query(
            f"CREATE OR REPLACE TABLE {name} AS SELECT CAST({owner} AS VARCHAR) AS unit, "
            f"count(*) AS rows_, sum(CAST(hash({text}) AS HUGEINT)) AS digest "
            f"FROM below GROUP BY ALL"
        )

    def different(self, a: str, b: str, removed: str) -> int:
        """Return how many units that both have differ, or are in one only."""
        kept = f"WHERE NOT coalesce({removed.replace('uid', 'CAST(unit AS BIGINT)')}, false)"
        ((count,),) = self.engine.query(
            f"SELECT count(*) FROM ((SELECT * FROM {a} {kept} EXCEPT ALL SELECT * FROM {b}) UNION ALL "
            f"(SELECT * FROM {b} EXCEPT ALL SELECT * FROM {a} {kept}))"
        )
        assert isinstance(count, int)
        return count

    def rows_of(self, name: str) -> int:
        """Return how many rows a digest is made of."""
        ((count,),) = self.engine.query(f"SELECT coalesce(sum(rows_), 0)::BIGINT FROM {name}")
        assert isinstance(count, int)
        return count

    def compare(self, found: Sequence[str], told: str) -> int:
        """Assert that every relation, whose owner is in `u`, is unit-local; return the comparisons."""
        compared = 0
        self.read(removed="false", order="ALL", threads=1)
        for index, text in enumerate(found):
            self.digest(f"base_{index}", "u", text)
            assert self.rows_of(f"base_{index}") > 0, f"no rows: {told}\n{text}"
        for removed, order, threads in RUNS:
            self.read(removed=removed, order=order, threads=threads)
            for index, text in enumerate(found):
                self.digest("other", "u", text)
                changed = self.different(f"base_{index}", "other", removed)
                assert changed == 0, f"{changed} units changed: {told}\n{text}"
                compared += 1
        return compared


def levels(plan: PlannedRelease) -> list[str]:
    """Return the SQL of the bounded relations of a release and of the rows they are made from.

    Each has the owner in its column `u`.
    """
    found = [lower_relation.lower_relation(plan.relation)]
    if plan.selection_relation is not None:
        found.append(lower_relation.lower_relation(plan.selection_relation))
    node: Relation = plan.relation
    while not isinstance(node, MeasureRows):
        (node,) = inputs(node)
    return [*found, lower_relation.lower_relation(node)]
