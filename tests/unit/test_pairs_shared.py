"""Means and variances beside aggregates of two columns: from one vector where no NULL parts them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dp_sql

SCHEMA = """
version: 1
database: duckdb:///rows.duckdb
privacy: {level: LEVEL, adjacency: add_remove, UNIT caps: {epsilon: 1e12}}
tables:
  rows:
    OWNER
    budget: {epsilon: 1e18, delta: 0.1, accountant: sequential}
    columns:
      uid: {type: bigint}
      g: {type: integer, values: [0, 1], nullable: false}
      x: {type: integer, bounds: [0, 100], nullable: false}
      y: {type: double, bounds: [-5, 10], nullable: false}
      z: {type: double, bounds: [0, 10]}
"""
OWNER = "owner: uid\n    limits: {max_groups: 2, max_rows_per_group: 4}"
CASES = {  # and how many vectors each has
    "CORR(x, y), AVG(x), VAR_POP(y), COUNT(*)": 1,
    "COVAR_POP(x, y), STDDEV_SAMP(x), AVG(y), AVG(x)": 1,
    "REGR_SLOPE(y, x), VAR_SAMP(x), STDDEV_POP(x), AVG(y), REGR_COUNT(y, x)": 1,
    "CORR(x, y), SUM(x), AVG(x)": 2,
    "CORR(x, y), AVG(x + 1)": 2,
    "CORR(x, y), AVG(x) FILTER (WHERE y > 0)": 2,
    "CORR(x, z), AVG(x), AVG(z)": 3,
    "CORR(x, y), AVG(y), AVG(z)": 2,
}


@pytest.fixture(scope="module", params=["user", "event"])
def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dp_sql.Connection, Path]]:
    folder = tmp_path_factory.mktemp("pairs")
    with duckdb.connect(str(folder / "rows.duckdb")) as con:
        con.execute(
            "CREATE TABLE rows AS SELECT i // 4 AS uid, (i % 2)::INTEGER AS g, (i * 7 % 90)::INTEGER AS x, "
            "(i * 7 % 90) / 20 - (i % 11) / 4 AS y, CASE WHEN i % 5 > 0 THEN i % 7 END::DOUBLE AS z "
            "FROM range(2000) AS t(i)"
        )
    user = request.param == "user"
    text = SCHEMA.replace("LEVEL", request.param).replace("OWNER", OWNER if user else "")
    (folder / "schema.yaml").write_text(text.replace("UNIT", "unit: person," if user else ""))
    with dp_sql.connect(folder / "schema.yaml", ledger=":memory:", reuse=False) as connection:
        yield connection, folder


@pytest.mark.parametrize("items", CASES)
def test_they_are_duckdbs_without_noise(items: str, scene: tuple[dp_sql.Connection, Path]) -> None:
    connection, folder = scene
    sql = f"SELECT g, {items} FROM rows GROUP BY g ORDER BY g"
    with duckdb.connect(str(folder / "rows.duckdb"), read_only=True) as plain:
        expected = plain.execute(sql).fetchall()
    found = connection.sql(sql, epsilon="1e9").fetchall()
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == pytest.approx(theirs, rel=2e-3)
    explained = connection.explain(sql, epsilon=1)
    assert len(re.findall(r"^  vector v\d+:", explained, re.MULTILINE)) == CASES[items]


def test_a_shared_vector_has_half_of_the_noise(scene: tuple[dp_sql.Connection, Path]) -> None:
    """Beside x + 1, which has a vector of its own, each has half of the epsilon."""
    connection, _ = scene
    scales = []
    for argument in ("x", "x + 1"):
        sql = f"SELECT CORR(x, y), AVG({argument}), VAR_POP({argument}) FROM rows"
        text = connection.explain(sql, epsilon=1)
        scales.append(float(re.findall(r"Laplace of scale ([\d.e+]+)", text)[-1]))
    assert scales[0] == pytest.approx(scales[1] / 2, rel=1e-3)


def test_intervals_of_a_shared_vector_hold(scene: tuple[dp_sql.Connection, Path]) -> None:
    connection, folder = scene
    with duckdb.connect(str(folder / "rows.duckdb"), read_only=True) as plain:
        ((*_, mean, spread),) = plain.execute(
            "SELECT CORR(x, y), AVG(x), VAR_POP(x) FROM rows"
        ).fetchall()
    held = 0
    for _ in range(10):
        result = connection.sql("SELECT CORR(x, y), AVG(x), VAR_POP(x) FROM rows", epsilon="0.4")
        (_, first, second) = result.intervals()[0]
        assert first is not None
        assert second is not None
        held += (first[0] <= mean <= first[1]) + (second[0] <= spread <= second[1])
    assert held >= 13
