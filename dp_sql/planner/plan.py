"""The entry of the planner: a parsed release made answerable."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError
from dp_sql.plan.distinct import Distinct
from dp_sql.plan.domains import domain_of
from dp_sql.plan.expression import Column, Expression
from dp_sql.plan.histogram import Histogram
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.public import PublicFacts
from dp_sql.plan.relation import (
    BoundGroups,
    BoundRows,
    CountMeasure,
    DropKeys,
    KeepKeys,
    Measure,
    MeasureRows,
    MomentMeasure,
    PresenceMeasure,
    Relation,
    SpreadRows,
    SumMeasure,
    SumPerUnit,
    width,
)
from dp_sql.plan.release import (
    UNSAID,
    Aggregate,
    DistinctReadout,
    Key,
    PlannedRelease,
    Release,
    Vector,
)
from dp_sql.planner.distincts import caps_of, counts_values
from dp_sql.planner.histograms import Known, choice_readouts, plan_histograms
from dp_sql.planner.keys import KeyPlan, key_column, plan_keys
from dp_sql.planner.lineage import column_domains, never_null
from dp_sql.planner.measures import FINEST_CELLS, Noise, plan_measures
from dp_sql.planner.row_grids import with_grids
from dp_sql.planner.selection import (
    FIRST_ROUND,
    THRESHOLDS,
    WEIGHED,
    WEIGHT,
    Wish,
    key_rules,
    shown_keys,
)
from dp_sql.privacy.unit import Adjacency, Level
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import Catalog, KeyRule, Limits
from dp_sql.schema.sqltype import Kind
from dp_sql.sensitivity.motion import drifts_in_place, reach_of
from dp_sql.sensitivity.multiplicity import rows_per_unit

_WEIGHT_BITS = 12  # that the weight of a value carries through the division by their number
_FIRST = 1_000_000  # numbers of the planner's own columns; the parser's stay far below


def limits_of(release: Release, catalog: Catalog) -> Limits:
    """Return the limits of a release: its own options, else the largest of its tables'."""
    found = [t for name in release.tables if (t := catalog.tables[name].limits) is not None]
    own = release.options
    return Limits(
        own.max_groups or max([1, *(limit.max_groups for limit in found)]),
        max([1, *(limit.max_rows_per_group for limit in found)]),
        own.min_units or max([1, *(limit.min_units_per_group for limit in found)]),
    )


def _reached(limits: Limits, rows: int | None) -> Limits:
    """Return the limits that a unit of at most so many rows can reach."""
    if rows is None:
        return limits
    rows = max(1, rows)
    return replace(
        limits,
        max_groups=min(limits.max_groups, rows),
        max_rows_per_group=min(limits.max_rows_per_group, rows),
    )


@dataclass(frozen=True, slots=True)
class Beside:
    """What a release by several sets of keys is like as a whole; it sets grids, never privacy.

    groups: how many groups a unit may touch, over all sets. selects: whether some set has private
    keys. free_rows: whether COUNT(*) costs nothing in any set.
    """

    groups: int
    selects: bool
    free_rows: bool


def counts_are_free(release: Release, catalog: Catalog) -> bool:
    """Return whether no neighbour changes the rows of a release or its keys."""
    keys = tuple(key.expression for key in release.keys)
    return drifts_in_place(release.source, keys, catalog.unit) is not None


def group_limit(release: Release, catalog: Catalog, public: PublicFacts) -> int:
    """Return how many groups of a release a unit may touch."""
    if not release.keys or catalog.unit.level is not Level.USER:
        return 1
    rows = rows_per_unit(release.source, catalog.unit.level, public)
    return _reached(limits_of(release, catalog), rows).max_groups


