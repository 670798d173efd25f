"""Groups of public keys that are empty beyond doubt, because next to no noise was asked for."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dp_sql.mechanisms.noise import NoiseKind, VectorNoise
from dp_sql.mechanisms.release import Released
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.relation import CountMeasure, MomentMeasure, PresenceMeasure
from dp_sql.plan.release import PlannedRelease, Vector

_DOUBT = 1e-9  # how often noise may reach half a row where an empty group is left out


def without_empty(plan: PlannedRelease, released: Released) -> Released:
    """Return the released groups without those that are empty beyond doubt.

    A public key's groups are all shown, since noise hides which are empty. Where the noise is so
    small that it hides nothing (half a row in less than one case in 1e9, as for an epsilon in the
    hundreds), a group whose noisy number of rows rounds to 0 is left out, as DuckDB leaves it out.

    Claim:   this costs no privacy.
    Why:     it reads released values and the law of the noise alone: post-processing.
    Assumes: nothing more.  Source: [Dwork2006]
    """
    if not plan.keys or plan.private or plan.release.padded or not released.keys:
        return released
    empty: NDArray[np.bool_] | None = None
    for vector, values, noise in zip(
        plan.vectors, released.vectors, released.measurement.noises, strict=True
    ):
        row = vector.unit * noise.lattice
        if not _counts_rows(vector) or 2 * _reach(noise, len(values)) >= row:
            continue
        total = np.sum([component.astype(object) for component in values], axis=0)
        nobody = np.array([2 * abs(int(n)) < row for n in total], dtype=np.bool_)
        empty = nobody if empty is None else empty & nobody
    if empty is None or not empty.any():
        return released
    kept = np.flatnonzero(~empty)
    return released.kept(kept)


def _counts_rows(vector: Vector) -> bool:
    """Return whether a vector's components add up to the number of all rows."""
    match vector.measure:
        case CountMeasure(argument=None) | PresenceMeasure(argument=None):
            return True
        case (
            MomentMeasure(null_component=null_component)
            | PairMeasure(null_component=null_component)
        ):
            return null_component
        case _:
            return False


def _reach(noise: VectorNoise, components: int) -> float:
    """Return what the sum of the components' noise passes with a probability of at most 1e-9."""
    match noise.kind:
        case NoiseKind.NONE:
            return 0.0
        case NoiseKind.LAPLACE:
            return components * noise.scale * math.log(2 * components / _DOUBT)
        case NoiseKind.GAUSSIAN:
            return noise.scale * math.sqrt(2 * components * math.log(2 / _DOUBT))
