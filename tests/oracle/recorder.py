"""Records what mechanisms are given: the true values, how they may change, and the noise they get.

It stands between the release and the samplers by replacing private names of modules while a test runs:
nothing that a caller can reach leads to it. A statement is run on two data sets of which the second gets
the first one's noisy answers, so that whatever depends on answers is the same in both.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from oracle.judge import COSTS, ROUND, check, shifts

from dp_sql import stages
from dp_sql.mechanisms import distinct as distinct_module
from dp_sql.mechanisms import popular, tree
from dp_sql.mechanisms import release as release_module
from dp_sql.mechanisms.chooser import Chooser, Counted
from dp_sql.mechanisms.distinct import Counter
from dp_sql.mechanisms.measurement import Measurement
from dp_sql.mechanisms.noise import NoiseKind, VectorNoise
from dp_sql.mechanisms.release import Key
from dp_sql.mechanisms.sampler import Integers, Rate
from dp_sql.mechanisms.selection import Coins
from dp_sql.plan.release import PlannedRelease
from dp_sql.privacy.contribution import Ball
from dp_sql.privacy.event import (
    Event,
    GaussianEvent,
    KeySelectionEvent,
    SampledEvent,
    pure_epsilon,
)
from dp_sql.privacy.seal_open import open_sealed

Values = dict[Key, tuple[int, ...]]


@dataclass(frozen=True)
class Call:
    """One use of a mechanism.

    kind: vector, coins, distinct, choice, weights (of a histogram, with noise), or cap (the choice of
    how many distinct values a unit vouches for). where: the number of the step, and of its vector or
    histogram, or -1. asked: everything the mechanism is told beside the data; it has to be the same on
    neighbours. values: the true values by group; of a choice the gap of each candidate.
    """

    kind: str
    where: tuple[int, int]
    asked: tuple[Any, ...]
    values: Values


@dataclass
class Recorder:
    """The calls of one run, and its noisy answers. replayed: those of the run before, to give again."""

    replayed: list[Any] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    name: str = "exact"
    _keys: list[Key] = field(default_factory=list)
    _places: list[int] = field(default_factory=list)
    steps: list[stages.Step] = field(default_factory=list)
    groups: dict[int, list[Key]] = field(default_factory=dict)
    _histogram: int = -1
    _rows: list[Key] = field(default_factory=list)
    _turn: int = 0
    _counting: bool = False

    # the sampler: no noise, and the first candidate

    def laplace(self, scale: int, size: int) -> Integers:
        assert scale >= 1
        return np.zeros(size, dtype=np.int64)

    def gaussian(self, sigma: int, size: int) -> Integers:
        assert sigma >= 1
        return np.zeros(size, dtype=np.int64)

    def choose(self, gaps: Integers, rate: Rate, *, exponential: bool = False) -> Integers:
        asked = (rate, exponential, gaps.shape[1])
        if self._counting:
            ((*row,),) = rate.capped(np.asarray(gaps)).tolist()
            self._note("cap", -1, asked, {(): tuple(row)})
        else:
            self._grouped("choice", asked, rate.capped(np.asarray(gaps)))
        return np.zeros(len(gaps), dtype=np.int64)

    # what the release does

    def _note(self, kind: str, place: int, asked: tuple[Any, ...], values: Values) -> None:
        self.calls.append(Call(kind, (len(self.steps) - 1, place), asked, values))

    def _grouped(self, kind: str, asked: tuple[Any, ...], values: Any) -> None:
        """Note what a histogram's mechanism reads of some groups: the rest of them may come later."""
        rows = values.reshape(len(self._rows), -1).tolist()
        held = {key: tuple(map(int, row)) for key, row in zip(self._rows, rows, strict=True)}
        where, asked = (len(self.steps) - 1, self._histogram), (self._turn, *asked)
        self._turn += 1
        same = [c for c in self.calls if (c.kind, c.where, c.asked) == (kind, where, asked)]
        if same:
            assert not same[0].values.keys() & held.keys()
            same[0].values.update(held)
        else:
            self.calls.append(Call(kind, where, asked, held))

    def _again(self, made: Any) -> Any:
        """Return a noisy answer, or that of the run before in its place."""
        self.answers.append(made)
        return self.replayed[len(self.answers) - 1] if self.replayed else made

    def _noisy(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def noisy(exact: list[Any], noise: VectorNoise, sampler: Any) -> Any:
            place = self._places.pop(0)
            if exact:
                rows = zip(*(component.tolist() for component in exact), strict=True)
                self._note("vector", place, (noise,), dict(zip(self._keys, rows, strict=True)))
            return known(exact, noise, sampler)

        return noisy

    def _shown(self, selection: Any, units: Any) -> Any:
        if isinstance(selection, Coins):
            rows = {key: (int(n),) for key, n in zip(self._keys, units, strict=True)}
            self._note("coins", selection.vector, (selection.rule,), rows)
        return np.ones(len(units), dtype=np.bool_)

    def _selected(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def selected(selection: Any, measurement: Measurement, sealed: Any, sampler: Any) -> Any:
            self._keys = open_sealed(sealed).keys
            self._places.insert(0, selection.vector)
            found = known(selection, measurement, sealed, sampler)
            if isinstance(selection, Coins):
                self._places.pop(0)
            return found

        return selected

    def _first_round(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def selected(*arguments: Any) -> Any:
            """Show a third of the keys: the same ones on neighbours."""
            found = self._selected(known)(*arguments)
            return self._again([key for key in found if len(repr(key)) % 3 == 0])

        return selected

    def _groups(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def groups(plan: PlannedRelease, private: list[Key]) -> list[Key]:
            self._keys = known(plan, private)
            self.groups[len(self.steps) - 1] = self._keys
            return self._keys

        return groups

    def _stepped(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def released(step: stages.Step, *rest: Any) -> Any:
            self.steps.append(step)
            return known(step, *rest)

        return released

    def _released(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def release(plan: PlannedRelease, measurement: Measurement, *rest: Any, **more: Any) -> Any:
            self._histogram = -1
            tossed = isinstance(measurement.selection, Coins)
            summed = range(len(plan.summed))
            self._places = [i for i in summed if not (tossed and i in plan.selections)]
            self._places += range(len(plan.summed), len(plan.vectors))
            made = known(plan, measurement, *rest, **more)
            assert not self._places
            return self._again(made)

        return release

    def _counted(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def counted(table: Any, keys: list[Key]) -> Any:
            self._keys = keys
            self._histogram += 1
            return known(table, keys)

        return counted

    def _dense(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def dense(counted: Counted, places: int, start: int, end: int, *, factor: int) -> Any:
            self._rows, self._turn = self._keys[start:end], 0
            return known(counted, places, start, end, factor=factor)

        return dense

    def _weighed(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def noisy(weights: Any, chooser: Chooser, sampler: Any) -> Any:
            self._grouped("weights", chooser.laplace(), weights)
            return known(weights, chooser, sampler)

        return noisy

    def _in_tree(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def noisy(exact: Any, lattice: int, scale: int, sampler: Any) -> Any:
            self._grouped("weights", (lattice, scale), exact)
            return known(exact, lattice, scale, sampler)

        return noisy

    def _capped(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def cap(*arguments: Any) -> Any:
            self._counting = True
            try:
                return known(*arguments)
            finally:
                self._counting = False

        return cap

    def _distinct(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def distinct(counter: Counter, table: Any, keys: list[Key], sampler: Any) -> Any:
            self._keys = keys
            return known(counter, table, keys, sampler)

        return distinct

    def _with_noise(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def with_noise(counter: Counter, cap: int, exact: Mapping[int, int], *rest: Any) -> Any:
            rows = {self._keys[number]: (n,) for number, n in exact.items() if number >= 0}
            self._note("distinct", -1, (counter, cap), rows)
            return known(counter, cap, exact, *rest)

        return with_noise

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Stand between the release and its mechanisms."""
        inside, counts = release_module, distinct_module
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(inside, "_noisy", self._noisy(inside._noisy))
            patch.setattr(inside, "_shown", self._shown)
            patch.setattr(inside, "_groups", self._groups(inside._groups))
            patch.setattr(inside, "_counted", self._counted(inside._counted))
            patch.setattr(inside, "_distinct", self._distinct(inside._distinct))
            patch.setattr(stages, "selected", self._first_round(inside.selected))
            patch.setattr(inside, "selected", self._selected(inside.selected))
            patch.setattr(stages, "_released", self._stepped(stages._released))
            patch.setattr(stages, "release", self._released(inside.release))
            patch.setattr(inside, "with_noise", self._with_noise(counts.with_noise))
            patch.setattr(counts, "with_noise", self._with_noise(counts.with_noise))
            patch.setattr(counts, "_cap", self._capped(counts._cap))
            patch.setattr(Counted, "dense", self._dense(Counted.dense))
            patch.setattr(popular, "_noisy", self._weighed(popular._noisy))
            patch.setattr(tree, "_noisy", self._in_tree(tree._noisy))
            yield


@contextmanager
def one_hash_key() -> Iterator[None]:
    """Compare neighbours under one key: of the hash, and of a sample's coins, fresh for each release.

    So the same units are in both samples, but for one: what that one changes is held against what is
    proved of it on the sample.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "randbits", lambda bits: 2 ** (bits - 1) - 25)
        patch.setattr(secrets, "token_hex", lambda size: "7f" * size)
        yield


IN_GROUPS = ("choice", "weights")
"""The calls that a release without groups doesn't make."""


def compare(one: Recorder, other: Recorder, told: Callable[[], str]) -> Fraction:
    """Hold the calls of two neighbours against what was proved and what is charged.

    Returned is which part of the charged epsilon their difference would really cost, at most 1.

    Claim:   of private keys that are selected apart, values that don't select are compared well on the
             keys that both neighbours have.
    Why:     the release is compared with the one that never shows a key that one neighbour alone has.
             That one is a function of the scores and values of the common keys, which are compared
             here, in what they move by and in what they cost. The real one differs from it only where an
             own key shows, and what values it has then doesn't matter: that is told already, and its
             probability is delta's part. Whether an own key shows is decided by its score alone; so
             scores are compared on the keys of both, one that isn't there counting as 0. A set of
             groups that is empty for one neighbour has own keys alone, for the other.
    Assumes: thresholds and chances keep own keys back whose scores are as proved (`own_keys`,
             `laplace_threshold`, `chances`, each with its own tests).
    Source:  [Wilson2020]
    """
    steps = one.steps
    empty = {
        step
        for step in one.groups.keys() & other.groups.keys()
        if bool(one.groups[step]) != bool(other.groups[step])
    }
    assert all(steps[step].plan.private for step in empty), told()
    before, after = (
        [c for c in some.calls if not (c.kind in IN_GROUPS and c.where[0] in empty)]
        for some in (one, other)
    )
    kinds = [(c.kind, c.where, c.asked) for c in before]
    assert kinds == [(c.kind, c.where, c.asked) for c in after], told()
    parts = [Fraction(0)]
    for number, step in enumerate(steps):
        pure, square = Fraction(0), Fraction(0)
        for old, new in zip(before, after, strict=True):
            if old.where[0] == number:
                loss, squares = _lost(step, old, new, told)
                pure, square = pure + loss, square + squares
        parts += _held(step, pure, square, told)
    return max(parts)


def _lost(
    step: stages.Step, one: Call, other: Call, told: Callable[[], str]
) -> tuple[Fraction, Fraction]:
    """Return what a call costs on two neighbours: an epsilon, and a square of Gaussian noise's."""
    old, new, place = one.values, other.values, one.where[1]
    if one.kind in IN_GROUPS:
        assert step.plan.private or old.keys() == new.keys(), told()
    selects = one.kind == "coins" or (one.kind == "vector" and place in step.plan.selections)
    apart = step.plan.selection_relation is not None and not selects
    if one.kind in IN_GROUPS or (one.kind == "vector" and apart):
        shared = old.keys() & new.keys()
        old, new = ({key: some[key] for key in shared} for some in (old, new))
    if one.kind in ("choice", "cap"):
        rate = one.asked[-3]
        return rate.value * sum(_furthest(old[key], new[key]) for key in old), Fraction(0)
    count = max((len(v) for v in [*old.values(), *new.values()]), default=0)
    counted = one.kind in ("vector", "coins")
    moved = shifts(old, new, 0, count, step.plan.vectors[place].nothing if counted else 0)
    if counted:
        fact = step.facts.vectors[place]
        ball = isinstance(fact.contribution, Ball)
        check(moved, fact.change, told, ROUND if ball else range(len(COSTS)))
    match one.kind, one.asked:
        case "vector", (VectorNoise(kind=NoiseKind.NONE),):
            assert not any(moved), told()
            return Fraction(0), Fraction(0)
        case "vector", (VectorNoise(kind=NoiseKind.GAUSSIAN, lattice=lattice, scale=sigma),):
            return Fraction(0), Fraction(lattice**2 * sum(m * m for m in moved), sigma**2)
        case "vector", (VectorNoise(lattice=lattice, scale=scale),):
            pass
        case "coins", (rule,):
            return rule.epsilon * sum(moved), Fraction(0)
        case "weights", (_, lattice, scale):
            pass
        case "distinct", (counter, cap):
            lattice, scale = counter.noise(cap)
        case _:
            raise AssertionError(f"nothing is said of {one}")
    return Fraction(lattice * sum(moved), scale), Fraction(0)


def _furthest(gaps: tuple[int, ...], others: tuple[int, ...]) -> int:
    """Return how far a gap moves at most: times the rate that is what the choice costs at least."""
    assert gaps
    return max(abs(a - b) for a, b in zip(gaps, others, strict=True))


def _held(
    step: stages.Step, pure: Fraction, square: Fraction, told: Callable[[], str]
) -> list[Fraction]:
    """Hold what neighbours' calls cost against the step's charge; return the parts of it that they cost.

    On a sample the charge is that of its noise before the sample's chance, since both runs have the
    unit in it; and what Laplace noise alone costs is no less than it is with that chance.
    """
    cost, events, rate = step.measurement.cost, step.measurement.cost.events, step.facts.sample_rate
    if rate is not None and events:
        (event,) = events
        assert isinstance(event, SampledEvent), told()
        assert event.rate == rate, told()
        events = event.noises
        if not any(isinstance(noise, GaussianEvent) for noise in events):
            chance = math.log1p(float(rate) * math.expm1(float(pure)))
            assert chance <= float(cost.epsilon) * (1 + 1e-9), f"costs {chance}\n{told()}"
    charged, squares = _charged(events)
    if rate is None and not squares:
        assert charged <= cost.epsilon, f"events of {float(charged)}\n{told()}"
    assert pure <= charged, f"costs epsilon {float(pure)}, charged {float(charged)}\n{told()}"
    assert square <= squares, f"costs {float(square)}, charged {float(squares)}\n{told()}"
    return [a / b for a, b in ((pure, charged), (square, squares)) if b]


def _charged(events: Sequence[Event]) -> tuple[Fraction, Fraction]:
    """Return the epsilon of the events that have a pure one, and the squares of Gaussian noise."""
    pure, square = Fraction(0), Fraction(0)
    for event in events:
        inner = event.noise if isinstance(event, KeySelectionEvent) else event
        if isinstance(inner, GaussianEvent):
            square += Fraction(inner.l2_squared, inner.sigma**2)
        else:
            pure += pure_epsilon(inner) or Fraction(0)
    return pure, square
