"""Calls and lists that hold nothing, aggregates behind a dot, and aliases that stand for themselves."""

from __future__ import annotations

from itertools import product
from random import Random

import duckdb
import pytest
from small_catalog import CATALOG

from dp_sql.errors import InternalError, QueryError
from dp_sql.parser.aggregates import has_aggregate
from dp_sql.parser.statement import parse
from dp_sql.parser.text import parse_text

REFUSED = {
    "SELECT COUNT(*) FROM (SELECT user_id, ANY_VALUE() AS a FROM visits GROUP BY user_id)": "takes an arg",
    "SELECT COUNT(*) FROM users AS u WHERE 1 < (SELECT MAX() FROM visits AS v WHERE v.user_id = u.user_id)":
        "takes an arg",
    "SELECT AVG(s) FROM (SELECT user_id, list_max(LIST(ORDER BY day)) AS s FROM visits GROUP BY user_id)":
        "takes an arg",
    "SELECT AVG(s) FROM (SELECT user_id, list_max(LIST(DISTINCT)) AS s FROM visits GROUP BY user_id)":
        "takes an arg",
    "SELECT COUNT(DISTINCT ()) FROM visits": "takes an arg",
    "SELECT SUM(s) FROM (SELECT user_id, COUNT_IF(amount > 1) WITHIN GROUP (ORDER BY day) AS s FROM visits "
    "GROUP BY user_id)": "form of COUNT_IF",
    "SELECT region, region.COUNT() FROM visits GROUP BY region": "around its argument",
    "SELECT region.COUNT_IF() FROM visits": "around its argument",
    "SELECT DISTINCT (minutes).SUM() FROM visits GROUP BY minutes": "around its argument",
    "SELECT DISTINCT WAVG(minutes, minutes) FROM visits GROUP BY minutes": "WAVG isn't answered",
    "SELECT FROM visits": "names no columns",
    "SELECT COUNT(*), COUNT(t.amount) FROM users AS u LEFT JOIN LATERAL "
    "(SELECT FROM visits AS v WHERE v.user_id = u.user_id) AS t ON TRUE": "names no columns",
    "SELECT COUNT(*) FROM (SELECT * RENAME (*) FROM visits)": "has no column ''",
    "SELECT COUNT(*) FROM users AS u WHERE (SELECT COUNT(*) FROM visits ORDER BY amount > u.user_id) > 1":
        "in its WHERE",
    "SELECT COUNT(*) FROM visits AS v WHERE (SELECT COUNT(*) + v.minutes FROM regions) > 1":
        "in its WHERE",
    "SELECT COUNT(*) FROM visits AS v WHERE (SELECT COUNT(*) + v.minutes FROM users) > 1":
        "in its WHERE",
    "SELECT SUM(amount) * amount AS amount FROM visits": "has many values",
    "SELECT b AS a, a AS b, COUNT(*) FROM visits": "no column is called 'b'",
    "SELECT SUM(amount) * b AS a, COUNT(*) * a AS b FROM visits": "no column is called 'b'",
}  # fmt: skip
"""Statements that sqlglot reads, and what is said of them."""


@pytest.mark.parametrize("sql", REFUSED)
def test_what_holds_nothing_is_refused(sql: str) -> None:
    with pytest.raises(QueryError, match=REFUSED[sql]):
        parse(sql, CATALOG)


def test_an_alias_may_hide_a_column_that_its_aggregate_reads() -> None:
    query = parse("SELECT SUM(amount) AS amount, amount * 2 AS b, b + amount FROM visits", CATALOG)
    (release,) = query.releases
    assert len(release.aggregates) == 1


