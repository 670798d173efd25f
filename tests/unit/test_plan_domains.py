"""Derived domains, case by case; random ones are in property/test_lowering_nested.py."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest

from dp_sql.plan import functions
from dp_sql.plan.conversion import days_of, microseconds_of
from dp_sql.plan.domain import BOOLEANS, UNKNOWN, Domain
from dp_sql.plan.domains import domain_of, literal_domain, narrow
from dp_sql.plan.expression import Column, Expression, IntervalValue, Literal, Ref
from dp_sql.plan.intervals import widened
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind, SqlType

MONEY = SqlType(Kind.DECIMAL, 9, 2)
X = Ref(Column(1, "x", sqltype.DOUBLE))
I = Ref(Column(2, "i", sqltype.INTEGER))  # noqa: E741
M = Ref(Column(3, "m", MONEY))
D = Ref(Column(4, "d", sqltype.DATE))
T = Ref(Column(5, "t", sqltype.VARCHAR))
FREE = Ref(Column(6, "free", sqltype.DOUBLE))
S = Ref(Column(7, "s", sqltype.TIMESTAMP))
CENT = Fraction(1, 100)
TRUE = Literal(value=True, type=sqltype.BOOLEAN)


def box(low: object, high: object, step: object = None) -> Domain:
    ends = (None if end is None else Fraction(str(end)) for end in (low, high))
    return Domain(*ends, None if step is None else Fraction(str(step)))


def days(first: str, last: str) -> Domain:
    return box(days_of(date.fromisoformat(first)), days_of(date.fromisoformat(last)), 1)


def moments(first: str, last: str) -> Domain:
    ends = (microseconds_of(datetime.fromisoformat(end)) for end in (first, last))
    return box(*ends, 1)


COLUMNS = {
    1: box(-2, 5),
    2: box(0, 10, 1),
    3: Domain(Fraction(0), Fraction(300), CENT),
    4: days("2019-12-30", "2021-03-15"),
    5: Domain(max_length=8),
    7: moments("2019-12-30 23:30:00", "2020-02-29 12:00:00"),
}


def constant(value: object) -> Literal:
    if value is None:
        return Literal(None, sqltype.NULL)
    if isinstance(value, IntervalValue):
        return Literal(value, sqltype.INTERVAL)
    if isinstance(value, str):
        return Literal(value, sqltype.VARCHAR)
    if isinstance(value, Decimal):
        return Literal(value, SqlType(Kind.DECIMAL, 9, -int(value.as_tuple().exponent)))
    assert isinstance(value, int | float)
    return Literal(value, sqltype.INTEGER if isinstance(value, int) else sqltype.DOUBLE)


def call(name: str, *args: object) -> Expression:
    return functions.call(
        name, tuple(a if isinstance(a, Ref) or hasattr(a, "type") else constant(a) for a in args)
    )


def case(condition: Expression, value: object, otherwise: object) -> Expression:
    chosen, rest = (v if hasattr(v, "type") else constant(v) for v in (value, otherwise))
    return functions.case(((condition, chosen),), rest)


@pytest.mark.parametrize(
    ("expression", "domain"),
    [
        (call("+", I, I), box(0, 20, 1)),
        (call("-", I, M), Domain(Fraction(-300), Fraction(10), CENT)),
        (call("*", X, X), box(-10, 25)),
        (call("*", M, M), Domain(Fraction(0), Fraction(90_000), CENT**2)),
        (call("*", FREE, 0), box(0, 0)),
        (call("negate", X), box(-5, 2)),
        (call("/", I, 4), box(0, "2.5")),
        (call("/", 1, call("+", I, 1)), box(Fraction(1, 11), 1)),
        (call("/", I, X), UNKNOWN),
        (call("/", I, call("nullif", I, 0)), box(0, 10)),
        (call("//", X, 2), box(-1, "2.5")),  # DuckDB divides DOUBLEs
        (call("//", I, 3), box(0, 3, 1)),
        (call("//", I, call("-", I, 5)), box(-10, 10, 1)),
        (call("%", I, 7), box(0, 7, 1)),
        (call("abs", X), box(0, 5)),
        (call("sign", X), box(-1, 1, 1)),
        (call("sign", call("+", I, 1)), box(1, 1, 1)),
        (call("least", FREE, 100.0), box(None, 100)),
        (call("greatest", call("least", FREE, 100.0), 0.0), box(0, 100)),
        (call("greatest", X, 0.0), box(0, 5)),
        (call("clamp", FREE, -1, 7), box(-1, 7)),
        (call("clamp", I, 3, 100), box(3, 10, 1)),
        (call("clamp", X, 50, 100), box(50, 100)),  # nothing declared is inside: both ends stay
        (call("coalesce", X, 100.0), box(-2, 100)),
        (call("coalesce", X, None), box(-2, 5)),
        (call("nullif", I, 0), box(1, 10, 1)),
        (call("nullif", M, 0), Domain(CENT, Fraction(300), CENT)),
        (call("nullif", X, 0), box(-2, 5)),
        (call("julian", D), widened(box(2_458_848, 2_459_289))),
        (call("round_even", call("/", X, 3), 0), box(-1, 2)),
        (call("round_even", M, 1), box(0, 300, "0.1")),
        (call("round_even", I, -1), box(0, 10)),
        (call("roundbankers", I, 2), box(0, 10, 1)),
        (call("hex", T), Domain(max_length=64)),
        (call("hex", I), Domain(max_length=16)),
        (call("bin", call("md5_number_lower", T)), Domain(max_length=64)),
        (call("md5_number_upper", T), box(0, 2**64 - 1, 1)),
        (call("url_encode", T), Domain(max_length=96)),
        (call("length_grapheme", T), box(0, 8, 1)),
        (call("left_grapheme", T, 1), Domain(max_length=8)),
        (call("split_count", T, ","), box(0, 9, 1)),
        (call("split_item", T, ",", 2), Domain(max_length=8)),
        (call("split_contains", T, ",", "a"), BOOLEANS),
        (call("match_count", T, "a"), box(0, 9, 1)),
        (call("parse_filename", T, TRUE), Domain(max_length=8)),
        (call("overlay", T, "ab", 1), Domain(max_length=10)),
        (call("array_extract", T, 3), Domain(max_length=1)),
        (call("array_slice", T, 2, 4), Domain(max_length=3)),
        (call("array_slice", T, -3, 90), Domain(max_length=8)),
        (call("+", S, call("to_days", I)), box(None, None, 1)),
        (call("round", X), box(-2, 5)),
        (call("round", M, 1), Domain(Fraction(0), Fraction(300), Fraction(1, 10))),
        (call("round", I, -1), box(0, 10, 10)),
        (call("floor", call("/", I, 4)), box(0, 2)),
        (call("ceil", call("/", I, 4)), box(0, 3)),
        (call("trunc", M), box(0, 300, 1)),
        (call("year", D), box(2019, 2021, 1)),
        (call("isoyear", D), box(2020, 2021, 1)),
        (call("month", D), box(1, 12, 1)),
        (call("dayofweek", D), box(0, 6, 1)),
        (call("date_part", "isodow", D), box(1, 7, 1)),
        (call("+", D, 1), days("2019-12-31", "2021-03-16")),
        (call("-", D, D), box(-441, 441, 1)),
        (call("last_day", D), days("2019-12-31", "2021-03-31")),
        (call("date_trunc", "month", S), moments("2019-12-01", "2020-02-01")),
        (call("date_trunc", "week", D), moments("2019-12-30", "2021-03-15")),
        (call("+", S, IntervalValue(months=1)), moments("2020-01-30 23:30", "2020-03-29 12:00")),
        (call("-", S, IntervalValue(months=12)), moments("2018-12-30 23:30", "2019-02-28 12:00")),
        (call("date_diff", "day", S, S), box(-61, 61, 1)),
        (call("date_diff", "month", "2020-01-15", S), box(-1, 1, 1)),
        (functions.cast(S, sqltype.DATE), days("2019-12-30", "2020-02-29")),
        (functions.cast(M, sqltype.INTEGER), box(0, 300, 1)),
        (functions.cast(X, MONEY), Domain(Fraction(-2), Fraction(5), CENT)),
        (functions.cast(T, sqltype.INTEGER), Domain(step=Fraction(1))),
        (call("length", T), box(0, 8, 1)),
        (call("length", call("substring", T, 2, 3)), box(0, 3, 1)),
        (call("length", call("left", T, -6)), box(0, 2, 1)),
        (call("length", call("||", T, "abc")), box(0, 11, 1)),
        (call("length", call("replace", T, "ab", "xyz")), box(0, 12, 1)),
        (call("monthname", D), Domain(max_length=9)),
        (call("&", I, 6), box(0, 6, 1)),
        (call("|", I, 16), box(0, 31, 1)),
        (call("xor", I, 3), box(0, 15, 1)),
        (call("~", I), box(-11, -1, 1)),
        (call("<<", I, 2), box(0, 40, 1)),
        (call(">>", I, 1), box(0, 10, 1)),
        (call("bit_count", I), box(0, 32, 1)),
        (call("gcd", I, 12), box(0, 12, 1)),
        (call("lcm", I, 4), box(0, 40, 1)),
        (call("factorial", call("-", I, 6)), box(1, 24, 1)),
        (call("trunc", M, 1), Domain(Fraction(0), Fraction(300), Fraction(1, 10))),
        (call("trunc", I, -1), box(0, 10, 10)),
        (call("even", X), box(-2, 6)),
        (call("fmod", FREE, X), box(-2, 5)),
        (call("strlen", T), box(0, 32, 1)),
        (call("strpos", T, "a"), box(0, 8, 1)),
        (call("unicode", T), box(-1, 0x10FFFF, 1)),
        (call("chr", I), Domain(max_length=1)),
        (call("lpad", T, 20, "x"), Domain(max_length=20)),
        (call("repeat", T, 3), Domain(max_length=24)),
        (call("concat_ws", "--", T, T), Domain(max_length=18)),
        (call("split_part", T, ",", 1), Domain(max_length=8)),
        (call("md5", T), Domain(max_length=32)),
        (call("regexp_extract", T, "a"), Domain(max_length=8)),
        (call("regexp_replace", T, "a", "bcd"), Domain(max_length=10)),
        (call("regexp_replace", T, "aa", "bcde", "g"), Domain(max_length=16)),
        (call("regexp_replace", T, "(a)", "\\1\\1", "g"), Domain(max_length=24)),
        (call("regexp_replace", T, "", "b", "g"), Domain(max_length=17)),
        (call("levenshtein", T, "kitten"), box(0, 8, 1)),
        (call("jaccard", T, T), box(0, 1)),
        (call("list_contains", I, 1), BOOLEANS),
        (call("list_position", I, 1, 2, 3), box(1, 3, 1)),
        (call("list_extract", I, 5, None, -1), box(-1, 5, 1)),
        (call("days_in_month", D), box(28, 31, 1)),
        (call("millennium", D), box(3, 3, 1)),
        (call("year", call("age", D, D)), Domain(step=Fraction(1))),
        (call("month", call("age", D, D)), box(-11, 11, 1)),
        (call("epoch_ms", S), box(1577748600000, 1582977600000, 1)),
        (call("epoch_ms", I), box(0, 10_000, 1)),
        (call("make_timestamp", I), box(0, 10, 1)),
        (call("make_date", call("+", I, 2000), 2, 29), days("2000-01-01", "2010-12-31")),
        (call("date_sub", "day", S, S), box(-61, 61, 1)),
        (call("time_bucket", IntervalValue(days=7), D), days("2019-12-23", "2021-03-15")),
        (call("time_bucket", IntervalValue(months=1), D), days("2019-11-29", "2021-03-15")),
        (call("=", X, 1), BOOLEANS),
        (call("power", call("+", X, 3.0), 2), None),
        (case(call("=", T, "bob"), 1e12, 0.0), box(0, 10**12)),
        (case(call("=", T, "bob"), X, None), box(-2, 5)),
        (case(call(">", FREE, 1.0), 3.0, 4.0), box(3, 4)),
        (case(call(">", X, 0), X, None), box(0, 5)),
        (case(call(">", I, 0), I, None), box(1, 10, 1)),
        (case(call("<", I, 4), 4, I), box(4, 10, 1)),
        (call("if", call(">", I, 5), I, 6), box(6, 10, 1)),
        (call("sqrt", call("*", FREE, FREE)), None),
    ],
    ids=str,
)
def test_domain(expression: Expression, domain: Domain | None) -> None:
    found = domain_of(expression, COLUMNS)
    if domain is None:
        assert found.low is not None
        assert found.low >= 0
    else:
        assert found == domain


@pytest.mark.parametrize(
    ("expression", "low", "high"),
    [
        (call("sqrt", I), 0, 10**0.5),
        (call("exp", X), 2.718281828459045**-2, 2.718281828459045**5),
        (call("ln", call("+", I, 1)), 0, 2.3978952727983707),
        (call("log2", call("+", I, 1)), 0, 3.4594316186372973),
        (call("power", X, 3), -8, 125),
        (call("power", X, 2), 0, 25),
        (call("pow", 2, X), 0.25, 32),
    ],
)
def test_irrational_functions_reach_a_little_outward(
    expression: Expression, low: float, high: float
) -> None:
    found = domain_of(expression, COLUMNS)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= Fraction(low)
    assert found.high >= Fraction(high)
    assert float(found.low) == pytest.approx(low)
    assert float(found.high) == pytest.approx(high)


def test_the_logarithm_of_zero_has_no_lower_end() -> None:
    found = domain_of(call("ln", I), COLUMNS)
    assert found.low is None
    assert found.high is not None


def test_power_is_unknown_where_it_is_not_monotone() -> None:
    assert domain_of(call("power", X, 0.5), COLUMNS) == UNKNOWN
    assert domain_of(call("power", X, -1), COLUMNS) == UNKNOWN


@pytest.mark.parametrize(
    ("predicate", "number", "domain"),
    [
        (call(">", I, 3), 2, box(4, 10, 1)),
        (call(">", 3, I), 2, box(0, 2, 1)),
        (call("<=", X, 1.5), 1, box(-2, "1.5")),
        (call("<", X, 1.5), 1, box(-2, "1.5")),
        (call(">=", I, Decimal("2.5")), 2, box(3, 10, 1)),
        (call("=", M, 7), 3, Domain(Fraction(7), Fraction(7), CENT)),
        (call("between", I, 2, 4), 2, box(2, 4, 1)),
        (call("in", I, 9, 2, None), 2, box(2, 9, 1)),
        (call(">", D, "2020-01-31"), 4, days("2020-02-01", "2021-03-15")),
        (call("<", D, functions.cast(constant("2020-01-02"), sqltype.TIMESTAMP)), 4, COLUMNS[4]),
        (call(">", FREE, 3), 6, box(3, None)),
        (call("not", call("<", I, 4)), 2, box(4, 10, 1)),
        (call("not", call("or", call("<", I, 4), call(">", I, 6))), 2, box(4, 6, 1)),
        (call("and", call(">", I, 3), call("<", I, 6)), 2, box(4, 5, 1)),
        (call("or", call(">", I, 3), call("<", X, 6)), 2, COLUMNS[2]),
        (call("<>", I, 3), 2, COLUMNS[2]),
        (call(">", I, 99), 2, COLUMNS[2]),  # no declared value passes
        (call("=", I, Decimal("2.5")), 2, COLUMNS[2]),
        (call("<", call("+", I, 1), 3), 2, COLUMNS[2]),
        (call("is_not_null", I), 2, COLUMNS[2]),
    ],
    ids=str,
)
def test_what_a_predicate_says_of_a_column(
    predicate: Expression, number: int, domain: Domain
) -> None:
    after: Mapping[int, Domain] = narrow(COLUMNS, predicate)
    assert after[number] == domain
    assert {k: v for k, v in after.items() if k != number} == {
        k: v for k, v in COLUMNS.items() if k != number
    }


def test_a_date_column_compared_with_a_timestamp() -> None:
    moment = Literal(datetime(2020, 1, 31, 12), sqltype.TIMESTAMP)  # noqa: DTZ001
    assert narrow(COLUMNS, call(">", D, moment))[4] == days("2020-02-01", "2021-03-15")
    assert narrow(COLUMNS, call("<=", D, moment))[4] == days("2019-12-30", "2020-01-31")


def test_literals() -> None:
    assert literal_domain(constant("abc")) == Domain(max_length=3)
    assert literal_domain(constant(5)) == box(5, 5, 1)
    assert literal_domain(constant(0.5)) == box("0.5", "0.5")
    assert literal_domain(constant(None)) == UNKNOWN
