"""Concentrated privacy: a bound on an event at all Rényi orders at once, and budgets of its sums."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
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
from dp_sql.privacy.renyi import rdp_budget


def zcdp(event: Event) -> Fraction:
    """Return rho such that the event's Rényi divergence is at most a rho at every order a > 1.

    Claim:   it is epsilon^2 / 2 for an epsilon-DP mechanism, and no more than epsilon; and
             l2^2 / (2 scale^2) for discrete Laplace noise as for discrete Gaussian noise.
    Why:     D_a <= a epsilon^2 / 2 for epsilon-DP, and D_a <= epsilon <= a epsilon. A coordinate that
             moves by s under Laplace noise of scale t is s/t-DP; independent coordinates add their
             divergences, so with squares s^2 / (2 t^2) they add up to l2^2 / (2 t^2). A sample of
             Gaussian noise adds nothing that holds at all orders: its divergence is at most that of the
             noise without it. Where all its noise is Laplace noise it is a pure mechanism, amplified.
             Key selection is its noise; what `delta` covers is summed apart.
    Assumes: the event bounds what neighbours differ in.
    Source:  [BunSteinke2016], Proposition 1.4 (pure) and Lemma 1.7 (composition);
             [CanonneKamathSteinke2020], Theorem 4 (discrete Gaussian).
    """
    match event:
        case LaplaceEvent(scale=scale, change=change):
            return min(
                Fraction(change.l2_squared, 2 * scale**2),
                Fraction(change.l1, scale),
            )
        case GaussianEvent(sigma=sigma, l2_squared=l2_squared):
            return Fraction(l2_squared, 2 * sigma**2)
        case KeySelectionEvent(noise=noise):
            return zcdp(noise)
        case PureEvent(epsilon=epsilon) | ApproximateEvent(epsilon=epsilon):
            return min(epsilon**2 / 2, epsilon)
        case SampledEvent(noises=noises):
            plain, pure = sum(map(zcdp, noises), Fraction(0)), pure_epsilon(event)
            return plain if pure is None else min(plain, pure**2 / 2, pure)
        case _:
            assert_never(event)


def rho_budget(epsilon: Fraction, delta: Fraction, alpha: float) -> Fraction:
    """Return rho such that rho-zCDP gives (epsilon, delta)-DP by the order `alpha`, rounded down.

    rho-zCDP is a divergence of at most alpha rho there. The result is below 0 where the order leaves no
    room. Raises ValueError as `privacy.renyi.conversion` does.
    """
    return rdp_budget(epsilon, delta, alpha) / Fraction(alpha)


def squares_budget(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return S such that squared epsilons that add up to S give (epsilon, delta)-DP, rounded down.

    It solves epsilon = sqrt(2 ln(1/delta) S) + S/2, which is the theorem of advanced composition: with
    l = 2 ln(1/delta), sqrt(S) = sqrt(l + 2 epsilon) - sqrt(l) = 2 epsilon / (sqrt(l + 2 epsilon) + sqrt(l)).
    Raises ValueError unless epsilon > 0 and 0 < delta < 1. Source: [Whitehouse2023], Theorem 1.

    Each of the ten operations errs by a share of 10^-59 at most, the logarithm too: delta is at most
    1 - 1/denominator, which the digits hold. 10^-40 of the result is taken off.
    """
    if not 0 < delta < 1 or epsilon <= 0:
        raise ValueError("a budget of squares needs epsilon above 0 and delta between 0 and 1")
    size = digits_of(delta.denominator) + digits_of(epsilon.numerator // epsilon.denominator + 1)
    with localcontext(context(60 + 2 * size)):
        odds = 2 * (Decimal(delta.denominator) / delta.numerator).ln()
        asked = 2 * Decimal(epsilon.numerator) / epsilon.denominator
        root = asked / ((odds + asked).sqrt() + odds.sqrt())
        found = root * root
    return Fraction(found) * (1 - Fraction(1, 10**40))
