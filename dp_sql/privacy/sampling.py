"""What a Poisson sample of the units adds to privacy: amplification, in (epsilon, delta) and in Rényi.

A sample holds each unit with probability `rate`, alone and independently of all others. Neighbours
differ by one unit that is there or not. On the one without it let a mechanism's law be p; on the
other it is (1 - q) p + q p', where p' is the law with that unit in the sample: q is the rate, and both
stand for the same sample of all others. What holds for each such sample holds for the mixture over
them, since the hockey-stick divergences and the moments behind Rényi's are jointly convex.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

from dp_sql.errors import ParameterError
from dp_sql.privacy.amount import Amount, exact
from dp_sql.privacy.decimals import context, digits_of

MOST_ORDER = 1024
"""The largest order whose moments are added up; above it sampling isn't counted."""
_HINT = "sample_rate=0.01"
_MARGIN = 40  # digits after the point that are right: far more than a ledger keeps
_LEAST_RATE = Fraction(1, 10**9)


def parse_rate(value: Amount) -> Fraction:
    """Return an exact rate below 1 and at least 1e-9, or raise ParameterError."""
    try:
        rate = exact(value, name="sample_rate")
    except ParameterError as error:
        raise ParameterError(error.message, hint=_HINT) from None
    if not _LEAST_RATE <= rate < 1:
        raise ParameterError("sample_rate must be at least 1e-9 and below 1.", hint=_HINT)
    return rate


