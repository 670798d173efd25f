"""A table that grows by a day each day and is asked for ever: each day has a budget of its own.

Run it from anywhere: python examples/daily.py
"""

import tempfile
from datetime import date, timedelta
from pathlib import Path

import duckdb

import dp_sql

SCHEMA = """
version: 1
database: duckdb:///shop.duckdb
privacy: {level: event, unit: sale}
tables:
  sales:
    budget: {epsilon: 1, accountant: pure%s}
    columns:
      day: {type: date, bounds: [2025-01-01, 2044-12-31]}
      amount: {type: double, bounds: [0, 100]}
"""
FIRST, DAYS = date(2025, 1, 1), 366
BY_DAY = "SELECT day, COUNT(*), AVG(amount) FROM sales WHERE day BETWEEN '{}' AND '{}' GROUP BY day"
TODAY = "SELECT COUNT(*) FROM sales WHERE day = '{}'"


def ask_for_a_year(schema: Path) -> int:
    """Ask about the days of each week as they pass, and about each of the last two once more.

    Returned is the number of days that were answered before the budget had no room left.
    """
    with dp_sql.connect(schema, ledger=schema.with_suffix(".ledger")) as connection:
        for number in range(0, DAYS, 7):
            first, last = (FIRST + timedelta(min(number + n, DAYS - 1)) for n in (0, 6))
            try:
                connection.sql(BY_DAY.format(first, last), epsilon="0.6")
            except dp_sql.BudgetExceededError as refusal:
                print(refusal)
                return number
        for number in (DAYS - 2, DAYS - 1):
            today = FIRST + timedelta(number)
            [(sales,)] = connection.sql(TODAY.format(today), epsilon="0.3")
            print(f"Day {number + 1}, {today}: about {sales} sales")
        plan = connection.explain(TODAY.format(today), epsilon="0.1").splitlines()
        print(*(line for line in plan if "debits" in line or "takes" in line), sep="\n")
    return DAYS


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    with duckdb.connect(str(folder / "shop.duckdb")) as database:
        database.execute(
            f"CREATE TABLE sales AS SELECT DATE '{FIRST}' + CAST(i % {DAYS} AS INTEGER) AS day, "
            f"CAST(i * 7 % 100 AS DOUBLE) AS amount FROM range({200 * DAYS}) AS numbers(i)"
        )
    for file, blocks in (("whole.yaml", ""), ("daily.yaml", ", blocks: day")):
        (folder / file).write_text(SCHEMA % blocks)
        answered = ask_for_a_year(folder / file)
        print(f"{file}: {answered} days were answered.")
