"""The catalog: a validated schema file as frozen values. Everything below the parser reads this."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase

from dp_sql.dataclass import dataclass
from dp_sql.errors import ParameterError
from dp_sql.privacy.unit import PrivacyUnit
from dp_sql.schema.sqltype import SqlType

Scalar = bool | int | float | Decimal | str | date | datetime


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """One declared column.

    low, high: inclusive bounds of the column's type (int, float, Decimal, date or datetime), or
        None. values: the public list of values, or None. max_length: of a VARCHAR, in characters.
    """

    name: str
    type: SqlType
    low: Scalar | None = None
    high: Scalar | None = None
    values: tuple[Scalar, ...] | None = None
    unique: bool = False
    nullable: bool = True
    max_length: int | None = None
    max_frequency: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of one unit a release may hold: groups, rows in each group; units a key needs."""

    max_groups: int
    max_rows_per_group: int
    min_units_per_group: int = 1


class AccountantKind(StrEnum):
    """The rules that may guard a table."""

    PURE = "pure"
    SEQUENTIAL = "sequential"
    ADVANCED = "advanced"
    ZCDP = "zcdp"
    RENYI = "renyi"


class Renew(StrEnum):
    """How often a table's budget begins anew, by the calendar in UTC."""

    NEVER = "never"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    YEARLY = "yearly"


@dataclass(frozen=True, slots=True)
class Cap:
    """What each named analyst may spend of a table. selection_delta: as BudgetSpec has it."""

    epsilon: Fraction
    delta: Fraction
    selection_delta: Fraction


@dataclass(frozen=True, slots=True)
class BudgetSpec:
    """A table's budget.

    selection_delta: the part of delta that key selection and local sensitivity may spend; under
    `advanced`, what all deltas of statements may add up to, those of Gaussian noise too.
    renew: all amounts are those of one period. blocks: the column whose values have these amounts
    each, in lower case, and its type, as `day DATE`, or None: another type would give the same rows
    other blocks. cap: below the amounts; None where all analysts share them.
    """

    epsilon: Fraction
    delta: Fraction
    accountant: AccountantKind
    selection_delta: Fraction
    renew: Renew = Renew.NEVER
    blocks: str | None = None
    cap: Cap | None = None

    @property
    def block_column(self) -> str | None:
        """The lower-cased column whose values are the blocks, or None."""
        if self.blocks is None:
            return None
        column, _, type_ = self.blocks.rpartition(" ")
        return column or type_

    @property
    def of_analyst(self) -> BudgetSpec | None:
        """The budget of one named analyst, None where there is no cap."""
        if self.cap is None:
            return None
        cap = self.cap
        return BudgetSpec(cap.epsilon, cap.delta, self.accountant, cap.selection_delta, self.renew)


