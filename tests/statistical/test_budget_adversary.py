"""The best adaptive analyst against the filters, by exact dynamic programming.

Discrete Laplace noise on a count that moves by 1 has two losses, +1/scale and -1/scale. The analyst
may choose the next scale from a menu of two after each answer. Under a filter the largest delta
that any strategy reaches is computed exactly: it must not exceed the delta that was registered.
A filter that isn't one, the exact delta of the statements so far as if they had been fixed in
advance, is exceeded: the analyst of this test is strong enough to tell.

No sampling is involved, so there are no false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from budget_cases import one_coordinate, rule_of
from scipy.stats import binom

from dp_sql.budget.accountant import NOTHING, Spend, fits, price
from dp_sql.privacy.cost import Cost
from dp_sql.privacy.event import LaplaceEvent
from dp_sql.schema.catalog import AccountantKind, BudgetSpec

Admits = Callable[[int, int], bool]


def chance(scale: int) -> float:
    """Return the probability of the loss +1/scale."""
    return 1 / (1 + math.exp(-1 / scale))


def worst_delta(epsilon: float, scales: tuple[int, int], admits: Admits) -> float:
    """Return the largest E[(1 - e^(epsilon - L))+] over all strategies that `admits` allows.

    admits: whether so many statements of the first and of the second scale may have been asked.
    """
    unit = math.lcm(*scales)
    steps = [unit // scale for scale in scales]  # losses in units of 1/unit
    most = [
        next(n for n in range(10**5) if not admits(*(n * (i == j) for j in (0, 1)))) for i in (0, 1)
    ]
    reach = most[0] * steps[0] + most[1] * steps[1]
    losses = np.arange(-reach, reach + 1) / unit
    stop = np.maximum(0, -np.expm1(epsilon - losses))
    # value[counts]: the best the analyst can still reach, by loss so far
    value: dict[tuple[int, int], np.ndarray] = {}
    for first in range(most[0], -1, -1):
        for second in range(most[1], -1, -1):
            if not admits(first, second):
                continue
            best = stop.copy()
            for asked, step, scale in zip(((1, 0), (0, 1)), steps, scales, strict=True):
                then = value.get((first + asked[0], second + asked[1]))
                if then is not None:
                    up = np.append(then[step:], np.full(step, then[-1]))
                    down = np.append(np.full(step, then[0]), then[:-step])
                    best = np.maximum(best, chance(scale) * up + (1 - chance(scale)) * down)
            value[first, second] = best
    return float(value[0, 0][reach])


def exact_delta(epsilon: float, scales: tuple[int, int], first: int, second: int) -> float:
    """Return the delta of so many statements of each scale, all fixed in advance."""
    ups = [np.arange(n + 1) for n in (first, second)]
    weights = [binom.pmf(u, len(u) - 1, chance(s)) for u, s in zip(ups, scales, strict=True)]
    losses = (2 * ups[0] - first)[:, None] / scales[0] + (2 * ups[1] - second)[None, :] / scales[1]
    gains = np.maximum(0, -np.expm1(epsilon - losses))
    return float((weights[0][:, None] * weights[1][None, :] * gains).sum())


CASES = [
    ("1", "1e-3", (4, 20)),
    ("1", "1e-3", (2, 20)),
    ("0.5", "1e-2", (5, 20)),
    ("2", "1e-4", (2, 10)),
    ("1", "1e-2", (2, 10)),
    ("3", "1e-3", (1, 8)),
]


@pytest.mark.parametrize("accountant", [AccountantKind.RENYI, AccountantKind.PURE])
@pytest.mark.parametrize(("epsilon", "delta", "scales"), CASES)
def test_no_strategy_exceeds_the_registered_delta(
    accountant: AccountantKind, epsilon: str, delta: str, scales: tuple[int, int]
) -> None:
    spec = BudgetSpec(Fraction(epsilon), Fraction(delta), accountant, Fraction(0))
    rule = rule_of(spec)
    events = [LaplaceEvent(scale, one_coordinate(1)) for scale in scales]
    prices = [price(rule, Cost(Fraction(1), Fraction(0), (event,))) for event in events]

    def admits(first: int, second: int) -> bool:
        return fits(rule, NOTHING, total(prices, first, second))

    found = worst_delta(float(epsilon), scales, admits)
    if accountant is AccountantKind.PURE:
        assert found <= 1e-12  # the losses are added up in floats
    else:
        assert 0.05 * float(delta) < found <= float(delta)


def total(prices: list[Spend], first: int, second: int) -> Spend:
    counts = (first, second)
    pure = sum((p.pure or 0) * n for p, n in zip(prices, counts, strict=True))
    rdp = sum((p.rdp or 0) * n for p, n in zip(prices, counts, strict=True))
    return Spend(pure, rdp, 0, 0, 0)


@pytest.mark.parametrize(("epsilon", "delta", "scales"), CASES[:4])
def test_the_analyst_breaks_accounting_that_is_no_filter(
    epsilon: str, delta: str, scales: tuple[int, int]
) -> None:
    @cache
    def admits(first: int, second: int) -> bool:
        return exact_delta(float(epsilon), scales, first, second) <= float(delta)

    assert worst_delta(float(epsilon), scales, admits) > 1.2 * float(delta)
