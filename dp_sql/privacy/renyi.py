"""Rényi curves of events, and the order at which a table's Rényi filter keeps its sum.

Every loss is rounded up and every budget down: the arithmetic is decimal with as many digits as the
arguments call for, and the error of the last digits is added to the result before it becomes a
float.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

from dp_sql.privacy.decimals import context, digits_of
from dp_sql.privacy.event import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    KeySelectionEvent,
    LaplaceEvent,
    PureEvent,
    SampledEvent,
    pure_epsilon,
)
from dp_sql.privacy.sampling import log_moment, sampled

_MUCH = 20  # an epsilon of noise on a sample from which on its moments say little more
_LARGEST = 10**300  # the search for an order takes greater budgets for this


def rdp(event: Event, alpha: float) -> float:
    """Return the Rényi divergence of order `alpha` that the event can cause, rounded up.

    alpha: the order, above 1 and finite. The result is at least 0, exactly 0 where nothing moves,
    and infinite where no float holds it. Raises ValueError for another alpha.
    """
    if not 1 < alpha < math.inf:
        raise ValueError("the order of a Rényi divergence must be above 1 and finite")
    match event:
        case LaplaceEvent() | GaussianEvent():
            return _float_up(_rdp_noise(alpha, event))
        case KeySelectionEvent(noise=noise):
            return rdp(noise, alpha)  # what `delta` doesn't cover is the noise on the counts
        case PureEvent(epsilon=epsilon) | ApproximateEvent(epsilon=epsilon):  # but for its `delta`
            return _float_up(_rdp_pure(alpha, epsilon))
        case SampledEvent():
            return _float_up(_rdp_sampled(alpha, event))
        case _:
            assert_never(event)


def _rdp_noise(alpha: float, noise: LaplaceEvent | GaussianEvent) -> Fraction:
    """Return the divergence of noise that reads all units; of Gaussian noise that of the continuous one.

    The bound of the continuous Gaussian holds on the integers.
    Source: [CanonneKamathSteinke2020], Proposition 5.
    """
    match noise:
        case LaplaceEvent(scale=scale, change=change):
            return max(
                sum((n * _rdp_laplace(alpha, s, scale) for s, n in profile if n), Fraction(0))
                for profile in change.profiles
            )
        case GaussianEvent(sigma=sigma, l2_squared=l2_squared):
            return Fraction(alpha) * l2_squared / (2 * sigma**2)
        case _:
            assert_never(noise)


def _rdp_sampled(alpha: float, event: SampledEvent) -> Fraction:
    """Return the divergence of noise on a sample: by its moments or, where it is pure, by its epsilon."""
    plain, pure = _unsampled(alpha, event), pure_epsilon(event)
    if pure is not None and pure > _MUCH:
        return min(plain, _rdp_pure(alpha, pure))
    found = sampled(alpha, plain, lambda order: _moment(order, event))
    return found if pure is None else min(found, _rdp_pure(alpha, pure))


@lru_cache(maxsize=4096)
def _moment(order: int, event: SampledEvent) -> Fraction:
    normal = [noise for noise in event.noises if isinstance(noise, GaussianEvent)]
    slope = sum(
        (_rdp_noise(1, noise) for noise in normal), Fraction(0)
    )  # in proportion to the order
    others = [noise for noise in event.noises if isinstance(noise, LaplaceEvent)]

    def exponent(k: int) -> Fraction:
        return (k - 1) * (k * slope + sum(_rdp_noise(k, noise) for noise in others))

    return log_moment(order, event.rate, exponent)


def _unsampled(alpha: float, event: SampledEvent) -> Fraction:
    """Return the divergence of the noise of an event on a sample, if all units were in it."""
    return sum((_rdp_noise(alpha, noise) for noise in event.noises), Fraction(0))


@lru_cache(maxsize=2**14)
def _rdp_laplace(alpha: float, shift: int, scale: int) -> Fraction:
    """Return D_alpha between discrete Laplace noise of `scale` at 0 and at `shift`, rounded up.

    The result is at least the truth, and above it by less than 1e-20 of it.

    Claim:   with r = exp(-1/scale) and q = r^(2 alpha - 1) the divergence is
             f(s) = s/scale + ln(1 - C (1 - q^s)) / (alpha - 1),  C = (r - q) / ((1 + r)(1 - q)),
             and f is even, convex and increasing in |s|, so that the sum of f over coordinates is
             largest at a vertex of the set of changes, as `Change` claims.
    Why:     sum p(k)^alpha p(k-s)^(1-alpha) over k <= 0, 0 < k < s and k >= s: three geometric
             series, p(k) = (1-r)/(1+r) r^|k|. They add up to
                 (1-r)/(1+r) r^((1-alpha)s) [(1 + q^s)/(1-r) + (q - q^s)/(1-q)]
               = A exp((alpha-1) s/scale) + C exp(-alpha s/scale),  A = 1 - C.
             0 < q < r < 1 makes C positive and below 1/2. The logarithm of a positive sum of
             exponentials of linear functions is convex, so f is convex for s >= 0. f(0) = 0 <= f(s)
             and p is symmetric, so f is even and its slopes never fall: convex on all integers.
    Assumes: alpha > 1; integer shift >= 0 and scale >= 1.
    Source:  [Mironov2017] has the continuous case; the lattice is derived here.

    On the error: an operation errs by a share of at most u = 5 10^-digits of its result. So r, q
    and q^s are within 3 u, the shares of error in 1 - q and 1 - q^s below 6 u scale, that in
    C (1 - q^s) < 1/2 leaves it within 20 u scale, and the result is within
    50 u (scale + shift) / (alpha - 1), where alpha - 1 >= 2^-52. `digits` makes that less than
    10^-margin. f(shift) >= f(1) >= tanh(1 / (2 scale)) / scale > 1 / (4 scale^2), its limit at
    alpha = 1.
    """
    if shift == 0:
        return Fraction(0)
    margin = 21 + 2 * digits_of(scale)
    digits = margin + digits_of(scale) + digits_of(shift) + 19
    with localcontext(context(digits)):
        order = Decimal(alpha)
        x = 1 / Decimal(scale)
        r = (-x).exp()
        exponent = (2 * order - 1) * x
        q = (-exponent).exp()
        moved = 1 - (-exponent * shift).exp()
        share = (r - q) * moved / ((1 + r) * (1 - q))  # C (1 - q^s), below 1/2
        value = shift * x + (1 - share).ln() / (order - 1)
        return Fraction(value) + Fraction(1, 10**margin)


@lru_cache(maxsize=4096)
def _rdp_pure(alpha: float, epsilon: Fraction) -> Fraction:
    """Return the largest D_alpha of any `epsilon`-DP mechanism, rounded up.

    Claim:   it is ln((e^(a epsilon) + e^((1 - a) epsilon)) / (1 + e^epsilon)) / (a - 1), a = alpha:
             that of randomised response.
    Why:     every epsilon-DP mechanism is a post-processing of randomised response on the pair of
             neighbours, and post-processing never raises a Rényi divergence.
    Assumes: alpha > 1.
    Source:  [Kairouz2015], [Mironov2017]

    With e^(a epsilon) taken out it is
        (a epsilon + ln(1 + e^((1 - 2a) epsilon)) - epsilon - ln(1 + e^(-epsilon))) / (a - 1)
      = epsilon - ln((1 + e^-epsilon) / (1 + e^((1 - 2a) epsilon))) / (a - 1).
    The result lies between 0 and epsilon, so it is cut there; the error of the logarithms is below
    10^(2 - digits) and is multiplied by at most 2^52.
    """
    if epsilon == 0:
        return Fraction(0)
    margin = 30 + 2 * digits_of(epsilon.denominator) + digits_of(epsilon.numerator)
    with localcontext(context(margin + 40)):
        order = Decimal(alpha)
        e = Decimal(epsilon.numerator) / epsilon.denominator
        lower = (1 + (-e).exp()) / (1 + ((1 - 2 * order) * e).exp())
        value = Fraction(e - lower.ln() / (order - 1)) + Fraction(1, 10**margin)
    return min(epsilon, max(value, Fraction(0)))


def conversion(alpha: float, delta: Fraction) -> float:
    """Return c such that RDP(alpha) <= epsilon - c gives (epsilon, delta)-DP; rounded up.

    c = (ln(1/delta) - ln alpha) / (alpha - 1) + ln(1 - 1/alpha); alpha > 1, 0 < delta < 1. It is
    below 0 where alpha is large against 1/delta. Raises ValueError for another alpha or delta.
    Source: [CanonneKamathSteinke2020], Proposition 12.
    """
    if not 1 < alpha < math.inf or not 0 < delta < 1:
        raise ValueError("a conversion needs alpha above 1 and delta between 0 and 1")
    with localcontext(context(80)):
        order = Decimal(alpha)
        odds = (Decimal(delta.denominator) / delta.numerator).ln()
        value = (odds - order.ln()) / (order - 1) + ((order - 1) / order).ln()
        # The logarithms are below 1e6, alpha - 1 is above 2^-52: the error is far below 1e-40.
        return _float_up(Fraction(value) + Fraction(1, 10**40))


def alpha_star(epsilon: Fraction, delta: Fraction) -> float:
    """Return the order at which a Rényi filter for (epsilon, delta) admits the most zCDP.

    It maximises (epsilon - conversion(alpha, delta)) / alpha, to six digits. Every order above 1 is
    as valid: nothing but accuracy rests on the search, so it runs in floats. A table keeps its
    order for life, whatever this function returns later. Raises ValueError unless 0 < delta < 1.
    """
    if not 0 < delta < 1 or epsilon <= 0:
        raise ValueError("an order needs epsilon above 0 and delta between 0 and 1")
    target = float(min(epsilon, Fraction(_LARGEST)))
    odds = math.log(delta.denominator) - math.log(delta.numerator)

    def admitted(log_excess: float) -> float:
        excess = math.exp(log_excess)
        alpha = 1 + excess
        c = (odds - math.log1p(excess)) / excess + log_excess - math.log1p(excess)
        return (target - c) / alpha

    grid = [step / 4 for step in range(-110, 84)]  # alpha - 1 from 1e-12 to 1e9
    best = max(grid, key=admitted)
    low, high = best - 0.25, best + 0.25
    for _ in range(60):
        third = (high - low) / 3
        if admitted(low + third) < admitted(high - third):
            low += third
        else:
            high -= third
    return 1 + float(f"{math.exp((low + high) / 2):.5e}")


def rdp_budget(epsilon: Fraction, delta: Fraction, alpha: float) -> Fraction:
    """Return B such that a sum of RDP(alpha) of at most B gives (epsilon, delta)-DP, rounded down.

    B is below 0 where the order leaves no room. Raises ValueError as `conversion` does.
    """
    return epsilon - Fraction(conversion(alpha, delta))


def _float_up(value: Fraction) -> float:
    """Return the smallest float that is at least `value`, or infinity."""
    try:
        near = float(value)
    except OverflowError:
        return math.inf
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)
