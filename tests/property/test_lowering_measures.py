"""The integer of a row: exact or IEEE's, never outside its ends, for every value of every type."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

import duckdb
import pytest
from extremes import extreme_values

from dp_sql.errors import InternalError, UnsupportedSQLError
from dp_sql.executor.lower_measure import grid
from dp_sql.plan.conversion import step_of
from dp_sql.plan.expression import Column, Ref
from dp_sql.plan.relation import CountMeasure, MomentMeasure, PresenceMeasure, SumMeasure
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind, SqlType

TYPES = [
    sqltype.DOUBLE,
    SqlType(Kind.FLOAT),
    sqltype.INTEGER,
    sqltype.BIGINT,
    sqltype.HUGEINT,
    SqlType(Kind.TINYINT),
    SqlType(Kind.UBIGINT),
    SqlType(Kind.DECIMAL, 5, 2),
    SqlType(Kind.DECIMAL, 18, 3),
    SqlType(Kind.DECIMAL, 38, 10),
]
BOUNDS = [
    (Fraction(0), Fraction(300)),
    (Fraction(-5, 2), Fraction(29, 4)),
    (Fraction(1, 3), Fraction(2, 3)),
    (Fraction(-1000), Fraction(-500)),
    (Fraction(0), Fraction(1)),
    (Fraction(10**6), Fraction(10**6) + Fraction(1, 1000)),
    (-Fraction(10**12), Fraction(10**12)),
    (Fraction("0.1"), Fraction("0.3")),
]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect()
    yield con
    con.close()


def values_of(type_: SqlType, low: Fraction, high: Fraction) -> list[str]:
    rng = random.Random(f"{type_} {low} {high}")
    near = [low, high, (low + high) / 2]
    near += [low + (high - low) * Fraction(rng.randrange(1000), 999) for _ in range(40)]
    near += [low - 1, high + 1, Fraction(1, 2), Fraction(5, 2)]
    if type_.is_float:
        floats = [float(place) for place in near]
        floats += [math.nextafter(f, d) for f in (float(low), float(high)) for d in (-1e9, 1e9)]
        return [*map(repr, floats), *extreme_values(type_)]
    unit = step_of(type_)
    assert unit is not None
    return [
        *(f"{Decimal(int(p / unit)) * Decimal(float(unit)):.10f}" for p in near),
        *extreme_values(type_),
    ]


def integers(
    con: duckdb.DuckDBPyConnection,
    measure: SumMeasure | MomentMeasure,
    type_: SqlType,
    texts: list[str],
) -> list[tuple[object, object]]:
    """Return each value that is one of the type's with its integer."""
    listed = ", ".join(f"('{text}')" for text in texts)
    text = grid(measure, ("x", type_))
    return con.execute(
        f"SELECT x, {text} FROM (SELECT TRY_CAST(v AS {type_}) AS x FROM (VALUES {listed}) AS t(v))"
    ).fetchall()


def measures(type_: SqlType) -> Iterator[SumMeasure | MomentMeasure]:
    x = Ref(Column(1, "x", type_))
    for low, high in BOUNDS:
        for step in (
            Fraction(1),
            Fraction(1, 2**10),
            Fraction(4),
            Fraction(1, 100),
            Fraction(3, 7),
        ):
            yield SumMeasure(x, low, high, step)
        for cells in (1, 7, 300, 2**16, 2**46, 30_000):
            yield MomentMeasure(x, low, high, cells, 1, null_component=True)


def ends_of(measure: SumMeasure | MomentMeasure) -> tuple[int, int]:
    return measure.ends if isinstance(measure, SumMeasure) else (0, measure.cells)


def place_of(measure: SumMeasure | MomentMeasure, value: Fraction) -> Fraction:
    """Return where a value lies on the grid, before it is rounded."""
    clamped = min(max(value, measure.low), measure.high)
    if isinstance(measure, SumMeasure):
        return clamped / measure.step
    return (clamped - measure.low) * measure.cells / (measure.high - measure.low)


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_integers_lie_between_the_ends_near_the_exact_place_and_never_fall(
    connection: duckdb.DuckDBPyConnection, type_: SqlType
) -> None:
    every = 1 if type_ == sqltype.DOUBLE else 3
    for measure in list(measures(type_))[::every]:
        least, most = ends_of(measure)
        found = integers(connection, measure, type_, values_of(type_, measure.low, measure.high))
        assert len(found) > 40
        for value, integer in found:
            if value is None or (isinstance(value, float) and math.isnan(value)):
                assert integer is None
                continue
            assert isinstance(integer, int)
            assert least <= integer <= most, (measure, value)
            exact = place_of(measure, Fraction(min(max(value, -(10**300)), 10**300)))
            steps = abs(place_of(measure, measure.high) - place_of(measure, measure.low))
            per_unit = steps / (measure.high - measure.low)
            largest = max(abs(measure.low), abs(measure.high))
            slack = Fraction(1, 2) + largest * per_unit * Fraction(1, 2**50)  # as DOUBLE rounds
            assert abs(integer - exact) <= slack, (measure, value, integer)
        known = sorted((v, i) for v, i in found if i is not None)  # type: ignore[type-var]
        assert [i for _, i in known] == sorted(i for _, i in known), measure  # type: ignore[type-var]


