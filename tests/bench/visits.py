"""Makes the visits of the speed measurements: seeded, user-skewed, in a DuckDB file.

usage: python tests/bench/visits.py FILE.duckdb ROWS
"""

from __future__ import annotations

import sys

import duckdb

AMOUNT = (0, 500)


def make(file: str, rows: int) -> None:
    """Write about `rows` visits: a median of 3 a user and a long tail, 20 regions, 200 categories."""
    con = duckdb.connect(file)
    con.execute("SELECT setseed(0.42)")
    con.execute("SET threads = 1")  # random() gives the same rows again
    con.execute(
        f"""
        CREATE TABLE sizes AS
        SELECT i AS user_id, least(20000, floor(2.2 * pow(1 - random(), -0.8)))::INTEGER AS n
        FROM range({rows // 8}) AS r(i)
        """
    )
    con.execute(
        """
        CREATE TABLE visits AS
        SELECT (user_id * 2654435761) % 1099511627776 AS user_id,
               'region_' || lpad(floor(20 * pow(random(), 2.5))::INTEGER::VARCHAR, 2, '0') AS region,
               'cat_' || lpad(floor(200 * pow(random(), 3))::INTEGER::VARCHAR, 3, '0') AS category,
               DATE '2024-01-01' + floor(365 * random())::INTEGER AS day,
               CASE WHEN random() < 0.02 THEN NULL ELSE round(-60 * ln(1 - random()), 2) END AS amount
        FROM (SELECT user_id, unnest(range(n)) FROM sizes)
        ORDER BY random()
        """
    )
    con.execute("DROP TABLE sizes")
    con.close()


if __name__ == "__main__":
    make(sys.argv[1], int(float(sys.argv[2])))
