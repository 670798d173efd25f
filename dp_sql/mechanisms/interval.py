"""Where the value without noise lies: intervals for released aggregates, free of charge.

They cover the noise alone, not clamping, limits or sampling. For keys near the threshold they cover
too rarely: such a key shows only when its noise was large.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from dp_sql.errors import InternalError
from dp_sql.mechanisms.measurement import Measurement
from dp_sql.mechanisms.noise import NoiseKind, VectorNoise
from dp_sql.mechanisms.pairs import in_turns, pair_draws, pair_moments
from dp_sql.mechanisms.readout import (
    Floats,
    LinearForm,
    Numbers,
    component_error,
    components_of,
    linear_form,
    mean_of,
    moment_measure,
    nearest,
    of_one_point,
    pair_measure,
    ratio,
    read,
    variance_of,
)
from dp_sql.mechanisms.release import AnyIntegers, Released, draw, plus
from dp_sql.mechanisms.sampler import Sampler
from dp_sql.mechanisms.spread import form_spread
from dp_sql.plan.histogram import Bin
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.relation import MomentMeasure
from dp_sql.plan.release import (
    AggregateKind,
    BlockReadout,
    ChoiceReadout,
    CountReadout,
    DistinctReadout,
    MeanReadout,
    PairReadout,
    PlannedRelease,
    SumReadout,
    VarianceReadout,
)
from dp_sql.schema.sqltype import BIGINT

DRAWS = 2000
"""Fresh noise vectors for an interval that has no closed form, shared by all groups."""

_CHUNK = 512  # groups at a time: a chunk's arrays of DRAWS floats take 8 MB each


def interval(
    plan: PlannedRelease, released: Released, aggregate: int, level: float, sampler: Sampler
) -> tuple[Numbers, Numbers]:
    """Return the lower and upper ends for one aggregate's values, in that aggregate's type.

    level: how often an interval covers the value without noise, between 0 and 1. Those of counts and
    sums follow from the law of their noise; other intervals are percentiles of the read-out over what
    the released value would be without each of 2,000 fresh noise vectors; that of REGR_R2 is the square of
    the correlation's, since a square near 0 is seldom as small as what it was before its noise.
    """
    if not 0 < level < 1:
        raise InternalError("an interval's level lies between 0 and 1")
    readout = plan.readouts[aggregate]
    if isinstance(readout, ChoiceReadout):
        return _of_bin(plan, released, readout, level)
    if isinstance(readout, DistinctReadout):
        counted = released.distinct[readout.distinct]
        half = laplace_half_width(counted.scale, level)
        low, high = _wide(counted.values, -half), _wide(counted.values, half)
        return _integer_ends(counted.values, low, high, counted.lattice, whole=True)
    components = components_of(released, readout)
    noise = released.measurement.noises[readout.vector]
    if noise.kind is NoiseKind.NONE:
        values = read(plan, released)[aggregate]
        return values, values
    match readout:
        case CountReadout() | SumReadout() | BlockReadout():
            form = linear_form(plan, released.measurement, readout)
            total = form.total(components)
            reach = _half_width(form, noise, level)
            low, high = _wide(total, -reach), _wide(total, reach)
            if plan.release.aggregates[aggregate].type != BIGINT:
                return ratio(low, form.denominator), ratio(high, form.denominator)
            measure = plan.vectors[readout.vector].measure
            whole = not isinstance(measure, MomentMeasure | PairMeasure)
            return _integer_ends(total, low, high, form.denominator, whole=whole)
        case MeanReadout() | VarianceReadout() | PairReadout():
            return _percentiles(plan, released, readout, level, sampler)
        case _:
            assert_never(readout)


def _of_bin(
    plan: PlannedRelease, released: Released, readout: ChoiceReadout, level: float
) -> tuple[Numbers, Numbers]:
    """Return the ends for the count of a bin. Raises InternalError for a value that was chosen."""
    histogram = plan.histograms[readout.histogram]
    if not isinstance(histogram.choices[readout.position], Bin):
        raise InternalError("a value that was chosen by its rank has no interval")
    lattice, scale = released.measurement.choosers[readout.histogram].laplace()
    values = released.chosen[readout.histogram][readout.position]
    half, unit = laplace_half_width(scale, level), histogram.unit
    low, high = _wide(values, -half), _wide(values, half)
    return _integer_ends(values, low, high, lattice * unit, whole=unit == 1)


def _bin_again(
    plan: PlannedRelease,
    released: Released,
    readout: ChoiceReadout,
    groups: list[int],
    draws: int,
    sampler: Sampler,
) -> Numbers | None:
    """Return the count of a bin without each of `draws` fresh noises; None for a value that was chosen."""
    histogram = plan.histograms[readout.histogram]
    if not isinstance(histogram.choices[readout.position], Bin):
        return None
    lattice, scale = released.measurement.choosers[readout.histogram].laplace()
    fresh = np.tile(sampler.laplace(scale, draws), len(groups)).astype(object)
    before = np.repeat(released.chosen[readout.histogram][readout.position][groups], draws) - fresh
    return nearest(before, lattice * histogram.unit)


def laplace_half_width(scale: int, level: float) -> int:
    """Return the least m >= 0 with P[|Z| <= m] >= level for discrete Laplace Z.

    P[|Z| > m] = 2 e^(-(m + 1)/t) / (1 + e^(-1/t)). Source: [Ghosh2009].
    """
    tail = (1 - level) * (1 + math.exp(-1 / scale))
    return max(0, math.ceil(scale * math.log(2 / tail)) - 1)


def _half_width(form: LinearForm, noise: VectorNoise, level: float) -> int:
    """Return how far the noise moves the form's total at most, with probability `level`."""
    return math.ceil(form_spread(form, noise.kind, noise.scale).half_width(level))


