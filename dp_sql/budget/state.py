"""How a table's budget stands: what is registered, used and left of each of its accounts, in words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from fractions import Fraction

from dp_sql.budget.accountant import Filter, Spend, price
from dp_sql.budget.left import Share, repeats, shares
from dp_sql.budget.record import Registration
from dp_sql.dataclass import dataclass
from dp_sql.privacy.amount import show, show_down, show_up
from dp_sql.privacy.cost import Cost
from dp_sql.schema.catalog import BudgetSpec, Renew

_RULES = {
    "epsilon": "epsilon",
    "renyi": "Rényi",
    "rho": "zCDP",
    "squares": "squares of epsilon",
    "delta": "delta",
    "statement_delta": "delta of statements",
    "selection_delta": "delta of key selection",
}
_SPANS = {
    Renew.DAILY: "day",
    Renew.WEEKLY: "week",
    Renew.MONTHLY: "month",
    Renew.YEARLY: "year",
}


@dataclass(frozen=True, slots=True)
class Part:
    """The account of one analyst, in the period that is now. spent: as BudgetState has it."""

    analyst: str
    rule: Filter
    spent: Spend

    @property
    def shares(self) -> tuple[Share, ...]:
        """What is used of each of its rules."""
        return shares(self.rule, self.spent)


@dataclass(frozen=True, slots=True)
class Period:
    """The period that a charge of now goes to. until: the first day of the next, in UTC.

    early: whether it began before its time, since a clock was ahead.
    """

    name: str
    until: date | None
    early: bool = False


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A table's budget as it stands.

    statements: how many were charged to it, ever. spent: in the period that is now; of a table with
    blocks the most of each amount that any block has. fresh: what a block without charges of its own
    has spent. repeats: how many more like the last statement fit all accounts, None where any number
    does or there was none. parts: of the analyst who looks, or of all for the owner. people: the
    budget over all tables. own: whether an analyst looks.
    """

    registration: Registration
    statements: int
    spent: Spend
    fresh: Spend
    repeats: int | None
    period: Period | None = None
    parts: tuple[Part, ...] = ()
    people: BudgetState | None = None
    own: bool = False

    @property
    def shares(self) -> tuple[Share, ...]:
        """What is used of each of its rules."""
        return shares(self.registration.rule, self.spent)

    def lines(self) -> tuple[str, ...]:
        """Return the budget in sentences: what is registered, what is used, how many more fit."""
        known = self.registration
        budget = known.budget
        texts = [f"budget: {_amounts(budget)} ({budget.accountant.value} accountant)"]
        if known.raised is not None:
            texts.append(f"raised; registered with epsilon {show(known.spec.epsilon)}")
        texts += self._period_lines()
        if budget.blocks is not None:
            texts.append(f"for each {budget.block_column}; of the one that has spent most:")
        texts += _used(self.shares)
        if budget.blocks is not None:
            texts.append(f"a {budget.block_column} that nobody asked alone: {self._fresh()}")
        texts += self._part_lines()
        if self.people is not None:
            over_all = self.people.registration
            used = _sentence(self.people.shares)
            texts.append(f"{over_all.account}, {_amounts(over_all.budget)}: {used}")
        if self.statements and self.repeats is not None:
            texts.append(f"{self.repeats} more like the last statement fit")
        return tuple(texts)

    @property
    def used(self) -> tuple[str, ...]:
        """What is used and left of each of its rules, in sentences."""
        return tuple(_used(self.shares))

    def _period_lines(self) -> list[str]:
        if self.period is None:
            return []
        span = _SPANS[self.registration.spec.renew]
        until = "" if self.period.until is None else f" until {self.period.until} (UTC)"
        early = ", begun early by a clock that was ahead" if self.period.early else ""
        text = (
            f"for each {span}, not for all time; this {span} is {self.period.name}{until}{early}. "
            f"Over several {span}s a unit may lose the sum"
        )
        return [text]

    def _part_lines(self) -> list[str]:
        cap = self.registration.budget.of_analyst
        if cap is None:
            return []
        texts = [f"each analyst: {_amounts(cap)}"]
        return texts + [f"  {part.analyst}: {_sentence(part.shares)}" for part in self.parts]

    def _fresh(self) -> str:
        left = shares(self.registration.rule, self.fresh)
        return ", ".join(f"{_RULES[s.rule]} {show_down(s.left)} left" for s in left if s.budget)

    def taken(self, cost: Cost) -> str:
        """Return, in a line, what a statement of that cost would take of each rule, and how many fit.

        That it fits the budget over all tables too isn't looked at: ask `people` with all its costs.
        """
        rule = self.registration.rule
        spend = price(rule, cost)
        texts = []
        for share in shares(rule, spend):
            if share.spent is None:
                texts.append(f"{_RULES[share.rule]} closed by it")
            elif share.spent and share.budget:
                texts.append(f"{_RULES[share.rule]} {show_up(share.spent)} ({_percent(share)})")
        fits = [repeats(rule, self.spent, spend)]
        own = self.parts if self.own else ()
        fits += [repeats(part.rule, part.spent, price(part.rule, cost)) for part in own]
        fit = fewest(fits)
        more = "" if fit is None else f"; {fit} like it fit" if fit != 1 else "; 1 like it fits"
        return f"takes {', '.join(texts) or 'nothing'}{more}"

    def left(self) -> str:
        """Return, in a line, what is left of each rule in use and how often the last would fit."""
        texts = [_left(self.shares)]
        texts += [f"{part.analyst}: {_left(part.shares)}" for part in self.parts if self.own]
        if self.people is not None:
            texts.append(f"each {self.people.registration.name}: {_left(self.people.shares)}")
        if self.repeats is not None:
            texts.append(f"{self.repeats} more like this")
        return "; ".join(texts)


def fewest(counts: Iterable[int | None]) -> int | None:
    """Return the least of some counts, of which None is any number."""
    return min((count for count in counts if count is not None), default=None)


def _amounts(budget: BudgetSpec) -> str:
    delta = f", delta {show(budget.delta)}" if budget.delta else ""
    return f"epsilon {show(budget.epsilon)}{delta}"


def _used(used: tuple[Share, ...]) -> list[str]:
    """Return what is used and left of each rule."""
    texts = []
    for share in used:
        if share.budget == 0 and share.spent == 0:
            continue
        amount = "closed" if share.spent is None else f"{_percent(share)} used"
        texts.append(f"{_RULES[share.rule]}: {amount}, {show_down(share.left)} left")
    return texts


def _left(used: tuple[Share, ...]) -> str:
    return ", ".join(
        f"{_RULES[share.rule]} {show_down(share.left)} of {show_down(share.budget)}"
        for share in used
        if share.spent
    )


def _sentence(used: tuple[Share, ...]) -> str:
    return "; ".join(_used(used))


def _percent(share: Share) -> str:
    spent = Fraction(0) if share.spent is None else share.spent
    return f"{float(100 * spent / share.budget):.3g} %" if share.budget else "100 %"
