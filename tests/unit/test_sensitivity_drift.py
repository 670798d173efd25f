"""How far values move with a latitude, by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dp_sql.plan import functions
from dp_sql.plan.expression import Cast, Column, Expression, Literal, Ref
from dp_sql.schema.sqltype import BIGINT, DOUBLE, INTEGER, VARCHAR, Kind, SqlType
from dp_sql.sensitivity.drift import LATITUDE, Drift, drift_of, still

MONEY = SqlType(Kind.DECIMAL, 8, 5)
LAT, X, EXACT = Column(1, "lat", DOUBLE), Column(2, "x", INTEGER), Column(3, "e", MONEY)
LON = Column(4, "lon", DOUBLE)
COLUMNS = {1: LATITUDE, 3: LATITUDE, 4: None}


def number(value: float) -> Literal:
    return Literal(value, DOUBLE)


def call(name: str, *args: Expression) -> Expression:
    return functions.call(name, args)


def found(expression: Expression) -> Drift | None:
    return drift_of(expression, COLUMNS)


@pytest.mark.parametrize(
    ("expression", "slope"),
    [
        (Ref(LAT), 1),
        (call("negate", Ref(LAT)), 1),
        (call("*", number(-2.5), Ref(LAT)), Fraction(5, 2)),
        (call("/", Ref(LAT), number(4.0)), Fraction(1, 4)),
        (call("-", call("*", Ref(LAT), number(3.0)), Ref(LAT)), 4),
        (call("abs", call("+", Ref(LAT), number(1.0))), 1),
        (call("greatest", Ref(LAT), call("*", Ref(LAT), number(7.0))), 7),
        (call("coalesce", Ref(LAT), number(3.0)), 1),
        (
            functions.case(((call(">", Ref(X), Literal(1, INTEGER)), Ref(LAT)),), number(5.0)),
            1,
        ),
        (call("clamp", Ref(LAT), number(1.0), number(2.0)), 1),
    ],
)  # fmt: skip
def test_slopes(expression: Expression, slope: Fraction | int) -> None:
    drift = found(expression)
    assert drift is not None
    assert slope <= drift.slope <= slope + Fraction(1, 2**40)
    assert 0 <= drift.slack < Fraction(1, 2**30)


@pytest.mark.parametrize(
    ("expression", "slack"),
    [
        (call("floor", Ref(LAT)), 1),
        (call("*", call("round", Ref(LAT)), number(3.0)), 3),
        (Cast(Ref(LAT), BIGINT), 1),
        (Cast(Ref(LAT), SqlType(Kind.DECIMAL, 5, 2)), Fraction(1, 100)),
        (Cast(Ref(EXACT), SqlType(Kind.DECIMAL, 12, 5)), 0),
        (call("+", Ref(EXACT), Ref(EXACT)), 0),
    ],
)
def test_roundings_are_slack(expression: Expression, slack: Fraction | int) -> None:
    drift = found(expression)
    assert drift is not None
    assert slack <= drift.slack <= slack + Fraction(1, 2**30)


@pytest.mark.parametrize(
    "expression",
    [
        Ref(LON),
        call("+", Ref(LAT), Ref(LON)),
        call("*", Ref(LAT), Ref(LAT)),
        call("+", Ref(LAT), Cast(Ref(X), DOUBLE)),  # of any magnitude, so of any rounding
        call("/", number(1.0), Ref(LAT)),
        call("/", Ref(LAT), number(0.0)),
        call("%", Ref(LAT), number(1.0)),
        call("nullif", Ref(LAT), number(1.0)),
        call("sqrt", Ref(LAT)),
        call("*", call("*", Ref(LAT), number(1e300)), number(1e300)),
        Cast(Ref(LAT), VARCHAR),
        Cast(Ref(LAT), SqlType(Kind.UTINYINT)),  # NULL below zero
        Cast(Ref(LAT), SqlType(Kind.DECIMAL, 3, 2)),  # NULL from ten
        Cast(Ref(LAT), SqlType(Kind.DECIMAL, 4, 2)),  # 90 and as much again don't fit
        call("*", Ref(LAT), Ref(Column(5, "f", DOUBLE))),
        functions.case(((call(">", Ref(LAT), number(1.0)), Ref(LAT)),), number(5.0)),
        call(">", Ref(LAT), number(1.0)),
    ],
)
def test_what_may_jump_has_no_drift(expression: Expression) -> None:
    assert found(expression) is None


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc"])
def test_a_whole_number_may_be_larger_than_what_it_rounds(name: str) -> None:
    drift = found(call(name, call("clamp", Ref(LAT), number(-63.5), number(63.5))))
    assert drift is not None
    assert drift.most is not None
    assert drift.most >= 64


def test_what_reads_no_place_stays() -> None:
    for expression in (
        number(3.0),
        Ref(X),
        call("+", Ref(X), Literal(1, INTEGER)),
        Cast(Ref(X), VARCHAR),
    ):
        assert still(expression, COLUMNS)
    assert not still(Ref(LAT), COLUMNS)
    assert not still(Ref(LON), COLUMNS)


def test_deep_expressions_are_read_once() -> None:
    expression: Expression = Ref(LAT)
    for _ in range(40):
        expression = call("if", call("=", Ref(X), Literal(1, INTEGER)), expression, number(0.0))
        expression = call("least", expression, number(1.0))
    assert found(expression) is not None
