"""zero_out and metric from the schema file to the answer: what is free, what is noisy, what is said."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.cli.describe import table_text
from dp_sql.errors import LedgerError, ParameterError
from dp_sql.schema.loader import load

PATIENTS = """\
version: 1
database: duckdb:///data.duckdb
privacy:
  level: user
  adjacency: zero_out
  unit: patient
tables:
  visits:
    owner: pid
    budget: {epsilon: 100, delta: 1e-3}
    limits: {max_groups: 2, max_rows_per_group: 5}
    columns:
      pid: {type: bigint}
      ward: {type: varchar, protected: false}
      illness: {type: varchar}
      days: {type: integer, bounds: [0, 30]}
"""

TRIPS = """\
version: 1
database: duckdb:///data.duckdb
privacy: {level: event, adjacency: metric, radius: 500}
tables:
  trips:
    budget: {epsilon: 100, delta: 1e-3}
    columns:
      lat: {type: double, bounds: [-90, 90], latitude: true}
      lon: {type: double, bounds: [-180, 180], longitude: true}
      fare: {type: integer, bounds: [0, 100]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "data.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT i // 3 AS pid, 'ward ' || (i // 300) AS ward, "
            "'illness ' || (i % 2) AS illness, CAST(i % 31 AS INTEGER) AS days FROM range(900) t(i)"
        )
        connection.execute(
            "CREATE TABLE trips AS SELECT 41 + i / 1e4 AS lat, 2 + i / 1e4 AS lon, "
            "CAST(i % 50 AS INTEGER) AS fare FROM range(1000) t(i)"
        )
    (tmp_path / "patients.yaml").write_text(PATIENTS)
    (tmp_path / "trips.yaml").write_text(TRIPS)
    return tmp_path


def test_zero_out_answers_what_isnt_protected_for_nothing(folder: Path) -> None:
    with dp_sql.connect(folder / "patients.yaml", ledger=":memory:") as connection:
        free = connection.sql(
            "SELECT ward, COUNT(DISTINCT pid) AS n FROM visits GROUP BY ward ORDER BY ward",
            epsilon=1,
        )
        assert free.fetchall() == [("ward 0", 100), ("ward 1", 100), ("ward 2", 100)]
        assert free.cost == {}
        noisy = connection.sql(
            "SELECT ward, COUNT(illness) AS n FROM visits GROUP BY ward ORDER BY ward", epsilon=1
        )
        assert [w for w, _ in noisy.fetchall()] == ["ward 0", "ward 1", "ward 2"]
        assert list(noisy.cost) == ["visits"]
        mixed = connection.sql(
            "SELECT ward, COUNT(*) AS n, AVG(days) AS d FROM visits GROUP BY ward", epsilon=1
        )
        assert [n for _, n, _ in mixed.fetchall()] == [300, 300, 300]  # counted apart, so exact
        assert list(mixed.cost) == ["visits"]
        told = connection.explain("SELECT COUNT(*) FROM visits WHERE days > 3", epsilon=1)
        assert "Protects everything of one patient holding its values or NULL." in told
        assert "Not protected: that rows are there and whose they are, and the columns" in told
        assert "visits.pid, visits.ward." in told
        assert (
            "An attacker who says a value of 5 % of those who don't have it finds at most" in told
        )
        with pytest.raises(ParameterError, match="delta"):  # a protected key is selected
            connection.sql("SELECT illness, COUNT(*) FROM visits GROUP BY illness", epsilon=1)


def test_sets_of_keys_share_their_measures_where_one_of_them_is_protected(folder: Path) -> None:
    with dp_sql.connect(folder / "patients.yaml", ledger=":memory:") as connection:
        rows = connection.sql(
            "SELECT ward, (days > 9) AS long, COUNT(*) AS n, AVG(days) AS d FROM visits "
            "WHERE ward < 'x' GROUP BY GROUPING SETS ((ward), (long), ()) ORDER BY ALL",
            epsilon=50,
            delta=1e-4,
        ).fetchall()
        free = connection.sql(
            "SELECT ward, COUNT(*) AS n, AVG(days) AS d FROM visits GROUP BY ROLLUP (ward) "
            "ORDER BY ward",
            epsilon=1,
        ).fetchall()
    assert len(rows) >= 4
    assert [n for _, n, _ in free] == [300, 300, 300, 900]


