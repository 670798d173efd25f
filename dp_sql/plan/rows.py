"""Relations of private rows: what a block of the text reads, each row of one owner.

Public tables and earlier stages take part in joins; their rows belong to nobody. What the planner
puts on top, to measure and to bound, is in `plan.relation`.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from fractions import Fraction

from dp_sql.dataclass import dataclass
from dp_sql.errors import Position
from dp_sql.plan.expression import Column, Expression


@dataclass(frozen=True, slots=True)
class Link:
    """The foreign key of a table that is owned through another one.

    table: the parent's lower-cased name. pairs: (own column, the parent's lower-cased column).
    """

    table: str
    pairs: tuple[tuple[Column, str], ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of one declared table that have an owner.

    columns: what is read of it, each with its declared name in `sources`, aligned.
    owner: the column with the privacy key (one of `columns`); None at event level, where the row is
        its own unit, for public tables, and where the owner is found through `link`.
    """

    table: str  # lower-cased name in the catalog
    public: bool
    columns: tuple[Column, ...]
    sources: tuple[str, ...]  # lower-cased names in the catalog
    owner: Column | None
    link: Link | None = None


@dataclass(frozen=True, slots=True)
class StageScan:
    """The rows of an earlier stage: computed from released results and public data alone.

    single: it has exactly one row. unique: columns whose values together at most one row has, as the
    engine sees to; none where it doesn't. public: it is computed from public data alone. most: how many
    rows it has at most, likewise; None where nothing says so.
    """

    name: str
    columns: tuple[Column, ...]
    single: bool
    unique: tuple[Column, ...] = ()
    public: bool = False
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which `predicate` is true (not NULL)."""

    source: Rows
    predicate: Expression


@dataclass(frozen=True, slots=True)
class Project:
    """One row a row, with new columns. A column that only passes through keeps its number."""

    source: Rows
    columns: tuple[Column, ...]
    expressions: tuple[Expression, ...]  # aligned with columns


class JoinKind(StrEnum):
    """How rows without a match are treated."""

    INNER = "INNER"
    LEFT = "LEFT"
    FULL = "FULL"
    ASOF = "ASOF"
    ASOF_LEFT = "ASOF LEFT"

    @property
    def pads_right(self) -> bool:
        """Whether a row of the left side without a partner stays, with NULLs for the right side."""
        return self in (JoinKind.LEFT, JoinKind.FULL, JoinKind.ASOF_LEFT)


@dataclass(frozen=True, slots=True)
class Site:
    """Where an item of FROM stands in a statement, for messages.

    name: how the statement calls it. table, span: of a table by its name, as it is written, and its
    start and end with its alias.
    """

    text: str
    position: Position | None
    name: str
    table: str = ""
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows of `left` and `right` for which `condition` is true.

    owner: of a full join of private rows, the column with the owner of whichever side is there.
    ASOF: of the rows of `right` that match, the one nearest to the condition's one inequality.
    """

    left: Rows
    right: Rows
    kind: JoinKind
    condition: Expression
    owner: tuple[Column, Column, Column] | None = None  # (the new one, the left's, the right's)
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Mark:
    """Every row of `left`, with a BOOLEAN that a subquery over `right` gives for it.

    operand None: whether `right` has a row for which `condition` is true. Else what
    `operand IN (SELECT value FROM right WHERE condition)` gives, NULL included.
    """

    left: Rows
    right: Rows
    column: Column
    condition: Expression
    operand: Expression | None = None
    value: Expression | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """One item of ORDER BY."""

    expression: Expression
    descending: bool
    nulls_first: bool


