"""Statements over schemas that name smooth_sensitivity or propose_test_release: costs, NULL, refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import dp_sql
from dp_sql.errors import DPSQLError, ParameterError, QueryError, UnsupportedSQLError
from dp_sql.privacy.event import ApproximateEvent, GaussianEvent, LaplaceEvent, PureEvent

SCHEMA = """
version: 1
database: "duckdb://"
privacy: {level: event, defaults: {epsilon: 1, delta: 1e-6}}
mechanisms: {quantiles: [%s], mode: [%s]}
tables:
  visits:
    source: visits.csv
    budget: {epsilon: 1e9, delta: 0.5, selection_delta: 0.25, accountant: renyi}
    columns:
      k: {type: integer, bounds: [1, 3], nullable: false}
      word: {type: varchar, values: [a, b, c]}
      n: {type: integer, bounds: [0, 100], nullable: false}
      x: {type: double, bounds: [0, 10]}
"""
SMOOTH, TESTED = "smooth_sensitivity", "propose_test_release"


def opened(folder: Path, quantiles: str, mode: str = TESTED) -> dp_sql.Connection:
    (folder / "schema.yaml").write_text(SCHEMA % (quantiles, mode))
    rows = [(1 + i % 2, "aab"[i % 3], i % 101, i % 77 / 8) for i in range(3000)]
    text = "k,word,n,x\n" + "".join(f"{k},{w},{n},{x}\n" for k, w, n, x in rows)
    (folder / "visits.csv").write_text(text)
    return dp_sql.connect(folder / "schema.yaml", ledger=":memory:")


@pytest.fixture
def smooth(tmp_path: Path) -> Iterator[dp_sql.Connection]:
    with opened(tmp_path, SMOOTH) as connection:
        yield connection


@pytest.fixture
def tested(tmp_path: Path) -> Iterator[dp_sql.Connection]:
    with opened(tmp_path, TESTED) as connection:
        yield connection


def test_a_choice_costs_its_epsilon_and_its_delta(smooth: dp_sql.Connection) -> None:
    result = smooth.sql("SELECT MEDIAN(n), QUANTILE_CONT(x, 0.9), MODE(word) FROM visits")
    cost = result.cost["visits"]
    assert (cost.epsilon, cost.delta) == (1, Fraction(1, 10**6))
    assert cost.events == (ApproximateEvent(Fraction(1, 3), Fraction(1, 3 * 10**6)),) * 3


def test_vectors_and_choices_share_the_delta(smooth: dp_sql.Connection) -> None:
    sql = f"SELECT k, {', '.join(f'SUM(x * {i})' for i in range(1, 30))}, MEDIAN(n) FROM visits GROUP BY k"
    cost = smooth.sql(sql).cost["visits"]
    kinds = [type(event) for event in cost.events]
    assert GaussianEvent in kinds
    assert cost.events[-1] == ApproximateEvent(Fraction(1, 30), Fraction(1, 2 * 10**6))
    assert cost.epsilon <= 1
    assert cost.delta <= Fraction(1, 10**6)


def test_what_local_sensitivity_does_not_answer_falls_to_the_next(tmp_path: Path) -> None:
    with opened(tmp_path, f"{SMOOTH}, exponential", f"{TESTED}, noisy_max_laplace") as connection:
        cost = connection.sql("SELECT MAX(n), MEDIAN(n), TOP_K(word, 2) FROM visits").cost["visits"]
        kinds = sorted(type(event).__name__ for event in cost.events)
        assert kinds == ["ApproximateEvent", "LaplaceEvent", "PureEvent"]
        text = connection.explain("SELECT MAX(n), MEDIAN(n), TOP_K(word, 2) FROM visits")
    assert re.search(r"choice: exponential, epsilon 0\.\d+ each", text)
    assert re.search(r"choice: smooth sensitivity, epsilon 0\.\d+, delta \S+ each", text)
    assert "how dense the values are there, which is not public" in text


def test_a_failed_test_is_null_in_all_that_follows(tested: dp_sql.Connection) -> None:
    sql = (
        "SELECT k, MEDIAN(n) AS m, MODE(word) AS w, COUNT(*) AS c FROM visits GROUP BY k ORDER BY k"
    )
    rows = tested.sql(sql, epsilon=100).fetchall()
    assert [row[2] for row in rows] == ["a", "a", None]
    assert [row[1] is None for row in rows] == [False, False, True]
    assert rows[0][1] == pytest.approx(50, abs=2)
    sql = "SELECT QUANTILE_DISC(n, 0.5) AS q FROM visits GROUP BY k ORDER BY k"
    (low, _, nobody) = tested.sql(sql, epsilon=100).fetchall()
    assert (type(low[0]), nobody) == (int, (None,))
    sql = "SELECT COUNT(*) FROM visits WHERE n > (SELECT MEDIAN(n) FROM visits WHERE k = 3)"
    assert abs(tested.sql(sql, epsilon=100).fetchall()[0][0]) < 5
    assert tested.sql("SELECT MODE(word) IS NULL FROM visits WHERE k = 3").fetchall() == [(True,)]
    text = tested.explain("SELECT MEDIAN(n, proposed => 4), MODE(word) FROM visits")
    assert "NULL, unless one unit could hardly move it by more than 4" in text
    assert "the heaviest value, or NULL where it isn't far ahead of the second" in text


def test_a_proposal_is_part_of_a_list_and_of_a_filter(tested: dp_sql.Connection) -> None:
    sql = "SELECT QUANTILE_CONT(n, [0.25, 0.75], proposed => 5) FILTER (WHERE k < 3) FROM visits"
    ((low, high),) = tested.sql(sql, epsilon=1000).fetchall()[0]
    assert (low, high) == (pytest.approx(25, abs=2), pytest.approx(75, abs=2))


@pytest.mark.parametrize(
    ("kinds", "sql", "message", "instead"),
    [
        (SMOOTH, "SELECT MAX(n) FROM visits", "none answers MAX", "QUANTILE_CONT(n, 0.99)"),
        (TESTED, "SELECT QUANTILE_DISC(n, [0, 0.5]) FROM visits", "none answers MIN", "MEDIAN(n)"),
        (TESTED, "SELECT TOP_K(word, 2) FROM visits", "none answers TOP_K", "MODE(word)"),
        (SMOOTH, "SELECT MEDIAN(n, proposed => 2) FROM visits", "takes no proposal", "MEDIAN(n)"),
        ("exponential", "SELECT MEDIAN(n, proposed => 2) FROM visits", "no proposal", "MEDIAN(n)"),
        (TESTED, "SELECT AVG(n, proposed => 2) FROM visits", "said of MEDIAN", "AVG(n)"),
        (TESTED, "SELECT MAX(n, proposed => 2) FROM visits", "said of MEDIAN", "MEDIAN(n)"),
        (TESTED, "SELECT MODE(word, proposed => 2) FROM visits", "said of MEDIAN", "MODE(word)"),
        (TESTED, "SELECT MEDIAN(n, proposed => 0) FROM visits", "above 0", "MEDIAN(n)"),
        (TESTED, "SELECT MEDIAN(n, proposed => x) FROM visits", "a constant", "MEDIAN(n)"),
        (
            TESTED,
            "SELECT MEDIAN(n, proposed => 1, proposed => 2) FROM visits",
            "stands here twice",
            "MEDIAN(n, proposed => 2)",
        ),
        (
            TESTED,
            "SELECT QUANTILE_CONT(n, [0.5, 1], proposed => 2) FROM visits",
            "places between 0 and 1",
            "QUANTILE_CONT(n, 0.5, proposed => 2)",
        ),
    ],
)
def test_refusals_say_what_to_write_instead(
    kinds: str, sql: str, message: str, instead: str, tmp_path: Path
) -> None:
    with opened(tmp_path, kinds) as connection:
        with pytest.raises(QueryError, match=message) as caught:
            connection.sql(sql)
        assert "^" in str(caught.value)
        if not isinstance(caught.value, ParameterError):
            assert caught.value.example is not None
            assert connection.sql(caught.value.example)
        assert connection.sql(f"SELECT {instead} FROM visits").fetchall()


def test_they_need_a_delta(smooth: dp_sql.Connection) -> None:
    for call in ("MEDIAN(n)", "MODE(word)"):
        with pytest.raises(ParameterError, match="need delta > 0"):
            smooth.sql(f"SELECT {call} FROM visits", delta=0)


def test_limits_are_not_tuned_by_them(smooth: dp_sql.Connection) -> None:
    with pytest.raises(UnsupportedSQLError, match="whose error is public"):
        smooth.tune("visits", epsilon=1)


def test_they_are_never_chosen_by_themselves(tmp_path: Path) -> None:
    with opened(tmp_path, "permute_and_flip", "permute_and_flip") as connection:
        text = (tmp_path / "schema.yaml").read_text()
    (tmp_path / "schema.yaml").write_text(re.sub("mechanisms:.*\n", "", text))
    with dp_sql.connect(tmp_path / "schema.yaml", ledger=":memory:") as connection:
        cost = connection.sql("SELECT MEDIAN(n), MODE(word), COUNT(*) FROM visits").cost["visits"]
    assert {type(event) for event in cost.events} == {PureEvent, LaplaceEvent}


def test_a_schema_names_only_mechanisms_of_a_purpose(tmp_path: Path) -> None:
    with pytest.raises(DPSQLError, match="smooth_sensitivity"):
        opened(tmp_path, SMOOTH, SMOOTH)
