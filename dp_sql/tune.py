"""`dpsql tune`: limits and bounds for a schema, from private quantiles that are paid like any statement.

The owner's question is a trade: a lower limit cuts more of what persons gave, a higher one needs more
noise. Both are told for each candidate. Source: [Amin2019]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from dp_sql.amounts import Part
from dp_sql.dataclass import dataclass
from dp_sql.errors import ParameterError, QueryError, UnsupportedSQLError
from dp_sql.mechanisms.choice import rank_error
from dp_sql.mechanisms.measurement import Measurement
from dp_sql.mechanisms.spread import spread_of
from dp_sql.parser.statement import parse
from dp_sql.plan.histogram import Quantile
from dp_sql.plan.public import PublicFacts
from dp_sql.plan.release import PlannedRelease, Query
from dp_sql.plan.sql_text import identifier
from dp_sql.privacy.amount import Amount, exact
from dp_sql.privacy.decimals import decimal_text
from dp_sql.privacy.unit import Level
from dp_sql.result import Result
from dp_sql.schema.catalog import Catalog, ColumnSpec, Limits, OwnerThrough, TableSpec, ascii_lower
from dp_sql.schema.scalars import as_typed
from dp_sql.schema.sqltype import Kind
from dp_sql.stages import measured

MOST = 1000
"""Up to where a person's rows and groups are counted."""

_LIMIT_LEVELS = tuple(map(Fraction, ("0.5", "0.9", "0.95", "0.99")))
_KEPT_LIMIT = Fraction("0.95")  # of persons, by the limit that is proposed
_TAILS = tuple(map(Fraction, ("0.05", "0.01")))  # that bounds cut at each end
_KEPT_TAIL = Fraction("0.01")
_RISK = 0.05

Ends: TypeAlias = tuple[Amount, Amount]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One choice for a setting, as the YAML would have it.

    cut: the share of persons with more than a limit, or of rows beyond bounds, as far as the paid
    answers tell. deviation: of the noise of COUNT, or of the column's SUM, at the schema's default
    epsilon (of the stated one, where there is none); None where it can't be told.
    """

    value: str
    cut: Fraction
    deviation: float | None
    proposed: bool


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting with its candidates. name: `max_groups`, `max_rows_per_group`, or a column's bounds.

    counted: "persons" or "rows", of which a share is cut. error: how many of these the ranks may be
    off by, in 95 % of runs.
    """

    name: str
    counted: str
    of: str  # whose noise: COUNT(*), or SUM of the column
    error: float
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was found. epsilon: the one that the noise is told for. yaml: lines for the schema file."""

    statement: str
    result: Result
    epsilon: Fraction
    settings: tuple[Setting, ...]
    yaml: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """What is tuned, and where it is declared. by: the columns that statements will group by."""

    catalog: Catalog
    public: PublicFacts
    table: TableSpec
    by: tuple[ColumnSpec, ...] = ()

    @property
    def people(self) -> bool:
        """Whether persons are protected, who may have several rows."""
        return self.catalog.unit.level is Level.USER


def place_of(catalog: Catalog, public: PublicFacts, table: str, by: Sequence[str]) -> Place:
    """Return what is tuned. Raises QueryError for a table or column that can't be."""
    spec = catalog.table(table)
    if spec is None:
        names = ", ".join(t.name for t in catalog.tables.values())
        raise QueryError(f"there is no table {table!r}.", hint=f"one of {names}")
    if spec.public:
        raise QueryError(f"{spec.name} is public: it needs no limits.", hint="a protected table")
    if catalog.mechanisms.quantiles[0].is_local:
        raise UnsupportedSQLError(
            "limits are tuned by quantiles whose error is public, which "
            f"{catalog.mechanisms.quantiles[0].value} doesn't give.",
            hint="mechanisms: {quantiles: [permute_and_flip]} in the schema",
        )
    columns = tuple(_column(spec, name) for name in by)
    if columns and catalog.unit.level is Level.EVENT:
        raise UnsupportedSQLError(
            "this schema protects single rows, which have one group each: there are no limits to tune.",
            hint="leave --by out",
        )
    if any(ascii_lower(column.name) == spec.owner for column in columns):
        raise QueryError("a person's own column makes one group for each.", hint="--by another")
    return Place(catalog, public, spec, columns)


