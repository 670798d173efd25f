"""Exact samplers of the discrete Laplace and the discrete Gaussian distribution, in integers only.

Every bit comes from `os.urandom`. There is no seed and no state, so a forked process can't repeat
its parent's noise, and there is no float that could leak the low bits of what it is added to.

Claim:   each value has exactly the stated law, if the operating system's bits are uniform.
Why:     uniform integers by rejection; coins with probability exp(-x) from coins with probability
         x; the rest is rejection sampling over integers. No intermediate passes 2^63 (shown where
         it is computed). Two loops have a limit that true random bits pass with a probability below
         1e-200 a draw; passing it raises, and that event doesn't depend on any data.
Assumes: os.urandom is the operating system's cryptographic generator.
Source:  [CanonneKamathSteinke2020]

What is not hidden: the time that a batch takes depends on its draws. A batch is drawn after
aggregation for all groups at once, so time says little about one draw. [Jin2022]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError, SchemaError

Integers: TypeAlias = NDArray[np.int64]
Coins: TypeAlias = NDArray[np.bool_]
Indices: TypeAlias = NDArray[np.intp]

MAX_SCALE = (
    2**50
)  # of either distribution; with at most 2^13 - 1 whole steps a draw stays below 2^63
_MAX_STEPS = 2**13 - 2  # whole steps of size `scale`; one draw passes it with probability e^-8191
_MAX_ROUNDS = 150  # rounds of an exp coin; one draw passes it with probability 1/150! < 1e-262
_MOST_SHIFT = 50
_FARTHEST = 2**12  # the largest exponent of a coin that a choice tosses
_MOST_BATCHES = 300  # each fails with a probability below e^-2
_FINE_RATE = 2**9
_BATCH = 2**18  # draws at a time: bounds memory and stays in the processor's cache


class Sampler(Protocol):
    """Draws independent integer noise. Implementations hold no seed and no state."""

    @property
    def name(self) -> str:
        """What the schema calls this sampler."""
        ...

    def laplace(self, scale: int, size: int) -> Integers:
        """Return `size` draws with P(z) proportional to exp(-|z|/scale), 1 <= scale <= 2^50."""
        ...

    def gaussian(self, sigma: int, size: int) -> Integers:
        """Return `size` draws with P(z) proportional to exp(-z^2/(2 sigma^2)), sigma likewise."""
        ...

    def choose(self, gaps: Integers, rate: Rate, *, exponential: bool = False) -> Integers:
        """Return, for each row of `gaps`, the column that permute-and-flip chooses.

        exponential: by the exponential mechanism instead, with probability in proportion to
        exp(-rate * gap). gaps: how far each candidate's score is below the best of its row, at least 0,
        0 somewhere.
        """
        ...


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast a candidate loses its chance with its gap: a factor exp(-numerator / 2^shift) a unit.

    1 <= numerator < 2^63 and 0 <= shift <= 50, at most 2^12 together.
    """

    numerator: int
    shift: int

    def __post_init__(self) -> None:
        if not 0 <= self.shift <= _MOST_SHIFT or not 1 <= self.numerator <= _FARTHEST << self.shift:
            raise InternalError("no sampler chooses at this rate")

    @property
    def value(self) -> Fraction:
        """The rate as a number."""
        return Fraction(self.numerator, 1 << self.shift)

    def capped(self, gaps: NDArray[Any]) -> Integers:
        """Return the gaps, none beyond the first whose chance is below exp(-4096).

        A score is then never further below the best than so: its largest change by a neighbour stays
        what it was, since the maximum of two scores changes no more than they do.
        """
        few: Integers = np.minimum(gaps, self.farthest).astype(np.int64)
        return few

    @property
    def farthest(self) -> int:
        """The smallest gap whose chance is below exp(-4096)."""
        return (_FARTHEST << self.shift) // self.numerator + 1


def rate_below(limit: Fraction) -> Rate | None:
    """Return the largest rate that is at most `limit`; None where it is below 2^-50.

    It is within 1/512 of the limit, but for limits below 2^-41.
    """
    limit = min(limit, Fraction(_FARTHEST))
    shift = 0
    while limit * (1 << shift) < _FINE_RATE and shift < _MOST_SHIFT:
        shift += 1
    numerator = int(limit * (1 << shift))
    return Rate(numerator, shift) if numerator else None


