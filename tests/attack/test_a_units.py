"""Attacks A that need several tables, other people's bounds, or numbers beyond 64 bits."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest
from attack.scene import PEOPLE, person, schema, write

import dp_sql
from dp_sql.mechanisms.release import plus
from dp_sql.mechanisms.sampler import ExactSampler
from dp_sql.mechanisms.sampler_opendp import OpenDPSampler

BOTH = """
  people:
    owner: uid
    budget: {epsilon: 10, delta: 0.1, accountant: sequential}
    columns: {uid: {type: integer}, age: {type: integer, bounds: [0, 120]}}
"""


def test_a38_a_statement_is_charged_to_each_table_that_holds_rows_of_the_person(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, schema("user") + BOTH)
    joined = "SELECT COUNT(*) FROM visits v JOIN people p ON v.uid = p.uid"
    nested = "SELECT COUNT(*) FROM people WHERE uid IN (SELECT uid FROM visits WHERE amount > 50)"
    apart = "SELECT (SELECT COUNT(*) FROM people) + (SELECT SUM(amount) FROM visits) AS both"
    with dp_sql.connect(path, ledger=":memory:") as connection:
        for sql in (joined, nested):
            cost = connection.sql(sql, epsilon="0.5").cost
            assert {name: c.epsilon for name, c in cost.items()} == {
                "people": Fraction(1, 2),
                "visits": Fraction(1, 2),
            }
        parts = connection.sql(apart, epsilon="0.5").cost
        assert set(parts) == {"people", "visits"}
        assert sum(c.epsilon for c in parts.values()) <= Fraction(1, 2)
        alone = connection.sql("SELECT COUNT(*) FROM people", epsilon="0.5").cost
        assert set(alone) == {"people"}


def test_a41_a_rich_newcomer_changes_no_bound_and_no_noise(tmp_path: Path) -> None:
    """What is declared is read from the file alone: texts are equal, whoever the rows are of."""
    sql = "SELECT city, SUM(salary), AVG(age), MAX(age) FROM people GROUP BY city"
    told = set()
    for name, extra in (("less", []), ("more", [person(uid=9, salary=1e300, age=2**31 - 1)])):
        folder = tmp_path / name
        folder.mkdir()
        path = write(folder, schema("event"))
        with duckdb.connect(str(folder / "scene.duckdb")) as data:
            for row in extra:
                data.execute("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            (count,) = data.execute("SELECT count(*) FROM people").fetchall()[0]
        assert count == len(PEOPLE) + len(extra)
        with dp_sql.connect(path, ledger=":memory:") as connection:
            spec = connection.catalog.tables["people"]
            told.add((repr(spec.columns), connection.explain(sql, epsilon=1)))
    assert len(told) == 1


@pytest.mark.parametrize("exact", [2**62, 2**63 - 1, 2**63, -(2**63), 2**100, -(2**126)])
def test_a43_sums_beyond_64_bits_are_added_exactly(exact: int) -> None:
    noise = ExactSampler().laplace(5, 3)
    column = np.array([exact, 0, 1], dtype=object if abs(exact) >= 2**63 else np.int64)
    for lattice in (1, 1024, 2**80):
        assert plus(column, lattice, noise).tolist() == [
            int(e) * lattice + int(n) for e, n in zip(column, noise, strict=True)
        ]


def test_a43_a_huge_sum_neither_raises_nor_wraps(tmp_path: Path) -> None:
    path = write(tmp_path, schema("event"))
    sql = "SELECT SUM(CLAMP(age::HUGEINT * 1000000000000000000000000000, 0, 1e28)) FROM people"
    with dp_sql.connect(path, ledger=":memory:") as connection:
        ((total,),) = connection.sql(sql, epsilon=1000).fetchall()
    assert total == pytest.approx(3e28, rel=0.05)


def test_a44_opendp_is_told_a_scale_that_it_can_hold() -> None:
    """Its map of what the noise costs is never above what is charged: the scale is a whole float."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    for scale in (1, 3, 1023, 2**24 + 1, 2**50 - 1):
        OpenDPSampler().laplace(scale, 1)
        assert int(float(scale)) == scale
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        stated = dp.m.make_laplace(*space, scale=float(scale)).map(d_in=7)
        assert Fraction(stated) <= Fraction(7, scale) * (1 + Fraction(1, 10**12))
