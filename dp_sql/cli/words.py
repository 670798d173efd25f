"""The words of the language that the shell completes: keywords, aggregates and functions."""

from __future__ import annotations

KEYWORDS = tuple(
    "ALL AND AS ASC BETWEEN BY CASE CAST CROSS DATE DESC DISTINCT ELSE END EXCEPT EXISTS EXPLAIN "
    "EXTRACT FALSE FILTER FIRST FROM FULL GROUP HAVING ILIKE IN INNER INTERSECT INTERVAL IS JOIN "
    "LAST LEFT LIKE LIMIT NOT NULL NULLS OFFSET ON OR ORDER OVER PARTITION QUALIFY RIGHT SELECT "
    "THEN TIMESTAMP TRUE UNION USING VALUES WHEN WHERE WINDOW WITH".split()
)

AGGREGATES = tuple("AVG COUNT STDDEV_POP STDDEV_SAMP SUM VAR_POP VAR_SAMP".split())

# what stands below a release, in WHERE, GROUP BY and inside aggregates; above it DuckDB has more
FUNCTIONS = tuple(
    "abs ceil clamp coalesce concat contains date_diff date_part date_trunc day dayname dayofweek "
    "dayofyear ends_with exp floor greatest hour isodow last_day least left length ln log lower "
    "ltrim minute month monthname nullif power quarter replace right round rtrim second sign sqrt "
    "starts_with strftime substring trim trunc try_cast upper week year".split()
)
