"""Rows' vectors on the grid: never longer than their measure says, whatever a row holds, and no error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import duckdb
import pytest
from extremes import extreme_values

from dp_sql.executor import lower_vector
from dp_sql.executor.duckdb_embedded import PINNED
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Column, Ref
from dp_sql.plan.vector import NormMeasure
from dp_sql.planner.vectors import Asked, _measure
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind, SqlType

TYPES = (sqltype.DOUBLE, sqltype.BIGINT, SqlType(Kind.DECIMAL, 18, 3))
COLUMNS = tuple(Ref(Column(i, f"x{i}", t)) for i, t in enumerate(TYPES))
LIMITS = (Fraction(1), Fraction(3, 10), Fraction(1, 10**90), Fraction(10**99), Fraction(50))
ROWS_OF_UNIT = 5


def domains(*ends: tuple[int, int] | None) -> list[Domain]:
    return [Domain() if e is None else Domain(Fraction(e[0]), Fraction(e[1])) for e in ends]


BOUNDS = (
    domains(None, None, None),
    domains((-3, 3), (-10, 20), None),
    domains((-3, 3), (0, 5), (-1, 1)),
)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Every combination of extreme and of common values of three types."""
    with duckdb.connect() as con:
        for setting in PINNED:
            con.execute(setting)
        some = ("0", "1", "-1", "0.5", "2.25", "-7", "3")
        lists = []
        for type_ in TYPES:
            texts = [*extreme_values(type_), *some]
            cast = ", ".join(f"TRY_CAST('{t}' AS {type_})" for t in texts)
            lists.append(f"(SELECT unnest([{cast}, CAST(NULL AS {type_})]))")
        con.execute(
            "CREATE TABLE rows_ AS SELECT row_number() OVER () AS i, * FROM "
            + ", ".join(f"{listed} AS t{i}(x{i})" for i, listed in enumerate(lists))
            + " QUALIFY hash(i) % 7 = 0"
        )
        yield con


def measured(measure: NormMeasure) -> str:
    items = lower_vector.entries(0, measure, [(f"x{i}", t) for i, t in enumerate(TYPES)])
    rows = f"SELECT i, x0, x1, x2, {', '.join(items)} FROM rows_"
    return lower_vector.measured(rows, [(0, measure)])


