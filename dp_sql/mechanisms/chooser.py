"""How one of many public candidates is chosen in every group: what it may cost, and at which rate."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_sql.dataclass import dataclass
from dp_sql.errors import UnsupportedSQLError
from dp_sql.mechanisms.sampler import MAX_SCALE, Rate, rate_below
from dp_sql.plan.facts import HistogramFacts
from dp_sql.privacy.contribution import Change
from dp_sql.privacy.event import LaplaceEvent
from dp_sql.privacy.unit import Adjacency, PrivacyUnit

Weights: TypeAlias = NDArray[Any]
"""Integer weights: rows are groups, columns the grid's places. Python integers where 2^62 may pass."""

_SAFE = 2**62
_LEAST_SCALE = 2**10  # of noise on weights: rounding it up costs at most a tenth of a percent


@dataclass(frozen=True, slots=True)
class Counted:
    """The weights of a histogram, where there are any: aligned arrays, sorted by group.

    groups: the number of each weight's group.
    """

    groups: NDArray[np.intp]
    places: NDArray[np.intp]
    weights: NDArray[Any]

    def dense(self, places: int, start: int, end: int, *, factor: int) -> Weights:
        """Return the weights of the groups from `start` to before `end`, by group and place.

        factor: what their sums will be multiplied by at most: they are 64-bit integers where these fit.
        """
        first, last = np.searchsorted(self.groups, [start, end])
        weights = self.weights[first:last]
        total = sum(map(int, weights)) if weights.dtype == object else int(weights.sum())
        type_ = np.int64 if total * factor < _SAFE else object
        made: Weights = np.zeros((end - start, places), dtype=type_)
        np.add.at(made, (self.groups[first:last] - start, self.places[first:last]), weights)
        return made


