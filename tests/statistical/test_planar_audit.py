"""PLANAR_LAPLACE through SQL: two points are told apart no better than their distance says."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from test_release_audit import epsilon_at_least

import dp_sql
from dp_sql.errors import NotPrivateError, ParameterError, QueryError
from dp_sql.mechanisms import planar
from dp_sql.mechanisms.planar import Place, PlanarLaplace

SCHEMA = """
version: 1
database: duckdb:///places.duckdb
privacy: {level: event, adjacency: metric, radius: 500, caps: {epsilon: 1e9}}
tables:
  trips:
    budget: {epsilon: 1e12, delta: 0.1, accountant: sequential}
    columns:
      lat: {type: double, bounds: [-90, 90], latitude: true}
      lon: {type: double, bounds: [-180, 180], longitude: true}
  shops:
    public: true
    columns:
      name: {type: varchar}
      lat: {type: double}
      lon: {type: double}
"""
RUNS = 8_000
TRIES = 5
PER_METRE = "0.01"
# 100 metres along a parallel, a meridian, and across the date line, each as two points
PAIRS = {
    "north of a point": ((48.0, 2.0), (48.0 + 100 / 111_200, 2.0)),
    "east of a point, far north": ((75.0, 2.0), (75.0, 2.0 + 100 / 28_950)),
    "across the date line": ((10.0, 179.9999), (10.0, -179.9999 + 78 / 109_600)),
}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Connection]:
    folder = tmp_path_factory.mktemp("places")
    with duckdb.connect(str(folder / "places.duckdb")) as con:
        con.execute(
            "CREATE TABLE trips AS SELECT 41 + i / 1e3 AS lat, 2 + i / 1e3 AS lon FROM range(100) t(i)"
        )
        con.execute(
            "CREATE TABLE shops AS SELECT * FROM (VALUES ('a', 48.0, 2.0), ('b', -33.9, 151.2)) "
            "t(name, lat, lon)"
        )
    (folder / "schema.yaml").write_text(SCHEMA)
    with dp_sql.connect(folder / "schema.yaml", ledger=":memory:", reuse=False) as made:
        yield made


def in_space(latitude: float, longitude: float) -> np.ndarray:
    phi, lam = math.radians(latitude), math.radians(longitude)
    normal = 6_378_137 / math.sqrt(1 - 0.00669437999014 * math.sin(phi) ** 2)
    flat = normal * math.cos(phi)
    height = normal * (1 - 0.00669437999014) * math.sin(phi)
    return np.array([flat * math.cos(lam), flat * math.sin(lam), height])


def told_apart(connection: dp_sql.Connection, name: str) -> float:
    """Return at which epsilon two points are told apart at least, along the line between them."""
    pair = [in_space(*point) for point in PAIRS[name]]
    way = (pair[1] - pair[0]) / np.linalg.norm(pair[1] - pair[0])
    assert 95 < np.linalg.norm(pair[1] - pair[0]) < 100
    samples = []
    for latitude, longitude in PAIRS[name]:
        call = f"PLANAR_LAPLACE({latitude}, {longitude}, {PER_METRE})"
        rows = connection.sql(
            f"SELECT p.lat, p.lon FROM (SELECT {call} AS p FROM range({RUNS}))"
        ).fetchall()
        samples.append(np.array([float((in_space(*row) - pair[0]) @ way) for row in rows]))
    return float(epsilon_at_least(samples[0], samples[1]))


@pytest.mark.parametrize(
    "name", [n if i == 1 else pytest.param(n, marks=pytest.mark.slow) for i, n in enumerate(PAIRS)]
)
def test_points_are_told_apart_by_their_distance_at_most(
    connection: dp_sql.Connection, name: str
) -> None:
    """That it sees a difference at all may take some tries: the event that it picks can be a rare one."""
    for _ in range(TRIES):
        found = told_apart(connection, name)
        assert found <= 1  # along one line, noise in space has a flatter top than its law
        if found > 0.05:
            return
    pytest.fail("the audit tells nothing apart")


def test_the_audit_finds_noise_that_is_too_small(
    connection: dp_sql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = planar.scale_of
    monkeypatch.setattr(planar, "scale_of", lambda epsilon: known(4 * epsilon))
    assert any(told_apart(connection, "north of a point") > 1 for _ in range(TRIES))


def test_each_row_is_moved_once(
    connection: dp_sql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Place] = []
    known = PlanarLaplace._noise

    def counted(self: PlanarLaplace, scale: int) -> Place:
        calls.append(known(self, scale))
        return calls[-1]

    monkeypatch.setattr(PlanarLaplace, "_noise", counted)
    moved = "SELECT name, PLANAR_LAPLACE(lat, lon, 100) AS p FROM shops"
    rows = connection.sql(
        f"SELECT name, p.lat, p.lon, p.lat + p.lon FROM ({moved}) ORDER BY name"
    ).fetchall()
    assert len(calls) == 2
    assert [name for name, *_ in rows] == ["a", "b"]
    assert rows[0][1:3] == (pytest.approx(48, abs=1e-5), pytest.approx(2, abs=1e-5))
    assert rows[1][1:3] == (pytest.approx(-33.9, abs=1e-5), pytest.approx(151.2, abs=1e-5))
    connection.sql("SELECT PLANAR_LAPLACE(1, 2, 100), PLANAR_LAPLACE(1, 2, 100) FROM range(3)")
    assert len(calls) == 8
    assert len(set(calls)) == 8


def test_it_costs_nothing_and_stands_above_releases(connection: dp_sql.Connection) -> None:
    free = connection.sql("SELECT PLANAR_LAPLACE(48.8584, 2.2945, 1000) AS p")
    ((p,),) = free.fetchall()
    assert p == {"lat": pytest.approx(48.8584, abs=1e-6), "lon": pytest.approx(2.2945, abs=1e-6)}
    assert free.cost == {}
    result = connection.sql(
        "SELECT COUNT(*) AS n, PLANAR_LAPLACE(AVG(lat), AVG(lon), 0.1) AS p FROM trips",
        epsilon=10**6,
    )
    ((n, p),) = result.fetchall()
    assert (n, p["lat"]) == (100, pytest.approx(41.05, abs=0.01))
    assert list(result.cost) == ["trips"]
    assert result.intervals(level=0.9)[0][1] is None
    nobody = connection.sql(
        "SELECT PLANAR_LAPLACE(91, 0, 1), PLANAR_LAPLACE(NULL, 0, 1)"
    ).fetchall()
    assert nobody == [(None, None)]


REFUSED = {
    "SELECT PLANAR_LAPLACE(lat, lon, 0.01) FROM trips": NotPrivateError,
    "SELECT COUNT(*) FROM trips WHERE PLANAR_LAPLACE(lat, lon, 0.01).lat > 41": NotPrivateError,
    "SELECT AVG(PLANAR_LAPLACE(lat, lon, 0.01).lat) FROM trips": NotPrivateError,
    "SELECT COUNT(*) FROM trips t JOIN shops s ON t.lat < PLANAR_LAPLACE(s.lat, 0, 1).lat": NotPrivateError,
    "SELECT DP_INTERVAL_LOW(PLANAR_LAPLACE(AVG(lat), 0, 1).lat) FROM trips": QueryError,
    "SELECT PLANAR_LAPLACE(48, 2)": QueryError,
    "SELECT PLANAR_LAPLACE(48, 2, 0)": ParameterError,
    "SELECT PLANAR_LAPLACE(48, 2, -0.01)": ParameterError,
    "SELECT PLANAR_LAPLACE(48, 2, i) FROM range(3) AS r(i)": QueryError,
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_refused(connection: dp_sql.Connection, sql: str) -> None:
    with pytest.raises(REFUSED[sql], match=r"PLANAR_LAPLACE|moved at random") as caught:
        connection.sql(sql, epsilon=1)
    assert caught.value.hint


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT AVG(lat), AVG(lon) FROM trips",
        "SELECT COUNT(*) FROM trips GROUP BY round(lat, 2), round(lon, 2)",
    ],
)
def test_what_the_hint_says_is_answered(connection: dp_sql.Connection, sql: str) -> None:
    connection.sql(sql, epsilon=1, delta="1e-6")


def test_the_noise_is_asked_for_exactly() -> None:
    """0.01 is one hundredth, not the float beside it."""
    assert planar.scale_of(Fraction(1, 100)) == 102_400
