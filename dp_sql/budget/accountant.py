"""Accountants: the rule that decides whether one more statement fits the budget of a table.

An analyst chooses the next statement, its epsilon and its mechanism, after seeing the last answer.
So every rule here is a *filter*: the claim made when a table is registered holds for each such
choice. All amounts are integers; losses are rounded up to them and budgets down.

Claim:   whatever the analyst does, as long as each statement fits before it runs, all answers that
         read a table are together (epsilon, delta)-DP for its unit and adjacency, where epsilon and
         delta are those it was registered with; under `pure`, (epsilon, selection_delta)-DP.
Why:     Fix two neighbours and let P, Q be the laws of all answers under them. Statement t is a
         pair of laws P_t, Q_t that depends on the past answers alone, and so do its amounts.
         sequential: the sums of (epsilon_t, delta_t) stay below the budget on every path; basic
             composition holds for amounts chosen on the way.
         Key selection: P_t = (1 - d_t) P'_t + d_t P''_t and Q_t likewise, where P'_t and Q'_t
             differ as the noise allows. The part of P in which no step takes its second branch is
             P' times prod (1 - d_t) <= 1, a factor that the past fixes and Q shares; the rest of P
             has mass at most E[sum d_t] <= selection_delta. It remains to show (epsilon, d)-DP for
             P', Q' with d = 0 (pure) and d = delta - selection_delta (renyi, zcdp, advanced).
             A choice by local sensitivity has this form too (`privacy.event.ApproximateEvent`).
         pure: the loss L = ln(dP/dQ) of the transcript is at most the sum of the pure epsilons.
         renyi: one order a > 1 and B = epsilon - c, c = conversion(a, d), are fixed when the table
             is registered. After each statement (i) sum epsilon_t <= epsilon or (ii) sum r_t <= B,
             r_t = RDP_t(a). Amounts never fall, so (i) or (ii) holds of the whole transcript too.
             P(S) - e^epsilon Q(S) <= E_P[(1 - e^(epsilon - L))+] for every S. Where (i) holds
             L <= epsilon, which adds 0. For y = e^(epsilon - L) in (0, 1), (1 - y) y^(a-1) has its
             maximum K = (1/a)(1 - 1/a)^(a-1) at y = 1 - 1/a, so
             (1 - e^(epsilon - L))+ <= K e^((a-1)(L - epsilon)). M_t = e^((a-1)(L_t - r_1 - … - r_t))
             has E_P[M_t | past] <= M_(t-1), because E_P[e^((a-1)(L_t - L_(t-1))) | past] is
             e^((a-1) D_a(P_t || Q_t)) and r_t is fixed by the past; M_t >= 0 and M_0 = 1, so
             E_P[M_end] <= 1. Where (ii) holds e^((a-1)L) <= M_end e^((a-1)B), so these transcripts
             add at most K e^((a-1)(B - epsilon)) = d, which is what c says. Exchange P and Q for
             the other direction. A Gaussian has no finite epsilon: (i) is closed from then on.
         zcdp: r_t = RDP_t(a) is at most a rho_t, so (ii) holds of a transcript whose rho_t add up to
             B / a. Statements are rho_t-zCDP at all orders, so P', Q' are (B / a)-zCDP too.
         advanced: a step is either rho_t-zCDP, S_t = 2 rho_t, or (epsilon_t, delta_t)-DP, with
             S_t = epsilon_t^2. Of the second kind too P_t = (1 - delta_t) P'_t + delta_t P''_t, Q_t
             likewise, where P'_t, Q'_t are epsilon_t-DP both ways: it is treated as key selection is,
             and selection_delta bounds the sum of all delta_t. So P', Q' have RDP_t(a) <= a S_t / 2
             at every a > 1. Let the S_t add up to at most S, s = ln(1/d) and epsilon = S/2 + sqrt(2 S s).
             By M_t, E_P[e^((a-1)(L - a S / 2))] <= 1, and P(L > epsilon) <= e^(-(a-1)(epsilon - a S / 2)),
             which is d at a - 1 = sqrt(2 s / S). P(A) - e^epsilon Q(A) <= P(L > epsilon) for every set A.
         A raise: the owner replaces the amounts of a table by others, none smaller, neither delta's
         two parts nor epsilon; the order a stays. Say that on no path they pass (epsilon*, d*,
         selection_delta*), whatever the owner learns from answers. c(a, d) falls in d, so a path
         that meets (i) or (ii) with its own amounts meets it with those, and all of the above holds
         with them: the promise is that of the highest budget, for the answers before it as well.
Assumes: a statement's amounts are reserved before its answer is drawn (one that is reserved and
         never answered only adds); events bound the divergence for the table's adjacency and group
         size; every draw is independent of the others.
Source:  [Rogers2016] (basic composition, chosen on the way), [FeldmanZrnic2021] and [Lecuyer2021]
         (Rényi filters), [Whitehouse2023] (a delta kept apart, zcdp, advanced), [BunSteinke2016] (zCDP),
         [Kairouz2015] (what an (epsilon, delta) is a mixture of), [CanonneKamathSteinke2020] (K); the
         union of (i) and (ii) is proved here.

`gdp` isn't built: noise on integers is no Gaussian, and by how much its mu grows is not proved.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError
from dp_sql.privacy.concentrated import rho_budget, squares_budget, zcdp
from dp_sql.privacy.cost import Cost
from dp_sql.privacy.event import pure_epsilon, selection_delta
from dp_sql.privacy.renyi import alpha_star, rdp, rdp_budget
from dp_sql.schema.catalog import AccountantKind, BudgetSpec

EPSILON_UNITS = 10**12
"""Units of epsilon and of Rényi divergence in 1."""

DELTA_UNITS = 10**24
"""Units of delta in 1."""


@dataclass(frozen=True, slots=True)
class Spend:
    """What a statement, or a table's whole history, has cost. All accountants' amounts are kept.

    pure: sum of pure epsilons, in 1/EPSILON_UNITS; None is infinite, for ever.
    rdp: sum of what the table's rule takes of each event, in 1/EPSILON_UNITS: its Rényi divergence at the
        table's order (`renyi`), its zCDP (`zcdp`) or its squared epsilon (`advanced`). None is
        infinite, or unknown because the table has no such rule.
    selection_delta: sum of the deltas of key selections and of choices by local sensitivity, in
    1/DELTA_UNITS.
    epsilon, delta: sums of the statements' guarantees, in the same units.
    """

    pure: int | None
    rdp: int | None
    selection_delta: int
    epsilon: int
    delta: int

    def __post_init__(self) -> None:
        for amount in (self.pure, self.rdp, self.selection_delta, self.epsilon, self.delta):
            if amount is not None and (type(amount) is not int or amount < 0):
                raise ValueError("an amount spent is a non-negative integer")

    def __add__(self, other: Spend) -> Spend:
        """Return the sum; infinite stays infinite."""
        return Spend(
            _plus(self.pure, other.pure),
            _plus(self.rdp, other.rdp),
            self.selection_delta + other.selection_delta,
            self.epsilon + other.epsilon,
            self.delta + other.delta,
        )


NOTHING = Spend(0, 0, 0, 0, 0)
"""What a table has spent before its first statement."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The rule of one table, fixed when it is registered.

    alpha: the order at which Rényi divergences are summed, or by which zCDP is converted; None where
        the accountant is neither `renyi` nor `zcdp` or leaves no delta for them.
    epsilon, delta, selection_delta: the budget, in the units of Spend.
    rdp: what Spend.rdp may reach, in 1/EPSILON_UNITS; below 0 where there is no such rule.
    """

    kind: AccountantKind
    alpha: float | None
    epsilon: int
    delta: int
    selection_delta: int
    rdp: int


@dataclass(frozen=True, slots=True)
class Limit:
    """One sum that a rule bounds.

    rule: its name in messages. amount: the field of Spend. budget: in 1/units, as the field is.
    """

    rule: str
    amount: str
    budget: int
    units: int

    def spent(self, spend: Spend) -> int | None:
        """Return what `spend` takes of it; None is infinite."""
        amount: int | None = getattr(spend, self.amount)
        return amount

    def holds(self, spend: Spend) -> bool:
        """Return whether `spend` is within it."""
        amount = self.spent(spend)
        return amount is not None and amount <= self.budget


@lru_cache(maxsize=256)
def limits(rule: Filter) -> tuple[tuple[Limit, ...], ...]:
    """Return what must hold of everything spent: of each part, one of its limits."""
    pure = Limit("epsilon", "pure", rule.epsilon, EPSILON_UNITS)
    selection = Limit("selection_delta", "selection_delta", rule.selection_delta, DELTA_UNITS)
    match rule.kind:
        case AccountantKind.PURE:
            return ((pure,), (selection,))
        case AccountantKind.SEQUENTIAL:
            epsilon = Limit("epsilon", "epsilon", rule.epsilon, EPSILON_UNITS)
            return ((epsilon,), (Limit("delta", "delta", rule.delta, DELTA_UNITS),))
        case AccountantKind.ADVANCED:
            squares = Limit("squares", "rdp", rule.rdp, EPSILON_UNITS)
            own = Limit("statement_delta", "delta", rule.selection_delta, DELTA_UNITS)
            return ((squares,), (own,))
        case AccountantKind.ZCDP:
            return ((Limit("rho", "rdp", rule.rdp, EPSILON_UNITS),), (selection,))
        case AccountantKind.RENYI:
            return ((pure, Limit("renyi", "rdp", rule.rdp, EPSILON_UNITS)), (selection,))
        case _:
            assert_never(rule.kind)


@lru_cache(maxsize=256)
def order_of(spec: BudgetSpec) -> float | None:
    """Return the order by which a table registered now with `spec` will convert Rényi divergences."""
    rest = spec.delta - spec.selection_delta
    if spec.accountant not in (AccountantKind.RENYI, AccountantKind.ZCDP) or rest <= 0:
        return None
    return alpha_star(spec.epsilon, rest)


@lru_cache(maxsize=256)
def filter_of(spec: BudgetSpec, alpha: float | None) -> Filter:
    """Return the rule for a table with the budget `spec`, whose order is `alpha`.

    alpha: `order_of(spec)` of the day on which the table was registered.
    """
    return Filter(
        spec.accountant,
        alpha,
        epsilon=math.floor(spec.epsilon * EPSILON_UNITS),
        delta=math.floor(spec.delta * DELTA_UNITS),
        selection_delta=math.floor(spec.selection_delta * DELTA_UNITS),
        rdp=math.floor(_room(spec, alpha) * EPSILON_UNITS),
    )


def _room(spec: BudgetSpec, alpha: float | None) -> Fraction:
    """Return what Spend.rdp may reach. Under `zcdp` and `advanced` it is at least 0: nothing is free."""
    rest = spec.delta - spec.selection_delta
    match spec.accountant:
        case AccountantKind.PURE | AccountantKind.SEQUENTIAL:
            return Fraction(-1)
        case AccountantKind.RENYI:
            return Fraction(-1) if alpha is None else rdp_budget(spec.epsilon, rest, alpha)
        case AccountantKind.ZCDP:
            room = Fraction(0) if alpha is None else rho_budget(spec.epsilon, rest, alpha)
            return max(Fraction(0), room)
        case AccountantKind.ADVANCED:
            return squares_budget(spec.epsilon, rest) if rest > 0 else Fraction(0)
        case _:
            assert_never(spec.accountant)


def price(rule: Filter, cost: Cost) -> Spend:
    """Return what `cost` takes from a table with that rule, each amount rounded up.

    Raises InternalError for a cost that names no event.
    """
    if not cost.events and (cost.epsilon or cost.delta):
        raise InternalError("a cost above zero must name the events that it pays for")
    losses = [pure_epsilon(event) for event in cost.events]
    finite = [loss for loss in losses if loss is not None]
    pure = sum(finite, Fraction(0)) if len(finite) == len(losses) else None
    divergence = _divergence(rule, cost)
    selected = sum(map(selection_delta, cost.events), Fraction(0))
    return Spend(
        None if pure is None else _up(pure, EPSILON_UNITS),
        None if divergence is None else _up(divergence, EPSILON_UNITS),
        _up(selected, DELTA_UNITS),
        _up(cost.epsilon, EPSILON_UNITS),
        _up(max(cost.delta, selected), DELTA_UNITS),
    )


def fits(rule: Filter, spent: Spend, spend: Spend) -> bool:
    """Return whether a table that has spent `spent` may spend `spend` too."""
    after = spent + spend
    return all(any(limit.holds(after) for limit in part) for part in limits(rule))


def _divergence(rule: Filter, cost: Cost) -> Fraction | None:
    """Return what the rule sums of the cost's events, or None where it is infinite or unknown."""
    match rule.kind:
        case AccountantKind.RENYI if rule.alpha is not None:
            losses = [rdp(event, rule.alpha) for event in cost.events]
            return None if any(map(math.isinf, losses)) else sum(map(Fraction, losses), Fraction(0))
        case AccountantKind.ZCDP:
            return sum(map(zcdp, cost.events), Fraction(0))
        case AccountantKind.ADVANCED:
            return sum(map(_square, cost.steps), Fraction(0))
        case _:
            return None


def _square(step: Cost) -> Fraction:
    """Return the squared epsilon of one step of advanced composition: of each event, if all are pure."""
    if None in map(pure_epsilon, step.events):
        return step.epsilon**2
    return 2 * sum(map(zcdp, step.events), Fraction(0))


def _up(amount: Fraction, units: int) -> int:
    return math.ceil(amount * units)


def _plus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
