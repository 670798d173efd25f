"""Where noise vanishes and nobody is over a limit, answers equal DuckDB's: rows, order and names.

The corpus has statements that are answered and statements that are refused, with the class of the
refusal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from golden.shop import plain, write_shop

import dp_sql
from dp_sql import errors

CORPUS = Path(__file__).parent.parent / "golden" / "corpus.jsonl"
TRIES = 4
HUGE, TINY, DELTA = "1e12", "0.001", "1e-9"

Case = dict[str, Any]
Rows = list[tuple[Any, ...]]


@cache
def corpus() -> list[Case]:
    return [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


def cases(*, answered: bool, share: int = 1) -> list[Any]:
    """Return statements of the corpus; all but one of so many wait for the slow runs."""
    chosen = [c for c in corpus() if (c["expect"] == "answer") == answered]
    marks = [[] if i % share == 0 else [pytest.mark.slow] for i in range(len(chosen))]
    return [pytest.param(c, id=c["id"], marks=m) for c, m in zip(chosen, marks, strict=True)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shop")
    write_shop(place)
    return place


@pytest.fixture(scope="module")
def connections(folder: Path) -> Iterator[dict[str, dp_sql.Connection]]:
    opened = {
        name: dp_sql.connect(folder / f"{name}.yaml", ledger=":memory:")
        for name in ("people", "visits")
    }
    yield opened
    for connection in opened.values():
        connection.close()


@pytest.fixture(scope="module")
def duck(folder: Path) -> Iterator[Any]:
    connection = plain(folder)
    yield connection
    connection.close()


def close(a: object, b: object) -> bool:
    if a is None or b is None or isinstance(a, str | bool):
        return a == b
    try:
        return math.isclose(float(a), float(b), rel_tol=1e-5, abs_tol=1e-4)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return a == b


def equal(got: tuple[Any, ...], want: tuple[Any, ...]) -> bool:
    return len(got) == len(want) and all(map(close, got, want))


def empty(row: tuple[Any, ...]) -> bool:
    """Return whether a row is that of a public key's group in which nobody is: a number is zero."""
    return any(close(v, 0) for v in row if isinstance(v, int | float) and not isinstance(v, bool))


@pytest.mark.parametrize("case", cases(answered=True, share=2))
def test_an_answer_without_noise_is_duckdbs(
    case: Case, connections: dict[str, dp_sql.Connection], duck: Any
) -> None:
    sql = case["sql"]
    cursor = duck.execute(sql)
    names, want = [d[0] for d in cursor.description], cursor.fetchall()
    result = connections[case["schema"]].sql(sql, epsilon=HUGE, delta=DELTA)
    assert result.columns == names
    got = result.fetchall()
    if "GROUP BY" not in sql.upper():  # over nothing a number stands where DuckDB says NULL
        want = [
            tuple(
                g if w is None and isinstance(g, float | int) else w
                for g, w in zip(a, b, strict=True)
            )
            for a, b in zip(got, want, strict=True)
        ]
    if case.get("ordered"):
        shown = [row for row in got if not (empty(row) and not any(equal(row, w) for w in want))]
        assert len(shown) == len(want)
        assert all(map(equal, shown, want)), f"{shown[:5]} is not {want[:5]}"
        return
    left = list(want)
    for row in got:
        match = next((i for i, other in enumerate(left) if equal(row, other)), None)
        assert match is not None or empty(row), f"{row} is not among {left[:3]}"
        if match is not None:
            left.pop(match)
    assert len(left) <= case.get("may_miss", 0), f"missing: {left[:3]}"


@pytest.mark.parametrize(
    "case", [p for p in cases(answered=True, share=6) if not p.values[0].get("public")]
)
def test_an_answer_with_a_small_epsilon_is_not_exact(
    case: Case, connections: dict[str, dp_sql.Connection]
) -> None:
    connection = connections[case["schema"]]
    exact = connection.sql(case["sql"], epsilon=HUGE, delta=DELTA).fetchall()
    numbers = any(type(v) in (float, int) for row in exact for v in row)
    if not numbers or "DISTINCT COUNT" in case["sql"]:
        return
    for _ in range(TRIES):  # one integer's noise is 0 once in 2,000 runs
        noisy = connection.sql(case["sql"], epsilon=TINY, delta=DELTA).fetchall()
        if not (len(exact) == len(noisy) and all(map(equal, exact, noisy))):
            return
    pytest.fail("the answer has no noise")


@pytest.mark.parametrize("case", cases(answered=False, share=3))
def test_a_refusal_has_its_class_costs_nothing_and_shows_what_is_answered(
    case: Case, connections: dict[str, dp_sql.Connection]
) -> None:
    connection = connections[case["schema"]]
    before = {name: state.lines() for name, state in connection.budget().items()}
    with pytest.raises(errors.QueryError) as caught:
        connection.sql(case["sql"], epsilon="1", delta=DELTA)
    assert type(caught.value).__name__ == case["expect"], str(caught.value)
    assert caught.value.__cause__ is None
    assert {name: state.lines() for name, state in connection.budget().items()} == before
    assert caught.value.hint is not None
    assert caught.value.example is not None
    assert f"For example: {caught.value.example}" in str(caught.value)
    rows = connection.sql(caught.value.example, epsilon=HUGE, delta=DELTA).fetchall()
    empty = "GROUP BY", "SET "  # keys of one person each aren't shown
    assert rows or any(word in caught.value.example for word in empty)


def test_the_corpus_is_large_enough() -> None:
    answered = sum(c["expect"] == "answer" for c in corpus())
    assert answered >= 100
    assert len(corpus()) - answered >= 60
    assert len({c["id"] for c in corpus()}) == len(corpus())
