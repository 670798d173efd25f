"""The optimal rule for private keys: each shows by a coin, whose chance grows with its units.

No other rule that is (epsilon, delta)-DP and looks at one key's number of units alone shows any key more
often. It gives keys and no numbers: the exact number of units is read, and nothing but the coin leaves.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError
from dp_sql.mechanisms.normal import log_of
from dp_sql.mechanisms.sampler import coins
from dp_sql.privacy.contribution import Change
from dp_sql.privacy.event import KeySelectionEvent, PureEvent

MOST_STEPS = (
    200_000  # of the rule: beyond, no key of fewer than a hundred thousand units would show
)
_MOST_EPSILON = 64  # a larger one is read as this one: chances then are 0, delta and next to 1
_EXTRA = 64  # bits of a chance beyond those that hold delta
_POINT = 192  # binary places of a power of e
_DIGITS = 100
_MARGIN = Fraction(
    1, 10**90
)  # relative; what rounding of the decimals may amount to is below 1e-96
_FEW_KEYS = 16  # keys for which the ledger gets an event each


@dataclass(frozen=True, slots=True)
class OptimalRule:
    """How likely a key shows.

    epsilon, delta: of one key. step: by how many units a neighbour may change it. keys: how many keys
    it may change. min_units: no key of fewer units shows.
    """

    epsilon: Fraction
    delta: Fraction
    step: int
    keys: int
    min_units: int

    @property
    def events(self) -> tuple[KeySelectionEvent, ...]:
        """What the ledger stores: an event for each key that a neighbour may change."""
        if self.keys <= _FEW_KEYS:
            return (KeySelectionEvent(PureEvent(self.epsilon), self.delta),) * self.keys
        return (KeySelectionEvent(PureEvent(self.epsilon * self.keys), self.delta * self.keys),)

    @property
    def units(self) -> tuple[int, int]:
        """The units from which on a key shows at least half of the time, and always."""
        table = chances(self.epsilon, self.delta)
        half = bisect_left(table.numerators, 1 << (table.bits - 1))
        places = half, len(table.numerators) - 1
        first, last = (self.min_units + (place - 1) * self.step for place in places)
        return first, last

    def chance(self, units: int) -> Fraction:
        """Return how likely a key of so many units shows."""
        table = chances(self.epsilon, self.delta)
        return Fraction(table.numerators[self._place(units, table)], 1 << table.bits)

    def shown(self, units: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which keys show, each by a coin of its own."""
        table = chances(self.epsilon, self.delta)
        tossed = [table.numerators[self._place(int(n), table)] for n in units]
        return coins(tossed, table.bits)

    def _place(self, units: int, table: Chances) -> int:
        above = max(0, units - self.min_units + 1)
        return min(-(-above // self.step), len(table.numerators) - 1)


@dataclass(frozen=True, slots=True)
class Chances:
    """numerators[n] / 2^bits: how likely a key shows after n steps; from 0 to 1."""

    numerators: tuple[int, ...]
    bits: int


def optimal_rule(
    epsilon: Fraction, delta: Fraction, change: Change, min_units: int
) -> OptimalRule | None:
    """Return the rule that is (epsilon, delta)-DP over all keys; None where it has too many steps.

    epsilon above 0; 0 < delta < 1. change: how far a neighbour moves the numbers of units.

    Claim:   which keys show is (epsilon, delta)-DP, and whatever is added to it composes with one
             event a changed key, of epsilon / keys and delta / keys each.
    Why:     a profile of `change` says how many keys change and by how many units at most; no more
             than `keys` do, by no more than `step`. A key of n units is tossed the chance number
             ceil((n - min_units + 1) / step), or 0: n and n' at most `step` apart have the same
             number or neighbouring ones. Neighbouring chances are (epsilon, delta)-close, both for
             showing and for not showing (`chances`), a coin's only outcomes. Coins are independent, so
             the changed keys compose; all others have the same law. This holds for whatever change
             an adjacency allows, since both directions of a step are bounded: a key that one
             neighbour alone has is one that moves from 0, where its chance is 0.
    Assumes: `change` holds for the number of distinct units of each key; only keys with a unit are
             tossed.
    Source:  [Desfontaines2022], [Dwork2006b], [Kairouz2015]
    """
    profiles = [[(shift, count) for shift, count in p if shift and count] for p in change.profiles]
    keys = max(sum(count for _, count in profile) for profile in profiles)
    step = max(shift for profile in profiles for shift, _ in profile)
    rule = OptimalRule(epsilon / keys, min(delta, Fraction(1, 2)) / keys, step, keys, min_units)
    return rule if steps_of(rule.epsilon, rule.delta) <= MOST_STEPS else None


def steps_of(epsilon: Fraction, delta: Fraction) -> float:
    """Return about how many steps it takes until a key always shows."""
    e = min(float(epsilon), float(_MOST_EPSILON))
    odds = -log_of(delta)
    # the chance grows from delta by e^epsilon a step to one half, and then the other way round
    rise = odds + math.log(math.tanh(e / 2)) if odds + math.log(math.tanh(e / 2)) > 1 else 1.0
    return 2 * (2 + rise / e)


@lru_cache(maxsize=8)
def chances(epsilon: Fraction, delta: Fraction) -> Chances:
    """Return the largest chances p_0 = 0, p_1, … that are (epsilon, delta)-close to the next.

    p_n = min(e^epsilon p_(n-1) + delta, 1 - e^-epsilon (1 - p_(n-1) - delta), 1), each rounded down to
    a multiple of 2^-bits.

    Claim:   for each n >= 1, with p = p_(n-1) <= q = p_n, both exact fractions:
             q <= e^epsilon p + delta, 1 - p <= e^epsilon (1 - q) + delta, and the same with p and q
             exchanged.
    Why:     the first two are the first two terms of the minimum, the second one solved for q: the
             powers of e are a lower bound of e^epsilon and an upper bound of e^-epsilon, delta is
             rounded down, and so is the result. p <= q: with a power of at least 1 the first term is
             at least p, with one of at most 1 the second is; so p <= q <= e^epsilon q + delta, and
             likewise for 1 - q <= 1 - p. p, q in place of the true ones: the minimum is taken of the
             rounded p itself, so no error adds up.
    Assumes: decimal powers of e are right to 1e-90 of themselves (100 digits, correctly rounded).
    Source:  [Desfontaines2022] theorem 1
    """
    bits = _EXTRA + max(1, delta.denominator.bit_length() - delta.numerator.bit_length() + 1)
    one = 1 << bits
    own = int(delta * one)
    if own < 1 or epsilon <= 0:
        raise InternalError("the optimal rule needs epsilon and delta above 0")
    grow, fall = _powers(min(epsilon, Fraction(_MOST_EPSILON)))
    found = [0]
    last = 0
    while last < one:
        rest = max(0, one - last - own)
        last = min((grow * last >> _POINT) + own, one + (-fall * rest >> _POINT))
        found.append(last)
        if len(found) > 4 * MOST_STEPS:
            raise InternalError("the optimal rule has too many steps")
    return Chances(tuple(found), bits)


def _powers(epsilon: Fraction) -> tuple[int, int]:
    """Return e^epsilon, rounded down, and e^-epsilon, rounded up, in units of 2^-_POINT."""
    with localcontext(Context(prec=_DIGITS, rounding=ROUND_HALF_EVEN)):
        exponent = Decimal(epsilon.numerator) / epsilon.denominator
        grow, fall = Fraction(exponent.exp()), Fraction((-exponent).exp())
    one = 1 << _POINT
    down, up = math.floor(grow * (1 - _MARGIN) * one), math.ceil(fall * (1 + _MARGIN) * one)
    return max(one, down), min(one, up)
