"""How far a sum of independent noises may lie from 0: its law, and the width that holds a share of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError
from dp_sql.mechanisms.measurement import Measurement
from dp_sql.mechanisms.noise import NoiseKind
from dp_sql.mechanisms.normal import log_upper_tail, upper_quantile
from dp_sql.mechanisms.readout import LinearForm, linear_form
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.relation import MomentMeasure
from dp_sql.plan.release import (
    BlockReadout,
    CountReadout,
    DistinctReadout,
    LinearReadout,
    PlannedRelease,
    SumReadout,
)
from dp_sql.schema.sqltype import BIGINT

_FAR = 60.0  # largest scales, and 40 deviations: beyond it lies less than 1e-12 of a sum
_WIDE = 40.0
_NEGLIGIBLE = (
    1e-10  # the last term of the series; those left out, of changing signs, add up to little
)
_MOST_TERMS = 2**18
_HALVINGS = 36
_LESS_THAN_HALF = Fraction(1, 2) - Fraction(1, 2**80)  # a sum on a lattice never lies between


@dataclass(frozen=True, slots=True)
class Spread:
    """A sum of independent noises, symmetric around 0.

    laplace: weight above 0 and scale of each discrete Laplace number. deviation: of the sum of all
    Gaussian ones, whose steps are too fine to matter.
    """

    laplace: tuple[tuple[Fraction, int], ...] = ()
    deviation: float = 0.0

    def within(self, width: Fraction) -> float:
        """Return the probability that the sum lies in [-width, width]; width: at least 0.

        Exact for one Laplace number and for Gaussian ones alone; else to within 1e-3 of what lies
        outside, since the steps of several lattices count as none. Source: [Ghosh2009].
        """
        if not self.laplace and self.deviation == 0:
            return 1.0
        if not self.laplace:
            return 1 - 2 * math.exp(log_upper_tail(float(width) / self.deviation))
        if len(self.laplace) == 1 and self.deviation == 0:
            ((weight, scale),) = self.laplace
            steps = math.floor(width / weight)
            return 1 - 2 * math.exp(-(steps + 1) / scale) / (1 + math.exp(-1 / scale))
        return self._inside(float(width))

    def half_width(self, level: float) -> float:
        """Return the least width that holds the sum with probability `level`, between 0 and 1."""
        if not self.laplace:
            return self.deviation * upper_quantile(math.log((1 - level) / 2))
        if len(self.laplace) == 1 and self.deviation == 0:
            ((weight, scale),) = self.laplace
            tail = (1 - level) * (1 + math.exp(-1 / scale))
            return float(weight * max(0, math.ceil(scale * math.log(2 / tail)) - 1))
        low, high = 0.0, self.standard_deviation
        while self._inside(high) < level:
            low, high = high, 2 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._inside(middle) >= level else (middle, high)
        return high

    @property
    def standard_deviation(self) -> float:
        """The root of the sum's variance, to within that of a discrete number's steps."""
        return math.sqrt(sum(2 * b * b for b in self._scales()) + self.deviation**2)

    def _scales(self) -> list[float]:
        return [float(weight * scale) for weight, scale in self.laplace]

    def _inside(self, width: float) -> float:
        """Return the probability by the Fourier series of the density, repeated with a long period.

        What the repetition adds is the probability beyond (period - width), below 1e-12.
        """
        scales = np.array(self._scales())
        far = _FAR * float(scales.max()) + _WIDE * self.standard_deviation
        if width >= far:
            return 1.0
        period = width + far
        step = 2 * math.pi / period
        count = 256
        while True:
            place = np.arange(1, count + 1)
            squares = (place * step) ** 2
            law = np.exp(-squares * self.deviation**2 / 2)
            for scale in scales:
                law /= 1 + squares * scale**2
            if law[-1] / count < _NEGLIGIBLE or count >= _MOST_TERMS:
                break
            count *= 2
        series = np.sum(np.sin(place * step * width) / place * law)
        return 2 * width / period + 2 / math.pi * float(series)


def spread_of(
    plan: PlannedRelease, measurement: Measurement, weights: Mapping[int, Fraction]
) -> Spread:
    """Return the noise of a weighted sum of counts and sums of one release.

    weights: by the place of the aggregate. Aggregates that read the same numbers share their noise.
    Raises InternalError for an aggregate whose noise isn't public (`has_public_noise`).
    """
    parts: dict[tuple[int, int], Fraction] = {}
    laplace: list[tuple[Fraction, int]] = []
    for aggregate, factor in weights.items():
        readout = plan.readouts[aggregate]
        match readout:
            case DistinctReadout(distinct=place):
                counter = measurement.counters[place]
                if len(counter.caps) > 1:
                    raise InternalError("the noise of this count is chosen by the data")
                lattice, scale = counter.noise(counter.caps[0] if counter.caps else 1)
                laplace.append((abs(factor) / lattice, scale))
            case CountReadout() | SumReadout() | BlockReadout():
                form = linear_form(plan, measurement, readout)
                for i, weight in enumerate(form.weights):
                    key = readout.vector, i
                    more = factor * Fraction(weight, form.denominator)
                    parts[key] = parts.get(key, Fraction(0)) + more
            case _:
                raise InternalError("the error of this aggregate depends on the data")
    variance = 0.0
    for (vector, _), total in parts.items():
        noise = measurement.noises[vector]
        if total and noise.kind is NoiseKind.LAPLACE:
            laplace.append((abs(total), noise.scale))
        elif total and noise.kind is NoiseKind.GAUSSIAN:
            variance += (float(total) * noise.scale) ** 2
    return Spread(tuple(item for item in laplace if item[0]), math.sqrt(variance))


def has_public_noise(plan: PlannedRelease, measurement: Measurement, aggregate: int) -> bool:
    """Return whether an aggregate's noise is known without the data: of counts, sums, means of blocks."""
    readout = plan.readouts[aggregate]
    if isinstance(readout, DistinctReadout):
        return len(measurement.counters[readout.distinct].caps) <= 1
    return isinstance(readout, LinearReadout)


