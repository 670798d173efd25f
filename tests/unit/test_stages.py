"""What is refused before it is paid, and which empty groups are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dp_sql
from dp_sql.errors import UnsupportedSQLError
from dp_sql.executor import lower_relation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {level: user, unit: person}
tables:
  people:
    source: people.csv
    owner: id
    budget: {epsilon: 1e12, delta: 0.1, accountant: sequential}
    columns:
      id: {type: integer}
      city: {type: varchar, values: [oslo, rome, bonn], nullable: false}
      street: {type: varchar}
      pay: {type: double, bounds: [-5, 10]}
"""
ROWS = ["id,city,street,pay", "1,oslo,a,3", "2,oslo,a,4", "3,rome,a,"]


@pytest.fixture
def people(tmp_path: Path) -> Iterator[dp_sql.Connection]:
    (tmp_path / "people.csv").write_text("\n".join(ROWS), encoding="utf-8")
    path = tmp_path / "people.yaml"
    path.write_text(SCHEMA, encoding="utf-8")
    with dp_sql.connect(path, ledger=":memory:") as connection:
        yield connection


def test_a_release_that_cant_be_lowered_is_refused_and_free(
    people: dp_sql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> str:
        raise UnsupportedSQLError("too wide")

    monkeypatch.setattr(lower_relation, "totals", refuse)
    with pytest.raises(UnsupportedSQLError):
        people.sql("SELECT COUNT(*) FROM people", epsilon=1)
    assert people.budget()["people"].statements == 0


@pytest.mark.parametrize("epsilon", [0.1, 1, 20])
def test_noise_that_hides_who_is_there_hides_no_public_group(
    people: dp_sql.Connection, epsilon: float
) -> None:
    for _ in range(20):
        result = people.sql("SELECT city, COUNT(*) FROM people GROUP BY city", epsilon=epsilon)
        assert [row[0] for row in result] == ["bonn", "oslo", "rome"]


def test_without_noise_an_empty_group_is_left_out(people: dp_sql.Connection) -> None:
    result = people.sql("SELECT city, COUNT(*) FROM people GROUP BY city", epsilon=10**6)
    assert result.fetchall() == [("oslo", 2), ("rome", 1)]


def test_a_group_whose_rows_aren_t_counted_stays(people: dp_sql.Connection) -> None:
    """An average alone doesn't tell an empty group from one whose values are all NULL."""
    result = people.sql("SELECT city, AVG(pay) FROM people GROUP BY city", epsilon=10**6)
    assert [row[0] for row in result] == ["bonn", "oslo", "rome"]
    averages = dict(result.fetchall())
    assert averages["bonn"] == averages["rome"] == 0  # in [-5, 10], the nearest to 0
    assert averages["oslo"] == pytest.approx(3.5, abs=1e-3)


def test_the_sql_is_written_once_a_statement(
    people: dp_sql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    whole = lower_relation.release_sql

    def counted(plan: Any) -> str:
        written.append(plan)
        return whole(plan)

    monkeypatch.setattr(lower_relation, "release_sql", counted)
    people.sql("SELECT COUNT(*) FROM people", epsilon=1)
    assert len(written) == 1


@pytest.mark.parametrize("level", ["user", "event"])
def test_public_and_private_keys_without_an_aggregate(tmp_path: Path, level: str) -> None:
    rows = [
        f"{i},{'oslo' if i % 2 else 'rome'},{'long' if i < 90 else 'rare'},1" for i in range(100)
    ]
    rows[99] = "99,oslo,alone,1"
    (tmp_path / "people.csv").write_text("\n".join([ROWS[0], *rows]), encoding="utf-8")
    text = SCHEMA.replace("level: user", f"level: {level}")
    text = text if level == "user" else text.replace("    owner: id\n", "")
    path = tmp_path / "people.yaml"
    path.write_text(text, encoding="utf-8")
    with dp_sql.connect(path, ledger=":memory:") as connection:
        result = connection.sql("SELECT DISTINCT city, street FROM people", epsilon=9, delta=1e-6)
        cities = ["bonn", "oslo", "rome"]
        assert sorted(result) == [(c, s) for c in cities for s in ("long", "rare")]
        assert connection.budget()["people"].statements == 1
