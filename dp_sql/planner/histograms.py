"""From aggregates that choose a value by its rank to histograms: which grid, and how it is searched."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError
from dp_sql.plan import functions
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Expression, Literal
from dp_sql.plan.histogram import Quantile, Rank, runs_of
from dp_sql.plan.relation import MomentMeasure
from dp_sql.plan.release import Aggregate, RankReadout, Readout
from dp_sql.planner.measures import bounded
from dp_sql.schema import sqltype
from dp_sql.schema.sqltype import Kind

_MOST_PLACES = 2**16  # of one histogram
_GROUPED_PLACES = 2**12  # of one of many
_ALL_PLACES = 2**22  # of all groups of public keys together
_LEAST_PLACES = 2**6
_FEW = 2  # quantiles of one argument: so many are chosen one by one
_EPOCH = date(1970, 1, 1)
_EPOCH_TIME = datetime(1970, 1, 1)  # noqa: DTZ001  DuckDB's TIMESTAMP has no zone


@dataclass(frozen=True, slots=True)
class Wish:
    """A histogram that answers aggregates: its grid and its ranks; see `plan.histogram`."""

    argument: Expression  # as the text has it
    measure: MomentMeasure
    fine: int
    ranks: tuple[Rank, ...]
    together: bool

    @property
    def runs(self) -> int:
        """How many choices share its epsilon."""
        return runs_of(self.ranks, together=self.together)


def plan_histograms(
    aggregates: tuple[Aggregate, ...],
    domain: Callable[[Expression], Domain],
    *,
    cells: int | None,
    epsilon: Fraction,
) -> tuple[Wish, ...]:
    """Return the histograms that answer the aggregates with a rank; equal arguments share one.

    cells: how many groups there will be, None where private keys leave it open. epsilon: for one row
    of a unit; it sets how the histogram is searched, never privacy.
    Raises NotPrivateError for an argument that nothing bounds.
    """
    asked: dict[Expression, list[Aggregate]] = {}
    for aggregate in aggregates:
        if aggregate.rank is not None:
            if aggregate.argument is None:
                raise InternalError("a rank of no argument")
            asked.setdefault(aggregate.argument, []).append(aggregate)
    return tuple(_wish(argument, some, domain, cells, epsilon) for argument, some in asked.items())


def rank_readouts(
    aggregates: tuple[Aggregate, ...], wishes: tuple[Wish, ...]
) -> Mapping[str, Readout]:
    """Return how each aggregate with a rank is read, by the aggregate's name."""
    found: dict[str, Readout] = {}
    for aggregate in aggregates:
        for place, wish in enumerate(wishes):
            if aggregate.rank is not None and wish.argument == aggregate.argument:
                found[aggregate.name] = RankReadout(place, wish.ranks.index(aggregate.rank))
    return found


def _wish(
    argument: Expression,
    aggregates: list[Aggregate],
    domain: Callable[[Expression], Domain],
    cells: int | None,
    epsilon: Fraction,
) -> Wish:
    ranks = tuple(dict.fromkeys(a.rank for a in aggregates if a.rank is not None))
    found = bounded(aggregates[0], argument, domain(argument))
    most = _most_places(cells)
    low, high = found.low, found.high
    if low is None or high is None:
        raise InternalError("a grid needs both ends")
    if low == high:
        high += found.step or 1
    places, step = most, found.step
    natural = step is not None and (high - low) % step == 0 and (high - low) / step <= most
    if step is not None and natural:
        places = int((high - low) / step)
    number = _number(argument)
    measure = MomentMeasure(number, low, high, places, 1, null_component=False)
    quantiles = [rank for rank in ranks if isinstance(rank, Quantile)]
    together = len(quantiles) > _FEW and not _sharp(len(quantiles), places, epsilon)
    cut = natural and argument.type.kind is not Kind.DECIMAL
    fine = _fine(quantiles, places, most) if cut else 1
    return Wish(argument, measure, fine, ranks, together)


def _most_places(cells: int | None) -> int:
    """Return how many places a group's histogram may have."""
    if cells is not None and cells <= _ALL_PLACES // _MOST_PLACES:
        return _MOST_PLACES
    many = _GROUPED_PLACES if cells is None else _ALL_PLACES // max(1, cells)
    return max(_LEAST_PLACES, min(_GROUPED_PLACES, many))


def _sharp(quantiles: int, places: int, epsilon: Fraction) -> bool:
    """Return whether quantiles that are chosen one by one are off by less than half a row."""
    return 4 * quantiles * (math.log(places + 1) + 3) < epsilon


def _fine(quantiles: list[Quantile], places: int, most: int) -> int:
    """Return into how many candidates a step is cut, so that interpolated values are among them.

    DuckDB cuts those of decimals off to a step, so their steps stay whole.
    """
    parts = math.lcm(*(q.fraction.denominator for q in quantiles if q.continuous))
    return parts if places * parts <= 2 * most else 1


def _number(argument: Expression) -> Expression:
    """Return the argument as a number on the axis of its domain."""
    match argument.type.kind:
        case Kind.DATE:
            return _since("day", Literal(_EPOCH, sqltype.DATE), argument)
        case Kind.TIMESTAMP:
            return _since("microsecond", Literal(_EPOCH_TIME, sqltype.TIMESTAMP), argument)
        case _:
            return argument


def _since(part: str, start: Expression, moment: Expression) -> Expression:
    return functions.call("date_diff", (Literal(part, sqltype.VARCHAR), start, moment))
