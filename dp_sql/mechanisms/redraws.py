"""Numbers with the law of the noise for the intervals around released values; never noise itself."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_sql.errors import InternalError
from dp_sql.mechanisms.release import Released
from dp_sql.mechanisms.sampler import Integers, Rate, check_request
from dp_sql.mechanisms.stored import to_bytes

_WORD = 8  # bytes


class Redraws:
    """What a sampler draws, computed from released values: the same values have the same intervals.

    Claim:   an interval from these numbers costs nothing.
    Why:     they are a function of what was released, by SHAKE-256: post-processing. Nothing that
             protects anybody is drawn here; only intervals are computed from it.
    Assumes: for their quality, that the function's output looks random, and a double's precision.
    Source:  [Dwork2006]
    """

    name = "redraws"

    def __init__(self, released: Sequence[Released]) -> None:
        self._seed = hashlib.sha256(to_bytes(released)).digest()
        self._calls = 0

    def laplace(self, scale: int, size: int) -> Integers:
        """Return `size` numbers of the discrete Laplace law, as `Sampler.laplace` draws them.

        The difference of two geometric numbers with ratio exp(-1/scale).
        """
        check_request(scale, size)
        one, two = (np.floor(-scale * np.log(self._uniform(size))) for _ in range(2))
        drawn: Integers = (one - two).astype(np.int64)
        return drawn

    def gaussian(self, sigma: int, size: int) -> Integers:
        """Return `size` numbers of the Gaussian law, rounded; `sigma` as for `Sampler.gaussian`.

        Source: [BoxMuller1958].
        """
        check_request(sigma, size)
        length = np.sqrt(-2 * np.log(self._uniform(size)))
        angle = 2 * np.pi * self._uniform(size)
        drawn: Integers = np.rint(sigma * length * np.cos(angle)).astype(np.int64)
        return drawn

    def choose(self, gaps: Integers, rate: Rate, *, exponential: bool = False) -> Integers:
        """Raise InternalError: no interval is made of choices."""
        raise InternalError(f"an interval chooses nothing: {gaps.shape}, {rate}, {exponential}")

    def _uniform(self, size: int) -> NDArray[np.float64]:
        """Return `size` numbers above 0, at most 1."""
        self._calls += 1
        source = hashlib.shake_256(self._seed + self._calls.to_bytes(_WORD, "little"))
        words = np.frombuffer(source.digest(_WORD * size), dtype="<u8")
        return ((words >> np.uint64(11)).astype(np.float64) + 1) / 2**53
