"""What is audited of a table: its mechanisms, and made-up neighbours that they should hide.

A trial stands for one mechanism. Its table has many groups, or private keys, whose noise is independent:
a run is a few of them, in which one unit is there on one neighbour and not on the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

from dp_sql.dataclass import dataclass
from dp_sql.executor.synthetic import write_made_up
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit
from dp_sql.schema.catalog import (
    AccountantKind,
    Catalog,
    ColumnSpec,
    KeyRule,
    Limits,
    TableSpec,
)
from dp_sql.schema.sqltype import INTEGER_BITS, Kind

LARGE_DELTA = "0.02"
"""Of mechanisms that need a delta: so large that runs can tell whether it holds."""

_MOST_ROWS = 3_000_000  # of made-up units that come or go
_MOST_GROUPS = 60_000
_FEWEST_RUNS = 100
_OTHERS = (
    0,
    1,
    4,
)  # in a group of a public key: with the lowest value, one of four with the highest
_KEY_UNITS = (0, 1, 2, 4, 7, 12)  # who have a private key
_NUMERIC = (*INTEGER_BITS, Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE)
_ALWAYS = Limits(1, 1)


@dataclass(frozen=True, slots=True)
class Trial:
    """One mechanism of one table.

    name: the family, and after a colon the kind of mechanism. call: the aggregate, or None for keys alone.
    purpose, kind: which entry of the schema's `mechanisms` has this kind alone.
    """

    table: TableSpec
    column: ColumnSpec | None
    name: str
    call: str | None
    purpose: str
    kind: str

    @property
    def family(self) -> str:
        """What `--mechanism` may name beside the whole name."""
        return self.name.partition(":")[0]

    @property
    def delta(self) -> str:
        """The delta that is asked for."""
        local = self.kind in ("smooth_sensitivity", "propose_test_release")
        return LARGE_DELTA if self.call is None or self.kind == "gaussian" or local else "0"


@dataclass(frozen=True, slots=True)
class Shape:
    """How runs are made. places: groups of a run. rows: of the unit in each of `touched` groups.

    beyond: whether the unit has more than limits and bounds allow.
    """

    runs: int
    places: int
    rows: int
    touched: int
    beyond: bool


def trials(catalog: Catalog) -> Iterator[Trial]:
    """Yield the mechanisms that the schema allows its protected tables."""
    for table in catalog.tables.values():
        if not table.public:
            yield from _of_table(catalog, table)


def _of_table(catalog: Catalog, table: TableSpec) -> Iterator[Trial]:
    allowed, column = catalog.mechanisms, _smallest(table)
    accountant = AccountantKind.PURE if table.budget is None else table.budget.accountant
    sums = [("count", "COUNT(*)")]
    if column is not None:
        name = _quoted(column.name)
        sums += [
            ("sum", f"SUM({name})"),
            ("mean", f"AVG({name})"),
            ("variance", f"VAR_POP({name})"),
        ]
    if "laplace" in allowed.noise:
        for family, call in sums:
            yield Trial(table, column, f"{family}:laplace", call, "noise", "laplace")
    gaussian = "gaussian" in allowed.noise and accountant is not AccountantKind.PURE
    if gaussian:
        for family, call in sums:
            yield Trial(table, column, f"{family}:gaussian", call, "noise", "gaussian")
    if catalog.unit.level is Level.USER and "laplace" in allowed.noise:
        yield Trial(table, column, "persons", "COUNT(DISTINCT unit_)", "noise", "laplace")
    if column is not None:
        name = _quoted(column.name)
        for kind in allowed.quantiles:
            yield Trial(table, column, f"quantiles:{kind}", f"MEDIAN({name})", "quantiles", kind)
        for kind in allowed.mode:
            yield Trial(table, column, f"mode:{kind}", f"MODE({name})", "mode", kind)
        yield Trial(table, column, "distinct", f"COUNT(DISTINCT {name})", "noise", "laplace")
    for rule in allowed.keys:
        noisy = {KeyRule.LAPLACE, KeyRule.WEIGHTED_LAPLACE, KeyRule.OPTIMAL}
        needed = "laplace" if rule in noisy else "gaussian"
        user = catalog.unit.level is Level.USER
        if (needed == "gaussian" and not gaussian) or needed not in allowed.noise:
            continue
        if user or rule in (KeyRule.LAPLACE, KeyRule.GAUSSIAN):
            yield Trial(table, column, f"keys:{rule}", None, "keys", rule)


def _smallest(table: TableSpec) -> ColumnSpec | None:
    """Return the bounded number with the fewest values: on it choices tell most."""

    def width(column: ColumnSpec) -> tuple[bool, float]:
        whole = column.type.kind in INTEGER_BITS
        return not whole, float(_number(column.high)) - float(_number(column.low))

    able = [
        c
        for c in table.columns.values()
        if c.type.kind in _NUMERIC and c.low is not None and c.high is not None
    ]
    return min((c for c in able if c.low != c.high), key=width, default=None)


def _number(value: object) -> Decimal:
    return Decimal(str(value))


def limits_of(trial: Trial) -> Limits:
    """Return the limits of the trial's table; at event level a unit is a row of one group."""
    return trial.table.limits or _ALWAYS


