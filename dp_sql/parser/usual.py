"""What is written instead, by what a message says: for errors whose place knows nothing better."""

from __future__ import annotations

import re

_USUAL = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        (r"^\+ takes numbers, not VARCHAR", "x || y, which joins texts"),
        (r"takes numbers?, not (DATE|TIMESTAMP)", "MIN, MAX or MEDIAN of it, or epoch(x)"),
        (
            r"\(DISTINCT …\) takes whole numbers",
            "of CAST(x AS DECIMAL(18, 2)), whose values are exact",
        ),
        (r"takes (a )?(numbers?|whole number)\b", "TRY_CAST(x AS DOUBLE) or TRY_CAST(x AS BIGINT)"),
        (r"takes a text, not", "CAST(x AS VARCHAR)"),
        (r"takes a date or timestamp", "TRY_CAST(x AS DATE), or strptime(x, '%Y-%m-%d')"),
        (r"takes conditions|a condition is true or false", "x <> 0, or x IS NOT NULL"),
        (r"is not a (date|timestamp)", "year, month and day: DATE '2024-01-31'"),
        (r"is not a whole number", "a number without quotes"),
        (r"don't go together", "CAST(x AS VARCHAR), or another CAST of one side"),
        (r"pattern", "a constant pattern, such as '^a.*b$'"),
        (r"format", "a constant format, such as '%Y-%m-%d'"),
        (r"constant|at least one character|is no group", "constants there: no row may choose them"),
        (r"takes \d.*arguments?, not", "as many arguments as DuckDB's function has"),
        (r"takes two dates", "age(x, DATE '2024-01-31')"),
        (r"doesn't take '", "one of these as a text: date_part('year', x)"),
        (r"stand in an aggregate", "SELECT AVG(n) FROM (SELECT x, COUNT(*) AS n … GROUP BY x)"),
        (r"owner's column can be counted", "COUNT(DISTINCT …) of it"),
        (r"^GROUP BY (ROLLUP|CUBE) isn't", "GROUP BY ROLLUP (x, y), or CUBE (x, y)"),
        (r"^GROUP BY \d", "the number of an item of the select list, or GROUP BY ALL"),
        (r"be a GROUP BY key", "a column, or an expression without aggregates"),
        (r"ANY and ALL follow", "x = ANY (…); x LIKE 'a%' OR x LIKE 'b%' for several patterns"),
        (r"compared in its WHERE only", "WHERE inner.x = outer.x in the subquery"),
        (
            r"a row is compared|rows are compared|are compared\.",
            "(x, y) = (1, 2), or (x, y) IN (SELECT …)",
        ),
        (r"parentheses hold no join", "the table without parentheses"),
        (r"frame ends before", "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"),
        (r"RANGE with a distance", "ORDER BY of one number or date, or ROWS"),
        (r"depends on the outer row is answered", "WHERE x > (SELECT AVG(y) FROM … WHERE …)"),
    )
)


def usual(message: str) -> str | None:
    """Return what messages like this one are followed by, None where nothing is known."""
    return next((hint for pattern, hint in _USUAL if pattern.search(message)), None)