def test_every_aggregate_of_duckdb_is_read_as_one() -> None:
    """One that isn't would run over the released groups, as if it stood a block higher."""
    found = duckdb.sql(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate' "
        "OR function_type = 'macro' AND macro_definition ILIKE '%sum(%' ORDER BY 1"
    ).fetchall()
    missed = []
    for (name,) in found:
        calls = (f"{name}(x)", f"{name}(x, y)", f"{name}(x, 1, 2)", f"{name}(x, y, 3, 4)")
        for call in calls:
            try:
                (item,) = parse_text(f"SELECT {call} FROM t").tree.expressions
            except QueryError:  # not with so many arguments
                continue
            if not has_aggregate(item):
                missed.append(call)
    assert len(found) > 70
    assert missed == []


def test_mean_is_avg() -> None:
    one, other = (
        parse(f"SELECT {name}(amount) AS a FROM visits", CATALOG) for name in ("AVG", "MEAN")
    )
    assert one.releases == other.releases


NAMES = """
    count sum avg mean min max count_if countif median mode mad stddev stddev_pop stddev_samp var_pop var_samp
    variance skewness kurtosis kurtosis_pop bool_and bool_or any_value first last arbitrary list array_agg
    string_agg group_concat arg_min arg_max max_by min_by quantile_cont quantile_disc percentile_cont
    percentile_disc approx_quantile approx_quantiles covar_pop covar_samp corr regr_slope regr_count
    approx_count_distinct product fsum entropy histogram bit_and bit_or bit_xor vector_sum distance_to
    sample_and_aggregate approx_top_k row_number rank cume_dist ntile lag lead first_value last_value
    nth_value geomean favg sumkahan reservoir_quantile weighted_avg
""".split()
SHAPES = (
    "", "DISTINCT", "ORDER BY day", "DISTINCT ORDER BY day", "*", "NULL", "NULL ORDER BY day",
    "day, day, day, day", "[]", "[amount]", "()", "(amount, minutes)", "DISTINCT amount, minutes",
    "DISTINCT (amount, minutes)", "amount, 0.5", "amount, NULL", "amount, [0.5]", "amount, 1e400",
    "amount, -1", "amount, ''", "day, 5", "minutes, minutes ORDER BY day", "amount > 3",
)  # fmt: skip
_OF = "FROM visits GROUP BY user_id"
FORMS = (
    "SELECT {} FROM visits",
    "SELECT {} FILTER (WHERE minutes > 3) FROM visits",
    "SELECT {} WITHIN GROUP (ORDER BY amount) FROM visits",
    "SELECT SUM(amount) FROM visits HAVING {} > 1",
    "SELECT region, {} OVER () FROM visits GROUP BY region",
    "SELECT {} FROM regions",
    f"SELECT AVG(s) FROM (SELECT user_id, {{}} AS s {_OF})",
    f"SELECT COUNT(s) FROM (SELECT user_id, list_max({{}}) AS s {_OF})",
    f"SELECT COUNT(s) FROM (SELECT user_id, {{}} WITHIN GROUP (ORDER BY amount) AS s {_OF})",
    "SELECT COUNT(s) FROM (SELECT user_id, {} OVER (PARTITION BY user_id ORDER BY day) AS s FROM visits)",
    "SELECT COUNT(*) FROM users AS u WHERE 1 < (SELECT {} FROM visits AS v WHERE v.user_id = u.user_id)",
)
CALLS = [form.format(f"{n}({shape})") for form, n, shape in product(FORMS, NAMES, SHAPES)]


def refused(calls: list[str]) -> int:
    """Return how many statements are refused; raise where one breaks the parser."""
    count = 0
    for sql in calls:
        try:
            parse(sql, CATALOG)
        except InternalError:
            pytest.fail(sql)
        except QueryError:
            count += 1
        except Exception as error:  # noqa: BLE001  that there is none is the test
            pytest.fail(f"{error!r}\n{sql}")
    return count


def test_aggregates_of_any_arguments_have_a_plan_or_are_refused() -> None:
    assert 250 < refused(Random("calls").sample(CALLS, 300)) <= 300


@pytest.mark.slow
def test_aggregates_of_any_arguments_have_a_plan_or_are_refused_long() -> None:
    assert len(CALLS) > 15_000
    assert 0.9 * len(CALLS) < refused(CALLS) < len(CALLS)