def tune(
    place: Place,
    bounds: Mapping[str, Ends | None],
    epsilon: Amount,
    run: Callable[[str], Result],
) -> Tuning:
    """Return candidates for a table's settings, for `epsilon` in all.

    bounds: by column, wide public bounds to look between, None for the declared ones; without any,
    all numeric columns with declared bounds. run: answers one statement at that epsilon.

    Claim:   what is proposed costs `epsilon`, and nothing else about the data shows in it.
    Why:     all quantiles are one statement, which the engine bounds, charges and answers like any
             other; the rest is computed from its answer, the schema and the law of noise.
    Assumes: nothing more.
    Source:  [Amin2019]

    Raises QueryError where there is nothing to tune, and what `run` raises.
    """
    amount = exact(epsilon, name="epsilon")
    columns = _columns(place, bounds)
    questions = [*_limit_questions(place), *map(_bounds_question, columns)]
    if not questions:
        raise QueryError(
            f"{place.table.name} has nothing to tune: no numeric column has bounds.",
            hint="--bounds column=0:1000",
        )
    asked = [text for question in questions for text in question.sql(place)]
    statement = "SELECT\n  " + ",\n  ".join(f"({text}) AS t{i}" for i, text in enumerate(asked))
    result = run(statement)
    (row,) = result.fetchall()
    errors = _rank_errors(place, parse(statement, place.catalog), amount)
    found, missed = iter(row), iter(errors)
    answers = [
        _Answered(
            question,
            tuple(sorted(float(v) for _ in question.pairs for v in next(found))),
            max(next(missed) for _ in question.pairs),
        )
        for question in questions
    ]
    default = place.catalog.defaults.epsilon
    noise = _Noise(place, amount if default is None else default)
    settings = _settings(answers, noise)
    yaml = _yaml(settings, columns, place)
    return Tuning(statement, result, noise.epsilon, tuple(settings), tuple(yaml))


@dataclass(frozen=True, slots=True)
class _Bounded:
    """A column and the public ends that its quantiles are looked for between."""

    column: ColumnSpec
    low: Fraction
    high: Fraction


@dataclass(frozen=True, slots=True)
class _Question:
    """Quantiles of one setting. of: the column, None for a limit. inner: one row a person.

    levels: rising. They are asked two by two: more of one argument would halve its histogram, which
    tells little where many have the same value, as with counts.
    """

    name: str
    levels: tuple[Fraction, ...]
    value: str
    inner: str
    of: _Bounded | None = None

    @property
    def pairs(self) -> list[tuple[Fraction, ...]]:
        """The levels that are asked together."""
        return [self.levels[i : i + 2] for i in range(0, len(self.levels), 2)]

    def sql(self, place: Place) -> list[str]:
        """Return the queries that ask it."""
        whole = self.of is None or self.of.column.type.is_integer
        quantile = "QUANTILE_DISC" if whole else "QUANTILE_CONT"
        source = self.inner or identifier(place.table.name)
        return [
            f"SELECT {quantile}({self.value}, [{', '.join(map(decimal_text, pair))}]) FROM {source}"
            for pair in self.pairs
        ]


@dataclass(frozen=True, slots=True)
class _Answered:
    """A question's quantiles, rising, and by how much their ranks may be off."""

    question: _Question
    values: tuple[float, ...]
    error: float


