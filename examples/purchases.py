"""User level: the purchases of a music shop, where a customer with all purchases is protected.

Run it from anywhere: python examples/purchases.py
"""

from pathlib import Path

import dp_sql

ROOT = Path(__file__).resolve().parent.parent

# The ledger in memory is for an example: a real one lies in a file, and what is spent stays spent.
with dp_sql.connect(
    ROOT / "schemas" / "cdnow.yaml", data_dir=ROOT / "dp_sql" / "demo", ledger=":memory:"
) as connection:
    # One number. How many purchases were there, as far as twenty a customer count?
    (count,) = connection.sql("SELECT COUNT(*) FROM purchases").fetchall()[0]
    print(f"purchases: {count}")

    # A group for every month, whether or not somebody bought something: the bounds of `day` are
    # public, and so are its months.
    months = connection.sql(
        """
        SELECT date_trunc('month', day) AS month, COUNT(*) AS orders
        FROM purchases
        GROUP BY month
        ORDER BY month
        """,
        epsilon=0.5,
    )
    for (month, orders), (_, interval) in zip(months, months.intervals(), strict=True):
        low, high = interval
        print(
            f"{month:%Y-%m}: {orders} orders, with 95 % confidence between {low:.0f} and {high:.0f}"
        )

    # The average, the sum and the count come from one noisy vector, at the price of one.
    result = connection.sql(
        "SELECT AVG(dollars) AS mean, SUM(dollars) AS turnover, COUNT(dollars) AS orders FROM purchases",
        epsilon=0.5,
    )
    print(result.columns, *result)
    print(f"it cost epsilon {float(result.cost['purchases'].epsilon)}")
