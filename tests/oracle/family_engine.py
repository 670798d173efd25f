"""The engine of the oracle over several tables: statements are prepared once, data change under them."""

from __future__ import annotations

from collections.abc import Sequence

from oracle.family_data import Database
from oracle.family_schema import COLUMNS, PUBLIC, family_catalog
from oracle.small_engine import Row, SmallEngine


class FamilyEngine(SmallEngine):
    """One in-memory DuckDB; whole databases take turns in it."""

    def __init__(self) -> None:
        super().__init__(family_catalog(), {name: rows for name, (_, rows) in PUBLIC.items()})
        self._parts: Sequence[Database] = ()
        self._loaded: dict[str, tuple[Row, ...]] = dict.fromkeys(COLUMNS, ())
        self._names: list[str] = []

    def hold(self, parts: Sequence[Database], texts: Sequence[str]) -> list[list[Row]]:
        """Keep databases, and prepare statements over the first one; return their rows there.

        They run twice: as the engine runs them, and without DuckDB's optimizer, which leaves nothing
        of the data in the prepared plan. Both have to give the same rows.
        """
        for name in self._names:
            self.query(f"DEALLOCATE {name}")
        self._names = []
        self._parts = parts
        self.turn(0)
        optimized = [self.query(text) for text in texts]
        self.query("PRAGMA disable_optimizer")
        for index, text in enumerate(texts):
            self.query(f"PREPARE oracle_{index} AS {text}")
            self._names.append(f"oracle_{index}")
        plain = self.answers()
        self.query("PRAGMA enable_optimizer")
        for text, a, b in zip(texts, optimized, plain, strict=True):
            assert bits(a) == bits(b), f"the optimizer changes the answer\n{text}\n{a}\n{b}"
        return plain

    def turn(self, part: int) -> None:
        """Let a database's rows be the rows of the tables."""
        for table, rows in self._parts[part].items():
            if self._loaded[table] != rows or repr(self._loaded[table]) != repr(rows):
                self.load(table, rows)
                self._loaded[table] = rows

    def answers(self) -> list[list[Row]]:
        """Return the rows of the prepared statements over the rows that are loaded now."""
        return [self.query(f"EXECUTE {name}") for name in self._names]


def bits(rows: Sequence[Row]) -> list[str]:
    """Return rows in an order of their own; equal texts are equal bits and types."""
    return sorted(map(repr, rows))
