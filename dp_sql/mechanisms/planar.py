"""PLANAR_LAPLACE: a point on the Earth moved at random, so that points near each other look alike."""

from __future__ import annotations

import math
import os
import threading
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_sql.errors import InternalError, ParameterError
from dp_sql.mechanisms.sampler import Coins, Integers, Sampler
from dp_sql.privacy.amount import exact

Place: TypeAlias = tuple[int, int, int]
"""A point of the lattice around the Earth's centre, in steps: towards 0° N 0° E, 0° N 90° E, and north."""

STEP = Fraction(1, 1024)  # metres
_MOST_EPSILON, _LEAST_EPSILON = Fraction(10**6), Fraction(1, 10**9)  # per metre

_EQUATOR = 6_378_137.0  # metres, the ellipsoid's larger half axis
_FLATTENING = 1 / 298.257223563
_SQUEEZED = (1 - _FLATTENING) ** 2  # 1 - e^2
_MARGIN = 1e-9  # far more than floats are off where a coin is tossed
_BATCH = 256  # draws kept for the next points of the same epsilon
_MOST_SCALES = 64
_WORD = 64  # bits
_MOST_BATCHES = 300


def moved_to(latitude: float, longitude: float, noise: Place) -> tuple[float, float]:
    """Return (latitude, longitude) in degrees of a point, moved by `noise` steps of the lattice.

    Degrees are geodetic, of WGS 84; a longitude may be from -360 to 360, the result's is from -180.
    A point off the ellipsoid is seen from the Earth's centre.
    """
    x, y, z = (a + b for a, b in zip(lattice_place(latitude, longitude), noise, strict=True))
    north = math.degrees(math.atan2(z, _SQUEEZED * math.hypot(x, y)))
    return north, math.degrees(math.atan2(y, x))


def lattice_place(latitude: float, longitude: float) -> Place:
    """Return the lattice point nearest to a point of the ellipsoid. Source: [WGS84]."""
    phi, lam = math.radians(latitude), math.radians(longitude)
    normal = _EQUATOR / math.sqrt(1 - (1 - _SQUEEZED) * math.sin(phi) ** 2)
    across = normal * math.cos(phi)
    place = (across * math.cos(lam), across * math.sin(lam), normal * _SQUEEZED * math.sin(phi))
    x, y, z = (round(length / float(STEP)) for length in place)
    return x, y, z


def scale_of(epsilon: Fraction) -> int:
    """Return the scale of the noise, in steps: the least whole number at which it costs no more.

    Raises ParameterError for an epsilon per metre outside 1e-9 to 1e6.
    """
    if not _LEAST_EPSILON <= epsilon <= _MOST_EPSILON:
        raise ParameterError(
            "the epsilon per metre of PLANAR_LAPLACE is a number from 1e-9 to 1e6.",
            hint="0.01: points 100 metres from each other are told apart at epsilon 1",
        )
    return math.ceil(1 / (epsilon * STEP))


def draw(scale: int, size: int, sampler: Sampler) -> NDArray[np.int64]:
    """Return `size` places of the lattice, one a row, with P(v) proportional to exp(-|v| / scale).

    |v| is the Euclidean length. 1 <= scale <= 2^40.

    Claim:   each row has exactly this law, if the sampler and the operating system's bits are as they
             say.
    Why:     three discrete Laplace numbers of scale s have P(v) proportional to exp(-|v|_1 / s), and a
             coin of exp(-(|v| / scale - |v|_1 / s)) keeps v. It is a probability, since |v|_1 is at most
             sqrt(3) |v| and s at least sqrt(3) scale. At least half of all tries are kept.
    Assumes: the law of `_coins`.
    Source:  [Andres2013], [CanonneKamathSteinke2020]
    """
    around = math.isqrt(3 * scale * scale) + 1
    found: list[Integers] = []
    kept = 0
    for _ in range(_MOST_BATCHES + size):
        tries = 2 * (size - kept) + 16
        tried = sampler.laplace(around, 3 * tries).reshape(tries, 3)
        found.append(tried[_coins(tried, scale, around)])
        kept += len(found[-1])
        if kept >= size:
            return np.concatenate(found)[:size]
    raise InternalError("the operating system's random bits are not random")


