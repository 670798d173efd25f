"""Types by name, and bounds and values in them."""

from __future__ import annotations

import struct
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from pydantic import ValidationError
from schema_texts import SHOP, changed, error_of, load_text

from dp_sql.schema.catalog import ColumnSpec
from dp_sql.schema.document import Problem
from dp_sql.schema.models import Column
from dp_sql.schema.sqltype import INTEGER_BITS, Kind, SqlType
from dp_sql.schema.typename import ALIASES, DECIMAL_NAMES, can_own, key_family, parse_type

NOTE = "note: {type: varchar, max_length: 200}"


def column(folder: Path, declaration: str) -> ColumnSpec:
    text = changed(SHOP, (NOTE, f"note: {{{declaration}}}"))
    return load_text(text, folder).tables["orders"].columns["note"]


def column_error(folder: Path, declaration: str) -> str:
    error = error_of(changed(SHOP, (NOTE, f"note: {{{declaration}}}")), folder)
    assert error.position is not None
    assert error.position.line == 23
    return str(error)


@pytest.mark.parametrize("name", sorted(ALIASES))
def test_names_mean_what_duckdb_means_by_them(name: str) -> None:
    (found,) = duckdb.sql(f"SELECT typeof(CAST(NULL AS {name}))").fetchall()
    assert found == (str(parse_type(name.upper())),)


@pytest.mark.parametrize(
    "name", [*DECIMAL_NAMES, "decimal(12)", "decimal(12,2)", "numeric ( 38 , 38 )", "dec(1,0)"]
)
def test_decimals_mean_what_duckdb_means_by_them(name: str) -> None:
    (found,) = duckdb.sql(f"SELECT typeof(CAST(NULL AS {name}))").fetchall()
    assert found == (str(parse_type(f" {name} ")),)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("intger", "Did you mean `integer`?"),
        ("json", "Supported: boolean, tinyint"),
        ("uhugeint", "not a supported type"),
        ("integer[]", "not a supported type"),
        ("struct(a integer)", "not a supported type"),
        ("timestamptz", "has a time zone"),
        ("TIMESTAMP WITH TIME ZONE", "has a time zone"),
        ("decimal(39,2)", "out of range"),
        ("decimal(0)", "out of range"),
        ("decimal(3,4)", "out of range"),
        ("decimal(999999999999,1)", "not a supported type"),
        ("integer(3)", "not a supported type"),
        ("interval", "not a supported type"),
        ("null", "not a supported type"),
    ],
)
def test_other_types_are_refused_by_name(name: str, message: str) -> None:
    with pytest.raises(Problem) as caught:
        parse_type(name)
    assert message in caught.value.message


def test_a_length_is_a_key_of_its_own() -> None:
    with pytest.raises(Problem) as caught:
        parse_type("varchar(20)")
    assert caught.value.hint == "{type: varchar, max_length: 20}"


def test_types_of_keys() -> None:
    assert key_family(SqlType(Kind.DECIMAL, 12, 0)) == key_family(SqlType(Kind.UBIGINT))
    families = {key_family(SqlType(kind)) for kind in (Kind.VARCHAR, Kind.UUID, Kind.DATE)}
    assert len(families) == 3
    for refused in (
        SqlType(Kind.DECIMAL, 12, 2),
        SqlType(Kind.FLOAT),
        SqlType(Kind.DOUBLE),
        SqlType(Kind.TIMESTAMP),
        SqlType(Kind.BOOLEAN),
        SqlType(Kind.TIME),
    ):
        assert not can_own(refused)


