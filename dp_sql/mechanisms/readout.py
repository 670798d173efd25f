"""From released values to the aggregates that were asked for: post-processing, division last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError
from dp_sql.mechanisms.local import NOTHING
from dp_sql.mechanisms.measurement import Measurement
from dp_sql.mechanisms.noise import NoiseKind
from dp_sql.mechanisms.pairs import pair_moments, pair_value
from dp_sql.mechanisms.release import AnyIntegers, Released, peak
from dp_sql.mechanisms.sampler import Integers
from dp_sql.plan.block import BlockMeasure
from dp_sql.plan.histogram import Bin, Histogram
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.relation import (
    CountMeasure,
    Measure,
    MomentMeasure,
    PresenceMeasure,
    SumMeasure,
)
from dp_sql.plan.release import (
    BlockReadout,
    ChoiceReadout,
    CountReadout,
    DistinctReadout,
    LinearReadout,
    MeanReadout,
    PairReadout,
    PlannedRelease,
    SumReadout,
    VarianceReadout,
    VectorReadout,
)
from dp_sql.plan.vector import NormMeasure
from dp_sql.schema.sqltype import BIGINT, Kind, SqlType

Floats: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = NDArray[Any]
"""A result column, one entry a group: int64 for BIGINT, float64 for DOUBLE; objects where one is None."""

_LARGEST = 2**63 - 1
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  DuckDB's TIMESTAMP has no zone
_DAY = 86_400_000_000  # microseconds
_FIRST, _LAST = -719_162 * _DAY, 2_932_896 * _DAY - 1 + _DAY  # the years 1 to 9999
_SAFE = 2**62  # int64 sums and products up to here are computed in int64


def read(plan: PlannedRelease, released: Released) -> list[Numbers]:
    """Return one column an aggregate of the plan: int64 for BIGINT, float64 for DOUBLE, else objects.

    Counts and sums are exact in the released values, BIGINT ones rounded to the nearest integer,
    halves to even, and cut off at the ends of BIGINT. Means lie in the declared range, population
    variances in [0, range^2 / 4]. A sample variance is the population's times n / (n - 1) for the
    noisy n, and the population's where n is below 2. Over a noisy weight of less than half a row a
    mean is the number of its range nearest to 0, and a variance is 0. For aggregates of two arguments
    see `pairs.pair_value`.

    The result depends on released values alone. Raises InternalError for a vector that wasn't
    released.
    """
    columns: list[Numbers] = []
    for aggregate, readout in zip(plan.release.aggregates, plan.readouts, strict=True):
        if isinstance(readout, DistinctReadout):
            counted = released.distinct[readout.distinct]
            columns.append(nearest(counted.values, counted.lattice))
            continue
        if isinstance(readout, ChoiceReadout):
            columns.append(_ranked(plan, released, readout, aggregate.type))
            continue
        components = components_of(released, readout)
        match readout:
            case CountReadout() | SumReadout() | BlockReadout():
                form = linear_form(plan, released.measurement, readout)
                columns.append(form.value(components, aggregate.type))
            case MeanReadout() | VarianceReadout():
                columns.append(_spread(plan, released, readout, components))
            case PairReadout():
                columns.append(_pair(plan, released, readout, components))
            case _:
                assert_never(readout)
    return columns


@dataclass(frozen=True, slots=True)
class LinearForm:
    """A linear read-out: sum of weights[i] * component i, over `denominator`."""

    weights: tuple[int, ...]
    denominator: int

    def total(self, components: list[AnyIntegers]) -> AnyIntegers:
        """Return the weighted sum before the division, without overflow."""
        pairs = [(w, c) for w, c in zip(self.weights, components, strict=True) if w]
        if not pairs:
            return components[0] * 0
        reach = sum(abs(w) * peak(c) for w, c in pairs)
        big = reach > _SAFE or any(abs(w) > _SAFE for w, _ in pairs)
        terms = [(c.astype(object) if big else c) * w for w, c in pairs]
        total: AnyIntegers = sum(terms[1:], start=terms[0])
        return total

    def value(self, components: list[AnyIntegers], type_: SqlType) -> Numbers:
        """Return the read-out: rounded to integers for BIGINT, else as floats."""
        total = self.total(components)
        if type_ == BIGINT:
            return nearest(total, self.denominator)
        return ratio(total, self.denominator)


def linear_form(
    plan: PlannedRelease, measurement: Measurement, readout: LinearReadout
) -> LinearForm:
    """Return how a count, a sum or a mean of blocks is read from its vector's released components.

    Claim:   the sum of x over rows is sum_j (low + (high - low) j/n) * B_j, B_j being the summed
             Bernstein polynomials of degree n at x's place t in [low, high].
    Why:     sum_j B_j(t) = 1 and sum_j (j/n) B_j(t) = t.
    Assumes: nothing that privacy rests on.
    Source:  [Bernstein1912]
    """
    vector = plan.vectors[readout.vector]
    coefficients = _coefficients(vector.measure, readout)
    common = math.lcm(*(c.denominator for c in coefficients))
    unit = vector.unit * measurement.noises[readout.vector].lattice
    return LinearForm(tuple(int(c * common) for c in coefficients), common * unit)


def components_of(released: Released, readout: VectorReadout) -> list[AnyIntegers]:
    """Return the released components of the read-out's vector, or raise InternalError."""
    components = released.vectors[readout.vector]
    if not components:
        raise InternalError("an aggregate reads a vector that was not released")
    return components


