"""A clock that jumps about: no period twice, no budget overspent, a chain that verifies."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from budget_cases import UNIT, budget, laplace, statement

from dp_sql.budget import open_store
from dp_sql.budget.export import verify_export
from dp_sql.budget.ledger import Ledger
from dp_sql.errors import BudgetExceededError
from dp_sql.schema.catalog import AccountantKind, Renew

ONE = budget("1", "0", AccountantKind.PURE, "0")
START = datetime(2026, 11, 30, tzinfo=UTC)


class Jumping:
    """A clock that goes on, back, and far ahead, as a generator says."""

    def __init__(self, chances: random.Random) -> None:
        self._chances = chances

    def __call__(self) -> datetime:
        if self._chances.random() < 0.02:
            return START + timedelta(days=self._chances.randrange(-(10**4), 10**4))
        return START + timedelta(days=self._chances.gauss(0, 40))


def jumped(where: str | Path, tries: int, seed: int) -> None:
    chances = random.Random(seed)
    clock = Jumping(chances)
    ledger = Ledger(open_store(where), clock)
    for renew in Renew:
        ledger.register(renew.value, renew.value, UNIT, replace(ONE, renew=renew))
    refused = 0
    for _ in range(tries):
        renew, asked = chances.choice(list(Renew)), chances.choice(["0.5", "0.25", "0.125"])
        try:
            ledger.reserve(statement(), {renew.value: laplace(asked)})
        except BudgetExceededError:
            refused += 1
        if str(where) != ":memory:" and chances.random() < 0.1:
            ledger.close()
            ledger = Ledger(open_store(where), clock)
    spent: Counter[tuple[str, str]] = Counter()
    last: dict[str, str] = {}
    for entry in ledger.entries():
        period = "" if entry.scope is None else entry.scope.period
        assert period >= last.get(entry.identity, "")
        last[entry.identity] = period
        spent[entry.identity, period] += entry.spend.pure or 0
    problems, lines = ledger.verify().problems, list[str]()
    ledger.export(lines.append)
    ledger.close()
    print(f"{tries} jumps, {refused} refused, {len(spent)} periods, {problems}")  # noqa: T201
    assert refused > tries / 20
    assert len(spent) > 5
    assert max(spent.values()) <= Fraction(10**12)
    assert problems == ()
    assert verify_export(lines).problems == ()


def test_a_clock_that_jumps_gives_no_period_twice(anywhere: str | Path) -> None:
    jumped(anywhere, tries=50, seed=1)


@pytest.mark.slow
def test_a_clock_that_jumps_a_thousand_times_gives_no_period_twice(anywhere: str | Path) -> None:
    jumped(anywhere, tries=1000, seed=2)
