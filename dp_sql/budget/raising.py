"""What a raise of a table's budget may be: more of something, and less of nothing."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dp_sql.budget.record import Registration
from dp_sql.errors import LedgerError
from dp_sql.privacy.amount import show
from dp_sql.schema.catalog import BudgetSpec, Renew

ANEW = (
    "or give the table a new `id`: that starts a second budget, and its people lose at most the sum"
)


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
    changed = [name for name, other in _for_life(known.budget, wanted) if other]
    if changed:
        raise LedgerError(
            f"`{known.name}` was registered with {now}; {' and '.join(changed)} can't change.",
            hint=f"declare {now}, or more of each; {ANEW}",
        )
    fallen = lowered(known.budget, wanted)
    if fallen:
        raise LedgerError(
            f"`{known.name}` has {now}; {budget_words(wanted)} would lower {' and '.join(fallen)}. "
            "A budget is raised, never lowered.",
            hint=f"declare {now}, or more of each",
        )


def lowered(now: BudgetSpec, wanted: BudgetSpec) -> list[str]:
    """Return the names of what `wanted` has less of, or otherwise for life; none for a raise."""
    found = [
        ("accountant", now.accountant is not wanted.accountant),
        ("epsilon", wanted.epsilon < now.epsilon),
        ("delta", wanted.delta < now.delta),
        ("selection_delta", wanted.selection_delta < now.selection_delta),
        ("what selection_delta leaves of delta", _rest(wanted) < _rest(now)),
    ]
    return [name for name, less in (*found, *_for_life(now, wanted), *_caps(now, wanted)) if less]


def _for_life(now: BudgetSpec, wanted: BudgetSpec) -> Iterator[tuple[str, bool]]:
    yield "renew", now.renew is not wanted.renew
    yield "blocks", now.blocks != wanted.blocks
    yield "whether there is a cap per_analyst", (now.cap is None) != (wanted.cap is None)


def _caps(now: BudgetSpec, wanted: BudgetSpec) -> Iterator[tuple[str, bool]]:
    before, after = now.of_analyst, wanted.of_analyst
    if before is None or after is None:
        return
    yield "epsilon per analyst", after.epsilon < before.epsilon
    yield "delta per analyst", after.delta < before.delta
    yield "selection_delta per analyst", after.selection_delta < before.selection_delta
    yield "what that leaves of delta per analyst", _rest(after) < _rest(before)


def _rest(spec: BudgetSpec) -> Fraction:
    return spec.delta - spec.selection_delta


def budget_words(spec: BudgetSpec) -> str:
    """Return a budget in words."""
    words = (
        f"epsilon {show(spec.epsilon)}, delta {show(spec.delta)}, accountant {spec.accountant}, "
        f"selection_delta {show(spec.selection_delta)}"
    )
    if spec.renew is not Renew.NEVER:
        words += f", renew {spec.renew}"
    if spec.blocks is not None:
        words += f", blocks {spec.blocks}"
    if spec.cap is not None:
        words += f", per analyst epsilon {show(spec.cap.epsilon)}, delta {show(spec.cap.delta)}"
    return words
