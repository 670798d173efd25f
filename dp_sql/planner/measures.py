"""From aggregates to integer vectors: which measures answer them, and on which grids."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.errors import NotPrivateError, UnsupportedSQLError
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Case, Expression, Literal, Ref, columns_of
from dp_sql.plan.histogram import Quantile
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.printer import expression_text
from dp_sql.plan.relation import (
    CountMeasure,
    Measure,
    MomentMeasure,
    PresenceMeasure,
    SumMeasure,
)
from dp_sql.plan.release import (
    Aggregate,
    AggregateKind,
    CountReadout,
    MeanReadout,
    Readout,
    SumReadout,
    VarianceReadout,
)
from dp_sql.planner.pairs import (
    Pair,
    narrow,
    of_one_argument,
    pair_measure,
    pair_readout,
    pairs_of,
    with_pairs,
)
from dp_sql.planner.vectors import vector_measures, vector_readout
from dp_sql.planner.written import with_argument, written_argument

_VARIANCES = {
    AggregateKind.VAR_POP: (False, False),
    AggregateKind.VAR_SAMP: (True, False),
    AggregateKind.STDDEV_POP: (False, True),
    AggregateKind.STDDEV_SAMP: (True, True),
    AggregateKind.REGR_SXX: (False, False),
    AggregateKind.REGR_SYY: (False, False),
}  # (sample, root)

FINEST_CELLS = (
    2**16
)  # a moment vector has at least so many cells where the division by c would tell
_MOST_CELLS = {0: 1, 1: 2**46, 2: 2**31}  # so that cells^degree fits a BIGINT
_MOST_NOISE = 2**48  # a noise scale, in steps of a moment vector: the samplers end at 2^50
_MOST_SCALED = 2**80  # cells^degree * max_rows: times 2^45 rows it still fits a HUGEINT
_COUNTS = (AggregateKind.COUNT, AggregateKind.COUNT_OWNERS)
_NOISE_CELLS = 2**10  # so many grid steps lie in one noise scale at least
_MOVED_CELLS = 64  # so many grid steps lie in what a neighbour moves a value by at least
_LARGEST = Fraction(10**150)  # bounds of an argument: its square fits a DOUBLE
_FARTHEST = 2**60  # of a row's place from the start of its unit's bounds, in cells
_MOST_STEPS = 2**40  # a noise scale has at most so many steps of a sum's grid


@dataclass(frozen=True, slots=True)
class Wanted:
    """The measures of a release and how each aggregate is read from them.

    room: what one row's moment vector may add up to at most, so that its noise can be drawn.
    """

    measures: tuple[Measure, ...]
    readouts: tuple[Readout, ...]
    room: int


@dataclass(frozen=True, slots=True)
class Noise:
    """What the planner knows of the noise: it sets grids, never privacy.

    max_rows, max_groups: the limits of one unit. epsilon: of the whole release. moved: how far a
    neighbour moves an argument, where that is less than its range; else None. free_rows: COUNT(*)
    costs nothing, so it is better counted apart. sides: how many units come or go between neighbours.
    """

    max_rows: int
    max_groups: int
    epsilon: Fraction
    moved: Callable[[Expression], Fraction | None] = lambda _: None
    free_rows: bool = False
    sides: int = 1

    def rows(self, vectors: int) -> Fraction:
        """Return the Laplace scale of a count in rows, when `vectors` share the epsilon."""
        return self.max_rows * self.max_groups * vectors / self.epsilon


def plan_measures(
    aggregates: tuple[Aggregate, ...],
    domain: Callable[[Expression], Domain],
    noise: Noise,
    *,
    never_null: frozenset[int],
    more: int,
) -> Wanted:
    """Return the measures that answer `aggregates`; equal needs share one.

    never_null: the numbers of the columns that hold no NULL. `more`: how many further vectors (key
    selection) share the epsilon.
    Raises NotPrivateError for an argument that nothing bounds.
    """
    aggregates = with_pairs(
        of_one_argument(aggregates, lambda a, e: bounded(a, e, domain(e))),
        lambda e: _in(e, never_null),
    )
    pairs = pairs_of(aggregates)
    asked = dict.fromkeys(_asked(a) for a in aggregates if _is_graded(a))
    of_each = _of_each(aggregates)
    stars = any(a.kind is AggregateKind.COUNT_STAR and a.bounds is None for a in aggregates)
    degrees: dict[_Asked, int] = {}  # 0: a plain sum
    for one in asked:
        kinds = {a.kind for a in of_each[one]}
        if kinds & set(_VARIANCES):
            degrees[one] = 2
        elif AggregateKind.AVG in kinds or AggregateKind.COUNT in kinds:
            degrees[one] = 1
        else:
            degrees[one] = 0
    free = [one for one in degrees if one.bounds is None]
    shared = stars and not noise.free_rows
    if shared and free and not pairs and not any(degrees.values()):
        degrees[free[0]] = 1  # a sum beside COUNT(*) shares its vector: no split
    host = next((one for one, degree in degrees.items() if degree), None) if shared else None
    plain: list[Measure] = list(
        dict.fromkeys(
            CountMeasure(a.argument, _whole(a.bounds))
            for a in aggregates
            if (a.kind is AggregateKind.COUNT and not _shares(a, degrees))
            or (a.kind is AggregateKind.COUNT_STAR and a.bounds is not None)
        )
    )
    pair_host = next(iter(pairs), None) if shared and host is None else None
    if stars and host is None and pair_host is None:
        plain.append(CountMeasure(None))
    plain += dict.fromkeys(
        PresenceMeasure(a.argument) for a in aggregates if a.kind is AggregateKind.COUNT_OWNERS
    )
    vectors = len({(a.values, a.entry.max_norm) for a in aggregates if a.entry is not None})
    rows = noise.rows(max(1, len(degrees) + len(pairs) + len(plain) + vectors + more))
    room = max(1, int(_MOST_NOISE / (rows * noise.sides)))
    graded: dict[_Asked, Measure] = {}
    for one, degree in degrees.items():
        found = bounded(of_each[one][0], one.argument, _widened(domain(one.argument), one))
        if one.bounds is not None and degree == 0:
            graded[one] = _sum_of_unit(one.argument, one.bounds, found, rows / noise.max_rows)
        elif degree == 0 and (found.low or found.high):
            graded[one] = _sum(one.argument, found, rows, noise.moved(one.argument))
        else:
            null = one == host and not _in(one.argument, never_null)
            most = _MOST_CELLS[degree]
            while most > 1 and (
                most**degree * noise.max_rows > _MOST_SCALED or most**degree > room
            ):
                most //= 2
            moved = noise.moved(one.argument)
            graded[one] = (
                _moments(one.argument, found, degree, rows, most, moved=moved, null_component=null)
                if one.bounds is None
                else _mean_of_unit(one.argument, one.bounds, found, rows, most, null_component=null)
            )
    paired: dict[Pair, PairMeasure] = {}
    for pair, both in pairs.items():
        asking = next(a for a in aggregates if pair.has(a))
        ends = (pair.first, pair.second)
        found_two = [narrow(asking, bounded(asking, e, domain(e))) for e in ends]
        paired[pair] = pair_measure(
            pair,
            both,
            (found_two[0], found_two[1]),
            (noise.moved(pair.first), noise.moved(pair.second)),
            rows=rows,
            room=room,
            max_rows=noise.max_rows,
            null_component=pair == pair_host and not all(_in(e, never_null) for e in ends),
        )
    summed = vector_measures(aggregates, domain, rows=rows * noise.sides, max_rows=noise.max_rows)
    measures = (*graded.values(), *paired.values(), *summed.values(), *plain)
    where = {measure: index for index, measure in enumerate(measures)}
    star = graded[host] if host else paired[pair_host] if pair_host else None
    readouts = tuple(
        vector_readout(a, summed, where)
        if a.entry is not None
        else _readout(a, graded, star, where)
        if a.second is None
        else pair_readout(a, paired, where)
        for a in aggregates
    )
    return Wanted(measures, readouts, room)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What sums are asked of: an argument, and what bounds a unit's rows of a group, if anything.

    kind: with bounds, the aggregate that they are of, since each bounds something else.
    """

    argument: Expression
    bounds: tuple[Fraction, Fraction] | None = None
    kind: AggregateKind | None = None


