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
    "abs ceil ceiling century clamp coalesce concat contains date_diff date_part date_trunc "
    "day dayname dayofmonth dayofweek dayofyear decade ends_with epoch exp floor greatest "
    "hour if ifnull isodow isoyear last_day least left length ln log log10 log2 lower ltrim "
    "microsecond millisecond minute month monthname nullif pow power quarter replace right "
    "round rtrim second sign sqrt starts_with strftime substr substring trim trunc try_cast "
    "upper week weekday weekofyear year yearweek".split()
)
