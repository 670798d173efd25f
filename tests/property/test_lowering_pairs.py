"""The sums of products of two arguments are exact: what Python multiplies and adds up, bit by bit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction

import duckdb
import pytest
from extremes import extreme_values
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_sql.executor.duckdb_embedded import PINNED
from dp_sql.executor.lower_measure import grids
from dp_sql.executor.lower_pair import _polynomials
from dp_sql.executor.lower_sums import accumulators, components, holds
from dp_sql.plan.expression import Column, Ref
from dp_sql.plan.pair import Axis, PairMeasure
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind, SqlType

ROWS = 60_000
GROUPS = 5
TYPES = [(sqltype.DOUBLE, sqltype.BIGINT), (SqlType(Kind.DECIMAL, 18, 3), sqltype.DOUBLE)]
BOUNDS = [(Fraction(0), Fraction(500)), (Fraction(-70), Fraction(-3))]
GRIDS = [
    ((1, 0), (1, 0)), ((1, 0), (500, 2)), ((67, 1), (1, 0)),
    ((1, 1), (1, 1)), ((67, 2), (9, 1)), ((500, 1), (2**16, 2)), ((2**15, 2), (2**15, 2)),
    ((2**19, 2), (2**19, 2)), ((2**46, 1), (2**30, 1)), ((120, 2), (2**31, 2)),
]  # fmt: skip

Places = dict[tuple[int | None, int | None], int]
"""How many rows have these two places."""


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Rows in groups of very different sizes; in the last one value of each pair is NULL."""
    with duckdb.connect() as con:
        for setting in PINNED:
            con.execute(setting)
        for i, types in enumerate(TYPES):
            columns = []
            for j, type_ in enumerate(types):
                texts = [*extreme_values(type_), *map(str, range(-80, 600, 7)), "499.9999", "NULL"]
                listed = ", ".join("NULL" if t == "NULL" else f"'{t}'" for t in texts)
                pick = f"([{listed}])[CAST(hash(i, {j}) % {len(texts)} AS INTEGER) + 1]"
                kept = f"k < {GROUPS - 1} OR i % 2 = {j}"
                columns.append(
                    f"CASE WHEN {kept} THEN TRY_CAST({pick} AS {type_}) END AS {'xy'[j]}"
                )
            con.execute(
                f"CREATE TABLE t{i} AS SELECT k, {', '.join(columns)} FROM (SELECT i, CAST(floor("
                f"{GROUPS} * power((hash(i, 9) % 9973) / 9973, 3)) AS INTEGER) AS k "
                f"FROM range({ROWS}) AS r(i)) AS rows_"
            )
        yield con


def measures(types: tuple[SqlType, SqlType]) -> Iterator[PairMeasure]:
    columns = [Ref(Column(i, name, t)) for i, (name, t) in enumerate(zip("xy", types, strict=True))]
    for index, grid in enumerate(GRIDS):
        axes = [
            Axis(column, *BOUNDS[(index + i) % 2], *grid[i]) for i, column in enumerate(columns)
        ]
        yield PairMeasure((axes[0], axes[1]), null_component=index % 2 == 0)


def bernstein(a: int, cells: int, degree: int) -> list[int]:
    b = cells - a
    return [[1], [b, a], [b * b, 2 * a * b, a * a]][degree]


def exact(measure: PairMeasure, places: Places) -> list[int]:
    """Return the sums of a measure's components, from their definition."""
    sums = [0] * measure.size
    one, two = measure.axes
    for (a, b), n in places.items():
        if a is None or b is None:
            if measure.null_component:
                sums[-1] += n * measure.total
            continue
        products = [
            u * v
            for u in bernstein(a, one.cells, one.degree)
            for v in bernstein(b, two.cells, two.degree)
        ]
        assert sum(products) == measure.total
        for i, product in enumerate(products):
            sums[i] += n * product
    return sums


