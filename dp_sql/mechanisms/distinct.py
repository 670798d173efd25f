"""COUNT(DISTINCT x): values are matched with units that vouch for them, then noise is added."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.dataclass import dataclass
from dp_sql.mechanisms.chooser import Chooser
from dp_sql.mechanisms.sampler import Integers, Sampler
from dp_sql.plan.facts import PairTable
from dp_sql.privacy.event import PureEvent

_FOR_CAP = Fraction(1, 10)  # of the epsilon, where a cap is chosen
_FINE = 2**20  # units of a score of 1 when a cap is chosen
_DOUBT = 0.05
_GUESS = 10  # groups, where their number isn't public


@dataclass(frozen=True, slots=True)
class DistinctValues:
    """Noisy counts: `values` over `lattice`, one a group, with Laplace noise of `scale`."""

    values: NDArray[Any]
    lattice: int
    scale: int

    def kept(self, rows: NDArray[np.intp]) -> DistinctValues:
        """Return the counts of some groups."""
        return DistinctValues(self.values[rows], self.lattice, self.scale)


@dataclass(frozen=True, slots=True)
class Counter:
    """What a count of distinct values may cost, and what is public of it.

    caps: as in `plan.distinct.Distinct`. chooser: for one value of one unit; its epsilon is that of
    the whole count.
    """

    caps: tuple[int, ...]
    chooser: Chooser

    @property
    def events(self) -> tuple[PureEvent, ...]:
        """What a ledger stores: the choice of the cap, and the count."""
        whole = self.chooser.epsilon
        if len(self.caps) < 2:
            return (PureEvent(whole),)
        return (PureEvent(whole * _FOR_CAP), PureEvent(whole * (1 - _FOR_CAP)))

    def require_drawable(self) -> None:
        """Raise UnsupportedSQLError where a count needs more noise than a sampler draws."""
        for cap in self.caps or (1,):
            self.noise(cap)

    def noise(self, cap: int) -> tuple[int, int]:
        """Return (lattice, scale) of the noise on a count where a unit vouches for `cap` values."""
        chooser = self.chooser
        return Chooser(
            self.events[-1].epsilon, chooser.facts.times(cap), chooser.unit
        ).laplace_once()


def count(
    counter: Counter, pairs: PairTable, groups: NDArray[np.intp], size: int, sampler: Sampler
) -> DistinctValues:
    """Return the noisy number of values of each of `size` groups.

    groups: the number of each of the table's groups, -1 for one that isn't shown.

    Claim:   the counts are `epsilon`-DP, with the choice of the cap.
    Why:     with a cap l one unit changes a group's matching by l at most, and so does one that
             changes for another (`matched`); the noise is that of one such number in each group. The
             cap is chosen by scores that a unit changes by 1 at most (`_cap`), at a tenth of the epsilon.
    Assumes: the SQL bounds the groups of a unit (`sensitivity.histogram`).
    Source:  [KnopSteinke2023], [Dwork2006]
    """
    found = matched(pairs, counter.caps)
    cap = counter.caps[0] if len(found) == 1 else _cap(counter, found, sampler)
    exact = dict(zip(groups.tolist(), found[cap].tolist(), strict=True))
    return with_noise(counter, cap, exact, size, sampler)


def with_noise(
    counter: Counter, cap: int, exact: Mapping[int, int], size: int, sampler: Sampler
) -> DistinctValues:
    """Return the noisy counts of `size` groups. exact: by the number of the group, -1 for others."""
    lattice, scale = counter.noise(cap)
    values = np.array([exact.get(number, 0) for number in range(size)], dtype=object)
    noise = sampler.laplace(scale, size).astype(object)
    return DistinctValues(values * lattice + noise, lattice, scale)


def matched(pairs: PairTable, caps: Sequence[int]) -> dict[int, Integers]:
    """Return, for each cap and group, for how many values its units vouch, each for `cap` at most.

    Units come in the order of the table, and each takes the first values of its own that nobody has
    taken.

    Claim:   a unit that comes or goes changes the number by `cap` at most, and one that changes for
             another too.
    Why:     let S and S' be the values taken before some unit without and with the new one, S within
             S' and at most cap more in S'. This holds when the new one has had its turn. A later unit
             takes the first cap of L less S, or of L less S', L its values in order. What it takes of
             L less S and is not in S' is among the first cap of L less S' as well, which is a part of
             L less S; and it takes no more of the part than of the whole. So S stays within S', and the
             difference doesn't grow. Without both units the number is lower by at most cap than with
             either. Two units with one hash are one unit, whose values grow by the second's: without
             the first's, and with them, the number is between the same two.
    Assumes: the order of units, and of values, doesn't depend on other units: both are keyed hashes.
    Source:  [KnopSteinke2023]
    """
    counts = {cap: np.zeros(len(pairs.ends), dtype=np.int64) for cap in caps}
    start = 0
    for group, end in enumerate(pairs.ends):
        values, numbers = np.unique(pairs.values[start:end], return_inverse=True)
        held = numbers.tolist()
        units = pairs.units[start:end].tolist()
        found = 0
        for cap in sorted(caps):
            if found < values.size:  # a larger cap finds no fewer
                found = _greedy(units, held, cap, values.size)
            counts[cap][group] = found
        start = end
    return counts


def _greedy(units: list[int], values: list[int], cap: int, most: int) -> int:
    """Return how many of `most` values, numbered from 0, are taken."""
    taken = bytearray(most)
    total, unit, left = 0, -1, 0
    for one, value in zip(units, values, strict=True):
        if one != unit:
            unit, left = one, cap
        if left and not taken[value]:
            taken[value] = 1
            left -= 1
            total += 1
            if total == most:
                break
    return total


def _cap(counter: Counter, found: dict[int, Integers], sampler: Sampler) -> int:
    """Return the cap of least expected error, chosen by the generalised exponential mechanism.

    Claim:   the choice is (epsilon / 10)-DP.
    Why:     with q_i the values counted at cap l_i, in all groups, less what its noise is expected to
             miss, and t public, s_i = min over j of (q_i - t D_i - q_j + t D_j) / (D_i + D_j) changes by 1 at
             most where each q_i changes by D_i: the sum over groups of what a unit changes at that
             cap. Rounding to steps of 2^-20 adds one step. Permute-and-flip chooses by these scores.
    Assumes: as `matched`.
    Source:  [RaskhodnikovaSmith2016], [KnopSteinke2023]
    """
    caps = list(found)
    chooser = counter.chooser
    epsilon = counter.events[0].epsilon
    one = chooser.moved_once()
    wide = [one * cap for cap in caps]
    worth = []
    for cap in caps:
        lattice, scale = counter.noise(cap)
        miss = Fraction(scale, lattice) * (chooser.facts.cells or _GUESS)
        worth.append(int(found[cap].sum()) - miss)
    t = Fraction(2 * math.log(len(caps) / _DOUBT)) / epsilon
    scores = standing([w - t * d for w, d in zip(worth, wide, strict=True)], wide)
    steps = np.array([[math.floor(s * _FINE) for s in scores]], dtype=object)
    rate = Chooser(epsilon, chooser.facts, chooser.unit).single(_FINE + 1)
    return caps[int(sampler.choose(rate.capped(steps.max() - steps), rate)[0])]


def standing(values: Sequence[Fraction], wide: Sequence[Fraction]) -> list[Fraction]:
    """Return how each value stands against the others: it changes by 1 at most where value i does by wide[i].

    The least of (v_i - v_j) / (D_i + D_j) over all j. Source: [RaskhodnikovaSmith2016].
    """
    return [
        min((v - w) / (d + e) for w, e in zip(values, wide, strict=True))
        for v, d in zip(values, wide, strict=True)
    ]
