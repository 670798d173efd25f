"""Which noise a release gets: kind and scale of each vector, the keys' threshold, its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import assert_never

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError, ParameterError, UnsupportedSQLError
from dp_sql.mechanisms.calibrate_gaussian import MOST_COORDINATES, sigma1
from dp_sql.mechanisms.choice import require_drawable
from dp_sql.mechanisms.chooser import Chooser
from dp_sql.mechanisms.distinct import Counter
from dp_sql.mechanisms.noise import EXACT, NoiseKind, VectorNoise, on_lattice
from dp_sql.mechanisms.threshold import gaussian_threshold, laplace_threshold, log_delta_per_group
from dp_sql.plan.block import BlockMeasure
from dp_sql.plan.facts import Facts
from dp_sql.plan.relation import Measure
from dp_sql.plan.release import PlannedRelease
from dp_sql.privacy.contribution import Ball, Box, Change, ContributionSet, Divided, Simplex
from dp_sql.privacy.cost import FREE, Cost
from dp_sql.privacy.event import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    KeySelectionEvent,
    LaplaceEvent,
    PureEvent,
    pure_epsilon,
    selection_delta,
)


@dataclass(frozen=True, slots=True)
class Selection:
    """A private key is shown iff the noisy value of `vector` reaches `threshold`.

    vector: its place in the release. threshold: in lattice units of that vector's noise.
    """

    vector: int
    threshold: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """The noise of a whole release, one entry a vector, and what it costs.

    selection: None where all keys are public. cost: of one set of keys among several, its part of
    the cost of all: only the sum is a guarantee. choosers: how values are chosen from the histograms;
    counters: how distinct values are counted.
    """

    noises: tuple[VectorNoise, ...]
    selection: Selection | None
    cost: Cost
    choosers: tuple[Chooser, ...] = ()
    counters: tuple[Counter, ...] = ()


Part = tuple[PlannedRelease, Facts]
Place = tuple[int, int]
"""Where a vector stands: the number of its part, and its place there."""


def calibrate(
    plan: PlannedRelease,
    facts: Facts,
    *,
    epsilon: Fraction,
    delta: Fraction,
    gaussian_allowed: bool,
    min_units: int,
) -> Measurement:
    """Return the noise of a release by one set of keys, as `calibrate_sets` does."""
    (measurement,) = calibrate_sets(
        ((plan, facts),),
        epsilon=epsilon,
        delta=delta,
        gaussian_allowed=gaussian_allowed,
        min_units=min_units,
    )
    return measurement


def calibrate_sets(
    parts: Sequence[Part],
    *,
    epsilon: Fraction,
    delta: Fraction,
    gaussian_allowed: bool,
    laplace_allowed: bool = True,
    min_units: int,
) -> tuple[Measurement, ...]:
    """Return the noise of least error whose cost, over all parts, is at most (epsilon, delta).

    parts: one for each set of keys of one release. Vectors that no neighbour changes are exact and
    free; the others share epsilon in proportion to the plans' `shares`, and a vector that stands in
    several parts has the same noise in all of them. delta is spent on Gaussian noise, where that is
    allowed and better than Laplace noise, and on selection; where values are chosen by local
    sensitivity, these have half of it, or all where no vector needs any. min_units: how many units a
    private key needs at least.

    Raises ParameterError where private keys are selected, Laplace noise isn't allowed, or values are
    chosen by local sensitivity, and delta is 0; and UnsupportedSQLError where the noise would need a
    scale above 2^50.
    """
    apart = sum((plan.share_apart for plan, _ in parts), Fraction(0)) / len(parts)
    counted = any(v.change.l1 > 0 for _, facts in parts for v in facts.vectors)
    whole = epsilon if counted or not apart else epsilon / apart
    local = sum(h.runs for plan, _ in parts for h in plan.histograms if h.kind.is_local)
    if local and delta == 0:
        raise ParameterError(
            "smooth_sensitivity and propose_test_release need delta > 0.",
            hint="delta=1e-9, or mechanisms: {quantiles: [permute_and_flip], mode: [permute_and_flip]} "
            "in the schema",
        )
    kept = delta if not local else delta / 2 if counted else Fraction(0)
    each = (delta - kept) / local if local else Fraction(0)
    others = [_apart(plan, facts, whole / len(parts), each) for plan, facts in parts]
    task = _Task(tuple(parts), epsilon * (1 - apart) if counted else epsilon, kept, min_units)
    measured = _calibrated(task, laplace=laplace_allowed, gaussian=gaussian_allowed)
    return tuple(
        _with_others(measurement, plan, *some)
        for measurement, (plan, _), some in zip(measured, parts, others, strict=True)
    )


def _apart(
    plan: PlannedRelease, facts: Facts, epsilon: Fraction, delta: Fraction
) -> tuple[tuple[Chooser, ...], tuple[Counter, ...]]:
    """Return how one part chooses values and counts distinct ones.

    epsilon: of a share of 1. delta: of each choice by local sensitivity.
    """
    choosers, counters = [], []
    for histogram, proved in zip(plan.histograms, facts.histograms, strict=True):
        one = delta if histogram.kind.is_local else Fraction(0)
        share = histogram.share / histogram.runs
        choosers.append(Chooser(epsilon * share, proved, facts.unit, one))
        require_drawable(histogram, choosers[-1])
    for distinct, proved in zip(plan.distincts, facts.distincts, strict=True):
        chooser = Chooser(epsilon * distinct.share, proved, facts.unit)
        counters.append(Counter(distinct.caps, chooser))
        counters[-1].require_drawable()
    return tuple(choosers), tuple(counters)


def _with_others(
    measurement: Measurement,
    plan: PlannedRelease,
    choosers: tuple[Chooser, ...],
    counters: tuple[Counter, ...],
) -> Measurement:
    """Return the measurement with what is chosen and counted apart from the vectors."""
    events: list[Event] = []
    for histogram, chooser in zip(plan.histograms, choosers, strict=True):
        one = (
            ApproximateEvent(chooser.epsilon, chooser.delta)
            if histogram.kind.is_local
            else PureEvent(chooser.epsilon)
        )
        events += [one] * histogram.runs
    for counter in counters:
        events += counter.events
    if not events:
        return measurement
    epsilon = sum((pure_epsilon(event) or Fraction(0) for event in events), Fraction(0))
    delta = sum(map(selection_delta, events), Fraction(0))
    cost = measurement.cost + Cost(epsilon, delta, tuple(events))
    return replace(measurement, cost=cost, choosers=choosers, counters=counters)


def _calibrated(task: _Task, *, laplace: bool, gaussian: bool) -> tuple[Measurement, ...]:
    """Return the noise of a task's vectors."""
    delta = task.delta
    if any(task.selects(place) for place in task.noisy) and delta == 0:
        raise ParameterError(
            "Group keys that aren't public need delta > 0: whether a rare key appears can't be"
            " hidden with certainty.",
            hint="delta=1e-9, or declare the key column's values or bounds in the schema",
        )
    if not task.noisy:
        return task.measurements(_Draft({}, {}, Fraction(0), {}, {}))
    kinds = [NoiseKind.LAPLACE] if laplace else []
    if gaussian and delta > 0:
        kinds.append(NoiseKind.GAUSSIAN)
    if not kinds:
        raise ParameterError(
            "the schema allows Gaussian noise alone, which needs delta > 0 and an accountant other than "
            "pure.",
            hint="delta=1e-9, or mechanisms: {noise: [laplace, gaussian]} in the schema",
        )
    drafts = {(v, s): task.draft(v, s) for v, s in product(kinds, kinds)}
    best = _best(task, {pair: draft for pair, draft in drafts.items() if draft is not None})
    return task.measurements(best)