def _wide(total: AnyIntegers, shift: int) -> AnyIntegers:
    """Return total + shift in Python integers."""
    shifted: AnyIntegers = total.astype(object) + shift
    return shifted


def _integer_ends(
    total: AnyIntegers, low: AnyIntegers, high: AnyIntegers, denominator: int, *, whole: bool
) -> tuple[Numbers, Numbers]:
    """Return the ends of a BIGINT value's interval.

    whole: the value without noise is an integer, so the ends move inward to integers, but not past
    the value shown; else they move outward.
    """
    if not whole:
        return nearest(low // denominator, 1), nearest(-(-high // denominator), 1)
    shown = nearest(total, denominator)
    inner_low, inner_high = nearest(-(-low // denominator), 1), nearest(high // denominator, 1)
    return np.minimum(inner_low, shown), np.maximum(inner_high, shown)


def _percentiles(
    plan: PlannedRelease,
    released: Released,
    readout: MeanReadout | VarianceReadout | PairReadout,
    level: float,
    sampler: Sampler,
) -> tuple[Floats, Floats]:
    """Return percentiles of a read-out of moments over released values minus fresh noise."""
    noise = released.measurement.noises[readout.vector]
    components = released.vectors[readout.vector]
    fresh = draw(noise, len(components) * DRAWS, sampler).reshape(len(components), DRAWS)
    ends = np.empty((2, len(released.keys)))
    levels = [(1 - level) / 2, (1 + level) / 2]
    for start in range(0, len(released.keys), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        # each of shape (groups of the chunk, DRAWS)
        values = [ratio(c[chunk], 1)[:, None] - f for c, f in zip(components, fresh, strict=True)]
        spread = _spread(plan, released.measurement, readout, values)
        ends[:, chunk] = np.quantile(spread, levels, axis=1)
        if isinstance(readout, PairReadout) and readout.kind is AggregateKind.REGR_R2:
            correlation = replace(readout, kind=AggregateKind.CORR)
            signed = _spread(plan, released.measurement, correlation, values)
            squared = _squared(*np.quantile(signed, levels, axis=1))
            flat = ends[0, chunk] > squared[1]  # a constant y: 1, where the correlation is 0
            ends[:, chunk] = np.where(flat, ends[:, chunk], squared)
    return ends[0], ends[1]


def _squared(low: Floats, high: Floats) -> Floats:
    """Return the ends of the squares of all numbers between others, one row each."""
    least = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    most = np.maximum(np.abs(low), np.abs(high))
    return np.array([least * least, most * most])


def redraw(
    plan: PlannedRelease, released: Released, groups: list[int], draws: int, sampler: Sampler
) -> list[Numbers]:
    """Return what the aggregates of some groups would be without each of `draws` fresh noises.

    groups: their places in `released`. One column an aggregate, in its type, with `draws` entries
    in a row for each group. All vectors are redrawn together, with the same noise for each group.
    Values that were chosen by their rank stay as they are: nobody knows how far they are off.
    """
    shown = read(plan, released) if plan.histograms else []
    measurement = released.measurement
    vectors: list[list[AnyIntegers]] = []
    for components, noise in zip(released.vectors, measurement.noises, strict=True):
        fresh = draw(noise, len(components) * draws, sampler).reshape(len(components), draws)
        vectors.append(
            [
                plus(np.repeat(component[groups], draws), 1, -np.tile(some, len(groups)))
                for component, some in zip(components, fresh, strict=True)
            ]
        )
    columns: list[Numbers] = []
    for aggregate, readout in zip(plan.release.aggregates, plan.readouts, strict=True):
        if isinstance(readout, ChoiceReadout):
            again = _bin_again(plan, released, readout, groups, draws, sampler)
            kept = shown[len(columns)][groups]
            columns.append(np.repeat(kept, draws) if again is None else again)
            continue
        if isinstance(readout, DistinctReadout):
            counted = released.distinct[readout.distinct]
            fresh_counts = np.tile(sampler.laplace(counted.scale, draws), len(groups)).astype(
                object
            )
            before = np.repeat(counted.values[groups], draws) - fresh_counts
            columns.append(nearest(before, counted.lattice))
            continue
        values = vectors[readout.vector]
        match readout:
            case CountReadout() | SumReadout() | BlockReadout():
                form = linear_form(plan, measurement, readout)
                columns.append(form.value(values, aggregate.type))
            case MeanReadout() | VarianceReadout() | PairReadout():
                floats = [ratio(component, 1) for component in values]
                columns.append(_spread(plan, measurement, readout, floats))
            case _:
                assert_never(readout)
    return columns


def _spread(
    plan: PlannedRelease,
    measurement: Measurement,
    readout: MeanReadout | VarianceReadout | PairReadout,
    components: list[Floats],
) -> Floats:
    """Return a read-out of moments from components in lattice units, in floating arithmetic."""
    unit = plan.vectors[readout.vector].unit * measurement.noises[readout.vector].lattice
    error = component_error(plan, measurement, readout.vector)
    if isinstance(readout, PairReadout):
        pair = pair_measure(plan, readout)
        products = [component / unit for component in components[: pair.products]]
        return pair_draws(pair, readout, pair_moments(pair, products, 1, _divided, error))
    measure = moment_measure(plan, readout)
    if not measure.degree:
        return of_one_point(measure, readout, components[0].shape)
    bernstein = [component / unit for component in components[: measure.degree + 1]]
    rows: Floats = np.sum(bernstein, axis=0)
    blank = np.full(rows.shape, math.nan)
    if isinstance(readout, MeanReadout):
        moment: Floats = np.sum([j * part for j, part in enumerate(bernstein)], axis=0)
        means = mean_of(
            measure, np.divide(moment / measure.degree, rows, out=blank, where=rows >= 0.5)
        )
        return in_turns(means, rows >= 0.5, error, (float(measure.low), float(measure.high)))
    b0, b1, b2 = bernstein
    spread = np.divide(b0 * b2 - b1 * b1 / 4, rows * rows, out=blank, where=rows >= 0.5)
    variances = variance_of(measure, readout, spread, rows)
    if readout.summed:
        return variances
    largest = float(measure.high - measure.low) ** 2 / (2 if readout.sample else 4)
    ends = 0.0, math.sqrt(largest) if readout.root else largest
    return in_turns(variances, rows >= 0.5, error, ends)


def _divided(numerators: Floats, denominators: Floats, where: NDArray[np.bool_]) -> Floats:
    blank: Floats = np.full(numerators.shape, math.nan)
    return np.divide(numerators, denominators, out=blank, where=where)
