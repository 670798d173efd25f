"""The purchases that `dpsql demo` opens, with their schema; ORIGIN.md says whose they are."""

from __future__ import annotations

from pathlib import Path

SCHEMA = Path(__file__).with_name("cdnow.yaml")

QUERIES = (
    "SELECT COUNT(*) FROM purchases;",
    "SELECT year(day) AS year, AVG(dollars) AS mean FROM purchases GROUP BY year;",
    "SELECT COUNT(DISTINCT customer_id) AS buyers FROM purchases WHERE cds >= 5;",
)

WELCOME = "\n".join(
    [
        "69,659 purchases of 23,570 customers of an online music shop, 1997 and 1998.",
        "Protected is a customer with all purchases: a statement uses at most 20 of each customer",
        "in each of at most 4 groups. Three queries to try:",
        *(f"  {query}" for query in QUERIES),
        r"\? lists the commands, \q leaves.",
    ]
)
