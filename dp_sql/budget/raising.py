"""What a raise of a table's budget may be: more of something, and less of nothing."""

from __future__ import annotations

from fractions import Fraction

from dp_sql.budget.record import Registration
from dp_sql.errors import LedgerError
from dp_sql.privacy.amount import show
from dp_sql.schema.catalog import BudgetSpec


def check_raise(known: Registration, wanted: BudgetSpec) -> None:
    """Raise LedgerError unless `wanted` is more than a table's budget, and in nothing less."""
    now = budget_words(known.budget)
    if known.budget == wanted:
        raise LedgerError(
            f"`{known.name}` has {now} already.", hint="declare the new budget in the schema first"
        )
    if wanted.accountant is not known.spec.accountant:
        raise LedgerError(
            f"`{known.name}` is guarded by the accountant {known.spec.accountant} for life.",
            hint=f"accountant: {known.spec.accountant}",
        )
    fallen = lowered(known.budget, wanted)
    if fallen:
        raise LedgerError(
            f"`{known.name}` has {now}; {budget_words(wanted)} would lower {' and '.join(fallen)}. "
            "A budget is raised, never lowered.",
            hint=f"declare {now}, or more of each",
        )


def lowered(now: BudgetSpec, wanted: BudgetSpec) -> list[str]:
    """Return the names of what `wanted` has less of, or another accountant; none for a raise."""
    found = [
        ("accountant", now.accountant is not wanted.accountant),
        ("epsilon", wanted.epsilon < now.epsilon),
        ("delta", wanted.delta < now.delta),
        ("selection_delta", wanted.selection_delta < now.selection_delta),
        ("what selection_delta leaves of delta", _rest(wanted) < _rest(now)),
    ]
    return [name for name, less in found if less]


def _rest(spec: BudgetSpec) -> Fraction:
    return spec.delta - spec.selection_delta


def budget_words(spec: BudgetSpec) -> str:
    """Return a budget in words."""
    return (
        f"epsilon {show(spec.epsilon)}, delta {show(spec.delta)}, accountant {spec.accountant}, "
        f"selection_delta {show(spec.selection_delta)}"
    )