def _coins(places: Integers, scale: int, around: int) -> Coins:
    """Return coins that come up True with probability exp(-(|v| / scale - |v|_1 / around)).

    Claim:   a coin is True iff a uniform number U of [0, 1) is below this probability, exactly.
    Why:     of U the first 64 bits are drawn. Floats tell both numbers apart where they differ by
             1e-9: squares, sums, a root, a quotient and exp are each off by a few units in the last
             place, and exponents by a few hundred of them, below 1e-12. Where they are nearer, more
             bits and digits are taken until an interval around either holds none of the other.
    Assumes: numpy's exp is right to 1e-10, and Decimal rounds correctly.
    Source:  [IEEE754]
    """
    floats = np.abs(places.astype(np.float64))
    length = np.sqrt(np.sum(floats * floats, axis=1))
    chance = np.exp(-np.maximum(length / scale - np.sum(floats, axis=1) / around, 0.0))
    words = np.frombuffer(os.urandom(8 * len(places)), dtype=np.uint64)
    uniform = words * 2.0**-_WORD
    coins: Coins = uniform < chance
    for row in np.flatnonzero(np.abs(uniform - chance) <= _MARGIN):
        x, y, z = (int(part) for part in places[row])
        coins[row] = _decided((x, y, z), scale, around, int(words[row]))
    return coins


def _decided(place: Place, scale: int, around: int, word: int) -> bool:
    """Return whether the uniform number whose first 64 bits are `word` is below the coin's chance."""
    square = sum(part * part for part in place)
    if square == 0:
        return True
    flat = sum(abs(part) for part in place)
    bits, digits = _WORD, 40
    while True:
        with localcontext() as context:
            context.prec = digits
            long = Decimal(square).sqrt() / scale
            exponent = long - Decimal(flat) / around
            chance = Fraction((-exponent).exp())
            # each operation is off by at most one unit in its last digit
            error = (Fraction(long) + 1) * Fraction(10) ** (3 - digits)
        if Fraction(word + 1, 1 << bits) <= chance - error:
            return True
        if Fraction(word, 1 << bits) >= chance + error:
            return False
        word = (word << _WORD) | int.from_bytes(os.urandom(_WORD // 8), "big")
        bits += _WORD
        digits += 20


class PlanarLaplace:
    """The SQL function: a point and an epsilon per metre to the point moved. Safe to share by threads.

    Claim:   whatever is seen of one call, its chance is at most exp(epsilon (d + 0.002)) times as large
             from one point as from another, d metres away on the ellipsoid; calls add up.
    Why:     a point is rounded to the lattice, and noise is added with P(v) proportional to
             exp(-|v| / t): from q and q' the chances of z are at most exp(|q - q'| / t) apart, by the
             triangle inequality, and 1 / t is at most epsilon times a step. A straight line through
             the Earth is no longer than the way around it, so two points are at most d apart, and
             their lattice points at most d + sqrt(3) steps, and what floats add to it: below 2 mm. What
             is shown is computed from the lattice point alone.
    Assumes: points of the domain, latitudes within 90 degrees and longitudes within 360: others give
             NULL. Floats are right to 0.01 mm where a point is put on the lattice.
    Source:  [Andres2013], [WGS84]

    In space, not in a plane: noise that is the same everywhere has no pole, no date line and no
    degree that is longer at one place than at another. Of the length of the noise, 3 / epsilon metres
    in the mean, what is across the ground is 3 pi / 4 / epsilon, 2.36 for the plane's 2.
    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._lock = threading.Lock()
        self._drawn: dict[int, list[Place]] = {}  # by scale; each is used once, by one process
        self._process = os.getpid()

    def __call__(
        self, latitude: float | None, longitude: float | None, epsilon: float | None
    ) -> dict[str, float] | None:
        """Return the point moved, None for one that isn't on the Earth or an epsilon out of range."""
        if latitude is None or longitude is None or epsilon is None:
            return None
        if not (abs(latitude) <= 90 and abs(longitude) <= 360):  # nor NaN
            return None
        try:
            scale = scale_of(exact(epsilon, name="epsilon per metre"))
        except ParameterError:
            return None
        north, east = moved_to(latitude, longitude, self._noise(scale))
        return {"lat": north, "lon": east}

    def _noise(self, scale: int) -> Place:
        with self._lock:
            if len(self._drawn) >= _MOST_SCALES or self._process != os.getpid():
                self._process = os.getpid()
                self._drawn.clear()
            waiting = self._drawn.get(scale)
            if not waiting:
                rows = draw(scale, _BATCH, self._sampler).tolist()
                waiting = self._drawn[scale] = [(x, y, z) for x, y, z in rows]
            return waiting.pop()
