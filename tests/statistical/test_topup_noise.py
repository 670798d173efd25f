"""Answers that were topped up have the noise that was asked, as groups of public keys show together."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import dp_sql
from dp_sql.mechanisms.spread import spread_of

SCHEMA = """
version: 1
database: duckdb://
privacy: {level: LEVEL, unit: person, defaults: {epsilon: 1, delta: 1e-6}, caps: {epsilon: 100}}
mechanisms: {noise: [gaussian]}
tables:
  rows:
    source: rows.csv
OWNER
    budget: {epsilon: 100, delta: 1e-3, accountant: zcdp}
    columns:
      uid: {type: bigint}
      g: {type: integer, bounds: [1, RUNS], nullable: false}
      x: {type: integer, bounds: [0, 8]}
"""
OWNER = "    owner: uid\n    limits: {max_groups: 1, max_rows_per_group: 1}"
SQL = "SELECT g, COUNT(*), SUM(x) FROM rows GROUP BY g ORDER BY g"
ASKED = (0.04, 0.06, 0.1)
WITHIN = 5  # standard errors


@pytest.mark.parametrize(
    ("level", "runs"),
    [
        ("user", 2000),
        ("event", 2000),
        pytest.param("user", 40_000, marks=pytest.mark.slow),
        pytest.param("event", 40_000, marks=pytest.mark.slow),
    ],
)
def test_the_noise_of_topped_up_answers_is_the_one_that_was_asked(
    tmp_path: Path, level: str, runs: int
) -> None:
    rows = "".join(f"{g},{g},{g % 9}\n" for g in range(1, runs + 1))
    (tmp_path / "rows.csv").write_text(f"uid,g,x\n{rows}", "utf-8")
    text = SCHEMA.replace("LEVEL", level).replace("RUNS", str(runs))
    text = text.replace("OWNER\n", f"{OWNER}\n" if level == "user" else "")
    (tmp_path / "rows.yaml").write_text(text, "utf-8")
    exact = np.array([(1, g % 9) for g in range(1, runs + 1)], dtype=float)
    path = tmp_path / "rows.yaml"
    with dp_sql.connect(path, ledger=":memory:", in_process=True) as connection:
        errors, sigmas = [], []
        for epsilon in ASKED:
            result = connection.sql(SQL, epsilon=epsilon)
            assert bool(result.notes) == (epsilon > ASKED[0])
            errors.append(np.array(result.fetchall(), dtype=float)[:, 1:] - exact)
            (step,) = connection._prepare(SQL, *[epsilon, *[None] * 4]).steps
            spreads = [spread_of(step.plan, step.measurement, {i: Fraction(1)}) for i in range(2)]
            sigmas.append(np.array([spread.standard_deviation for spread in spreads]))
            ends = np.array([row[1:] for row in result.intervals(0.8)], dtype=float)
            held = (ends[..., 0] <= exact) & (exact <= ends[..., 1])
            assert (
                abs(held.mean() - 0.8) <= WITHIN * (0.16 / held.size) ** 0.5 + 0.01
            )  # whole numbers
    for column in range(2):
        for error, sigma in zip(errors, sigmas, strict=True):
            found = error[:, column] / sigma[column]
            rounded = 1 / 12 / sigma[column] ** 2  # answers are whole
            assert abs(np.mean(found**2) - 1 - rounded) <= WITHIN * (2 / runs) ** 0.5
            assert abs(np.mean(found)) <= WITHIN * (1 / runs) ** 0.5
            far = np.mean(np.abs(found) > 1.96)  # and normal
            assert abs(far - 0.05) <= WITHIN * (0.0475 / runs) ** 0.5 + 0.002
        # the mean of an earlier answer and a new one: what is left of its noise is as much as all of it has
        for (one, other), sigma in zip(pairwise(errors), sigmas[1:], strict=True):
            shared = np.mean(one[:, column] * other[:, column]) / sigma[column] ** 2
            assert abs(shared - 1) <= WITHIN * (4 / runs) ** 0.5
