"""From aggregates that choose a value to histograms: which grid, and how it is searched."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError, NotPrivateError, UnsupportedSQLError
from dp_sql.plan import functions
from dp_sql.plan.conversion import is_null
from dp_sql.plan.domain import Domain
from dp_sql.plan.expression import Case, Expression, Literal, LiteralValue
from dp_sql.plan.histogram import Bin, Choice, Extreme, Popular, Quantile, levels, runs_of
from dp_sql.plan.printer import expression_text
from dp_sql.plan.relation import MomentMeasure
from dp_sql.plan.release import Aggregate, ChoiceReadout, Readout
from dp_sql.plan.tree import rank_deviation
from dp_sql.planner.measures import bounded
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import ChoiceKind, Mechanisms
from dp_sql.schema.sqltype import Kind

_MOST_PLACES = 2**16  # of one histogram
_GROUPED_PLACES = 2**12  # of one of many
_ALL_PLACES = 2**18  # of all groups of public keys together, where one may have the most
_LEAST_PLACES = 2**6
_MOST_CELLS = 2**22  # of all groups of public keys together
_MOST_VALUES = 1000  # that a heaviest one is chosen among
_FEW = 4  # quantiles of one argument: so many are chosen one by one, which ties don't harm
_WIDE = 1000  # times the low bound: from such high ones on steps have one ratio
_HALVING = 1.5  # the mean error of a rank for one level of halving, in weights over epsilon
_MEAN = math.sqrt(2 / math.pi)  # of the size of a normal law, over its deviation
_EPOCH = date(1970, 1, 1)
_EPOCH_TIME = datetime(1970, 1, 1)  # noqa: DTZ001  DuckDB's TIMESTAMP has no zone


@dataclass(frozen=True, slots=True)
class Wish:
    """A histogram that answers aggregates: its grid and what is chosen; see `plan.histogram`."""

    argument: Expression  # as the text has it
    measure: MomentMeasure
    fine: int
    choices: tuple[Choice, ...]
    kind: ChoiceKind
    together: bool
    values: tuple[object, ...] = ()
    ratios: tuple[Fraction, Fraction] | None = None

    @property
    def runs(self) -> int:
        """How many choices share its epsilon."""
        return runs_of(self.choices, self.kind, together=self.together)


@dataclass(frozen=True, slots=True)
class Known:
    """What is public of a release's expressions and groups.

    values: the public values of an expression, None where it has none. cells: how many groups there
    will be, None where private keys leave it open. epsilon: for one row of a unit; it sets how a
    histogram is searched, never privacy.
    """

    domain: Callable[[Expression], Domain]
    values: Callable[[Expression], tuple[object, ...] | None]
    cells: int | None
    epsilon: Fraction
    mechanisms: Mechanisms


def plan_histograms(aggregates: tuple[Aggregate, ...], known: Known) -> tuple[Wish, ...]:
    """Return the histograms that answer the aggregates with a choice.

    Equal arguments share one, where their choices are made in one way.

    Raises NotPrivateError for an argument that nothing bounds, or whose values aren't public where
    the heaviest is asked; UnsupportedSQLError where no mechanism that the schema allows answers.
    """
    asked: dict[tuple[Expression, _Planned, ChoiceKind], list[Aggregate]] = {}
    for aggregate in aggregates:
        if aggregate.choice is not None:
            if aggregate.argument is None:
                raise InternalError("a choice from no argument")
            planned = _PLANNED.get(type(aggregate.choice), _ranked)
            kind = _kind(aggregate, aggregate.choice, known.mechanisms)
            asked.setdefault((aggregate.argument, planned, kind), []).append(aggregate)
    return tuple(
        planned(argument, some, known, kind) for (argument, planned, kind), some in asked.items()
    )


def choice_readouts(
    aggregates: tuple[Aggregate, ...], wishes: tuple[Wish, ...]
) -> Mapping[str, Readout]:
    """Return how each aggregate with a choice is read, by the aggregate's name."""
    found: dict[str, Readout] = {}
    for aggregate in aggregates:
        for place, wish in enumerate(wishes):
            if wish.argument == aggregate.argument and aggregate.choice in wish.choices:
                position = wish.choices.index(aggregate.choice)
                found[aggregate.name] = ChoiceReadout(place, position)
    return found


