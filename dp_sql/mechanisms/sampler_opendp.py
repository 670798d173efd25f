"""The same noise from OpenDP, for owners whose policy asks for a vetted library.

It is 10 to 20 times slower than `ExactSampler` and needs the extra `dp-sql[opendp]`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dp_sql.dataclass import dataclass
from dp_sql.errors import EngineError
from dp_sql.mechanisms.sampler import Integers, Rate, check_request


@dataclass(frozen=True, slots=True)
class OpenDPSampler:
    """OpenDP's discrete Laplace and discrete Gaussian over 64-bit integers.

    Raises EngineError when it is made and OpenDP isn't there, so before anything is charged.
    """

    name: str = "opendp"

    def __post_init__(self) -> None:
        _opendp()

    def laplace(self, scale: int, size: int) -> Integers:
        """Return `size` draws of the discrete Laplace distribution; see `Sampler.laplace`."""
        check_request(scale, size)
        dp = _opendp()
        integers = dp.vector_domain(dp.atom_domain(T="i64"))
        # a float holds every integer up to 2^53, so the scale arrives as it is
        mechanism = dp.m.make_laplace(integers, dp.l1_distance(T="i64"), scale=float(scale))
        return np.array(mechanism([0] * size), dtype=np.int64)

    def gaussian(self, sigma: int, size: int) -> Integers:
        """Return `size` draws of the discrete Gaussian distribution; see `Sampler.gaussian`."""
        check_request(sigma, size)
        dp = _opendp()
        integers = dp.vector_domain(dp.atom_domain(T="i64"))
        mechanism = dp.m.make_gaussian(integers, dp.l2_distance(T="f64"), scale=float(sigma))
        return np.array(mechanism([0] * size), dtype=np.int64)

    def choose(self, gaps: Integers, rate: Rate, *, exponential: bool = False) -> Integers:
        """Return, for each row of `gaps`, the column that is chosen; see `Sampler.choose`."""
        dp = _opendp()
        scores = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
        # 2^shift / numerator rounded up: numbers below 2^53 are floats, and so is the next one
        scale = math.nextafter((1 << rate.shift) / rate.numerator, math.inf)
        measure = dp.zero_concentrated_divergence() if exponential else dp.max_divergence()
        mechanism = dp.m.make_noisy_max(*scores, measure, scale=scale)
        capped = (rate.capped(row) for row in gaps)
        return np.array([mechanism((-row).tolist()) for row in capped], dtype=np.int64)


def _opendp() -> Any:
    """Return OpenDP's prelude with the samplers enabled, or raise EngineError."""
    try:
        import opendp.prelude as dp  # noqa: PLC0415 - 0.2 s and 40 MB, only where it is asked for
    except ImportError:
        raise EngineError(
            "The schema says `sampler: opendp`, but the package opendp isn't installed.",
            hint="pip install 'dp-sql[opendp]', or `sampler: exact` in the schema",
        ) from None
    dp.enable_features("contrib")
    return dp
