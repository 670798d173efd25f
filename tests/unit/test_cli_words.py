from __future__ import annotations

import pytest

from dp_sql.cli.words import ABOVE, AGGREGATES, FUNCTIONS
from dp_sql.demo import SCHEMA
from dp_sql.parser.statement import parse
from dp_sql.plan.functions import FUNCTIONS as TABLE
from dp_sql.plan.release import PAIRS
from dp_sql.schema.loader import load

CATALOG = load(SCHEMA)
TEXT = "CAST(cds AS VARCHAR)"
CALLS = {
    "clamp": "clamp(dollars, 0, 10)",
    "coalesce": "coalesce(dollars, 0)",
    "concat": f"concat({TEXT}, 'x')",
    "contains": f"contains({TEXT}, '1')",
    "date_diff": "date_diff('day', day, DATE '1998-01-01')",
    "date_part": "date_part('year', day)",
    "date_trunc": "date_trunc('month', day)",
    "ends_with": f"ends_with({TEXT}, '1')",
    "if": "if(cds > 2, 1, 0)",
    "ifnull": "ifnull(dollars, 0)",
    "greatest": "greatest(cds, 2)",
    "least": "least(cds, 2)",
    "left": f"left({TEXT}, 1)",
    "length": f"length({TEXT})",
    "lower": f"lower({TEXT})",
    "ltrim": f"ltrim({TEXT})",
    "nullif": "nullif(cds, 1)",
    "pow": "pow(dollars, 2)",
    "power": "power(dollars, 2)",
    "replace": f"replace({TEXT}, '1', '2')",
    "right": f"right({TEXT}, 1)",
    "round": "round(dollars, 1)",
    "rtrim": f"rtrim({TEXT})",
    "starts_with": f"starts_with({TEXT}, '1')",
    "strftime": "strftime(day, '%Y')",
    "substr": f"substr({TEXT}, 1)",
    "substring": f"substring({TEXT}, 1, 1)",
    "trim": f"trim({TEXT})",
    "try_cast": "TRY_CAST(dollars AS INTEGER)",
    "upper": f"upper({TEXT})",
}
CALLS |= {
    "age": "age(day, DATE '1998-01-01')",
    "atan2": "atan2(dollars, 2)",
    "bit_count": "bit_count(cds)",
    "chr": "chr(cds)",
    "concat_ws": f"concat_ws('-', {TEXT}, 'x')",
    "date_sub": "date_sub('day', day, DATE '1998-01-01')",
    "factorial": "factorial(cds)",
    "fmod": "fmod(dollars, 2)",
    "gcd": "gcd(cds, 2)",
    "json_exists": f"json_exists({TEXT}, '$.a')",
    "json_extract_string": f"json_extract_string({TEXT}, '$.a')",
    "lcm": "lcm(cds, 2)",
    "list_contains": "list_contains([1, 2], cds)",
    "list_extract": "list_extract(['a', 'b'], cds)",
    "list_position": "list_position([1, 2], cds)",
    "lpad": f"lpad({TEXT}, 5, '0')",
    "make_date": "make_date(1997, 1, cds)",
    "make_timestamp": "make_timestamp(1997, 1, cds, 0, 0, 0)",
    "pi": "pi()",
    "regexp_extract": f"regexp_extract({TEXT}, '(1)', 1)",
    "regexp_full_match": f"regexp_full_match({TEXT}, '1.*')",
    "regexp_matches": f"regexp_matches({TEXT}, '1')",
    "regexp_replace": f"regexp_replace({TEXT}, '1', '2', 'g')",
    "repeat": f"repeat({TEXT}, 2)",
    "rpad": f"rpad({TEXT}, 5, '0')",
    "split_part": f"split_part({TEXT}, '1', 1)",
    "strpos": f"strpos({TEXT}, '1')",
    "strptime": f"strptime({TEXT}, '%Y')",
    "time_bucket": "time_bucket(INTERVAL 7 DAY, day)",
    "translate": f"translate({TEXT}, '1', '2')",
    "try_strptime": f"try_strptime({TEXT}, '%Y')",
    "xor": "xor(cds, 1)",
}
CALLS |= {
    "array_extract": f"array_extract({TEXT}, 1)",
    "array_slice": f"array_slice({TEXT}, 1, 2)",
    "bin": "bin(cds)",
    "left_grapheme": f"left_grapheme({TEXT}, 1)",
    "overlay": f"overlay({TEXT}, 'x', 1)",
    "right_grapheme": f"right_grapheme({TEXT}, 1)",
    "round_even": "round_even(dollars, 1)",
    "roundbankers": "roundbankers(dollars, 1)",
    "string_split": f"len(string_split({TEXT}, '1'))",
    "substring_grapheme": f"substring_grapheme({TEXT}, 1)",
}
OF_A_NUMBER = {name for name in FUNCTIONS if name.startswith("to_")}
OF_TWO_TEXTS = set(
    "damerau_levenshtein hamming jaccard jaro_similarity jaro_winkler_similarity levenshtein".split()
)
OF_A_TEXT = set(
    "ascii bit_length hex json_array_length json_type json_valid length_grapheme md5 md5_number_lower "
    "md5_number_upper nfc_normalize parse_dirname parse_dirpath parse_filename reverse sha1 sha256 "
    "strip_accents strlen unicode url_encode".split()
)
OF_A_DAY = set(
    "century day dayname dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms "
    "epoch_us era hour isodow isoyear julian last_day microsecond millennium millisecond minute month "
    "monthname quarter second week weekday weekofyear year yearweek".split()
)


