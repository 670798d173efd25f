"""The PEP 249 cursor: its names, its errors, and values in the places of `?`."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from golden.shop import write_shop

import dp_sql
from dp_sql.parser.parameters import with_values


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> dp_sql.Connection:
    folder = tmp_path_factory.mktemp("cursor")
    write_shop(folder)
    connection = dp_sql.connect(folder / "people.yaml", ledger=":memory:")
    connection.sql("SET epsilon = 1")
    return connection


@pytest.mark.parametrize(
    "value",
    [
        None, True, 7, -7, 2**62, 0.5, -0.5, 1e300, 5e-324, Decimal("1.50"), Decimal(-3), "it's ?", "",
        date(2024, 2, 29), datetime(2024, 2, 29, 1, 2, 3, 4), time(23, 59, 1),  # noqa: DTZ001
    ],
)  # fmt: skip
def test_a_value_is_what_duckdb_reads_in_its_place(value: object) -> None:
    text = with_values("SELECT ?, 'a ? b' AS \"?\" -- ?", [value])
    kinds = duckdb.sql("SELECT ? AS v", params=[value]).types
    found = duckdb.sql(text)
    assert found.fetchall() == [(value, "a ? b")]
    assert found.types[0] == kinds[0] or isinstance(value, int | Decimal) or value is None


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), b"x", datetime.now(UTC), [1], object()]
)
def test_a_value_without_a_literal_is_refused(value: object) -> None:
    with pytest.raises(dp_sql.InterfaceError, match="can't stand for"):
        with_values("SELECT ?", [value])


@pytest.mark.parametrize("values", [[1], [1, 2, 3]])
def test_there_is_one_value_for_each_place(values: list[object]) -> None:
    with pytest.raises(dp_sql.Error, match="2 places"):
        with_values("SELECT ?, ?", values)


def test_a_statement_with_values_is_the_statement_with_literals(shop: dp_sql.Connection) -> None:
    cursor = shop.cursor()
    cursor.execute(
        "SELECT SUM(salary) FROM people WHERE city = ? AND age > ? AND joined < ?",
        ["rome", 30, date(2023, 1, 1)],
    )
    assert cursor.description is not None
    assert cursor.description[0][0] == "sum(salary)"
    last = list(shop.ledger())[-1].sql
    assert last.endswith("WHERE city = 'rome' AND age > 30 AND joined < DATE '2023-01-01'")
    shop.commit()


def test_a_value_is_never_read_as_sql(shop: dp_sql.Connection) -> None:
    hostile = "x' OR 1=1 UNION SELECT name FROM people --"
    shop.cursor().execute("SELECT COUNT(*) FROM people WHERE note = ?", [hostile])
    assert list(shop.ledger())[-1].sql.endswith("'" + hostile.replace("'", "''") + "'")


def test_what_has_no_answer_is_refused_in_its_name(shop: dp_sql.Connection) -> None:
    with pytest.raises(dp_sql.NotSupportedError):
        shop.cursor().executemany("SELECT COUNT(*) FROM people", [[], []])
    with pytest.raises(dp_sql.ProgrammingError):
        shop.cursor().execute("SELECT COUNT(* FROM people WHERE age = ?", [1])


@pytest.mark.parametrize(
    ("form", "package"), [("df", "pandas"), ("pl", "polars"), ("arrow", "pyarrow")]
)
def test_a_package_that_is_missing_is_named(
    shop: dp_sql.Connection, monkeypatch: pytest.MonkeyPatch, form: str, package: str
) -> None:
    result = shop.sql("SELECT COUNT(*) FROM people", epsilon=1)
    monkeypatch.setattr("dp_sql.result.find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(dp_sql.OperationalError, match=f"pip install {package}"):
        getattr(result, form)()


def test_the_file_of_a_table_that_is_missing_is_named_with_both_options(tmp_path: Path) -> None:
    write_shop(tmp_path)
    (tmp_path / "people.parquet").unlink()
    with pytest.raises(dp_sql.Error, match="data_dir=…, --data-dir …"):
        dp_sql.connect(tmp_path / "people.yaml", ledger=":memory:")
