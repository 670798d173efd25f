"""From the components of two arguments to covariance, correlation and regression: post-processing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.release import AggregateKind, PairReadout

Floats: TypeAlias = NDArray[np.float64]
Divide: TypeAlias = Callable[[Any, Any, Any], Floats]
"""Numerators over denominators where a condition holds, elsewhere NaN."""

_Kind = AggregateKind
_HIDING = 0.25  # rows: a component's noise of this deviation may hide that somebody is there
_SAMPLE_ROWS = 2  # from so many rows on a sample's covariance is over n - 1


@dataclass(frozen=True, slots=True)
class PairMoments:
    """What a vector tells of the places of two arguments, by axis; one entry a group.

    rows: the noisy number of rows with both values. means in [0, 1], variances in [0, 1/4], the
    covariance in [-1/4, 1/4]; all NaN where nobody seems to be there: less than half a row.
    variances: None for an axis of degree 1. error: the deviation of one component's noise, in rows.
    """

    rows: Floats
    means: tuple[Floats, Floats]
    variances: tuple[Floats | None, Floats | None]
    covariance: Floats
    error: float


def pair_moments(
    measure: PairMeasure,
    components: Sequence[NDArray[Any]],
    unit: int,
    divide: Divide,
    error: float,
) -> PairMoments:
    """Return the moments that released components tell; exact up to `divide` for Python integers.

    unit: what one row adds to the components in all.

    Claim:   with B_ij the sums over n rows of the products of polynomials of degrees d and e at
             places s and t: sum B_ij = n, sum (i / d) B_ij = sum s, sum (i / d) (j / e) B_ij = sum s t;
             and over a margin B_0, B_1, B_2 of degree 2 the variance is (B_0 B_2 - B_1^2 / 4) / n^2.
    Why:     sum_i B_i(s) = 1, sum_i (i / d) B_i(s) = s, and B_2(s) = s^2.
    Assumes: nothing that privacy rests on.
    Source:  [Bernstein1912]
    """
    one, two = (axis.degree for axis in measure.axes)
    table = [components[i * (two + 1) : (i + 1) * (two + 1)] for i in range(one + 1)]
    margins = ([_sum(row) for row in table], [_sum(column) for column in zip(*table, strict=True)])
    weight = _sum(margins[0])
    there = 2 * weight >= unit
    first, second = (_sum([i * part for i, part in enumerate(m)]) for m in margins)
    both = _sum([i * j * part for i, row in enumerate(table) for j, part in enumerate(row)])
    one, two = max(1, one), max(1, two)  # of degree 0 all places are 0
    square = weight * weight

    def variance(margin: Sequence[NDArray[Any]]) -> Floats | None:
        if len(margin) == 2:
            return None
        if len(margin) == 1:
            return np.zeros(margin[0].shape)
        none, half, full = margin
        return np.clip(divide(4 * none * full - half * half, 4 * square, there), 0.0, 0.25)

    return PairMoments(
        divide(weight, unit, there),
        (
            np.clip(divide(first, one * weight, there), 0.0, 1.0),
            np.clip(divide(second, two * weight, there), 0.0, 1.0),
        ),
        (variance(margins[0]), variance(margins[1])),
        np.clip(
            divide(weight * both - first * second, one * two * square, there),
            -0.25,
            0.25,
        ),
        error,
    )


def pair_value(measure: PairMeasure, readout: PairReadout, found: PairMoments) -> Floats:
    """Return an aggregate of y and x from their moments.

    Means lie in the declared range, a covariance within the product of both ranges / 4, a correlation
    in [-1, 1], REGR_R2 in [0, 1]. A sample's covariance is the population's times n / (n - 1) for the
    noisy n, and the population's where n is below 2. Where nobody seems to be there a mean is the
    number of its range nearest to 0, and all else is 0.

    An argument is taken for constant where the sum of its squares around its mean is at most the
    deviation of one component's noise, or a quarter of a squared step of its grid. Over a constant x
    the slope and REGR_R2 are 0 and the intercept is the mean of y; over either the correlation is 0.
    Over a constant y REGR_R2 is 1, as in DuckDB, but 0 where noise may hide that y varies.

    Raises InternalError for a variance that the vector doesn't hold.
    """
    x, y = readout.x, 1 - readout.x
    widths = [float(axis.high - axis.low) for axis in measure.axes]
    nobody = np.isnan(found.covariance)
    covariance = np.where(nobody, 0.0, found.covariance)
    rows = np.where(nobody, 0.0, found.rows)

    def mean(axis: int) -> Floats:
        low, high = float(measure.axes[axis].low), float(measure.axes[axis].high)
        means = np.where(nobody, 0.0, low + widths[axis] * found.means[axis])
        return np.clip(means, low, high)

    def variance(axis: int) -> Floats:
        some = found.variances[axis]
        if some is None:
            raise InternalError("a variance needs the second moments of its argument")
        return np.where(nobody, 0.0, some)

    def varies(axis: int) -> NDArray[np.bool_]:
        return _varies(measure, found, axis)

    def over(numerators: Floats, denominators: Floats, where: NDArray[np.bool_]) -> Floats:
        nothing: Floats = np.zeros(rows.shape)
        return np.divide(numerators, denominators, out=nothing, where=where)

    def slope() -> Floats:
        return over(covariance, variance(x), varies(x)) * (widths[y] / (widths[x] or 1.0))

    match readout.kind:
        case _Kind.COVAR_POP:
            return covariance * (widths[0] * widths[1])
        case _Kind.COVAR_SAMP:
            same: Floats = np.ones(rows.shape)
            wider: Floats = np.divide(rows, rows - 1, out=same, where=rows >= _SAMPLE_ROWS)
            return covariance * wider * (widths[0] * widths[1])
        case _Kind.REGR_SXY:
            return covariance * rows * (widths[0] * widths[1])
        case _Kind.REGR_SXX:
            return variance(x) * rows * widths[x] ** 2
        case _Kind.REGR_SYY:
            return variance(y) * rows * widths[y] ** 2
        case _Kind.VAR_POP | _Kind.VAR_SAMP | _Kind.STDDEV_POP | _Kind.STDDEV_SAMP:
            alone: Floats = np.ones(rows.shape)
            sample = readout.kind in (_Kind.VAR_SAMP, _Kind.STDDEV_SAMP)
            more = np.divide(rows, rows - 1, out=alone, where=sample & (rows >= _SAMPLE_ROWS))
            spread: Floats = variance(x) * more * widths[x] ** 2
            return spread if readout.kind in (_Kind.VAR_POP, _Kind.VAR_SAMP) else np.sqrt(spread)
        case _Kind.REGR_AVGX:
            return mean(x)
        case _Kind.REGR_AVGY:
            return mean(y)
        case _Kind.REGR_SLOPE:
            return slope()
        case _Kind.REGR_INTERCEPT:
            return mean(y) - slope() * mean(x)
        case _Kind.CORR:
            known = varies(x) & varies(y)
            return np.clip(over(covariance, np.sqrt(variance(x) * variance(y)), known), -1.0, 1.0)
        case _Kind.REGR_R2:
            known = varies(x) & varies(y)
            part = over(covariance**2, variance(x) * variance(y), known)
            flat = varies(x) & ~varies(y) & (not _hides(measure, found, y))
            return np.where(flat, 1.0, np.clip(part, 0.0, 1.0))
        case _:
            raise InternalError("an aggregate of one argument isn't read from a pair")


def pair_draws(measure: PairMeasure, readout: PairReadout, found: PairMoments) -> Floats:
    """Return `pair_value` for redrawn noises, where the last dimension is one of draws.

    A draw whose noise hides whether an argument varies tells nothing: it gives the ends of what a
    correlation or a regression may be in turns, so that an interval that has many such is wide. The
    steepest slope is that over two neighbouring steps of x's grid.
    """
    values = pair_value(measure, readout, found)
    x, y = readout.x, 1 - readout.x
    of_x, of_y = measure.axes[x], measure.axes[y]
    steepest = of_x.cells * float((of_y.high - of_y.low) / (of_x.high - of_x.low or 1))
    farthest = max(abs(float(end)) for end in (of_y.low, of_y.high))
    farthest += steepest * max(abs(float(end)) for end in (of_x.low, of_x.high))
    axes: tuple[int, ...]
    match readout.kind:
        case _Kind.CORR:
            low, high, axes = -1.0, 1.0, (0, 1)
        case _Kind.REGR_R2:
            low, high, axes = 0.0, 1.0, (0, 1)
        case _Kind.REGR_SLOPE:
            low, high, axes = -steepest, steepest, (x,)
        case _Kind.REGR_INTERCEPT:
            low, high, axes = -farthest, farthest, (x,)
        case _:
            ends = _ends(measure, readout)
            if ends is None:
                return values
            return in_turns(values, ~np.isnan(found.covariance), found.error, ends)
    if not of_x.degree or (not of_y.degree and readout.kind is not _Kind.REGR_R2):
        return values  # over a public point: no noise moves it
    for axis in axes:
        if _hides(measure, found, axis):
            values = _alternating(values, _varies(measure, found, axis), (low, high))
    return values


def in_turns(
    values: Floats, somebody: NDArray[np.bool_], error: float, ends: tuple[float, float]
) -> Floats:
    """Return draws of a value, where those in which nobody seems to be there are its ends in turns.

    Such a draw tells nothing of the value, so an interval that has many is wide. Where the noise of a
    component, of deviation `error` in rows, can't hide that somebody is there, all stay as they are.
    """
    return values if error < _HIDING else _alternating(values, somebody, ends)


def _alternating(values: Floats, told: NDArray[np.bool_], ends: tuple[float, float]) -> Floats:
    """Return draws, with the ends in turns where nothing is told. The last dimension is of draws."""
    found: Floats = np.where(told, values, np.where(np.arange(values.shape[-1]) % 2 == 0, *ends))
    return found


def _ends(measure: PairMeasure, readout: PairReadout) -> tuple[float, float] | None:
    """Return between which ends a mean, a variance or a covariance lies; None of a sum, which has none."""
    x, y = measure.axes[readout.x], measure.axes[1 - readout.x]
    width_x, width_y = float(x.high - x.low), float(y.high - y.low)
    match readout.kind:
        case _Kind.REGR_AVGX:
            return float(x.low), float(x.high)
        case _Kind.REGR_AVGY:
            return float(y.low), float(y.high)
        case _Kind.COVAR_POP | _Kind.COVAR_SAMP:
            most = width_x * width_y / (4 if readout.kind is _Kind.COVAR_POP else 2)
            return -most, most
        case _Kind.VAR_POP | _Kind.STDDEV_POP | _Kind.VAR_SAMP | _Kind.STDDEV_SAMP:
            sample = readout.kind in (_Kind.VAR_SAMP, _Kind.STDDEV_SAMP)
            largest = width_x**2 / (2 if sample else 4)
            root = readout.kind in (_Kind.STDDEV_POP, _Kind.STDDEV_SAMP)
            return 0.0, float(np.sqrt(largest)) if root else largest
        case _:
            return None


def _varies(measure: PairMeasure, found: PairMoments, axis: int) -> NDArray[np.bool_]:
    """Return where an argument isn't taken for constant."""
    variance = found.variances[axis]
    if variance is None:
        raise InternalError("a variance needs the second moments of its argument")
    least = max(found.error, _least(measure, axis))
    return np.nan_to_num(variance * found.rows) > least


def _hides(measure: PairMeasure, found: PairMoments, axis: int) -> bool:
    """Return whether noise may hide that an argument varies."""
    return measure.axes[axis].degree > 0 and found.error >= _least(measure, axis)


def _least(measure: PairMeasure, axis: int) -> float:
    """Return half the least sum of squares of places that differ at all: one row by one step."""
    return 1 / (4 * measure.axes[axis].cells ** 2)


def _sum(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    total: NDArray[Any] = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
