"""Which smaller epsilon a statement would fit the budget with: found by preparing it again. Reads no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_FLOOR, Context
from fractions import Fraction

from dp_sql.budget.left import would_fit
from dp_sql.errors import BudgetExceededError, QueryError
from dp_sql.stages import Prepared

_TRIES = 12
_LEAST = Fraction(1, 10**6)  # of what was asked: where that doesn't fit, nothing does
_NEAR = Fraction(21, 20)  # a candidate so much larger was refused
_PREPARED = 300  # statements, over all tries
_THREE = Context(prec=3, rounding=ROUND_FLOOR)

Fits = Callable[[Fraction], bool]


def advised(
    error: BudgetExceededError, asked: Sequence[Prepared], fits: Fits, each: int
) -> BudgetExceededError:
    """Return the refusal of some statements with the largest epsilon that was seen to fit.

    error: what the ledger said; its own number, an estimate, is tried first. fits: whether the ledger
    would charge the statements at another epsilon of all together; raises QueryError where that can't be
    answered. each: how many statements are prepared for it.

    Claim:   nothing about protected rows shows in the number, and nothing is charged.
    Why:     it is a function of the statements, the schema, public tables and what was charged before:
             preparing reads no protected row, and `Ledger.has_room` undoes its transaction.
    Assumes: nothing more.
    """
    if not error.by_epsilon:
        return error
    whole = sum((s.measurement.cost.epsilon for one in asked for s in one.steps), Fraction(0))
    search = _Search(whole, fits)
    search.run(error.fitting, max(2, min(_TRIES, _PREPARED // each)))
    if search.fits is not None and (search.is_near or search.fits == error.fitting):
        return BudgetExceededError(error.message, hint=would_fit(search.fits), fitting=search.fits)
    if search.none_fits:
        return BudgetExceededError(f"{error.message} No smaller epsilon fits either.")
    return BudgetExceededError(error.message, hint="a smaller epsilon")


class _Search:
    """A bisection on the ratio of epsilons. Costs needn't grow with epsilon: what is named was tried.

    fits: the largest epsilon that was seen to fit. none_fits: whether the least was seen not to.
    """

    def __init__(self, asked: Fraction, fit: Fits) -> None:
        """asked: the epsilon that doesn't fit. fit: whether one fits; QueryError for can't be answered."""
        self.fits: Fraction | None = None
        self.none_fits = False
        self._low, self._high = _three(asked * _LEAST), asked
        self._fit = fit
        self._left = 0

    @property
    def is_near(self) -> bool:
        """Whether an epsilon just above the one that fits was refused."""
        return self._high <= self._low * _NEAR

    def run(self, start: Fraction | None, tries: int) -> None:
        """Try as many epsilons at most, first one that is likely to fit."""
        self._left = tries
        if start is not None and self._low < start < self._high and self._try(_three(start)):
            self._try(_three(start * _NEAR))
        if self.fits is None:
            self.none_fits = self._try(self._low) is False
        while self._left and not self.none_fits and not self.is_near:
            self._try(_three(Fraction(math.sqrt(self._low * self._high))))

    def _try(self, epsilon: Fraction) -> bool | None:
        """Try one epsilon between the two ends and move an end there."""
        if epsilon >= self._high:
            return False
        self._left -= 1
        found: bool | None
        try:
            found = self._fit(epsilon)
        except QueryError:
            found = None
        if found is False:
            self._high = epsilon
        else:  # what can't be answered wants more epsilon
            self._low = epsilon
            self.fits = epsilon if found else self.fits
        return found


def _three(epsilon: Fraction) -> Fraction:
    """Return an epsilon in three significant digits, rounded down."""
    return Fraction(_THREE.divide(epsilon.numerator, epsilon.denominator))
