"""Accuracy first: the smallest epsilon at which every shown count and sum is near enough. Reads no data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from dp_sql.amounts import Amounts, Part, parts
from dp_sql.dataclass import dataclass
from dp_sql.errors import BudgetExceededError, ParameterError, QueryError, UnsupportedSQLError
from dp_sql.mechanisms.measurement import Measurement
from dp_sql.mechanisms.noise import NoiseKind
from dp_sql.mechanisms.spread import has_public_noise, shown_within, spread_of
from dp_sql.plan.accuracy import Accuracy, read_accuracy
from dp_sql.plan.histogram import Bin
from dp_sql.plan.public import PublicFacts
from dp_sql.plan.release import Aggregate, AggregateKind, PlannedRelease, Query, Release
from dp_sql.privacy.amount import Amount, show
from dp_sql.schema.catalog import Catalog, PrivacyDefaults
from dp_sql.stages import measured

_DIGITS = 900  # candidates of one power of ten: 100 to 999
_DECADES = 15  # candidates go from 1e-9 to 1e6
_LAST = _DIGITS * _DECADES
_FIRST = Fraction(1)  # what can't be answered with it is refused
_BELOW = 4  # how many times smaller than the first candidate found another one may be
_STEP = Fraction(21, 20)

_PUBLIC = frozenset(
    {
        AggregateKind.COUNT_STAR,
        AggregateKind.COUNT,
        AggregateKind.COUNT_OWNERS,
        AggregateKind.COUNT_DISTINCT,
        AggregateKind.SUM,
        AggregateKind.REGR_COUNT,
        AggregateKind.VECTOR_SUM,
        AggregateKind.SAMPLE,
    }
)  # kinds whose noise can be known without the data

Trial = list[tuple[PlannedRelease, Measurement]]


def read_asked(
    within: Amount | None, confidence: Amount | None, epsilon: Amount | None
) -> Accuracy | None:
    """Return the accuracy that a call asks for, or None. Raises ParameterError, also beside an epsilon."""
    if within is None:
        if confidence is not None:
            raise ParameterError(
                "confidence belongs to within.", hint="within=100, confidence=0.95"
            )
        return None
    if epsilon is not None:
        raise ParameterError(
            "epsilon and within can't both be given: within finds the epsilon.",
            hint="within=100, or epsilon=0.5",
        )
    return read_accuracy(within, confidence)


def accurate(
    query: Query,
    asked: Accuracy | None,
    call: Amounts,
    session: Amounts,
    catalog: Catalog,
    public: PublicFacts,
) -> tuple[Query, Amounts]:
    """Return a statement and the amounts of its call, with the epsilon that its accuracy takes.

    asked: by the call; where it is None, the statement's privacy clause may ask. Both stay as they
    are where nobody does. A note says what was found.

    Claim:   nothing about protected rows shows in the epsilon.
    Why:     it is a function of the statement, the schema and public tables: plans and noise are made
             for one candidate after the other, and none of that reads protected rows.
    Assumes: nothing more.
    Source:  [Ligett2017]

    Raises UnsupportedSQLError where the error of a shown value depends on the data, and
    ParameterError where no epsilon that is allowed suffices.
    """
    accuracy = _asked(query, asked, call)
    if accuracy is None:
        return query, call
    release = _only_release(query)
    search = _search(query, release, accuracy, call, session, catalog, public)
    found = search.smallest()
    if found is None:
        raise ParameterError(
            f"no epsilon up to {show(_value(_LAST))} gives answers {accuracy}.",
            hint="a larger within",
        )
    epsilon = _value(found)
    _check_cap(search, accuracy, epsilon, catalog.defaults)
    note = f"Values {accuracy} take epsilon {show(epsilon)}."
    if any(plan.private for plan, _ in search.trial(found)):
        note += " A group that is shown because its noise was large is further off more often."
    query = replace(query, notes=(*query.notes, note), accuracy=accuracy)
    return query, replace(call, epsilon=epsilon)


def _asked(query: Query, asked: Accuracy | None, call: Amounts) -> Accuracy | None:
    """Return the accuracy of the call or the clauses. Raises QueryError where epsilon is said too."""
    options = [release.options for release in query.releases]
    own = next((o.accuracy for o in options if o.accuracy is not None), None)
    said = next((o.epsilon for o in options if o.epsilon is not None), None)
    if (asked is None or said is None) and (own is None or call.epsilon is None):
        return asked or own
    text, position = (None, None) if said is None or said.place is None else said.place
    raise ParameterError(
        "the call and the statement say epsilon and within: within finds the epsilon.",
        hint="leave one of them out",
        text=text,
        position=position,
    )


def _only_release(query: Query) -> Release:
    """Return the release of a statement whose errors are those of one release."""
    if not query.releases:
        raise UnsupportedSQLError(
            "within isn't answered: this statement reads public data only and has no noise.",
            hint="leave within out",
        )
    if len(query.releases) > 1 or not query.residual.forms:
        why = (
            "it has several releases"
            if len(query.releases) > 1
            else "its rows aren't the groups of one release"
        )
        raise UnsupportedSQLError(
            f"within isn't answered for this statement: {why}.",
            hint="an epsilon, or COUNT and SUM in the outermost SELECT, which has the GROUP BY",
        )
    return query.releases[0]


def _search(
    query: Query,
    release: Release,
    accuracy: Accuracy,
    call: Amounts,
    session: Amounts,
    catalog: Catalog,
    public: PublicFacts,
) -> _Search:
    """Return the search, once every shown value is known to have a public error."""
    places = {a.name: i for i, a in enumerate(release.aggregates)}
    defaults = replace(catalog.defaults, max_epsilon=None)
    shown = [places[name] for form in query.residual.forms for name in form.reads]
    for place in shown:
        if release.aggregates[place].kind not in _PUBLIC:
            raise _depends(release.aggregates[place])
    (part,) = parts(query, replace(call, epsilon=_FIRST), session, defaults)
    first = [(p, m) for p, _, m in measured(release, catalog, public, part)]
    for place in shown:
        if not all(has_public_noise(p, m, place) for p, m in first):
            raise _depends(release.aggregates[place])
    items = []
    for form in query.residual.forms:
        if form.weights is None:
            aggregate = release.aggregates[places[form.reads[0]]]
            raise _refused(
                aggregate,
                "the error of this expression depends on the values themselves",
                "show COUNT and SUM as they are, their sums, differences and multiples; or epsilon=0.5",
            )
        if form.reads:
            weights = {places[n]: w for n, w in zip(form.reads, form.weights, strict=True)}
            items.append(weights)
    noisy = [i for i in items if any(spread_of(p, m, i).half_width(0.5) for p, m in first)]
    if not noisy:
        raise UnsupportedSQLError(
            "within isn't answered: no value that is shown has noise.",
            hint="an epsilon, or COUNT or SUM in the select list",
        )
    return _Search(release, accuracy, tuple(noisy), part.delta, catalog, public, {})


def _depends(aggregate: Aggregate) -> QueryError:
    """Return the error for an aggregate whose noise isn't public."""
    if aggregate.kind is AggregateKind.COUNT_DISTINCT:
        return _refused(
            aggregate,
            "how many values of one unit count is chosen by the data, and the noise with it",
            "COUNT(DISTINCT x, contribution_bounds_per_group => (0, 5)), or epsilon=0.5",
        )
    if isinstance(aggregate.choice, Bin):
        return _refused(
            aggregate,
            "a map of counts is shown, and within is for single values",
            "SELECT x, COUNT(*) … GROUP BY x, or epsilon=0.5",
        )
    if aggregate.choice is not None:
        return _refused(
            aggregate,
            "how far this value may be off depends on the values around it, which are not public",
            "epsilon=0.5; within is for COUNT and SUM",
        )
    return _refused(
        aggregate,
        "the error of this aggregate depends on how many rows there are, which is not public",
        "epsilon=0.5; within is for COUNT and SUM, asked by themselves",
    )


