"""What is left of a table's budget, and how to say that a statement doesn't fit.

Everything here is a function of amounts in the ledger and of the statement's price, both of which
are public: no message depends on the data or on who asks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import assert_never

from dp_sql.budget.accountant import EPSILON_UNITS, Filter, Limit, Spend, fits, limits, price
from dp_sql.dataclass import dataclass
from dp_sql.errors import BudgetExceededError
from dp_sql.privacy.amount import show_down, show_up
from dp_sql.privacy.cost import Cost
from dp_sql.privacy.event import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    KeySelectionEvent,
    LaplaceEvent,
    PureEvent,
    SampledEvent,
    pure_epsilon,
)
from dp_sql.schema.catalog import AccountantKind

_DELTAS = {
    "delta": "delta",
    "statement_delta": "the delta of statements",
    "selection_delta": "the delta of key selection",
}
_SUMS = {
    "rho": "which is zCDP of {}",
    "squares": "whose square counts {}",
}
_CHOICE = Fraction(257, 256)  # a choice may cost that much more than its share scaled down says


@dataclass(frozen=True, slots=True)
class Share:
    """How much of one rule of a table is used.

    rule: "epsilon", "renyi", "rho" (zCDP), "squares" (of epsilons), "delta", "statement_delta" or
    "selection_delta". spent: None is infinite. The `renyi` accountant admits a statement while its
    "epsilon" or its "renyi" has room; all others need room in each.
    """

    rule: str
    spent: Fraction | None
    budget: Fraction

    @property
    def left(self) -> Fraction:
        """What may still be spent; at least 0."""
        return Fraction(0) if self.spent is None else max(Fraction(0), self.budget - self.spent)


def shares(rule: Filter, spent: Spend) -> tuple[Share, ...]:
    """Return what is used of each rule that guards the table."""
    return tuple(_share(limit, spent) for part in limits(rule) for limit in part)


def fullness(rule: Filter, spent: Spend) -> Fraction:
    """Return the share of a budget that is used: of each part the rule with most room, the fullest part."""
    parts = ([_used(_share(limit, spent)) for limit in part] for part in limits(rule))
    return max(min(part) for part in parts)


def _used(share: Share) -> Fraction:
    if share.spent is None:
        return Fraction(1)
    return share.spent / share.budget if share.budget else Fraction(share.spent > 0)


def repeats(rule: Filter, spent: Spend, spend: Spend) -> int | None:
    """Return how many more statements that each spend `spend` fit, or None if any number does."""
    counts = []
    for part in limits(rule):
        found = [_repeats(limit.spent(spent), limit.spent(spend), limit.budget) for limit in part]
        if None not in found:
            counts.append(max(count for count in found if count is not None))
    return min(counts, default=None)


def largest_epsilon(rule: Filter, spent: Spend, cost: Cost) -> Fraction | None:
    """Return the largest epsilon at which the statement that costs `cost` would fit.

    The result is a decimal number of three significant digits, rounded down, below `cost.epsilon`.
    None where no epsilon above a billionth of `cost.epsilon` fits, and for Gaussian noise where the rule
    looks at its scale, which is not in proportion to 1/epsilon.
    """
    if cost.epsilon <= 0 or not _shrinks(rule, cost):
        return None
    step = Fraction(10) ** (_magnitude(cost.epsilon) - 9)
    low, high = 0, math.ceil(cost.epsilon / step) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if fits(rule, spent, _at(rule, cost, middle * step)):
            low = middle
        else:
            high = middle - 1
    if low == 0:
        return None
    digit = Fraction(10) ** (_magnitude(low * step) - 2)
    return math.floor(low * step / digit) * digit


@dataclass(frozen=True, slots=True)
class Refused:
    """An account that has no room. account: as it stands in a sentence. cost: what was asked of it.

    shared: whether the cost is the sum of several tables' and not what the statement asked of one.
    """

    account: str
    rule: Filter
    spent: Spend
    cost: Cost
    shared: bool = False


def tightest(refused: Sequence[Refused]) -> Refused:
    """Return the one of some refusals of one account that leaves the least."""
    by_spent = {(one.spent, one.cost.epsilon): one for one in reversed(refused)}
    if len(by_spent) == 1:
        return refused[0]
    return min(by_spent.values(), key=lambda o: largest_epsilon(o.rule, o.spent, o.cost) or 0)


def refusal_of_all(refused: Sequence[Refused]) -> BudgetExceededError:
    """Return the error for a statement that some accounts have no room for; its hint suits them all."""
    errors = [refusal(one.account, one.rule, one.spent, one.cost) for one in refused]
    message = " ".join(error.message for error in errors)
    other = next((error for error in errors if not error.by_epsilon), None)
    if other is not None:
        return BudgetExceededError(message, hint=other.hint, by_epsilon=False)
    if any(one.shared for one in refused):
        return BudgetExceededError(message, hint="a smaller epsilon: the cost to each table counts")
    fitting = [error.fitting for error in errors if error.fitting is not None]
    if len(fitting) < len(errors):
        return BudgetExceededError(message)
    return BudgetExceededError(message, hint=would_fit(min(fitting)), fitting=min(fitting))


def refusal(account: str, rule: Filter, spent: Spend, cost: Cost) -> BudgetExceededError:
    """Return the error for a statement that costs `cost` and doesn't fit an account.

    account: what has no room, as it stands in a sentence ("`orders`"). The error names the
    rule that has no room, what is asked and what is left.
    """
    asked = price(rule, cost)
    after = spent + asked
    for (limit,) in (part for part in limits(rule) if len(part) == 1):
        if limit.rule in _DELTAS and not limit.holds(after):
            return _delta_refusal(account, _share(limit, asked), _share(limit, spent))
    if rule.kind is AccountantKind.PURE and after.pure is None:
        return BudgetExceededError(
            f"{account} is guarded by the accountant `pure`, which has no room for Gaussian noise: "
            "no finite epsilon bounds it.",
            hint="ask with delta = 0, which chooses Laplace noise",
            by_epsilon=False,
        )
    by_rule = {share.rule: share for share in shares(rule, spent)}
    what = f"Asked epsilon {show_up(cost.epsilon)} of {account}"
    if "epsilon" in by_rule:
        left = by_rule["epsilon"]
        message = (
            f"{what}; {_left(left)} of epsilon {show_down(left.budget)} is left"
            f"{_renyi_left(by_rule, after)}."
        )
    else:
        (name,) = by_rule.keys() & _SUMS.keys()
        sum_of = _SUMS[name].format(show_up(Fraction(asked.rdp or 0, EPSILON_UNITS)))
        left = by_rule[name]
        message = f"{what}, {sum_of}; {_left(left)} of {show_down(left.budget)} is left."
    fitting = largest_epsilon(rule, spent, cost)
    hint = None if fitting is None else would_fit(fitting)
    return BudgetExceededError(message, hint=hint, fitting=fitting)


def would_fit(epsilon: Fraction) -> str:
    """Return the hint that names an epsilon."""
    return f"epsilon = {show_down(epsilon)} would fit"


def _delta_refusal(account: str, asked: Share, left: Share) -> BudgetExceededError:
    return BudgetExceededError(
        f"Asked {show_up(asked.spent or Fraction(0))} of {_DELTAS[left.rule]} of {account}; "
        f"{show_down(left.left)} of {show_down(left.budget)} is left.",
        hint="a smaller delta, or keys whose values the schema lists: they need no delta",
        by_epsilon=False,
    )


def _left(share: Share) -> str:
    return "nothing" if share.left == 0 else show_down(share.left)


def _renyi_left(by_rule: dict[str, Share], after: Spend) -> str:
    """Return what to add to a refusal about the second of the two rules of `renyi`."""
    share = by_rule.get("renyi")
    if share is None or share.budget == 0:
        return ""
    if after.rdp is None or share.spent is None:
        return " as a plain sum, and the statement is beyond the Rényi rule"
    asked = Fraction(after.rdp, EPSILON_UNITS) - share.spent
    return (
        f" as a plain sum, and {_left(share)} of {show_down(share.budget)} by the Rényi rule, "
        f"of which the statement asks {show_up(asked)}"
    )


def _share(limit: Limit, spend: Spend) -> Share:
    spent = limit.spent(spend)
    used = None if spent is None else Fraction(spent, limit.units)
    return Share(limit.rule, used, Fraction(max(0, limit.budget), limit.units))


def _magnitude(amount: Fraction) -> int:
    """Return the power of ten of the first digit of an amount above 0."""
    context = Context(prec=9, rounding=ROUND_FLOOR)
    return context.divide(Decimal(amount.numerator), Decimal(amount.denominator)).adjusted()


def _repeats(spent: int | None, spend: int | None, budget: int) -> int | None:
    """Return how often `spend` fits into what is left of one rule; None is any number of times."""
    if spent is None or spend is None or spent > budget:
        return 0
    return None if spend == 0 else (budget - spent) // spend


def _at(rule: Filter, cost: Cost, epsilon: Fraction) -> Spend:
    """Return an upper bound of what the statement would spend if it asked `epsilon`.

    Scales grow as epsilon shrinks. The scale in `cost` was rounded up from a number greater than
    scale - 1, so the new one is at least (scale - 1) times the factor, rounded up; and the
    statement's pure cost never exceeds the epsilon it asks. A choice costs at least 255/256 of its share.
    """
    spend = price(rule, _shrunk(cost, cost.epsilon / epsilon))
    asked = math.ceil(epsilon * EPSILON_UNITS)
    pure = asked if spend.pure is None else min(spend.pure, asked)
    return replace(spend, pure=pure)


def _shrunk(cost: Cost, factor: Fraction) -> Cost:
    events = tuple(_rescaled(event, factor) for event in cost.events)
    parts = tuple(_shrunk(part, factor) for part in cost.parts)
    return replace(cost, epsilon=cost.epsilon / factor, events=events, parts=parts)


def _rescaled(event: Event, factor: Fraction) -> Event:
    match event:
        case LaplaceEvent(scale=scale, change=change):
            return LaplaceEvent(max(1, math.ceil((scale - 1) * factor)), change)
        case KeySelectionEvent(noise=LaplaceEvent(scale=scale, change=change), delta=delta):
            noise = LaplaceEvent(max(1, math.ceil((scale - 1) * factor)), change)
            return KeySelectionEvent(noise, delta)
        case KeySelectionEvent(noise=PureEvent(epsilon=epsilon), delta=delta):
            return KeySelectionEvent(PureEvent(epsilon / factor), delta)
        case PureEvent(epsilon=epsilon):
            return PureEvent(epsilon * _CHOICE / factor)
        case ApproximateEvent(epsilon=epsilon, delta=delta):
            return ApproximateEvent(epsilon / factor, delta)
        case GaussianEvent() | KeySelectionEvent() | SampledEvent():
            return event
        case _:
            assert_never(event)


def _shrinks(rule: Filter, cost: Cost) -> bool:
    """Return whether `_at` knows what a smaller epsilon would cost.

    The rules that look at a statement's epsilon and delta take Gaussian noise by those, and noise on
    a sample, whose epsilon isn't in proportion to its scale.
    """
    by_guarantee = rule.kind in (AccountantKind.SEQUENTIAL, AccountantKind.ADVANCED)
    known = (not isinstance(e, SampledEvent) and pure_epsilon(e) is not None for e in cost.events)
    return by_guarantee or all(known)
