"""The data of the attack catalogue: `people` at event level, `visits` at user level, public `cities`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from oracle.small_engine import Row, SmallEngine

import dp_sql
from dp_sql.errors import QueryError
from dp_sql.parser.statement import parse
from dp_sql.plan.facts import Facts
from dp_sql.plan.relation import MomentMeasure, SumMeasure
from dp_sql.plan.release import PlannedRelease
from dp_sql.planner.plan import plan_release
from dp_sql.schema.catalog import Catalog
from dp_sql.schema.loader import load
from dp_sql.sensitivity.contribution import derive

PEOPLE: list[Row] = [
    (1, "alice", 34, 40000.0, "oslo", "2020-01-05", "7"),
    (2, "bob", 51, 90000.0, "rome", "2021-03-01", "x-secret"),
    (3, "carol", 29, None, "oslo", "2019-11-30", "9"),
]
VISITS: list[Row] = [
    *((2, f"p{i % 6}", 100.0, f"2024-01-{1 + i % 28:02}") for i in range(60)),
    (1, "p0", 5.0, "2024-01-01"),
    (1, "p1", 7.0, "2024-01-02"),
    (3, "p0", 9.0, "2024-01-03"),
]
CITIES: list[Row] = [
    ("oslo", "n", 7), ("rome", "s", 28), ("bonn", "w", 3), ("rome", "s2", 28),
]  # fmt: skip
REGIONS: list[Row] = [("oslo", "n"), ("rome", "s"), ("bonn", "w")]

ROWS = {"people": PEOPLE, "visits": VISITS, "cities": CITIES, "regions": REGIONS}

HEAD = """
version: 1
database: duckdb:///scene.duckdb
privacy: {{level: {level}, adjacency: {adjacency}, group_size: {group_size}}}
tables:
  cities: {{public: true, columns: {{city: {{type: varchar}}, region: {{type: varchar}},
           pop: {{type: bigint, bounds: [0, 30]}}}}}}
  regions: {{public: true, columns: {{city: {{type: varchar, unique: true}}, region: {{type: varchar}}}}}}
"""
EVENT_TABLES = """
  people:
    budget: {epsilon: 1000000, delta: 0.1}
    columns:
      uid: {type: integer}
      name: {type: varchar}
      age: {type: integer, bounds: [0, 120]}
      salary: {type: double, bounds: [0, 100000]}
      city: {type: varchar, values: [oslo, rome, bonn]}
      joined: {type: date}
      note: {type: varchar}
"""
USER_TABLES = """
  visits:
    owner: uid
    budget: {epsilon: 1000000, delta: 0.1}
    limits: {max_groups: 2, max_rows_per_group: 3}
    columns:
      uid: {type: integer}
      page: {type: varchar}
      amount: {type: double, bounds: [0, 100]}
      day: {type: date, bounds: [2024-01-01, 2024-01-31]}
