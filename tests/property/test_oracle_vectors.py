"""The oracle over sums of vectors: what a unit adds is never longer than derived, whatever its rows hold."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import test_oracle
import test_oracle_kept
from oracle.statements import vector_statement

from dp_sql.executor import lower_vector
from dp_sql.plan.vector import NormMeasure
from dp_sql.privacy.contribution import Ball, Change
from dp_sql.privacy.unit import PrivacyUnit
from dp_sql.sensitivity import delta


def test_no_neighbour_moves_a_sum_of_vectors_further_than_derived() -> None:
    test_oracle.COUNTS.clear()
    for index in range(26):
        test_oracle.examine(Random(f"vectors-{index}"), write=vector_statement)
    test_oracle.report("oracle, vectors")
    assert test_oracle.COUNTS["plans"] >= 20
    assert test_oracle.COUNTS["filled"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_neighbour_moves_a_sum_of_vectors_further_than_derived_long(seed: int) -> None:
    test_oracle.COUNTS.clear()
    for index in range(500):
        test_oracle.examine(Random(f"vectors-{seed}-{index}"), write=vector_statement)
    test_oracle.report(f"oracle, vectors, seed {seed}")
    assert test_oracle.COUNTS["plans"] >= 400


def test_no_zeroed_column_moves_a_sum_of_vectors_further_than_derived() -> None:
    test_oracle_kept.COUNTS.clear()
    for index in range(10):
        test_oracle_kept.examine_zeroed(Random(f"zero-vectors-{index}"), vector_statement)
    test_oracle_kept.report("zero_out, vectors")
    assert test_oracle_kept.COUNTS["plans"] >= 8
    assert test_oracle_kept.COUNTS["exact"] >= 5


_MEASURED, _BOUNDED = lower_vector.measured, lower_vector.bounded


def _longer(rows: str, measures: Iterable[tuple[int, NormMeasure]]) -> str:
    """Return rows whose vectors may be three times as long as their measures say."""
    wrong = [
        (index, SimpleNamespace(size=m.size, step=m.step, limit=3 * m.limit, radius=3 * m.radius))
        for index, m in measures
    ]
    return _MEASURED(rows, wrong)  # type: ignore[arg-type]


def _more(pairs: str, measures: Iterable[tuple[int, NormMeasure]], names: Any, most: int) -> str:
    """Return what units add if thrice as many of their rows counted."""
    return _BOUNDED(pairs, measures, names, 3 * most)


def _one_sided(contribution: Ball, groups: int, _: int, unit: PrivacyUnit) -> Change:
    """Return the change of a unit that comes or goes, whatever the adjacency is."""
    single = ((contribution.radius, groups),), ((contribution.even(), groups * contribution.size),)
    return Change(single).scaled(unit.group_size)


MUTANTS: dict[str, tuple[tuple[object, str, object], int]] = {
    "rows thrice as long": ((lower_vector, "measured", _longer), 14),
    "units thrice as long": ((lower_vector, "bounded", _more), 33),
    "substitution as add_remove": ((delta, "_rolled", _one_sided), 56),
}
"""Each with the statement before which nothing is found: those would only take time."""


@pytest.mark.parametrize("name", MUTANTS)
def test_the_oracle_finds_a_wrong_rule_for_vectors(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch, first = MUTANTS[name]
    monkeypatch.setattr(*patch)

    def search() -> None:
        for index in range(first, first + 200):
            test_oracle.examine(Random(f"vector-mutant-{index}"), write=vector_statement)

    with pytest.raises(AssertionError):
        search()
