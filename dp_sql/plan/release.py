"""Releases: an aggregate over private rows, as parsed and as planned, and the statement around them."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.errors import Position
from dp_sql.plan.accuracy import Accuracy
from dp_sql.plan.block import BlockMeasure, Sample
from dp_sql.plan.distinct import Distinct
from dp_sql.plan.expression import Column, Expression
from dp_sql.plan.histogram import Choice, Histogram
from dp_sql.plan.relation import Measure, Relation
from dp_sql.plan.rows import Rows
from dp_sql.plan.sampled import Sampled
from dp_sql.plan.vector import Entry
from dp_sql.schema.catalog import KeyRule
from dp_sql.schema.sqltype import SqlType

GROUP_NUMBER = "group_number"
"""A released table's column that numbers its groups from 0."""
GROUPING_SET = "grouping_set"
"""A released table's column that tells from which of several sets of keys a group is."""


class AggregateKind(StrEnum):
    """The aggregates that a release can hold."""

    COUNT_STAR = "COUNT(*)"
    COUNT = "COUNT"
    COUNT_OWNERS = "COUNT(DISTINCT owner)"
    COUNT_DISTINCT = "COUNT(DISTINCT)"
    SUM = "SUM"
    AVG = "AVG"
    VAR_POP = "VAR_POP"
    VAR_SAMP = "VAR_SAMP"
    STDDEV_POP = "STDDEV_POP"
    STDDEV_SAMP = "STDDEV_SAMP"
    QUANTILE_CONT = "QUANTILE_CONT"
    QUANTILE_DISC = "QUANTILE_DISC"
    MIN = "MIN"
    MAX = "MAX"
    MODE = "MODE"
    TOP_K = "TOP_K"
    HISTOGRAM = "HISTOGRAM"
    COVAR_POP = "COVAR_POP"
    COVAR_SAMP = "COVAR_SAMP"
    CORR = "CORR"
    REGR_SLOPE = "REGR_SLOPE"
    REGR_INTERCEPT = "REGR_INTERCEPT"
    REGR_R2 = "REGR_R2"
    REGR_COUNT = "REGR_COUNT"
    REGR_AVGX = "REGR_AVGX"
    REGR_AVGY = "REGR_AVGY"
    REGR_SXX = "REGR_SXX"
    REGR_SYY = "REGR_SYY"
    REGR_SXY = "REGR_SXY"
    VECTOR_SUM = "VECTOR_SUM"
    SAMPLE = "SAMPLE_AND_AGGREGATE"


PAIRS = frozenset(
    kind for kind in AggregateKind if kind.value.startswith(("COVAR_", "CORR", "REGR_"))
)
"""The aggregates of two arguments, y and x."""


@dataclass(frozen=True, slots=True)
class Key:
    """One GROUP BY expression; `name` is its column in the released table."""

    name: str
    expression: Expression


class KeyChoice(StrEnum):
    """How a statement wants the keys of a release to be found; without it, public where they can be."""

    PRIVATE = (
        "LAPLACE_THRESHOLD"  # every key by a noisy number of units, also one with public values
    )
    PUBLIC = "PUBLIC_GROUPS"  # every key from public values


@dataclass(frozen=True, slots=True)
class Share:
    """An amount that the releases under one privacy clause share evenly.

    clause: its number in the statement. place: where the amount stands, for messages.
    """

    amount: Fraction
    clause: int
    place: tuple[str, Position] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Options:
    """What a statement's privacy clauses say of one release; None where they leave it to others.

    max_groups, min_units: in place of the schema's `max_groups` and `min_units_per_group`.
    accuracy: in place of an epsilon. sample_rate: of a Poisson sample of the units that is read.
    """

    epsilon: Share | None = None
    delta: Share | None = None
    max_groups: int | None = None
    min_units: int | None = None
    keys: KeyChoice | None = None
    accuracy: Accuracy | None = None
    sample_rate: Fraction | None = None


UNSAID = Options()
"""The options of a release that no clause speaks of."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate; a FILTER has become a CASE in the argument. `name`: its released column.

    argument: None for COUNT(*) and for COUNT(DISTINCT owner) without a FILTER. For the latter with
    one, an expression that is not NULL on the rows that count.
    bounds: the ends, low below high, of what one unit's rows of a group may give: their count, sum
    or average. None where the schema's limits alone hold. Only at user level.
    type: BIGINT for counts and for sums of integers; of a value that is chosen, BIGINT for
    integers, DATE or TIMESTAMP for those, of a public list its own; DOUBLE for all others.
    choice: of an aggregate that chooses a value, which one. values: of COUNT(DISTINCT), what is
    counted: of several expressions each combination, NULLs too; of VECTOR_SUM, the vector.
    place: the statement and where the aggregate stands in it, for messages.
    second: x, where `argument` is y, for the kinds in `PAIRS`. Rows where either is NULL don't count.
    entry: of VECTOR_SUM, which entry's sum it is. Rows where any entry is NULL don't count.
    sample: of SAMPLE_AND_AGGREGATE, what is computed of each block.
    """

    name: str
    kind: AggregateKind
    argument: Expression | None
    type: SqlType
    place: tuple[str, Position] | None = field(default=None, compare=False)
    bounds: tuple[Fraction, Fraction] | None = None
    choice: Choice | None = None
    values: tuple[Expression, ...] = ()
    second: Expression | None = None
    entry: Entry | None = None
    sample: Sample | None = None


