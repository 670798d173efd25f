"""Types of calls, implicit conversions, and what is refused in which words."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest

from dp_sql.plan import functions
from dp_sql.plan.expression import Call, Cast, Column, Expression, IntervalValue, Literal, Ref
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind, SqlType


def decimal(precision: int, scale: int) -> SqlType:
    return SqlType(Kind.DECIMAL, precision, scale)


def column(type_: SqlType) -> Ref:
    return Ref(Column(1, "x", type_))


def text(value: str) -> Literal:
    return Literal(value, sqltype.VARCHAR)


ONE = Literal(1, sqltype.INTEGER)
HALF = Literal(Decimal("0.5"), decimal(2, 1))
NULL = Literal(None, sqltype.NULL)
INTEGER, BIGINT, HUGEINT = sqltype.INTEGER, sqltype.BIGINT, sqltype.HUGEINT
FLOAT, UBIGINT, UINTEGER = (SqlType(k) for k in (Kind.FLOAT, Kind.UBIGINT, Kind.UINTEGER))
DAY = Literal(IntervalValue(days=1), sqltype.INTERVAL)


@pytest.mark.parametrize(
    ("name", "first", "second", "type_"),
    [
        ("+", INTEGER, INTEGER, BIGINT),
        ("*", INTEGER, INTEGER, BIGINT),
        ("*", UINTEGER, UINTEGER, HUGEINT),  # 2^64 is no BIGINT
        ("+", BIGINT, INTEGER, HUGEINT),
        ("-", UBIGINT, UBIGINT, HUGEINT),
        ("*", HUGEINT, HUGEINT, HUGEINT),
        ("//", INTEGER, INTEGER, BIGINT),
        ("%", INTEGER, BIGINT, BIGINT),
        ("/", INTEGER, INTEGER, sqltype.DOUBLE),
        ("/", FLOAT, INTEGER, FLOAT),
        ("+", decimal(9, 2), decimal(9, 2), decimal(10, 2)),
        ("+", decimal(18, 2), decimal(18, 2), decimal(20, 2)),
        ("+", decimal(38, 2), decimal(38, 2), decimal(38, 2)),
        ("+", decimal(9, 2), INTEGER, decimal(13, 2)),
        ("*", decimal(9, 2), decimal(9, 2), decimal(18, 4)),
        ("*", decimal(15, 2), decimal(15, 2), decimal(34, 4)),
        ("*", decimal(38, 2), decimal(38, 2), decimal(38, 4)),
        ("*", decimal(38, 20), decimal(38, 20), sqltype.DOUBLE),
        ("*", decimal(9, 2), sqltype.DOUBLE, sqltype.DOUBLE),
        ("+", FLOAT, decimal(9, 2), FLOAT),
        ("%", decimal(9, 2), HUGEINT, sqltype.DOUBLE),
        ("-", sqltype.DATE, sqltype.DATE, BIGINT),
        ("-", sqltype.TIMESTAMP, sqltype.DATE, sqltype.INTERVAL),
        ("+", sqltype.DATE, INTEGER, sqltype.DATE),
        ("+", INTEGER, sqltype.DATE, sqltype.DATE),
    ],
)
def test_types_of_arithmetic(name: str, first: SqlType, second: SqlType, type_: SqlType) -> None:
    assert functions.call(name, (column(first), column(second))).type == type_


def test_constants_keep_a_sum_narrow() -> None:
    twice = functions.call("+", (column(INTEGER), column(INTEGER)))
    assert functions.call("+", (twice, ONE)).type == BIGINT
    assert (
        functions.call("-", (functions.call("year", (column(sqltype.DATE),)), ONE)).type == BIGINT
    )
    assert functions.call("//", (column(BIGINT), Literal(10, INTEGER))).type == BIGINT
    price = functions.call("-", (ONE, column(decimal(15, 2))))
    assert price.type == decimal(16, 2)


@pytest.mark.parametrize(
    ("type_", "constant", "value"),
    [
        (sqltype.DATE, "2020-02-29", date(2020, 2, 29)),
        (sqltype.DATE, " 2020-2-9 ", date(2020, 2, 9)),
        (sqltype.TIMESTAMP, "2020-02-29", datetime(2020, 2, 29)),  # noqa: DTZ001
        (sqltype.TIMESTAMP, "2020-02-29T01:02:03.5", datetime(2020, 2, 29, 1, 2, 3, 500_000)),  # noqa: DTZ001
        (INTEGER, "7", 7),
        (decimal(5, 2), "1.5", Decimal("1.50")),
        (sqltype.DOUBLE, "1e3", 1000.0),
        (sqltype.BOOLEAN, "TRUE", True),
        (sqltype.VARCHAR, "x", "x"),
    ],
)
def test_a_constant_text_becomes_a_constant_of_the_columns_type(
    type_: SqlType, constant: str, value: object
) -> None:
    for args in ((column(type_), text(constant)), (text(constant), column(type_))):
        call = functions.call("=", args)
        (literal,) = (arg for arg in call.args if isinstance(arg, Literal))
        assert (literal.value, literal.type) == (value, type_)
    assert functions.call("in", (column(type_), text(constant), NULL)).args[1] == literal


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("lower", (column(sqltype.DOUBLE),), "lower takes a text, not DOUBLE"),
        ("lower", (), "lower takes 1 argument, not 0"),
        ("round", (ONE, ONE, ONE), "round takes 1 to 2 arguments, not 3"),
        ("sqrt", (column(sqltype.VARCHAR),), "sqrt takes a number, not VARCHAR"),
        ("+", (column(sqltype.VARCHAR), ONE), r"\+ takes numbers, not VARCHAR"),
        ("=", (column(sqltype.VARCHAR), ONE), "=: VARCHAR and INTEGER don't go together"),
        ("=", (column(sqltype.DATE), text("abc")), "'abc' is not a date"),
        ("=", (column(sqltype.DATE), text("2021-02-29")), "'2021-02-29' is not a date"),
        ("<", (column(sqltype.TIMESTAMP), text("25:00")), "'25:00' is not a timestamp"),
        ("=", (column(INTEGER), text("1.5")), "'1.5' is not a whole number from -2147483648"),
        ("=", (column(INTEGER), text("nan")), "'nan' is not a whole number"),
        ("=", (column(sqltype.DOUBLE), text("1e999")), "'1e999' is not a number"),
        ("=", (column(sqltype.BOOLEAN), text("maybe")), "'maybe' is not true or false"),
        ("=", (column(decimal(5, 2)), text("0.001")), r"'0.001' is not of the type DECIMAL\(5,2\)"),
        ("and", (column(INTEGER), ONE), "AND takes conditions, not INTEGER"),
        ("not", (column(INTEGER),), "NOT takes conditions, not INTEGER"),
        ("in", (column(INTEGER), column(INTEGER)), "IN takes a list of constants"),
        ("in", (column(INTEGER),), "IN takes at least one value"),
        ("like", (column(sqltype.VARCHAR), column(sqltype.VARCHAR)), "LIKE takes a constant text"),
        ("like", (column(sqltype.VARCHAR), text("%" * 1001)), "at most 1000 characters"),
        ("left", (column(sqltype.VARCHAR), column(INTEGER)), "left takes a constant whole number"),
        ("clamp", (column(INTEGER), ONE, column(INTEGER)), "clamp takes constant bounds"),
        ("clamp", (column(INTEGER), Literal(2, INTEGER), ONE), "a lower bound that is at most"),
        ("clamp", (column(sqltype.VARCHAR), text("a"), text("b")), "clamp takes a number, a date"),
        ("date_trunc", (text("fortnight"), column(sqltype.DATE)), "doesn't take 'fortnight'"),
        (
            "date_part",
            (column(sqltype.VARCHAR), column(sqltype.DATE)),
            "doesn't take an expression",
        ),
        ("year", (column(INTEGER),), "year takes a date or timestamp, not INTEGER"),
        ("week", (column(sqltype.INTERVAL),), "week takes a date or timestamp, not INTERVAL"),
        ("strftime", (column(sqltype.DATE), text("%Q")), "doesn't know the format '%Q'"),
        ("strftime", (column(sqltype.DATE), column(sqltype.VARCHAR)), "takes a constant format"),
        ("+", (column(sqltype.DATE), column(sqltype.INTERVAL)), "isn't answered"),
        ("*", (column(sqltype.DATE), ONE), r"DATE \* INTEGER isn't answered"),
        ("nosuch", (ONE,), "the function nosuch isn't answered"),
        ("nullif", (column(INTEGER), text("x")), "'x' is not a whole number"),
        ("nullif", (column(INTEGER), column(sqltype.DATE)), "nullif: INTEGER and DATE don't go"),
        ("round", (ONE, HALF), "round takes a constant number of decimal places"),
        ("coalesce", (column(sqltype.DATE), ONE), "coalesce: DATE and INTEGER don't go together"),
    ],
)
def test_what_is_refused(name: str, args: tuple[Expression, ...], message: str) -> None:
    with pytest.raises(functions.TypeProblem, match=message):
        functions.call(name, args)


@pytest.mark.parametrize(
    ("name", "args", "type_"),
    [
        ("&", (column(UBIGINT), column(BIGINT)), HUGEINT),
        ("<<", (column(INTEGER), ONE), INTEGER),
        ("~", (NULL,), INTEGER),
        ("bit_count", (column(HUGEINT),), SqlType(Kind.SMALLINT)),
        ("gcd", (column(INTEGER), ONE), BIGINT),
        ("lcm", (column(UBIGINT), ONE), HUGEINT),
        ("factorial", (column(INTEGER),), HUGEINT),
        ("trunc", (column(decimal(9, 3)), ONE), decimal(9, 1)),
        ("log", (Literal(3, INTEGER), column(INTEGER)), sqltype.DOUBLE),
        ("strpos", (column(sqltype.VARCHAR), text("a")), BIGINT),
        ("unicode", (column(sqltype.VARCHAR),), INTEGER),
        ("epoch_ms", (column(sqltype.DATE),), BIGINT),
        ("epoch_ms", (column(INTEGER),), sqltype.TIMESTAMP),
        ("time_bucket", (DAY, column(sqltype.DATE)), sqltype.DATE),
        (
            "time_bucket",
            (DAY, column(sqltype.DATE), Literal(datetime(2020, 1, 1), sqltype.TIMESTAMP)),  # noqa: DTZ001
            sqltype.TIMESTAMP,
        ),
        ("age", (column(sqltype.DATE), column(sqltype.TIMESTAMP)), sqltype.INTERVAL),
        ("year", (column(sqltype.INTERVAL),), BIGINT),
        ("json_array_length", (column(sqltype.VARCHAR),), UBIGINT),
        ("list_extract", (column(INTEGER), ONE, HALF), decimal(11, 1)),
        ("list_position", (column(sqltype.DATE), text("2020-01-01")), INTEGER),
    ],
)
def test_types_of_calls(name: str, args: tuple[Expression, ...], type_: SqlType) -> None:
    assert functions.call(name, args).type == type_


TEXT = column(sqltype.VARCHAR)
DATED = column(sqltype.DATE)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("&", (column(sqltype.DOUBLE), ONE), "& takes a whole number, not DOUBLE"),
        ("repeat", (TEXT, column(INTEGER)), "a constant whole number from 0 to 1000"),
        ("repeat", (TEXT, Literal(1001, INTEGER)), "a constant whole number from 0 to 1000"),
        ("lpad", (TEXT, column(INTEGER), text("x")), "lpad takes a constant whole number"),
        ("rpad", (TEXT, ONE, text("")), "at least one character to fill up with"),
        ("rpad", (TEXT, ONE, TEXT), "what it fills up with as a constant text"),
        ("split_part", (TEXT, TEXT, ONE), "what separates the parts as a constant text"),
        ("split_part", (TEXT, text(","), column(INTEGER)), "a constant whole number"),
        ("translate", (TEXT, TEXT, text("a")), "the characters as a constant text"),
        ("concat_ws", (TEXT, TEXT), "what stands between the texts as a constant text"),
        ("chr", (column(sqltype.DOUBLE),), "chr takes a whole number, not DOUBLE"),
        ("regexp_matches", (TEXT, TEXT), "its pattern as a constant text"),
        ("regexp_matches", (TEXT, NULL), "its pattern as a constant text"),
        ("regexp_matches", (TEXT, text("a(")), r"can't read the pattern 'a\(': a \( isn't closed"),
        ("regexp_matches", (TEXT, text("a"), text("g")), "knows the options c, i, m, n, p, s"),
        ("regexp_replace", (TEXT, text("a"), text("b"), text("x")), "knows the options c, g, i"),
        ("regexp_replace", (TEXT, text("(a)"), text("\\2")), r"\\2 is no group"),
        ("regexp_replace", (TEXT, text("a"), text("b\\")), "is no group"),
        ("regexp_replace", (TEXT, text("a"), TEXT), "its replacement as a constant text"),
        ("regexp_extract", (TEXT, text("(a)"), Literal(2, INTEGER)), "group 2, but there are 1"),
        ("like_escape", (TEXT, text("a!"), text("!")), "doesn't end with its escape"),
        ("like_escape", (TEXT, text("a"), text("!!")), "one ASCII character as its escape"),
        ("log", (ONE, column(INTEGER)), "a constant base above 0 that isn't 1"),
        ("log", (column(INTEGER), ONE), "a constant base above 0 that isn't 1"),
        ("list_contains", (ONE, column(INTEGER)), "list_contains takes a list of constants"),
        ("list_extract", (text("1"), ONE), "list_extract takes a whole number, not VARCHAR"),
        ("list_position", (column(INTEGER), text("x")), "'x' is not a whole number"),
        ("json_type", (TEXT, ONE), "a constant path such as"),
        ("json_exists", (TEXT, text("$.a[*]")), "a constant path such as"),
        ("json_exists", (TEXT, text("$..a")), "a constant path such as"),
        ("json_extract_string", (TEXT, TEXT), "a constant path such as"),
        ("json_valid", (DATED,), "json_valid takes a text, not DATE"),
        ("time_bucket", (column(sqltype.INTERVAL), DATED), "a constant interval above 0"),
        ("time_bucket", (Literal(IntervalValue(), sqltype.INTERVAL), DATED), "above 0"),
        ("time_bucket", (Literal(IntervalValue(1, 1), sqltype.INTERVAL), DATED), "of months or of"),
        ("time_bucket", (DAY, DATED, DATED), "a constant date or timestamp to count from"),
        ("strptime", (TEXT, text("%Y%z")), "doesn't know the format '%Y%z'"),
        ("try_strptime", (TEXT, TEXT), "its format as a constant text"),
        ("age", (DATED,), "age takes two dates"),
        ("make_date", (ONE, ONE, HALF), "make_date takes a whole number"),
        ("make_timestamp", (ONE, ONE, ONE, ONE, ONE, TEXT), "a number, not VARCHAR"),
        ("make_timestamp", (ONE, ONE), "make_timestamp takes 6 arguments, not 2"),
        ("date_sub", (text("eon"), DATED, DATED), "date_sub doesn't take 'eon'"),
        ("epoch_us", (ONE,), "epoch_us takes a date or timestamp, not INTEGER"),
    ],
)
def test_what_no_row_may_choose_and_what_duckdb_would_raise_for(
    name: str, args: tuple[Expression, ...], message: str
) -> None:
    with pytest.raises(functions.TypeProblem, match=message):
        functions.call(name, args)


def test_a_column_of_texts_is_never_converted_silently() -> None:
    for other in (INTEGER, sqltype.DOUBLE, sqltype.DATE, sqltype.BOOLEAN):
        for name in ("=", "<", "is_distinct_from", "coalesce", "nullif"):
            with pytest.raises(functions.TypeProblem, match="VARCHAR"):
                functions.call(name, (column(sqltype.VARCHAR), column(other)))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (sqltype.DATE, INTEGER),
        (INTEGER, sqltype.DATE),
        (sqltype.INTERVAL, sqltype.DOUBLE),
        (sqltype.VARCHAR, sqltype.INTERVAL),
        (sqltype.BOOLEAN, sqltype.DATE),
        (SqlType(Kind.UUID), INTEGER),
    ],
)
def test_casts_that_no_value_has(source: SqlType, target: SqlType) -> None:
    with pytest.raises(functions.TypeProblem, match=f"{source.kind.value} can't be cast to"):
        functions.cast(column(source), target)


def test_casts_of_constants_are_constants_where_that_is_exact() -> None:
    assert functions.cast(ONE, BIGINT) == Literal(1, BIGINT)
    assert functions.cast(ONE, sqltype.DOUBLE) == Literal(1.0, sqltype.DOUBLE)
    assert functions.cast(HALF, decimal(38, 10)) == Literal(Decimal("0.5"), decimal(38, 10))
    assert functions.cast(NULL, sqltype.DATE) == Literal(None, sqltype.DATE)
    assert functions.cast(ONE, INTEGER) is ONE
    for literal, target in (
        (HALF, INTEGER),  # DuckDB rounds
        (Literal(300, INTEGER), SqlType(Kind.TINYINT)),  # NULL
        (Literal(2**53 + 1, BIGINT), sqltype.DOUBLE),
        (Literal(12345, INTEGER), decimal(5, 2)),
    ):
        assert functions.cast(literal, target) == Cast(literal, target)


def test_large_decimals_keep_every_digit() -> None:
    digits = Literal(Decimal("12345678901234567890123456789012345.678"), decimal(38, 3))
    same = functions.cast(digits, decimal(38, 3))
    assert same == digits
    (read, _) = functions.call("=", (text(str(digits.value)), column(decimal(38, 3)))).args
    assert read == digits


def test_case_has_the_common_type_of_its_values() -> None:
    condition = functions.call("=", (column(INTEGER), ONE))
    case = functions.case(((condition, ONE),), HALF)
    assert case.type == decimal(11, 1)
    assert functions.case(((NULL, text("a")),), NULL).type == sqltype.VARCHAR
    dated = functions.case(((condition, column(sqltype.DATE)),), text("2020-01-01"))
    assert dated.otherwise == Literal(date(2020, 1, 1), sqltype.DATE)
    with pytest.raises(functions.TypeProblem, match="CASE takes conditions, not INTEGER"):
        functions.case(((ONE, ONE),), NULL)
    with pytest.raises(functions.TypeProblem, match="CASE: INTEGER and DATE don't go together"):
        functions.case(((condition, ONE),), column(sqltype.DATE))


def test_decimals_beyond_38_digits_give_up_places_only_where_one_is_chosen() -> None:
    wide, fine = column(decimal(38, 0)), column(decimal(5, 2))
    assert functions.call("coalesce", (wide, fine)).type == decimal(38, 0)
    compared = functions.call("=", (wide, fine)).args
    assert {arg.type for arg in compared} == {decimal(38, 2)}


def test_names_of_parts_are_read_as_duckdb_reads_them() -> None:
    for written in ("DOW", "dayofweek", "weekday", "dow"):
        call = functions.call("date_part", (text(written), column(sqltype.DATE)))
        assert call.args[0] == text("dow")
    assert functions.call("date_trunc", (text("MONTHS"), column(sqltype.DATE))).args[0] == text(
        "month"
    )


def test_a_date_moved_by_an_interval_is_a_timestamp_either_way_round() -> None:
    for args in ((column(sqltype.DATE), DAY), (DAY, column(sqltype.DATE))):
        call = functions.call("+", args)
        assert isinstance(call, Call)
        assert call.type == sqltype.TIMESTAMP
        assert call.args[1] == DAY


def test_every_row_has_its_own_name() -> None:
    assert all(name == row.name for name, row in functions.FUNCTIONS.items())
    assert len(functions.FUNCTIONS) >= 175
