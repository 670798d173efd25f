"""Costs, budgets and units that tests of accountants and ledgers share."""

from __future__ import annotations

import math
from fractions import Fraction
from uuid import uuid4

from dp_sql.budget.accountant import Filter, filter_of, order_of
from dp_sql.budget.record import StatementRecord
from dp_sql.privacy.contribution import Change
from dp_sql.privacy.cost import Cost
from dp_sql.privacy.event import GaussianEvent, KeySelectionEvent, LaplaceEvent, PureEvent
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.catalog import AccountantKind, BudgetSpec

UNIT = PrivacyUnit(Level.USER, Adjacency.ADD_REMOVE)


def one_coordinate(shift: int) -> Change:
    return Change((((shift, 1),),))


def laplace(epsilon: str) -> Cost:
    """Return the cost of one count at a decimal epsilon whose inverse times 16 is an integer."""
    exact = Fraction(epsilon)
    scale = 16 / exact
    assert scale.denominator == 1
    return Cost(exact, Fraction(0), (LaplaceEvent(scale.numerator, one_coordinate(16)),))


def fine_laplace(epsilon: Fraction | str) -> Cost:
    """Return the cost of a count on a lattice of 2^20 steps, its scale rounded up."""
    exact = Fraction(epsilon)
    scale = math.ceil(2**20 / exact)
    return Cost(exact, Fraction(0), (LaplaceEvent(scale, one_coordinate(2**20)),))


def gaussian(sigma: int, epsilon: str = "1", delta: str = "1e-9") -> Cost:
    return Cost(Fraction(epsilon), Fraction(delta), (GaussianEvent(sigma, 1),))


def selection(epsilon: str, delta: str) -> Cost:
    plain = laplace(epsilon)
    (noise,) = plain.events
    assert isinstance(noise, LaplaceEvent)
    event = KeySelectionEvent(noise, Fraction(delta))
    return Cost(plain.epsilon, Fraction(delta), (event,))


def coins(epsilon: str, delta: str, keys: int = 1) -> Cost:
    """Return the cost of keys that are selected by coins, where a neighbour changes so many of them."""
    one = KeySelectionEvent(PureEvent(Fraction(epsilon) / keys), Fraction(delta) / keys)
    return Cost(Fraction(epsilon), Fraction(delta), (one,) * keys)


def budget(
    epsilon: str = "1",
    delta: str = "2e-6",
    accountant: AccountantKind = AccountantKind.RENYI,
    selection_delta: str = "1e-6",
) -> BudgetSpec:
    amounts = Fraction(epsilon), Fraction(delta)
    return BudgetSpec(*amounts, accountant, Fraction(selection_delta))


def rule_of(spec: BudgetSpec) -> Filter:
    return filter_of(spec, order_of(spec))


def statement(sql: str = "SELECT COUNT(*) FROM t", analyst: str = "owner") -> StatementRecord:
    return StatementRecord(str(uuid4()), analyst, sql)