def mean_of(measure: MomentMeasure, place: Floats) -> Floats:
    """Return the mean in [low, high] from the mean place, NaN where nobody seems to be there.

    Then it is the number of the range that is nearest to 0, as for a sum over nothing.
    """
    low, high = float(measure.low), float(measure.high)
    means = np.where(np.isnan(place), 0.0, low + (high - low) * place)
    return np.clip(means, low, high)


def variance_of(
    measure: MomentMeasure, readout: VarianceReadout, spread: Floats, rows: Floats
) -> Floats:
    """Return the variance of the argument, or its root.

    spread: variance of the places, (B0 B2 - B1^2 / 4) / (B0 + B1 + B2)^2; NaN where nobody seems to
    be there, which gives 0. rows: the noisy number of rows.
    """
    inside = np.where(np.isnan(spread), 0.0, np.clip(spread, 0.0, 0.25))
    if readout.sample:
        inside = inside * np.divide(rows, rows - 1, out=np.ones(rows.shape), where=rows >= 2)
    if readout.summed:
        inside = inside * np.where(np.isnan(spread), 0.0, rows)
    variance: Floats = inside * float(measure.high - measure.low) ** 2
    return np.sqrt(variance) if readout.root else variance


def of_one_point(
    measure: MomentMeasure, readout: MeanReadout | VarianceReadout, shape: tuple[int, ...]
) -> Floats:
    """Return the mean or variance of values that all are one public point: free of noise."""
    return np.full(shape, float(measure.low) if isinstance(readout, MeanReadout) else 0.0)


def moment_measure(plan: PlannedRelease, readout: MeanReadout | VarianceReadout) -> MomentMeasure:
    """Return the measure of the read-out's vector; raise InternalError where it has no moments."""
    measure = plan.vectors[readout.vector].measure
    if not isinstance(measure, MomentMeasure) or (
        isinstance(readout, VarianceReadout) and measure.degree == 1
    ):
        raise InternalError("a mean or variance needs the moments of its argument")
    return measure


def pair_measure(plan: PlannedRelease, readout: PairReadout) -> PairMeasure:
    """Return the measure of the read-out's vector; raise InternalError where it is of one argument."""
    measure = plan.vectors[readout.vector].measure
    if not isinstance(measure, PairMeasure):
        raise InternalError("an aggregate of two arguments needs the moments of both")
    return measure


