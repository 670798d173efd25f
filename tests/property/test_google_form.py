"""GoogleSQL's form without noise is what the plain DuckDB query beside it says, bounds included.

The corpus has statements with the query that says the same, and statements that are refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden.shop import plain, write_shop

import dp_sql
from dp_sql import errors

CORPUS = Path(__file__).parent.parent / "golden" / "google.jsonl"
CASES = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
ANSWERED = [pytest.param(c, id=c["id"]) for c in CASES if c["expect"] == "answer"]
REFUSED = [pytest.param(c, id=c["id"]) for c in CASES if c["expect"] != "answer"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shop")
    write_shop(place)
    return place


@pytest.fixture(scope="module")
def shop(folder: Path) -> Iterator[dp_sql.Connection]:
    with dp_sql.connect(folder / "visits.yaml", ledger=":memory:", reuse=False) as connection:
        yield connection


@pytest.fixture(scope="module")
def duck(folder: Path) -> Iterator[Any]:
    connection = plain(folder)
    yield connection
    connection.close()


def close(a: object, b: object) -> bool:
    if type(a) in (int, float) and b is not None:
        return math.isclose(float(a), float(b), rel_tol=1e-5, abs_tol=1e-4)  # type: ignore[arg-type]
    return a == b


def equal(got: tuple[Any, ...], want: tuple[Any, ...]) -> bool:
    return len(got) == len(want) and all(map(close, got, want))


@pytest.mark.parametrize("case", ANSWERED)
def test_without_noise_it_says_what_plain_duckdb_says(
    case: dict[str, str], shop: dp_sql.Connection, duck: Any
) -> None:
    cursor = duck.execute(case["duck"])
    names, want = [d[0] for d in cursor.description], cursor.fetchall()
    result = shop.sql(case["sql"])
    assert result.columns == names
    left = list(want)
    for row in result:
        match = next((i for i, other in enumerate(left) if equal(row, other)), None)
        assert match is not None, f"{row} is not among {left[:3]}"
        left.pop(match)
    assert not left
    explained = shop.sql(f"EXPLAIN {case['sql']}")
    assert any(line.startswith("Cost to visits") for (line,) in explained)


@pytest.mark.parametrize("case", [c for c in ANSWERED if "FROM t" not in c.values[0]["sql"]])
def test_with_a_small_epsilon_it_is_not_exact(
    case: dict[str, str], shop: dp_sql.Connection
) -> None:
    exact = shop.sql(case["sql"]).fetchall()
    noisy = shop.sql(case["sql"].replace("1e12", "1e-3")).fetchall()
    assert noisy != exact
    assert shop.sql(case["sql"], epsilon="1e-3").fetchall() != exact  # the call's wins


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_has_its_class_and_costs_nothing(
    case: dict[str, str], shop: dp_sql.Connection
) -> None:
    before = shop.budget()["visits"].lines()
    with pytest.raises(errors.QueryError) as caught:
        shop.sql(case["sql"])
    assert type(caught.value).__name__ == case["expect"], str(caught.value)
    assert shop.budget()["visits"].lines() == before


def test_the_corpus_is_large_enough() -> None:
    assert len(ANSWERED) >= 20
    assert len(REFUSED) >= 9