@dataclass(frozen=True, slots=True)
class _Draft:
    """One way to answer: the noise of every noisy vector, and of each part that selects its keys.

    epsilons: what each noisy vector costs. selection_deltas, thresholds: by the part's number.
    """

    noises: Mapping[Place, VectorNoise]
    epsilons: Mapping[Place, Fraction]
    noise_delta: Fraction
    selection_deltas: Mapping[int, Fraction]
    thresholds: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Task:
    """What a draft is made from. epsilon, delta: of all parts together."""

    parts: tuple[Part, ...]
    epsilon: Fraction
    delta: Fraction
    min_units: int

    @property
    def noisy(self) -> tuple[Place, ...]:
        """The vectors that some neighbour changes."""
        return tuple(
            (part, i)
            for part, (_, facts) in enumerate(self.parts)
            for i, vector in enumerate(facts.vectors)
            if vector.change.l1 > 0
        )

    def selects(self, place: Place) -> bool:
        """Return whether a vector selects the keys of its part."""
        return self.parts[place[0]][0].selection == place[1]

    def change(self, place: Place) -> Change:
        """Return how far a neighbour moves a vector."""
        return self.parts[place[0]][1].vectors[place[1]].change

    def draft(self, values: NoiseKind, selection: NoiseKind) -> _Draft | None:
        """Return the release with these kinds of noise for its values and its selection.

        None where a scale would be out of range. The vectors with Gaussian noise are one mechanism
        with the sum of their epsilons; those with Laplace noise have their own.

        Claim:   the release of all parts is (epsilon, noise_delta + selection_deltas)-DP.
        Why:     Laplace vector i is (lattice l1_i / t_i)-DP, and t_i is rounded up. Gaussian
                 vectors have sigma_i^2 >= l2_i^2 sigma1^2 / w_i with weights that add up to 1, so
                 the sum of (l2_i / sigma_i)^2 is at most 1 / sigma1^2. Basic composition of both,
                 and of the parts: a unit may change every one of them.
        Assumes: the changes of the facts, which hold for all groups of a vector at once.
        Source:  [Dwork2006], [Dwork2006b], [BalleWang2018]
        """
        kinds = {p: selection if self.selects(p) else values for p in self.noisy}
        gaussian = tuple(p for p, kind in kinds.items() if kind is NoiseKind.GAUSSIAN)
        choosing = [p[0] for p in kinds if self.selects(p)]
        noise_delta = Fraction(0) if not gaussian else self.delta / 2 if choosing else self.delta
        shares = self._shares(kinds)
        noises = {p: self._laplace(p, shares[p]) for p in kinds if p not in gaussian}
        noises |= self._gaussian({p: shares[p] for p in gaussian}, noise_delta)
        found = {p: noise for p, noise in noises.items() if noise is not None}
        if len(found) < len(kinds):
            return None
        spent = {p: self._spent(p, noise, shares[p]) for p, noise in found.items()}
        touched = sum(self.parts[part][1].groups for part in choosing)
        deltas = {
            part: (self.delta - noise_delta) * self.parts[part][1].groups / touched
            for part in choosing
        }
        thresholds = {
            part: self._threshold(found.get((part, plan.selection)), part, deltas.get(part))
            for part, (plan, _) in enumerate(self.parts)
            if plan.selection is not None
        }
        return _Draft(found, spent, noise_delta, deltas, thresholds)

    def _shares(self, kinds: Mapping[Place, NoiseKind]) -> Mapping[Place, Fraction]:
        """Return the epsilon of each noisy vector; together all of it.

        One measure in several parts has one share, split in proportion to what noise of one scale
        costs in each part: to Δ1 for Laplace noise, to Δ2^2 for Gaussian noise.
        """
        joined: dict[tuple[Measure | BlockMeasure, bool, int], list[Place]] = {}
        for place in kinds:
            measures = [v.measure for v in self.parts[place[0]][0].vectors]
            before = measures[: place[1]].count(measures[place[1]])
            key = measures[place[1]], self.selects(place), before
            joined.setdefault(key, []).append(place)
        wanted = {
            key: min(self.parts[part][0].shares[i] for part, i in places)
            for key, places in joined.items()
        }
        if any(share <= 0 for share in wanted.values()):
            raise InternalError("a vector that needs noise has no share of epsilon")
        total = sum(wanted.values(), Fraction(0))
        shares: dict[Place, Fraction] = {}
        for key, places in joined.items():
            laplace = kinds[places[0]] is NoiseKind.LAPLACE
            changes = {p: self.change(p) for p in places}
            sizes = {p: c.l1 if laplace else c.l2_squared for p, c in changes.items()}
            for place, size in sizes.items():
                part = Fraction(size, sum(sizes.values()))
                shares[place] = self.epsilon * wanted[key] / total * part
        return shares

    def _spent(self, place: Place, noise: VectorNoise, share: Fraction) -> Fraction:
        """Return the epsilon that a vector costs: its share of the joint one for Gaussian noise."""
        if noise.kind is NoiseKind.GAUSSIAN:
            return share
        return Fraction(noise.lattice * self.change(place).l1, noise.scale)

    def relative_variance(self, draft: _Draft) -> float:
        """Return the noise's variance in squares of what one unit adds, summed over the values."""
        total = 0.0
        for place, noise in draft.noises.items():
            if not self.selects(place):
                one = noise.lattice * self._one(place)
                factor = 2 if noise.kind is NoiseKind.LAPLACE else 1
                total += factor * float(Fraction(noise.scale, one)) ** 2
        return total

    def units_needed(self, draft: _Draft) -> Fraction:
        """Return how many units a key needs at least, before noise; 0 without selection."""
        needed = [Fraction(0)]
        for part, threshold in draft.thresholds.items():
            selection = self.parts[part][0].selection
            if selection is not None:
                noise = draft.noises.get((part, selection), EXACT)
                needed.append(Fraction(threshold, noise.lattice))
        return max(needed)

    def _one(self, place: Place) -> int:
        """Return the largest entry of a vector that one unit can add to one group."""
        return _size(self.parts[place[0]][1].vectors[place[1]].contribution)

    def _laplace(self, place: Place, share: Fraction) -> VectorNoise | None:
        """Return noise of scale l1/epsilon for a vector, or None above the largest scale."""
        ratio = self.change(place).l1 / share
        return on_lattice(NoiseKind.LAPLACE, ratio * ratio)

    def _gaussian(
        self, shares: Mapping[Place, Fraction], delta: Fraction
    ) -> Mapping[Place, VectorNoise | None]:
        """Return joint noise for vectors with these epsilons, None where there is none in range."""
        epsilon = sum(shares.values(), Fraction(0))
        unit = sigma1(epsilon, delta) if shares else None
        changed = sum(_coordinates(self.change(place)) for place in shares)
        if unit is None or changed > MOST_COORDINATES:
            return dict.fromkeys(shares)
        square = Fraction(unit) ** 2
        return {
            place: on_lattice(
                NoiseKind.GAUSSIAN, square * self.change(place).l2_squared * epsilon / share
            )
            for place, share in shares.items()
        }

    def _threshold(self, noise: VectorNoise | None, part: int, delta: Fraction | None) -> int:
        """Return a part's threshold in the lattice units of its selection's noise."""
        plan, facts = self.parts[part]
        if noise is None or delta is None or plan.selection is None:
            return self.min_units
        unit = facts.unit
        rule = laplace_threshold if noise.kind is NoiseKind.LAPLACE else gaussian_threshold
        found = [noise.lattice * self.min_units]
        for groups, one in _own_keys(facts.vectors[plan.selection].contribution, facts.groups):
            log_delta = log_delta_per_group(
                delta,
                self.epsilon,
                groups=groups,
                group_size=unit.group_size,
                adjacency=unit.adjacency,
            )
            start = noise.lattice * unit.group_size * one
            found.append(rule(noise.scale, log_delta, start=start))
        return max(found)

    def measurements(self, draft: _Draft) -> tuple[Measurement, ...]:
        """Return one measurement a part."""
        gaussian = {
            place: draft.epsilons[place]
            for place, noise in draft.noises.items()
            if noise.kind is NoiseKind.GAUSSIAN
        }
        joint = sum(gaussian.values(), Fraction(0))
        result = []
        for part, (plan, _) in enumerate(self.parts):
            own = {i: draft.noises.get((part, i), EXACT) for i in range(len(plan.vectors))}
            chosen = None
            if plan.selection is not None:
                threshold = draft.thresholds.get(part, self.min_units)
                chosen = Selection(plan.selection, threshold)
            epsilon = sum((e for p, e in draft.epsilons.items() if p[0] == part), Fraction(0))
            delta = draft.selection_deltas.get(part, Fraction(0))
            if joint:
                mine = sum((e for p, e in gaussian.items() if p[0] == part), Fraction(0))
                delta += draft.noise_delta * mine / joint
            cost = Cost(epsilon, delta, self._events(draft, part)) if epsilon else FREE
            result.append(Measurement(tuple(own.values()), chosen, cost))
        return tuple(result)

    def _events(self, draft: _Draft, part: int) -> tuple[Event, ...]:
        """Return what the ledger stores: one event a noisy vector, in its lattice units."""
        events: list[Event] = []
        for place, noise in sorted(draft.noises.items()):
            if place[0] != part:
                continue
            change = self.change(place).scaled(noise.lattice)
            event = (
                LaplaceEvent(noise.scale, change)
                if noise.kind is NoiseKind.LAPLACE
                else GaussianEvent(noise.scale, change.l2_squared)
            )
            chosen = draft.selection_deltas[part] if self.selects(place) else None
            events.append(event if chosen is None else KeySelectionEvent(event, chosen))
        return tuple(events)


