"""A small shop: people (event level), visits (user level), cities (public), random but reproducible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

_CITIES = """
CREATE TABLE cities AS SELECT * FROM (VALUES
    ('oslo', 'north', 7, 0.5), ('rome', 'south', 28, 1.25),
    ('bonn', 'west', 3, -0.5), ('pisa', 'south', 9, 2.0)
) AS c(city, region, pop, bonus)
"""

_PEOPLE = """
CREATE TABLE people AS SELECT
    CAST(i AS BIGINT) AS id,
    ['ann', 'bob', 'cyd', 'dan', 'Eva', 'fay', 'gus'][1 + h(i, 1) % 7] AS name,
    CASE WHEN h(i, 2) % 20 > 0 THEN CAST(18 + h(i, 2) % 80 AS INTEGER) END AS age,
    CASE WHEN h(i, 3) % 9 > 0 THEN (h(i, 3) % 1000000) / 10.0::DOUBLE END AS salary,
    ['oslo', 'rome', 'bonn'][1 + h(i, 4) % 3] AS city,
    DATE '2015-01-01' + CAST(h(i, 5) % 3000 AS INTEGER) AS joined,
    CASE h(i, 6) % 3 WHEN 0 THEN 'x' || (h(i, 7) % 50)::VARCHAR
        WHEN 1 THEN (h(i, 7) % 90)::VARCHAR END AS note,
    CASE h(i, 8) % 5 WHEN 0 THEN NULL WHEN 1 THEN true WHEN 2 THEN true ELSE false END AS married,
    CAST((h(i, 9) % 20001)::INTEGER - 10000 AS DECIMAL(8,2)) / 100 AS score
FROM range(1500) AS r(i)
"""

_VISITS = """
CREATE TABLE visits AS SELECT
    CAST(h(i, 21) % 260 AS BIGINT) AS uid,
    ['home', 'cart', 'help', 'blog', 'shop'][1 + h(i, 22) % 5] AS page,
    (h(i, 23) % 100000) / 1000.0::DOUBLE AS amount,
    DATE '2024-01-01' + CAST(h(i, 24) % 91 AS INTEGER) AS day,
    CASE WHEN h(i, 25) % 10 > 0 THEN CAST(h(i, 25) % 11 AS INTEGER) - 5 END AS step,
    h(i, 26) % 4 > 0 AS ok,
    ['oslo', 'rome', 'bonn', 'nice'][1 + h(i, 27) % 4] AS city,
    TIMESTAMP '2024-01-01 00:00:00' + to_minutes(CAST(h(i, 28) % 131040 AS BIGINT)) AS seen
FROM range(2000) AS r(i)
"""

_USERS = """
CREATE TABLE users AS SELECT
    CAST(i AS BIGINT) AS uid,
    ['free', 'basic', 'pro'][1 + h(i, 31) % 3] AS plan,
    CASE WHEN h(i, 32) % 12 > 0 THEN CAST(18 + h(i, 32) % 60 AS INTEGER) END AS age,
    ['oslo', 'rome', 'bonn', 'nice'][1 + h(i, 33) % 4] AS home
FROM range(240) AS r(i)
"""

_ORDERS = """
CREATE TABLE orders AS SELECT
    CAST(i AS BIGINT) AS oid,
    CAST(h(i, 41) % 260 AS BIGINT) AS uid,
    CAST(h(i, 42) % 50000 AS DECIMAL(9,2)) / 100 AS total,
    DATE '2024-01-01' + CAST(h(i, 43) % 91 AS INTEGER) AS placed,
    ['new', 'paid', 'sent'][1 + h(i, 44) % 3] AS state
FROM range(700) AS r(i)
"""

_ITEMS = """
CREATE TABLE items AS SELECT
    CAST(h(i, 51) % 700 AS BIGINT) AS oid,
    CAST(1 + h(i, 52) % 6 AS INTEGER) AS sku,
    CAST(1 + h(i, 53) % 4 AS INTEGER) AS quantity,
    CASE WHEN h(i, 54) % 15 > 0 THEN (h(i, 54) % 8000) / 100.0::DOUBLE END AS price
FROM range(1800) AS r(i)
"""

_SKUS = """
CREATE TABLE skus AS SELECT * FROM (VALUES
    (1, 'tea', 2.5), (2, 'mug', 7.0), (3, 'pen', 1.25), (4, 'hat', NULL), (5, 'bag', 30.0), (7, 'cap', 9.5)
) AS s(sku, label, cost)
"""

_PRIVACY = """
version: 1
database: "duckdb://"
privacy:
  level: {level}
  adjacency: add_remove
  unit: person
