"""A statement over a Poisson sample of the units: who asks for it, and what the answer says of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dp_sql.budget.accountant import filter_of, order_of, price
from dp_sql.errors import ParameterError, UnsupportedSQLError
from dp_sql.mechanisms.measurement import Measurement
from dp_sql.mechanisms.noise import NoiseKind
from dp_sql.plan.accuracy import Accuracy
from dp_sql.plan.release import Query
from dp_sql.privacy.amount import Amount, show
from dp_sql.privacy.sampling import parse_rate
from dp_sql.schema.catalog import BudgetSpec


def sampled(query: Query, sample_rate: Amount | None, accuracy: Accuracy | None) -> Query:
    """Return a statement whose releases read a sample at the rate of the call, else their own.

    accuracy: what the call asks for in place of an epsilon.
    Raises ParameterError for a rate that isn't one, and where an accuracy is asked for too, and
    UnsupportedSQLError for a statement that reads nothing to sample.
    """
    releases = query.releases
    if sample_rate is not None:
        rate = parse_rate(sample_rate)
        if not releases:
            raise UnsupportedSQLError(
                "this statement reads public data only, and a sample is of protected rows.",
                hint="leave sample_rate out",
            )
        releases = tuple(replace(r, options=replace(r.options, sample_rate=rate)) for r in releases)
    options = [release.options for release in releases if release.options.sample_rate is not None]
    if not options:
        return query
    if accuracy is not None or any(o.accuracy is not None for o in options):
        raise ParameterError(
            "within isn't answered over a sample: its error has more than noise in it.",
            hint="epsilon=0.5, or leave sample_rate out",
        )
    rates = ", ".join(dict.fromkeys(show(o.sample_rate) for o in options if o.sample_rate))
    note = f"Numbers are those of a sample that holds each unit with probability {rates}."
    return replace(query, releases=releases, notes=(*query.notes, note))


def cheaper(ways: Sequence[Measurement], budgets: Sequence[BudgetSpec | None]) -> Measurement:
    """Return the measurement of one release over a sample whose noise costs least for its size.

    budgets: of its tables. Steps are many, so what counts is the variance of the noise times what the
    accountant sums: half of the noise for four times the price gains nothing. An accountant that sums
    epsilons takes the same for all ways, so there it is the variance alone. At delta 1e-8 and a budget of
    (1, 1e-6), whose order is 22, a Laplace number against a Gaussian one, deviation and RDP:

        rate    epsilon      Laplace           Gaussian
        0.001   0.01     0.59  0.000074    1.7   0.0000046
        0.001   0.1      0.30  0.0016      0.95  5.0
        0.01    0.1      0.58  0.013       1.9   0.00040
        0.01    0.5      0.34  0.29        1.1   3.6
        0.1     0.1      2.0   0.048       6.4   0.0029
        0.1     1        0.49  0.88        1.7   1.2
    """
    return min(ways, key=lambda way: _size(way) + _price(way, budgets))


def _size(way: Measurement) -> float:
    """Return the mean logarithm of the variance of a vector's noise, in steps of the vector."""
    noises = [noise for noise in way.noises if noise.kind is not NoiseKind.NONE]
    sizes = [
        2 * math.log(n.scale / n.lattice) + math.log(2) * (n.kind is NoiseKind.LAPLACE)
        for n in noises
    ]
    return sum(sizes) / max(1, len(sizes))


def _price(way: Measurement, budgets: Sequence[BudgetSpec | None]) -> float:
    """Return the logarithm of what the dearest of the accountants sums, 0 where none sums a divergence."""
    prices = []
    for budget in budgets:
        if budget is not None:
            rule = filter_of(budget, order_of(budget))
            rdp = price(rule, way.cost).rdp
            prices += [rdp / max(1, rule.rdp)] if rdp else []
    return math.log(max(prices)) if prices else 0.0