@dataclass(frozen=True, slots=True)
class Chooser:
    """What one choice may cost, and how far a unit moves weights.

    epsilon: of one choice, for everything that a neighbour changes. delta: likewise, for those that
    need one, else 0.
    """

    epsilon: Fraction
    facts: HistogramFacts
    unit: PrivacyUnit
    delta: Fraction = Fraction(0)

    def rate(self, one: int, moved: int, bonus: int) -> Rate:
        """Return the rate at which candidates are chosen in every group.

        one: how far a score moves when a weight of 1 comes or goes; moved: when it goes to another
        place of the same group. bonus: what else a score may change by in a group that is touched.

        Claim:   choosing one candidate in each group at this rate is `epsilon`-DP.
        Why:     permute-and-flip at rate r on scores that move by at most s is (2 r s)-DP, and groups
                 are chosen with independent coins, so the sum of s over the groups that change is
                 what counts. add_remove: a unit's weight w comes or goes in each of L0 groups.
                 Otherwise one unit leaves L0 groups and another enters as many; they share j, where
                 its weight moves, and the sum is linear in j: both ends suffice. k units move the
                 scores k times as far, or touch k times as many groups. Where w is what a unit adds
                 to all groups together, scores move by as much as if it were one group: what leaves
                 a group and what enters it are pairs of weights that move, and single ones, and the sum
                 is linear in the number of pairs, which is all of w where there is one group. The
                 bonus may change in each group that one of the two units is in.
        Assumes: weights and groups of a unit are enforced in the SQL (`sensitivity.histogram`).
        Source:  [McKennaSheldon2020], [Dwork2006]
        """
        weight, full, touched = self.facts.weight, self.facts.full, self.facts.groups
        if self.unit.adjacency is Adjacency.ADD_REMOVE:
            change = full * weight * one + touched * bonus
        else:
            change = max(
                (2 * (full - j) * one + j * moved) * weight + (2 * touched - j) * bonus
                for j in (self._shared(), full)
            )
        return _drawable(self.epsilon / (2 * change * self.unit.group_size))

    def growing(self) -> Rate:
        """Return the rate at which candidates are chosen by their weights in every group.

        Claim:   choosing one candidate in each group at this rate is `epsilon`-DP.
        Why:     weights that come only raise scores, each by s at most, and then a choice at rate r is
                 (r s)-DP: let candidate i have the largest score with exponential noise. With the new
                 scores the same noise of the others asks at most s more of i's, which it has with a
                 probability smaller by exp(-r s) at worst; and back likewise. That noise gives the law of
                 permute-and-flip; the exponential mechanism's normaliser moves one way. Groups add
                 up. A unit that changes for another takes its weights away and adds others: two steps.
        Assumes: as `rate`.
        Source:  [McKennaSheldon2020]
        """
        return _drawable(self.epsilon / self.moved())

    def single(self, change: int) -> Rate:
        """Return the rate of one choice for all groups, whose scores one neighbour moves by `change`."""
        return _drawable(self.epsilon / (2 * change))

    def laplace(self, times: int = 1) -> tuple[int, int]:
        """Return (lattice, scale) of discrete Laplace noise on lattice times each weight.

        times: in how many numbers each weight counts.

        Claim:   all numbers of all groups with this noise are `epsilon`-DP together.
        Why:     a unit's weights add up to w in each of L0 groups, so the L1 distance is lattice times
                 w L0 `times`, or w `times` where w is for all groups together, and twice that where it
                 changes for another; the scale is rounded up.
        Assumes: as `rate`.
        Source:  [Dwork2006], [Ghosh2009]
        """
        return self._noise(times * self.moved())

    def laplace_once(self) -> tuple[int, int]:
        """Return (lattice, scale) of discrete Laplace noise on lattice times one number of each group.

        Claim:   the numbers of all groups with this noise are `epsilon`-DP together, where a unit that
                 comes, goes or changes for another moves that of a group by `weight` at most.
        Why:     `moved_once` bounds the L1 distance; the scale is rounded up.
        Assumes: as `rate`.
        Source:  [Dwork2006], [Ghosh2009]
        """
        return self._noise(self.moved_once())

    def _noise(self, moved: Fraction) -> tuple[int, int]:
        """Return (lattice, scale) of noise that hides a move by this L1 distance; the scale rounded up."""
        ratio, lattice = moved / self.epsilon, 1
        while ratio * lattice < _LEAST_SCALE and lattice < _SAFE:
            lattice *= 2
        scale = -int(-ratio * lattice // 1)
        if not 1 <= scale <= MAX_SCALE:
            raise _too_much()
        return lattice, scale

    def event(self, times: int) -> LaplaceEvent:
        """Return what all numbers of all groups with the noise of `laplace(times)` are.

        times: how many lists of numbers there are, in each of which a weight counts in one number.

        Claim:   one neighbour moves at most `sides` groups L0 numbers a list, k w each at most, w being
                 the weight of a unit in a group and k the units that are protected at once; so it is
                 (sides k w L0 times / scale)-DP, and no other change costs a convex loss more.
        Why:     a unit's weights in a group add up to w on each list and move a number by w at most, in
                 L0 groups, or in one if w is for all groups together: k units by k w, and likewise where
                 each is replaced by another, which adds and takes in one number. The sum of moves on a
                 list is at most sides k w L0. Of all moves with that sum and no larger one, a convex cost
                 is largest where each is 0 or k w.
        Assumes: as `rate`; that noise in different numbers and groups is independent.
        Source:  [Hay2010], [Dwork2006]
        """
        lattice, scale = self.laplace(times)
        most = self.facts.weight * self.unit.group_size
        touched = int(self.moved() / most) * times
        return LaplaceEvent(scale, Change((((most * lattice, touched),),)))

    def moved(self) -> Fraction:
        """Return the weight that neighbours move at most, in all groups together."""
        sides = 1 if self.unit.adjacency is Adjacency.ADD_REMOVE else 2
        return Fraction(sides * self.facts.weight * self.facts.full * self.unit.group_size)

    def moved_once(self) -> Fraction:
        """Return how far neighbours move numbers, in all groups together.

        Each group has one, which a unit moves by `weight` at most, also where it changes for another.
        Such a one leaves L0 groups and another enters as many; those that they share move once. Where
        `weight` is for all groups together, it's as if it were one: what leaves the groups moves them
        by that in all, and what enters them too.
        """
        groups = self.facts.full
        if self.unit.adjacency is not Adjacency.ADD_REMOVE:
            groups = 2 * groups - self._shared()
        return Fraction(self.facts.weight * groups * self.unit.group_size)

    def _shared(self) -> int:
        """Return how many groups two units share at least, each of which has `weight` in all it can."""
        groups, cells = self.facts.full, self.facts.cells
        return 0 if cells is None else max(0, 2 * groups - cells)


def _drawable(limit: Fraction) -> Rate:
    found = rate_below(limit)
    if found is None:
        raise _too_much()
    return found


def _too_much() -> UnsupportedSQLError:
    return UnsupportedSQLError(
        "this choice would need noise beyond what can be drawn.",
        hint="a larger epsilon, or smaller limits of rows and groups",
    )
