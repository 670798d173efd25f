"""Arguments whose bounds are one point: their value is public, how many rows have one is not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from small_catalog import CATALOG

import dp_sql
from dp_sql.parser.statement import parse
from dp_sql.plan.relation import MomentMeasure
from dp_sql.planner.plan import plan_release
from dp_sql.privacy.unit import Adjacency
from dp_sql.sensitivity.contribution import derive

ROWS = 400  # of which 300 have an x, and 240 a finite z
SCHEMA = """
version: 1
database: "duckdb://"
privacy: {level: %s, adjacency: add_remove, caps: {epsilon: 1e12}}
%s
tables:
  t:
    source: t.parquet
    %s
    budget: {epsilon: 1e15, delta: 0.5, selection_delta: 0.25, accountant: sequential}
    columns:
      id: {type: bigint}
      x: {type: bigint, bounds: [5, 5]}
      y: {type: double, bounds: [0.1, 0.1], nullable: false}
      z: {type: double, bounds: [0, 1]}
      d: {type: date, bounds: [2020-02-29, 2020-02-29]}
      g: {type: integer, values: [0, 1, 2], nullable: false}
"""
LEVELS = {
    "event": ("event", ""),
    "user": ("user, unit: person", "owner: id\n    limits: {max_groups: 2, max_rows_per_group: 3}"),
}


def opened(folder: Path, level: str, mechanisms: str = "") -> dp_sql.Connection:
    duckdb.sql(
        "SELECT i AS id, CASE WHEN i % 4 > 0 THEN 5 END AS x, CAST(0.1 AS DOUBLE) AS y, "
        "CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN CAST('nan' AS DOUBLE) ELSE (i % 8) / 8 END AS z, "
        f"DATE '2020-02-29' AS d, CAST(i % 3 AS INTEGER) AS g FROM range({ROWS}) AS r(i)"
    ).write_parquet(str(folder / "t.parquet"))
    head, owner = LEVELS[level]
    (folder / "s.yaml").write_text(SCHEMA % (head, mechanisms, owner))
    return dp_sql.connect(folder / "s.yaml", data_dir=folder, ledger=":memory:", reuse=False)


@pytest.fixture(scope="module", params=LEVELS)
def connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dp_sql.Connection]:
    with opened(tmp_path_factory.mktemp("point"), request.param) as found:
        yield found


def answer(connection: dp_sql.Connection, listed: str, epsilon: str) -> tuple[Any, ...]:
    (row,) = connection.sql(f"SELECT {listed} FROM t", epsilon=epsilon).fetchall()
    return tuple(row)


CONSTANTS = {
    "AVG(x), VAR_POP(x), VAR_SAMP(x), STDDEV_POP(x)": (5, 0, 0, 0),
    "AVG(y), VAR_POP(y), AVG(CLAMP(z, -2, -2))": (0.1, 0, -2),
    "MEDIAN(x), QUANTILE_DISC(x, 0.3), MIN(x), MAX(x)": (5, 5, 5, 5),
    "MEDIAN(y), MAX(CLAMP(z, -2.5, -2.5))": (0.1, -2.5),
    "CAST(MEDIAN(d) AS VARCHAR), CAST(MIN(d) AS VARCHAR)": ("2020-02-29 00:00:00", "2020-02-29"),
    "SUM(CLAMP(z, 0, 0))": (0,),
    "REGR_AVGX(z, x), REGR_SXX(z, x), COVAR_POP(x, z), REGR_SXY(z, x)": (5, 0, 0, 0),
    "CORR(x, z), REGR_SLOPE(z, x), REGR_R2(x, z), CORR(x, y)": (0, 0, 1, 0),
}


@pytest.mark.parametrize(("listed", "expected"), CONSTANTS.items(), ids=CONSTANTS)
def test_the_value_is_free_of_noise(
    connection: dp_sql.Connection, listed: str, expected: tuple[object, ...]
) -> None:
    assert answer(connection, listed, "1") == expected


@pytest.mark.parametrize("listed", ["AVG(x)", "VAR_SAMP(x)", "CORR(x, z)", "REGR_SXX(z, x)"])
def test_intervals_of_constants_are_one_point(connection: dp_sql.Connection, listed: str) -> None:
    ends = "DP_INTERVAL_LOW(v), DP_INTERVAL_HIGH(v)"
    value, low, high = answer(connection, f"{listed} AS v, {ends}", "0.01")
    assert low == value == high


def test_how_many_rows_there_are_stays_noisy(connection: dp_sql.Connection) -> None:
    found = [answer(connection, "COUNT(x), SUM(x), AVG(x)", "0.1") for _ in range(12)]
    assert len({count for count, _, _ in found}) > 1
    assert all(abs(total - 5 * count) <= 3 for count, total, _ in found)  # one number, rounded


def test_without_noise_it_is_duckdbs_answer(connection: dp_sql.Connection) -> None:
    listed = "COUNT(*), COUNT(x), SUM(x), AVG(x)"
    assert answer(connection, listed, "1e9") == (ROWS, 300, 1500, 5)
    assert answer(connection, "COUNT(z), AVG(CLAMP(z, 3, 3))", "1e9")[1] == 3
    assert answer(connection, "REGR_COUNT(CLAMP(z, 3, 3), x)", "1e9") == (180,)
    ((total,),) = connection.sql("SELECT SUM(CLAMP(z, 3, 3)) FROM t", epsilon="1e9").fetchall()
    assert math.isclose(total, 720, rel_tol=1e-9)


@pytest.mark.parametrize("kind", ["smooth_sensitivity", "propose_test_release", "tree"])
def test_every_mechanism_finds_the_point(tmp_path: Path, kind: str) -> None:
    with opened(tmp_path, "event", f"mechanisms: {{quantiles: [{kind}]}}") as connection:
        for row in connection.sql(
            "SELECT MEDIAN(x), QUANTILE_DISC(y, 0.5) FROM t", epsilon="100", delta="0.01"
        ).fetchall():
            assert row == (5, 0.1)


class _Nothing:
    def image(self, *_: object) -> None:
        return None

    def frequency(self, *_: object) -> None:
        return None


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.SUBSTITUTION])
def test_a_unit_moves_the_count_once_whatever_changes(adjacency: Adjacency) -> None:
    """What it adds is one number from 0 on, so two units that change differ by no more than one adds."""
    unit = replace(CATALOG.unit, adjacency=adjacency)
    catalog = replace(CATALOG, unit=unit)
    (release,) = parse("SELECT AVG(CLAMP(minutes, 5, 5)) FROM visits", catalog).releases
    plan = plan_release(release, catalog, _Nothing(), Fraction(1))
    (vector,), (facts,) = plan.vectors, derive(plan, unit, _Nothing()).vectors
    assert isinstance(vector.measure, MomentMeasure)
    assert vector.measure.size == 1
    assert facts.change.l1 == 5 * vector.unit  # five rows of one unit
