"""within=: the smallest epsilon for an error, and what is said where there is none."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

import dp_sql
from dp_sql import accuracy
from dp_sql.amounts import Amounts
from dp_sql.errors import (
    BudgetExceededError,
    DPSQLError,
    ParameterError,
    QueryError,
    UnsupportedSQLError,
)
from dp_sql.parser.statement import parse
from dp_sql.plan.accuracy import read_accuracy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLES = """
tables:
  p:
    source: p.csv
    {owner}
    budget: {{epsilon: {budget}, delta: 0.5, accountant: {accountant}}}
    columns:
      id: {{type: integer}}
      k: {{type: integer, bounds: [1, 5000], nullable: false}}
      word: {{type: varchar}}
      n: {{type: integer, bounds: [-50, 100], nullable: false}}
      x: {{type: double, bounds: [-5, 10]}}
      seen: {{type: boolean, protected: false}}
"""
OWNER = "owner: id\n    limits: {max_groups: 40, max_rows_per_group: 3}"


def schema(
    folder: Path,
    privacy: str,
    owner: str = "",
    *,
    budget: str = "1e9",
    accountant: str = "renyi",
) -> Path:
    (folder / "p.csv").write_text("id,k,word,n,x,seen\n1,1,a,2,3,true\n", encoding="utf-8")
    tables = TABLES.format(owner=owner, budget=budget, accountant=accountant)
    if "zero_out" not in privacy:
        tables = tables.replace(", protected: false", "")
    path = folder / "p.yaml"
    path.write_text(f'version: 1\ndatabase: "duckdb://"\nprivacy: {privacy}\n{tables}')
    return path


def event(folder: Path, privacy: str = "{level: event, unit: row}", **more: str) -> Path:
    return schema(folder, privacy, **more)


def user(folder: Path) -> Path:
    return schema(folder, "{level: user, unit: person, defaults: {delta: 1e-6}}", OWNER)


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[dp_sql.Connection]:
    with dp_sql.connect(event(tmp_path), ledger=":memory:") as connection:
        yield connection


@pytest.fixture
def people(tmp_path: Path) -> Iterator[dp_sql.Connection]:
    with dp_sql.connect(user(tmp_path), ledger=":memory:") as connection:
        yield connection


def found(connection: dp_sql.Connection, query: str, **asked: object) -> Fraction:
    """Return the epsilon that EXPLAIN says."""
    (note,) = [
        line for line in connection.explain(query, **asked).splitlines() if "take epsilon" in line
    ]  # type: ignore[arg-type]
    return Fraction(note.split("epsilon ")[1].split(". ")[0].rstrip("."))


def test_the_epsilon_of_a_count_is_that_of_the_law(rows: dp_sql.Connection) -> None:
    # |round(z)| <= 10 iff |z| < 10.5, and e^(-10.5 epsilon) = 0.05 at 0.28531
    assert found(rows, "SELECT COUNT(*) FROM p", within=10) == Fraction("0.286")
    # a sum of whole numbers up to 100 in size: 100 times that
    assert found(rows, "SELECT SUM(n) FROM p", within=10) == Fraction("28.6")
    # P[|z| <= 20.5] at 90 %
    assert found(rows, "SELECT COUNT(*) FROM p", within=20, confidence=0.9) == Fraction("0.113")


@pytest.mark.parametrize("width", [3, 10, 100])
def test_explain_says_the_width_that_was_asked_for(rows: dp_sql.Connection, width: int) -> None:
    """A count is shown rounded, so noise of almost half a row more keeps it within the width."""
    text = rows.explain("SELECT COUNT(*), COUNT(*) / 4 FROM p", within=width)
    assert f"a0 = COUNT(*): ± {width} in 95 % of runs" in text


def test_the_cost_is_at_most_what_was_found_and_is_debited(rows: dp_sql.Connection) -> None:
    result = rows.sql("SELECT COUNT(*) FROM p", within=10)
    cost = result.cost["p"].epsilon
    assert Fraction("0.285") < cost <= Fraction("0.286")
    assert result.notes == ("Values within 10 in 95 % of runs take epsilon 0.286.",)
    assert rows.budget()["p"].statements == 1


QUERIES = [
    ("SELECT COUNT(*) FROM p", 3, "0.95"),
    ("SELECT k, COUNT(*) FROM p GROUP BY k", 8, "0.999"),  # where Laplace noise takes over
    ("SELECT SUM(x) AS s, COUNT(n) AS c FROM p", 40, "0.99"),
    ("SELECT SUM(n) - 2 * SUM(x) FROM p", 40, "0.95"),
    ("SELECT word, COUNT(DISTINCT id) AS n FROM p GROUP BY word", 200, "0.9"),
]


@pytest.mark.parametrize(("query", "width", "confidence"), QUERIES)
def test_no_smaller_epsilon_suffices(
    people: dp_sql.Connection, query: str, width: int, confidence: str
) -> None:
    plan = parse(query, people._catalog, people._describe)
    wanted = read_accuracy(width, confidence)
    amounts = Amounts(), Amounts()
    search = accuracy._search(
        plan, plan.releases[0], wanted, *amounts, people._catalog, people._engine
    )
    place = search.smallest()
    assert place is not None
    assert search.suffices(place)
    assert not any(search.suffices(p) for p in range(place - 400, place))


def test_another_kind_of_noise_may_need_less_epsilon(people: dp_sql.Connection) -> None:
    query, width, confidence = QUERIES[1]
    asked = {"within": width, "confidence": confidence}
    epsilon = found(people, query, **asked)
    assert "Gaussian" in people.explain(query, epsilon=epsilon)
    laplace = people.explain(query, epsilon=80)
    assert "Laplace" in laplace  # and is not accurate enough, though it costs more
    assert epsilon < 76


@pytest.mark.parametrize(
    ("query", "asked", "same", "width"),
    [
        ("SELECT 2 * COUNT(*) + 7 FROM p", 200, "SELECT COUNT(*) FROM p", 100),
        ("SELECT -COUNT(*) / 4.0 FROM p", 25, "SELECT COUNT(*) FROM p", 100),
        ("SELECT k + COUNT(*) FROM p GROUP BY k", 9, "SELECT k, COUNT(*) FROM p GROUP BY k", 9),
        ("SELECT COUNT(*) AS n, n * (1 / 2) FROM p", 10, "SELECT COUNT(*) FROM p", 10),
        ("SELECT COUNT(*) - COUNT(*) + COUNT(*) FROM p", 10, "SELECT COUNT(*) FROM p", 10),
        ("SELECT CAST(COUNT(*) AS DOUBLE) FROM p", 10, "SELECT COUNT(*) FROM p", 10),
        (
            "SELECT COUNT(DISTINCT word) FROM p",
            10,
            "SELECT COUNT(*) FROM p",
            10,
        ),
    ],
)
def test_weighted_sums(
    rows: dp_sql.Connection, query: str, asked: int, same: str, width: int
) -> None:
    assert found(rows, query, within=asked) == found(rows, same, within=width)


def test_a_statement_may_ask_itself(rows: dp_sql.Connection) -> None:
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({}) COUNT(*) FROM p"
    text = clause.format("within = 20, confidence = 0.9")
    assert found(rows, text) == Fraction("0.113")
    assert rows.sql(text).cost["p"].epsilon <= Fraction("0.113")
    assert found(rows, text, within=10) == Fraction("0.286")  # the call comes first
    rows.sql("SET epsilon = 3")  # of statements that ask for no accuracy
    assert found(rows, text) == Fraction("0.113")


@pytest.mark.parametrize("key", ["k", "word"])
def test_shown_values_are_as_near_as_promised(people: dp_sql.Connection, key: str) -> None:
    """5,000 groups are 5,000 runs: a false alarm in a million."""
    if key == "word":
        assert "further off" in people.explain(
            "SELECT word, COUNT(*) FROM p GROUP BY word", within=100
        )
        return
    rows = people.sql("SELECT k, COUNT(*), 3 * SUM(n) FROM p GROUP BY k", within=3000).fetchall()
    for column, exact in ((1, 1), (2, 6)):
        near = sum(abs(row[column] - (exact if row[0] == 1 else 0)) <= 3000 for row in rows)
        assert near >= 0.935 * len(rows) == 0.935 * 5000
    worst = max(sum(abs(row[c]) <= 3000 for row in rows) for c in (1, 2))
    assert min(sum(abs(row[c]) <= 3000 for row in rows) for c in (1, 2)) <= 0.965 * 5000 <= worst


@pytest.mark.parametrize(
    ("query", "kind", "words"),
    [
        ("SELECT AVG(x) FROM p", UnsupportedSQLError, ["how many rows there are", "^^^"]),
        ("SELECT COUNT(*), VAR_POP(x) FROM p", UnsupportedSQLError, ["how many rows", "^^^^^^^"]),
        ("SELECT CORR(x, n) FROM p", UnsupportedSQLError, ["how many rows"]),
        ("SELECT MEDIAN(x) FROM p", UnsupportedSQLError, ["the values around it", "^^^^^^"]),
        ("SELECT MAX(x) FROM p", UnsupportedSQLError, ["the values around it"]),
        ("SELECT MODE(k) FROM p", UnsupportedSQLError, ["the values around it"]),
        ("SELECT SUM(x) / COUNT(*) FROM p", UnsupportedSQLError, ["this expression", "^^^"]),
        ("SELECT round(COUNT(*), -2) FROM p", UnsupportedSQLError, ["this expression"]),
        ("SELECT SUM(COUNT(*)) OVER () FROM p", UnsupportedSQLError, ["this expression"]),
        ("SELECT k FROM p GROUP BY k", UnsupportedSQLError, ["no value that is shown"]),
        ("SELECT 1", UnsupportedSQLError, ["public data only"]),
        ("SELECT (SELECT COUNT(*) FROM p)", UnsupportedSQLError, ["groups of one release"]),
        (
            "SELECT (SELECT COUNT(*) FROM p) + (SELECT COUNT(x) FROM p)",
            UnsupportedSQLError,
            ["several releases", "Instead"],
        ),
        ("SELECT MAX(c) FROM (SELECT COUNT(*) c FROM p)", UnsupportedSQLError, ["one release"]),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*) FROM p",
            ParameterError,
            ["say epsilon and within", "^"],
        ),
    ],
)
def test_what_has_no_public_error_is_refused(
    rows: dp_sql.Connection, query: str, kind: type[DPSQLError], words: list[str]
) -> None:
    with pytest.raises(kind) as caught:
        rows.sql(query, within=10)
    assert [word for word in [*words, "Instead"] if word not in str(caught.value)] == []
    assert rows.budget()["p"].statements == 0


def test_several_caps_of_distinct_values_are_refused(people: dp_sql.Connection) -> None:
    with pytest.raises(UnsupportedSQLError, match=r"contribution_bounds_per_group => \(0, 5\)"):
        people.explain("SELECT COUNT(DISTINCT word) FROM p", within=10)
    bounded = "SELECT COUNT(DISTINCT word, contribution_bounds_per_group => (0, 2)) FROM p"
    # 2 values of a unit: e^(-10.5 epsilon / 2) = 0.05 at 0.5706
    assert found(people, bounded, within=10) == Fraction("0.571")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"within": 0}, "within must be above zero"),
        ({"within": "-3"}, "within must be above zero"),
        ({"within": float("nan")}, "within must be a finite"),
        ({"within": float("inf")}, "within must be a finite"),
        ({"within": True}, "within must be a number"),
        ({"within": 1, "confidence": 0}, "above 0 and below 1"),
        ({"within": 1, "confidence": 1}, "above 0 and below 1"),
        ({"within": 1, "confidence": "x"}, "confidence must be a finite"),
        ({"confidence": 0.9}, "confidence belongs to within"),
        ({"within": 1, "epsilon": 1}, "can't both be given"),
    ],
)
def test_values_out_of_range(rows: dp_sql.Connection, asked: dict[str, object], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        rows.sql("SELECT COUNT(*) FROM p", **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("within = 0", "within must be above zero"),
        ("within = 'x'", "within is a number"),
        ("within = 5, confidence = 2", "above 0 and below 1"),
        ("confidence = 0.9", "confidence belongs to within"),
        ("within = 5, epsilon = 1", "can't both be said"),
    ],
)
def test_options_out_of_range(rows: dp_sql.Connection, options: str, words: str) -> None:
    with pytest.raises(QueryError, match=words) as caught:
        rows.sql(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) COUNT(*) FROM p")
    assert "^" in str(caught.value)


def test_statement_and_call_dont_mix(rows: dp_sql.Connection) -> None:
    with pytest.raises(ParameterError, match="say epsilon and within"):
        rows.sql("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(within = 5) COUNT(*) FROM p", epsilon=1)


def test_the_cap_of_a_statement_holds(tmp_path: Path) -> None:
    capped = event(tmp_path, "{level: event, unit: row, caps: {epsilon: 0.1}}")
    with dp_sql.connect(capped, ledger=":memory:") as connection:
        with pytest.raises(
            ParameterError, match=r"take epsilon 0\.286, above the cap of 0\.1"
        ) as no:
            connection.sql("SELECT COUNT(*) FROM p", within=10)
        assert no.value.hint == "within=30"
        connection.sql("SELECT COUNT(*) FROM p", within=30)


def test_the_remaining_budget_holds(tmp_path: Path) -> None:
    poor = event(tmp_path, budget="0.2", accountant="pure")
    with dp_sql.connect(poor, ledger=":memory:") as connection:
        with pytest.raises(BudgetExceededError, match="within 10 in 95 % of runs need more") as no:
            connection.sql("SELECT COUNT(*) FROM p", within=10)
        assert "Asked epsilon 0.28" in str(no.value)
        assert "a larger within (epsilon = 0.2 would fit)" in str(no.value)
        assert "0.2 left" in connection.explain("SELECT COUNT(*) FROM p", within=10)
        assert connection.sql("SELECT COUNT(*) FROM p", within=15).cost["p"].epsilon <= Fraction(
            "0.2"
        )


def test_no_epsilon_is_large_enough(rows: dp_sql.Connection) -> None:
    with pytest.raises(ParameterError, match=r"no epsilon up to 1e\+06"):
        rows.sql("SELECT SUM(x) FROM p", within="1e-30")


def test_exact_values_need_no_epsilon(tmp_path: Path) -> None:
    public = event(tmp_path, "{level: event, unit: row, adjacency: zero_out}")
    with dp_sql.connect(public, ledger=":memory:") as connection:
        with pytest.raises(UnsupportedSQLError, match="no value that is shown has noise"):
            connection.sql("SELECT COUNT(*) FROM p", within=10)
        assert found(connection, "SELECT COUNT(*), SUM(n) FROM p", within=100) > 0


def test_explain_as_a_statement(rows: dp_sql.Connection) -> None:
    lines = [row[0] for row in rows.sql("EXPLAIN SELECT COUNT(*) FROM p", within=10)]
    assert "Note: Values within 10 in 95 % of runs take epsilon 0.286." in lines
    assert rows.budget()["p"].statements == 0
