"""The words of the language that the shell completes: keywords, aggregates and functions."""

from __future__ import annotations

KEYWORDS = tuple(
    "ALL AND AS ASC BETWEEN BY CASE CAST CROSS DATE DESC DISTINCT ELSE END EXCEPT EXISTS EXPLAIN "
    "EXTRACT FALSE FILTER FIRST FROM FULL GROUP HAVING ILIKE IN INNER INTERSECT INTERVAL IS JOIN "
    "LAST LEFT LIKE LIMIT NOT NULL NULLS OFFSET ON OR ORDER OVER PARTITION QUALIFY RIGHT SELECT "
    "THEN TIMESTAMP TRUE UNION USING VALUES WHEN WHERE WINDOW WITH".split()
)

AGGREGATES = tuple(
    "APPROX_COUNT_DISTINCT APPROX_QUANTILES AVG BOOL_AND BOOL_OR CORR COUNT COVAR_POP COVAR_SAMP DISTANCE_TO "
    "HISTOGRAM HISTOGRAM_EXACT "
    "MAX MEDIAN MIN MODE QUANTILE_CONT QUANTILE_DISC REGR_AVGX REGR_AVGY REGR_COUNT REGR_INTERCEPT "
    "REGR_R2 REGR_SLOPE REGR_SXX REGR_SXY REGR_SYY SAMPLE_AND_AGGREGATE STDDEV_POP "
    "STDDEV_SAMP SUM TOP_K VAR_POP VAR_SAMP VECTOR_SUM".split()
)

# what stands below a release, in WHERE, GROUP BY and inside aggregates; above it DuckDB has more
FUNCTIONS = tuple(
    "abs acos acosh age ascii asin asinh atan atan2 atanh bit_count bit_length cbrt ceil ceiling "
    "century chr clamp coalesce concat concat_ws contains cos cosh cot damerau_levenshtein "
    "date_diff date_part date_sub date_trunc day dayname dayofmonth dayofweek dayofyear "
    "days_in_month decade degrees ends_with epoch epoch_ms epoch_us era even exp factorial floor "
    "fmod gamma gcd greatest hamming hour if ifnull isfinite isinf isodow isoyear jaccard "
    "jaro_similarity jaro_winkler_similarity json_array_length json_exists json_extract_string "
    "json_type json_valid last_day lcm least left length levenshtein lgamma list_contains "
    "list_extract list_position ln log log10 log2 lower lpad ltrim make_date make_timestamp md5 "
    "microsecond millennium millisecond minute month monthname nfc_normalize nullif pi pow power "
    "quarter radians regexp_extract regexp_full_match regexp_matches regexp_replace repeat "
    "replace reverse right round rpad rtrim second sha1 sha256 sign sin sinh split_part sqrt "
    "starts_with strftime strip_accents strlen strpos strptime substr substring tan tanh "
    "time_bucket translate trim trunc try_cast try_strptime unicode upper week weekday weekofyear "
    "xor year yearweek".split()
)

# of our own, above a release
ABOVE = ("DP_INTERVAL_HIGH", "DP_INTERVAL_LOW", "PLANAR_LAPLACE")