def summed(measure: PairMeasure, rows: str, key: str = "") -> str:
    """Return the statement of the components over `rows`, which has the places g0 and h0."""
    listed = accumulators(measure, "g0", "h0")
    names = tuple(f"s{i}" for i in range(len(listed)))
    keys, group = ([key], f" GROUP BY {key}") if key else ([], "")
    inner = ", ".join(keys + [f"{t} AS {n}" for t, n in zip(listed, names, strict=True)])
    sums = f"SELECT {inner} FROM ({rows}) AS rows_{group}"
    return f"SELECT {', '.join([*keys, *components(measure, names)])} FROM ({sums}) AS sums_"


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("index", range(len(TYPES)))
def test_sums_of_products_are_pythons_bit_by_bit(
    connection: duckdb.DuckDBPyConnection, index: int, threads: int
) -> None:
    connection.execute(f"SET threads = {threads}")
    for measure in measures(TYPES[index]):
        assert holds(measure)
        one, two = grids(measure, list(zip("xy", TYPES[index], strict=True)))
        rows = f"SELECT k, {one} AS g0, {two} AS h0 FROM t{index}"
        groups: dict[int, Places] = defaultdict(dict)
        for k, a, b, n in connection.execute(
            f"SELECT k, g0, h0, count(*) FROM ({rows}) AS rows_ GROUP BY ALL"
        ).fetchall():
            groups[k][a, b] = n
            for place, axis in zip((a, b), measure.axes, strict=True):
                assert place is None or 0 <= place <= axis.cells
        assert set(groups) == set(range(GROUPS))
        assert all(None in places for places in groups[GROUPS - 1])
        found = connection.execute(summed(measure, rows, "k")).fetchall()
        assert {k: sums for k, *sums in found} == {k: exact(measure, p) for k, p in groups.items()}


cells = st.one_of(st.integers(1, 300), st.sampled_from([2**15, 2**16, 2**19 - 1]))
axes = st.tuples(cells, st.integers(1, 2))


@settings(max_examples=40, deadline=None)
@given(grid=st.tuples(axes, axes), null_component=st.booleans(), data=st.data())
def test_any_grid_gives_the_products(
    connection: duckdb.DuckDBPyConnection,
    *,
    grid: tuple[tuple[int, int], tuple[int, int]],
    null_component: bool,
    data: st.DataObject,
) -> None:
    columns = [Ref(Column(i, name, sqltype.BIGINT)) for i, name in enumerate("xy")]
    two = [Axis(c, Fraction(0), Fraction(1), *g) for c, g in zip(columns, grid, strict=True)]
    measure = PairMeasure((two[0], two[1]), null_component)
    place = [st.none() | st.integers(0, count) for count, _ in grid]
    rows = data.draw(st.lists(st.tuples(*place), max_size=6))
    places: Places = defaultdict(int)
    for row in rows:
        places[row] += 1
    listed = ", ".join(
        f"({'NULL' if a is None else a}, {'NULL' if b is None else b})" for a, b in rows
    )
    source = f"VALUES {listed}" if rows else "SELECT NULL, NULL WHERE FALSE"
    typed = (
        f"SELECT CAST(c0 AS BIGINT) AS g0, CAST(c1 AS BIGINT) AS h0 FROM ({source}) AS v(c0, c1)"
    )
    (found,) = connection.execute(summed(measure, typed)).fetchall()
    assert list(found) == exact(measure, places)


def test_sums_that_could_overflow_do_not_hold() -> None:
    column = Ref(Column(0, "x", sqltype.BIGINT))
    for cells_, fits in ((2**19, True), (2**20, False)):
        axis = Axis(column, Fraction(0), Fraction(1), cells_, 2)
        measure = PairMeasure((axis, axis), null_component=True)
        assert holds(measure) is fits
        factors = [[abs(f) for f in one] for one in _polynomials(axis)]
        most = [  # of the terms of a component over 2^45 rows, whatever their places and order
            sum(
                f * g * cells_ ** (i + j) * 2**45
                for i, f in enumerate(one)
                for j, g in enumerate(two)
            )
            for one in factors
            for two in factors
        ]
        assert (max(most) < 2**127) is fits
