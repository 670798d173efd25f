"""Records what mechanisms are given: the true values, how they may change, and the noise they get.

It stands between the release and the samplers by replacing private names of modules while a test runs:
nothing that a caller can reach leads to it. A statement is run on two data sets of which the second gets
the first one's noisy answers, so that whatever depends on answers is the same in both.
"""

from __future__ import annotations

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
from dp_sql.mechanisms import release as release_module
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

    kind: vector, coins, distinct, or choice. where: the number of the step, and of its vector or -1.
    asked: everything the mechanism is told beside the data; it has to be the same on neighbours.
    values: the true values by group; of a choice the gap of each candidate, by row.
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

    # the sampler: no noise, and the first candidate

    def laplace(self, scale: int, size: int) -> Integers:
        assert scale >= 1
        return np.zeros(size, dtype=np.int64)

    def gaussian(self, sigma: int, size: int) -> Integers:
        assert sigma >= 1
        return np.zeros(size, dtype=np.int64)

    def choose(self, gaps: Integers, rate: Rate, *, exponential: bool = False) -> Integers:
        groups = self._keys if len(self._keys) == len(gaps) else [(i,) for i in range(len(gaps))]
        capped = rate.capped(np.asarray(gaps))
        rows = {key: tuple(map(int, row)) for key, row in zip(groups, capped, strict=True)}
        self._note("choice", -1, (rate, exponential, gaps.shape[1]), rows)
        return np.zeros(len(gaps), dtype=np.int64)

    # what the release does

    def _note(self, kind: str, place: int, asked: tuple[Any, ...], values: Values) -> None:
        self.calls.append(Call(kind, (len(self.steps) - 1, place), asked, values))

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
            return self._keys

        return groups

    def _stepped(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def released(step: stages.Step, *rest: Any) -> Any:
            self.steps.append(step)
            return known(step, *rest)

        return released

    def _released(self, known: Callable[..., Any]) -> Callable[..., Any]:
        def release(plan: PlannedRelease, measurement: Measurement, *rest: Any, **more: Any) -> Any:
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
            return known(table, keys)

        return counted

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
            yield


def compare(
    steps: Sequence[stages.Step],
    before: Sequence[Call],
    after: Sequence[Call],
    told: Callable[[], str],
) -> Fraction:
    """Hold the calls of two neighbours against what was proved and what is charged.

    Returned is which part of the charged epsilon their difference would really cost, at most 1.
    """
    chosen = [[(c.where, c.asked) for c in some if c.kind == "choice"] for some in (before, after)]
    if chosen[0] != chosen[1]:
        # a set of groups is empty for one neighbour, and the other's key shows here whatever its noise is
        fewer, more = sorted(chosen, key=len)
        rest = iter(more)
        assert len(fewer) < len(more), told()
        assert all(one in rest for one in fewer), told()
        assert any(step.plan.private for step in steps), told()
        before, after = ([c for c in some if c.kind != "choice"] for some in (before, after))
    kinds = [(c.kind, c.where, c.asked) for c in before]
    assert kinds == [(c.kind, c.where, c.asked) for c in after], told()
    pure, square = Fraction(0), Fraction(0)
    for one, other in zip(before, after, strict=True):
        if one.kind == "choice":
            pure += _choice(one, other)
            continue
        count = max((len(v) for v in [*one.values.values(), *other.values.values()]), default=0)
        step, place = steps[one.where[0]], one.where[1]
        absent = step.plan.vectors[place].nothing if place >= 0 else 0
        old, new = one.values, other.values
        apart = place >= 0 and step.plan.selection_relation is not None
        if (
            apart and place not in step.plan.selections
        ):  # that a key shows on one side is delta's part
            shared = old.keys() & new.keys()
            old, new = ({key: some[key] for key in shared} for some in (old, new))
        moved = shifts(old, new, 0, count, absent)
        if place >= 0:
            fact = step.facts.vectors[place]
            ball = isinstance(fact.contribution, Ball)
            check(moved, fact.change, told, ROUND if ball else range(len(COSTS)))
        if one.kind == "vector":
            (noise,) = one.asked
            if noise.kind is NoiseKind.NONE:
                assert not any(moved), told()
            elif noise.kind is NoiseKind.LAPLACE:
                pure += Fraction(noise.lattice * sum(moved), noise.scale)
            else:
                square += Fraction(noise.lattice**2 * sum(m * m for m in moved), noise.scale**2)
        elif one.kind == "distinct":
            counter, cap = one.asked
            lattice, scale = counter.noise(cap)
            pure += Fraction(lattice * sum(moved), scale)
    events = [event for step in steps for event in step.measurement.cost.events]
    if any(isinstance(event, SampledEvent) for event in events):
        return Fraction(0)  # what is charged is of the sample's chance, too
    charged, squares = _charged(events)
    assert pure <= charged, f"costs epsilon {float(pure)}, charged {float(charged)}\n{told()}"
    assert square <= squares, f"costs {float(square)}, charged {float(squares)}\n{told()}"
    parts = [a / b for a, b in ((pure, charged), (square, squares)) if b]
    return max(parts, default=Fraction(0))


def _choice(one: Call, other: Call) -> Fraction:
    """Return what two neighbours' choices cost at most: the rate times how far gaps move, by group."""
    rate, _, width = one.asked
    worst = 0
    for row in one.values.keys() & other.values.keys():
        gaps = zip(one.values[row], other.values[row], strict=True)
        worst += max(abs(a - b) for a, b in gaps)
    assert width > 0
    return Fraction(worst) * rate.value


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
