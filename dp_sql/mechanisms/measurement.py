"""Which noise a release gets: kind and scale of each vector, the keys' threshold, its cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from itertools import product

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError, ParameterError, UnsupportedSQLError
from dp_sql.mechanisms.calibrate_gaussian import LEAST_SIGMA, MOST_COORDINATES, sigma1
from dp_sql.mechanisms.sampler import MAX_SCALE
from dp_sql.mechanisms.threshold import gaussian_threshold, laplace_threshold, log_delta_per_group
from dp_sql.plan.facts import Facts
from dp_sql.plan.release import PlannedRelease
from dp_sql.privacy.contribution import Box, ContributionSet, Simplex
from dp_sql.privacy.cost import FREE, Cost
from dp_sql.privacy.event import Event, GaussianEvent, KeySelectionEvent, LaplaceEvent

LEAST_SCALE = LEAST_SIGMA  # in lattice units: rounding it up costs at most a tenth of a percent
_FINEST = 2**64  # points of the lattice in one step of a vector


class NoiseKind(StrEnum):
    """The law of a vector's noise. NONE: no neighbour changes it, so it is released as it is."""

    NONE = "none"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True, slots=True)
class VectorNoise:
    """A vector is released as lattice * exact + noise, independent in every coordinate.

    lattice: a power of two. scale: of the discrete Laplace, or sigma of the discrete Gaussian
    distribution, in lattice units; 0 for NONE.
    """

    kind: NoiseKind
    lattice: int
    scale: int

    def __post_init__(self) -> None:
        if self.lattice < 1 or self.lattice & (self.lattice - 1):
            raise ValueError("a lattice is a power of two")
        if self.kind is NoiseKind.NONE:
            if self.scale != 0 or self.lattice != 1:
                raise ValueError("no noise has no scale and no lattice")
        elif not 1 <= self.scale <= MAX_SCALE:
            raise ValueError("the scale of noise is an integer from 1 to 2^50")


