"""Statements that are declared together: how they share one epsilon so that their errors add up to least."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError, ParameterError
from dp_sql.mechanisms.noise import NoiseKind
from dp_sql.privacy.amount import Amount, exact, parse_delta, parse_epsilon
from dp_sql.stages import Prepared, Step

_SAMPLE = "sample_rate"  # how a statement asks for a sample by itself
_UNIT = 10**12  # of epsilon: what a ledger keeps
_DELTA_UNIT = 10**24


@dataclass(frozen=True, slots=True)
class Spending:
    """What one statement of a batch may spend.

    delta: None where the call says none. gaussian: whether its noise is Gaussian wherever it may be.
    """

    epsilon: Fraction
    delta: Fraction | None
    gaussian: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """What a call asks: amounts of all statements together, and how much each one's error counts."""

    queries: tuple[str, ...]
    epsilon: Fraction
    delta: Fraction | None
    weights: tuple[Fraction, ...]

    def distinct(self) -> Batch:
        """Return the batch with each text once; the weights of equal ones are added up.

        A text that may read a sample of the units keeps its place: each such statement has its own.
        """
        if any(_SAMPLE in query.lower() for query in self.queries):
            return self
        weights: dict[str, Fraction] = {}
        for query, weight in zip(self.queries, self.weights, strict=True):
            weights[query] = weights.get(query, Fraction(0)) + weight
        return replace(self, queries=tuple(weights), weights=tuple(weights.values()))

    def even(self) -> tuple[Spending, ...]:
        """Return equal parts: what the statements are prepared with first."""
        count = len(self.queries)
        epsilon, delta = _down(self.epsilon / count, _UNIT), None
        if self.delta is not None:
            delta = _down(self.delta / count, _DELTA_UNIT)
        return tuple(Spending(epsilon, delta) for _ in range(count))

    def split(self, prepared: Sequence[Prepared]) -> tuple[Spending, ...]:
        """Return what each statement may spend. prepared: the statements with `even` parts.

        The error of a statement is the sum of the variances of its noise, each in squares of the most
        that one unit adds to a number. It is v / epsilon^2; the weighted sum of all is least, for
        epsilons that add up to one, where each is in proportion to (weight v)^(1/3): a Lagrangian's
        derivative -2 weight v / epsilon^3 is the same for all. Statements that spend no delta get none.

        Claim:   the epsilons add up to at most that of the batch, and so do the deltas.
        Why:     each is a share, rounded down, and the shares add up to 1; a statement that costs
                 nothing has no share, and `check` holds it to that. All of it is public: the parts
                 come from plans and noise, made without protected rows.
        Assumes: each statement spends at most its part; `check` compares what they do spend.
        Source:  [Dwork2006b]
        """
        needs = [
            math.cbrt(float(weight) * error_of(one)) if one.costs else 0.0
            for weight, one in zip(self.weights, prepared, strict=True)
        ]
        total = sum(map(Fraction, needs))
        spenders = sum(_spends_delta(one) for one in prepared)
        found = []
        for need, one, even in zip(needs, prepared, self.even(), strict=True):
            epsilon = even.epsilon
            if one.costs:
                epsilon = _down(self.epsilon * Fraction(need) / total, _UNIT)
                if epsilon <= 0:
                    raise ParameterError(
                        "a statement of this batch would get less than 1e-12 of epsilon.",
                        hint="weights nearer to each other, or a larger epsilon",
                    )
            delta = self.delta
            if delta is not None and _spends_delta(one):
                delta = _down(delta / spenders, _DELTA_UNIT)
            elif delta is not None:  # with the even epsilon it is prepared, and spent none
                delta = even.delta if epsilon == even.epsilon else Fraction(0)
            found.append(Spending(epsilon, delta))
        return tuple(found)

    def check(self, prepared: Sequence[Prepared]) -> None:
        """Raise InternalError where the statements together cost a table more than the batch may."""
        for table in {table for one in prepared for table in one.costs}:
            costs = [one.costs[table] for one in prepared if table in one.costs]
            over = sum(cost.epsilon for cost in costs) > self.epsilon
            if over or (self.delta is not None and sum(cost.delta for cost in costs) > self.delta):
                raise InternalError("a batch costs more than it was asked for")


def read_batch(
    queries: Sequence[str],
    epsilon: Amount,
    delta: Amount | None,
    weights: Sequence[Amount] | None,
) -> Batch:
    """Return what a call asks. Raises ParameterError for amounts out of range and for no statement."""
    if isinstance(queries, str) or not queries:
        raise ParameterError(
            "a batch is a list of statements, at least one.",
            hint='con.batch(["SELECT …"], epsilon=1)',
        )
    given = [1] * len(queries) if weights is None else list(weights)
    if len(given) != len(queries):
        raise ParameterError(
            f"{len(queries)} statements have {len(given)} weights.", hint="one weight a statement"
        )
    read = tuple(exact(weight, name="a weight") for weight in given)
    if any(not Fraction(1, 10**9) <= weight <= 10**9 for weight in read):
        raise ParameterError("a weight lies between 1e-9 and 1e9.", hint="weights=[1, 4]")
    asked = parse_epsilon(epsilon)
    return Batch(tuple(queries), asked, None if delta is None else parse_delta(delta), read)


def error_of(prepared: Prepared) -> float:
    """Return the sum of the variances of a statement's noise, in squares of what one unit adds."""
    return sum(2 * size**2 for step in prepared.steps for size in _sizes(step))


def _sizes(step: Step) -> Iterator[float]:
    """Yield the scale of each noise, over the most that one unit adds to a number under it.

    Noise on scores counts as that of a count at the same epsilon; a Gaussian's sigma counts as a
    Laplace scale of the same variance.
    """
    for noise, fact in zip(step.measurement.noises, step.facts.vectors, strict=True):
        if noise.kind is not NoiseKind.NONE:
            one = max(shift for profile in fact.change.profiles for shift, n in profile if n)
            size = float(Fraction(noise.scale, noise.lattice * one))
            yield size if noise.kind is NoiseKind.LAPLACE else size / math.sqrt(2)
    for histogram, chooser in zip(step.plan.histograms, step.measurement.choosers, strict=True):
        yield from [float(chooser.facts.full / chooser.epsilon)] * len(histogram.choices)
    for counter in step.measurement.counters:
        yield float(counter.chooser.facts.full / counter.chooser.epsilon)


def _spends_delta(prepared: Prepared) -> bool:
    return any(cost.delta for cost in prepared.costs.values())


def _down(amount: Fraction, units: int) -> Fraction:
    return Fraction(math.floor(amount * units), units)
