"""Over several tables, too, an answer without noise and without limits is DuckDB's answer.

Random statements of every family, on data that keep their promises: every row has one owner, keys are
unique, orders are total.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

import duckdb
import pytest
from oracle.family_data import tame_database
from oracle.family_schema import PUBLIC, family_catalog
from oracle.family_statements import FAMILIES, Written, statement
from oracle.small_engine import Row
from oracle.world import World

from dp_sql.errors import InternalError, QueryError
from dp_sql.executor.duckdb_embedded import PINNED

EPSILON, DELTA = Fraction(10**12), Fraction(1, 10**9)
DATABASES = 2
STATEMENTS = 3
"""How many statements of each family are tried, each on every database."""

MEANT = [family for family in FAMILIES if family != "traps"]
COUNTS: Counter[str] = Counter()
REASONS: Counter[str] = Counter()


@dataclass(frozen=True)
class Pair:
    """The same data behind the engine, with large limits, and in a plain DuckDB."""

    world: World
    plain: Any


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Pair]]:
    folder = tmp_path_factory.mktemp("tame")
    catalog = family_catalog(max_groups=500, max_rows=500)
    found = []
    for index in range(DATABASES):
        name = f"tame_{index}"
        rows = {**tame_database(Random(name), 5 + index), **{t: r for t, (_, r) in PUBLIC.items()}}
        world = World(folder, catalog, rows, name)
        plain: Any = duckdb.connect(":memory:")
        for setting in PINNED:
            plain.execute(setting)
        plain.execute(f"ATTACH '{folder / name}.duckdb' AS tame (READ_ONLY)")
        plain.execute("USE tame")
        plain.execute(
            "CREATE TEMP MACRO clamp(x, low, high) AS "
            "CASE WHEN NOT isnan(CAST(x AS DOUBLE)) THEN greatest(low, least(high, x)) END"
        )
        found.append(Pair(world, plain))
    yield found
    for pair in found:
        pair.world.__exit__()
        pair.plain.close()


def close(call: str, got: object, want: object) -> bool:
    """Return whether a value is DuckDB's but for the grid; over nothing a number stands for NULL."""
    if want is None:
        return True
    tolerance = 0.05 if call.startswith(("VAR", "STD", "COVAR", "REGR_S")) else 1e-3
    return math.isclose(float(str(got)), float(str(want)), rel_tol=1e-4, abs_tol=tolerance)


def same_key(got: object, want: object) -> bool:
    """Return whether a key is DuckDB's; a computed one may differ in its last bits."""
    floats = isinstance(got, float) and isinstance(want, float)
    return got == want or (
        floats and math.isclose(float(str(got)), float(str(want)), rel_tol=1e-12)
    )


def hold(written: Written, got: list[Row], want: list[Row]) -> str | None:
    """Return what is wrong with an answer, or None."""
    keys = len(written.keys)
    left = list(got)
    for row in want:
        found = [
            i
            for i, other in enumerate(left)
            if all(map(same_key, other[:keys], row[:keys]))
            and all(map(close, written.calls, other[keys:], row[keys:]))
        ]
        if not found:
            return f"{row} isn't there"
        left.pop(found[0])
    for row in left:  # a public key's group in which nobody is
        counted = [
            value
            for value, call in zip(row[keys:], written.calls, strict=True)
            if call.startswith(("COUNT", "SUM"))
        ]
        if not keys or not all(close("", v, 0) for v in counted):
            return f"{row} is too much"
    return None


def examine(pairs: list[Pair], family: str, seed: str) -> None:
    written = statement(Random(seed), family, tame=True)
    COUNTS["statements"] += 1
    for pair in pairs:
        try:
            seen = pair.world.ask(written.sql, EPSILON, DELTA)
        except InternalError as error:
            pytest.fail(f"{error}\n{written.sql}")
        except QueryError as error:
            COUNTS["refused"] += 1
            REASONS[f"{family}: {str(error)[:200]}"] += 1
            return
        cursor = pair.plain.execute(written.sql)
        want = cursor.fetchall()
        assert list(seen.columns) == [d[0] for d in cursor.description]
        wrong = hold(written, seen.rows, want)
        assert wrong is None, f"{wrong}\n{written.sql}\n{seen.rows}\n{want}\n{seen.sent}"
        COUNTS["answers"] += 1


@pytest.mark.parametrize("family", MEANT)
def test_an_answer_without_noise_is_duckdbs(pairs: list[Pair], family: str) -> None:
    COUNTS.clear()
    for index in range(STATEMENTS):
        examine(pairs, family, f"tame-{family}-{index}")
    print(f"\nmeaning, {family}: {dict(COUNTS)}")  # noqa: T201


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_an_answer_without_noise_is_duckdbs_long(pairs: list[Pair], seed: int) -> None:
    for family in MEANT:
        for index in range(60):
            examine(pairs, family, f"tame-{seed}-{family}-{index}")
