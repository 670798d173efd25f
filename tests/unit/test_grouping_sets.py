"""Several sets of keys in one statement: what they mean, what they cost, and that they add up."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import dp_sql
from dp_sql.errors import NotPrivateError, QueryError, UnsupportedSQLError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {{level: user, unit: person{more}}}
tables:
  people:
    source: people.csv
    owner: id
    budget: {{epsilon: 1e15, delta: 0.1, accountant: {accountant}}}
    limits: {{max_groups: 2, max_rows_per_group: 3}}
    columns:
      id: {{type: integer}}
      city: {{type: varchar, values: [oslo, rome, bonn], nullable: false}}
      kind: {{type: varchar, values: [a, b]}}
      street: {{type: varchar}}
      pay: {{type: double, bounds: [0, 10]}}
      age: {{type: integer, bounds: [0, 90]}}
"""
CITIES, KINDS = ("oslo", "rome", "bonn"), ("a", "b", "")
ROWS = [f"{i},{CITIES[i % 3]},{KINDS[i // 3 % 3]},s{i % 2},{i % 11},{i % 91}" for i in range(900)]
ASKED = "city, kind, COUNT(*) AS n, SUM(age) AS s, SUM(pay) AS p, GROUPING(city, kind) AS g"


def opened(
    folder: Path, more: str = "", accountant: str = "renyi", strangers: int = 0
) -> dp_sql.Connection:
    """Return the people's connection. strangers: rows whose city is none of the declared ones."""
    others = [f"{1000 + i},nice,a,s,1,1" for i in range(strangers)]
    rows = ["id,city,kind,street,pay,age", *ROWS, *others]
    (folder / "people.csv").write_text("\n".join(rows), encoding="utf-8")
    path = folder / "people.yaml"
    path.write_text(SCHEMA.format(more=more, accountant=accountant), encoding="utf-8")
    return dp_sql.connect(path, ledger=":memory:")


@pytest.fixture
def people(tmp_path: Path) -> Iterator[dp_sql.Connection]:
    with opened(tmp_path) as connection:
        yield connection


def sums(rows: list[tuple[Any, ...]]) -> dict[int, list[float]]:
    """Return the sums of n, s and p over the groups of each set, by the number GROUPING gives."""
    found: dict[int, list[float]] = defaultdict(lambda: [0, 0, 0])
    for _, _, n, s, p, g in rows:
        found[g] = [a + b for a, b in zip(found[g], (n, s, p), strict=True)]
    return found


@pytest.mark.parametrize(
    "sets", ["CUBE (city, kind)", "ROLLUP (city, kind)", "ROLLUP (kind), city"]
)
@pytest.mark.parametrize("epsilon", ["0.01", "1", "50"])
def test_totals_are_the_sum_of_their_parts(
    people: dp_sql.Connection, sets: str, epsilon: str
) -> None:
    result = people.sql(f"SELECT {ASKED} FROM people GROUP BY {sets}", epsilon=epsilon)
    assert result.types[2:] == ["BIGINT", "BIGINT", "DOUBLE", "BIGINT"]
    found = sums(result.fetchall())
    for n, s, p in found.values():
        assert (n, s) == tuple(found[0][:2])
        assert p == pytest.approx(found[0][2], abs=1e-6)
    rows = result.fetchall()
    if "city, kind" in sets:
        for city in CITIES:
            parts = [row[2] for row in rows if row[0] == city and row[5] == 0]
            (whole,) = [row[2] for row in rows if row[0] == city and row[5] == 1]
            assert sum(parts) == whole


def test_consistent_false_leaves_totals_as_they_are(tmp_path: Path) -> None:
    with opened(tmp_path, ", consistent: false") as people:
        asked = f"SELECT {ASKED} FROM people GROUP BY ROLLUP (city, kind)"
        found = [sums(people.sql(asked, epsilon=1).fetchall()) for _ in range(5)]
        assert sum(f[0][0] != f[3][0] for f in found) >= 4
        assert "consistent: false" in people.explain(asked, epsilon=1)


def test_rows_outside_a_key_s_values_stand_in_no_set(tmp_path: Path) -> None:
    """So totals add up before noise too. Without `consistent` only the sets with that key lose them."""
    asked = "SELECT city, COUNT(*) FROM people GROUP BY ROLLUP (city)"
    for more, whole in (("", 900), (", consistent: false", 1000)):
        with opened(tmp_path, more, strangers=100) as people:
            rows = dict(people.sql(asked, epsilon="1e9").fetchall())
        assert rows == {"oslo": 300, "rome": 300, "bonn": 300, None: whole}