def plan_release(
    release: Release,
    catalog: Catalog,
    public: PublicFacts,
    epsilon: Fraction,
    beside: Beside | None = None,
) -> PlannedRelease:
    """Return the planned form of a release that may spend `epsilon`.

    beside: for one set of keys among several.

    Raises NotPrivateError for an unbounded argument, UnsupportedSQLError for too many groups,
    InternalError for several sets of keys, which `planner.sets` plans one by one.
    """
    if release.sets:
        raise InternalError("several sets of keys are several plans")
    declared = limits_of(release, catalog)
    most = declared.max_rows_per_group
    source = with_grids(release.source, catalog, most)
    release = replace(release, source=source)
    keys = plan_keys(release, catalog, public, most)
    domains = column_domains(source, catalog, most)
    unit_rows = rows_per_unit(source, catalog.unit.level, public)
    limits = _reached(declared, unit_rows)
    user = catalog.unit.level is Level.USER
    if beside is None:
        free = counts_are_free(release, catalog)
        beside = Beside(group_limit(release, catalog, public), bool(keys.private), free)
    rows = limits.max_rows_per_group if user else 1
    presence: Measure = PresenceMeasure(None) if user else CountMeasure(None)
    wanted = plan_measures(
        tuple(a for a in release.aggregates if a.choice is None and not counts_values(a)),
        lambda e: domain_of(e, domains),
        Noise(
            rows,
            beside.groups,
            epsilon,
            lambda e: reach_of(e, source, catalog.unit),
            beside.free_rows,
            catalog.unit.group_size * (1 if catalog.unit.adjacency is Adjacency.ADD_REMOVE else 2),
        ),
        never_null=never_null(release.source),
        more=int(beside.selects),
    )
    measures = list(wanted.measures)
    wish = Wish(
        limits, beside.groups, epsilon, len(release.aggregates) + 1, counted=False, free=False
    )
    picked = _selected(release, catalog, keys, wish, measures, presence, rows)
    measures += picked.more
    twice = picked.rules == (KeyRule.TWO_ROUNDS,)
    apart = bool(keys.private and keys.public) or twice
    main = measures[: picked.vector] if apart else measures
    numbers = iter(range(_FIRST, 2 * _FIRST))
    columns = tuple(key_column(release, i, next(numbers)) for i in range(len(release.keys)))
    room = wanted.room
    relation, vectors = _bounded(
        release, keys, columns, tuple(main), catalog, limits, unit_rows, numbers=numbers, room=room
    )
    rounds: list[Relation] = []
    for without in (None, shown_keys(release))[: 1 + twice] if apart else ():
        chosen, more = _bounded(
            release,
            KeyPlan((), tuple(range(len(keys.private)))),
            tuple(columns[i] for i in keys.private),
            picked.more,
            catalog,
            limits,
            unit_rows,
            numbers=numbers,
            room=room,
            positions=keys.private,
            without=without,
        )
        rounds.append(chosen)
        vectors += more
    histograms = plan_histograms(
        release.aggregates,
        Known(
            lambda e: domain_of(e, domains),
            lambda e: _public_values(release, catalog, public, e),
            None if keys.private else prod(len(space.values) for space in keys.public),
            epsilon / (beside.groups * rows),
            catalog.mechanisms,
        ),
    )
    planned = tuple(
        Histogram(
            _spread(release, keys, columns, wish.measure, catalog, limits, unit_rows, numbers),
            wish.measure,
            1 << _spread_bits(catalog, limits, unit_rows),
            wish.fine,
            wish.choices,
            wish.kind,
            wish.together,
            Fraction(wish.runs),
            wish.argument.type.kind is Kind.DATE,
            wish.values,
        )
        for wish in histograms
    )
    counts = {
        a.name: _distinct(release, a, keys, columns, catalog, limits, unit_rows, numbers)
        for a in release.aggregates
        if counts_values(a)
    }
    places = {name: DistinctReadout(place) for place, name in enumerate(counts)}
    readouts = iter(wanted.readouts)
    ranked = choice_readouts(release.aggregates, histograms)
    count = len(vectors) - twice + sum(wish.runs for wish in histograms) + len(counts)
    shares = [Fraction(1, count) for _ in vectors]
    if twice:
        shares[-2:] = [FIRST_ROUND / count, (1 - FIRST_ROUND) / count]
    return PlannedRelease(
        release,
        relation,
        columns,
        keys.public,
        keys.private,
        vectors,
        tuple(
            ranked.get(a.name) or places.get(a.name) or next(readouts) for a in release.aggregates
        ),
        picked.vector,
        rounds[0] if rounds else None,
        tuple(shares),
        tuple(replace(histogram, share=histogram.share / count) for histogram in planned),
        tuple(replace(distinct, share=Fraction(1, count)) for distinct in counts.values()),
        picked.rules,
        rounds[1] if twice else None,
    )


