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
_MOST_EPSILON = (
    64  # of a unit; a larger one is read as this one: chances then are 0, delta, nearly 1
)
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

    epsilon, delta: of one unit more or less of one key. events: what all coins together cost.
    min_units: no key of fewer units shows.
    """

    epsilon: Fraction
    delta: Fraction
    min_units: int
    events: tuple[KeySelectionEvent, ...]

    @property
    def units(self) -> tuple[int, int]:
        """The units from which on a key shows at least half of the time, and always."""
        table = chances(self.epsilon, self.delta)
        half = bisect_left(table.numerators, 1 << (table.bits - 1))
        places = half, len(table.numerators) - 1
        first, last = (self.min_units - 1 + place for place in places)
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
        return min(max(0, units - self.min_units + 1), len(table.numerators) - 1)


@dataclass(frozen=True, slots=True)
class Chances:
    """numerators[n] / 2^bits: how likely a key of n units shows; from 0 to 1."""

    numerators: tuple[int, ...]
    bits: int


def optimal_rule(
    epsilon: Fraction, delta: Fraction, change: Change, min_units: int
) -> OptimalRule | None:
    """Return the rule that is (epsilon, delta)-DP over all keys; None where it has too many steps.

    epsilon above 0; 0 < delta < 1. change: how far a neighbour moves the numbers of units.

    Claim:   which keys show is (epsilon, delta)-DP, and what else is released composes with `events`.
    Why:     let a neighbour change the number of units of key j by d_j: no d_j is above `most`, and
             they add up to at most `change.l1`. Chances of n and n + 1 units are (e, d)-close, both for
             showing and for not showing (`chances`), which are all that a coin can say; so those of
             numbers d_j apart are (d_j e, d_j e^((d_j - 1) e) d)-close, one unit after the other. Coins
             are independent, so the keys compose: to l1 e <= epsilon and
             l1 e^((most - 1) e) d <= delta. Where `most` is 1 that is l1 keys with (e, d) each, one
             event a key; else one event for all. It holds for whatever an adjacency changes, as both
             directions of a step are bounded: a key that one neighbour alone has moves from 0 units,
             of which the chance is 0. Numbers of units below `min_units` count as 0 and those above
             as so many less, which moves them no further apart.
    Assumes: `change` holds for the number of distinct units of each key.
    Source:  [Desfontaines2022], [Dwork2006b], [Kairouz2015]
    """
    most = max(shift for profile in change.profiles for shift, count in profile if count)
    steps = change.l1
    one = min(epsilon / steps, Fraction(_MOST_EPSILON))
    own = min(delta, Fraction(1, 2)) / steps
    if most == 1:
        events = (KeySelectionEvent(PureEvent(epsilon / steps), delta / steps),) * steps
    if most > 1 or steps > _FEW_KEYS:
        own /= _power_above((most - 1) * one)
        events = (KeySelectionEvent(PureEvent(epsilon), delta),)
    if steps_of(one, own) > MOST_STEPS:
        return None
    return OptimalRule(one, own, min_units, events)


def steps_of(epsilon: Fraction, delta: Fraction) -> float:
    """Return about how many steps it takes until a key always shows."""
    e = float(epsilon)
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
    grow, fall = _powers(epsilon)
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


def _power_above(exponent: Fraction) -> Fraction:
    """Return a number that is at least e^exponent, for exponents of at least 0."""
    with localcontext(Context(prec=_DIGITS, rounding=ROUND_HALF_EVEN)):
        power = Fraction((Decimal(exponent.numerator) / exponent.denominator).exp())
    return Fraction(math.ceil(power * (1 + _MARGIN) * (1 << _POINT)), 1 << _POINT)