BOTH = "city, kind, "


@pytest.mark.parametrize(
    ("items", "group"),
    [
        (BOTH, "ROLLUP (city, kind)"),
        (BOTH, "ROLLUP ((city, kind), age // 50)"),
        (BOTH, "CUBE (city, kind, age // 50)"),
        (BOTH + "age // 50, ", "CUBE ((city, age // 50), kind)"),
        (BOTH, "GROUPING SETS ((city, kind), (city), ())"),
        (BOTH, "GROUPING SETS (city, kind)"),
        (BOTH, "GROUPING SETS (ROLLUP (city, kind), CUBE (kind), (city))"),
        (BOTH, "GROUPING SETS ((city), (city), (kind, kind))"),
        ("", "GROUPING SETS ((), ())"),
        (BOTH, "city, ROLLUP (kind)"),
        (BOTH, "ROLLUP (city), CUBE (kind)"),
        (BOTH, "(city, kind)"),
        ("city, ", "city, ()"),
        ("", "()"),
        (BOTH, "ROLLUP (1, 2)"),
        ("city AS c, kind || 'x' AS k, ", "CUBE (c, k)"),
    ],
)
def test_sets_are_duckdbs(
    people: dp_sql.Connection, tmp_path: Path, items: str, group: str
) -> None:
    sql = f"SELECT {items}COUNT(*) AS n, SUM(age) AS s FROM people GROUP BY {group}"
    want = duckdb.sql(sql.replace("people", f"'{tmp_path / 'people.csv'}'")).fetchall()
    got = people.sql(sql, epsilon="1e10").fetchall()
    assert Counter(got) == Counter(want)


@pytest.mark.parametrize(
    "rest",
    [
        "GROUP BY ROLLUP (city) HAVING GROUPING(city) = 1 OR COUNT(*) > 5 ORDER BY GROUPING(city), city",
        "GROUP BY CUBE (city, kind) ORDER BY ALL",
        "GROUP BY CUBE (city, kind) QUALIFY rank() OVER (PARTITION BY GROUPING(kind) ORDER BY n) = 1",
    ],
)
def test_what_stands_above_sees_the_sets(
    people: dp_sql.Connection, tmp_path: Path, rest: str
) -> None:
    sql = (
        f"SELECT city, COUNT(*) AS n, GROUPING(city) AS g, coalesce(city, 'all') FROM people {rest}"
    )
    want = duckdb.sql(sql.replace("people", f"'{tmp_path / 'people.csv'}'"))
    got = people.sql(sql, epsilon="1e10")
    assert got.columns == want.columns
    if "ORDER BY" in rest.rsplit(")", maxsplit=1)[-1] or rest.endswith("city"):
        assert got.fetchall() == want.fetchall()
    assert Counter(got.fetchall()) == Counter(want.fetchall())


def test_a_set_that_stands_twice_is_noised_once(people: dp_sql.Connection) -> None:
    twice = "SELECT city, COUNT(*) FROM people GROUP BY GROUPING SETS ((city), (city))"
    rows = people.sql(twice, epsilon="0.1").fetchall()
    assert Counter(Counter(rows).values()) == {2: 3}
    once = people.explain("SELECT city, COUNT(*) FROM people GROUP BY city", epsilon="0.1")
    scale = next(line for line in once.splitlines() if "noise:" in line)
    assert scale in people.explain(twice, epsilon="0.1")


@pytest.mark.parametrize("accountant", ["pure", "renyi"])
def test_all_sets_are_paid_together(tmp_path: Path, accountant: str) -> None:
    with opened(tmp_path, accountant=accountant) as people:
        asked = "SELECT city, kind, COUNT(*), AVG(pay) FROM people GROUP BY CUBE (city, kind)"
        result = people.sql(asked, epsilon="0.5", delta="1e-6")
        (cost,) = result.cost.values()
        assert Fraction(49, 100) < cost.epsilon <= Fraction(1, 2)
        assert cost.delta <= Fraction(1, 10**6)
        assert len(cost.events) == 4
        assert people.budget()["people"].statements == 1


