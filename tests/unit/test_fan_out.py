"""At event level a join repeats a row as often as the public key occurs: so far Δ grows, or no answer."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.executor.staging import load

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {level: event, adjacency: add_remove, unit: row}
tables:
  people:
    source: people.csv
    budget: {epsilon: 1000, delta: 1e-3}
    columns: {city: {type: varchar}, age: {type: integer, bounds: [0, 9]}}
  places:
    public: true
    source: places.csv
    columns: {city: {type: varchar, MORE}, area: {type: integer}}
"""
SQL = "SELECT SUM(age) FROM people JOIN places USING (city)"


def opened(folder: Path, more: str, cities: str) -> dp_sql.Connection:
    (folder / "people.csv").write_text("city,age\na,3\nb,9\n", encoding="utf-8")
    rows = "".join(f"{city},{n}\n" for n, city in enumerate(cities))
    (folder / "places.csv").write_text("city,area\n" + rows, encoding="utf-8")
    (folder / "s.yaml").write_text(SCHEMA.replace("MORE", more), encoding="utf-8")
    return dp_sql.connect(folder / "s.yaml", ledger=":memory:")


@pytest.mark.parametrize(
    ("more", "cities", "times"),
    [
        ("unique: true", "ab", 1),
        ("nullable: true", "ab", 1),
        ("max_frequency: 2", "aab", 2),
        ("max_frequency: 5", "aab", 5),
    ],
)
def test_a_row_counts_as_often_as_its_key_may_occur(
    more: str, cities: str, times: int, tmp_path: Path
) -> None:
    with opened(tmp_path, more, cities) as connection:
        text = connection.explain("SELECT COUNT(*) FROM people JOIN places USING (city)", epsilon=1)
        assert re.findall(r"Δ1 = (\d+)", text) == [str(times)]
        moved, alone = (
            int(re.findall(r"Δ1 = (\d+)", connection.explain(sql, epsilon=1))[0])
            for sql in (SQL, "SELECT SUM(age) FROM people")
        )
        assert moved >= times * 9
        assert moved >= alone


@pytest.mark.parametrize(
    "grouped",
    [
        "JOIN (SELECT city, COUNT(*) AS n FROM places GROUP BY city) g USING (city)",
        "JOIN (SELECT DISTINCT city FROM places) g USING (city)",
        "LEFT JOIN (SELECT MAX(area) AS n, city AS c FROM places GROUP BY 2) g ON g.c = people.city",
        ", LATERAL (SELECT COUNT(*) AS n FROM places p WHERE p.city = people.city) g",
        "JOIN (SELECT city, AVG(age) AS n FROM people GROUP BY city) g USING (city)",
    ],
)
def test_groups_have_each_key_once(grouped: str, tmp_path: Path) -> None:
    with opened(tmp_path, "nullable: true", "aaab") as connection:
        text = connection.explain(f"SELECT COUNT(*) FROM people {grouped}", epsilon=1, delta=1e-9)
        assert re.findall(r"Δ1 = (\d+)", text)[-1] == "1"


@pytest.mark.parametrize(
    "several",
    [
        "(SELECT city, area, COUNT(*) AS n FROM places GROUP BY city, area)",
        "(SELECT city, unnest([1, 2]) AS n FROM places GROUP BY city)",
        "(SELECT city, COUNT(*) AS n FROM places GROUP BY ROLLUP (city))",
        "(SELECT city, COUNT(*) AS n FROM places GROUP BY city, area % 2)",
        "(SELECT city, area FROM places)",
        "(SELECT city, COUNT(*) AS n FROM places GROUP BY city UNION ALL SELECT 'a', 2)",
    ],
)
def test_what_may_have_a_key_twice_is_refused(several: str, tmp_path: Path) -> None:
    with (
        opened(tmp_path, "nullable: true", "aaab") as connection,
        pytest.raises(dp_sql.NotPrivateError, match=r"any number of times|max_frequency"),
    ):
        connection.sql(f"SELECT COUNT(*) FROM people JOIN {several} g USING (city)", epsilon=1)


