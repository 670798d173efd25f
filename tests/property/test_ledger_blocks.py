"""Any history over blocks: the ledger admits what the definition admits, block by block."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from budget_cases import UNIT, budget, gaussian, laplace, selection, statement
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_sql.budget import open_ledger
from dp_sql.budget.accountant import NOTHING, Filter, fits, price
from dp_sql.budget.record import OWNER, Charge
from dp_sql.errors import BudgetExceededError
from dp_sql.schema.catalog import AccountantKind, BudgetSpec, Cap

CAP = Cap(Fraction(1, 2), Fraction("1e-6"), Fraction("5e-7"))
SPECS = [
    replace(budget("1", "1e-6", AccountantKind.PURE, "1e-6"), blocks="day"),
    replace(budget("1", "2e-6", AccountantKind.SEQUENTIAL, "0"), blocks="day"),
    replace(budget("1", "2e-6", AccountantKind.ZCDP, "1e-6"), blocks="day"),
    replace(budget("1", "2e-6", AccountantKind.RENYI, "1e-6"), blocks="day", cap=CAP),
]
NAMES = ("mon", "tue", "wed", "thu")
FRESH = "a day that nobody named"

costs = st.sampled_from(
    [
        laplace("0.1"),
        laplace("0.25"),
        laplace("0.5"),
        selection("0.1", "4e-7"),
        gaussian(20, "0.3", "1e-7"),
        gaussian(80, "0.1", "1e-7"),
    ]
)
blocks = st.none() | st.frozensets(st.sampled_from(NAMES))
charges = st.builds(Charge, costs, blocks)
asked = st.tuples(st.sampled_from([OWNER, "ada"]), st.lists(charges, min_size=1, max_size=2))
histories = st.lists(asked, max_size=14)


def room(rule: Filter, past: list[Charge]) -> bool:
    """Return whether each day, and one that nobody named, is within the rule."""
    for day in (*NAMES, FRESH):
        touching = [c for c in past if c.blocks is None or day in c.blocks]
        if not fits(rule, sum((price(rule, c.cost) for c in touching), NOTHING), NOTHING):
            return False
    return True


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(SPECS), histories)
def test_a_ledger_admits_what_leaves_every_block_within_its_rule(
    spec: BudgetSpec, history: list[tuple[str, list[Charge]]]
) -> None:
    with open_ledger(":memory:") as ledger:
        ledger.register("t", "t", UNIT, spec)
        (known,) = ledger.registrations()
        past: list[tuple[str, Charge]] = []
        for analyst, batch in history:
            after = [*past, *((analyst, charge) for charge in batch)]
            allowed = room(known.rule, [charge for _, charge in after])
            if analyst != OWNER and known.cap_rule is not None:
                allowed &= room(known.cap_rule, [c for by, c in after if by == analyst])
            try:
                ledger.reserve_all([(statement(analyst=analyst), {"t": c}) for c in batch])
            except BudgetExceededError:
                assert not allowed
            else:
                assert allowed
                past = after
        found = [(e.analyst, e.scope and e.scope.blocks) for e in ledger.entries()]
        assert found == [(by, charge.blocks) for by, charge in past]
        assert ledger.verify().problems == ()