def test_private_keys_share_delta_and_are_selected_for_each_set(people: dp_sql.Connection) -> None:
    asked = "SELECT street, kind, COUNT(*) FROM people GROUP BY ROLLUP (street, kind)"
    (cost,) = people.sql(asked, epsilon=1, delta="1e-6").cost.values()
    assert cost.delta <= Fraction(1, 10**6)
    # in two rounds for each of the two sets with private keys
    assert sum(type(event).__name__ == "KeySelectionEvent" for event in cost.events) == 4
    rows = people.sql(asked, epsilon="1e9", delta="1e-6").fetchall()
    assert {row[:2] for row in rows} >= {("s0", None), ("s1", None), (None, None), ("s0", "a")}
    with pytest.raises(dp_sql.DPSQLError, match="delta"):
        people.sql(asked, epsilon=1)


def test_every_group_has_an_interval_that_holds_the_exact_value(people: dp_sql.Connection) -> None:
    asked = (
        "SELECT city, kind, COUNT(*) AS n, 2 * n + GROUPING(kind), GROUPING(kind) FROM people "
        "GROUP BY CUBE (city, kind)"
    )
    exact = {row[:2]: row[2:4] for row in people.sql(asked, epsilon="1e9")}
    held = asked_for = 0
    for _ in range(12):
        result = people.sql(asked, epsilon=2)
        for row, ends in zip(result, result.intervals(0.95), strict=True):
            assert ends[:2] == (None, None)
            assert ends[4] is None
            if row[1] is None and row[4] == 0:
                continue  # NULL as a kind: the dictionary above can't tell it from a total
            for value, end in zip(exact[row[:2]], ends[2:4], strict=True):
                assert end is not None
                held += end[0] <= value <= end[1]
                asked_for += 1
    assert held / asked_for > 0.88  # the numbers of one answer err together


def test_a_least_number_of_units_is_for_sets_with_keys(people: dp_sql.Connection) -> None:
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e9, delta = 1e-6, "
        "min_privacy_units_per_group = 400) street, city, COUNT(*) FROM people GROUP BY CUBE (street, city)"
    )
    shown = set(people.sql(sql).fetchall())
    assert shown == {(None, None, 900), ("s0", None, 450), ("s1", None, 450)}


@pytest.mark.parametrize(
    ("sql", "kind", "words"),
    [
        ("SELECT id, COUNT(*) FROM people GROUP BY ROLLUP (id)", NotPrivateError, "each person"),
        ("SELECT COUNT(*) FROM people GROUP BY CUBE (city, kind, age, pay, street, city || kind, age + 1)",
         UnsupportedSQLError, "64"),
        ("SELECT 1 AS x, COUNT(*) FROM people GROUP BY ROLLUP (x)", UnsupportedSQLError, "constant"),
        ("SELECT GROUPING(city), COUNT(*) FROM people", QueryError, "GROUPING takes keys"),
        ("SELECT GROUPING(kind) FROM people GROUP BY ROLLUP (city)", QueryError, "kind"),
        ("SELECT GROUPING(COUNT(*)) FROM people GROUP BY ROLLUP (city)", QueryError, "GROUPING takes keys"),
        ("SELECT city, COUNT(*) FROM people GROUP BY CUBE (city) WITH ROLLUP", UnsupportedSQLError, "ROLLUP"),
        ("SELECT kind FROM people GROUP BY ROLLUP (city)", QueryError, "kind"),
        ("SELECT COUNT(*) FROM people GROUP BY ROLLUP (3)", QueryError, "select list"),
    ],
)  # fmt: skip
def test_what_is_refused_is_free(
    people: dp_sql.Connection, sql: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        people.sql(sql, epsilon=1, delta="1e-6")
    assert people.budget()["people"].statements == 0


def test_explain_shows_the_sets_and_what_they_cost_together(people: dp_sql.Connection) -> None:
    told = people.explain(
        "SELECT city, COUNT(*) FROM people GROUP BY ROLLUP (city, kind)", epsilon=1
    )
    assert "Release r0 by 3 different sets of keys, one joint release:" in told
    assert "at most 2 + 2 + 1 = 5" in told
    assert "count of *: Δ1 = 15, Δ2 = 6.7082" in told  # 3 rows in each of 5 groups
    assert "discrete Laplace of scale 15 on each number" in told


def test_a_later_release_reads_the_sets(people: dp_sql.Connection) -> None:
    sql = (
        "SELECT COUNT(*) FROM people WHERE age > (SELECT MAX(m) FROM (SELECT city, AVG(age) AS m "
        "FROM people GROUP BY ROLLUP (city)))"
    )
    (count,) = people.sql(sql, epsilon="1e12").fetchall()[0]
    assert 400 < count < 480