@pytest.mark.parametrize(
    ("declaration", "low", "high"),
    [
        ("type: int, bounds: [-5, 5]", -5, 5),
        ("type: int, bounds: [0, 1e6]", 0, 1_000_000),
        ("type: int, bounds: [7, 7]", 7, 7),
        ('type: "decimal(5,2)", bounds: [-999.99, 0.1]', Decimal("-999.99"), Decimal("0.10")),
        ('type: "decimal(5,0)", bounds: [-0, 1e2]', Decimal(0), Decimal(100)),
        ("type: double, bounds: [-0.0, 0.1]", 0.0, 0.1),
        ("type: double, bounds: [0, 123456789012345678901234567890]", 0.0, 1.2345678901234568e29),
        (
            "type: timestamp, bounds: [2020-01-01 00:00:00, 2020-12-31T23:59:59.999999]",
            datetime(2020, 1, 1),  # noqa: DTZ001
            datetime(2020, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
        ),
        ("type: date, bounds: [1900-01-01, 1900-01-01]", date(1900, 1, 1), date(1900, 1, 1)),
    ],
)
def test_bounds_are_exact_values_of_the_type(
    tmp_path: Path, declaration: str, low: object, high: object
) -> None:
    found = column(tmp_path, declaration)
    assert (found.low, found.high) == (low, high)
    assert type(found.low) is type(low)
    assert str(found.low) == str(low)  # no -0.0, the decimals of the scale
    assert str(found.high) == str(high)


def test_four_byte_floats_are_rounded_to_four_bytes(tmp_path: Path) -> None:
    found = column(tmp_path, "type: real, bounds: [0.1, 0.2], values: [0.1]")
    (tenth,) = struct.unpack("<f", struct.pack("<f", 0.1))
    assert found.low == tenth != 0.1
    assert found.values == (tenth,)


@pytest.mark.parametrize("kind", sorted(INTEGER_BITS))
def test_the_ends_of_integer_types(tmp_path: Path, kind: Kind) -> None:
    low, high = INTEGER_BITS[kind]
    found = column(tmp_path, f"type: {kind.value}, bounds: [{low}, {high}]")
    assert (found.low, found.high) == (low, high)
    for bounds in (f"[{low - 1}, {high}]", f"[{low}, {high + 1}]"):
        message = column_error(tmp_path, f"type: {kind.value}, bounds: {bounds}")
        assert f"outside of {kind.value}, which reaches from {low} to {high}" in message


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("type: double, bounds: [2, 1]", "the lowest value, 2.0, is above the highest, 1.0"),
        ("type: date, bounds: [2020-01-02, 2020-01-01]", "2020-01-02, is above the highest"),
        ("type: double, bounds: [.nan, 1]", "NaN is not a value"),
        ("type: double, bounds: [0, .inf]", "an infinity is not a value"),
        ("type: int, bounds: [-.inf, 0]", "an infinity is not a value"),
        ('type: "decimal(5,2)", bounds: [0, .nan]', "NaN is not a value"),
        ("type: double, bounds: [0, 1e400]", "outside of DOUBLE"),
        ("type: real, bounds: [0, 1e39]", "outside of FLOAT"),
        ("type: int, bounds: [0, 1.5]", "not a whole number"),
        ('type: "decimal(5,2)", bounds: [0, 1000]', "outside of DECIMAL(5,2)"),
        ('type: "decimal(5,2)", bounds: [0, 0.001]', "more than the 2 digits"),
        ('type: "decimal(5,2)", bounds: [0, 1e900]', "outside of DECIMAL(5,2)"),
        ('type: "decimal(5,2)", bounds: [0, 1e-900]', "more than the 2 digits"),
        ("type: int, bounds: [0, '1']", "a value of type INTEGER is wanted here, not the text '1'"),
        ("type: int, bounds: [0, true]", "not true"),
        ("type: date, bounds: [0, 1]", "a value of type DATE is wanted here, not the number 0"),
        ("type: date, bounds: ['2020-01-01', 2020-01-02]", "not the text '2020-01-01'"),
        ("type: date, bounds: [2020-02-30, 2020-03-01]", "not the text '2020-02-30'"),
        ("type: date, bounds: [2020-01-01 00:00:00, 2020-01-02]", "not the timestamp 2020"),
        ("type: timestamp, bounds: [2020-01-01, 2020-01-02]", "not the date 2020-01-01"),
        ("type: timestamp, bounds: [2020-01-01 00:00:00Z, 1]", "without a time zone"),
        ("type: int, bounds: [0, null]", "bounds need both ends"),
        ("type: int, bounds: [0, [1]]", "not a list"),
        ("type: int, bounds: [0, {a: 1}]", "not a mapping"),
        ("type: int, bounds: [0]", "must be two values, [lowest, highest]"),
        ("type: int, bounds: [0, 1, 2]", "must be two values, [lowest, highest]"),
        ("type: int, bounds: 3", "must be a list in square brackets, not the number 3"),
        ("type: varchar, bounds: [a, b]", "columns of type VARCHAR have no bounds"),
        ("type: boolean, bounds: [false, true]", "columns of type BOOLEAN have no bounds"),
        ("type: uuid, bounds: [a, b]", "columns of type UUID have no bounds"),
        ("type: time, bounds: [a, b]", "columns of type TIME have no bounds"),
    ],
)
def test_bounds_that_are_refused(tmp_path: Path, declaration: str, message: str) -> None:
    assert message in column_error(tmp_path, declaration)


