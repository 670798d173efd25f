"""Budgets, limits, defaults and caps: exact amounts, and which of them go together."""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from dp_sql.privacy.amount import show
from dp_sql.privacy.unit import Level
from dp_sql.schema import models
from dp_sql.schema.catalog import AccountantKind, BudgetSpec, Cap, Limits, PrivacyDefaults, Renew
from dp_sql.schema.document import Document, Where, dotted

_NEED_DELTA = (AccountantKind.RENYI, AccountantKind.ZCDP, AccountantKind.ADVANCED)


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
    cap = _cap(document, (*where, "per_analyst"), budget, kind, selection)
    return BudgetSpec(budget.epsilon, delta, kind, selection, Renew(budget.renew), blocks, cap)


def _cap(
    document: Document,
    where: Where,
    budget: models.Budget,
    kind: AccountantKind,
    selection: Fraction,
) -> Cap | None:
    """Return what each named analyst may spend; raise SchemaError for more than all may together.

    selection: the table's selection_delta. The cap's delta is divided in the same proportion.
    """
    cap = budget.per_analyst
    if cap is None:
        return None
    if cap.epsilon is None:
        raise document.error(
            where, f"{dotted(where)} needs an epsilon.", hint=f"epsilon: {show(budget.epsilon / 2)}"
        )
    whole = Fraction(0) if budget.delta is None else budget.delta
    delta = whole if cap.delta is None else cap.delta
    for key, own, all_of_it in (("epsilon", cap.epsilon, budget.epsilon), ("delta", delta, whole)):
        if own > all_of_it:
            raise document.error(
                (*where, key),
                f"{dotted((*where, key))}: one analyst may spend {show(own)}, and all together "
                f"{show(all_of_it)}.",
                hint=f"at most {show(all_of_it)}",
            )
    if delta == 0 and kind in _NEED_DELTA:
        raise document.error(
            (*where, "delta"),
            f"{dotted(where)}: the accountant {kind} needs a delta above 0.",
            hint="remove it: the delta is then the table's",
        )
    return Cap(cap.epsilon, delta, delta * selection / whole if whole else Fraction(0))


def people_spec(document: Document, privacy: models.Privacy) -> BudgetSpec | None:
    """Return the budget of a unit over all tables; raise SchemaError where it can't have one.

    Its accountant is renyi where it has a delta, half of which is for key selection, else pure.
    """
    budget, where = privacy.budget, ("privacy", "budget")
    if budget is None:
        return None
    if privacy.level != Level.USER.value:
        raise document.error(
            where,
            "privacy.budget: at level event a unit is one row of one table.",
            hint="remove it: each table's budget is that of its rows",
            key=True,
        )
    if budget.epsilon is None:
        raise document.error(where, "privacy.budget needs an epsilon.", hint="epsilon: 10")
    if privacy.unit is None:
        raise document.error(
            where,
            "privacy.budget belongs to a unit that has a name: the ledger keeps it under that.",
            hint="privacy: {unit: customer, …}",
            key=True,
        )
    delta = Fraction(0) if budget.delta is None else budget.delta
    kind = AccountantKind.RENYI if delta else AccountantKind.PURE
    return BudgetSpec(budget.epsilon, delta, kind, delta / 2)


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
