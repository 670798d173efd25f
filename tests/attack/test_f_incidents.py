"""Attacks F: public incidents whose lesson is no single statement."""

from __future__ import annotations

from pathlib import Path
from random import Random

import duckdb
import numpy as np
import pytest

import dp_sql

PERSONS, QUERIES = 50, 120
SCHEMA = """
version: 1
database: duckdb:///secret.duckdb
privacy: {level: user, adjacency: substitution, unit: person, caps: {epsilon: 1000000}}
tables:
  secret:
    owner: uid
    budget: {epsilon: EPSILON, delta: 0.001, accountant: renyi}
    limits: {max_groups: 1, max_rows_per_group: 1}
    columns: {uid: {type: integer}, i: {type: integer, bounds: [0, 99]}, ill: {type: boolean}}
"""


def rebuilt(folder: Path, epsilon: str) -> float:
    """Return the share of secret bits that least squares over counts of random subsets finds."""
    r = Random("bits")
    bits = [r.random() < 0.5 for _ in range(PERSONS)]
    (folder / "schema.yaml").write_text(SCHEMA.replace("EPSILON", epsilon), encoding="utf-8")
    with duckdb.connect(str(folder / "secret.duckdb")) as data:
        data.execute("CREATE TABLE secret(uid INTEGER, i INTEGER, ill BOOLEAN)")
        data.executemany(
            "INSERT INTO secret VALUES (?, ?, ?)", [(i, i, b) for i, b in enumerate(bits)]
        )
    sets = [[i for i in range(PERSONS) if r.random() < 0.5] for _ in range(QUERIES)]
    wheres = [f"COUNT(*) FILTER (WHERE ill AND i IN ({', '.join(map(str, s))}))" for s in sets]
    with dp_sql.connect(folder / "schema.yaml", ledger=":memory:") as connection:
        items = ", ".join(f"{c} AS c{i}" for i, c in enumerate(wheres))
        found = connection.sql(f"SELECT {items} FROM secret", epsilon=epsilon).fetchall()[0]
    holds = np.array([[float(i in s) for i in range(PERSONS)] for s in sets])
    guess, *_ = np.linalg.lstsq(holds, np.array(found, dtype=float), rcond=None)
    return float(np.mean((guess > 0.5) == np.array(bits)))


def test_f21_counts_of_random_subsets_rebuild_no_column(tmp_path: Path) -> None:
    """Fifty guesses at epsilon 1: more than 42 right by chance has a probability below 1e-6."""
    assert rebuilt(tmp_path, "1") <= 42 / PERSONS


def test_f21_the_attack_works_where_there_is_hardly_any_noise(tmp_path: Path) -> None:
    assert rebuilt(tmp_path, "900000") == 1.0


def test_f05_opendp_is_used_without_its_floating_point_features() -> None:
    dp = pytest.importorskip("opendp.prelude")
    text = Path(dp_sql.__file__).with_name("mechanisms").joinpath("sampler_opendp.py").read_text()
    assert "floating-point" not in text
    assert text.count("enable_features") == 1
    assert 'T="i64"' in text
    assert dp is not None