def _limit_questions(place: Place) -> list[_Question]:
    """Return the questions about limits: one row a person, so a person moves every rank by one.

    A person's count has the bounds of the limits that the schema has now, which are what is in
    question: the way through a text forgets them, and CLAMP gives wider ones.
    """
    if not place.people:
        return []
    source, owner = _owned(place.catalog, place.table)
    keys = ", ".join(f"t0.{identifier(column.name)} AS k{i}" for i, column in enumerate(place.by))
    names = ", ".join(f"k{i}" for i in range(len(place.by)))
    value = f"CLAMP(CAST(CAST(n AS VARCHAR) AS BIGINT), 1, {MOST})"
    rows = f"SELECT {owner} AS o, COUNT(*) AS n FROM {source} GROUP BY o"
    if not place.by:
        return [_Question("max_rows_per_group", _LIMIT_LEVELS, value, f"({rows})")]
    groups = f"SELECT {owner} AS o, {keys}, COUNT(*) AS c FROM {source} GROUP BY o, {names}"
    most = f"(SELECT o, MAX(c) AS n FROM ({groups}) GROUP BY o)"
    number = f"(SELECT o, COUNT(*) AS n FROM ({groups}) GROUP BY o)"
    return [
        _Question("max_groups", _LIMIT_LEVELS, value, number),
        _Question("max_rows_per_group", _LIMIT_LEVELS, value, most),
    ]


def _bounds_question(bounded: _Bounded) -> _Question:
    """Return the question about a column's bounds; where they are wider than the declared ones, past those.

    As with limits, the way through a text forgets what is in question.
    """
    low, high = decimal_text(bounded.low), decimal_text(bounded.high)
    levels = sorted({*_TAILS, *(1 - tail for tail in _TAILS)})
    column = bounded.column
    number = identifier(column.name)
    if _beyond(bounded):
        number = f"CAST(CAST({number} AS VARCHAR) AS {column.type})"
    value = f"CLAMP({number}, {low}, {high})"
    return _Question(bounded.column.name, tuple(levels), value, "", bounded)


def _beyond(bounded: _Bounded) -> bool:
    """Return whether values are looked for beyond the declared bounds."""
    low, high = bounded.column.low, bounded.column.high
    below = low is not None and bounded.low < exact(_declared(low), name="a bound")
    return below or (high is not None and bounded.high > exact(_declared(high), name="a bound"))


def _settings(answers: Sequence[_Answered], noise: _Noise) -> list[Setting]:
    """Return the settings with their candidates, the noise of each with the other limit as proposed."""
    limits = noise.limits
    found = []
    for answer in answers:
        if answer.question.of is None:
            value = answer.values[_LIMIT_LEVELS.index(_KEPT_LIMIT)]
            limits = replace(limits, **{answer.question.name: _limit(answer, value, noise)})
    for answer in answers:
        question = answer.question
        candidates = (
            _limits(answer, limits, noise)
            if question.of is None
            else _bounds(question.of, answer.values, limits, noise)
        )
        counted = "persons" if question.of is None else "rows"
        of = "COUNT(*)" if question.of is None else f"SUM({question.name})"
        found.append(Setting(question.name, counted, of, answer.error, tuple(candidates)))
    return found


def _limits(answer: _Answered, proposed: Limits, noise: _Noise) -> list[Candidate]:
    """Return one candidate for each limit; of equal ones the one that cuts least."""
    name = answer.question.name
    pairs = zip(_LIMIT_LEVELS, answer.values, strict=True)
    best = {_limit(answer, value, noise): 1 - level for level, value in pairs}
    chosen = getattr(proposed, name)
    return [
        Candidate(
            str(value), cut, noise.of_count(replace(proposed, **{name: value})), value == chosen
        )
        for value, cut in best.items()
    ]


def _limit(answer: _Answered, value: float, noise: _Noise) -> int:
    """Return a quantile as a limit; nobody has more groups than there are."""
    groups = noise.cells if answer.question.name == "max_groups" else None
    return max(1, min(int(value), groups or int(value)))