@pytest.mark.parametrize("type_", TYPES[2:], ids=str)
def test_whole_numbers_and_decimals_keep_their_own_grid_exactly(
    connection: duckdb.DuckDBPyConnection, type_: SqlType
) -> None:
    unit = step_of(type_)
    assert unit is not None
    x = Ref(Column(1, "x", type_))
    for low, high in (
        (Fraction(-120), Fraction(99)),
        (Fraction(0), Fraction(100)),
        (Fraction(-3), Fraction(120)),
    ):
        cells = int((high - low) / unit)
        for measure in (
            SumMeasure(x, low, high, unit),
            SumMeasure(x, low, high, unit / 4),
            MomentMeasure(x, low, high, cells, 1, null_component=False),
            MomentMeasure(x, low, high, cells * 8, 2, null_component=False),
        ):
            for value, integer in integers(connection, measure, type_, values_of(type_, low, high)):
                if value is not None:
                    assert integer == place_of(measure, Fraction(value)), (measure, value)


def test_double_arithmetic_is_pythons_bit_by_bit(connection: duckdb.DuckDBPyConnection) -> None:
    """The plan checks the ends in Python: DuckDB has to compute as Python does."""
    rng = random.Random(4)
    low, high = Fraction("0.1"), Fraction("97.3")
    for cells in (1000, 2**20, 2**46 + 1):
        measure = MomentMeasure(
            Ref(Column(1, "x", sqltype.DOUBLE)), low, high, cells, 1, null_component=False
        )
        values = [rng.uniform(0.2, 97.2) for _ in range(2000)]
        values += [0.1 + k * 97.2 / cells for k in range(2, 500)]  # about the halves
        slope = float(cells / (high - low))
        found = integers(connection, measure, sqltype.DOUBLE, [repr(v) for v in values])
        for value, integer in found:
            assert isinstance(value, float)
            assert integer == round((value - float(low)) * slope)


def test_halves_round_to_even(connection: duckdb.DuckDBPyConnection) -> None:
    measure = SumMeasure(
        Ref(Column(1, "x", sqltype.DOUBLE)), Fraction(-9), Fraction(9), Fraction(1)
    )
    found = integers(connection, measure, sqltype.DOUBLE, ["0.5", "1.5", "2.5", "-0.5", "-1.5"])
    assert [integer for _, integer in found] == [0, 2, 2, 0, -2]


def test_counts_are_one_for_what_is_not_null() -> None:
    x = Ref(Column(1, "x", sqltype.VARCHAR))
    with duckdb.connect() as con:
        for measure in (CountMeasure(x), PresenceMeasure(x)):
            text = grid(measure, ("x", sqltype.VARCHAR))
            found = con.execute(f"SELECT {text} FROM (VALUES ('a'), (NULL)) AS t(x)").fetchall()
            assert found == [(1,), (None,)]
        assert con.execute(f"SELECT {grid(CountMeasure(None), None)}").fetchall() == [(1,)]


def test_a_boolean_and_a_null_are_numbers(connection: duckdb.DuckDBPyConnection) -> None:
    x = Ref(Column(1, "x", sqltype.BOOLEAN))
    measure = SumMeasure(x, Fraction(0), Fraction(1), Fraction(1))
    found = integers(connection, measure, sqltype.BOOLEAN, ["true", "false", "no"])
    assert found == [(True, 1), (False, 0), (False, 0)]
    text = grid(measure, ("NULL", sqltype.NULL))
    assert connection.execute(f"SELECT {text}").fetchall() == [(None,)]


def test_what_is_no_number_is_a_bug() -> None:
    x = Ref(Column(1, "x", sqltype.VARCHAR))
    measure = SumMeasure(x, Fraction(0), Fraction(1), Fraction(1))
    with pytest.raises(InternalError, match="a number, not VARCHAR"):
        grid(measure, ("x", sqltype.VARCHAR))
    with pytest.raises(InternalError, match="takes an argument"):
        grid(measure, None)


def test_bounds_beyond_double_are_refused() -> None:
    x = Ref(Column(1, "x", sqltype.DOUBLE))
    with pytest.raises(UnsupportedSQLError, match="beyond the range of DOUBLE"):
        grid(SumMeasure(x, Fraction(0), Fraction(10**400), Fraction(1)), ("x", sqltype.DOUBLE))


def test_bounds_closer_than_double_can_tell_give_one_integer(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    x = Ref(Column(1, "x", sqltype.DOUBLE))
    low = 2**60 + Fraction(1, 3)
    measure = MomentMeasure(x, low, low + Fraction(1, 3), 10, 1, null_component=False)
    texts = [repr(2.0**60), repr(math.nextafter(2.0**60, math.inf))]
    found = integers(connection, measure, sqltype.DOUBLE, texts)
    assert [integer for _, integer in found] == [0, 0]