@dataclass(frozen=True, slots=True)
class IntervalColumn:
    """A column of a released table: one end of the interval around an expression over its aggregates.

    item: the expression, as in `Residual.row_items`. level: how often the interval holds the value
    without noise. high: whether it is the upper end.
    """

    name: str
    item: str
    level: Fraction
    high: bool


@dataclass(frozen=True, slots=True)
class Release:
    """One block that mixes units, as the text has it. `name`: its table in the residual.

    sets: where it groups by several sets of keys, each as places in `keys`, in the order of the
    text; a set may stand there twice. Empty where it groups by all keys. padded: an outer join keeps
    every row of a public table, so its groups show whether anybody is in them or not. intervals: more
    columns, computed from the released values alone.
    """

    name: str
    source: Rows
    keys: tuple[Key, ...]
    aggregates: tuple[Aggregate, ...]
    tables: tuple[str, ...]  # the protected tables that it reads, lower-cased, sorted
    options: Options = UNSAID
    sets: tuple[tuple[int, ...], ...] = ()
    padded: bool = False
    intervals: tuple[IntervalColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemForm:
    """What a column of an answer is made of, by the names of the aggregates that it reads.

    weights: aligned with `reads`, where the column is their weighted sum and something that has no
    noise; None for every other column.
    """

    reads: tuple[str, ...]
    weights: tuple[Fraction, ...] | None


@dataclass(frozen=True, slots=True)
class ShownOrder:
    """One place of an ORDER BY that has columns of a released table alone."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class BareItems:
    """The items of a select list that have no name: a query of nothing else, and their places."""

    sql: str
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Residual:
    """The analyst's SQL above the releases, as opaque text for a DuckDB that holds no rows of anyone.

    sql reads released tables as `released.<name>` and public tables as `public.<name>`.
    original: the statement as sent, for messages. plain: the same, character by character, with
    blanks for what DuckDB can't read; it gives the answer its column names, unless it is `named`:
    it names each column itself, as `sql` then does.
    row_items: where every row of the answer is one group of one release, the text of each column
    over that release's table, None for a column that reads other rows too; `sql` then has one more
    column, last, the group's number. Empty for every other statement. forms: aligned with it.
    shown: where the answer is columns of one released table as they are, each as (column, name);
    order: the order of its rows. own_names: the places of columns that keep the names that `sql` gives.
    bare: what the names of the others depend on, None where that is all of `plain`.
    """

    sql: str
    original: str
    plain: str
    public_tables: tuple[str, ...]  # lower-cased names in the catalog
    row_items: tuple[str | None, ...] = ()
    named: bool = False
    shown: tuple[tuple[str, str], ...] = ()
    order: tuple[ShownOrder, ...] = ()
    forms: tuple[ItemForm, ...] = ()
    own_names: tuple[int, ...] = ()
    bare: BareItems | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """Rows that a later release reads: computed from earlier releases and public data alone.

    sql: as in Residual. single: it stands for one value: of no row it makes a row of NULL. unique: the
    positions of columns whose values together one row keeps at most; none where there are none. most:
    how many rows are kept.
    """

    name: str
    sql: str
    public_tables: tuple[str, ...]
    columns: tuple[Column, ...]
    single: bool
    releases: tuple[str, ...]  # the names of those that it reads
    unique: tuple[int, ...] = ()
    most: int | None = None


@dataclass(frozen=True, slots=True)
class StageTable:
    """The rows of a stage, as texts; None is NULL."""

    stage: Stage
    rows: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A whole statement: the releases it needs and what is computed from them.

    stages: what releases read of the results of others.
    notes: sentences about options that are answered in another way than they are written, and what
    `accuracy` takes: the error that is asked for in place of an epsilon, None where none is.
    """

    releases: tuple[Release, ...]
    residual: Residual
    stages: tuple[Stage, ...] = ()
    notes: tuple[str, ...] = ()
    accuracy: Accuracy | None = None


@dataclass(frozen=True, slots=True)
class KeySpace:
    """Public keys: every combination of values that the key columns at `positions` may take."""

    positions: tuple[int, ...]
    values: tuple[tuple[object, ...], ...]  # Python values aligned with positions; None is NULL


@dataclass(frozen=True, slots=True)
class Vector:
    """One measure's integers in the released table.

    columns: its columns in the planned relation, or in a relation of its own. unit: how much one whole
    row, fully weighted, adds to a count component, or 1 where a component is a plain number of steps.
    """

    measure: Measure | BlockMeasure
    columns: tuple[Column, ...]
    unit: int

    @property
    def nothing(self) -> int:
        """What each column is for a group without rows."""
        measure = self.measure
        return measure.blocks * measure.middle if isinstance(measure, BlockMeasure) else 0


@dataclass(frozen=True, slots=True)
class CountReadout:
    """The number of rows: the sum of a vector's components, over `unit`.

    with_null: whether the rows whose argument is NULL count too.
    """

    vector: int
    with_null: bool


@dataclass(frozen=True, slots=True)
class SumReadout:
    """The sum of the argument, or of the entry at `place` of a vector of them."""

    vector: int
    place: int = 0


@dataclass(frozen=True, slots=True)
class MeanReadout:
    """The mean of the argument: in the measure's range; its number nearest to 0 where nobody seems there."""

    vector: int


@dataclass(frozen=True, slots=True)
class VarianceReadout:
    """The variance (sample: over n - 1) of the argument, or its square root.

    summed: times the number of rows, which is the sum of squares around the mean.
    """

    vector: int
    sample: bool
    root: bool
    summed: bool = False


@dataclass(frozen=True, slots=True)
class PairReadout:
    """An aggregate of two arguments. x: the place of x among the vector's axes; y is the other."""

    vector: int
    kind: AggregateKind
    x: int


@dataclass(frozen=True, slots=True)
class BlockReadout:
    """The mean of the blocks' results."""

    vector: int


LinearReadout = CountReadout | SumReadout | BlockReadout
"""A sum of a vector's components, each with a public weight."""
VectorReadout = LinearReadout | MeanReadout | VarianceReadout | PairReadout


@dataclass(frozen=True, slots=True)
class ChoiceReadout:
    """A value chosen from a histogram. histogram, position: its place, and the choice's in it."""

    histogram: int
    position: int


@dataclass(frozen=True, slots=True)
class DistinctReadout:
    """A number of distinct values. distinct: its place in the planned release."""

    distinct: int


Readout = VectorReadout | ChoiceReadout | DistinctReadout


@dataclass(frozen=True, slots=True)
class PlannedRelease:
    """A release made answerable: contributions bounded, aggregates split into integer vectors.

    relation: one row per (unit, group), or per row at event level; summing `vectors` by `keys` over
        it gives the exact table. public, private: every key is in exactly one of them.
    selection: which vector counts the units of a private key, or None where all keys are public.
    selection_relation: where there are public keys beside the private ones, or two rounds, the relation
        over the private keys alone that the selection's vector is summed over; else None.
    second_relation: where keys are selected in two rounds, the relation without the keys of the first
        that the last vector, which is the second round's, is summed over; else None.
    readouts: aligned with the release's aggregates.
    sampled: the last of the vectors, each over rows of its own.
    key_rules: of which one selects the private keys. More than one: which noise is better is decided
        with the noise of all.
    shares: of the release's epsilon, one a vector; with those of histograms and distincts they
        add up to 1.
    """

    release: Release
    relation: Relation
    keys: tuple[Column, ...]
    public: tuple[KeySpace, ...]
    private: tuple[int, ...]
    vectors: tuple[Vector, ...]
    readouts: tuple[Readout, ...]
    selection: int | None
    selection_relation: Relation | None
    shares: tuple[Fraction, ...]
    histograms: tuple[Histogram, ...] = ()
    distincts: tuple[Distinct, ...] = ()
    sampled: tuple[Sampled, ...] = ()
    key_rules: tuple[KeyRule, ...] = (KeyRule.LAPLACE, KeyRule.GAUSSIAN)
    second_relation: Relation | None = None

    @property
    def summed(self) -> tuple[Vector, ...]:
        """The vectors that are summed over this plan's relations: all but the sampled, which come last."""
        return self.vectors[: len(self.vectors) - len(self.sampled)]

    @property
    def selections(self) -> tuple[int, ...]:
        """The vectors that select private keys, one for each round; they are among the summed."""
        if self.selection is None:
            return ()
        return (
            (self.selection,)
            if self.second_relation is None
            else (self.selection, self.selection + 1)
        )

    @property
    def in_table(self) -> tuple[Vector, ...]:
        """The vectors of the exact table: the summed but those that select from a table of their own."""
        apart = () if self.selection_relation is None else self.selections
        return tuple(vector for i, vector in enumerate(self.summed) if i not in apart)

    @property
    def share_apart(self) -> Fraction:
        """The part of the release's epsilon that histograms and distincts have."""
        shares = [*(h.share for h in self.histograms), *(d.share for d in self.distincts)]
        return sum(shares, Fraction(0))

    @property
    def cells(self) -> int | None:
        """The number of groups that can be released; None where private keys leave it open."""
        if self.private:
            return None
        product = 1
        for space in self.public:
            product *= len(space.values)
        return product