@dataclass(frozen=True, slots=True)
class _Picked:
    """By which vector private keys are selected, None without any, and the measure that it adds."""

    vector: int | None
    rules: tuple[KeyRule, ...] = THRESHOLDS
    more: tuple[Measure, ...] = ()


def _selected(
    release: Release,
    catalog: Catalog,
    keys: KeyPlan,
    wish: Wish,
    measures: Sequence[Measure],
    presence: Measure,
    rows: int,
) -> _Picked:
    """Return how private keys are selected beside these measures.

    presence: the number of units. rows: of a unit in a group, where one is a unit's presence too.
    """
    if not keys.private:
        return _Picked(None)
    one_row = CountMeasure(None) if rows == 1 else presence
    double = next((m for m in (presence, one_row) if m in measures and not keys.public), None)
    free = counts_are_free(release, catalog)
    wish = replace(wish, counted=double is not None, free=free)
    rules = key_rules(release, catalog, wish)
    if double is not None and {*rules} <= {*THRESHOLDS}:
        return _Picked(measures.index(double), rules)
    if {*rules} & {*WEIGHED}:
        evenly = KeyRule.WEIGHTED_LAPLACE in rules
        presence = PresenceMeasure(None, WEIGHT, wish.limits.max_groups, evenly)
    return _Picked(len(measures), rules, (presence,))


def _distinct(
    release: Release,
    aggregate: Aggregate,
    keys: KeyPlan,
    columns: tuple[Column, ...],
    catalog: Catalog,
    limits: Limits,
    unit_rows: int | None,
    numbers: Iterator[int],
) -> Distinct:
    """Return the count of an aggregate's distinct values."""
    values = tuple(
        Column(next(numbers), f"d{i}", value.type) for i, value in enumerate(aggregate.values)
    )
    named = (Column(next(numbers), "v", sqltype.BIGINT),)
    expressions = (*(k.expression for k in release.keys), *aggregate.values)
    relation: Relation = MeasureRows(
        release.source, (*columns, *values), expressions, (CountMeasure(None),), (named,)
    )
    for space in keys.public:
        relation = KeepKeys(relation, tuple(columns[i] for i in space.positions), space.values)
    caps: tuple[int, ...] = ()
    if catalog.unit.level is Level.USER:
        relation = _few_groups(relation, keys, columns, limits, unit_rows)
        caps = caps_of(aggregate, limits.max_rows_per_group)
    return Distinct(relation, values, caps, secrets.randbits(63), Fraction(0))


def _public_values(
    release: Release, catalog: Catalog, public: PublicFacts, expression: Expression
) -> tuple[object, ...] | None:
    """Return the public values of an expression over a release's rows, or None."""
    asked = replace(release, keys=(Key("value", expression),), options=UNSAID)
    found = plan_keys(asked, catalog, public, limits_of(release, catalog).max_rows_per_group)
    return tuple(value for (value,) in found.public[0].values) if found.public else None


def _spread_bits(catalog: Catalog, limits: Limits, unit_rows: int | None) -> int:
    """Return how many low bits the weight of a value carries; none where no unit has too many rows."""
    few = unit_rows is not None and unit_rows <= limits.max_rows_per_group
    return 0 if catalog.unit.level is Level.EVENT or few else _WEIGHT_BITS


