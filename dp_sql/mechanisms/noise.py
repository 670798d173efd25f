"""Noise on the vectors of a release: its law, its lattice and its scale."""

from __future__ import annotations

import math
from enum import StrEnum
from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.mechanisms.calibrate_gaussian import LEAST_SIGMA
from dp_sql.mechanisms.sampler import MAX_SCALE

LEAST_SCALE = LEAST_SIGMA  # in lattice units: rounding it up costs at most a tenth of a percent
_FINEST = 2**64  # points of the lattice in one step of a vector


class NoiseKind(StrEnum):
    """The law of a vector's noise. NONE: no neighbour changes it, so it is released as it is."""

    NONE = "none"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True, slots=True)
class VectorNoise:
    """A vector is released as lattice * exact + noise, independent in every coordinate.

    lattice: a power of two. scale: of the discrete Laplace, or sigma of the discrete Gaussian
    distribution, in lattice units; 0 for NONE.
    """

    kind: NoiseKind
    lattice: int
    scale: int

    def __post_init__(self) -> None:
        if self.lattice < 1 or self.lattice & (self.lattice - 1):
            raise ValueError("a lattice is a power of two")
        if self.kind is NoiseKind.NONE:
            if self.scale != 0 or self.lattice != 1:
                raise ValueError("no noise has no scale and no lattice")
        elif not 1 <= self.scale <= MAX_SCALE:
            raise ValueError("the scale of noise is an integer from 1 to 2^50")


EXACT = VectorNoise(NoiseKind.NONE, 1, 0)


def on_lattice(kind: NoiseKind, square: Fraction, least: int = LEAST_SCALE) -> VectorNoise | None:
    """Return noise whose scale over its lattice is at least the root of `square`.

    On the coarsest lattice that gives a scale of `least`; the finest is _FINEST, where noise
    of that scale is below a double's precision. None above the largest scale.
    """
    lattice, scale = 1, _root_up(square)
    while scale < least and lattice < _FINEST:
        lattice *= 2
        scale = _root_up(square * lattice**2)
    scale = max(scale, least)
    return VectorNoise(kind, lattice, scale) if scale <= MAX_SCALE else None


def _root_up(square: Fraction) -> int:
    """Return the least integer whose square is at least `square`."""
    root = math.isqrt(math.ceil(square))
    return root if root * root >= square else root + 1
