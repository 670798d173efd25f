"""Audits of key selection through SQL: how often keys of few units show, by every rule.

A key is a run: keys have owners of their own, so each shows independently of the others. A key of one
unit more has to show and to hide at (epsilon, delta)-close rates, and that of a single unit with delta.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from test_release_audit import ALPHA

import dp_sql
from dp_sql.audit.bounds import at_least, at_most
from dp_sql.mechanisms import measurement, optimal
from dp_sql.mechanisms.noise import VectorNoise
from dp_sql.mechanisms.optimal import Chances
from dp_sql.schema.catalog import KeyRule

EPSILON, DELTA = 1.0, 0.02
SCHEMA = """
version: 1
database: duckdb:///rows.duckdb
privacy: {level: user, adjacency: add_remove, unit: person, caps: {epsilon: 100}}
mechanisms: {keys: [RULE]}
tables:
  rows:
    owner: uid
    budget: {epsilon: 1e9, delta: 0.5, accountant: sequential}
    limits: {max_groups: 1, max_rows_per_group: 1}
    columns:
      uid: {type: bigint}
      g: {type: integer}
"""
RULES = tuple(rule.value for rule in KeyRule)
SINGLES, MOST = 20_000, 12  # keys of one unit; the most units of the others
EACH = 1_500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database of keys of one unit, and of 2 to MOST units: the key's number says of how many."""
    made = tmp_path_factory.mktemp("audit")
    con = duckdb.connect(str(made / "rows.duckdb"))
    con.execute(
        "CREATE TABLE rows AS SELECT 100000 * k + u AS uid, k AS g FROM ("
        f"SELECT k, CASE WHEN k < {SINGLES} THEN 1 ELSE 2 + (k - {SINGLES}) // {EACH} END AS n "
        f"FROM range({SINGLES + (MOST - 1) * EACH}) AS t(k)), range({MOST}) AS v(u) WHERE u < n"
    )
    con.close()
    return made


def rates(folder: Path, rule: str) -> list[tuple[int, int]]:
    """Return, for keys of 1 to MOST units, how many showed, and of how many."""
    (folder / "schema.yaml").write_text(SCHEMA.replace("RULE", rule), encoding="utf-8")
    with dp_sql.connect(folder / "schema.yaml", ledger=":memory:", reuse=False) as connection:
        result = connection.sql("SELECT g FROM rows GROUP BY g", epsilon="1", delta=str(DELTA))
        assert result.cost["rows"].delta <= Fraction(str(DELTA))
        shown = np.array([row[0] for row in result.fetchall()], dtype=int)
    units = np.where(shown < SINGLES, 1, 2 + (shown - SINGLES) // EACH)
    counts = np.bincount(units, minlength=MOST + 1)[1:]
    return [(int(c), SINGLES if n == 0 else EACH) for n, c in enumerate(counts)]


def excess(found: list[tuple[int, int]]) -> float:
    """Return by how much two neighbouring rates are further apart than (EPSILON, DELTA), surely."""
    factor = float(np.exp(EPSILON))
    worst = at_least(*found[0], ALPHA) - DELTA
    for (a, m), (b, n) in itertools.pairwise(found):
        for (p, size), (q, other) in (((a, m), (b, n)), ((b, n), (a, m))):
            worst = max(worst, at_least(p, size, ALPHA) - factor * at_most(q, other, ALPHA) - DELTA)
            hidden = at_least(size - p, size, ALPHA) - factor * at_most(other - q, other, ALPHA)
            worst = max(worst, hidden - DELTA)
    return worst


@pytest.mark.parametrize("rule", RULES)
def test_keys_of_a_unit_more_show_no_more_often_than_claimed(rule: str, folder: Path) -> None:
    found = rates(folder, rule)
    assert excess(found) <= 0
    assert found[0][0] > 0  # the rate of single units is near what is allowed
    assert found[-1][0] > found[0][0]


@pytest.mark.parametrize("rule", RULES)
def test_a_threshold_that_is_too_low_is_found(
    rule: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, table = measurement.threshold, optimal.chances

    def low(noise: VectorNoise, delta: Fraction, *rest: Any) -> int:
        return known(noise, min(delta * 6, Fraction(1, 3)), *rest)

    def lucky(epsilon: Fraction, delta: Fraction) -> Chances:
        return table(epsilon, 2 * delta)

    monkeypatch.setattr(measurement, "threshold", low)
    monkeypatch.setattr(optimal, "chances", lucky)
    assert excess(rates(folder, rule)) > 0
