"""The entry of the planner: a parsed release made answerable."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import prod

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError
from dp_sql.plan.domain import Domain
from dp_sql.plan.domains import domain_of
from dp_sql.plan.expression import Expression
from dp_sql.plan.histogram import Histogram
from dp_sql.plan.public import PublicFacts
from dp_sql.plan.relation import CountMeasure, Measure, PresenceMeasure, Relation
from dp_sql.plan.release import (
    UNSAID,
    Aggregate,
    BlockReadout,
    DistinctReadout,
    Key,
    PlannedRelease,
    Readout,
    Release,
    Vector,
)
from dp_sql.planner import histograms
from dp_sql.planner.bounded import Frame, spread, spread_bits, summed
from dp_sql.planner.distincts import counts_values, plan_distincts
from dp_sql.planner.histograms import Known, choice_readouts, plan_histograms
from dp_sql.planner.keys import key_column, plan_keys
from dp_sql.planner.lineage import column_domains, never_null
from dp_sql.planner.measures import Noise, Wanted, plan_measures
from dp_sql.planner.row_grids import with_grids
from dp_sql.planner.sampled import plan_sampled
from dp_sql.planner.sampling import over_sample
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
from dp_sql.schema.catalog import Catalog, KeyRule, Limits
from dp_sql.schema.sqltype import Kind
from dp_sql.sensitivity.motion import drifts_in_place, reach_of
from dp_sql.sensitivity.multiplicity import rows_per_unit

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
    frame = _frame(release, catalog, public)
    release, keys = frame.release, frame.keys
    if beside is None:
        free = counts_are_free(release, catalog)
        beside = Beside(group_limit(release, catalog, public), bool(keys.private), free)
    most = limits_of(release, catalog).max_rows_per_group
    domains = column_domains(release.source, catalog, most)
    wanted = _measures(frame, catalog, domains, epsilon, beside)
    parts = len(release.aggregates) + 1
    wish = Wish(frame.limits, beside.groups, epsilon, parts, counted=False, free=False)
    picked = _picked(frame, catalog, wish, wanted.measures)
    relation, rounds, vectors = _relations(frame, wanted, picked)
    wishes = plan_histograms(
        release.aggregates,
        Known(
            lambda e: domain_of(e, domains),
            lambda e: _public_values(release, catalog, public, e),
            None if keys.private else prod(len(space.values) for space in keys.public),
            epsilon / (beside.groups * frame.rows),
            catalog.mechanisms,
        ),
    )
    planned = tuple(_histogram(frame, wish) for wish in wishes)
    counts = plan_distincts(frame)
    noise = Fraction(_sides(catalog) * beside.groups * parts) / epsilon
    sampled = plan_sampled(frame, domains, noise)
    places: dict[str, Readout] = {
        **{name: DistinctReadout(place) for place, name in enumerate(counts)},
        **{name: BlockReadout(place) for place, name in enumerate(sampled, start=len(vectors))},
    }
    vectors += tuple(Vector(s.measure, (frame.column("v"),), 1) for s in sampled.values())
    readouts = iter(wanted.readouts)
    ranked = choice_readouts(release.aggregates, wishes)
    count = len(vectors) - picked.twice + sum(wish.runs for wish in wishes) + len(counts)
    one = Fraction(1, max(1, count))
    shares = [one for _ in vectors]
    if picked.twice and picked.vector is not None:
        rest = one * (1 - FIRST_ROUND)
        shares[picked.vector : picked.vector + 2] = [one * FIRST_ROUND, rest]
    planned_release = PlannedRelease(
        release,
        relation,
        frame.columns,
        keys.public,
        keys.private,
        vectors,
        tuple(
            ranked.get(a.name) or places.get(a.name) or next(readouts) for a in release.aggregates
        ),
        picked.vector,
        rounds[0] if rounds else None,
        tuple(shares),
        tuple(replace(histogram, share=histogram.share * one) for histogram in planned),
        tuple(replace(distinct, share=one) for distinct in counts.values()),
        tuple(sampled.values()),
        picked.rules,
        rounds[1] if picked.twice else None,
    )
    return over_sample(planned_release, release.options.sample_rate)


def _frame(release: Release, catalog: Catalog, public: PublicFacts) -> Frame:
    """Return what the relations of a release have in common."""
    declared = limits_of(release, catalog)
    most, level = declared.max_rows_per_group, catalog.unit.level
    release = replace(release, source=with_grids(release.source, catalog, most))
    keys = plan_keys(release, catalog, public, most)
    unit_rows = rows_per_unit(release.source, level, public)
    numbers = iter(range(_FIRST, 2 * _FIRST))
    columns = tuple(key_column(release, i, next(numbers)) for i in range(len(release.keys)))
    limits = _reached(declared, unit_rows)
    hash_key = secrets.randbits(63)
    return Frame(release, keys, columns, level, limits, unit_rows, numbers, hash_key)


def _sides(catalog: Catalog) -> int:
    """Return how many units' rows two neighbours may differ in."""
    unit = catalog.unit
    return unit.group_size * (1 if unit.adjacency is Adjacency.ADD_REMOVE else 2)