@dataclass(frozen=True, slots=True)
class OwnerThrough:
    """Ownership by foreign key: the row belongs to the owner of the parent's row.

    All names are lower-cased, as `Catalog.tables` and `TableSpec.columns` are keyed.
    """

    table: str
    pairs: tuple[tuple[str, str], ...]  # (child column, parent column)


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One declared table, protected unless `public`.

    owner: the column that holds the privacy key (user level), a path to it, or None (event level
        and public tables); lower-cased, like the columns in `unique`.
    source: a file below the data folder, or None for a table of the database.
    identity: what the ledger knows the table by, when the owner gave an `id`.
    columns: by lower-cased name, in declared order.
    """

    name: str
    columns: Mapping[str, ColumnSpec]
    public: bool = False
    source: str | None = None
    identity: str | None = None
    owner: str | OwnerThrough | None = None
    unique: tuple[tuple[str, ...], ...] = ()
    budget: BudgetSpec | None = None
    limits: Limits | None = None
    data_version: str = "1"
    round_counts: bool = False


@dataclass(frozen=True, slots=True)
class PrivacyDefaults:
    """Epsilon and delta of a statement that names none, and the most that one may ask."""

    epsilon: Fraction | None
    delta: Fraction | None
    max_epsilon: Fraction | None
    max_delta: Fraction | None


class ChoiceKind(StrEnum):
    """How one of many candidates is chosen by its score.

    NOISY_MAX_GUMBEL has the law of EXPONENTIAL. NOISY_MAX_LAPLACE chooses by weights with Laplace
    noise on each, so that several are chosen at the price of one. The local ones compute the exact
    answer, with noise for how far it could move from these very data: they need a delta.
    TREE: of quantiles, MIN and MAX, all of them from one tree of noisy counts.
    SMOOTH_SENSITIVITY: of quantiles. PROPOSE_TEST_RELEASE: of quantiles and MODE; it may give NULL.
    """

    PERMUTE_AND_FLIP = "permute_and_flip"
    EXPONENTIAL = "exponential"
    NOISY_MAX_GUMBEL = "noisy_max_gumbel"
    NOISY_MAX_LAPLACE = "noisy_max_laplace"
    TREE = "tree"
    SMOOTH_SENSITIVITY = "smooth_sensitivity"
    PROPOSE_TEST_RELEASE = "propose_test_release"

    @property
    def is_local(self) -> bool:
        """Whether it is a mechanism of local sensitivity; only a schema that names one has it."""
        return self in (ChoiceKind.SMOOTH_SENSITIVITY, ChoiceKind.PROPOSE_TEST_RELEASE)


class KeyRule(StrEnum):
    """How private keys are selected: by a threshold on their noisy number of units, or otherwise.

    WEIGHTED_LAPLACE, WEIGHTED_GAUSSIAN: a unit of m groups counts for 1/m or 1/sqrt(m) in each.
    TWO_ROUNDS: as the latter, twice, the second time without the keys of the first. OPTIMAL: each key
    by a coin, with the largest chances that epsilon and delta allow.
    """

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    WEIGHTED_LAPLACE = "weighted_laplace"
    WEIGHTED_GAUSSIAN = "weighted_gaussian"
    OPTIMAL = "optimal"
    TWO_ROUNDS = "two_rounds"


@dataclass(frozen=True, slots=True)
class Mechanisms:
    """The mechanisms that the schema allows, for each purpose, the preferred one first.

    noise: of vectors, "laplace" and "gaussian". quantiles: also of MIN and MAX. mode: also of TOP_K.
    keys: of private keys, in no order; what draws noise needs that noise to be allowed too.
    """

    noise: tuple[str, ...] = ("laplace", "gaussian")
    quantiles: tuple[ChoiceKind, ...] = (
        ChoiceKind.PERMUTE_AND_FLIP,
        ChoiceKind.EXPONENTIAL,
        ChoiceKind.TREE,
    )
    mode: tuple[ChoiceKind, ...] = (
        ChoiceKind.PERMUTE_AND_FLIP,
        ChoiceKind.EXPONENTIAL,
        ChoiceKind.NOISY_MAX_GUMBEL,
        ChoiceKind.NOISY_MAX_LAPLACE,
    )
    keys: tuple[KeyRule, ...] = tuple(KeyRule)


class LedgerPlace(str):
    """Path or URL of a ledger. Its repr shows nothing: a URL may hold a password."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "…"


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """The processes that read the data and run what is above releases, and what a statement may use of one.

    memory: bytes beyond what it holds when it is open. seconds: of the clock. cpu_seconds: of
    all its processors together, None for as many as they have in that time. in_process: there are
    no such processes, and these limits aren't kept.
    """

    memory: int = 4 * 2**30
    seconds: float = 600.0
    cpu_seconds: float | None = None
    in_process: bool = False

    @property
    def processor_seconds(self) -> float:
        """The seconds of processors that a statement may take."""
        return self.cpu_seconds or self.seconds * (os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class Catalog:
    """A whole schema. Tables are found by lower-cased name (ASCII), as DuckDB finds them.

    consistent: whether answers by several sets of keys are made to add up. people: the budget of one
    unit over all tables, None where only the tables have one. bucketed: whether answers wait for the
    next step of time.
    """

    path: Path
    database: str  # "duckdb://" (in memory), "duckdb:///file" or a folder
    unit: PrivacyUnit
    defaults: PrivacyDefaults
    tables: Mapping[str, TableSpec]
    ledger: LedgerPlace | None = None
    sampler: str = "exact"  # or "opendp"
    consistent: bool = True
    mechanisms: Mechanisms = Mechanisms()
    worker: WorkerSpec = WorkerSpec()
    bucketed: bool = False
    people: BudgetSpec | None = None

    def table(self, name: str) -> TableSpec | None:
        """Return the table of that name without regard to ASCII case, or None."""
        return self.tables.get(ascii_lower(name))

    def protected(self, name: str) -> tuple[TableSpec, BudgetSpec]:
        """Return the protected table of that name, and its budget; ParameterError where there is none."""
        spec = self.table(name)
        if spec is None or spec.budget is None:
            names = [table.name for table in self.tables.values() if table.budget is not None]
            raise ParameterError(
                f"there is no protected table {name!r}.",
                hint=f"one of {', '.join(names) or 'none'}",
            )
        return spec, spec.budget


_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def ascii_lower(name: str) -> str:
    """Lower-case ASCII letters only, as DuckDB folds identifiers."""
    return name.translate(_LOWER)