UUID_TEXT = "123E4567-e89b-12d3-a456-426614174000"


@pytest.mark.parametrize(
    ("declaration", "values"),
    [
        ("type: varchar, values: [NO, 'null', \"true\", '', ä]", ("NO", "null", "true", "", "ä")),
        ("type: int, values: [3, 1, 2]", (3, 1, 2)),
        ("type: boolean, values: [true, false]", (True, False)),
        ('type: "decimal(4,1)", values: [1.0, 2]', (Decimal("1.0"), Decimal("2.0"))),
        ("type: date, values: [2020-01-31]", (date(2020, 1, 31),)),
        (f"type: uuid, values: [{UUID_TEXT}]", (UUID_TEXT.lower(),)),
    ],
)
def test_values_are_of_the_type_in_the_order_of_the_file(
    tmp_path: Path, declaration: str, values: tuple[object, ...]
) -> None:
    found = column(tmp_path, declaration).values
    assert found == values
    assert list(map(type, found or ())) == list(map(type, values))


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("type: varchar, values: [a, b, a]", "'a' stands here twice; it is first at line 23"),
        ("type: double, values: [1, 1.0]", "stands here twice"),
        ("type: double, values: [0, -0.0]", "stands here twice"),
        (f"type: uuid, values: [{UUID_TEXT}, {UUID_TEXT.lower()}]", "stands here twice"),
        ("type: varchar, values: [a, null]", "a value of type VARCHAR is wanted here, not NULL"),
        ("type: int, values: [~]", "a value of type INTEGER is wanted here, not NULL"),
        ("type: varchar, values: [1]", 'put it in quotes: "1"'),
        ("type: varchar, values: [true]", 'put it in quotes: "true"'),
        ("type: varchar, values: [2020-01-01]", 'put it in quotes: "2020-01-01"'),
        (
            "type: boolean, values: ['False']",
            "a value of type BOOLEAN is wanted here, not the text",
        ),
        ("type: boolean, values: [1]", "not the number 1"),
        ("type: int, values: [1.5]", "not a whole number"),
        ("type: uuid, values: [abc]", "a value of type UUID is wanted here"),
        ("type: time, values: [12:00:00]", "TIME can't declare values"),
        ("type: varchar, values: []", "must not be empty"),
        ("type: varchar, values: abc", "must be a list"),
        ("type: varchar, values: [[a]]", "not a list"),
        ("type: varchar, max_length: 2, values: [abc]", "longer than max_length 2"),
        ("type: int, bounds: [0, 9], values: [10]", "outside of the column's bounds"),
        ("type: int, max_length: 2", "max_length belongs to varchar columns"),
        ("type: varchar, max_length: 0", "max_length must be at least 1"),
        ("type: varchar, max_length: 1.0", "must be a whole number"),
        ("type: varchar, unique: 'False'", "must be true or false, not the text 'False'"),
        ("type: varchar, nullable: 0", "must be true or false, not the number 0"),
        ("type: varchar, nullable: yes", "must be true or false, not the text 'yes'"),
        ("type: varchar, max_frequency: 2", "max_frequency belongs to public tables"),
        ("type: 3", "type must be a text, not the number 3"),
        ("type: ''", "type must not be empty"),
        ("type: floot", "Did you mean `float`?"),
        ("nullable: true", "needs the key `type`"),
    ],
)
def test_values_and_keys_of_columns_that_are_refused(
    tmp_path: Path, declaration: str, message: str
) -> None:
    assert message in column_error(tmp_path, declaration)


def test_values_are_at_most_a_hundred_thousand() -> None:
    values = list(range(100_000))
    assert Column.model_validate({"type": "int", "values": values}).values == values
    with pytest.raises(ValidationError, match="at most 100000 items"):
        Column.model_validate({"type": "int", "values": [*values, -1]})