def _measures(
    frame: Frame,
    catalog: Catalog,
    domains: Mapping[int, Domain],
    epsilon: Fraction,
    beside: Beside,
) -> Wanted:
    """Return the measures of the aggregates that are read from sums."""
    release = frame.release
    return plan_measures(
        tuple(a for a in release.aggregates if a.choice is None and not _has_own_rows(a)),
        lambda e: domain_of(e, domains),
        Noise(
            frame.rows,
            beside.groups,
            epsilon,
            lambda e: reach_of(e, release.source, catalog.unit),
            beside.free_rows,
            _sides(catalog),
        ),
        never_null=never_null(release.source),
        more=int(beside.selects),
    )


def _has_own_rows(aggregate: Aggregate) -> bool:
    """Return whether an aggregate is computed over rows of its own, not from summed measures."""
    return counts_values(aggregate) or aggregate.sample is not None


@dataclass(frozen=True, slots=True)
class _Picked:
    """By which vector private keys are selected, None without any, and the measure that it adds."""

    vector: int | None
    rules: tuple[KeyRule, ...] = THRESHOLDS
    more: tuple[Measure, ...] = ()

    @property
    def twice(self) -> bool:
        """Whether there are two rounds: two vectors of that measure, one after the other."""
        return self.rules == (KeyRule.TWO_ROUNDS,)


def _picked(frame: Frame, catalog: Catalog, wish: Wish, measures: tuple[Measure, ...]) -> _Picked:
    """Return how private keys are selected beside these measures."""
    if not frame.keys.private:
        return _Picked(None)
    presence: Measure = PresenceMeasure(None) if frame.user else CountMeasure(None)
    one_row = CountMeasure(None) if frame.rows == 1 else presence
    shown = measures if not frame.keys.public else ()
    double = next((m for m in (presence, one_row) if m in shown), None)
    free = counts_are_free(frame.release, catalog)
    wish = replace(wish, counted=double is not None, free=free)
    rules = key_rules(frame.release, catalog, wish)
    if double is not None and {*rules} <= {*THRESHOLDS}:
        return _Picked(measures.index(double), rules)
    if {*rules} & {*WEIGHED}:
        evenly = KeyRule.WEIGHTED_LAPLACE in rules
        presence = PresenceMeasure(None, WEIGHT, wish.limits.max_groups, evenly)
    return _Picked(len(measures), rules, (presence,))


def _relations(
    frame: Frame, wanted: Wanted, picked: _Picked
) -> tuple[Relation, tuple[Relation, ...], tuple[Vector, ...]]:
    """Return the relation of the exact table, those that keys are selected from apart, and all vectors.

    The measures come first, in their order, then what selects keys, one vector a round.
    """
    apart = bool(frame.keys.private and frame.keys.public) or picked.twice
    main = wanted.measures if apart else (*wanted.measures, *picked.more)
    relation, vectors = summed(frame, main, wanted.room)
    rounds: list[Relation] = []
    for without in (None, shown_keys(frame.release))[: 1 + picked.twice] if apart else ():
        chosen, more = summed(frame.by_private, picked.more, wanted.room, without)
        rounds.append(chosen)
        vectors += more
    return relation, tuple(rounds), vectors


def _histogram(frame: Frame, wish: histograms.Wish) -> Histogram:
    """Return a wished histogram over the rows that it counts; its share is its number of choices."""
    return Histogram(
        spread(frame, wish.measure),
        wish.measure,
        1 << spread_bits(frame),
        wish.fine,
        wish.choices,
        wish.kind,
        wish.together,
        Fraction(wish.runs),
        wish.argument.type.kind is Kind.DATE,
        wish.values,
        wish.ratios,
    )


def _public_values(
    release: Release, catalog: Catalog, public: PublicFacts, expression: Expression
) -> tuple[object, ...] | None:
    """Return the public values of an expression over a release's rows, or None."""
    asked = replace(release, keys=(Key("value", expression),), options=UNSAID)
    found = plan_keys(asked, catalog, public, limits_of(release, catalog).max_rows_per_group)
    return tuple(value for (value,) in found.public[0].values) if found.public else None