def exact(value: object, low: Fraction, high: Fraction) -> Fraction | None:
    """Return the entry that a value stands for, None for NULL and NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and math.isinf(value):
        return high if value > 0 else low
    return min(max(Fraction(value), low), high)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limit", "found"), [(limit, BOUNDS[i % 3]) for i, limit in enumerate((*LIMITS, LIMITS[0]))]
)
def test_no_row_is_longer_than_its_measure(
    connection: duckdb.DuckDBPyConnection, limit: Fraction, found: list[Domain]
) -> None:
    measure = _measure(Asked(COLUMNS, limit), found, Fraction(10), ROWS_OF_UNIT)
    assert measure.limit <= limit
    rows = connection.execute(
        f"SELECT x0, x1, x2, g0_0, g0_1, g0_2 FROM ({measured(measure)}) AS m_"
    ).fetchall()
    assert len(rows) > 300
    short = 0
    for *values, a, b, c in rows:
        entries = [exact(v, *ends) for v, ends in zip(values, measure.ends, strict=True)]
        given = [e for e in entries if e is not None]
        if len(given) < len(entries):
            assert (a, b, c) == (None, None, None)
            continue
        assert a * a + b * b + c * c <= measure.radius**2
        square = sum(e * e for e in given)
        if square <= measure.limit**2 * (1 - Fraction(1, 2**40)):
            short += 1
            factor = Fraction(1)
        else:
            factor = measure.limit / Fraction(math.sqrt(float(square)))
        for entry, steps in zip(given, (a, b, c), strict=True):
            wanted = entry * factor / measure.step
            assert abs(steps - wanted) <= Fraction(1, 2) + abs(wanted) / 2**45
    assert short >= (5 if limit >= 50 else 1)


@pytest.mark.parametrize("limit", LIMITS)
def test_no_unit_is_longer_than_its_rows_may_be(
    connection: duckdb.DuckDBPyConnection, limit: Fraction
) -> None:
    measure = _measure(Asked(COLUMNS, limit), BOUNDS[1], Fraction(10), ROWS_OF_UNIT)
    names = tuple(f"s{k}" for k in range(measure.size))
    sums = ", ".join(f"coalesce(sum(g0_{k}), 0)::HUGEINT AS s{k}" for k in range(measure.size))
    pairs = f"(SELECT i % 97 AS u, {sums} FROM ({measured(measure)}) AS m_ GROUP BY u) AS pairs_"
    for most in (1, ROWS_OF_UNIT, 10**4):
        item = lower_vector.bounded(pairs, [(0, measure)], {0: names}, most)
        rows = connection.execute(f"SELECT s0, s1, s2, b0_0, b0_1, b0_2 FROM {item}").fetchall()
        assert len(rows) == 97
        radius, whole = measure.radius * most, 0
        for *before, a, b, c in rows:
            assert a * a + b * b + c * c <= radius**2
            length = math.sqrt(sum(s * s for s in before))
            factor = min(1.0, radius * (1 - 2**-40) / length) if length else 1.0
            whole += factor == 1
            for one, other in zip(before, (a, b, c), strict=True):
                assert abs(other - one * factor) <= 1 + abs(one) * 2**-38
                assert abs(other) <= abs(one)
        assert whole == 97 or most < 10**4


def test_a_vector_of_many_entries_is_as_fine_as_its_squares_allow() -> None:
    for size in (1, 2, 16, 255, 256):
        columns = tuple(Ref(Column(i, f"x{i}", sqltype.DOUBLE)) for i in range(size))
        measure = _measure(Asked(columns, Fraction(1)), [Domain()] * size, Fraction(1), 1)
        assert size * measure.radius**2 <= 2**62
        assert measure.radius >= 2**26 / math.sqrt(size / 16)
        assert lower_vector.fits(measure, 1000)


def test_a_large_noise_makes_the_grid_coarser() -> None:
    fine = _measure(Asked(COLUMNS, Fraction(1)), BOUNDS[0], Fraction(1), 1)
    coarse = _measure(Asked(COLUMNS, Fraction(1)), BOUNDS[0], Fraction(10**8), 1)
    assert coarse.step > fine.step
    assert coarse.radius * 10**8 < 2**48


@pytest.mark.parametrize("threads", [1, 8])
def test_what_a_unit_adds_depends_on_its_own_rows_alone(threads: int) -> None:
    """Bit by bit: floats of one row, and sums of one unit, are the same whoever else is there."""
    columns = tuple(Ref(Column(i, f"x{i}", sqltype.DOUBLE)) for i in range(3))
    measure = _measure(Asked(columns, Fraction(3, 10)), [Domain()] * 3, Fraction(10), ROWS_OF_UNIT)
    items = lower_vector.entries(0, measure, [(f"x{i}", sqltype.DOUBLE) for i in range(3)])
    names = ("s0", "s1", "s2")
    sums = ", ".join(f"CAST(sum(g0_{k}) AS HUGEINT) AS s{k}" for k in range(3))
    added = {}
    with duckdb.connect(config={"threads": threads}) as con:
        for setting in PINNED:
            con.execute(setting)
        con.execute(
            "CREATE TABLE rows_ AS SELECT CAST(hash(i) % 997 AS INTEGER) AS u, "
            "sin(i) AS x0, cos(i * i) / 7 AS x1, tan(i) AS x2 FROM range(120000) AS r(i)"
        )
        for kept, order in (("TRUE", "u"), ("u % 3 = 0", "x2"), ("u = 66", "x0")):
            con.execute(
                f"CREATE OR REPLACE TABLE some_ AS FROM rows_ WHERE {kept} ORDER BY {order}"
            )
            rows = f"SELECT u, {', '.join(items)} FROM some_"
            vectors = lower_vector.measured(rows, [(0, measure)])
            pairs = f"(SELECT u, {sums} FROM ({vectors}) AS m_ GROUP BY u) AS pairs_"
            item = lower_vector.bounded(pairs, [(0, measure)], {0: names}, ROWS_OF_UNIT)
            found = con.execute(f"SELECT u, b0_0, b0_1, b0_2 FROM {item}").fetchall()
            added[kept] = {u: vector for u, *vector in found}
    assert len(added["TRUE"]) == 997
    for some in added.values():
        assert all(added["TRUE"][u] == vector for u, vector in some.items())