EXACT = VectorNoise(NoiseKind.NONE, 1, 0)


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

    selection: None where all keys are public.
    """

    noises: tuple[VectorNoise, ...]
    selection: Selection | None
    cost: Cost


def calibrate(
    plan: PlannedRelease,
    facts: Facts,
    *,
    epsilon: Fraction,
    delta: Fraction,
    gaussian_allowed: bool,
    min_units: int,
) -> Measurement:
    """Return the noise of least error whose cost is at most (epsilon, delta).

    Vectors that no neighbour changes are exact and free; the others share epsilon in proportion to
    `plan.shares`. delta is spent on Gaussian noise, where that is allowed and better than Laplace
    noise, and on selection. min_units: how many units a private key needs at least.

    Raises ParameterError where private keys are selected and delta is 0, and UnsupportedSQLError
    where the noise would need a scale above 2^50.
    """
    noisy = tuple(i for i, vector in enumerate(facts.vectors) if vector.change.l1 > 0)
    selection = plan.selection
    if selection is not None and selection in noisy and delta == 0:
        raise ParameterError(
            "Group keys that aren't public need delta > 0: whether a rare key appears can't be"
            " hidden with certainty.",
            hint="delta=1e-9, or declare the key column's values or bounds in the schema",
        )
    if not noisy:
        return Measurement(_noises(plan, {}), _exact_selection(selection, min_units), FREE)
    kinds = [NoiseKind.LAPLACE]
    if gaussian_allowed and delta > 0:
        kinds.append(NoiseKind.GAUSSIAN)
    task = _Task(plan, facts, _shared(plan, noisy, epsilon), epsilon, delta, min_units)
    drafts = {(v, s): task.draft(v, s) for v, s in product(kinds, kinds)}
    return _best(task, {pair: draft for pair, draft in drafts.items() if draft is not None})


@dataclass(frozen=True, slots=True)
class _Draft:
    """One way to answer: the noise of every noisy vector and its cost before selection."""

    noises: Mapping[int, VectorNoise]
    epsilon: Fraction
    noise_delta: Fraction
    selection_delta: Fraction
    threshold: int


@dataclass(frozen=True, slots=True)
class _Task:
    """What a draft is made from. epsilons: of each noisy vector; they add up to `epsilon`."""

    plan: PlannedRelease
    facts: Facts
    epsilons: Mapping[int, Fraction]
    epsilon: Fraction
    delta: Fraction
    min_units: int

    def draft(self, values: NoiseKind, selection: NoiseKind) -> _Draft | None:
        """Return the release with these kinds of noise for its values and its selection.

        None where a scale would be out of range. The vectors with Gaussian noise are one mechanism
        with the sum of their epsilons; those with Laplace noise have their own.

        Claim:   the release is (epsilon, noise_delta + selection_delta)-DP.
        Why:     Laplace vector i is (lattice l1_i / t_i)-DP, and t_i is rounded up. Gaussian
                 vectors have sigma_i^2 >= l2_i^2 sigma1^2 / w_i with weights that add up to 1, so
                 the sum of (l2_i / sigma_i)^2 is at most 1 / sigma1^2. Basic composition of both.
        Assumes: the changes of the facts, which hold for all groups of a vector at once.
        Source:  [Dwork2006], [Dwork2006b], [BalleWang2018]
        """
        kinds = {i: selection if i == self.plan.selection else values for i in self.epsilons}
        gaussian = tuple(i for i, kind in kinds.items() if kind is NoiseKind.GAUSSIAN)
        selects = self.plan.selection in kinds
        noise_delta = Fraction(0) if not gaussian else self.delta / 2 if selects else self.delta
        noises = {i: self._laplace(i) for i in kinds if i not in gaussian}
        noises |= self._gaussian(gaussian, noise_delta)
        found = {i: noise for i, noise in noises.items() if noise is not None}
        if len(found) < len(kinds):
            return None
        spent = sum((self._spent(i, noise) for i, noise in found.items()), Fraction(0))
        selection_delta = self.delta - noise_delta if selects else Fraction(0)
        threshold = self._threshold(found, selection_delta)
        return _Draft(found, spent, noise_delta, selection_delta, threshold)

    def _spent(self, i: int, noise: VectorNoise) -> Fraction:
        """Return the epsilon that vector i costs: its share of the joint one for Gaussian noise."""
        if noise.kind is NoiseKind.GAUSSIAN:
            return self.epsilons[i]
        return Fraction(noise.lattice * self.facts.vectors[i].change.l1, noise.scale)

    def relative_variance(self, draft: _Draft) -> float:
        """Return the noise's variance in squares of what one unit adds, summed over the values."""
        total = 0.0
        for i, noise in draft.noises.items():
            if i != self.plan.selection:
                one = noise.lattice * _size(self.facts.vectors[i].contribution)
                factor = 2 if noise.kind is NoiseKind.LAPLACE else 1
                total += factor * float(Fraction(noise.scale, one)) ** 2
        return total

    def units_needed(self, draft: _Draft) -> Fraction:
        """Return how many units a key needs at least, before noise; 0 without selection."""
        selection = self.plan.selection
        if selection is None:
            return Fraction(0)
        noise = draft.noises.get(selection, EXACT)
        return Fraction(draft.threshold, noise.lattice)

    def _laplace(self, i: int) -> VectorNoise | None:
        """Return noise of scale l1/epsilon for vector i, or None above the largest scale."""
        ratio = self.facts.vectors[i].change.l1 / self.epsilons[i]
        return _on_lattice(NoiseKind.LAPLACE, ratio * ratio)

    def _gaussian(
        self, vectors: tuple[int, ...], delta: Fraction
    ) -> Mapping[int, VectorNoise | None]:
        """Return joint noise for `vectors`, with None where there is none in range."""
        epsilon = sum((self.epsilons[i] for i in vectors), Fraction(0))
        unit = sigma1(epsilon, delta) if vectors else None
        changed = sum(_coordinates(self.facts, i) for i in vectors)
        if unit is None or changed > MOST_COORDINATES:
            return dict.fromkeys(vectors)
        square = Fraction(unit) ** 2
        return {
            i: _on_lattice(
                NoiseKind.GAUSSIAN,
                square * self.facts.vectors[i].change.l2_squared * epsilon / self.epsilons[i],
            )
            for i in vectors
        }

    def _threshold(self, noises: Mapping[int, VectorNoise], delta: Fraction) -> int:
        """Return the selection's threshold in its vector's lattice units; 0 without selection."""
        selection = self.plan.selection
        if selection is None:
            return 0
        if selection not in noises:
            return self.min_units
        noise, unit = noises[selection], self.facts.unit
        log_delta = log_delta_per_group(
            delta,
            self.epsilon,
            groups=self.facts.groups,
            group_size=unit.group_size,
            adjacency=unit.adjacency,
        )
        one = _size(self.facts.vectors[selection].contribution)
        start = noise.lattice * unit.group_size * one
        rule = laplace_threshold if noise.kind is NoiseKind.LAPLACE else gaussian_threshold
        return max(rule(noise.scale, log_delta, start=start), noise.lattice * self.min_units)


