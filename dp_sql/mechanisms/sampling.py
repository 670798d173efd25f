"""What a release over a Poisson sample may spend on it, and what it costs in all."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dp_sql.errors import InternalError, ParameterError
from dp_sql.mechanisms.measurement import Measurement
from dp_sql.privacy.cost import FREE, Cost
from dp_sql.privacy.event import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SampledEvent,
    pure_epsilon,
)
from dp_sql.privacy.sampling import epsilon_before


def on_sample(epsilon: Fraction, delta: Fraction, rate: Fraction) -> tuple[Fraction, Fraction]:
    """Return the (epsilon, delta) that a mechanism may have on a sample, for these in all.

    Raises ParameterError for a delta that would be 1 or more there.
    """
    if delta >= rate:
        raise ParameterError(
            "delta is too large for this sample_rate.", hint="a delta far below sample_rate"
        )
    return epsilon_before(epsilon, rate), delta / rate


def in_all(measurement: Measurement, epsilon: Fraction, rate: Fraction) -> Measurement:
    """Return the measurement with the cost that it has for all data, where it reads a sample.

    epsilon: what `on_sample` was asked for.

    Claim:   the whole is (epsilon, rate * delta)-DP for all data, delta being that on the sample, and
             its event says no less than what it loses.
    Why:     `on_sample` and the measurement's own cost. Where all events are Laplace or Gaussian noise,
             they are one mechanism on one sample, with its Rényi curve. Other pure ones add up to what
             the mechanism has on the sample, so it is `epsilon`-DP in all.
    Assumes: the measurement spends no more than `on_sample` says; the facts have this rate.
    Source:  [BalleBartheGaboardi2018], [MironovTalwarZhang2019]
    """
    cost = measurement.cost
    if cost == FREE:
        return measurement
    if cost.epsilon > epsilon_before(epsilon, rate):
        raise InternalError("a mechanism spends more on a sample than it may")
    noises = tuple(e for e in cost.events if isinstance(e, GaussianEvent | LaplaceEvent))
    events: tuple[Event, ...]
    if len(noises) == len(cost.events):
        events = (SampledEvent(rate, noises),)
    elif cost.delta == 0 and None not in map(pure_epsilon, cost.events):
        events = (PureEvent(epsilon),)
    else:
        raise InternalError("noise of several kinds on one sample")
    return replace(measurement, cost=Cost(epsilon, rate * cost.delta, events))