"""

_CITIES_YAML = """
  cities:
    public: true
    source: cities.parquet
    columns:
      city: {type: varchar, unique: true}
      region: {type: varchar}
      pop: {type: integer, bounds: [0, 40]}
      bonus: {type: double, bounds: [-1, 2]}
"""

PEOPLE_YAML = (
    _PRIVACY.format(level="event")
    + """
tables:
  people:
    source: people.parquet
    budget: {epsilon: 1e15, delta: 0.1}
    columns:
      id: {type: bigint}
      name: {type: varchar, max_length: 20}
      age: {type: integer, bounds: [0, 120]}
      salary: {type: double, bounds: [0, 100000]}
      city: {type: varchar, values: [oslo, rome, bonn], nullable: false}
      joined: {type: date, bounds: [2015-01-01, 2024-12-31]}
      note: {type: varchar}
      married: {type: boolean}
      score: {type: "decimal(8,2)", bounds: [-100, 100], nullable: false}
"""
    + _CITIES_YAML
)

VISITS_YAML = (
    _PRIVACY.format(level="user")
    + """
tables:
  visits:
    source: visits.parquet
    owner: uid
    budget: {epsilon: 1e15, delta: 0.1}
    limits: {max_groups: 100, max_rows_per_group: 500}
    columns:
      uid: {type: bigint}
      page: {type: varchar}
      amount: {type: double, bounds: [0, 100]}
      day: {type: date, bounds: [2024-01-01, 2024-03-31]}
      step: {type: integer, bounds: [-5, 5]}
      ok: {type: boolean}
      city: {type: varchar}
      seen: {type: timestamp, bounds: [2024-01-01 00:00:00, 2024-04-01 00:00:00]}
  users:
    source: users.parquet
    owner: uid
    budget: {epsilon: 1e15, delta: 0.1}
    limits: {max_groups: 1, max_rows_per_group: 1}
    columns:
      uid: {type: bigint, unique: true}
      plan: {type: varchar, values: [free, basic, pro], nullable: false}
      age: {type: integer, bounds: [0, 120]}
      home: {type: varchar}
  orders:
    source: orders.parquet
    owner: uid
    budget: {epsilon: 1e15, delta: 0.1}
    limits: {max_groups: 30, max_rows_per_group: 30}
    columns:
      oid: {type: bigint, unique: true}
      uid: {type: bigint}
      total: {type: "decimal(9,2)", bounds: [0, 500]}
      placed: {type: date, bounds: [2024-01-01, 2024-03-31]}
      state: {type: varchar, values: [new, paid, sent], nullable: false}
  items:
    source: items.parquet
    owner: {through: orders, on: oid}
    budget: {epsilon: 1e15, delta: 0.1}
    limits: {max_groups: 60, max_rows_per_group: 60}
    columns:
      oid: {type: bigint}
      sku: {type: integer, bounds: [1, 6]}
      quantity: {type: integer, bounds: [1, 4]}
      price: {type: double, bounds: [0, 80]}
  skus:
    public: true
    source: skus.parquet
    columns:
      sku: {type: integer, unique: true}
      label: {type: varchar}
      cost: {type: double, bounds: [0, 50]}
"""
    + _CITIES_YAML
)


def write_shop(folder: Path) -> None:
    """Write the Parquet files and the schemas people.yaml and visits.yaml into a folder."""
    connection: Any = duckdb.connect()
    connection.execute("CREATE MACRO h(i, k) AS CAST(hash(i * 64 + k) >> 2 AS BIGINT)")
    for text in (_CITIES, _PEOPLE, _VISITS, _USERS, _ORDERS, _ITEMS, _SKUS):
        table = text.split()[2]
        connection.execute(text)
        connection.execute(f"COPY {table} TO '{folder / (table + '.parquet')}' (FORMAT parquet)")
    connection.close()
    (folder / "people.yaml").write_text(PEOPLE_YAML, encoding="utf-8")
    (folder / "visits.yaml").write_text(VISITS_YAML, encoding="utf-8")


def plain(folder: Path) -> Any:
    """Return plain DuckDB over the same files."""
    connection: Any = duckdb.connect()
    connection.execute(
        "CREATE MACRO clamp(x, lo, hi) AS CASE WHEN x < lo THEN lo WHEN x > hi THEN hi ELSE x END"
    )
    for file in sorted(folder.glob("*.parquet")):
        connection.execute(f"CREATE VIEW {file.stem} AS SELECT * FROM '{file}'")
    return connection
