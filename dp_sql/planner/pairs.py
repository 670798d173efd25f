"""Aggregates of two arguments: which share a vector, of which degrees, and on which grids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError, UnsupportedSQLError
from dp_sql.plan import functions
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Expression, Literal
from dp_sql.plan.pair import Axis, PairMeasure
from dp_sql.plan.relation import Measure
from dp_sql.plan.release import PAIRS, Aggregate, AggregateKind, CountReadout, PairReadout, Readout
from dp_sql.schema import sqltype

_Kind = AggregateKind
_CELLS = {1: 2**16, 2: 2**15}  # of an axis without a grid of its own, by its degree
_FAST = 2**62  # what a row adds up to is below, where noise allows: then its products fit a BIGINT
_MOST_TOTAL = 2**76  # of one row: times 16 times 2^45 rows it still fits a HUGEINT
_MOST_SCALED = 2**80  # the same times max_rows: times 2^45 rows it still fits a HUGEINT
_NOISE_CELLS = 2**10  # so many grid steps lie in one noise scale at least
_MOVED_CELLS = 64  # so many grid steps lie in what a neighbour moves a value by at least
_LARGEST = 10**75  # bounds of an argument: the square of a product of two fits a DOUBLE

_OF_X = frozenset({_Kind.REGR_AVGX, _Kind.REGR_SXX})
_OF_Y = frozenset({_Kind.REGR_AVGY, _Kind.REGR_SYY})
_SPREADS = frozenset({_Kind.VAR_POP, _Kind.VAR_SAMP, _Kind.STDDEV_POP, _Kind.STDDEV_SAMP})
_SQUARES_X = _SPREADS | frozenset(
    {_Kind.CORR, _Kind.REGR_SLOPE, _Kind.REGR_INTERCEPT, _Kind.REGR_R2, _Kind.REGR_SXX}
)
_SQUARES_Y = frozenset({_Kind.CORR, _Kind.REGR_R2, _Kind.REGR_SYY})
_OF_ONE = {_Kind.REGR_AVGX: _Kind.AVG, _Kind.REGR_AVGY: _Kind.AVG, _Kind.REGR_COUNT: _Kind.COUNT}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two arguments whose aggregates share a vector, in the order in which they are asked first."""

    first: Expression
    second: Expression

    def has(self, aggregate: Aggregate) -> bool:
        """Return whether an aggregate is of these two, in either order."""
        found = (aggregate.argument, aggregate.second)
        return found in ((self.first, self.second), (self.second, self.first))

    def x(self, aggregate: Aggregate) -> int:
        """Return the place of an aggregate's x."""
        return 1 if aggregate.argument == self.first else 0


def pairs_of(aggregates: tuple[Aggregate, ...]) -> dict[Pair, tuple[int, int]]:
    """Return the pairs that aggregates of two arguments need, with the degrees of their axes.

    A covariance needs products of degree 1; a variance needs degree 2 in its argument. The fewer
    components there are, the less noise a sum of them has.
    """
    found: dict[Pair, tuple[int, int]] = {}
    for aggregate in aggregates:
        y, x = aggregate.argument, aggregate.second
        if y is None or x is None:
            continue
        pair = next((known for known in found if known.has(aggregate)), Pair(y, x))
        degrees = list(found.get(pair, (1, 1)))
        place = pair.x(aggregate)
        if aggregate.kind in _SQUARES_X:
            degrees[place] = 2
        if aggregate.kind in _SQUARES_Y:
            degrees[1 - place] = 2
        found[pair] = degrees[0], degrees[1]
    return found


def with_pairs(
    aggregates: tuple[Aggregate, ...], held: Callable[[Expression], bool]
) -> tuple[Aggregate, ...]:
    """Return the aggregates, where means and variances of one argument are read from a pair's vector.

    held: whether an argument is never NULL: where both of a pair are, its rows are all rows. The sum of
    three numbers of the pair stands for one of the argument's own vector, whose noise would be twice as
    wide, since two vectors share the epsilon.
    """
    known = [p for p in pairs_of(aggregates) if held(p.first) and held(p.second)]
    own: dict[Expression | None, bool] = {}
    for a in aggregates:
        if a.second is None and a.entry is None:
            fits = a.bounds is None and a.kind in _SPREADS | {_Kind.AVG}
            own[a.argument] = own.get(a.argument, True) and fits

    def joined(aggregate: Aggregate) -> Aggregate:
        x = aggregate.argument
        pair = next((p for p in known if x in (p.first, p.second)), None)
        if pair is None or x is None or aggregate.second is not None or not own.get(x, False):
            return aggregate
        y = pair.second if x == pair.first else pair.first
        kind = _Kind.REGR_AVGX if aggregate.kind is _Kind.AVG else aggregate.kind
        return replace(aggregate, kind=kind, argument=y, second=x)

    return tuple(map(joined, aggregates))


