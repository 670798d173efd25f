"""The sums of components are exact: one pass over the rows gives what Python adds up, bit by bit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction

import duckdb
import pytest
from extremes import extreme_values

from dp_sql.executor.duckdb_embedded import PINNED
from dp_sql.executor.lower_measure import grid
from dp_sql.executor.lower_sums import accumulators, components
from dp_sql.plan.expression import Column, Ref
from dp_sql.plan.relation import CountMeasure, Measure, MomentMeasure, SumMeasure
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind, SqlType

ROWS = 1_200_000
GROUPS = 7
TYPES = [sqltype.DOUBLE, sqltype.BIGINT, SqlType(Kind.DECIMAL, 18, 3), sqltype.HUGEINT]
BOUNDS = [
    (Fraction(0), Fraction(500)),
    (Fraction(-70), Fraction(-3)),
    (Fraction(-(10**9)), Fraction(10**12)),
]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Rows in seven groups of very different sizes; in group 6 nothing but NULL."""
    with duckdb.connect() as con:
        for setting in PINNED:
            con.execute(setting)
        for i, type_ in enumerate(TYPES):
            texts = list(extreme_values(type_))
            texts += [*map(str, range(-80, 600, 7)), *(f"{n}.5" for n in range(-9, 9)), "499.9999"]
            listed = ", ".join(f"'{text}'" for text in texts)
            con.execute(
                f"CREATE TABLE t{i} AS SELECT k, CASE WHEN k < {GROUPS - 1} THEN "
                f"TRY_CAST(([{listed}])[CAST(hash(i) % {len(texts)} AS INTEGER) + 1] AS {type_}) END AS x "
                f"FROM (SELECT i, CAST(floor({GROUPS} * power((hash(i, 1) % 9973) / 9973, 4)) "
                f"AS INTEGER) AS k FROM range({ROWS}) AS r(i)) AS rows_"
            )
        yield con


def measures(type_: SqlType) -> Iterator[Measure]:
    x = Ref(Column(1, "x", type_))
    yield CountMeasure(x)
    for low, high in BOUNDS:
        yield SumMeasure(x, low, high, Fraction(1, 64))
        for cells, degree in ((67, 0), (1, 0), (1, 1), (2**16, 1), (2**46, 1), (67, 2), (2**31, 2)):
            yield MomentMeasure(x, low, high, cells, degree, null_component=cells != 1)


def exact(measure: Measure, places: dict[int | None, int]) -> list[int]:
    """Return the sums of a measure's components over places, each with the number of its rows."""
    known = {a: n for a, n in places.items() if a is not None}
    match measure:
        case MomentMeasure(cells=cells, degree=degree, null_component=null_component):
            one = [lambda a: cells - a, lambda a: a] if degree else [lambda _: 1]
            two = [lambda a: (cells - a) ** 2, lambda a: 2 * a * (cells - a), lambda a: a * a]
            sums = [sum(n * f(a) for a, n in known.items()) for f in (two if degree == 2 else one)]
            return [*sums, *([places.get(None, 0) * cells**degree] if null_component else [])]
        case SumMeasure():
            return [sum(a * n for a, n in known.items())]
        case _:
            return [sum(known.values())]


def summed(measure: Measure, rows: str, key: str = "") -> str:
    """Return the statement of the components over `rows`, which has the place g0, by a key or not."""
    listed = accumulators(measure, "g0")
    names = tuple(f"s{i}" for i in range(len(listed)))
    keys, group = ([key], f" GROUP BY {key}") if key else ([], "")
    inner = ", ".join(keys + [f"{t} AS {n}" for t, n in zip(listed, names, strict=True)])
    sums = f"SELECT {inner} FROM ({rows}) AS rows_{group}"
    return f"SELECT {', '.join([*keys, *components(measure, names)])} FROM ({sums}) AS sums_"


@pytest.mark.parametrize("threads", [8, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "index",
    [
        pytest.param(i, id=str(t), marks=[pytest.mark.slow] if i % 2 else [])
        for i, t in enumerate(TYPES)
    ],
)
def test_sums_are_pythons_bit_by_bit(
    connection: duckdb.DuckDBPyConnection, index: int, threads: int
) -> None:
    connection.execute(f"SET threads = {threads}")
    for measure in measures(TYPES[index]):
        rows = f"SELECT k, {grid(measure, ('x', TYPES[index]))} AS g0 FROM t{index}"
        places: dict[int, dict[int | None, int]] = defaultdict(dict)
        for k, place, n in connection.execute(
            f"SELECT k, g0, count(*) FROM ({rows}) AS rows_ GROUP BY k, g0"
        ).fetchall():
            places[k][place] = n
        assert set(places) == set(range(GROUPS))
        assert set(places[GROUPS - 1]) == {None}
        found = connection.execute(summed(measure, rows, "k")).fetchall()
        assert {k: sums for k, *sums in found} == {k: exact(measure, p) for k, p in places.items()}
        every: dict[int | None, int] = defaultdict(int)
        for counted in places.values():
            for place, n in counted.items():
                every[place] += n
        (whole,) = connection.execute(summed(measure, rows)).fetchall()
        assert list(whole) == exact(measure, every)


def test_nothing_and_constants_add_up(connection: duckdb.DuckDBPyConnection) -> None:
    """DuckDB may rewrite the aggregate of a constant or of no row: it doesn't change what it is."""
    measure = MomentMeasure(
        Ref(Column(1, "x", sqltype.BIGINT)), Fraction(0), Fraction(9), 9, 2, null_component=True
    )
    for place, rows, places in (
        ("CAST(4 AS BIGINT)", 5000, {4: 5000}),
        ("CAST(NULL AS BIGINT)", 5000, {None: 5000}),
        ("i", 0, {}),
    ):
        source = f"SELECT {place} AS g0 FROM range({rows}) AS r(i)"
        (found,) = connection.execute(summed(measure, source)).fetchall()
        assert list(found) == exact(measure, places)  # type: ignore[arg-type]
