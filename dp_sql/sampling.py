"""A statement over a Poisson sample of the units: who asks for it, and what the answer says of it."""

from __future__ import annotations

from dataclasses import replace

from dp_sql.errors import ParameterError, UnsupportedSQLError
from dp_sql.plan.accuracy import Accuracy
from dp_sql.plan.release import Query
from dp_sql.privacy.amount import Amount, show
from dp_sql.privacy.sampling import parse_rate


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
