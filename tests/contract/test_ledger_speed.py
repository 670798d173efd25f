"""A reservation takes as long after ten thousand statements as after one, over many blocks too.

What is bounded is the time of the processor: how long a disk takes to sync is not ours.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from statistics import median
from time import process_time

import pytest
from budget_cases import UNIT, budget, laplace, statement

from dp_sql.budget import open_ledger
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.record import Charge
from dp_sql.schema.catalog import Cap, Renew

STATEMENTS = 10_000
BLOCKS = [f"day {number:04}" for number in range(1000)]
SPEC = replace(
    budget("1000000", "1e-6", selection_delta="5e-7"),
    blocks="day",
    renew=Renew.YEARLY,
    cap=Cap(Fraction(500_000), Fraction("1e-6"), Fraction("5e-7")),
)
CHARGES = {
    "plain": ("plain", Charge(laplace("0.01"))),
    "one block": ("days", Charge(laplace("0.01"), frozenset(BLOCKS[:1]))),
    "30 blocks": ("days", Charge(laplace("0.01"), frozenset(BLOCKS[100:130]))),
    "365 blocks": ("days", Charge(laplace("0.01"), frozenset(BLOCKS[200:565]))),
    "every block": ("days", Charge(laplace("0.01"))),
}


def milliseconds(ledger: Ledger, table: str, charge: Charge) -> float:
    """Return how long the median of 50 reservations keeps the processor."""
    times = []
    for _ in range(50):
        start = process_time()
        ledger.reserve(statement(analyst="ada"), {table: charge})
        times.append(process_time() - start)
    return 1000 * median(times)


@pytest.mark.slow
def test_a_reservation_does_not_grow_with_history(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "shop.ledger") as ledger:
        ledger.register("plain", "plain", UNIT, budget("1000000", "1e-6", selection_delta="5e-7"))
        ledger.register_people("people", UNIT, budget("1000000", "1e-6", selection_delta="5e-7"))
        ledger.register("days", "days", UNIT, SPEC, people="people")
        one = [Charge(laplace("0.1"), frozenset({block})) for block in BLOCKS]
        ledger.reserve_all([(statement(analyst="ada"), {"days": named}) for named in one])
        first = {name: milliseconds(ledger, *asked) for name, asked in CHARGES.items()}
        owed = {"plain": laplace("0.01"), "days": laplace("0.01")}
        for _ in range(0, STATEMENTS, 500):
            ledger.reserve_all([(statement(analyst="ada"), owed) for _ in range(500)])
        last = {name: milliseconds(ledger, *asked) for name, asked in CHARGES.items()}
        for name, before in first.items():
            sys.stdout.write(f"{name}: {before:.2f} ms at first, {last[name]:.2f} ms at last\n")
        assert ledger.verify().problems == ()
    assert max(last[name] for name in ("plain", "one block", "every block")) < 5
    assert all(last[name] < 1.5 * first[name] + 1 for name in CHARGES)