def _bounds(
    bounded: _Bounded, values: Sequence[float], limits: Limits, noise: _Noise
) -> list[Candidate]:
    """Return candidates for a column's bounds: the ends that cut each tail, and the widest."""
    ends: dict[tuple[Fraction, Fraction], Fraction] = {}
    for i, tail in enumerate(sorted(_TAILS, reverse=True)):
        place = len(_TAILS) - 1 - i
        low, high = _rounded(values[place], values[-1 - place], bounded)
        if low < high:
            ends[low, high] = 2 * tail
    ends[bounded.low, bounded.high] = Fraction(0)
    kept = [pair for pair, cut in ends.items() if cut in (2 * _KEPT_TAIL, 0)]
    return [
        Candidate(
            f"[{decimal_text(low)}, {decimal_text(high)}]",
            cut,
            noise.of_sum(bounded.column, low, high, limits),
            (low, high) == kept[0],
        )
        for (low, high), cut in ends.items()
    ]


def _rounded(low: float, high: float, bounded: _Bounded) -> tuple[Fraction, Fraction]:
    """Return ends of two digits of the range outside these, within the wide ones."""
    width = high - low
    digit = Fraction(10) ** (math.floor(math.log10(width)) - 1) if width > 0 else Fraction(1)
    if bounded.column.type.is_integer:
        digit = max(digit, Fraction(1))
    inner = math.floor(Fraction(low) / digit) * digit
    outer = math.ceil(Fraction(high) / digit) * digit
    return max(inner, bounded.low), min(outer, bounded.high)


@dataclass(frozen=True, slots=True)
class _Noise:
    """How much noise statements have under other limits and bounds than the schema's. Reads no data."""

    place: Place
    epsilon: Fraction

    @property
    def limits(self) -> Limits:
        return self.place.table.limits or Limits(1, 1)

    def of_count(self, limits: Limits) -> float | None:
        """Return the deviation of COUNT(*) by the keys."""
        return self._deviation("COUNT(*)", replace(self.place.table, limits=limits))

    def of_sum(
        self, column: ColumnSpec, low: Fraction, high: Fraction, limits: Limits
    ) -> float | None:
        """Return the deviation of a column's SUM between other bounds."""
        ends = [as_typed(column.type, end) for end in (low, high)]
        changed = replace(column, low=ends[0], high=ends[1])
        columns = {**self.place.table.columns, ascii_lower(column.name): changed}
        own = self.place.table.limits if not self.place.people else limits
        return self._deviation(
            f"SUM({identifier(column.name)})",
            replace(self.place.table, columns=columns, limits=own),
        )

    @property
    def cells(self) -> int | None:
        """The number of groups by the keys; None where it isn't public."""
        found = self._planned("COUNT(*)", self.place.table)
        return None if found is None else found[0].cells

    def _deviation(self, aggregate: str, table: TableSpec) -> float | None:
        found = self._planned(aggregate, table)
        return None if found is None else spread_of(*found, {0: Fraction(1)}).standard_deviation

    def _planned(
        self, aggregate: str, table: TableSpec
    ) -> tuple[PlannedRelease, Measurement] | None:
        """Return the plan of an aggregate by the keys, None where there is none, and its noise."""
        catalog = self.place.catalog
        catalog = replace(catalog, tables={**catalog.tables, ascii_lower(table.name): table})
        keys = [identifier(column.name) for column in self.place.by]
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        query = parse(f"SELECT {aggregate} FROM {identifier(table.name)}{by}", catalog)
        part = Part(self.epsilon, catalog.defaults.delta or Fraction(0))
        try:
            ((plan, _, measurement),) = measured(
                query.releases[0], catalog, self.place.public, part
            )
        except QueryError:  # as without a delta for private keys
            return None
        return plan, measurement


def _rank_errors(place: Place, query: Query, epsilon: Fraction) -> list[float]:
    """Return, of each release of the statement, how far its ranks may be off in 95 % of runs."""
    errors = []
    for release in query.releases:
        part = Part(epsilon / len(query.releases), Fraction(0))
        ((plan, _, measurement),) = measured(release, place.catalog, place.public, part)
        ((histogram, chooser),) = zip(plan.histograms, measurement.choosers, strict=True)
        ranks = [rank for rank in histogram.choices if isinstance(rank, Quantile)]
        errors.append(max(rank_error(histogram, rank, chooser, _RISK) for rank in ranks))
    return errors