def _ranked(
    argument: Expression, aggregates: list[Aggregate], known: Known, kind: ChoiceKind
) -> Wish:
    choices = tuple(dict.fromkeys(a.choice for a in aggregates if a.choice is not None))
    found = bounded(aggregates[0], argument, known.domain(argument))
    most = _most_places(known.cells)
    low, high = found.low, found.high
    if low is None or high is None:
        raise InternalError("a grid needs both ends")
    number = _number(argument)
    places, step = most, found.step
    natural = step is not None and (high - low) % step == 0 and (high - low) / step <= most
    if low == high:
        places, natural = 1, True  # both places are the one value
    elif step is not None and natural:
        places = int((high - low) / step)
    ratios = None
    if not natural and not kind.is_local and argument.type.is_numeric and 0 < low * _WIDE <= high:
        ratios, number = (low, high), _logarithm(number, low, high)
        low, high = (Fraction(math.log(end)) for end in ratios)
    measure = MomentMeasure(number, low, high, places, 1, null_component=False)
    quantiles = [choice for choice in choices if isinstance(choice, Quantile)]
    sharp = kind.is_local or _sharp(len(quantiles), places, known.epsilon)
    many = len(quantiles) > _FEW and not sharp
    by_tree = ChoiceKind.TREE in known.mechanisms.quantiles and _best_by_tree(
        len(quantiles), places
    )
    if many and by_tree and not kind.is_local:
        kind = ChoiceKind.TREE
    together = many and kind is not ChoiceKind.TREE
    cut = natural and argument.type.kind is not Kind.DECIMAL
    fine = _fine(quantiles, places, most) if cut else 1
    return Wish(argument, measure, fine, choices, kind, together, ratios=ratios)


def _popular(
    argument: Expression, aggregates: list[Aggregate], known: Known, kind: ChoiceKind
) -> Wish:
    """Return the histogram over the public values of an expression, without NULL."""
    inner = argument
    if isinstance(argument, Case) and len(argument.branches) == 1 and is_null(argument.otherwise):
        inner = argument.branches[0][1]  # a FILTER
    listed = known.values(inner)
    values = tuple(v for v in listed or () if v is not None)
    text, position = aggregates[0].place or (None, None)
    name = aggregates[0].kind.value
    if not values:
        raise NotPrivateError(
            f"{name} chooses among public values, and those of {_named(inner)} aren't.",
            hint=f"declare the values of {_named(inner)} in the schema, or SELECT {_named(inner)}, "
            f"COUNT(*) … GROUP BY {_named(inner)} ORDER BY 2 DESC LIMIT 1",
            text=text,
            position=position,
        )
    if len(values) > _MOST_VALUES:
        raise UnsupportedSQLError(
            f"{name} chooses among {_MOST_VALUES:,} values at most; {_named(inner)} has {len(values):,}.",
            hint=f"GROUP BY {_named(inner)} ORDER BY COUNT(*) DESC LIMIT 1",
            text=text,
            position=position,
        )
    most = max(a.choice.of for a in aggregates if isinstance(a.choice, Popular))
    if most > len(values):
        raise UnsupportedSQLError(
            f"{_named(inner)} has {len(values)} public values, so there are no {most} to show.",
            hint=f"{name}({_named(inner)}, {len(values)})",
            text=text,
            position=position,
        )
    branches = tuple(
        (
            functions.call("=", (argument, Literal(_constant(v), inner.type))),
            Literal(i, sqltype.INTEGER),
        )
        for i, v in enumerate(values)
    )
    place = functions.case(branches, Literal(None, sqltype.NULL))
    last = max(1, len(values) - 1)
    measure = MomentMeasure(place, Fraction(0), Fraction(last), last, 1, null_component=False)
    choices = tuple(dict.fromkeys(a.choice for a in aggregates if a.choice is not None))
    return Wish(argument, measure, 1, choices, kind, together=False, values=values)


def _binned(argument: Expression, aggregates: list[Aggregate], _: Known, kind: ChoiceKind) -> Wish:
    """Return the histogram over the places that an expression numbers from 0."""
    choices = tuple(a.choice for a in aggregates if isinstance(a.choice, Bin))
    last = max(1, choices[0].of - 1)
    measure = MomentMeasure(argument, Fraction(0), Fraction(last), last, 1, null_component=False)
    return Wish(argument, measure, 1, choices, kind, together=False)


_Planned = Callable[[Expression, list[Aggregate], Known, ChoiceKind], Wish]
_PLANNED: Mapping[type[Choice], _Planned] = {Popular: _popular, Bin: _binned}