def epsilon_before(epsilon: Fraction, rate: Fraction) -> Fraction:
    """Return the epsilon that a mechanism may have on the sample, rounded down, for `epsilon` in all.

    Claim:   a mechanism that is (e, d)-DP on the sample is (e', rate d)-DP on the data, for neighbours
             by adding or removing, where exp(e') = 1 + rate (exp(e) - 1). The result is that e for
             `epsilon` = e'.
    Why:     let E = exp(e), E' = 1 + q (E - 1). Adding: (1 - q) p + q p' <= (1 - q) p + q (E p + d) =
             E' p + q d on every set. Removing: p' >= (p - d) / E, so E' ((1 - q) p + q p') >=
             E' (1 - q + q / E) p - E' q d / E. There E' (1 - q + q / E) = 1 + (q - q^2)(E - 2 + 1 / E)
             >= 1 and E' <= E, so p <= E' ((1 - q) p + q p') + q d.
    Assumes: the sample is Poisson, of whole units, fresh, and seen by nobody.
    Source:  [BalleBartheGaboardi2018]
    """
    whole = digits_of(epsilon.numerator // epsilon.denominator + 1)
    with localcontext(context(60 + whole + digits_of(rate.denominator))):
        asked = Decimal(epsilon.numerator) / epsilon.denominator
        found = (1 + (asked.exp() - 1) * rate.denominator / rate.numerator).ln()
    shown = Fraction(found) - Fraction(1, 10**_MARGIN)
    return max(epsilon, Fraction(math.floor(shown * 10**30), 10**30))


def epsilon_after(epsilon: Fraction, rate: Fraction) -> Fraction:
    """Return what a mechanism that is `epsilon`-DP on the sample is on the data, rounded up.

    It is ln(1 + rate (exp(epsilon) - 1)), by the claim of `epsilon_before`: at most `epsilon`, and
    above the truth by less than 1e-39.
    """
    if epsilon == 0:
        return Fraction(0)
    whole = digits_of(epsilon.numerator // epsilon.denominator + 1)
    with localcontext(context(60 + 2 * whole + digits_of(rate.denominator))):
        known = Decimal(epsilon.numerator) / epsilon.denominator
        found = (1 + (known.exp() - 1) * rate.numerator / rate.denominator).ln()
    return min(epsilon, Fraction(found) + Fraction(1, 10**_MARGIN))


def sampled(alpha: float, plain: Fraction, moment: Callable[[int], Fraction]) -> Fraction:
    """Return the Rényi divergence of order `alpha` of noise on a sample, rounded up.

    plain: that of all the noise without sampling, over all vectors that read the sample. moment:
    `log_moment` of it at an order.

    Claim:   for integers n from 2, both directions are at most ln(A_n) / (n - 1), where
             A_n = sum over k of C(n, k) (1 - q)^(n-k) q^k exp((k - 1) D_k), D_k the divergence without
             sampling and q the rate; between integers (a - 1) times it is at most what a straight line
             between them gives, 0 at 1; and it is D_a at most, always.
    Why:     let p be independent discrete Gaussian or Laplace noise of integers around 0, p' the same
             shifted by an integer vector c, w = p' / p. E_p[w^k] = exp((k - 1) R_k), R_k <= D_k the
             Rényi divergence of p' from p, by its definition. So E_p[(1 - q + q w)^n] <= A_n, by the
             binomial theorem. That is the direction with the unit against the one without.
             The other is B_a = E_p[u(w)^(1 - a)], where A_a = E_p[u(w)^a], u(w) = 1 - q + q w. Both laws
             are even, so the map x -> c - x exchanges p and p' and turns w into 1/w: A_a - B_a is half
             of E_p[F(w)], F(w) = (u^a - u^(1-a)) + w (v^a - v^(1-a)), v = u(1/w). F(w) = w F(1/w), so
             let w >= 1.
             With t = 1 / v and b = a - 1/2 that is F = 2 sqrt(u) sinh(b ln u) - 2 w t^(-1/2)
             sinh(b ln t). u is the arithmetic and t the harmonic mean of 1 and w with the same weights,
             so u >= t >= 1, and sinh(b ln u) / sinh(b ln t) never falls as b grows. At b = 1/2 F is
             u - 1 + w (v - 1) = 0. So F >= 0 for every a >= 1: B_a <= A_a.
             ln A_a and ln B_a are convex in a, as logarithms of moments, and 0 at a = 1: the line. The
             last bound: a mixture of p with itself and of p' with p is no further apart than p' and p.
    Assumes: one sample of whole units, each alone, for all vectors; integer shifts, sigmas and scales.
    Source:  [MironovTalwarZhang2019] has the formula for continuous noise, and both directions;
             [CanonneKamathSteinke2020] and `renyi` the discrete laws. The lattice is derived here.
    """
    if plain == 0 or alpha > MOST_ORDER:
        return plain
    order, below = Fraction(alpha), math.floor(alpha)
    ends = [moment(n) if n > 1 else Fraction(0) for n in (below, below + 1)]
    between = (below + 1 - order) * ends[0] + (order - below) * ends[1]
    return min(plain, between / (order - 1))


def log_moment(order: int, rate: Fraction, exponent: Callable[[int], Fraction]) -> Fraction:
    """Return ln(A_n) of `sampled` for n = order, at least 2, rounded up by about 10^-_MARGIN.

    exponent: (k - 1) D_k, for a k from 2, D_k being the divergence without sampling.

    A_n - 1 is added up, since the weights of the binomial law add up to 1: the terms of k = 0 and 1
    are none. All terms are positive, so each operation adds a share of its rounding alone. With y the
    largest exponent, an exponential errs by a share of 10^-digits (1 + y), and the sum of n terms by n
    times that and what its powers add; `digits` has 20 more than y, n and the margin take.
    """
    exponents = [exponent(k) for k in range(2, order + 1)]
    largest = max(exponents)
    size = digits_of(largest.numerator // largest.denominator + 1)
    with localcontext(context(_MARGIN + 20 + 2 * size + 2 * digits_of(order))):
        chosen = Decimal(rate.numerator) / rate.denominator
        odds = Decimal(rate.numerator) / (rate.denominator - rate.numerator)
        weight = order * odds * (1 - chosen) ** order  # of the term k = 1
        total = Decimal(0)
        for k, found in enumerate(exponents, start=2):
            weight = weight * (order - k + 1) / k * odds
            total += weight * ((Decimal(found.numerator) / found.denominator).exp() - 1)
        value = (1 + total).ln()
    return Fraction(value) + Fraction(1, 10**_MARGIN)