def of_one_argument(
    aggregates: tuple[Aggregate, ...], check: Callable[[Aggregate, Expression], object]
) -> tuple[Aggregate, ...]:
    """Return the aggregates, where those of a pair that read one of its arguments alone are of that one.

    REGR_COUNT, REGR_AVGX and REGR_SXX without any that reads y are a count, a mean and a sum of
    squares of x where y isn't NULL: a vector of fewer components, which needs no bounds of y.
    check: called with an aggregate and the argument that needs bounds.
    """
    read = {
        pair: frozenset[int]().union(*(_places(pair, a) for a in aggregates if pair.has(a)))
        for pair in pairs_of(aggregates)
    }

    def alone(aggregate: Aggregate) -> Aggregate:
        pair = next((known for known in read if known.has(aggregate)), None)
        if pair is None or len(read[pair]) > 1:
            return aggregate
        ends = (pair.first, pair.second)
        place = next(iter(read[pair]), 0)
        if read[pair]:
            check(aggregate, ends[place])
        known = functions.call("is_not_null", (ends[1 - place],))
        argument = functions.case(((known, ends[place]),), Literal(None, sqltype.NULL))
        kind = _OF_ONE.get(aggregate.kind, aggregate.kind)
        return replace(aggregate, kind=kind, argument=argument, second=None)

    return tuple(map(alone, aggregates))


def _places(pair: Pair, aggregate: Aggregate) -> set[int]:
    """Return the places of the arguments whose values, not only their NULLs, an aggregate reads."""
    x = pair.x(aggregate)
    if aggregate.kind is _Kind.REGR_COUNT:
        return set()
    if aggregate.kind in _OF_X:
        return {x}
    return {1 - x} if aggregate.kind in _OF_Y else {0, 1}


def pair_measure(
    pair: Pair,
    degrees: tuple[int, int],
    domains: tuple[Domain, Domain],
    moved: tuple[Fraction | None, Fraction | None],
    *,
    rows: Fraction,
    room: int,
    max_rows: int,
    null_component: bool,
) -> PairMeasure:
    """Return the measure of two bounded arguments.

    moved: how far a neighbour moves each, where that is less than its range. rows: the Laplace scale
    of a count, in rows. room: what a row may add up to at most, so that its noise can be drawn.

    A range of one point has degree 0. A few natural steps are kept as they are. Other grids are so
    fine that what rounding adds to a variance, a twelfth of a squared step a row, is below the noise:
    for 2^15 steps and noise of one row, up to 1e10 rows.
    """
    ends = [_ends(domain) for domain in domains]
    widths = [high - low for low, high in ends]
    natural = [
        int(width / domain.step) if domain.step is not None and width % domain.step == 0 else None
        for domain, width in zip(domains, widths, strict=True)
    ]
    degrees = (degrees[0] if widths[0] else 0, degrees[1] if widths[1] else 0)
    cells = [
        1 if not width else count or min(_CELLS[degree], _CELLS[1])
        for width, count, degree in zip(widths, natural, degrees, strict=True)
    ]

    def total() -> int:
        return int(cells[0] ** degrees[0] * cells[1] ** degrees[1])

    most = max(1, min(room, _MOST_TOTAL, _MOST_SCALED // max_rows))
    while total() > min(most, _FAST):
        largest = cells.index(max(cells))
        cells[largest] = _power_below(cells[largest])
    finest = [
        width * _MOVED_CELLS / some if some else Fraction(0)
        for width, some in zip(widths, moved, strict=True)
    ]
    growing = {i for i in (0, 1) if widths[i] and cells[i] != natural[i]}
    while growing:
        wanted = [
            i for i in sorted(growing) if cells[i] * rows < _NOISE_CELLS or cells[i] < finest[i]
        ]
        growing = set(wanted)
        for place in wanted:
            if total() << degrees[place] > most:
                growing.discard(place)
            else:
                cells[place] *= 2
    axes = tuple(
        Axis(argument, low, high, count, degree)
        for argument, (low, high), count, degree in zip(
            (pair.first, pair.second), ends, cells, degrees, strict=True
        )
    )
    return PairMeasure((axes[0], axes[1]), null_component)


def narrow(aggregate: Aggregate, domain: Domain) -> Domain:
    """Return the domain; raise UnsupportedSQLError where its bounds are too large, or too close."""
    low, high = _ends(domain)
    sizes = (high - low, abs(low), abs(high))
    if any(size and not Fraction(1, _LARGEST) <= size <= _LARGEST for size in sizes):
        text, position = aggregate.place if aggregate.place is not None else (None, None)
        raise UnsupportedSQLError(
            "the bounds of this aggregate are too large, or too close to each other, to compute with.",
            hint="bounds between 1e-75 and 1e75, or the values in another unit",
            text=text,
            position=position,
        )
    return domain


def pair_readout(
    aggregate: Aggregate, measures: Mapping[Pair, PairMeasure], where: Mapping[Measure, int]
) -> Readout:
    """Return how an aggregate of two arguments is read."""
    pair = next(known for known in measures if known.has(aggregate))
    vector = where[measures[pair]]
    if aggregate.kind is _Kind.REGR_COUNT:
        return CountReadout(vector, with_null=False)
    if aggregate.kind not in PAIRS | _SPREADS:
        raise InternalError("an aggregate of one argument isn't read from a pair")
    return PairReadout(vector, aggregate.kind, pair.x(aggregate))


def _ends(domain: Domain) -> tuple[Fraction, Fraction]:
    """Return both ends of a bounded domain."""
    if domain.low is None or domain.high is None:
        raise InternalError("an argument without bounds")
    return domain.low, domain.high


def _power_below(count: int) -> int:
    """Return the largest power of two below a number above 1."""
    return 1 << ((count - 1).bit_length() - 1)