def component_error(plan: PlannedRelease, measurement: Measurement, vector: int) -> float:
    """Return the standard deviation of the noise of one component of a moment vector, in rows."""
    noise = measurement.noises[vector]
    factor = math.sqrt(2) if noise.kind is NoiseKind.LAPLACE else 1.0
    return factor * noise.scale / (plan.vectors[vector].unit * noise.lattice)


def ratio(numerators: AnyIntegers, denominator: int) -> Floats:
    """Return the quotients as floats, to within two roundings."""
    if numerators.dtype == object or denominator > _SAFE:
        return np.array([int(n) / denominator for n in numerators], dtype=np.float64)
    quotients: Floats = numerators / np.float64(denominator)
    return quotients


def nearest(numerators: AnyIntegers, denominator: int) -> NDArray[np.int64]:
    """Return the nearest integers to the quotients, halves to even, cut off at BIGINT's ends."""
    if numerators.dtype == object or denominator > _SAFE:
        rounded = [_cut(round(Fraction(int(n), denominator))) for n in numerators]
        return np.array(rounded, dtype=np.int64)
    quotient, rest = np.divmod(numerators, denominator)
    twice = 2 * rest - denominator  # below 2^62 in size
    return np.asarray(quotient + ((twice > 0) | ((twice == 0) & (quotient % 2 == 1))))


def _cut(value: int) -> int:
    """Return the value, or the end of BIGINT that it lies beyond."""
    return max(-_LARGEST - 1, min(_LARGEST, value))


def _coefficients(measure: Measure | BlockMeasure, readout: LinearReadout) -> tuple[Fraction, ...]:
    """Return what one unit of each component adds to the read-out."""
    match measure, readout:
        case ((CountMeasure() | PresenceMeasure()), CountReadout()):
            return (Fraction(1),)
        case PairMeasure(products=products), CountReadout(with_null=with_null):
            null = (Fraction(int(with_null)),) if measure.null_component else ()
            return (*(Fraction(1) for _ in range(products)), *null)
        case SumMeasure(step=step), SumReadout():
            return (step,)
        case NormMeasure(step=step, size=size), SumReadout(place=place):
            return tuple(step if i == place else Fraction(0) for i in range(size))
        case BlockMeasure(step=step, blocks=blocks), BlockReadout():
            return (step / blocks,)
        case MomentMeasure(), CountReadout(with_null=with_null):
            null = (Fraction(int(with_null)),) if measure.null_component else ()
            return (*(Fraction(1) for _ in range(measure.degree + 1)), *null)
        case MomentMeasure(low=low, high=high, degree=degree), SumReadout():
            null = (Fraction(0),) if measure.null_component else ()
            places = (Fraction(j, max(1, degree)) for j in range(degree + 1))
            return (*(low + (high - low) * place for place in places), *null)
        case _:
            raise InternalError("an aggregate can't be read from a vector of another measure")


def _spread(
    plan: PlannedRelease,
    released: Released,
    readout: MeanReadout | VarianceReadout,
    components: list[AnyIntegers],
) -> Floats:
    """Return a mean or a variance, exact in the released values up to the last division."""
    measure = moment_measure(plan, readout)
    if not measure.degree:
        return of_one_point(measure, readout, components[0].shape)
    unit = plan.vectors[readout.vector].unit * released.measurement.noises[readout.vector].lattice
    bernstein = [component.astype(object) for component in components[: measure.degree + 1]]
    weight: AnyIntegers = np.sum(bernstein, axis=0)
    if isinstance(readout, MeanReadout):
        moment: AnyIntegers = np.sum([j * part for j, part in enumerate(bernstein)], axis=0)
        return mean_of(
            measure, _quotients(moment, measure.degree * weight, where=2 * weight >= unit)
        )
    b0, b1, b2 = bernstein
    spread = _quotients(4 * b0 * b2 - b1 * b1, 4 * weight * weight, where=2 * weight >= unit)
    return variance_of(measure, readout, spread, ratio(weight, unit))


