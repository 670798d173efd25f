"""What is left of a table's budget, and how to say that a statement doesn't fit.

Everything here is a function of amounts in the ledger and of the statement's price, both of which
are public: no message depends on the data or on who asks.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import assert_never

from dp_sql.budget.accountant import DELTA_UNITS, EPSILON_UNITS, Filter, Spend, fits, price
from dp_sql.dataclass import dataclass
from dp_sql.errors import BudgetExceededError, InternalError
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
)
from dp_sql.schema.catalog import AccountantKind

_CHOICE = Fraction(257, 256)  # a choice may cost that much more than its share scaled down says


@dataclass(frozen=True, slots=True)
class Share:
    """How much of one rule of a table is used.

    rule: "epsilon", "renyi", "delta" or "selection_delta". spent: None is infinite. The `renyi`
    accountant admits a statement while its "epsilon" or its "renyi" has room.
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
    pure = _share("epsilon", spent.pure, rule.epsilon, EPSILON_UNITS)
    selection = _share("selection_delta", spent.selection_delta, rule.selection_delta, DELTA_UNITS)
    match rule.kind:
        case AccountantKind.PURE:
            return (pure, selection)
        case AccountantKind.SEQUENTIAL:
            epsilon = _share("epsilon", spent.epsilon, rule.epsilon, EPSILON_UNITS)
            return (epsilon, _share("delta", spent.delta, rule.delta, DELTA_UNITS))
        case AccountantKind.RENYI:
            return (pure, _share("renyi", spent.rdp, max(0, rule.rdp), EPSILON_UNITS), selection)
        case _:
            assert_never(rule.kind)


def repeats(rule: Filter, spent: Spend, spend: Spend) -> int | None:
    """Return how many more statements that each spend `spend` fit, or None if any number does."""
    pure = _repeats(spent.pure, spend.pure, rule.epsilon)
    selection = _repeats(spent.selection_delta, spend.selection_delta, rule.selection_delta)
    match rule.kind:
        case AccountantKind.PURE:
            counts = [pure, selection]
        case AccountantKind.SEQUENTIAL:
            epsilon = _repeats(spent.epsilon, spend.epsilon, rule.epsilon)
            counts = [epsilon, _repeats(spent.delta, spend.delta, rule.delta)]
        case AccountantKind.RENYI:
            renyi = _repeats(spent.rdp, spend.rdp, rule.rdp)
            either = None if pure is None or renyi is None else max(pure, renyi)
            counts = [either, selection]
        case _:
            assert_never(rule.kind)
    return min((count for count in counts if count is not None), default=None)


def largest_epsilon(rule: Filter, spent: Spend, cost: Cost) -> Fraction | None:
    """Return the largest epsilon at which the statement that costs `cost` would fit.

    The result is a decimal number of three significant digits, rounded down, below `cost.epsilon`.
    None where no epsilon above a billionth of `cost.epsilon` fits, and for Gaussian noise, whose
    scale is not in proportion to 1/epsilon.
    """
    if cost.epsilon <= 0 or not all(map(_shrinks, cost.events)):
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


def refusal(table: str, rule: Filter, spent: Spend, cost: Cost) -> BudgetExceededError:
    """Return the error for a statement that costs `cost` and doesn't fit `table`.

    It names the rule that has no room, what is asked and what is left.
    """
    after = spent + price(rule, cost)
    by_rule = {share.rule: share for share in shares(rule, spent)}
    if "delta" in by_rule and after.delta > rule.delta:
        return _delta_refusal(table, "delta", cost.delta, by_rule["delta"])
    if "selection_delta" in by_rule and after.selection_delta > rule.selection_delta:
        asked = Fraction(after.selection_delta - spent.selection_delta, DELTA_UNITS)
        return _delta_refusal(
            table, "the delta of key selection", asked, by_rule["selection_delta"]
        )
    if rule.kind is AccountantKind.PURE and after.pure is None:
        return BudgetExceededError(
            f"`{table}` is guarded by the accountant `pure`, which has no room for Gaussian noise: "
            "no finite epsilon bounds it.",
            hint="ask with delta = 0, which chooses Laplace noise",
        )
    message = (
        f"Asked epsilon {show_up(cost.epsilon)} of `{table}`; {_left(by_rule['epsilon'])} of "
        f"epsilon {show_down(by_rule['epsilon'].budget)} is left{_renyi_left(by_rule, after)}."
    )
    fitting = largest_epsilon(rule, spent, cost)
    if fitting is not None:
        return BudgetExceededError(message, hint=f"epsilon = {show_down(fitting)} would fit")
    if all(map(_shrinks, cost.events)):
        return BudgetExceededError(f"{message} No smaller epsilon fits either.")
    return BudgetExceededError(message, hint="a smaller epsilon")


def _delta_refusal(table: str, rule: str, asked: Fraction, share: Share) -> BudgetExceededError:
    return BudgetExceededError(
        f"Asked {show_up(asked)} of {rule} of `{table}`; {show_down(share.left)} of "
        f"{show_down(share.budget)} is left.",
        hint="a smaller delta, or keys whose values the schema lists: they need no delta",
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


def _share(rule: str, spent: int | None, budget: int, units: int) -> Share:
    return Share(rule, None if spent is None else Fraction(spent, units), Fraction(budget, units))


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
    factor = cost.epsilon / epsilon
    events = tuple(_rescaled(event, factor) for event in cost.events)
    spend = price(rule, replace(cost, epsilon=epsilon, events=events))
    asked = math.ceil(epsilon * EPSILON_UNITS)
    pure = asked if spend.pure is None else min(spend.pure, asked)
    return replace(spend, pure=pure)


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
        case _:
            raise InternalError("the cost of Gaussian noise isn't in proportion to epsilon")


def _shrinks(event: Event) -> bool:
    match event:
        case LaplaceEvent() | PureEvent() | ApproximateEvent():
            return True
        case KeySelectionEvent(noise=noise):
            return not isinstance(noise, GaussianEvent)
        case GaussianEvent() | SampledEvent():
            return False
        case _:
            assert_never(event)