def _columns(place: Place, bounds: Mapping[str, Ends | None]) -> list[_Bounded]:
    """Return the columns whose bounds are tuned, each with wide ones."""
    spec = place.table
    asked: Mapping[str, Ends | None] = bounds or {
        c.name: None for c in spec.columns.values() if c.low is not None and _tunable(place, c)
    }
    found = []
    for name, ends in asked.items():
        column = _column(spec, name)
        if not _tunable(place, column):
            raise QueryError(
                f"{column.name} has no bounds to tune: it is no number, or names whose row it is, or "
                "has a list of values.",
                hint="a column of numbers",
            )
        if ends is None and (column.low is None or column.high is None):
            raise QueryError(
                f"{column.name} has no declared bounds to look between.",
                hint=f"--bounds {column.name}=0:1000",
            )
        low, high = ends or (_declared(column.low), _declared(column.high))
        wide = exact(low, name="a bound"), exact(high, name="a bound")
        if wide[0] >= wide[1]:
            raise ParameterError(
                f"the bounds of {column.name} don't rise.", hint=f"--bounds {column.name}=0:1000"
            )
        found.append(_Bounded(column, *wide))
    return found


def _tunable(place: Place, column: ColumnSpec) -> bool:
    owner = ascii_lower(column.name) == place.table.owner
    number = column.type.is_numeric and column.type.kind is not Kind.BOOLEAN
    return number and not owner and not column.unique and column.values is None


def _column(spec: TableSpec, name: str) -> ColumnSpec:
    column = spec.columns.get(ascii_lower(name))
    if column is None:
        names = ", ".join(c.name for c in spec.columns.values())
        raise QueryError(f"{spec.name} has no column {name!r}.", hint=f"one of {names}")
    return column


def _owned(catalog: Catalog, spec: TableSpec) -> tuple[str, str]:
    """Return the text of a FROM with the table, as t0, and the tables that lead to its owner."""
    source, number = f"{identifier(spec.name)} AS t0", 0
    while isinstance(spec.owner, OwnerThrough):
        parent = catalog.tables[spec.owner.table]
        pairs = " AND ".join(
            f"t{number}.{identifier(child)} = t{number + 1}.{identifier(own)}"
            for child, own in spec.owner.pairs
        )
        number += 1
        source += f" JOIN {identifier(parent.name)} AS t{number} ON {pairs}"
        spec = parent
    return source, f"t{number}.{identifier(str(spec.owner))}"


def _yaml(settings: Sequence[Setting], columns: Sequence[_Bounded], place: Place) -> Iterator[str]:
    """Yield the lines of the proposed settings, with what the schema says of these limits and columns."""
    chosen = {s.name: c.value for s in settings for c in s.candidates if c.proposed}
    now = place.table.limits or Limits(1, 1)
    if place.people:
        said = {
            "max_groups": chosen.get("max_groups", str(now.max_groups)),
            "max_rows_per_group": chosen["max_rows_per_group"],
        }
        if now.min_units_per_group > 1:
            said["min_units_per_group"] = str(now.min_units_per_group)
        yield f"limits: {{{', '.join(f'{name}: {value}' for name, value in said.items())}}}"
    if columns:
        yield "columns:"
    for bounded in columns:
        column = bounded.column
        more = "" if column.nullable else ", nullable: false"
        kind = str(column.type).lower()
        yield f"  {column.name}: {{type: {kind}, bounds: {chosen[column.name]}{more}}}"


def _declared(end: object) -> Amount:
    if not isinstance(end, int | float | Decimal):
        raise ParameterError("a bound is a number.", hint="--bounds column=0:1000")
    return end