def _ranked(
    plan: PlannedRelease, released: Released, readout: ChoiceReadout, type_: SqlType
) -> Numbers:
    """Return the values of the candidates that were chosen, whole ones rounded half to even.

    None where nothing was.
    """
    histogram = plan.histograms[readout.histogram]
    candidates = released.chosen[readout.histogram][readout.position]
    if isinstance(histogram.choices[readout.position], Bin):
        lattice, _ = released.measurement.choosers[readout.histogram].laplace()
        return nearest(candidates, lattice * histogram.unit)
    values = _values(histogram, np.where(candidates == NOTHING, 0, candidates), type_)
    if (candidates != NOTHING).all():
        return values
    pairs = zip(candidates, values.tolist(), strict=True)
    return _objects([None if c == NOTHING else value for c, value in pairs])


def _values(histogram: Histogram, candidates: Integers, type_: SqlType) -> Numbers:
    values = [histogram.value(int(candidate)) for candidate in candidates]
    if histogram.values:
        return _typed(
            [histogram.values[min(int(v), len(histogram.values) - 1)] for v in values], type_
        )
    match type_.kind:
        case Kind.BIGINT:
            return np.array([_cut(round(value)) for value in values], dtype=np.int64)
        case Kind.DATE:
            return _objects([_moment(value * _DAY).date() for value in values])
        case Kind.TIMESTAMP:
            unit = _DAY if histogram.dates else 1
            return _objects([_moment(value * unit) for value in values])
        case _:
            return np.array([float(value) for value in values], dtype=np.float64)


def _moment(microseconds: Fraction) -> datetime:
    """Return the moment so long after 1970-01-01, or the first or last that Python has."""
    return _EPOCH + timedelta(microseconds=min(max(round(microseconds), _FIRST), _LAST))


def _typed(values: list[object], type_: SqlType) -> Numbers:
    """Return public values as a column of their type."""
    match type_.kind:
        case Kind.BIGINT:
            return np.array(values, dtype=np.int64)
        case Kind.DOUBLE:
            return np.array(values, dtype=np.float64)
        case _:
            return _objects(values)


def _objects(values: Sequence[object]) -> Numbers:
    made: Numbers = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def _pair(
    plan: PlannedRelease,
    released: Released,
    readout: PairReadout,
    components: list[AnyIntegers],
) -> Floats:
    """Return an aggregate of two arguments, its moments exact up to their divisions."""
    measure, measurement = pair_measure(plan, readout), released.measurement
    unit = plan.vectors[readout.vector].unit * measurement.noises[readout.vector].lattice
    products = [component.astype(object) for component in components[: measure.products]]
    error = component_error(plan, measurement, readout.vector)
    return pair_value(
        measure, readout, pair_moments(measure, products, unit, _broad_quotients, error)
    )


def _broad_quotients(
    numerators: AnyIntegers, denominators: AnyIntegers | int, where: NDArray[Any]
) -> Floats:
    """Return correctly rounded quotients of Python integers; NaN where `where` is false."""
    below = np.broadcast_to(np.asarray(denominators, dtype=object), numerators.shape)
    triples = zip(numerators, below, where, strict=True)
    found = (n / d if ok else math.nan for n, d, ok in triples)
    return np.fromiter(found, dtype=np.float64, count=len(numerators))


def _quotients(numerators: AnyIntegers, denominators: AnyIntegers, where: NDArray[Any]) -> Floats:
    """Return correctly rounded quotients of Python integers, cut to [-2, 2]; NaN where `where` is false."""
    triples = zip(numerators, denominators, where, strict=True)
    cut = (
        math.nan if not ok else n / d if abs(n) <= 2 * d else 2.0 if n > 0 else -2.0
        for n, d, ok in triples
    )
    return np.fromiter(cut, dtype=np.float64, count=len(numerators))