@dataclass(frozen=True, slots=True)
class ExactSampler:
    """This module's own samplers: the default."""

    name: str = "exact"

    def laplace(self, scale: int, size: int) -> Integers:
        """Return `size` draws of the discrete Laplace distribution; see `Sampler.laplace`."""
        check_request(scale, size)
        return _in_batches(lambda wanted: _laplace(scale, _oversized(wanted, 1.7)), size)

    def gaussian(self, sigma: int, size: int) -> Integers:
        """Return `size` draws of the discrete Gaussian distribution; see `Sampler.gaussian`."""
        check_request(sigma, size)
        return _in_batches(lambda wanted: _gaussian(sigma, _oversized(wanted, 1.4)), size)

    def choose(self, gaps: Integers, rate: Rate, *, exponential: bool = False) -> Integers:
        """Return, for each row of `gaps`, the column that is chosen; see `Sampler.choose`.

        Claim:   the chosen column has the law of permute-and-flip: columns are tried in a uniformly
                 random order, and the first whose coin of exp(-rate * gap) comes up is taken.
        Why:     the coins don't depend on the order, so they may be tossed first; then the first
                 column in a random order among those that came up is any of them alike. A column of
                 gap 0 always comes up. A gap times the numerator stays below 2^63: `capped`.
                 The exponential mechanism tries columns at random, each time with a fresh coin.
        Assumes: the coins' law (`exp_minus_ratio`).
        Source:  [McKennaSheldon2020]
        """
        chosen = np.empty(len(gaps), dtype=np.int64)
        if exponential:
            for row, line in enumerate(gaps):
                chosen[row] = _proportional(rate.capped(line) * rate.numerator, 1 << rate.shift)
            return chosen
        rows = max(1, _BATCH // max(1, gaps.shape[1]))
        for start in range(0, len(gaps), rows):
            some = rate.capped(gaps[start : start + rows])
            coins = exp_minus_ratio(some.ravel() * rate.numerator, 1 << rate.shift)
            for row, heads in enumerate(coins.reshape(some.shape)):
                up = np.flatnonzero(heads)
                chosen[start + row] = up[uniform_below(up.size, 1)[0]]
        return chosen


def sampler_named(name: str) -> Sampler:
    """Return the sampler that the schema names: "exact" or "opendp".

    Raises SchemaError for another name and EngineError where OpenDP isn't installed.
    """
    match name:
        case "exact":
            return ExactSampler()
        case "opendp":
            from dp_sql.mechanisms.sampler_opendp import OpenDPSampler  # noqa: PLC0415 - an extra

            return OpenDPSampler()
        case _:
            raise SchemaError(
                f"There is no sampler named {name!r}.", hint="sampler: exact, or sampler: opendp"
            )


def check_request(scale: int, size: int) -> None:
    """Raise InternalError unless 1 <= scale <= 2^50 and size >= 0."""
    if not 1 <= scale <= MAX_SCALE or size < 0:
        raise InternalError(f"no sampler draws {size} values of scale {scale}")


def uniform_below(limit: int, size: int) -> Integers:
    """Return `size` uniform integers from 0 to limit - 1, for 1 <= limit <= 2^63."""
    return _uniform_words(limit, size).astype(np.int64)


def exp_minus_ratio(numerators: Integers, denominator: int) -> Coins:
    """Return coins that come up True with probability exp(-numerators[i]/denominator).

    0 <= numerators[i] < 2^63, 1 <= denominator < 2^63. A coin of exp(-(w + f)) is w coins of
    exp(-1) and one of exp(-f), all of which have to come up True.
    """
    whole, rest = np.divmod(numerators, denominator)
    coins: Coins = np.zeros(numerators.size, dtype=np.bool_)
    alive = np.arange(numerators.size)
    step = 0
    while (waiting := whole[alive] > step).any():
        passed = np.ones(alive.size, dtype=np.bool_)
        passed[waiting] = _exp_minus_one(int(np.count_nonzero(waiting)))
        alive = alive[passed]
        step += 1
    rest = rest[alive]
    coins[alive] = _exp_minus(
        lambda some: uniform_below(denominator, some.size) < rest[some], alive.size
    )
    return coins


def coins(numerators: Sequence[int], bits: int) -> Coins:
    """Return coins that come up True with probability numerators[i] / 2^bits, exactly; bits above 0."""
    size = -(-bits // 8)
    spare = 8 * size - bits
    drawn = os.urandom(size * len(numerators))
    words = (drawn[start : start + size] for start in range(0, len(drawn), size))
    return np.array(
        [
            int.from_bytes(word, "little") >> spare < numerator
            for word, numerator in zip(words, numerators, strict=True)
        ],
        dtype=np.bool_,
    )


def _proportional(numerators: Integers, denominator: int) -> int:
    """Return an index with probability in proportion to exp(-numerators[i]/denominator), 0 somewhere.

    Rejection sampling: a uniform index is kept if its coin comes up, and one in `numerators.size` is
    at least.
    """
    for _ in range(_MOST_BATCHES):
        tried = uniform_below(numerators.size, 2 * numerators.size + 8)
        kept = tried[exp_minus_ratio(numerators[tried], denominator)]
        if kept.size:
            return int(kept[0])
    raise InternalError("the operating system's random bits are not random")


def _in_batches(draw: Callable[[int], Integers], size: int) -> Integers:
    """Fill `size` places from `draw(wanted)`, which returns about as many values as wanted."""
    out = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        batch = draw(min(size - filled, _BATCH))[: size - filled]
        out[filled : filled + batch.size] = batch
        filled += batch.size
    return out


def _oversized(wanted: int, factor: float) -> int:
    """Return how many proposals to make for `wanted` values when one in `factor` is accepted."""
    return int(wanted * factor) + 32


def _laplace(scale: int, proposals: int) -> Integers:
    """Return the accepted ones of `proposals` draws of the discrete Laplace distribution.

    z = +-(u + scale * v), u uniform below scale and kept with probability exp(-u/scale), v geometric
    with ratio exp(-1); one of the two zeros is rejected.
    Source: [CanonneKamathSteinke2020] algorithm 2.
    """
    remainder = uniform_below(scale, proposals)
    kept = _exp_minus(
        lambda some: uniform_below(scale, some.size) < remainder[some], remainder.size
    )
    remainder = remainder[kept]
    # at most scale - 1 + scale * (2^13 - 2) < 2^50 * 2^13 = 2^63
    magnitude = remainder + scale * _geometric(remainder.size)
    negative = _fair_coins(magnitude.size)
    once = ~(negative & (magnitude == 0))
    accepted: Integers = np.where(negative, -magnitude, magnitude)[once]
    return accepted


def _gaussian(sigma: int, proposals: int) -> Integers:
    """Return the accepted ones of `proposals` draws of the discrete Gaussian distribution.

    A discrete Laplace proposal y of scale sigma is kept with probability exp(-d^2/(2 sigma^2)),
    d = ||y| - sigma|. With d = a * sigma + b and 0 <= b < sigma the exponent is
    a^2/2 + a*b/sigma + (b/sigma)^2/2: three coins that never square a large number.
    Source: [CanonneKamathSteinke2020] algorithm 3, with t = sigma.
    """
    proposal = _laplace(sigma, proposals)
    steps, rest = np.divmod(np.abs(np.abs(proposal) - sigma), sigma)
    # steps <= 2^13 and rest < 2^50: steps^2 <= 2^26, steps * rest < 2^63
    alive = np.flatnonzero(exp_minus_ratio(steps * steps, 2))
    alive = alive[exp_minus_ratio(steps[alive] * rest[alive], sigma)]
    rest = rest[alive]

    def half_square(some: Indices) -> Coins:
        first = uniform_below(sigma, some.size) < rest[some]
        second = uniform_below(sigma, some.size) < rest[some]
        both: Coins = first & second & _fair_coins(some.size)
        return both

    accepted: Integers = proposal[alive[_exp_minus(half_square, alive.size)]]
    return accepted


def _fair_coins(size: int) -> Coins:
    """Return `size` coins of probability one half."""
    return (_random_words(np.uint8, size) & 1).astype(np.bool_)


def _geometric(size: int) -> Integers:
    """Return `size` numbers of exp(-1) coins in a row that came up True."""
    counts = np.zeros(size, dtype=np.int64)
    alive = np.arange(size)
    rounds = 0
    while (alive := alive[_exp_minus_one(alive.size)]).size:
        counts[alive] += 1
        rounds += 1
        if rounds > _MAX_STEPS:
            raise InternalError("the operating system's random bits are not random")
    return counts


def _exp_minus_one(size: int) -> Coins:
    """Return `size` coins that come up True with probability exp(-1)."""
    return _exp_minus(None, size)


def _exp_minus(coin: Callable[[Indices], Coins] | None, size: int) -> Coins:
    """Return `size` coins of probability exp(-x_i), where coin(indices) tosses coins of x_i <= 1.

    Toss coins of probability x/1, x/2, x/3, … until the first False: the number of that toss is odd
    with probability exp(-x). A coin of x/k is one of 1/k and one of x. None stands for x = 1.
    Source: [CanonneKamathSteinke2020] algorithm 1.
    """
    odd = np.empty(size, dtype=np.bool_)
    alive = np.arange(size)
    toss = 1
    while alive.size:
        passed = _uniform_words(toss, alive.size) == 0
        if coin is not None:
            hopeful = np.flatnonzero(passed)
            passed[hopeful] = coin(alive[hopeful])
        odd[alive[~passed]] = toss % 2 == 1
        alive = alive[passed]
        toss += 1
        if toss > _MAX_ROUNDS:
            raise InternalError("the operating system's random bits are not random")
    return odd


def _uniform_words(limit: int, size: int) -> NDArray[Any]:
    """Return `size` uniform integers below `limit` <= 2^63, in the word type they were cut from.

    The words 0 … last are a whole number of copies of 0 … limit - 1; other words are drawn again.
    """
    if limit == 1:
        return np.zeros(size, dtype=np.uint16)
    word, bits = _word_for(limit)
    words = _random_words(word, size)
    last = 2**bits - 1 - 2**bits % limit
    if last < 2**bits - 1:
        wrong = np.flatnonzero(words > word(last))
        while wrong.size:
            words[wrong] = _random_words(word, wrong.size)
            wrong = wrong[words[wrong] > word(last)]
    small: NDArray[Any] = words % word(limit)
    return small


def _word_for(limit: int) -> tuple[type[np.unsignedinteger[Any]], int]:
    """Return a word type in which at most one word in 2^8 (2^1 for large limits) is rejected."""
    if limit <= 2**8:
        return np.uint16, 16
    if limit <= 2**24:
        return np.uint32, 32
    return np.uint64, 64


def _random_words(word: type[np.unsignedinteger[Any]], size: int) -> NDArray[Any]:
    """Return `size` words of the operating system's random bits."""
    return np.frombuffer(bytearray(os.urandom(size * word().itemsize)), dtype=word)
