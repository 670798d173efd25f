"""What an earlier release lacks of the accuracy that is asked, and the mean of both."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dp_sql.dataclass import dataclass
from dp_sql.mechanisms.calibrate_gaussian import MOST_COORDINATES
from dp_sql.mechanisms.measurement import Measurement, Part, coordinates
from dp_sql.mechanisms.noise import EXACT, NoiseKind, VectorNoise, on_lattice
from dp_sql.mechanisms.release import AnyIntegers, Released, canonical
from dp_sql.mechanisms.together import joint_epsilon
from dp_sql.plan.release import PlannedRelease
from dp_sql.privacy.cost import FREE, Cost
from dp_sql.privacy.event import Event, GaussianEvent

_FINE = 2**20  # of a scale in lattice units: rounding it up loses a millionth of what is drawn
_UNITS = 10**12  # of the epsilon of a measurement, which is rounded up to one


@dataclass(frozen=True, slots=True)
class Noises:
    """The noise of an earlier release: that of every vector, one tuple a set of keys.

    draws: of how many independent measurements it is the mean.
    """

    parts: tuple[tuple[VectorNoise, ...], ...]
    draws: int = 1

    def to_text(self) -> str:
        """Return it as text; a vector without noise has no scale there."""
        parts = [[[noise.lattice, noise.scale] for noise in part] for part in self.parts]
        return json.dumps([self.draws, parts], separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Noises:
        """Return what `to_text` wrote. Raises ValueError for anything else."""
        try:
            draws, parts = json.loads(text)
            found = tuple(tuple(_noise(*noise) for noise in part) for part in parts)
            return cls(found, int(draws))
        except TypeError as error:
            raise ValueError("no noise of a release") from error

    def measurements(self, targets: Sequence[Measurement]) -> list[Measurement]:
        """Return the targets with this noise. Raises ValueError where they are others."""
        pairs = zip(targets, self.parts, strict=True)
        return [replace(target, noises=part) for target, part in pairs]


def _noise(lattice: int, scale: int) -> VectorNoise:
    return VectorNoise(NoiseKind.GAUSSIAN, lattice, scale) if scale else EXACT


def noises_of(
    plans: Sequence[PlannedRelease], measurements: Sequence[Measurement], draws: int = 1
) -> Noises | None:
    """Return the noise of a release to which more may be added later; None where nothing may.

    It has to be Gaussian noise on sums by public keys, of all units, and nothing else.
    """
    noises = [noise.kind for m in measurements for noise in m.noises]
    if NoiseKind.GAUSSIAN not in noises or NoiseKind.LAPLACE in noises:
        return None
    apart = any(m.choosers or m.counters for m in measurements)
    rate = any(plan.release.options.sample_rate is not None for plan in plans)
    if apart or rate or any(plan.private for plan in plans):
        return None
    return Noises(tuple(m.noises for m in measurements), draws)


def missing(
    parts: Sequence[Part], targets: Sequence[Measurement], earlier: Noises
) -> list[Measurement] | None:
    """Return the measurement that makes an earlier release as accurate as `targets`, with its cost.

    parts, targets: one a set of keys; the targets are what `noises_of` admits, and the earlier release
    had the same parts. None where it is no less accurate than asked in some vector, where it is
    the mean of too many, or where a scale is out of range.

    Claim:   the cost is that of the result alone. The earlier release and this one are together no
             worse than one with the noise of `targets`: its cost covers whoever is told of both.
    Why:     noise of variance v on a change of at most c says what (c^2 / v) does, for zCDP and Rényi
             divergences of all orders, and for (epsilon, delta) by `sigma1`, which allows for
             measurements one after the other and takes the sum. 1/v is here at most that of the target
             less that of the earlier release, in each vector: the scale is rounded up. So is the
             sum of both at most that of the target, and that of this one alone too: the target's
             epsilon holds for it. Where `joint_epsilon` proves less, it has less. An earlier release that was
             itself topped up says no more than its own noise does, by the same argument.
             Which scale is drawn depends on what was asked before, on no answer and on no row.
    Assumes: the changes of the facts; that all draws together touch no more coordinates than `sigma1`
             allows, for which `draws` is counted.
    Source:  [Dwork2006b], [BalleWang2018], [CanonneKamathSteinke2020]
    """
    changed = _changed(parts, targets)
    if changed * (earlier.draws + 1) > MOST_COORDINATES:
        return None
    found: list[tuple[VectorNoise, ...]] = []
    for target, before in zip(targets, earlier.parts, strict=True):
        pairs = zip(target.noises, before, strict=True)
        noises = [noise for pair in pairs if (noise := _rest(*pair)) is not None]
        if len(noises) < len(target.noises):
            return None
        found.append(tuple(noises))
    return _with_costs(parts, targets, found, changed)


def _rest(target: VectorNoise, before: VectorNoise) -> VectorNoise | None:
    """Return the noise with which a vector's mean with the earlier one has that of the target."""
    if target.kind is NoiseKind.NONE or before.kind is NoiseKind.NONE:
        return EXACT if target == before else None
    rest = _precision(target) - _precision(before)
    return on_lattice(NoiseKind.GAUSSIAN, 1 / rest, _FINE) if rest > 0 else None


