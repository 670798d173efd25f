"""Names and forms of functions: which row of the table they are, and how messages name them."""

from __future__ import annotations

import pytest
from small_catalog import CATALOG

from dp_sql.errors import DPSQLError, QueryError, UnsupportedSQLError
from dp_sql.parser.statement import parse
from dp_sql.plan.expression import Call, Expression, Literal
from dp_sql.plan.relation import Filter


def bound(sql: str) -> Expression:
    """Return `sql` as it is bound in WHERE; the column that it is compared with is `minutes`."""
    (release,) = parse(f"SELECT COUNT(*) FROM visits WHERE {sql}", CATALOG).releases
    assert isinstance(release.source, Filter)
    return release.source.predicate


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("len(category) = 1", "length(category) = 1"),
        ("lcase(category) = 'a'", "lower(category) = 'a'"),
        ("ord(category) = 1", "unicode(category) = 1"),
        ("instr(category, 'a') = 1", "strpos(category, 'a') = 1"),
        ("position('a' IN category) = 1", "strpos(category, 'a') = 1"),
        ("prefix(category, 'a')", "starts_with(category, 'a')"),
        ("category ^@ 'a'", "starts_with(category, 'a')"),
        ("suffix(category, 'a')", "ends_with(category, 'a')"),
        ("editdist3(category, 'a') = 1", "levenshtein(category, 'a') = 1"),
        ("mismatches(category, 'a') = 1", "hamming(category, 'a') = 1"),
        ("category ~ 'a'", "regexp_matches(category, 'a')"),
        ("category !~ 'a'", "NOT regexp_matches(category, 'a')"),
        ("category SIMILAR TO 'a'", "regexp_full_match(category, 'a')"),
        ("category ~~~ 'a*'", "category GLOB 'a*'"),
        ("category NOT LIKE 'a!%' ESCAPE '!'", "NOT category LIKE 'a!%' ESCAPE '!'"),
        ("like_escape(category, 'a!%', '!')", "category LIKE 'a!%' ESCAPE '!'"),
        ("greatest_common_divisor(minutes, 2) = 1", "gcd(minutes, 2) = 1"),
        ("list_has([1, 2], minutes)", "list_contains([1, 2], minutes)"),
        ("minutes IN [1, 2]", "list_contains([1, 2], minutes)"),
        ("array_position([1, 2], minutes) = 1", "list_position([1, 2], minutes) = 1"),
        ("list_indexof([1, 2], minutes) = 1", "list_position([1, 2], minutes) = 1"),
        ("['a', 'b'][minutes] = 'a'", "list_extract(['a', 'b'], minutes) = 'a'"),
        ("['a', 'b'][2] = 'a'", "list_extract(['a', 'b'], 2) = 'a'"),
        ("['a', 'b'][-1] = 'a'", "list_extract(['a', 'b'], -1) = 'a'"),
        ("category ->> 'a' = 'b'", "json_extract_string(category, 'a') = 'b'"),
        ("json_extract_path_text(category, 'a') = 'b'", "category ->> 'a' = 'b'"),
        ("(category -> 'a') ->> 0 = 'b'", "json_extract_string((category -> 'a'), 0) = 'b'"),
        ("datesub('day', day, day) = 0", "date_sub('day', day, day) = 0"),
        ("datepart('dow', day) = 0", "dayofweek(day) = 0"),
        ("date_add(day, INTERVAL 1 DAY) > '2020-01-01'", "day + INTERVAL 1 DAY > '2020-01-01'"),
        ("strftime('%Y', day) = '2020'", "strftime(day, '%Y') = '2020'"),
        ("date(day) = '2020-01-01'", "CAST(day AS DATE) = '2020-01-01'"),
        ("TRY(minutes // 2) = 1", "minutes // 2 = 1"),
        ("log(10, amount) = 1", "log(amount) = 1"),
        ("to_hex(category) = 'a'", "hex(category) = 'a'"),
        ("to_binary(minutes) = 'a'", "bin(minutes) = 'a'"),
        ("add(minutes, 1) = 1", "minutes + 1 = 1"),
        ("subtract(minutes, 1) = 1", "minutes - 1 = 1"),
        ("multiply(minutes, 2) = 1", "minutes * 2 = 1"),
        ("divide(minutes, 2) = 1", "minutes // 2 = 1"),
        ("category[1] = 'a'", "array_extract(category, 1) = 'a'"),
        ("list_element(category, -1) = 'a'", "category[-1] = 'a'"),
        ("category[:2] = 'a'", "array_slice(category, 1, 2) = 'a'"),
        ("category[2:] = 'a'", "list_slice(category, 2, -1) = 'a'"),
        ("overlay(category PLACING 'x' FROM 2 FOR 1) = 'a'", "overlay(category, 'x', 2, 1) = 'a'"),
        ("split(category, ',')[2] = 'a'", "list_extract(string_split(category, ','), 2) = 'a'"),
        ("len(string_to_array(category, ',')) = 1", "array_length(str_split(category, ',')) = 1"),
        ("list_has(string_split(category, ','), 'a')", "array_contains(split(category, ','), 'a')"),
        ("day + to_days(3) > '2020-01-01'", "day + INTERVAL 3 DAY > '2020-01-01'"),
        ("day + to_hours(-(3)) > '2020-01-01'", "day + INTERVAL (-3) HOUR > '2020-01-01'"),
        ("day - to_weeks(minutes) > '2020-01-01'", "day - INTERVAL (minutes) WEEKS > '2020-01-01'"),
    ],
)
def test_two_ways_to_write_one_call(one: str, other: str) -> None:
    first, second = bound(one), bound(other)
    if "dow" in one:  # the same values from two rows of the table
        assert isinstance(first, Call)
        assert isinstance(second, Call)
        assert first.args[1:] == second.args[1:]
        return
    assert first == second


