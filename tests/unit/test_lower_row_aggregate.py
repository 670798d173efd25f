"""Moments over one person's rows, as they are lowered, are DuckDB's own: few rows, constants, many rows."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pytest

from dp_sql.executor import lower_row_aggregate as lowered
from dp_sql.plan.rows import Grid, RowAggregateKind

LISTS = (
    (),
    (7,),
    (7, 7, 7, 7),
    (-3, 5),
    (1, 2, 9),
    (4, 0, -8, 2),
    (1, -1, 1, -1, 6, 0, 0, 3, 2, 11),
)
SPREADS = ("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP")
SHAPES = ("SKEWNESS", "KURTOSIS", "KURTOSIS_POP")


def both(kind: str, text: str, values: tuple[int, ...]) -> tuple[float | None, float | None]:
    """Return an aggregate of BIGINT steps `a` as it is lowered, and by DuckDB's name for it."""
    with duckdb.connect() as data:
        rows = "".join(f", ({v})" for v in values)
        data.execute(f"CREATE TABLE t AS FROM (VALUES (NULL::BIGINT){rows}) AS t(a)")
        ((made, known),) = data.sql(f"SELECT {text}, {kind}(a) FROM t").fetchall()
    return made, known


@pytest.mark.parametrize("kind", SPREADS)
@pytest.mark.parametrize("exact_rows", [2**31, 0])
def test_a_spread_is_that_of_duckdb(
    kind: str, exact_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lowered, "_EXACT_ROWS", exact_rows)
    grid = Grid(Fraction(-16), Fraction(16), Fraction(1))
    for values in LISTS:
        made, known = both(kind, lowered._variance(RowAggregateKind[kind], "a", grid), values)
        assert made == (None if known is None else pytest.approx(known, rel=1e-12)), values


def test_a_constant_far_from_zero_has_no_negative_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowered, "_EXACT_ROWS", 0)
    grid = Grid(Fraction(-(2**30)), Fraction(2**30), Fraction(1))
    text = lowered._variance(RowAggregateKind.STDDEV_POP, "a", grid)
    for step in range(25):
        made, _ = both("STDDEV_POP", text, (2**30 - 7 * step - 1,) * 9)
        assert made is not None
        assert 0 <= made < 2**10


@pytest.mark.parametrize("kind", SHAPES)
def test_a_shape_is_that_of_duckdb(kind: str) -> None:
    text = lowered._shape(RowAggregateKind[kind], "a")
    for values in LISTS:
        made, known = both(kind, text, values)
        assert made == (None if known is None else pytest.approx(known, rel=1e-9)), values