def _shared(
    plan: PlannedRelease, noisy: tuple[int, ...], epsilon: Fraction
) -> Mapping[int, Fraction]:
    """Return the epsilon of each noisy vector: its share among the noisy ones."""
    if any(plan.shares[i] <= 0 for i in noisy):
        raise InternalError("a vector that needs noise has no share of epsilon")
    total = sum((plan.shares[i] for i in noisy), Fraction(0))
    return {i: epsilon * plan.shares[i] / total for i in noisy}


def _best(task: _Task, drafts: Mapping[tuple[NoiseKind, NoiseKind], _Draft]) -> Measurement:
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

    draft = drafts[min(drafts, key=error)]
    selection = task.plan.selection
    chosen = None if selection is None else Selection(selection, draft.threshold)
    cost = Cost(draft.epsilon, draft.noise_delta + draft.selection_delta, _events(task, draft))
    return Measurement(_noises(task.plan, draft.noises), chosen, cost)


def _events(task: _Task, draft: _Draft) -> tuple[Event, ...]:
    """Return what the ledger stores: one event a noisy vector, in its lattice units."""
    events: list[Event] = []
    for i, noise in sorted(draft.noises.items()):
        change = task.facts.vectors[i].change.scaled(noise.lattice)
        event = (
            LaplaceEvent(noise.scale, change)
            if noise.kind is NoiseKind.LAPLACE
            else GaussianEvent(noise.scale, change.l2_squared)
        )
        selects = i == task.plan.selection
        events.append(KeySelectionEvent(event, draft.selection_delta) if selects else event)
    return tuple(events)


def _noises(plan: PlannedRelease, noises: Mapping[int, VectorNoise]) -> tuple[VectorNoise, ...]:
    """Return one noise a vector of the plan, exact where `noises` has none."""
    return tuple(noises.get(i, EXACT) for i in range(len(plan.vectors)))


def _exact_selection(selection: int | None, min_units: int) -> Selection | None:
    """Return the selection by counts that no neighbour changes."""
    return None if selection is None else Selection(selection, min_units)


def _on_lattice(kind: NoiseKind, square: Fraction) -> VectorNoise | None:
    """Return noise whose scale over its lattice is at least the root of `square`.

    On the coarsest lattice that gives a scale of LEAST_SCALE; the finest is _FINEST, where noise
    of that scale is below a double's precision. None above the largest scale.
    """
    lattice, scale = 1, _root_up(square)
    while scale < LEAST_SCALE and lattice < _FINEST:
        lattice *= 2
        scale = _root_up(square * lattice**2)
    scale = max(scale, LEAST_SCALE)
    return VectorNoise(kind, lattice, scale) if scale <= MAX_SCALE else None


def _root_up(square: Fraction) -> int:
    """Return the least integer whose square is at least `square`."""
    root = math.isqrt(math.ceil(square))
    return root if root * root >= square else root + 1


def _size(contribution: ContributionSet) -> int:
    """Return the largest entry that one unit can add to one group."""
    match contribution:
        case Box(low=low, high=high):
            return max(1, *(-end for end in low), *high)
        case Simplex(total=total):
            return total


def _coordinates(facts: Facts, i: int) -> int:
    """Return how many coordinates of vector i a neighbour can change."""
    profiles = facts.vectors[i].change.profiles
    return max(sum(count for shift, count in profile if shift > 0) for profile in profiles)