def shapes(trial: Trial, unit: PrivacyUnit, runs: int) -> Iterator[Shape]:
    """Yield how runs are made: with a unit within the limits, and with one beyond them."""
    limits = limits_of(trial)
    for beyond in (False, True):
        user = unit.level is Level.USER
        touched = limits.max_groups * (4 if beyond and user else 1)
        rows = limits.max_rows_per_group * (3 if beyond and user else 1)
        places = touched * unit.group_size * (2 if unit.adjacency is Adjacency.SUBSTITUTION else 1)
        each = places * len(strata(trial))
        most = min(_MOST_GROUPS // each, _MOST_ROWS // (rows * each))
        if beyond and not user and (trial.call is None or trial.call == "COUNT(*)"):
            continue  # one row of one group, and no value
        yield Shape(max(_FEWEST_RUNS, min(runs, most)), places, rows, touched, beyond)


def strata(trial: Trial) -> Sequence[int]:
    """Return how many others groups have: each number has groups, and runs, of its own."""
    return _KEY_UNITS if trial.call is None else _OTHERS


def schema_text(trial: Trial, catalog: Catalog, shape: Shape) -> str:
    """Return a schema with the promises of the owner's, over the made-up table alone."""
    unit, limits = catalog.unit, limits_of(trial)
    lines = [
        "version: 1",
        "database: duckdb:///made_up.duckdb",
        f"privacy: {{level: {unit.level}, adjacency: {unit.adjacency}, group_size: {unit.group_size}}}",
        f"sampler: {catalog.sampler}",
        f"mechanisms: {{{trial.purpose}: [{trial.kind}]}}",
        "tables:",
        "  made_up:",
        "    budget: {epsilon: 1e12, delta: 0.5, accountant: sequential}",
    ]
    if unit.level is Level.USER:
        lines += [
            "    owner: unit_",
            f"    limits: {{max_groups: {limits.max_groups}, ",
            f"      max_rows_per_group: {limits.max_rows_per_group},",
            f"      min_units_per_group: {limits.min_units_per_group}}}",
        ]
    groups = shape.runs * shape.places * len(strata(trial))
    bounded = "" if trial.call is None else f", bounds: [1, {groups}]"
    if bounded and not unit.keeps_rows:
        bounded += ", nullable: false"
    lines += ["    columns:", "      unit_: {type: bigint}"]
    lines.append(f"      group_: {{type: integer{bounded}}}")
    if trial.column is not None:
        low, high = (f"{_number(end)}" for end in (trial.column.low, trial.column.high))
        kind = json.dumps(str(trial.column.type).lower())
        lines.append(
            f"      {json.dumps(trial.column.name)}: {{type: {kind}, bounds: [{low}, {high}]}}"
        )
    return "".join(f"{line}\n" for line in lines)


def write(trial: Trial, unit: PrivacyUnit, shape: Shape, file: Path, *, there: bool) -> None:
    """Write the rows of one neighbour: with (`there`) or without the unit of each run.

    Groups are numbered from 1 and belong to runs in order; those of the strata of keys follow each
    other. Under substitution the unit that isn't there has the second half of the run's places.
    """
    value = "" if trial.column is None else f", {_quoted(trial.column.name)}"
    kind = "" if trial.column is None else f", {_quoted(trial.column.name)} {trial.column.type}"
    low, high, most = _values(trial, shape)
    statements = [f"CREATE TABLE made_up(unit_ BIGINT, group_ INTEGER{kind})"]
    inserted = f"INSERT INTO made_up(unit_, group_{value}) SELECT"
    groups = shape.runs * shape.places
    for stratum, others in enumerate(strata(trial)):
        first = stratum * groups
        ends = f"range({first + 1}, {first + groups + 1}) AS a(g)"
        for number in range(others):
            shown = f", {high if number % 4 == 2 else low}" if value else ""
            statements.append(f"{inserted} g * 100 + {number}, g{shown} FROM {ends}")
        shown = f", {most}" if value else ""
        group = "g"
        if unit.keeps_rows and not there:
            shown, group = ", NULL" if value else "", "NULL"
        if unit.adjacency is Adjacency.ADD_REMOVE and not there:
            continue
        offset = shape.places // 2 if unit.adjacency is Adjacency.SUBSTITUTION and not there else 0
        own = (
            f"SELECT {first} + r * {shape.places} + {offset} + u * {shape.touched} + t + 1 AS g, "
            f"1000000000000 + ({stratum} * {shape.runs} + r) * 1000 + u * 2 + {int(there)} AS owner "
            f"FROM range({shape.runs}) AS a(r), range({unit.group_size}) AS b(u), "
            f"range({shape.touched}) AS c(t), range({shape.rows}) AS d(i)"
        )
        statements.append(f"{inserted} owner, {group}{shown} FROM ({own}) AS own_")
    write_made_up(file, statements)


def _values(trial: Trial, shape: Shape) -> tuple[str, str, str]:
    """Return the column's ends, and what the unit has, as SQL."""
    if trial.column is None:
        return "", "", ""
    low, high = _number(trial.column.low), _number(trial.column.high)
    kind, most = trial.column.type.kind, high if abs(high) >= abs(low) else low
    if shape.beyond and kind in (Kind.FLOAT, Kind.DOUBLE):
        most *= 1000
    elif shape.beyond and kind in INTEGER_BITS:
        ends = INTEGER_BITS[kind]
        most = min(max(most * 3, Decimal(ends[0])), Decimal(ends[1]))
    texts = [f"CAST({value:f} AS {trial.column.type})" for value in (low, high, most)]
    return texts[0], texts[1], texts[2]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
