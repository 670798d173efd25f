"""Batches whose noise is calibrated for all statements together: one guarantee, and far less noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from fractions import Fraction
from functools import reduce

from dp_sql.batch import Batch, Spending, error_of
from dp_sql.budget.record import Charge
from dp_sql.charges import Records, charges_of
from dp_sql.dataclass import dataclass
from dp_sql.errors import QueryError
from dp_sql.mechanisms.measurement import coordinates
from dp_sql.mechanisms.noise import NoiseKind
from dp_sql.mechanisms.together import joint_epsilon
from dp_sql.privacy.concentrated import zcdp
from dp_sql.privacy.cost import FREE, Cost
from dp_sql.privacy.event import selection_delta
from dp_sql.repeats import Draws, Known, Repeats
from dp_sql.result import Result
from dp_sql.schema.catalog import AccountantKind, Catalog
from dp_sql.stages import Prepared

_TRIES = 10
_NEAR = Fraction(
    199, 200
)  # of the epsilon that is asked: what is proved is that much of it at least
_AIM = 0.998  # of the epsilon that is asked: what the search looks for
_WORTH = 0.9  # joint noise costs delta, so its squared error is to be that much less
_OF_KEYS = Fraction(9, 10)  # of delta: what the statements that select keys may have of it together
_DIGITS = 10**12

JOINT = "Its noise was calibrated with that of the whole batch: the cost is that of all of it."

Prepare = Callable[[str, Spending], Prepared]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to answer a batch.

    charge: where noise is joint, what some of the statements, or of their releases, owe each table, by
    its lower-cased name; None where each statement owes its own. text: what the ledger notes then.
    """

    prepared: tuple[Prepared, ...]
    charge: Callable[[Sequence[Prepared]], Mapping[str, Charge]] | None = None
    text: str = ""

    def costs(self, known: Sequence[Known]) -> list[Mapping[str, Cost] | None]:
        """Return what each statement's answer says that it cost with all others, None for what it owes."""
        if self.charge is None:
            return [None for _ in known]
        charges = self.charge([one.drawn for one in known])
        return [{t: charges[t].cost for t in one.prepared.costs} for one in known]

    def asked(self, asked: Batch, repeats: Repeats) -> tuple[Draws, list[Known], Records]:
        """Return the statements with what was released before, and what the ledger is to note of them.

        Claim:   what is released now is charged, and what the analyst is shown for the first time counts
                 against his or her part; what was released before costs nothing.
        Why:     releases that are drawn now are some of those whose noise was found to be private
                 together, with the same noise, so what holds of all holds of these (`charge`).
        Assumes: `Repeats.run` draws those alone.
        Source:  [Dwork2006b]
        """
        draws = Draws()
        joint = self.charge is not None
        known = [repeats.known(one, draws, joint=joint) for one in self.prepared]
        if self.charge is None or not any(one.learned.costs for one in known):
            return draws, known, repeats.records(asked.queries, known)
        drawn = self.charge([one.drawn for one in known])
        shown = self.charge([one.shown for one in known])
        owed = {t: drawn.get(t, Charge(FREE)) for one in known for t in one.listed.costs}
        records = repeats.record(self.text, repeats.with_learned(owed, shown))
        return draws, known, records


def in_order(given: Batch, asked: Batch, results: Sequence[Result]) -> list[Result]:
    """Return the results of a batch: of statements that were answered once, the others as repeats.

    asked: `given`, or that of its distinct statements, whose results are in its order.
    """
    if len(given.queries) == len(asked.queries):
        return list(results)
    found, shown = dict(zip(asked.queries, results, strict=True)), set[str]()
    answers = []
    for query in given.queries:
        answers.append(_again(found[query]) if query in shown else found[query])
        shown.add(query)
    return answers


def _again(result: Result) -> Result:
    again = copy(result)
    again.cost, again.repeated = {}, True
    again.notes = tuple(note for note in result.notes if note != JOINT)
    return again


