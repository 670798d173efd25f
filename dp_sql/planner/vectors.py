"""Vectors of bounded length: which measures their sums are read from, and on which grids."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Expression
from dp_sql.plan.relation import Measure
from dp_sql.plan.release import Aggregate, Readout, SumReadout
from dp_sql.plan.vector import MOST_SQUARES, NormMeasure

_FARTHEST = Fraction(10**150)  # an entry without an end: the squares of 256 such fit a DOUBLE
_SHORTEST = 1 / Fraction(10**100)  # a limit: its square is no tiny DOUBLE
_MOST_NOISE = 2**48  # a noise scale, in steps: the samplers end at 2^50
_MOST_OF_UNIT = 2**59  # the length of a unit's vectors, times sqrt(d): its squares fit a HUGEINT
_FINEST = 30  # powers of two between a vector's length and its step, at most
_COARSEST = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """A vector whose sums are asked for, and the length that a row's may have."""

    arguments: tuple[Expression, ...]
    max_norm: Fraction


def asked_vector(aggregate: Aggregate) -> Asked | None:
    """Return the vector that an aggregate is of, None for one that is of none."""
    if aggregate.entry is None:
        return None
    return Asked(aggregate.values, aggregate.entry.max_norm)


def vector_measures(
    aggregates: tuple[Aggregate, ...],
    domain: Callable[[Expression], Domain],
    *,
    rows: Fraction,
    max_rows: int,
) -> dict[Asked, NormMeasure]:
    """Return the measure of each vector. rows: the Laplace scale of a count, in rows.

    max_rows: how many rows of a unit count in a group.
    """
    vectors = dict.fromkeys(v for a in aggregates if (v := asked_vector(a)) is not None)
    return {
        vector: _measure(vector, [domain(e) for e in vector.arguments], rows, max_rows)
        for vector in vectors
    }


def vector_readout(
    aggregate: Aggregate, measures: Mapping[Asked, NormMeasure], where: Mapping[Measure, int]
) -> Readout:
    """Return how an aggregate of a vector is read."""
    vector = asked_vector(aggregate)
    if vector is None or aggregate.entry is None:
        raise InternalError("this aggregate is of no vector")
    return SumReadout(where[measures[vector]], aggregate.entry.place)


def _measure(vector: Asked, domains: list[Domain], rows: Fraction, max_rows: int) -> NormMeasure:
    """Return the measure of a vector, its grid as fine as noise and exact sums allow.

    Where the entries' own bounds keep the vector shorter than its limit, that is its limit: the noise
    is less, and no row changes.
    """
    ends = tuple(_ends(domain) for domain in domains)
    limit, size = vector.max_norm, len(ends)
    if all(domain.bounded for domain in domains):
        longest = math.sqrt(sum(float(max(abs(low), abs(high))) ** 2 for low, high in ends))
        limit = min(limit, max(_SHORTEST, Fraction(longest * (1 + 2**-40))))
    bits = _FINEST
    while bits > _COARSEST:
        length = 2 ** (bits + 1) + size  # in steps, above the radius
        noise = length * math.isqrt(size * 4) * rows
        fits = size * length**2 <= MOST_SQUARES and 2 * noise <= _MOST_NOISE
        if fits and max_rows * length * (math.isqrt(size) + 1) <= _MOST_OF_UNIT:
            break
        bits -= 1
    step = Fraction(2) ** (math.floor(math.log2(limit)) - bits)
    return NormMeasure(vector.arguments, ends, limit, step)


def _ends(domain: Domain) -> tuple[Fraction, Fraction]:
    """Return what an entry is clamped to; whatever it is, the vector's length is bounded."""
    low = -_FARTHEST if domain.low is None else max(-_FARTHEST, min(domain.low, _FARTHEST))
    high = _FARTHEST if domain.high is None else max(-_FARTHEST, min(domain.high, _FARTHEST))
    return low, high
