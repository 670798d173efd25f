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
    "abs acos acosh age array_extract array_slice ascii asin asinh atan atan2 atanh bin bit_count "
    "bit_length cbrt ceil ceiling century chr clamp coalesce concat concat_ws contains cos cosh "
    "cot damerau_levenshtein date_diff date_part date_sub date_trunc day dayname dayofmonth "
    "dayofweek dayofyear days_in_month decade degrees ends_with epoch epoch_ms epoch_us era even "
    "exp factorial floor fmod gamma gcd greatest hamming hex hour if ifnull isfinite isinf isodow "
    "isoyear jaccard jaro_similarity jaro_winkler_similarity json_array_length json_exists "
    "json_extract_string json_type json_valid julian last_day lcm least left left_grapheme length "
    "length_grapheme levenshtein lgamma list_contains list_extract list_position ln log log10 "
    "log2 lower lpad ltrim make_date make_timestamp md5 md5_number_lower md5_number_upper "
    "microsecond millennium millisecond minute month monthname nfc_normalize nullif overlay "
    "parse_dirname parse_dirpath parse_filename pi pow power quarter radians regexp_extract "
    "regexp_full_match regexp_matches regexp_replace repeat replace reverse right right_grapheme "
    "round round_even roundbankers rpad rtrim second sha1 sha256 sign sin sinh split_part sqrt "
    "starts_with strftime string_split strip_accents strlen strpos strptime substr substring "
    "substring_grapheme tan tanh time_bucket to_days to_hours to_minutes to_months to_quarters "
    "to_seconds to_weeks to_years translate trim trunc try_cast try_strptime unicode upper "
    "url_encode week weekday weekofyear xor year yearweek".split()
)

# of our own, above a release
ABOVE = ("DP_INTERVAL_HIGH", "DP_INTERVAL_LOW", "PLANAR_LAPLACE")