def call(name: str) -> str:
    if name in OF_TWO_TEXTS:
        return f"{name}({TEXT}, 'x')"
    argument = "day" if name in OF_A_DAY else TEXT if name in OF_A_TEXT else "dollars"
    argument = "cds" if name in OF_A_NUMBER else argument
    return CALLS.get(name, f"{name}({argument})")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_that_is_offered_is_answered(name: str) -> None:
    plan = parse(f"SELECT COUNT(*) FROM purchases WHERE {call(name)} IS NOT NULL", CATALOG)
    assert len(plan.releases) == 1


ARGUMENTS = {
    "BOOL_AND": "dollars > 5",
    "BOOL_OR": "dollars > 5",
    "APPROX_QUANTILES": "dollars, 4",
    "DISTANCE_TO": "dollars > 5",
    "HISTOGRAM": "dollars, [10, 20]",
    "HISTOGRAM_EXACT": "dollars, [10, 20]",
    "QUANTILE_CONT": "dollars, 0.5",
    "QUANTILE_DISC": "dollars, 0.5",
    "SAMPLE_AND_AGGREGATE": "'median', dollars, 0, 300, 50",
    "TOP_K": "cds, 3",
    "VECTOR_SUM": "[dollars, cds], 100",
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_every_aggregate_that_is_offered_is_answered(name: str) -> None:
    arguments = "dollars, cds" if name in PAIRS else ARGUMENTS.get(name, "dollars")
    assert len(parse(f"SELECT {name}({arguments}) FROM purchases", CATALOG).releases) == 1


@pytest.mark.parametrize("name", ABOVE)
def test_what_stands_above_releases_is_answered(name: str) -> None:
    of = "AVG(cds), AVG(cds), 0.01" if name == "PLANAR_LAPLACE" else "AVG(cds)"
    assert len(parse(f"SELECT {name}({of}) AS x FROM purchases", CATALOG).releases) == 1


def test_every_function_of_the_table_is_offered() -> None:
    operators = set("and between glob ilike in like negate not or".split())
    operators |= {"like_escape", "ilike_escape", "json_extract"}  # ESCAPE, and -> below ->>
    named = {n for n in TABLE if n.isidentifier() and not n.startswith("is_")}
    operators |= {
        "match_count",
        "split_contains",
        "split_count",
        "split_item",
    }  # of a list in a call
    named -= operators
    assert set(FUNCTIONS) - {"clamp", "try_cast", "string_split"} == named - {"clamp"}


def test_words_are_sorted() -> None:
    assert list(FUNCTIONS) == sorted(FUNCTIONS)
    assert list(AGGREGATES) == sorted(AGGREGATES)
    assert list(ABOVE) == sorted(ABOVE)