def ways(asked: Batch, delta: Fraction, prepare: Prepare, catalog: Catalog) -> Iterator[Way]:
    """Yield the ways to answer a batch, that with less noise first: jointly, and in parts that add up.

    delta: of all statements together, where noise is joint. prepare: returns a statement with what it
    may spend alone, or raises QueryError.
    """
    prepare = _remembered(prepare)
    plain = [prepare(*each) for each in zip(asked.queries, asked.even(), strict=True)]
    spent = asked.split(plain)
    plain = [prepare(*each) for each in zip(asked.queries, spent, strict=True)]
    asked.check(plain)
    joint = jointly(asked, delta, plain, prepare, catalog)
    if joint is not None:
        yield joint
    yield Way(tuple(plain))


def _remembered(prepare: Prepare) -> Prepare:
    """Return a function that prepares equal statements once, but those that read a sample each.

    Claim:   no two statements of a batch read one sample.
    Why:     the key of a sample is drawn when a statement is prepared, and is part of what is prepared.
             Each statement's noise is its own either way.
    Assumes: whatever reads a sample says so in its facts. Events of two releases add up only where
             their samples are independent: `privacy.sampling` is about one release on one.
    Source:  [MironovTalwarZhang2019]
    """
    found: dict[tuple[str, Spending], Prepared] = {}

    def ask(query: str, spending: Spending) -> Prepared:
        known = found.get((query, spending))
        if known is not None:
            return known
        made = prepare(query, spending)
        if not made.sampled:
            found[query, spending] = made
        return made

    return ask


def jointly(
    asked: Batch,
    delta: Fraction,
    plain: Sequence[Prepared],
    prepare: Prepare,
    catalog: Catalog,
) -> Way | None:
    """Return a batch with noise that is private for all statements together, where that is less noise.

    plain: the statements with parts that add up; the others as `ways` has them. None too where some
    account can't be charged for all as for one.

    Claim:   all answers together are (epsilon, delta)-DP for every table, and each table is charged a
             guarantee of all that its statements tell anew: the events of what is drawn, and an
             (epsilon, delta) of these.
    Why:     `joint_epsilon` of all events is at most the epsilon that is asked; noise is made for one
             candidate after the other, before a row is read, so events depend on no answer. A
             table's releases that are drawn are some of these. Its charge is one entry, never shares of one:
             whatever an accountant takes, events or a statement's epsilon and delta, it takes of a cost
             that is true as a whole. Accountants that sum pure epsilons alone would take more than is
             asked, and blocks that only some statements name would be charged for others: such
             batches stay with their parts.
    Assumes: what `joint_epsilon` does; the error that decides is public, as in `Batch.split`.
    Source:  [Dwork2006b] for the charge of several tables
    """
    if delta <= 0 or sum(bool(one.costs) for one in plain) < 2 or not _chargeable(plain, catalog):
        return None
    try:
        found = _Search(asked, delta, plain, prepare).run()
    except QueryError:
        return None
    if found is None or _error(asked, found) > _WORTH * _error(asked, plain):
        return None
    owing = [query for query, one in zip(asked.queries, found, strict=True) if one.costs]

    def charge(some: Sequence[Prepared]) -> dict[str, Charge]:
        return dict(_charges(some, asked.epsilon, delta, catalog))

    return Way(tuple(found), charge, ";\n".join(owing))


def _chargeable(plain: Sequence[Prepared], catalog: Catalog) -> bool:
    """Return whether every account can be charged for the statements as for one."""
    people = catalog.people
    for table in {table for one in plain for table in one.costs}:
        budget = catalog.tables[table].budget
        kinds = [b.accountant for b in (budget, people) if b is not None]
        debits = {None if (d := one.debits.get(table)) is None else d.blocks for one in plain}
        if AccountantKind.PURE in kinds or debits != {None}:
            return False
    return True


def _deltas(plain: Sequence[Prepared], delta: Fraction) -> list[Fraction]:
    """Return what each statement may spend of delta alone: those that select keys have more."""
    selecting = [
        any(map(selection_delta, (e for cost in one.costs.values() for e in cost.events)))
        for one in plain
    ]
    most = delta * _OF_KEYS / max(1, sum(selecting))
    even = delta / len(plain)
    found = [most if selects else even for selects in selecting]
    return [Fraction(int(one * _DIGITS**2), _DIGITS**2) for one in found]


def _error(asked: Batch, prepared: Sequence[Prepared]) -> float:
    """Return the weighted sum of squared errors of some statements."""
    pairs = zip(asked.weights, prepared, strict=True)
    return sum(float(weight) * error_of(one) for weight, one in pairs)


