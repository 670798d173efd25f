from __future__ import annotations

import pytest

from dp_sql.cli.words import AGGREGATES, FUNCTIONS
from dp_sql.demo import SCHEMA
from dp_sql.parser.statement import parse
from dp_sql.plan.functions import FUNCTIONS as TABLE
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
OF_A_DAY = set(
    "century day dayname dayofmonth dayofweek dayofyear decade epoch hour isodow isoyear last_day "
    "microsecond millisecond minute month monthname quarter second week weekday weekofyear year "
    "yearweek".split()
)


def call(name: str) -> str:
    return CALLS.get(name, f"{name}(day)" if name in OF_A_DAY else f"{name}(dollars)")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_that_is_offered_is_answered(name: str) -> None:
    plan = parse(f"SELECT COUNT(*) FROM purchases WHERE {call(name)} IS NOT NULL", CATALOG)
    assert len(plan.releases) == 1


@pytest.mark.parametrize("name", AGGREGATES)
def test_every_aggregate_that_is_offered_is_answered(name: str) -> None:
    assert len(parse(f"SELECT {name}(dollars) FROM purchases", CATALOG).releases) == 1


def test_every_function_of_the_table_is_offered() -> None:
    operators = set("and between ilike in like negate not or".split())
    named = {n for n in TABLE if n.isidentifier() and not n.startswith("is_")} - operators
    assert set(FUNCTIONS) - {"clamp", "try_cast"} == named - {"clamp"}


def test_words_are_sorted() -> None:
    assert list(FUNCTIONS) == sorted(FUNCTIONS)
    assert list(AGGREGATES) == sorted(AGGREGATES)
