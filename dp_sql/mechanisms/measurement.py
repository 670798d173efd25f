"""Which noise a release gets: kind and scale of each vector, how keys are selected, its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError, ParameterError, UnsupportedSQLError
from dp_sql.mechanisms.calibrate_gaussian import MOST_COORDINATES, MOST_EPSILON, sigma1
from dp_sql.mechanisms.choice import events_of, require_drawable
from dp_sql.mechanisms.chooser import Chooser
from dp_sql.mechanisms.distinct import Counter
from dp_sql.mechanisms.noise import EXACT, NoiseKind, VectorNoise, on_lattice
from dp_sql.mechanisms.optimal import OptimalRule, optimal_rule
from dp_sql.mechanisms.selection import (
    Coins,
    Selection,
    largest,
    own_keys,
    threshold,
    weight_of,
)
from dp_sql.plan.block import BlockMeasure
from dp_sql.plan.facts import Facts
from dp_sql.plan.relation import Measure
from dp_sql.plan.release import PlannedRelease
from dp_sql.privacy.contribution import Change, ContributionSet
from dp_sql.privacy.cost import FREE, Cost
from dp_sql.privacy.event import (
    Event,
    GaussianEvent,
    KeySelectionEvent,
    LaplaceEvent,
    pure_epsilon,
    selection_delta,
)
from dp_sql.schema.catalog import KeyRule


@dataclass(frozen=True, slots=True)
class Measurement:
    """The noise of a whole release, one entry a vector, and what it costs.

    selection: None where all keys are public. second: of the keys that the first round didn't show,
    where there are two rounds. A vector whose value decides over coins has no noise here, and is never
    released. cost: of one set of keys among several, its part of
    the cost of all: only the sum is a guarantee. choosers: how values are chosen from the histograms;
    counters: how distinct values are counted.
    """

    noises: tuple[VectorNoise, ...]
    selection: Selection | Coins | None
    cost: Cost
    choosers: tuple[Chooser, ...] = ()
    counters: tuple[Counter, ...] = ()
    second: Selection | None = None


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
    scale above 2^50, or the optimal rule for keys too many steps.
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
        events += events_of(histogram, chooser)
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
        return task.measurements(_Draft({}, {}, Fraction(0), {}, {}, {}))
    kinds = [NoiseKind.LAPLACE] if laplace else []
    if gaussian and delta > 0:
        kinds.append(NoiseKind.GAUSSIAN)
    if not kinds and not all(task.tossed(place) for place in task.noisy):
        raise ParameterError(
            "the schema allows Gaussian noise alone, which needs delta > 0 and an accountant other than "
            "pure.",
            hint="delta=1e-9, or mechanisms: {noise: [laplace, gaussian]} in the schema",
        )
    choosing = any(task.selects(place) for place in task.noisy)
    selecting = [s for s in kinds if task.admits(s)] if choosing else []
    drafts = {
        (v, s): task.draft(v, s)
        for v, s in product(kinds or [NoiseKind.NONE], selecting or [NoiseKind.NONE])
    }
    best = _best(task, {pair: draft for pair, draft in drafts.items() if draft is not None})
    return task.measurements(best)


@dataclass(frozen=True, slots=True)
class _Draft:
    """One way to answer: the noise of every noisy vector, and of each part that selects its keys.

    epsilons: what each vector costs. selection_deltas, thresholds, rules: of each vector that selects
    keys; those with a rule have no noise.
    """

    noises: Mapping[Place, VectorNoise]
    epsilons: Mapping[Place, Fraction]
    noise_delta: Fraction
    selection_deltas: Mapping[Place, Fraction]
    thresholds: Mapping[Place, int]
    rules: Mapping[Place, OptimalRule]


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
        return place[1] in self.parts[place[0]][0].selections

    def tossed(self, place: Place) -> bool:
        """Return whether a vector selects keys by coins."""
        return self.selects(place) and self.parts[place[0]][0].key_rules == (KeyRule.OPTIMAL,)

    def admits(self, kind: NoiseKind) -> bool:
        """Return whether every part that has a choice may select its keys with this noise."""
        rules = [self.parts[p[0]][0].key_rules for p in self.noisy if self.selects(p)]
        free = [some for some in rules if set(some) <= {KeyRule.LAPLACE, KeyRule.GAUSSIAN}]
        return all(kind.value in some for some in free)

    def _kind(self, place: Place, values: NoiseKind, selection: NoiseKind) -> NoiseKind:
        """Return the noise of a vector: that of weights goes with how they are divided."""
        if not self.selects(place):
            return values
        rules = self.parts[place[0]][0].key_rules
        if KeyRule.WEIGHTED_LAPLACE in rules:
            return NoiseKind.LAPLACE
        weighed = {KeyRule.WEIGHTED_GAUSSIAN, KeyRule.TWO_ROUNDS}
        return NoiseKind.GAUSSIAN if weighed & set(rules) else selection

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
                 the sum of (l2_i / sigma_i)^2 is at most 1 / sigma1^2, and one may be chosen by what
                 another released (`sigma1`). Basic composition of both, of coins, and of the parts: a
                 unit may change every one of them.
        Assumes: the changes of the facts, which hold for all groups of a vector at once.
        Source:  [Dwork2006], [Dwork2006b], [BalleWang2018]
        """
        tossed = [p for p in self.noisy if self.tossed(p)]
        kinds = {p: self._kind(p, values, selection) for p in self.noisy if p not in tossed}
        gaussian = tuple(p for p, kind in kinds.items() if kind is NoiseKind.GAUSSIAN)
        choosing = [p for p in self.noisy if self.selects(p)]
        noise_delta = Fraction(0) if not gaussian else self.delta / 2 if choosing else self.delta
        shares = self._shares(gaussian)
        noises = {p: self._laplace(p, shares[p]) for p in kinds if p not in gaussian}
        noises |= self._gaussian({p: shares[p] for p in gaussian}, noise_delta)
        found = {p: noise for p, noise in noises.items() if noise is not None}
        if len(found) < len(kinds):
            return None
        spent = {p: self._spent(p, noise, shares[p]) for p, noise in found.items()}
        touched = sum(self.parts[part][1].groups for part in {part for part, _ in choosing})
        deltas = {
            p: (self.delta - noise_delta) * self.parts[p[0]][1].groups / touched * self._round(p)
            for p in choosing
        }
        rules = {p: self._rule(p, shares[p], deltas[p]) for p in tossed}
        spent |= {p: shares[p] for p in tossed}
        thresholds = {
            (part, i): self._threshold(found.get((part, i)), (part, i), deltas.get((part, i)))
            for part, (plan, _) in enumerate(self.parts)
            for i in plan.selections
            if (part, i) not in rules
        }
        return _Draft(found, spent, noise_delta, deltas, thresholds, rules)

    def _round(self, place: Place) -> Fraction:
        """Return the part of its selection's budget that one round of it has."""
        plan = self.parts[place[0]][0]
        return plan.shares[place[1]] / sum((plan.shares[i] for i in plan.selections), Fraction(0))

    def _rule(self, place: Place, epsilon: Fraction, delta: Fraction) -> OptimalRule:
        """Return the rule by which keys are tossed."""
        rule = optimal_rule(epsilon, delta, self.change(place), self.min_units)
        if rule is None:
            raise UnsupportedSQLError(
                "The epsilon is too small for the optimal rule for private keys: no key of fewer than "
                "a hundred thousand units would show.",
                hint="a larger epsilon, a lower max_groups, or mechanisms: {keys: [laplace, gaussian]} in "
                "the schema",
            )
        return rule

    def _shares(self, gaussian: Sequence[Place]) -> Mapping[Place, Fraction]:
        """Return the epsilon of each vector that a neighbour changes; together all of it.

        One measure in several parts has one share, split in proportion to what noise of one scale
        costs in each part: to Δ2^2 for Gaussian noise, to Δ1 for all else.
        """
        joined: dict[tuple[Measure | BlockMeasure, bool, int], list[Place]] = {}
        named: dict[
            Place, tuple[Measure | BlockMeasure, int]
        ] = {}  # and how many equal ones precede
        for number, (plan, *_) in enumerate(self.parts):
            seen: dict[Measure | BlockMeasure, int] = {}
            for index, vector in enumerate(plan.vectors):
                before = seen.get(vector.measure, 0)
                named[number, index] = vector.measure, before
                seen[vector.measure] = before + 1
        for place in self.noisy:
            measure, before = named[place]
            joined.setdefault((measure, self.selects(place), before), []).append(place)
        wanted = {
            key: min(self.parts[part][0].shares[i] for part, i in places)
            for key, places in joined.items()
        }
        if any(share <= 0 for share in wanted.values()):
            raise InternalError("a vector that needs noise has no share of epsilon")
        total = sum(wanted.values(), Fraction(0))
        shares: dict[Place, Fraction] = {}
        for key, places in joined.items():
            square = places[0] in gaussian
            changes = {p: self.change(p) for p in places}
            sizes = {p: c.l2_squared if square else c.l1 for p, c in changes.items()}
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
        for place, needs in draft.thresholds.items():
            noise = draft.noises.get(place, EXACT)
            needed.append(Fraction(needs, noise.lattice * weight_of(self._contribution(place))))
        return max(needed)

    def _one(self, place: Place) -> int:
        """Return the largest entry of a vector that one unit can add to one group."""
        return largest(self._contribution(place))

    def _contribution(self, place: Place) -> ContributionSet:
        return self.parts[place[0]][1].vectors[place[1]].contribution

    def _laplace(self, place: Place, share: Fraction) -> VectorNoise | None:
        """Return noise of scale l1/epsilon for a vector, or None above the largest scale."""
        ratio = self.change(place).l1 / share
        return on_lattice(NoiseKind.LAPLACE, ratio * ratio)

    def _gaussian(
        self, shares: Mapping[Place, Fraction], delta: Fraction
    ) -> Mapping[Place, VectorNoise | None]:
        """Return joint noise for vectors with these epsilons, None where there is none in range."""
        epsilon = sum(shares.values(), Fraction(0))
        unit = sigma1(min(epsilon, MOST_EPSILON), delta) if shares else None
        changed = sum(coordinates(self.change(place)) for place in shares)
        if unit is None or changed > MOST_COORDINATES:
            return dict.fromkeys(shares)
        square = Fraction(unit) ** 2
        return {
            place: on_lattice(
                NoiseKind.GAUSSIAN, square * self.change(place).l2_squared * epsilon / share
            )
            for place, share in shares.items()
        }

    def _threshold(self, noise: VectorNoise | None, place: Place, delta: Fraction | None) -> int:
        """Return a threshold in the lattice units of its vector's noise, or without noise in units."""
        facts = self.parts[place[0]][1]
        contribution = self._contribution(place)
        least = self.min_units * weight_of(contribution)
        if noise is None or delta is None:
            return least
        own = own_keys(contribution, facts.groups)
        return max(noise.lattice * least, threshold(noise, delta, self.epsilon, own, facts.unit))

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
            chosen, *more = [*(self._selection(draft, (part, i)) for i in plan.selections), None]
            second = more[0] if more else None
            if isinstance(second, Coins):
                raise InternalError("a second round selects by a threshold")
            epsilon = sum((e for p, e in draft.epsilons.items() if p[0] == part), Fraction(0))
            delta = sum((d for p, d in draft.selection_deltas.items() if p[0] == part), Fraction(0))
            if joint:
                mine = sum((e for p, e in gaussian.items() if p[0] == part), Fraction(0))
                delta += draft.noise_delta * mine / joint
            cost = Cost(epsilon, delta, self._events(draft, part)) if epsilon else FREE
            result.append(Measurement(tuple(own.values()), chosen, cost, second=second))
        return tuple(result)

    def _selection(self, draft: _Draft, place: Place) -> Selection | Coins:
        """Return how a vector selects keys."""
        rule = draft.rules.get(place)
        if rule is not None:
            return Coins(place[1], rule)
        least = self.min_units * weight_of(self._contribution(place))
        return Selection(place[1], draft.thresholds.get(place, least))

    def _events(self, draft: _Draft, part: int) -> tuple[Event, ...]:
        """Return what the ledger stores: one event a noisy vector, in its lattice units, and coins."""
        events: list[Event] = []
        for place, rule in draft.rules.items():
            events += rule.events if place[0] == part else ()
        for place, noise in sorted(draft.noises.items()):
            if place[0] != part:
                continue
            change = self.change(place).scaled(noise.lattice)
            event = (
                LaplaceEvent(noise.scale, change)
                if noise.kind is NoiseKind.LAPLACE
                else GaussianEvent(noise.scale, change.l2_squared)
            )
            chosen = draft.selection_deltas.get(place)
            events.append(event if chosen is None else KeySelectionEvent(event, chosen))
        return tuple(events)


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


def coordinates(change: Change) -> int:
    """Return how many coordinates of a vector a neighbour can change."""
    return max(sum(count for shift, count in profile if shift > 0) for profile in change.profiles)