class RowAggregateKind(StrEnum):
    """The aggregates over one person's rows; each gives the same bits in whatever order rows come."""

    COUNT_ROWS = "COUNT(*)"
    COUNT = "COUNT"
    COUNT_DISTINCT = "COUNT(DISTINCT)"
    SUM = "SUM"
    SUM_DISTINCT = "SUM(DISTINCT)"
    AVG_DISTINCT = "AVG(DISTINCT)"
    AVG = "AVG"
    MIN = "MIN"
    MAX = "MAX"
    VAR_POP = "VAR_POP"
    VAR_SAMP = "VAR_SAMP"
    STDDEV_POP = "STDDEV_POP"
    STDDEV_SAMP = "STDDEV_SAMP"
    MEDIAN = "MEDIAN"
    QUANTILE_CONT = "QUANTILE_CONT"
    QUANTILE_DISC = "QUANTILE_DISC"
    BOOL_AND = "BOOL_AND"
    BOOL_OR = "BOOL_OR"
    ARG_MIN = "ARG_MIN"
    ARG_MAX = "ARG_MAX"
    MODE = "MODE"
    FIRST = "FIRST"
    LAST = "LAST"
    ELEMENT = "LIST[]"
    COVAR_POP = "COVAR_POP"
    MAD = "MAD"
    SKEWNESS = "SKEWNESS"
    KURTOSIS = "KURTOSIS"
    KURTOSIS_POP = "KURTOSIS_POP"


@dataclass(frozen=True, slots=True)
class Grid:
    """Where the floats of a sum are rounded: clamped to [low, high], to multiples of `step`."""

    low: Fraction
    high: Fraction
    step: Fraction


@dataclass(frozen=True, slots=True)
class RowAggregate:
    """One aggregate of `GroupRows`. A FILTER has become a CASE in the argument.

    grid: the planner's, for sums and moments of floats. fraction: of a quantile. by: what ARG_MIN and
    ARG_MAX compare; of rows that tie, the one with the smallest or largest argument. order: of FIRST,
    LAST and ELEMENT; of rows that tie, likewise. element: its place in the list, as DuckDB counts.
    second: what COVAR_POP multiplies with, NULL where the argument is, on second_grid. place: the
    statement and where the aggregate stands in it, for messages.
    """

    kind: RowAggregateKind
    argument: Expression | None
    column: Column
    fraction: Fraction | None = None
    grid: Grid | None = None
    by: Expression | None = None
    order: tuple[Order, ...] = ()
    element: int | None = None
    second: Expression | None = None
    second_grid: Grid | None = None
    place: tuple[str, Position] | None = field(default=None, compare=False)

    @property
    def read(self) -> tuple[Expression, ...]:
        """What it reads of a row."""
        found = (self.argument, self.by, self.second, *(item.expression for item in self.order))
        return tuple(e for e in found if e is not None)


@dataclass(frozen=True, slots=True)
class GroupRows:
    """One row a group of rows of one owner; without aggregates the distinct keys.

    A key that is a column of `source` keeps its number.
    """

    source: Rows
    keys: tuple[Column, ...]
    key_expressions: tuple[Expression, ...]
    aggregates: tuple[RowAggregate, ...]


@dataclass(frozen=True, slots=True)
class WindowFunction:
    """One window function of `WindowRows`, over the rows of one owner.

    name: in DuckDB's spelling, or an aggregate's. frame: DuckDB's text of a frame of constants, ""
    for the default. order: total wherever the function tells peers apart. grid: the planner's, for
    sums of floats. ignore_nulls: of LAG and its kin.
    """

    name: str
    arguments: tuple[Expression, ...]
    partition: tuple[Expression, ...]
    order: tuple[Order, ...]
    frame: str
    column: Column
    grid: Grid | None = None
    ignore_nulls: bool = False
    place: tuple[str, Position] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class WindowRows:
    """Every row of `source`, with the values of window functions."""

    source: Rows
    functions: tuple[WindowFunction, ...]


class SetKind(StrEnum):
    """How two relations of equal columns are combined."""

    UNION_ALL = "UNION ALL"
    UNION = "UNION"
    EXCEPT = "EXCEPT"
    INTERSECT = "INTERSECT"
    EXCEPT_ALL = "EXCEPT ALL"
    INTERSECT_ALL = "INTERSECT ALL"


@dataclass(frozen=True, slots=True)
class SetRows:
    """Rows of `left` and `right` combined by position; both have the types of `columns`."""

    kind: SetKind
    left: Rows
    right: Rows
    columns: tuple[Column, ...]


Rows = Scan | StageScan | Filter | Project | Join | Mark | GroupRows | WindowRows | SetRows
