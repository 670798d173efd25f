"""Budgets, limits, defaults and caps: exact amounts, and which of them go together."""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from dp_sql.privacy.amount import show
from dp_sql.privacy.unit import Level
from dp_sql.schema import models
from dp_sql.schema.catalog import AccountantKind, BudgetSpec, Limits, PrivacyDefaults
from dp_sql.schema.document import Document, Where, dotted


def budget_spec(
    document: Document, where: Where, budget: models.Budget, blocks: str | None
) -> BudgetSpec:
    """Return a table's budget, its delta divided; raise SchemaError for amounts that clash.

    blocks: as BudgetSpec has it.
    """
    kind = AccountantKind(budget.accountant)
    delta = Fraction(0) if budget.delta is None else budget.delta
    selection = budget.selection_delta
    match kind:
        case AccountantKind.RENYI | AccountantKind.ZCDP | AccountantKind.ADVANCED:
            if delta == 0:
                raise document.error(
                    where if budget.delta is None else (*where, "delta"),
                    f"{dotted(where)}: the accountant {kind} needs a delta above 0.",
                    hint="delta: 1e-6, or accountant: pure",
                )
            if selection is not None and selection >= delta:
                raise document.error(
                    (*where, "selection_delta"),
                    f"{dotted(where)}: selection_delta {show(selection)} leaves nothing of the "
                    f"delta {show(delta)} for the noise.",
                    hint="a part of delta, such as half of it",
                )
            selection = delta / 2 if selection is None else selection
        case AccountantKind.SEQUENTIAL:
            if selection is not None and selection > delta:
                raise document.error(
                    (*where, "selection_delta"),
                    f"{dotted(where)}: selection_delta {show(selection)} is more than the whole "
                    f"delta {show(delta)}.",
                    hint="at most delta",
                )
            selection = delta if selection is None else selection
        case AccountantKind.PURE:
            if selection is not None and selection != delta:
                raise document.error(
                    (*where, "selection_delta"),
                    f"{dotted(where)}: with the accountant pure all of delta ({show(delta)}) is "
                    "for key selection.",
                    hint="remove selection_delta, or make it equal to delta",
                )
            selection = delta
        case _:
            assert_never(kind)
    return BudgetSpec(budget.epsilon, delta, kind, selection, blocks=blocks)


def limits_spec(
    document: Document, where: Where, limits: models.Limits | None, level: Level
) -> Limits:
    """Return a protected table's limits: 1 group and 1 row where the file says nothing.

    At level event a unit is one row, so other limits than 1 are refused: they would promise
    something that nothing enforces.
    """
    if limits is None:
        return Limits(max_groups=1, max_rows_per_group=1)
    if level is Level.EVENT:
        for key, number in (
            ("max_groups", limits.max_groups),
            ("max_rows_per_group", limits.max_rows_per_group),
        ):
            if number != 1:
                raise document.error(
                    (*where, key),
                    f"{dotted((*where, key))}: at level event a unit is one row of one group.",
                    hint="remove it, or protect users: privacy: {level: user}",
                )
    return Limits(limits.max_groups, limits.max_rows_per_group, limits.min_units_per_group)


def privacy_defaults(document: Document, privacy: models.Privacy) -> PrivacyDefaults:
    """Return defaults and caps; raise SchemaError where a default is above its cap."""
    defaults = privacy.defaults or models.Amounts()
    caps = privacy.caps or models.Amounts()
    for key, default, cap in (
        ("epsilon", defaults.epsilon, caps.epsilon),
        ("delta", defaults.delta, caps.delta),
    ):
        if default is not None and cap is not None and default > cap:
            raise document.error(
                ("privacy", "defaults", key),
                f"privacy.defaults.{key} {show(default)} is above the cap {show(cap)}.",
                hint="lower the default, or raise privacy.caps",
            )
    return PrivacyDefaults(defaults.epsilon, defaults.delta, caps.epsilon, caps.delta)
