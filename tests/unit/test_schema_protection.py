"""What a schema says of zero_out and metric: columns that stay, places, the radius."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from schema_texts import SHOP, changed, error_of, load_text

from dp_sql.privacy.unit import Adjacency, Level

ZERO = changed(SHOP, ("adjacency: add_remove", "adjacency: zero_out"))
TRIPS = """\
version: 1
database: duckdb:///trips.duckdb
privacy:
  level: event
  adjacency: metric
  radius: 100.5
tables:
  Trips:
    budget: {epsilon: 5, delta: 1e-6}
    columns:
      Lat: {type: double, bounds: [40, 41], latitude: true}
      lon: {type: "decimal(9,6)", longitude: true}
      fare: {type: double, bounds: [0, 100]}
  zones:
    public: true
    columns: {name: {type: varchar}}
"""


def test_zero_out_keeps_the_keys_of_owners_and_what_the_file_names(tmp_path: Path) -> None:
    text = changed(
        ZERO,
        ("note: {type: varchar, max_length: 200", "note: {type: varchar, protected: false"),
        ("total: {type: double,", "total: {type: double, protected: true,"),
        ("customer_id: {type: bigint}", "customer_id: {type: bigint, protected: false}"),
    )
    unit = load_text(text, tmp_path).unit
    assert unit.adjacency is Adjacency.ZERO_OUT
    assert unit.kept == {
        ("orders", "customer_id"),
        ("orders", "order_id"),
        ("items", "order_id"),
        ("orders", "note"),
    }
    assert unit.changes("orders", "total")
    assert not unit.changes("items", "order_id")


def test_metric_moves_one_place_a_row(tmp_path: Path) -> None:
    unit = load_text(TRIPS, tmp_path).unit
    assert (unit.level, unit.adjacency) == (Level.EVENT, Adjacency.METRIC)
    assert unit.radius == Fraction(201, 2)
    assert unit.latitudes == {("trips", "lat")}
    assert unit.longitudes == {("trips", "lon")}
    assert unit.degrees == Fraction(201, 2) / 110_574
    assert [unit.changes("trips", c) for c in ("lat", "lon", "fare")] == [True, True, False]


@pytest.mark.parametrize("radius", ["1", "20037508", "1e-6"])
def test_radii(tmp_path: Path, radius: str) -> None:
    unit = load_text(changed(TRIPS, ("100.5", radius)), tmp_path).unit
    assert unit.radius == Fraction(radius)
    assert unit.degrees <= 180


REFUSED = {
    "an owner can't be protected": (
        ZERO,
        ("customer_id: {type: bigint}", "customer_id: {type: bigint, protected: true}"),
        "says whose a row is",
        19,
    ),
    "nor what a foreign key points to": (
        ZERO,
        ("order_id: {type: bigint, unique: true}", "order_id: {type: bigint, protected: true}"),
        "says whose a row is",
        18,
    ),
    "protected elsewhere": (
        SHOP,
        ("max_length: 200", "protected: false"),
        "belongs to protected tables and adjacency zero_out; the adjacency is add_remove",
        23,
    ),
    "protected in public": (
        ZERO,
        ("max_frequency: 2", "protected: true"),
        "belongs to protected tables and adjacency zero_out; the table is public",
        36,
    ),
    "a place elsewhere": (
        ZERO,
        ("max_length: 200", "latitude: true"),
        "belongs to protected tables and adjacency metric; the adjacency is zero_out",
        23,
    ),
    "a radius elsewhere": (
        SHOP,
        ("  group_size: 2\n", "  group_size: 2\n  radius: 10\n"),
        "privacy.radius belongs to adjacency metric; this is add_remove",
        7,
    ),
    "no radius": (TRIPS, ("  radius: 100.5\n", ""), "metric needs a `radius`, in metres", 5),
    "no metres": (TRIPS, ("100.5", "0"), "must be above 0", 6),
    "negative metres": (TRIPS, ("100.5", "-3"), "must be above 0", 6),
    "round the earth": (TRIPS, ("100.5", "20037509"), "at most 20,037,508 metres", 6),
    "metres in words": (TRIPS, ("100.5", "far"), "must be a number of metres, not the text", 6),
    "metres that aren't finite": (TRIPS, ("100.5", ".inf"), "must be above 0", 6),
    "no number": (TRIPS, ("100.5", ".nan"), "must be above 0", 6),
    "no longitude": (TRIPS, (", longitude: true", ""), "no columns with `longitude: true`", 8),
    "two latitudes": (
        TRIPS,
        ("bounds: [0, 100]}", "latitude: true}"),
        "2 columns with `latitude: true`",
        8,
    ),
    "both in one": (
        TRIPS,
        (
            'latitude: true}\n      lon: {type: "decimal(9,6)", longitude: true}',
            "latitude: true, longitude: true}",
        ),
        "is both latitude and longitude",
        11,
    ),
    "a place in words": (
        TRIPS,
        ('{type: "decimal(9,6)", l', "{type: varchar, l"),
        "a longitude is a number of degrees, not a VARCHAR",
        12,
    ),
    "too far north": (TRIPS, ("[40, 41]", "[40, 91]"), "lies between -90 and 90 degrees", 11),
    "a public place": (
        TRIPS,
        ("{name: {type: varchar}}", "{name: {type: double, latitude: true}}"),
        "the table is public",
        16,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_means_nothing_is_refused_where_it_stands(tmp_path: Path, case: str) -> None:
    text, change, message, line = REFUSED[case]
    error = error_of(changed(text, change), tmp_path)
    assert message in str(error)
    assert error.position is not None
    assert error.position.line == line
    assert error.hint or "privacy.radius must be" in str(error)


def test_metric_is_for_single_rows(tmp_path: Path) -> None:
    owned = changed(
        TRIPS,
        ("level: event", "level: user"),
        ("    budget", "    owner: fare_id\n    budget"),
        ("      fare:", "      fare_id: {type: bigint}\n      fare:"),
    )
    assert "metric moves the place of one row" in str(error_of(owned, tmp_path))