def _asked(aggregate: Aggregate) -> _Asked:
    found = aggregate.argument
    argument = Literal(None, aggregate.type) if found is None else found
    if aggregate.bounds is None:
        return _Asked(argument)
    return _Asked(argument, aggregate.bounds, aggregate.kind)


def _of_each(aggregates: tuple[Aggregate, ...]) -> dict[_Asked, list[Aggregate]]:
    """Return the aggregates by what they ask sums of, those that need bounds first."""
    found: dict[_Asked, list[Aggregate]] = {}
    for aggregate in sorted(aggregates, key=_is_graded, reverse=True):
        found.setdefault(_asked(aggregate), []).append(aggregate)
    return found


def _is_graded(aggregate: Aggregate) -> bool:
    one = aggregate.argument is not None and aggregate.second is None
    return one and aggregate.kind not in _COUNTS


def _shares(aggregate: Aggregate, degrees: dict[_Asked, int]) -> bool:
    """Return whether a COUNT(x) is read from the moments of x."""
    return bool(degrees.get(_asked(aggregate), 0))


def _whole(bounds: tuple[Fraction, Fraction] | None) -> tuple[int, int] | None:
    return None if bounds is None else (int(bounds[0]), int(bounds[1]))


def _in(argument: Expression, columns: frozenset[int]) -> bool:
    return isinstance(argument, Ref) and argument.column.number in columns