def test_a_place_in_a_range_of_one_point_never_moves(folder: Path) -> None:
    with dp_sql.connect(folder / "trips.yaml", ledger=":memory:") as connection:
        listed = "AVG(CLAMP(lat, 5, 5)), CORR(CLAMP(lat, 5, 5), fare), MEDIAN(CLAMP(lon, 5, 5))"
        assert connection.sql(f"SELECT {listed} FROM trips", epsilon=1).fetchall() == [(5, 0, 5)]


def test_metric_answers_all_but_places_for_nothing(folder: Path) -> None:
    with dp_sql.connect(folder / "trips.yaml", ledger=":memory:") as connection:
        free = connection.sql(
            "SELECT COUNT(*) AS n, SUM(fare) AS s FROM trips WHERE fare > 9", epsilon=1
        )
        assert free.fetchall() == [(800, 23600)]
        assert free.cost == {}
        near = connection.sql("SELECT AVG(lat) AS m FROM trips", epsilon=1)
        assert near.fetchall()[0][0] == pytest.approx(41.04995, abs=0.005)  # of a range of 180
        assert list(near.cost) == ["trips"]
        told = connection.explain("SELECT SUM(lat) FROM trips", epsilon=1)
        assert "Protects one row being at one place or another, up to 500 metres away." in told
        assert "Not protected: that a row is there, all columns but lat, lon, moves" in told
        assert "a value that moves by at most" in told


def test_a_place_may_leave_its_cell(folder: Path) -> None:
    cells = "round(lat, 2) AS y, round(lon, 2) AS x"
    sql = f"SELECT {cells}, COUNT(*) AS n, SUM(fare) AS s, AVG(fare) AS a FROM trips GROUP BY ALL"
    with dp_sql.connect(folder / "trips.yaml", ledger=":memory:") as connection:
        told = connection.explain(sql, epsilon=1, delta=1e-6)
        assert "Δ1 = 2, Δ2 = 1.41421" in told  # one cell loses a row, and another gains one
        found = connection.sql(sql + " ORDER BY ALL", epsilon=50, delta=1e-6).fetchall()
        free = connection.sql("SELECT COUNT(*) FROM trips", epsilon=1)
        assert free.cost == {}
    with duckdb.connect(str(folder / "data.duckdb"), read_only=True) as plain:
        wanted = plain.execute(sql + " ORDER BY ALL").fetchall()
    exact = {(y, x): rest for y, x, *rest in wanted}
    assert len(found) >= 9
    for y, x, n, s, a in found:
        rows, total, mean = exact[y, x]
        assert (n, s) == (pytest.approx(rows, abs=2), pytest.approx(total, abs=150))
        assert a == pytest.approx(mean, abs=2)


def test_a_smaller_radius_or_one_column_less_is_another_promise(folder: Path) -> None:
    ledger = folder / "budget.ledger"
    for name, old, new in (
        ("patients", "illness: {type: varchar}", "illness: {type: varchar, protected: false}"),
        ("trips", "radius: 500", "radius: 400"),
    ):
        file = folder / f"{name}.yaml"
        dp_sql.connect(file, ledger=ledger).close()
        weaker = folder / f"{name}-weaker.yaml"
        weaker.write_text(file.read_text().replace(old, new))
        with pytest.raises(LedgerError, match="was registered to protect"):
            dp_sql.connect(weaker, ledger=ledger)
        dp_sql.connect(file, ledger=ledger).close()


def test_a_table_tells_what_isnt_protected(folder: Path) -> None:
    assert (
        "Not protected: that rows are there and whose they are, and the columns pid, ward."
        in table_text(load(folder / "patients.yaml"), "visits")
    )
    assert "all columns but lat, lon" in table_text(load(folder / "trips.yaml"), "trips")
