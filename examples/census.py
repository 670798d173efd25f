"""Event level: a census sample, where each row is a person and a row is what is protected.

Run it from anywhere: python examples/census.py
"""

from pathlib import Path

import dp_sql

ROOT = Path(__file__).resolve().parent.parent

with dp_sql.connect(
    ROOT / "schemas" / "census.yaml", data_dir=ROOT / "examples" / "data", ledger=":memory:"
) as connection:
    # What a statement would do and cost, before it costs anything. A public key also has a group for
    # NULL, here a noisy zero, which HAVING leaves out.
    question = """
        SELECT sex, AVG(age) AS age, STDDEV_SAMP(age) AS spread, COUNT(*) AS persons
        FROM census
        WHERE age >= 18
        GROUP BY sex
        HAVING persons > 500
        ORDER BY sex
    """
    print(connection.explain(question))

    for sex, age, spread, persons in connection.sql(question):
        print(f"{sex}: {persons} adults, {age:.1f} years old on average (± {spread:.1f})")

    # Everything above the aggregates is DuckDB's SQL and costs nothing more: shares, ranks, windows.
    shares = connection.sql("""
        SELECT education, n, round(100 * n / SUM(n) OVER (), 1) AS percent
        FROM (SELECT education, COUNT(*) AS n FROM census WHERE age >= 25 GROUP BY education)
        ORDER BY n DESC
        LIMIT 5
    """)
    for education, n, percent in shares:
        print(f"{percent:5.1f} %  {n:6d}  {education}")
