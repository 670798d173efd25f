"""Statements about people and towns, for tests of what is free to ask again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dp_sql

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {level: user, unit: person, defaults: {epsilon: 0.25, delta: 1e-9}, caps: {epsilon: 100}}
tables:
  people:
    source: people.csv
    owner: id
    budget: {epsilon: 500, delta: 1e-3}
    limits: {max_groups: 2, max_rows_per_group: 3}
    columns:
      id: {type: integer}
      city: {type: varchar, values: [oslo, rome, bonn], nullable: false}
      job: {type: varchar}
      pay: {type: double, bounds: [-5, 10]}
      age: {type: integer, bounds: [0, 99]}
  towns:
    public: true
    source: towns.csv
    columns:
      city: {type: varchar, unique: true}
      big: {type: boolean}
"""
COUNT = "SELECT COUNT(*) FROM people"
CITIES = "SELECT city, COUNT(*), AVG(pay) FROM people GROUP BY city"
BIG = "SELECT COUNT(*) FROM people p JOIN towns t ON p.city = t.city WHERE t.big"
ABOVE = "SELECT COUNT(*) FROM people WHERE pay > (SELECT AVG(pay) FROM people)"


def schema(folder: Path, **changes: str) -> Path:
    """Return a schema in which each old text has become the new one."""
    text = SCHEMA
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path = folder / "people.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def filled(folder: Path) -> Path:
    rows = [
        f"{i},{'oslo rome bonn'.split()[i % 3]},{'abc'[i % 3]},{i % 10},{i % 90}"
        for i in range(600)
    ]
    (folder / "people.csv").write_text("id,city,job,pay,age\n" + "\n".join(rows) + "\n", "utf-8")
    (folder / "towns.csv").write_text("city,big\noslo,true\nrome,true\nbonn,false\n", "utf-8")
    schema(folder)
    return folder


@contextmanager
def connected(folder: Path, **options: Any) -> Iterator[dp_sql.Connection]:
    with dp_sql.connect(folder / "people.yaml", **options) as connection:
        yield connection


def spent(connection: dp_sql.Connection) -> Mapping[str, Any]:
    return {name: state.spent for name, state in connection.budget().items()}