def _precision(noise: VectorNoise) -> Fraction:
    """Return the inverse of the noise's variance, in steps of the vector."""
    return Fraction(noise.lattice**2, noise.scale**2)


def _changed(parts: Sequence[Part], targets: Sequence[Measurement]) -> int:
    """Return how many values with noise a neighbour can change."""
    return sum(
        coordinates(fact.change)
        for (_, facts), target in zip(parts, targets, strict=True)
        for noise, fact in zip(target.noises, facts.vectors, strict=True)
        if noise.kind is NoiseKind.GAUSSIAN
    )


def _with_costs(
    parts: Sequence[Part],
    targets: Sequence[Measurement],
    noises: Sequence[tuple[VectorNoise, ...]],
    changed: int,
) -> list[Measurement]:
    """Return the measurement with what it costs, each set of keys its part of it."""
    events: list[tuple[Event, ...]] = [
        tuple(
            GaussianEvent(noise.scale, fact.change.scaled(noise.lattice).l2_squared)
            for noise, fact in zip(own, facts.vectors, strict=True)
            if noise.kind is NoiseKind.GAUSSIAN
        )
        for (_, facts), own in zip(parts, noises, strict=True)
    ]
    whole = sum((target.cost for target in targets), FREE)
    proved = joint_epsilon([e for some in events for e in some], whole.delta, changed)
    epsilon = whole.epsilon
    if proved is not None:
        epsilon = min(epsilon, Fraction(max(1, math.ceil(proved * _UNITS)), _UNITS))
    return [
        replace(
            target,
            noises=own,
            cost=Cost(epsilon * target.cost.epsilon / whole.epsilon, target.cost.delta, some)
            if some
            else FREE,
        )
        for target, own, some in zip(targets, noises, events, strict=True)
    ]


def fits(plan: PlannedRelease, released: Released) -> bool:
    """Return whether a release has the groups and the vectors of a plan with public keys."""
    shape = [len(vector.columns) for vector in plan.vectors]
    sizes = {component.size for vector in released.vectors for component in vector}
    return (
        len(released.keys) == plan.cells
        and [len(vector) for vector in released.vectors] == shape
        and sizes <= {plan.cells}
    )


def mean(target: Measurement, before: Released, fresh: Released) -> Released:
    """Return the mean of two releases of the same groups, weighted by the inverse of their variances.

    It has the noise of `target`, in whose lattice units it is rounded.

    Claim:   this costs no privacy, and the noise has the target's variance, up to a millionth of it.
    Why:     it is computed from the noisy integers of two releases, in integers: post-processing.
             Their noises are independent, so the inverse variances add up, to the target's but for the
             rounding of a scale of 2^20 or more. Rounding to the lattice, where the deviation is 1024 steps
             or more, adds a variance of a twelfth of a step's square.
    Assumes: the noise that is stored with the earlier one is its own; else the answer is less accurate.
    Source:  [Dwork2006]
    """
    vectors = []
    for i, noise in enumerate(target.noises):
        old, new = before.measurement.noises[i], fresh.measurement.noises[i]
        pairs = zip(before.vectors[i], fresh.vectors[i], strict=True)
        same = noise.kind is NoiseKind.NONE
        vectors.append([b if same else _weighted(noise, (old, a), (new, b)) for a, b in pairs])
    return replace(fresh, vectors=vectors, measurement=target)


def _weighted(
    target: VectorNoise,
    one: tuple[VectorNoise, AnyIntegers],
    other: tuple[VectorNoise, AnyIntegers],
) -> AnyIntegers:
    """Return the weighted mean in lattice units of the target: the nearest integers, halves up."""
    (old, first), (new, second) = one, other
    left = target.lattice * old.lattice * new.scale**2
    right = target.lattice * new.lattice * old.scale**2
    below = (old.lattice * new.scale) ** 2 + (new.lattice * old.scale) ** 2
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    found = [(2 * (left * a + right * b) + below) // (2 * below) for a, b in pairs]
    return canonical(np.array(found, dtype=object))