def test_a_json_path_without_a_dollar_is_one_key() -> None:
    """The parser library would make it $.a.b, another place."""
    call = bound("category ->> 'a.b' = 'x'")
    assert isinstance(call, Call)
    (found, _) = call.args
    assert isinstance(found, Call)
    assert isinstance(found.args[1], Literal)
    assert found.args[1].value == "a.b"
    tree = parse("SELECT '{}' ->> 'a.b', COUNT(*) FROM visits", CATALOG).residual.sql
    assert "'a.b'" in tree


def test_a_list_in_brackets_is_not_one_in_parentheses() -> None:
    """2 IN [1, NULL] is false, 2 IN (1, NULL) is NULL; above a release too."""
    assert bound("minutes IN [1, NULL]") != bound("minutes IN (1, NULL)")
    sql = "SELECT region, COUNT(*) FROM visits GROUP BY region HAVING region IN ['n', NULL]"
    residual = parse(sql, CATALOG).residual.sql
    assert "IN (" not in residual
    assert "CONTAINS" in residual


@pytest.mark.parametrize(
    ("sql", "kind", "message"),
    [
        ("len(minutes) = 1", QueryError, "len takes a text, not INTEGER"),
        ("editdist3(day, 'a') = 1", QueryError, "editdist3 takes a text, not DATE"),
        ("instr(minutes, 'a') = 1", QueryError, "instr takes a text, not INTEGER"),
        ("datediff('eon', day, day) = 1", QueryError, "datediff doesn't take 'eon'"),
        ("regexp_matches(category, '(')", QueryError, "regexp_matches can't read the pattern"),
        ("'a' SIMILAR TO category", QueryError, "SIMILAR TO takes its pattern"),
        ("list_contains([minutes], 1)", QueryError, "list_contains takes a list of constants"),
        ("list_position(category, 'a') = 1", UnsupportedSQLError, "list_position isn't"),
        ("['a'][minutes + 1] = 'a'", UnsupportedSQLError, r"x\[…\] isn't answered"),
        ("minutes[1] = 1", QueryError, "array_extract takes a text, not INTEGER"),
        ("category[1:2:2] = 'a'", UnsupportedSQLError, r"x\[…\] isn't answered"),
        ("category[minutes] = 'a'", QueryError, "takes a constant whole number"),
        ("split(category, category)[1] = 'a'", QueryError, "string_split takes what separates"),
        ("split(category, ',') = 'a'", UnsupportedSQLError, "split isn't answered"),
        ("split_item(category, ',', 1) = 'a'", UnsupportedSQLError, "split_item isn't answered"),
        ("len(regexp_extract_all(category, '(')) = 1", QueryError, "can't read the pattern"),
        ("len(regexp_extract_all(category, '(a)', 1)) = 1", UnsupportedSQLError, "isn't answered"),
        ("parse_filename(category, 'system') = 'a'", QueryError, "takes one of both_slash"),
        ("overlay(category, 'x', 1, -1) = 'a'", QueryError, "overlay takes a constant whole"),
        ("hex(amount) = 'a'", QueryError, "hex takes a whole number, not DOUBLE"),
        ("day + to_days(amount) > day", QueryError, "to_days takes a whole number"),
        ("day + minutes * INTERVAL 1 DAY > day", QueryError, "isn't answered"),
        ("to_days(minutes) + to_days(minutes) > INTERVAL 1 DAY", QueryError, "isn't answered"),
        (
            "day + INTERVAL (minutes) MILLENNIUM > day",
            UnsupportedSQLError,
            "MILLENNIUM of a column",
        ),
        ("json_type(category -> 'a') = 'b'", UnsupportedSQLError, "in parentheses"),
        ("category -> 'a' = 'b'", UnsupportedSQLError, "->> 'key'"),
        ("isnan(amount)", UnsupportedSQLError, "NaN is NULL here"),
        ("today() = day", UnsupportedSQLError, "today isn't answered"),
        ("now() > day", UnsupportedSQLError, "TIMESTAMP '2024"),
        ("hash(category) = 1", UnsupportedSQLError, "md5_number_lower"),
        ("negate(minutes) = 1", UnsupportedSQLError, "the function negate isn't"),
        ("glob(category, 'a')", UnsupportedSQLError, "the function glob isn't"),
        ("levenshtein(category, 'a', 1) = 1", UnsupportedSQLError, "this form of LEVENSHTEIN"),
        ("jaro_winkler_similarity(category, 'a', 0.5) > 0", QueryError, "2 arguments, not 3"),
        ("sha2(category, 512) = 'a'", UnsupportedSQLError, "sha2 isn't answered"),
        ("to_timestamp(minutes) > day", UnsupportedSQLError, "to_timestamp isn't answered"),
        ("date(day, 'Asia/Tokyo') = day", UnsupportedSQLError, "date isn't answered"),
        ("category SIMILAR TO 'a' ESCAPE '!'", UnsupportedSQLError, "ESCAPE isn't answered"),
        ("category ~* 'a'", UnsupportedSQLError, r"~\* isn't answered"),
    ],
)
def test_messages_quote_the_statement(sql: str, kind: type[DPSQLError], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        bound(sql)
    assert caught.value.position is not None


def test_a_name_that_nobody_knows_gets_one_that_can_be_called() -> None:
    with pytest.raises(UnsupportedSQLError) as caught:
        bound("binn(minutes) = 'a'")
    assert caught.value.hint == "bin(…)"
    with pytest.raises(UnsupportedSQLError, match="strlen"):
        bound("strlenn(category) = 1")
