"""From aggregates to integer vectors: which measures answer them, and on which grids."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.errors import NotPrivateError, UnsupportedSQLError
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Case, Expression, Literal, Ref, columns_of
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

_VARIANCES = {
    AggregateKind.VAR_POP: (False, False),
    AggregateKind.VAR_SAMP: (True, False),
    AggregateKind.STDDEV_POP: (False, True),
    AggregateKind.STDDEV_SAMP: (True, True),
}  # (sample, root)

FINEST_CELLS = (
    2**16
)  # a moment vector has at least so many cells where the division by c would tell
_MOST_CELLS = {1: 2**46, 2: 2**31}  # so that cells^degree fits a BIGINT
_MOST_NOISE = 2**48  # a noise scale, in steps of a moment vector: the samplers end at 2^50
_MOST_SCALED = 2**80  # cells^degree * max_rows: times 2^45 rows it still fits a HUGEINT
_COUNTS = (AggregateKind.COUNT, AggregateKind.COUNT_OWNERS)
_NOISE_CELLS = 2**10  # so many grid steps lie in one noise scale at least
_LARGEST = Fraction(10**150)  # bounds of an argument: its square fits a DOUBLE
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

    max_rows, max_groups: the limits of one unit. epsilon: of the whole release.
    """

    max_rows: int
    max_groups: int
    epsilon: Fraction

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
    arguments = dict.fromkeys(
        a.argument for a in aggregates if a.argument is not None and a.kind not in _COUNTS
    )
    stars = any(a.kind is AggregateKind.COUNT_STAR for a in aggregates)
    degrees: dict[Expression, int] = {}  # 0: a plain sum
    for argument in arguments:
        kinds = {a.kind for a in aggregates if a.argument == argument}
        if kinds & set(_VARIANCES):
            degrees[argument] = 2
        elif AggregateKind.AVG in kinds or AggregateKind.COUNT in kinds:
            degrees[argument] = 1
        else:
            degrees[argument] = 0
    if stars and degrees and not any(degrees.values()):
        degrees[next(iter(degrees))] = 1  # a sum beside COUNT(*) shares its vector: no split
    host = next((a for a, degree in degrees.items() if degree), None) if stars else None
    counts = [
        a.argument
        for a in aggregates
        if a.kind is AggregateKind.COUNT and not degrees.get(_argument(a), 0)
    ]
    plain: list[Measure] = [CountMeasure(c) for c in dict.fromkeys(counts)]
    if stars and host is None:
        plain.append(CountMeasure(None))
    plain += dict.fromkeys(
        PresenceMeasure(a.argument) for a in aggregates if a.kind is AggregateKind.COUNT_OWNERS
    )
    rows = noise.rows(max(1, len(degrees) + len(plain) + more))
    room = max(1, int(_MOST_NOISE / rows))
    graded: dict[Expression, Measure] = {}
    for argument, degree in degrees.items():
        asking = next(a for a in aggregates if a.argument == argument and a.kind not in _COUNTS)
        found = bounded(asking, argument, domain(argument))
        if degree == 0:
            graded[argument] = _sum(argument, found, rows)
        else:
            null = argument == host and not _in(argument, never_null)
            most = _MOST_CELLS[degree]
            while most > 1 and (
                most**degree * noise.max_rows > _MOST_SCALED or most**degree > room
            ):
                most //= 2
            graded[argument] = _moments(argument, found, degree, rows, most, null_component=null)
    measures = (*graded.values(), *plain)
    where = {measure: index for index, measure in enumerate(measures)}
    readouts = tuple(_readout(a, graded, host, where) for a in aggregates)
    return Wanted(measures, readouts, room)


def _argument(aggregate: Aggregate) -> Expression:
    return aggregate.argument if aggregate.argument is not None else Literal(None, aggregate.type)


def _in(argument: Expression, columns: frozenset[int]) -> bool:
    return isinstance(argument, Ref) and argument.column.number in columns


def _readout(
    aggregate: Aggregate,
    graded: dict[Expression, Measure],
    host: Expression | None,
    where: dict[Measure, int],
) -> Readout:
    argument = aggregate.argument
    match aggregate.kind:
        case AggregateKind.COUNT_STAR:
            if host is not None:
                return CountReadout(where[graded[host]], with_null=True)
            return CountReadout(where[CountMeasure(None)], with_null=True)
        case AggregateKind.COUNT:
            measure = graded.get(_argument(aggregate))
            if isinstance(measure, MomentMeasure):
                return CountReadout(where[measure], with_null=False)
            return CountReadout(where[CountMeasure(argument)], with_null=True)
        case AggregateKind.COUNT_OWNERS:
            return CountReadout(where[PresenceMeasure(argument)], with_null=True)
        case AggregateKind.SUM:
            return SumReadout(where[graded[_argument(aggregate)]])
        case AggregateKind.AVG:
            return MeanReadout(where[graded[_argument(aggregate)]])
        case _:
            sample, root = _VARIANCES[aggregate.kind]
            return VarianceReadout(where[graded[_argument(aggregate)]], sample, root)


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
    names = [c.name for c in columns_of(inner)] or ["the expression"]
    what = names[0] if isinstance(inner, Ref) else f"the expression over {', '.join(names)}"
    raise NotPrivateError(
        f"{what} has no bounds, so one row could change the answer by any amount.",
        hint=f"{aggregate.kind.value}(CLAMP({expression_text(inner)}, 0, 100)) with the range that you "
        f"need, or declare bounds of {names[0]} in the schema",
        text=text,
        position=position,
    )


def _sum(argument: Expression, domain: Domain, rows: Fraction) -> SumMeasure:
    low, high = _ends(domain)
    if low == 0 == high:
        high = Fraction(1)
    largest = max(abs(low), abs(high))
    scale = largest * rows  # of the Laplace noise, in the argument's unit
    if domain.step is not None:
        step = domain.step
        while scale / step > _MOST_STEPS or largest / step > 2**52:
            step *= 2
        return SumMeasure(argument, low, high, step)
    width = high - low if high > low else largest
    step = _power_below(min(scale / _NOISE_CELLS, width / FINEST_CELLS))
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
    null_component: bool,
) -> MomentMeasure:
    low, high = _ends(domain)
    if low == high:
        high += 1  # a range of one point has no width to divide
    if domain.step is not None and (high - low) % domain.step == 0:
        natural = int((high - low) / domain.step)
        if natural <= most:
            return MomentMeasure(argument, low, high, natural, degree, null_component)
    cells = min(FINEST_CELLS, most)
    while cells < most and cells * rows < _NOISE_CELLS:
        cells *= 2
    return MomentMeasure(argument, low, high, cells, degree, null_component)


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