def test_a_stage_keeps_one_row_of_each_unique_value_whatever_its_query_gave() -> None:
    types = ("BIGINT", "BIGINT")
    rows = [("1", "5"), ("1", "6"), ("2", "7"), (None, "8"), (None, "9")]
    with duckdb.connect() as con:
        load(con, "t", types, rows, (0,))
        assert con.sql("SELECT v0, count(*) FROM t GROUP BY v0 ORDER BY v0").fetchall() == [
            (1, 1), (2, 1), (None, 1),
        ]  # fmt: skip
        load(con, "t", types, rows)
        assert con.sql("SELECT count(*) FROM t").fetchall() == [(5,)]


@pytest.mark.parametrize(
    ("listed", "most"),
    [
        ("CROSS JOIN (VALUES (1), (2), (3)) v(n)", 3),
        ("JOIN (VALUES ('a', 1), ('b', 2)) v(c, n) ON v.c = people.city", 1),
        ("JOIN (VALUES ('a', 1), ('a', 2)) v(c, n) ON v.c = people.city", 2),
        ("JOIN (VALUES (2, 'a'), (2, 'b'), (1, 'c')) v(n, c) ON v.n < people.age", 3),
        ("JOIN range(0, 9, 3) r(n) ON r.n < people.age", 3),
        ("JOIN generate_series(5, 1, -2) r(n) ON r.n < people.age", 3),
        ("JOIN range(0, 9) r(n) ON r.n = people.age", 1),
        ("JOIN unnest([3, 3, 9]) u(n) ON u.n = people.age OR u.n = 3", 3),
        ("JOIN (SELECT area FROM places ORDER BY area LIMIT 2) v ON v.area < people.age", 2),
        ("JOIN (SELECT area FROM places UNION SELECT 3) v ON v.area = people.age", 1),
        ("JOIN (SELECT DISTINCT area % 2 AS n FROM places) v ON v.n = people.age % 2", 1),
        (
            "JOIN (SELECT a.n FROM (VALUES (1), (1)) a(n), (VALUES (1), (2)) b(n)) v ON people.age > v.n",
            4,
        ),
    ],
)
def test_a_list_of_constants_repeats_a_row_as_often_as_it_says(
    listed: str, most: int, tmp_path: Path
) -> None:
    """The largest change of the plain count by one row is what the analysis says."""
    sql = f"SELECT COUNT(*) FROM people {listed}"
    with opened(tmp_path, "nullable: true", "aaab") as connection, duckdb.connect() as plain:
        found = re.findall(r"Δ1 = (\d+)", connection.explain(sql, epsilon=1))
        for name in ("people", "places"):
            plain.execute(f"CREATE TABLE {name} AS FROM '{tmp_path / name}.csv'")
        everybody = plain.execute(sql).fetchall()[0][0]
        changes = []
        for city in ("a", "b"):
            plain.execute("CREATE OR REPLACE TEMP TABLE gone AS SELECT * FROM people")
            plain.execute(f"DELETE FROM people WHERE city = '{city}'")
            changes.append(everybody - plain.execute(sql).fetchall()[0][0])
            plain.execute("DELETE FROM people")
            plain.execute("INSERT INTO people FROM gone")
        assert found == [str(most)]
        assert max(changes) == most


@pytest.mark.parametrize(
    ("more", "cities"), [("nullable: true", "aab"), ("max_frequency: 2", "aaab")]
)
def test_a_key_that_occurs_more_often_than_declared_is_refused(
    more: str, cities: str, tmp_path: Path
) -> None:
    with (
        opened(tmp_path, more, cities) as connection,
        pytest.raises(dp_sql.NotPrivateError, match="max_frequency"),
    ):
        connection.sql(SQL, epsilon=1)


@pytest.mark.parametrize(
    "joined",
    [
        "people p LEFT JOIN places c",
        "places c LEFT JOIN people p",
        "places c RIGHT JOIN people p",
        "people p RIGHT JOIN places c",
        "(VALUES (1)) AS one (n) CROSS JOIN places c LEFT JOIN people p",
    ],
)
def test_the_refused_join_is_named_by_its_public_side(joined: str, tmp_path: Path) -> None:
    sql = f"SELECT COUNT(p.age) FROM {joined} ON p.city = c.city"
    with opened(tmp_path, "nullable: true", "aab") as connection:
        with pytest.raises(
            dp_sql.NotPrivateError, match="several rows of c may have one"
        ) as caught:
            connection.explain(sql, epsilon=1)
        place = caught.value.position
        assert place is not None
        assert place.column == sql.index("places c") + 1