def proved(prepared: Sequence[Prepared], delta: Fraction) -> Fraction | None:
    """Return an epsilon at which statements are together (epsilon, delta)-DP, None where none is found."""
    steps = [step for one in prepared for step in one.steps]
    changed = sum(
        coordinates(fact.change)
        for step in steps
        for noise, fact in zip(step.measurement.noises, step.facts.vectors, strict=True)
        if noise.kind is NoiseKind.GAUSSIAN
    )
    events = [event for step in steps for event in step.measurement.cost.events]
    return joint_epsilon(events, delta, changed)


class _Search:
    """Looks for the largest factor of all statements' epsilons at which the batch is private."""

    def __init__(
        self,
        asked: Batch,
        delta: Fraction,
        plain: Sequence[Prepared],
        prepare: Prepare,
    ) -> None:
        self._asked, self._delta, self._plain = asked, delta, plain
        self._deltas = _deltas(plain, delta)
        self._prepare = prepare

    def run(self) -> list[Prepared] | None:
        """Return the statements with least noise that were seen to be private, None where none were.

        The error of a statement is c^2 / rho, where rho, its zCDP, is nearly what adds up. The weighted
        sum is least where each rho is in proportion to sqrt(weight) c, a Lagrangian's derivative, and rho
        is nearly in proportion to the square of the statement's own epsilon. With error and rho at one
        epsilon for all, that is to grow by (weight error / rho)^(1/4).
        """
        count, target = len(self._plain), float(self._asked.epsilon)
        even = target / count**0.5
        first = self._at([even] * count)
        wanted = [
            (float(weight) * error_of(one) / _rho(one)) ** 0.25 if one.costs else 1.0
            for weight, one in zip(self._asked.weights, first, strict=True)
        ]
        factor = even / (sum(w * w for w in wanted) / count) ** 0.5
        seen = proved(first, self._delta)
        if not seen:
            return None
        points = [(math.log(factor), math.log(seen))]
        factor *= target / float(seen)
        low, high = 0.0, math.inf
        best: list[Prepared] | None = None
        for _ in range(_TRIES):
            found = self._at([factor * want for want in wanted])
            epsilon = proved(found, self._delta)
            if not epsilon:
                return best
            if epsilon <= self._asked.epsilon:
                best, low = found, factor
                if epsilon >= self._asked.epsilon * _NEAR:
                    break
            else:
                high = factor
            points.append((math.log(factor), math.log(epsilon)))
            factor = math.exp(_crossing(points[-2:], math.log(target * _AIM)))
            if not low < factor < high:
                factor = (low + min(high, 4 * low)) / 2
        return best

    def _at(self, epsilons: Sequence[float]) -> list[Prepared]:
        """Return the statements with these epsilons, each alone."""
        found = []
        for i, (query, plain) in enumerate(zip(self._asked.queries, self._plain, strict=True)):
            own = Fraction(max(1, int(epsilons[i] * _DIGITS)), _DIGITS)
            spending = Spending(own, self._deltas[i], gaussian=True)
            found.append(self._prepare(query, spending) if plain.costs else plain)
        return found


def _crossing(points: Sequence[tuple[float, float]], target: float) -> float:
    """Return where the line through two points reaches a height; its slope is kept near 1."""
    (x0, y0), (x1, y1) = points
    slope = (y1 - y0) / (x1 - x0) if x1 != x0 else 1.0
    return x1 + (target - y1) / min(2.0, max(0.5, slope))


def _rho(prepared: Prepared) -> float:
    """Return the zCDP of a statement, all of its releases together; above 0."""
    events = [event for step in prepared.steps for event in step.measurement.cost.events]
    return float(sum(map(zcdp, events), Fraction(0)))


def _charges(
    prepared: Sequence[Prepared], epsilon: Fraction, delta: Fraction, catalog: Catalog
) -> Iterator[tuple[str, Charge]]:
    """Yield what statements that have this guarantee, with others or alone, owe each table."""
    for table in sorted({table for one in prepared for table in one.costs}):
        own = [one for one in prepared if table in one.costs]
        costs = [charges_of(one, catalog)[table].cost for one in own]
        least = proved(own, delta)
        found = epsilon if least is None else min(epsilon, least)
        yield table, Charge(Cost(found, delta, reduce(Cost.__add__, costs).events))
