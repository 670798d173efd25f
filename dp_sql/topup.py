"""Releases that were there before with more noise: what is drawn and paid is what they lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from dp_sql.budget.answers import Answer
from dp_sql.dataclass import dataclass
from dp_sql.mechanisms.measurement import Measurement
from dp_sql.mechanisms.release import Released
from dp_sql.mechanisms.stored import from_bytes
from dp_sql.mechanisms.topup import Noises, fits, mean, missing, noises_of
from dp_sql.privacy.amount import show
from dp_sql.privacy.cost import FREE
from dp_sql.stages import Step


@dataclass(frozen=True, slots=True)
class TopUp:
    """An earlier release and what it lacks, of a release that is asked more accurately.

    steps: the release's, with the noise of what is drawn now and its cost. before: one a step.
    seen: whether the analyst was told of the earlier one. noises: of the mean of both. data: of which
    version, in words.
    """

    targets: tuple[Measurement, ...]
    steps: tuple[Step, ...]
    before: tuple[Released, ...]
    seen: bool
    noises: Noises
    data: str

    def __str__(self) -> str:
        """Say what happens and what it costs."""
        cost = sum((step.measurement.cost for step in self.steps), FREE)
        whole = sum((target.cost for target in self.targets), FREE)
        return (
            f"topped up: released before with more noise ({self.data}); one more measurement, of epsilon "
            f"{show(cost.epsilon)} in place of {show(whole.epsilon)}, is drawn and paid, and the answer "
            "is the weighted mean of both"
        )

    def with_earlier(self, fresh: Sequence[Released]) -> list[Released]:
        """Return the mean of the earlier release and of what `steps` gave."""
        parts = zip(self.targets, self.before, fresh, strict=True)
        return [mean(target, before, drawn) for target, before, drawn in parts]


def noises_to_keep(steps: Sequence[Step]) -> Noises | None:
    """Return the noise of a release as it is asked, where it may be topped up; else None."""
    return noises_of([step.plan for step in steps], [step.measurement for step in steps])


def topped_up(steps: Sequence[Step], stored: Iterable[Answer], data: str) -> TopUp | None:
    """Return how a release is made of one of these answers, that with least noise; None if of none.

    stored: of the same release but for its noise. data: of which version, in words.
    """
    best: TopUp | None = None
    for answer in stored:
        with suppress(ValueError):
            found = _of(steps, answer, Noises.from_text(answer.noise), data)
            if found is not None and (best is None or _missing(found) < _missing(best)):
                best = found
    return best


def _of(steps: Sequence[Step], answer: Answer, earlier: Noises, data: str) -> TopUp | None:
    """Return how a release is made of an answer. Raises ValueError where it is damaged."""
    targets = [step.measurement for step in steps]
    before = from_bytes(answer.body, earlier.measurements(targets))
    if not all(fits(step.plan, one) for step, one in zip(steps, before, strict=True)):
        return None
    lacking = missing([(step.plan, step.facts) for step in steps], targets, earlier)
    asked = noises_of([step.plan for step in steps], targets, earlier.draws + 1)
    if lacking is None or asked is None:
        return None
    drawn = tuple(replace(s, measurement=m) for s, m in zip(steps, lacking, strict=True))
    return TopUp(tuple(targets), drawn, tuple(before), answer.seen, asked, data)


def _missing(found: TopUp) -> float:
    return float(sum(step.measurement.cost.epsilon for step in found.steps))


def with_steps(steps: Sequence[Step], topped: Mapping[str, TopUp]) -> list[Step]:
    """Return a statement's steps, those of the releases that are topped up as they are drawn."""
    others = [step for step in steps if step.plan.release.name not in topped]
    return [*others, *chain.from_iterable(one.steps for one in topped.values())]