def _readout(
    aggregate: Aggregate,
    graded: dict[_Asked, Measure],
    star: Measure | None,
    where: dict[Measure, int],
) -> Readout:
    argument = aggregate.argument
    match aggregate.kind:
        case AggregateKind.COUNT_STAR:
            if star is not None and aggregate.bounds is None:
                return CountReadout(where[star], with_null=True)
            return CountReadout(where[CountMeasure(None, _whole(aggregate.bounds))], with_null=True)
        case AggregateKind.COUNT:
            measure = graded.get(_asked(aggregate))
            if isinstance(measure, MomentMeasure):
                return CountReadout(where[measure], with_null=False)
            counted = CountMeasure(argument, _whole(aggregate.bounds))
            return CountReadout(where[counted], with_null=True)
        case AggregateKind.COUNT_OWNERS:
            return CountReadout(where[PresenceMeasure(argument)], with_null=True)
        case AggregateKind.SUM:
            return SumReadout(where[graded[_asked(aggregate)]])
        case AggregateKind.AVG:
            return MeanReadout(where[graded[_asked(aggregate)]])
        case _:
            sample, root = _VARIANCES[aggregate.kind]
            summed = aggregate.kind in (AggregateKind.REGR_SXX, AggregateKind.REGR_SYY)
            return VarianceReadout(where[graded[_asked(aggregate)]], sample, root, summed)


def bounded(aggregate: Aggregate, argument: Expression, domain: Domain) -> Domain:
    """Return the domain of an aggregate's argument with both ends.

    Raises NotPrivateError, naming the way out, for one without, and UnsupportedSQLError for ends
    that are too large, or too close to each other, for DOUBLE.
    """
    text, position = aggregate.place if aggregate.place is not None else (None, None)
    if domain.low is not None and domain.high is not None:
        width, largest = domain.high - domain.low, max(abs(domain.low), abs(domain.high))
        if any(size and not 1 / _LARGEST <= size <= _LARGEST for size in (width, largest)):
            raise UnsupportedSQLError(
                "the bounds of this aggregate are too large, or too close to each other, to compute "
                "with.",
                hint="bounds between 1e-150 and 1e150, or the values in another unit",
                text=text,
                position=position,
            )
        return domain
    inner = argument
    while isinstance(inner, Case):  # a FILTER
        inner = inner.branches[0][1]
    read = columns_of(inner)
    own = [c.name for c in read if c.name.replace("_", "a").isalnum()]  # no subquery's value
    names = own or ["the expression"]
    declare = f", or declare bounds of {names[0]} in the schema" if len(own) == len(read) else ""
    place = ", 0.5" if isinstance(aggregate.choice, Quantile) else ""
    what = f"the expression over {', '.join(own)}" if own else "this expression"
    what = names[0] if isinstance(inner, Ref) else what
    clamped = f"CLAMP({written_argument(text, position) or expression_text(inner)}, 0, 100)"
    call = clamped if aggregate.second is not None else f"{aggregate.kind.value}({clamped}{place})"
    error = NotPrivateError(
        f"{what} has no bounds, so one row could change the answer by any amount.",
        hint=f"{call} with the range that you need{declare}",
        text=text,
        position=position,
    )
    wrapped = with_argument(text, position, clamped)
    error.tries = () if wrapped is None else (wrapped,)
    raise error