def _refused(aggregate: Aggregate, why: str, hint: str) -> QueryError:
    text, position = (None, None) if aggregate.place is None else aggregate.place
    return UnsupportedSQLError(
        f"within isn't answered here: {why}.", hint=hint, text=text, position=position
    )


def too_dear(error: BudgetExceededError, query: Query) -> BudgetExceededError:
    """Return the error for a statement that the budget has no room for, with its accuracy if it has one."""
    if query.accuracy is None:
        return error
    smaller = "" if error.hint is None else f" ({error.hint})"
    return BudgetExceededError(
        f"values {query.accuracy} need more than is left. {error.message}",
        hint=f"a larger within{smaller}",
        fitting=error.fitting,
        by_epsilon=error.by_epsilon,
    )


def _check_cap(
    search: _Search, accuracy: Accuracy, epsilon: Fraction, defaults: PrivacyDefaults
) -> None:
    """Raise ParameterError where the epsilon is above the schema's cap for one statement."""
    cap = defaults.max_epsilon
    if cap is None or epsilon <= cap:
        return
    raise ParameterError(
        f"values {accuracy} take epsilon {show(epsilon)}, above the cap of {show(cap)} for one "
        "statement.",
        hint=f"within={search.width_at(cap)}",
    )


@dataclass(frozen=True, slots=True)
class _Search:
    """Looks for the smallest candidate that is accurate enough; what was tried is kept in `trials`.

    items: of each shown value with noise, the weights of its aggregates by their place.
    """

    release: Release
    accuracy: Accuracy
    items: tuple[Mapping[int, Fraction], ...]
    delta: Fraction
    catalog: Catalog
    public: PublicFacts
    trials: dict[int, Trial]

    def smallest(self) -> int | None:
        """Return the smallest candidate that is accurate enough, None where none is.

        Other parts of a release may not be drawable with a large epsilon, so the search begins at the
        largest power of ten that suffices. More epsilon is less noise, but for two steps: where
        another kind of noise is the better one by its variance, and where a grid is finer. So below
        the first candidate found others are tried, and the last before every such step.
        """
        tops = (place for place in range(_LAST, 0, -_DIGITS) if self.suffices(place))
        top = next(tops, None)
        if top is None:
            return None
        if self.suffices(0):
            return 0
        found = self._least(0, top)
        tried = {found - 1, *self._tried_below(found)}
        enough = {place for place in tried if self.suffices(place)}
        if not enough:
            return found
        lowest = min(enough)
        below = max((place for place in tried if place < lowest), default=0)
        return self._least(below, lowest)

    def suffices(self, place: int) -> bool:
        """Return whether a candidate gives every shown value the accuracy."""
        confidence = float(self.accuracy.confidence)
        trial = self.trial(place)
        return bool(trial) and all(
            shown_within(plan, measurement, item, self.accuracy.width) >= confidence
            for plan, measurement in trial
            for item in self.items
        )

    def trial(self, place: int) -> Trial:
        """Return the plans and their noise for a candidate, empty where noise can't be drawn."""
        if place not in self.trials:
            try:
                found = self._measured(_value(place))
            except UnsupportedSQLError:  # it was answered for another epsilon
                found = []
            self.trials[place] = found
        return self.trials[place]

    def width_at(self, epsilon: Fraction) -> str:
        """Return a width, rounded up, that every shown value keeps at some epsilon."""
        level = float(self.accuracy.confidence)
        widest = max(
            spread_of(plan, measurement, item).half_width(level)
            for plan, measurement in self._measured(epsilon)
            for item in self.items
        )
        return show(_rounded_up(Fraction(widest)))

    def _measured(self, epsilon: Fraction) -> Trial:
        part = Part(epsilon, self.delta)
        return [(p, m) for p, _, m in measured(self.release, self.catalog, self.public, part)]

    def _least(self, low: int, high: int) -> int:
        """Return a candidate that suffices, where the one before doesn't: `low` doesn't, `high` does."""
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.suffices(middle) else (middle, high)
        return high

    def _tried_below(self, found: int) -> Iterator[int]:
        """Yield candidates below one that suffices: at even ratios, and before steps of the noise."""
        upper = found - 1
        while upper > 0 and _value(upper) * _BELOW > _value(found):
            lower = _place(_value(upper) / _STEP)
            yield lower
            before = self._before_step(lower, upper)
            if before is not None:
                yield before
            upper = lower

    def _before_step(self, low: int, high: int) -> int | None:
        """Return the last candidate with the same kinds of noise and grids as `low`, if `high` hasn't."""
        start = self._kind(low)
        if start == self._kind(high):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._kind(middle) == start else (low, middle)
        return low

    def _kind(self, place: int) -> list[tuple[tuple[object, ...], tuple[NoiseKind, ...]]]:
        return [
            (tuple(v.measure for v in plan.vectors), tuple(n.kind for n in measurement.noises))
            for plan, measurement in self.trial(place)
        ]


def _value(place: int) -> Fraction:
    """Return a candidate: an epsilon of three digits; candidates are numbered from the smallest, 0."""
    decade, digits = divmod(place, _DIGITS)
    return (100 + digits) * Fraction(10) ** (decade - 11)


def _place(epsilon: Fraction) -> int:
    """Return the largest candidate that is at most epsilon, or 0."""
    low, high = 0, _LAST + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _value(middle) <= epsilon else (low, middle)
    return low


def _rounded_up(width: Fraction) -> Fraction:
    """Return a number of three digits that is at least `width`, which is above 0."""
    digit = Fraction(1)
    while width < 100 * digit:
        digit /= 10
    while width >= 1000 * digit:
        digit *= 10
    return -(-width // digit) * digit