def _own_keys(contribution: ContributionSet, groups: int) -> list[tuple[int, int]]:
    """Return how many keys of its own a unit may have, with what it adds to each: all that matter.

    A unit that spreads its weight has more keys of less weight, or fewer of more.
    """
    if isinstance(contribution, Divided):
        return [(m, contribution.part(m)) for m in range(1, groups + 1)]
    return [(groups, _size(contribution))]


def _best(task: _Task, drafts: Mapping[tuple[NoiseKind, NoiseKind], _Draft]) -> _Draft:
    """Return the draft with the most exact values and then the fewest units that a key needs.

    The kind of noise of the values is decided between drafts of one kind throughout.
    """
    if not drafts:
        raise UnsupportedSQLError(
            "The noise that this epsilon asks for is larger than any answer: its scale is above"
            " 2^50 steps of the values' grid.",
            hint="a larger epsilon, tighter bounds or CLAMP, or lower max_groups and"
            " max_rows_per_group",
        )

    def error(pair: tuple[NoiseKind, NoiseKind]) -> tuple[float, Fraction]:
        uniform = drafts.get((pair[0], pair[0]), drafts[pair])
        return task.relative_variance(uniform), task.units_needed(drafts[pair])

    return drafts[min(drafts, key=error)]


def _size(contribution: ContributionSet) -> int:
    """Return the largest entry that one unit can add to one group."""
    match contribution:
        case Box(low=low, high=high):
            return max(1, *(-end for end in low), *high)
        case Simplex(total=total) | Divided(weight=total) | Ball(radius=total):
            return total
        case _:
            assert_never(contribution)


def _coordinates(change: Change) -> int:
    """Return how many coordinates of a vector a neighbour can change."""
    return max(sum(count for shift, count in profile if shift > 0) for profile in change.profiles)