def _sum(
    argument: Expression, domain: Domain, rows: Fraction, moved: Fraction | None
) -> SumMeasure:
    low, high = _ends(domain)
    largest = max(abs(low), abs(high))
    scale = largest * rows  # of the Laplace noise, in the argument's unit
    if domain.step is not None:
        step = domain.step
        while scale / step > _MOST_STEPS or largest / step > 2**52:
            step *= 2
        return SumMeasure(argument, low, high, step)
    width = high - low or largest
    step = _power_below(min(scale / _NOISE_CELLS, width / FINEST_CELLS, _fine(moved, width)))
    while largest / step > 2**52:
        step *= 2
    return SumMeasure(argument, low, high, step)


def _moments(
    argument: Expression,
    domain: Domain,
    degree: int,
    rows: Fraction,
    most: int,
    *,
    moved: Fraction | None,
    null_component: bool,
) -> MomentMeasure:
    low, high = _ends(domain)
    if low == high:
        return MomentMeasure(argument, low, high, 1, 0, null_component)
    if domain.step is not None and (high - low) % domain.step == 0:
        natural = int((high - low) / domain.step)
        if natural <= most:
            return MomentMeasure(argument, low, high, natural, degree, null_component)
    cells = min(FINEST_CELLS, most)
    finest = (high - low) / _fine(moved, high - low)
    while cells < most and (cells * rows < _NOISE_CELLS or cells < finest):
        cells *= 2
    return MomentMeasure(argument, low, high, cells, degree, null_component)


def _fine(moved: Fraction | None, width: Fraction) -> Fraction:
    """Return a step so small that rounding adds little to how far a neighbour moves a value."""
    return width if not moved else min(width, moved / _MOVED_CELLS)


def _widened(domain: Domain, asked: _Asked) -> Domain:
    """Return the domain with the ends that it lacks taken from the bounds of a unit.

    A row beyond these ends counts as the nearest of them, before a unit's rows are bounded together.
    """
    if asked.bounds is None:
        return domain
    low, high = asked.bounds
    if asked.kind is AggregateKind.SUM:
        low, high = min(low, Fraction(0)), max(high, Fraction(0))
    known = [end for end in (domain.low, domain.high) if end is not None]
    return replace(
        domain,
        low=min([low, *known]) if domain.low is None else domain.low,
        high=max([high, *known]) if domain.high is None else domain.high,
    )


def _sum_of_unit(
    argument: Expression, bounds: tuple[Fraction, Fraction], domain: Domain, units: Fraction
) -> SumMeasure:
    """Return the measure of a sum whose sum over one unit and group is bounded.

    units: the Laplace scale of a count of units. The bounds are truncated toward zero to steps.
    """
    low, high = _ends(domain)
    scale = max(map(abs, bounds)) * units
    if domain.step is not None and not any(end % domain.step for end in bounds):
        step = domain.step
        while scale / step > _MOST_STEPS:
            step *= 2
    else:
        step = _power_below(min(scale / _NOISE_CELLS, (bounds[1] - bounds[0]) / FINEST_CELLS))
    while max(abs(low), abs(high)) / step > 2**52:
        step *= 2
    return SumMeasure(argument, low, high, step, (int(bounds[0] / step), int(bounds[1] / step)))


def _mean_of_unit(
    argument: Expression,
    bounds: tuple[Fraction, Fraction],
    domain: Domain,
    rows: Fraction,
    most: int,
    *,
    null_component: bool,
) -> MomentMeasure:
    """Return the measure of a mean where each unit's mean in a group is bounded."""
    step = domain.step if domain.step and not bounds[0] % domain.step else None
    inside = replace(domain, low=bounds[0], high=bounds[1], step=step)
    made = _moments(argument, inside, 1, rows, most, moved=None, null_component=null_component)
    low, high = _ends(domain)
    width = (made.high - made.low) / made.cells
    first = min(0, math.floor((low - made.low) / width))
    last = max(made.cells, math.ceil((high - made.low) / width))
    if max(-first, last) > _FARTHEST:
        raise UnsupportedSQLError(
            "the contribution bounds of this aggregate are far narrower than its values.",
            hint="wider bounds, or CLAMP(…, low, high) around the values",
        )
    return made if (first, last) == (0, made.cells) else replace(made, rows=(first, last))


def _ends(domain: Domain) -> tuple[Fraction, Fraction]:
    if domain.low is None or domain.high is None:
        raise NotPrivateError("an argument without bounds.")
    return domain.low, domain.high


def _power_below(value: Fraction) -> Fraction:
    """Return the largest power of two that is at most `value` (above zero)."""
    power = Fraction(1)
    while power > value:
        power /= 2
    while power * 2 <= value:
        power *= 2
    return power