def _spread(
    release: Release,
    keys: KeyPlan,
    columns: tuple[Column, ...],
    measure: MomentMeasure,
    catalog: Catalog,
    limits: Limits,
    unit_rows: int | None,
    numbers: Iterator[int],
) -> Relation:
    """Return the relation that enforces what a unit adds to a histogram."""
    named = tuple(Column(next(numbers), f"h{j}", sqltype.BIGINT) for j in range(width(measure)))
    relation: Relation = MeasureRows(
        release.source, columns, tuple(k.expression for k in release.keys), (measure,), (named,)
    )
    for space in keys.public:
        relation = KeepKeys(relation, tuple(columns[i] for i in space.positions), space.values)
    if catalog.unit.level is not Level.USER:
        return relation
    relation = SpreadRows(
        relation, limits.max_rows_per_group, _spread_bits(catalog, limits, unit_rows)
    )
    return _few_groups(relation, keys, columns, limits, unit_rows)


def _few_groups(
    relation: Relation,
    keys: KeyPlan,
    columns: tuple[Column, ...],
    limits: Limits,
    unit_rows: int | None,
) -> Relation:
    """Return the relation with a unit's groups bounded, unless nothing can pass the limit."""
    cells = prod(max(1, len(space.values)) for space in keys.public)
    few = unit_rows is not None and unit_rows <= limits.max_groups
    if columns and not few and (keys.private or limits.max_groups < cells):
        return BoundGroups(relation, limits.max_groups, secrets.randbits(63))
    return relation


def _bounded(
    release: Release,
    keys: KeyPlan,
    columns: tuple[Column, ...],
    measures: tuple[Measure, ...],
    catalog: Catalog,
    limits: Limits,
    unit_rows: int | None,
    *,
    numbers: Iterator[int],
    room: int,
    positions: tuple[int, ...] | None = None,
    without: str | None = None,
) -> tuple[Relation, tuple[Vector, ...]]:
    """Return the relation that enforces the contribution set, and its vectors.

    without: a table of keys whose groups are left out.
    """
    where = tuple(range(len(columns))) if positions is None else positions
    named = tuple(
        tuple(Column(next(numbers), f"v{i}_{j}", sqltype.BIGINT) for j in range(width(m)))
        for i, m in enumerate(measures)
    )
    relation: Relation = MeasureRows(
        release.source, columns, tuple(release.keys[i].expression for i in where), measures, named
    )
    for space in keys.public:
        relation = KeepKeys(relation, tuple(columns[i] for i in space.positions), space.values)
    user = catalog.unit.level is Level.USER
    bits = tuple(_low_bits(m, room) if user else 0 for m in measures)
    if user:
        count = Column(next(numbers), "c", sqltype.BIGINT)
        relation = SumPerUnit(relation, count)
        if without is not None:
            relation = DropKeys(relation, without)
        relation = _few_groups(relation, keys, columns, limits, unit_rows)
        relation = BoundRows(relation, limits.max_rows_per_group, bits)
    vectors = tuple(
        Vector(m, c, _unit(m, b)) for m, c, b in zip(measures, named, bits, strict=True)
    )
    return relation, vectors


def _low_bits(measure: Measure, room: int) -> int:
    """Return how many low bits a moment vector carries through the division by the row count."""
    bits = 0
    if isinstance(measure, PairMeasure):
        while measure.total << bits < FINEST_CELLS**2 and measure.total << (bits + 1) <= room:
            bits += 1
        return bits
    if not isinstance(measure, MomentMeasure):
        return 0
    while measure.cells << bits < FINEST_CELLS and measure.total << (bits + 1) <= room:
        bits += 1
    return bits


def _unit(measure: Measure, low_bits: int) -> int:
    match measure:
        case MomentMeasure() | PairMeasure():
            return measure.total << low_bits
        case CountMeasure() | PresenceMeasure() | SumMeasure():
            return 1
