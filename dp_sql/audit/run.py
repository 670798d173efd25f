"""Runs trials: both neighbours through the whole engine, and the bound of what tells them apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dp_sql.audit.bounds import Samples, epsilon_at_least
from dp_sql.audit.trials import Shape, Trial, schema_text, shapes, strata, trials, write
from dp_sql.connection import connect
from dp_sql.dataclass import dataclass
from dp_sql.errors import ParameterError, QueryError
from dp_sql.privacy.amount import exact
from dp_sql.privacy.unit import Adjacency
from dp_sql.schema.catalog import Catalog

ALPHA = 1e-6
"""With this probability at most a line's bound passes the claim of a mechanism that keeps it."""

_NULL = -1e9  # what an attacker reads for NULL: no value of a trial is near it


@dataclass(frozen=True, slots=True)
class Finding:
    """What one trial found.

    claim, delta: what the statement was charged. bound: the epsilon that the answers show at least,
    -inf where they show nothing; None where the statement was refused, and `reason` says why.
    """

    trial: Trial
    claim: Fraction
    delta: Fraction
    bound: float | None
    runs: int
    reason: str = ""

    @property
    def broken(self) -> bool:
        """Whether the answers show more than is claimed."""
        return self.bound is not None and self.bound > self.claim


def audit(
    catalog: Catalog, *, epsilon: str, runs: int, mechanisms: Sequence[str] = ()
) -> Iterator[Finding]:
    """Yield a finding for each mechanism that the schema's tables can use.

    epsilon: of each statement. runs: at most, on each neighbour. mechanisms: names or families; all
    where there are none. The owner's data, and the ledger, are not looked at. Raises ParameterError for
    an amount that is none, or a mechanism that no table has.
    """
    if exact(epsilon, name="epsilon") <= 0:
        raise ParameterError("epsilon must be above 0.", hint="--epsilon 1")
    if not 2 <= runs <= 1_000_000:
        raise ParameterError("an audit has between 2 and 1,000,000 runs.", hint="--runs 2000")
    if catalog.unit.adjacency is Adjacency.METRIC:
        raise ParameterError(
            "places that move by a radius are not audited.", hint="adjacency: add_remove"
        )
    able = list(trials(catalog))
    known = {name for trial in able for name in (trial.name, trial.family)}
    for name in mechanisms:
        if name not in known:
            raise ParameterError(
                f"no table has the mechanism {name!r}.", hint=", ".join(sorted(known))
            )
    for trial in able:
        if not mechanisms or {trial.name, trial.family} & set(mechanisms):
            yield _finding(trial, catalog, epsilon, runs)


def _finding(trial: Trial, catalog: Catalog, epsilon: str, runs: int) -> Finding:
    bounds, costs, made = [], [], []
    plans = list(shapes(trial, catalog.unit, runs))
    parts = len(plans) * len(strata(trial))
    for shape in plans:
        try:
            first, second = (
                _answers(trial, catalog, shape, epsilon, there=there) for there in (False, True)
            )
        except QueryError as error:
            return Finding(trial, Fraction(0), Fraction(0), None, 0, error.message)
        costs += [first[1:], second[1:]]
        made.append(shape.runs)
        claimed = max(delta for _, delta in costs)
        bounds += [
            epsilon_at_least(one, other, delta=float(claimed), alpha=ALPHA / parts)
            for one, other in zip(first[0], second[0], strict=True)
        ]
    claim, delta = (max(amounts) for amounts in zip(*costs, strict=True))
    return Finding(trial, claim, delta, max(bounds), min(made))


def _answers(
    trial: Trial, catalog: Catalog, shape: Shape, epsilon: str, *, there: bool
) -> tuple[list[Samples], Fraction, Fraction]:
    """Return what is shown of one neighbour, for each stratum a row a run, and what it cost."""
    groups = shape.runs * shape.places
    call = "" if trial.call is None else f", {trial.call} AS v"
    with TemporaryDirectory(prefix="dpsql-audit-") as folder:
        place = Path(folder)
        (place / "schema.yaml").write_text(schema_text(trial, catalog, shape), encoding="utf-8")
        write(trial, catalog.unit, shape, place / "made_up.duckdb", there=there)
        with connect(place / "schema.yaml", ledger=":memory:") as connection:
            sql = f"SELECT group_{call} FROM made_up GROUP BY group_"
            result = connection.sql(sql, epsilon=epsilon, delta=trial.delta)
    cost = result.cost["made_up"]
    found = np.zeros(groups * len(strata(trial)))
    for row in result:
        if row[0] is None:
            continue
        value = 1 if trial.call is None else row[1]
        found[row[0] - 1] = _NULL if value is None else value
    samples = found.reshape(len(strata(trial)), shape.runs, shape.places)
    return list(samples), cost.epsilon, cost.delta