def _kind(aggregate: Aggregate, choice: Choice, mechanisms: Mechanisms) -> ChoiceKind:
    """Return the best of the mechanisms that the schema allows for a choice.

    One heaviest value is chosen with less error by permute-and-flip, whose noise has one side; for
    several, Laplace noise on all weights costs what one choice does. Local sensitivity answers single
    values that one row can't carry to the end of their range.
    """
    if isinstance(choice, Bin):
        return _of_bins(aggregate, mechanisms)
    several = isinstance(choice, Popular) and choice.of > 1
    allowed = mechanisms.mode if isinstance(choice, Popular) else mechanisms.quantiles
    if isinstance(choice, Extreme) or several:
        allowed = tuple(kind for kind in allowed if not kind.is_local)
    text, position = aggregate.place or (None, None)
    if not allowed:
        why = "takes one value" if several else "takes no MIN or MAX, which one row moves anywhere"
        where = "mode" if several else "quantiles"
        listed = getattr(mechanisms, where)
        raise UnsupportedSQLError(
            f"of the mechanisms that the schema allows, {', '.join(listed)}, none answers "
            f"{aggregate.kind.value}: local sensitivity {why}.",
            hint="MODE(x)" if several else "QUANTILE_CONT(x, 0.99)",
            text=text,
            position=position,
        )
    kind = allowed[0]
    if several and ChoiceKind.NOISY_MAX_LAPLACE in allowed:
        kind = ChoiceKind.NOISY_MAX_LAPLACE
    proposed = isinstance(choice, Quantile) and choice.proposed is not None
    if proposed and kind is not ChoiceKind.PROPOSE_TEST_RELEASE:
        raise UnsupportedSQLError(
            f"quantiles are chosen by {kind.value} here, which takes no proposal.",
            hint="leave proposed out, or mechanisms: {quantiles: [propose_test_release]} in the schema",
            text=text,
            position=position,
        )
    return kind


def _of_bins(aggregate: Aggregate, mechanisms: Mechanisms) -> ChoiceKind:
    """Return how counts of bins are shown: with Laplace noise, of which one row moves one."""
    if "laplace" not in mechanisms.noise:
        text, position = aggregate.place or (None, None)
        raise UnsupportedSQLError(
            f"{aggregate.kind.value} has Laplace noise, which the schema doesn't allow.",
            hint="SELECT x, COUNT(*) … GROUP BY x",
            text=text,
            position=position,
        )
    return ChoiceKind.NOISY_MAX_LAPLACE


def _named(expression: Expression) -> str:
    return expression_text(expression)


def _constant(value: object) -> LiteralValue:
    if not isinstance(value, LiteralValue):
        raise InternalError("a public value is a constant")
    return value


def _most_places(cells: int | None) -> int:
    """Return how many places a group's histogram may have."""
    if cells is not None and cells <= _ALL_PLACES // _MOST_PLACES:
        return _MOST_PLACES
    many = _GROUPED_PLACES if cells is None else _MOST_CELLS // max(1, cells)
    return max(_LEAST_PLACES, min(_GROUPED_PLACES, many))


def _sharp(quantiles: int, places: int, epsilon: Fraction) -> bool:
    """Return whether quantiles that are chosen one by one are off by less than half a row."""
    return 4 * quantiles * (math.log(places + 1) + 3) < epsilon


def _best_by_tree(quantiles: int, places: int) -> bool:
    """Return whether a tree of noisy counts finds so many quantiles with less error than halving.

    In weights over epsilon the mean error of a rank by halving is about 1.5 a level, since a cut
    inherits the errors of those around it; by the tree it is the mean of a normal law, whatever the
    number of quantiles. Measured, in rows (1,000 values, epsilon 1, halving against the tree; uniform,
    lognormal and normal ones):

        quantiles                9            25            50            99
        101 places, uniform    2.0  1.5     3.1  1.8      5.1  0.8      6.1  1.3
        101 places, lognormal  0.4  0.0     0.5  0.3      1.1  0.2      1.7  0.2
        4,097, uniform         6.1  6.1     7.2  5.8      7.4  7.7     10.6  6.2
        4,097, lognormal       5.3  8.8     6.8  7.7      7.2  8.3      7.0  4.6
        4,097, normal          6.4  4.2     5.3  5.9     10.3  5.4     10.1  7.2
        65,537, uniform        4.2  7.1     6.1  7.9     10.4  8.2      9.8  8.0

    A hundred thousand lognormal values at epsilon 0.1 on 4,097 places are the tree's worst case: 19 and 35
    rows for 25, 32 and 50 for 99. Halving's are values that few places hold: 60,000 whole numbers from 1 to
    50 on a grid of hundredths, at epsilon 0.1, 203 rows and 0.1 for 25.
    """
    return _HALVING * levels(quantiles) > _MEAN * rank_deviation(places + 1)


def _fine(quantiles: list[Quantile], places: int, most: int) -> int:
    """Return into how many candidates a step is cut, so that interpolated values are among them.

    DuckDB cuts those of decimals off to a step, so their steps stay whole.
    """
    parts = math.lcm(*(q.fraction.denominator for q in quantiles if q.continuous))
    return parts if places * parts <= 2 * most else 1


def _logarithm(number: Expression, low: Fraction, high: Fraction) -> Expression:
    """Return the logarithm of a number, which counts as one of the ends, both above 0, beyond them.

    Steps of one ratio are finer than even ones below high / ln(high / low), and hold more digits of
    small values, among which most lie where bounds span orders of magnitude.
    """
    ends = (Literal(float(end), sqltype.DOUBLE) for end in (low, high))
    return functions.call("ln", (functions.call("clamp", (number, *ends)),))


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