"""
_TYPES = {
    "people": "uid INTEGER, name VARCHAR, age INTEGER, salary DOUBLE, city VARCHAR, joined DATE, "
    "note VARCHAR",
    "visits": "uid INTEGER, page VARCHAR, amount DOUBLE, day DATE",
    "cities": "city VARCHAR, region VARCHAR, pop BIGINT",
    "regions": "city VARCHAR, region VARCHAR",
}


def schema(level: str, adjacency: str = "add_remove", group_size: int = 1) -> str:
    """Return the YAML of one level: `people` for event, `visits` for user."""
    head = HEAD.format(level=level, adjacency=adjacency, group_size=group_size)
    return head + (EVENT_TABLES if level == "event" else USER_TABLES)


def write(folder: Path, text: str) -> Path:
    """Write a schema and the database; return the schema's path."""
    file = folder / "scene.duckdb"
    if not file.exists():
        connection: Any = duckdb.connect(str(file))
        for table, columns in _TYPES.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
            marks = ", ".join("?" * len(ROWS[table][0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", ROWS[table])
        connection.close()
    path = folder / "scene.yaml"
    path.write_text(text.replace("scene.duckdb", str(file)), encoding="utf-8")
    return path


def person(**values: object) -> Row:
    """Return a row of `people`, NULL where nothing is given."""
    names = ("uid", "name", "age", "salary", "city", "joined", "note")
    return tuple(values.get(n) for n in names)


@dataclass
class Scene:
    """An open connection with a spy: what the engine was asked to run over protected rows."""

    connection: dp_sql.Connection
    ran: list[PlannedRelease] = field(default_factory=list)

    def spent(self) -> dict[str, Any]:
        return {name: state.lines() for name, state in self.connection.budget().items()}

    def refuse(self, sql: str, expected: type[QueryError] = QueryError) -> QueryError:
        """Assert that a statement is refused at analysis: nothing ran, nothing was charged or told."""
        before, runs = self.spent(), len(self.ran)
        with pytest.raises(QueryError) as caught:
            self.connection.sql(sql, epsilon=1, delta="1e-6")
        assert isinstance(caught.value, expected), f"{type(caught.value).__name__}: {caught.value}"
        assert len(self.ran) == runs
        assert self.spent() == before
        assert not told(str(caught.value), sql), f"{told(str(caught.value), sql)} in {caught.value}"
        assert caught.value.__cause__ is None
        return caught.value


def told(message: str, sql: str) -> set[str]:
    """Return the words and numbers of the protected data that a message holds without need."""
    words = re.compile(r"[A-Za-z0-9.-]{3,}")
    values = {v for table in ("people", "visits") for row in ROWS[table] for v in row}
    data = {str(v) for v in values} | {str(int(v)) for v in values if isinstance(v, float)}
    public = set(words.findall(schema("event") + schema("user") + sql))
    return set(words.findall(message)) & data - public


@contextmanager
def scene(folder: Path, level: str) -> Iterator[Scene]:
    """Open the data of one level, in a process memory ledger."""
    with dp_sql.connect(write(folder, schema(level)), ledger=":memory:", reuse=False) as connection:
        opened = Scene(connection)
        engine = connection._engine
        execute = engine.execute

        def spy(plan: PlannedRelease, statements: tuple[str, ...], stages: Any = ()) -> Any:
            opened.ran.append(plan)
            return execute(plan, statements, stages)

        engine.execute = spy  # type: ignore[method-assign]
        yield opened


@dataclass(frozen=True)
class Bounded:
    """A planned release and a way to run it on other rows."""

    catalog: Catalog
    plan: PlannedRelease
    facts: Facts
    engine: SmallEngine

    @property
    def delta(self) -> Fraction:
        """The L1 change of the first vector, in the argument's own unit (rows for counts)."""
        vector, fact = self.plan.vectors[0], self.facts.vectors[0]
        measure = vector.measure
        if isinstance(measure, SumMeasure):
            return fact.change.l1 * measure.step
        if isinstance(measure, MomentMeasure):
            return Fraction(fact.change.l1, vector.unit)
        return Fraction(fact.change.l1)

    def moved(self, before: list[Row], after: list[Row]) -> Fraction:
        """Return the L1 distance of the first vector between two data sets, in the same unit."""
        (table,) = self.plan.release.tables
        tables = []
        for rows in (before, after):
            self.engine.load(table, rows)
            tables.append(self.engine.totals(self.plan))
        count = len(self.plan.vectors[0].columns)
        nothing = (0,) * count
        distance = sum(
            abs(a - b)
            for key in tables[0].keys() | tables[1].keys()
            for a, b in zip(
                tables[0].get(key, nothing)[:count],
                tables[1].get(key, nothing)[:count],
                strict=True,
            )
        )
        vector = self.plan.vectors[0]
        if isinstance(vector.measure, SumMeasure):
            return distance * vector.measure.step
        return Fraction(distance, vector.unit)


def bounded(
    folder: Path, sql: str, level: str, *, adjacency: str = "add_remove", group_size: int = 1
) -> Bounded:
    """Return the analysed release of a statement over the scene's tables."""
    catalog = load(write(folder, schema(level, adjacency, group_size)))
    engine = SmallEngine(catalog, {name: ROWS[name] for name in catalog.tables})
    (release,) = parse(sql, catalog).releases
    plan = plan_release(release, catalog, engine, Fraction(1))
    return Bounded(catalog, plan, derive(plan, catalog.unit, engine), engine)
