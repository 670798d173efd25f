"""Texts of constants and names, and how deep expressions are written."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal

import duckdb
import pytest

from dp_sql.executor.lower_expression import canonical, identifier, literal, lower, text_literal
from dp_sql.plan import functions
from dp_sql.plan.expression import Column, Expression, IntervalValue, Literal, LiteralValue, Ref
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind, SqlType

WIDE = SqlType(Kind.DECIMAL, 38, 3)


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (True, sqltype.BOOLEAN),
        (-(2**31), sqltype.INTEGER),
        (-(2**63), sqltype.BIGINT),
        (-(2**127), sqltype.HUGEINT),
        (2**64 - 1, SqlType(Kind.UBIGINT)),
        (0.1, sqltype.DOUBLE),
        (5e-324, sqltype.DOUBLE),
        (-1.7976931348623157e308, sqltype.DOUBLE),
        (0.10000000149011612, SqlType(Kind.FLOAT)),
        (Decimal("-12345678901234567890123456789012345.678"), WIDE),
        (Decimal("1E+2"), SqlType(Kind.DECIMAL, 5, 0)),
        ("it's ''quoted''; -- \\ \n é", sqltype.VARCHAR),
        ("a\0b'\0", sqltype.VARCHAR),
        ("", sqltype.VARCHAR),
        (date(1, 1, 1), sqltype.DATE),
        (datetime(9999, 12, 31, 23, 59, 59, 999999), sqltype.TIMESTAMP),  # noqa: DTZ001
        (time(23, 59, 59, 5), SqlType(Kind.TIME)),
        (None, sqltype.DATE),
    ],
)
def test_a_constant_comes_back_with_its_type(value: LiteralValue, type_: SqlType) -> None:
    text = literal(value, type_)
    with duckdb.connect() as con:
        found = con.execute(f"SELECT {text}, typeof({text})").fetchall()
    assert found == [(value, str(type_))]


def test_minus_zero_is_written_as_zero() -> None:
    assert literal(-0.0, sqltype.DOUBLE) == "CAST('0.0' AS DOUBLE)"


def test_a_uuid_keeps_its_type() -> None:
    text = literal("00000000-0000-0000-0000-000000000001", SqlType(Kind.UUID))
    with duckdb.connect() as con:
        assert con.execute(f"SELECT typeof({text})").fetchall() == [("UUID",)]


def test_an_interval_keeps_its_three_parts() -> None:
    text = literal(IntervalValue(-14, 3, 5_000_000), sqltype.INTERVAL)
    with duckdb.connect() as con:
        found = con.execute(
            f"SELECT datepart('month', {text}), datepart('year', {text}),"
            f" datepart('day', {text}), datepart('second', {text})"
        ).fetchall()
    assert found == [(-2, -1, 3, 5)]


def test_a_timestamp_with_a_zone_is_no_timestamp() -> None:
    zoned = datetime.fromisoformat("2020-01-01T00:00:00+01:00")
    with pytest.raises(ValueError, match="time zone"):
        literal(zoned, sqltype.TIMESTAMP)


def test_names_are_quoted() -> None:
    assert identifier('a"b') == '"a""b"'
    assert text_literal("it's") == "'it''s'"
    for bad in ("", "a\0b"):
        with pytest.raises(ValueError, match="a name"):
            identifier(bad)


def test_canonical_values_of_floats() -> None:
    with duckdb.connect() as con:
        for type_ in (sqltype.DOUBLE, SqlType(Kind.FLOAT)):
            text = canonical(f"CAST(v AS {type_})", type_)
            found = con.execute(
                f"SELECT CAST({text} AS VARCHAR) FROM (VALUES ('nan'), ('-0.0'), ('-inf'), ('2')) t(v)"
            ).fetchall()
            assert found == [(None,), ("0.0",), ("-inf",), ("2.0",)]
    assert canonical("x", sqltype.INTEGER) == "x"


X = Ref(Column(1, "x", sqltype.DOUBLE))
B = Ref(Column(2, "b", sqltype.BIGINT))
S = Ref(Column(3, "s", sqltype.VARCHAR))


def _deep(name: str, start: Expression, *more: Expression, first: bool = True) -> Expression:
    expression = start
    for _ in range(40):
        args = (expression, *more) if first else (*more, expression)
        expression = functions.call(name, args)
    return expression


@pytest.mark.parametrize(
    "expression",
    [
        _deep("ln", X),
        _deep("/", X, X, first=False),
        _deep("*", B, B),
        _deep("//", B, B),
        _deep("nullif", B, B),
        _deep("||", S, S),
        _deep("clamp", X, Literal(1, sqltype.INTEGER), Literal(50, sqltype.INTEGER)),
    ],
    ids=["ln", "/", "*", "//", "nullif", "||", "clamp"],
)
def test_forty_levels_are_written_in_linear_length(expression: Expression) -> None:
    text = lower(expression, lambda column: f"c{column.number}")
    assert len(text) < 15_000
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT 1.5::DOUBLE c1, 3::BIGINT c2, 'a' c3")
        assert len(con.execute(f"SELECT {text} FROM t").fetchall()) == 1


def test_a_long_text_in_two_arguments_keeps_them_apart() -> None:
    """Both operands are bound by name: the names must differ."""
    many = [Literal("x" * 60, sqltype.VARCHAR)] * 5
    left = functions.call("concat", (S, *many))
    right = functions.call("concat", (functions.call("upper", (S,)), *many))
    text = lower(functions.call("||", (left, right)), lambda _: "v")
    with duckdb.connect() as con:
        (found,) = con.execute(f"SELECT {text} FROM (VALUES ('a')) t(v)").fetchall()
    assert found == ("a" + "x" * 300 + "A" + "x" * 300,)


def test_a_text_that_grows_too_long_is_null() -> None:
    twice = functions.call("||", (S, S))
    with duckdb.connect() as con:
        for size, null in ((5_000, False), (5_001, True)):
            text = lower(twice, lambda _: "v")
            query = f"SELECT {text} IS NULL FROM (SELECT repeat('a', {size}) AS v)"
            assert con.execute(query).fetchall() == [(null,)]
