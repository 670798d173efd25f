"""Attacks C whose statement is answered: with bounds enforced, complete groups and no free bit."""

# ruff: noqa: E501  one statement a line

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attack.scene import PEOPLE, VISITS, Scene, bounded, scene, schema, write
from oracle.small_engine import Row

import dp_sql
from dp_sql.errors import DPSQLError, NotPrivateError, SchemaError

WITHOUT_BOB = [row for row in PEOPLE if row[1] != "bob"]
WITHOUT_TWO = [row for row in VISITS if row[0] != 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the scene: the database is written once, the schema for each case."""
    return tmp_path_factory.mktemp("scene")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("people"), "event") as opened:
        yield opened


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("visits"), "user") as opened:
        yield opened


def rows(opened: Scene, sql: str, epsilon: str = "1") -> list[tuple[Any, ...]]:
    return opened.connection.sql(sql, epsilon=epsilon, delta="1e-6").fetchall()


TOTAL = [
    ("C01", "SELECT COUNT(*) FROM people WHERE name <> 'bob' OR note::INT > 0"),
    ("C02", "SELECT SUM(CLAMP(age * 42107524, 0, 9)) FROM people"),
    ("C02", "SELECT AVG(CLAMP(age + 2147483597, 0, 9)) FROM people"),
    ("C05", "SELECT SUM(CLAMP(100 // (age - 51), 0, 9)) FROM people"),
    ("C05", "SELECT SUM(CLAMP(100 % (age - 51), 0, 9)), COUNT(MOD(7, age - 51)) FROM people"),
    ("C10", "SELECT COUNT(*) FROM people WHERE name NOT LIKE 'bo%' AND note::INT >= 0"),
    ("C11", "SELECT COUNT(*) FROM (SELECT note::INT >= 0 AS z, name FROM people) WHERE name NOT LIKE 'bo%' AND z"),
    ("C13", "SELECT COUNT(age + 2147483647) FROM people"),
    ("C23", "SELECT SUM(salary) FROM people WHERE name = 'nobody'"),
    ("C23", "SELECT COUNT_IF(age > 3) FROM people WHERE FALSE"),
    ("C23", "SELECT AVG(age), STDDEV(age) FROM people WHERE name = 'nobody'"),
    ("C86", "SELECT SUM(age) FROM people JOIN regions USING (city)"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "sql"), TOTAL)
def test_an_answer_is_one_row_of_numbers_whatever_the_rows_are(
    number: str, sql: str, people: Scene
) -> None:
    assert number
    (row,) = rows(people, sql)
    assert all(isinstance(v, int | float) and v == v for v in row)  # noqa: PLR0124  NaN


PUBLIC_KEYS = [
    ("C25", "SELECT city, COUNT(*) FROM people WHERE name = 'bob' GROUP BY city", 4),
    ("C26", "SELECT CASE WHEN name = 'bob' THEN 'yes' ELSE 'no' END AS k, COUNT(*) FROM people GROUP BY k", 2),
    ("C26", "SELECT name = 'bob' AS k, COUNT(*) FROM people GROUP BY k", 3),
    ("C28", "SELECT city, COUNT(*) FROM people GROUP BY city", 4),
    ("C41", "SELECT city, SUM(age) FROM people GROUP BY city", 4),
    ("C56", "SELECT r.region, COUNT(*) FROM people p JOIN regions r USING (city) GROUP BY r.region", 3),
]  # fmt: skip


@pytest.mark.parametrize(("number", "sql", "count"), PUBLIC_KEYS)
def test_every_group_of_a_public_key_is_shown(
    number: str, sql: str, count: int, people: Scene
) -> None:
    assert number
    found = rows(people, sql)
    assert len(found) == count
    keys = [row[0] for row in found]
    assert len(set(keys)) == count
    assert keys == sorted(keys, key=lambda k: (k is None, k or 0 if not isinstance(k, str) else k))


PRIVATE_KEYS = [
    ("C25", "SELECT name, COUNT(*) FROM people GROUP BY name"),
    ("C25", "SELECT salary, COUNT(*) FROM people GROUP BY salary"),
    ("C25", "SELECT DISTINCT note FROM people"),
    ("C25", "SELECT uid, COUNT(*) FROM people GROUP BY uid"),
    ("C26", "SELECT CASE WHEN name = 'bob' THEN salary END AS k, COUNT(*) FROM people GROUP BY k"),
    ("C26", "SELECT city || salary::VARCHAR AS k, COUNT(*) FROM people GROUP BY k"),
    ("C26", "SELECT city || name AS k, city, COUNT(*) FROM people GROUP BY 1, 2"),
    ("C28", "SELECT LOWER(city) AS c, COUNT(*) FROM people WHERE name = 'x' GROUP BY c, note"),
]


@pytest.mark.parametrize(("number", "sql"), PRIVATE_KEYS)
def test_a_key_of_one_person_is_not_shown(number: str, sql: str, people: Scene) -> None:
    """At epsilon 1 and delta 1e-6 each key shows with a probability of at most 1e-6."""
    assert number
    assert rows(people, sql) == []


def test_c29_c31_rows_are_sorted_by_key_not_by_data(people: Scene) -> None:
    orders = {
        tuple(r[0] for r in rows(people, "SELECT city, COUNT(*) FROM people GROUP BY city", e))
        for e in ("0.01", "1", "5")
    }
    assert orders == {("bonn", "oslo", "rome", None)}


def test_c32_order_and_limit_read_noisy_values(people: Scene) -> None:
    """With so much noise every city comes first now and then."""
    sql = "SELECT city FROM people GROUP BY city ORDER BY COUNT(*) DESC LIMIT 1"
    assert {rows(people, sql, "0.001")[0][0] for _ in range(40)} > {"oslo"}


BOUNDED = [
    ("C49", "SELECT SUM(salary) FROM (SELECT salary * 1e3 AS salary FROM people) t", "event", 10**8),
    ("C52", "WITH people AS (SELECT 7 AS salary FROM visits) SELECT SUM(salary) FROM people", "user", 21),
    ("C50", "SELECT COUNT(*) FROM (SELECT page AS uid, amount FROM visits) v", "user", 3),
    ("C50", "SELECT SUM(uid) FROM (SELECT amount AS uid FROM visits) v", "user", 300),
    ("C53", 'SELECT COUNT(*) FROM MAIN."PeOpLe"', "event", 1),
    ("C53", "SELECT COUNT(*) FROM 'people'", "event", 1),
    ("C57", "SELECT COUNT(*) FROM visits, cities", "user", 3),
    ("C57", "SELECT SUM(amount) FROM visits v LEFT JOIN cities c ON v.amount > c.pop", "user", 300),
    ("C86", "SELECT page, COUNT(*) FROM visits, cities WHERE amount > 50 GROUP BY page", "user", 6),
]  # fmt: skip


@pytest.mark.parametrize(("number", "sql", "level", "delta"), BOUNDED)
def test_bounds_and_owners_travel_with_the_column(
    number: str, sql: str, level: str, delta: int, folder: Path
) -> None:
    assert number
    found = bounded(folder, sql, level)
    assert abs(found.delta - delta) * 10_000 <= delta
    base, short = (PEOPLE, WITHOUT_BOB) if level == "event" else (VISITS, WITHOUT_TWO)
    assert found.moved(base, short) <= found.delta


def test_c52_c55_the_base_tables_are_charged_whatever_they_are_called(visits: Scene) -> None:
    sql = "WITH cities AS (SELECT amount FROM visits), z AS (SELECT * FROM cities) SELECT COUNT(*) FROM z"
    assert set(visits.connection.sql(sql, epsilon=1).cost) == {"visits"}


def test_c28_keys_outside_the_public_list_stay_out(folder: Path) -> None:
    found = bounded(folder, "SELECT city, COUNT(*) FROM people GROUP BY city", "event")
    strange: list[Row] = [
        (9, "x", 1, 1.0, c, None, None) for c in ("paris", "Oslo", "oslo ", "", "\uff4fslo")
    ]
    assert found.moved([*PEOPLE, *strange], PEOPLE) == 0
    nobody: Row = (9, "x", 1, 1.0, None, None, None)
    assert found.moved([*PEOPLE, nobody], PEOPLE) == 1


def test_c82_spellings_of_an_owner_are_different_owners(folder: Path) -> None:
    """The engine doesn't guess that two ids are one person: the owner of the data has to say so."""
    found = bounded(folder, "SELECT COUNT(DISTINCT uid) FROM visits", "user")
    more: list[Row] = [(90, "p", 1.0, None), (91, "p", 1.0, None)]
    assert found.moved([*VISITS, *more], VISITS) == 2


HIDDEN = [
    "SELECT COUNT(*) FROM people -- WHERE 'secret comment'",
    "SELECT /*+ hint */ COUNT(*) FROM people",
    "SELECT\tCOUNT(*)\nFROM\n people WHERE note = 'analyst''s text'",
]


@pytest.mark.parametrize("sql", HIDDEN)
def test_c95_no_word_of_the_text_reaches_the_database(sql: str, people: Scene) -> None:
    people.connection.sql(sql, epsilon=1)
    (sent,) = people.connection._engine.statements(people.ran[-1])
    for word in ("secret", "hint", "\n", "\t"):
        assert word not in sent
    assert "COUNT(*)" not in sent


def test_c92_our_own_text_says_what_it_means(people: Scene) -> None:
    """NOT IN and NOT BETWEEN in parentheses mean the same in the text and in what is run."""
    fresh = "SELECT COUNT(*) FROM people WHERE (age NOT IN (34, 51)) = (city = 'oslo')"
    assert abs(rows(people, fresh, "100000")[0][0] - 2) < 1
    other = "SELECT COUNT(*) FROM people WHERE (age NOT BETWEEN 30 AND 40) = (city = 'rome')"
    assert abs(rows(people, other, "100000")[0][0] - 2) < 1


def test_c19_a_failure_of_the_database_has_one_text_and_no_cause(
    people: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    import duckdb  # noqa: PLC0415  only here

    texts = []
    database = people.connection._engine._database
    for message in ("Could not convert 'x-secret'", "Overflow 90000"):

        class Failing:
            def __init__(self, text: str) -> None:
                self._text = text

            def execute(self, _: str) -> None:
                raise duckdb.ConversionException(self._text)

        monkeypatch.setattr(database, "_connection", Failing(message))
        with pytest.raises(DPSQLError) as caught:
            people.connection.sql("SELECT COUNT(*) FROM people", epsilon="0.01")
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert "secret" not in texts[0]


def test_c103_c110_the_engine_is_closed_even_to_statements_of_its_own(
    people: Scene, tmp_path: Path
) -> None:
    """Should a statement get past the parser, the database still opens no file and no setting."""
    import duckdb  # noqa: PLC0415  only here

    other = tmp_path / "other.csv"
    other.write_text("a\n1\n")
    engine: Any = people.connection._engine._database._connection  # type: ignore[attr-defined]
    for text in (
        f"SELECT * FROM '{other}'", f"SELECT * FROM read_text('{other}')", f"ATTACH '{tmp_path}/x.db'",
        "SET enable_external_access = true", "SET lock_configuration = false", "INSTALL httpfs",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'", "DELETE FROM source_.main.people",
        "CREATE TABLE source_.main.x (a INT)", "SET ieee_floating_point_ops = false",
        "SET error_on_division_by_zero = true",
    ):  # fmt: skip
        with pytest.raises(duckdb.Error):
            engine.execute(text)


SECOND = """
  second:
    source: second.csv
    budget: {epsilon: 1, delta: 0.01}
    columns: {uid: {type: integer}, a: {type: integer, bounds: [0, 1]}}
"""


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM people p JOIN second s ON p.uid = s.uid",
        "SELECT COUNT(*) FROM people, second",
        "SELECT COUNT(*) FROM people WHERE uid IN (SELECT uid FROM second)",
        "WITH s AS (SELECT uid AS u FROM second) SELECT SUM(age) FROM people LEFT JOIN s ON uid = u",
    ],
)
def test_c85_two_protected_tables_are_not_joined(sql: str, tmp_path: Path) -> None:
    (tmp_path / "second.csv").write_text("uid,a\n1,1\n2,0\n", encoding="utf-8")
    path = write(tmp_path, schema("event") + SECOND)
    with dp_sql.connect(path, data_dir=tmp_path, ledger=":memory:") as connection:
        with pytest.raises(NotPrivateError):
            connection.sql(sql, epsilon="0.1")
        states = [state.lines() for state in connection.budget().values()]
        assert all("0 % used" in " ".join(lines) for lines in states)


def test_c83_an_owner_that_is_a_float_is_refused(tmp_path: Path) -> None:
    """2^53 and 2^53 + 1 would be one person."""
    text = schema("user").replace("uid: {type: integer}", "uid: {type: double}")
    with pytest.raises(SchemaError):
        dp_sql.connect(write(tmp_path, text), ledger=":memory:")


def test_c118_what_spills_lies_in_a_folder_of_its_own_and_goes(tmp_path: Path) -> None:
    with scene(tmp_path, "event") as opened:
        spill = Path(opened.connection._engine._database._spill)  # type: ignore[attr-defined]
        assert stat.S_IMODE(spill.stat().st_mode) == 0o700
    assert not spill.exists()
