"""Events: what a release did, in words that don't age. A ledger stores them; accountants price them.

An event knows its pure epsilon (`pure_epsilon`), its selection delta (`selection_delta`) and its
Rényi curve (`privacy.renyi.rdp`).
"""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from dp_sql.dataclass import dataclass
from dp_sql.privacy.contribution import Change
from dp_sql.privacy.sampling import epsilon_after


@dataclass(frozen=True, slots=True)
class LaplaceEvent:
    """Independent discrete Laplace noise of one integer `scale` on every coordinate of a vector.

    `change` is in the same lattice units as the scale.
    """

    scale: int
    change: Change

    def __post_init__(self) -> None:
        if type(self.scale) is not int or self.scale < 1:
            raise ValueError("the scale of Laplace noise must be an integer of at least 1")


@dataclass(frozen=True, slots=True)
class GaussianEvent:
    """Independent discrete Gaussian noise of one integer `sigma` on every coordinate of a vector.

    `l2_squared`: square of the largest L2 change, in the same lattice units as sigma.
    """

    sigma: int
    l2_squared: int

    def __post_init__(self) -> None:
        if type(self.sigma) is not int or self.sigma < 1:
            raise ValueError("the sigma of Gaussian noise must be an integer of at least 1")
        if type(self.l2_squared) is not int or self.l2_squared < 0:
            raise ValueError("a squared L2 distance must be an integer of at least 0")


@dataclass(frozen=True, slots=True)
class PureEvent:
    """A mechanism of which no more is said than that it is `epsilon`-DP."""

    epsilon: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, Fraction) or self.epsilon < 0:
            raise ValueError("a pure epsilon must be a fraction of at least 0")


@dataclass(frozen=True, slots=True)
class KeySelectionEvent:
    """Keys that appear only when enough units have them.

    `noise` is what was added to the counts of units before they were held against a threshold, and
    `delta` bounds the probability that a neighbour's own keys appear, for the schema's adjacency and
    group size. A `PureEvent` stands for a rule of which no more is said than that it is
    (epsilon, delta)-DP.

    Claim:   with probability 1 - delta nothing more is told of the neighbours than `noise` tells: an
             accountant may sum delta apart and price `noise` alone.
    Why:     thresholds: where no own key appears, all is a function of the noisy counts of common
             keys. A rule that is (epsilon, delta)-DP is, on each pair of neighbours, a function of a
             pair of laws that tells the neighbour with probability delta and is randomised response
             of epsilon elsewhere, which is what a PureEvent is priced as.
    Assumes: own keys show with a probability of at most delta, all of them together; noise and coins of
             different keys are independent.
    Source:  [Wilson2020], [Kairouz2015] theorem 3.4 for the pair of laws
    """

    noise: LaplaceEvent | GaussianEvent | PureEvent
    delta: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.delta, Fraction) or not 0 <= self.delta < 1:
            raise ValueError("the delta of key selection must be a fraction in [0, 1)")


@dataclass(frozen=True, slots=True)
class ApproximateEvent:
    """A mechanism of which no more is said than that it is (`epsilon`, `delta`)-DP.

    Claim:   on two neighbours its laws are P = (1 - delta) P' + delta P'' and Q alike, where P' and Q'
             are `epsilon`-close; so accountants may treat `delta` as they treat that of key selection.
    Why:     whatever is (epsilon, delta)-DP on two inputs is a function of randomised response with
             that epsilon which tells its input with probability delta.
    Assumes: nothing more.
    Source:  [Kairouz2015]
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, Fraction) or self.epsilon < 0:
            raise ValueError("an epsilon must be a fraction of at least 0")
        if not isinstance(self.delta, Fraction) or not 0 <= self.delta < 1:
            raise ValueError("a delta must be a fraction in [0, 1)")


@dataclass(frozen=True, slots=True)
class SampledEvent:
    """Noise on vectors that all read one Poisson sample of the units, of this `rate`.

    Neighbours differ by one unit that is there or not. A mechanism on a sample that isn't said here is
    a `PureEvent` of what it costs in all.
    """

    rate: Fraction
    noises: tuple[GaussianEvent | LaplaceEvent, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.rate, Fraction) or not 0 < self.rate < 1 or not self.noises:
            raise ValueError("a sample has a rate between 0 and 1 and some noise")


Event = (
    LaplaceEvent | GaussianEvent | KeySelectionEvent | PureEvent | ApproximateEvent | SampledEvent
)


def pure_epsilon(event: Event) -> Fraction | None:
    """Return the exact pure epsilon of the event's noise, or None where no finite one exists.

    Of an event with a `selection_delta` it is that of the rest.

    A vector that moves by L1 distance d under discrete Laplace noise of scale t is d/t-DP, and several
    are so by the sum; on a sample that is amplified (`sampling.epsilon_after`).
    Source: [Ghosh2009].
    """
    match event:
        case LaplaceEvent(scale=scale, change=change):
            return Fraction(change.l1, scale)
        case GaussianEvent(l2_squared=l2_squared):
            return Fraction(0) if l2_squared == 0 else None
        case SampledEvent(rate=rate, noises=noises):
            losses = [loss for noise in noises if (loss := pure_epsilon(noise)) is not None]
            return (
                epsilon_after(sum(losses, Fraction(0)), rate)
                if len(losses) == len(noises)
                else None
            )
        case KeySelectionEvent(noise=noise):
            return pure_epsilon(noise)
        case PureEvent(epsilon=epsilon) | ApproximateEvent(epsilon=epsilon):
            return epsilon
        case _:
            assert_never(event)


def selection_delta(event: Event) -> Fraction:
    """Return the delta that key selection or a choice spends; zero for plain noise."""
    if isinstance(event, KeySelectionEvent | ApproximateEvent):
        return event.delta
    return Fraction(0)