def shown_within(
    plan: PlannedRelease,
    measurement: Measurement,
    weights: Mapping[int, Fraction],
    width: Fraction,
) -> float:
    """Return how often a weighted sum of counts and sums is within `width` of its value without noise.

    A multiple of one whole number is looked at as it is shown, rounded; of all else the noise alone
    counts, and rounding to whole numbers may add half of one.
    """
    spread = spread_of(plan, measurement, weights)
    if len(weights) == 1:
        ((aggregate, factor),) = weights.items()
        if factor and _is_whole(plan, aggregate):
            steps = math.floor(width / abs(factor))
            return spread.within((steps + _LESS_THAN_HALF) * abs(factor))
    return spread.within(width)


def shown_half_width(plan: PlannedRelease, measurement: Measurement, aggregate: int) -> float:
    """Return the least width that a count or sum keeps in 95 % of runs, as `shown_within` looks at it."""
    width = spread_of(plan, measurement, {aggregate: Fraction(1)}).half_width(0.95)
    if not _is_whole(plan, aggregate):
        return width
    return max(0, math.ceil(Fraction(width) - _LESS_THAN_HALF))


def form_spread(form: LinearForm, kind: NoiseKind, scale: int) -> Spread:
    """Return the noise of a form's total, before the division, where all numbers have the same noise."""
    weights = [abs(weight) for weight in form.weights if weight]
    if kind is NoiseKind.LAPLACE:
        return Spread(tuple((Fraction(weight), scale) for weight in weights))
    return Spread(deviation=scale * math.sqrt(sum(weight * weight for weight in weights)))


def _is_whole(plan: PlannedRelease, aggregate: int) -> bool:
    """Return whether an aggregate is a whole number without noise, and shown as one."""
    readout = plan.readouts[aggregate]
    if isinstance(readout, DistinctReadout):
        return True
    if not isinstance(readout, CountReadout | SumReadout):
        return False
    measure = plan.vectors[readout.vector].measure
    whole = plan.release.aggregates[aggregate].type == BIGINT
    return whole and not isinstance(measure, MomentMeasure | PairMeasure)
