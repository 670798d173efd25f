"""Prepares a statement (plan, facts, noise, price) and runs its releases. Between the two it is paid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from dp_sql.amounts import Part
from dp_sql.dataclass import dataclass
from dp_sql.ends import (
    Groups,
    interval_columns,
    item_ends,
    key_columns,
    padded,
    value_columns,
)
from dp_sql.errors import InternalError, QueryError
from dp_sql.executor.engine import Engine
from dp_sql.mechanisms.calibrate_gaussian import sigma1
from dp_sql.mechanisms.consistency import consistent, read_sets
from dp_sql.mechanisms.empty import without_empty
from dp_sql.mechanisms.measurement import Measurement, calibrate_sets
from dp_sql.mechanisms.readout import read
from dp_sql.mechanisms.redraws import Redraws
from dp_sql.mechanisms.release import Key, Released, release, selected
from dp_sql.mechanisms.sampler import Sampler
from dp_sql.mechanisms.sampling import in_all, on_sample
from dp_sql.plan.facts import Facts
from dp_sql.plan.public import Image, PublicFacts, PublicRows
from dp_sql.plan.relation import Relation, inputs
from dp_sql.plan.release import (
    GROUP_NUMBER,
    GROUPING_SET,
    PlannedRelease,
    Query,
    Release,
    Stage,
    StageTable,
)
from dp_sql.plan.rows import StageScan
from dp_sql.planner.plan import limits_of
from dp_sql.planner.selection import gaussian_allowed, shown_keys
from dp_sql.planner.sets import plan_sets
from dp_sql.postprocess.processor import PostProcessor
from dp_sql.postprocess.released import Answer, ReleasedColumn, number_column
from dp_sql.privacy.cost import FREE, Cost
from dp_sql.result import Interval
from dp_sql.sampling import cheaper
from dp_sql.schema.catalog import Catalog
from dp_sql.schema.sqltype import BIGINT, DOUBLE, SqlType
from dp_sql.sensitivity.blocks import Debit, debit
from dp_sql.sensitivity.contribution import derive


@dataclass(frozen=True, slots=True)
class Step:
    """One release, ready to run: its plan, what is proved of it, its noise, and the SQL to run.

    The SQL is written before anything is paid: what can't be written is refused and free.
    """

    plan: PlannedRelease
    facts: Facts
    measurement: Measurement
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement that could run.

    public_stages: those that read public tables alone, read already. costs: by lower-cased table
    name, whole statement. debits: of each of these that has blocks, which it debits.
    """

    query: Query
    steps: tuple[Step, ...]
    public_stages: tuple[StageTable, ...]
    columns: tuple[str, ...]
    types: tuple[str, ...]
    costs: Mapping[str, Cost]
    debits: Mapping[str, Debit]

    @property
    def sampled(self) -> bool:
        """Whether some release reads a sample of the units."""
        return any(step.facts.sample_rate is not None for step in self.steps)


class StagedFacts:
    """What planning may ask of public tables, and of a statement's stages of public data alone."""

    def __init__(self, query: Query, engine: Engine, post: PostProcessor) -> None:
        self._engine, self._post, self._query = engine, post, query
        self.tables = tuple(_staged(s, {}, post) for s in query.stages if not s.releases)

    def image(self, image: Image, limit: int) -> tuple[tuple[object, ...], ...] | None:
        """Return the tuples of an image, as `PublicFacts` says."""
        scans = (s.scan for s in image.sources if isinstance(s, PublicRows))
        names = {scan.name for scan in scans if isinstance(scan, StageScan)}
        read = [table for table in self.tables if table.stage.name in names]
        return self._engine.image(image, limit, read)

    def frequency(self, table: str, columns: tuple[str, ...]) -> int | None:
        """Return how many rows of a public table may agree in `columns`, as `PublicFacts` says."""
        return self._engine.frequency(table, columns)

    @cached_property
    def columns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names and types of the statement's columns. Raises QueryError, as DuckDB's binder does."""
        tables = {release.name: declared(release) for release in self._query.releases}
        return self._post.describe(self._query.residual, tables)


Parsed: TypeAlias = tuple[Query, StagedFacts]
"""A statement, and what planning may ask of it: nothing of both depends on what it may spend."""


def prepare(
    query: Query,
    catalog: Catalog,
    engine: Engine,
    public: StagedFacts,
    parts: tuple[Part, ...],
) -> Prepared:
    """Return the statement with its noise and price. No protected row is read.

    parts: what each release may spend. Raises QueryError where something can't be answered.
    """
    steps: list[Step] = []
    for parsed, part in zip(query.releases, parts, strict=True):
        for plan, fact, measurement in measured(parsed, catalog, public, part):
            steps.append(Step(plan, fact, measurement, engine.statements(plan)))
    columns, types = public.columns
    owed = costs_of(query.releases, steps, catalog)
    return Prepared(query, tuple(steps), public.tables, columns, types, *owed)


def costs_of(
    releases: Iterable[Release], steps: Sequence[Step], catalog: Catalog
) -> tuple[dict[str, Cost], dict[str, Debit]]:
    """Return what some releases cost and which blocks they debit, as `Prepared` has them.

    steps: theirs, and others.
    """
    costs: dict[str, Cost] = {}
    debits: dict[str, Debit] = {}
    for parsed in releases:
        own = [s for s in steps if s.plan.release.name == parsed.name]
        # of all its sets of keys: none of them is a guarantee alone
        cost = sum((s.measurement.cost for s in own), FREE)
        for table in parsed.tables if cost != FREE else ():
            found = _debit([s.plan for s in own], table, catalog)
            if found is not None:
                if found.blocks == frozenset():  # no row of the table can change this release
                    continue
                debits[table] = debits.get(table, found) | found
            costs[table] = costs.get(table, FREE).then(cost)
    return costs, debits


def _debit(plans: list[PlannedRelease], table: str, catalog: Catalog) -> Debit | None:
    """Return the blocks of a table that a release debits; None where the table has none."""
    budget = catalog.tables[table].budget
    column = None if budget is None else budget.block_column
    return None if column is None else debit(plans, table, column)


def measured(
    parsed: Release, catalog: Catalog, public: PublicFacts, part: Part
) -> list[tuple[PlannedRelease, Facts, Measurement]]:
    """Return the plans of a release, one for each set of keys, with their facts and their noise.

    Raises QueryError where it can't be answered with this part. No protected row is read.
    """
    rate, epsilon, delta = parsed.options.sample_rate, part.epsilon, part.delta
    if rate is not None:
        epsilon, delta = on_sample(epsilon, delta, rate)
    plans = plan_sets(parsed, catalog, public, epsilon)
    facts = [derive(plan, catalog.unit, public) for plan in plans]
    if any(fact.sample_rate != rate for fact in facts):
        raise InternalError("a plan reads another sample than its release")
    gaussian = gaussian_allowed(parsed.tables, catalog)
    usable = gaussian and delta > 0 and sigma1(epsilon, delta) is not None
    laplace = "laplace" in catalog.mechanisms.noise and not (part.gaussian and usable)

    def calibrated(*, laplace: bool, gaussian: bool) -> tuple[Measurement, ...]:
        found = calibrate_sets(
            list(zip(plans, facts, strict=True)),
            epsilon=epsilon,
            delta=delta,
            gaussian_allowed=gaussian,
            laplace_allowed=laplace,
            min_units=limits_of(parsed, catalog).min_units_per_group,
        )
        return found if rate is None else tuple(in_all(m, part.epsilon, rate) for m in found)

    if rate is not None and laplace and usable:
        ways = [calibrated(laplace=laplace, gaussian=not laplace) for laplace in (True, False)]
        budgets = [catalog.tables[table].budget for table in parsed.tables]
        found = tuple(cheaper(some, budgets) for some in zip(*ways, strict=True))
    else:
        found = calibrated(laplace=laplace, gaussian=gaussian)
    return list(zip(plans, facts, found, strict=True))


def declared(release: Release) -> list[tuple[str, SqlType]]:
    """Return the columns of a release's table."""
    keys = [(key.name, key.expression.type) for key in release.keys]
    values = [(a.name, a.type) for a in release.aggregates]
    place = [(GROUPING_SET, BIGINT)] if release.sets else []
    ends = [(column.name, DOUBLE) for column in release.intervals]
    return [*keys, *values, *place, (GROUP_NUMBER, BIGINT), *ends]


Draw = Callable[[Release, list[Step], list[StageTable]], list[Released]]
"""What gives the noisy values of a release, one for each of its steps; the last are the stages it reads."""


class Course:
    """How far the releases of a statement are: what they gave, and the tables that are made of it."""

    def __init__(self, prepared: Prepared, catalog: Catalog, post: PostProcessor) -> None:
        """Begin with no release. catalog, post: the connection's."""
        self._prepared = prepared
        self._catalog, self._post = catalog, post
        self._noisy: dict[str, list[Released]] = {}
        self._released: dict[str, list[Released]] = {}
        self._tables: dict[str, Sequence[ReleasedColumn]] = {}
        self._stages = {table.stage.name: table for table in prepared.public_stages}

    def waiting(self) -> list[Release]:
        """Return the releases that are still to come."""
        return [r for r in self._prepared.query.releases if r.name not in self._released]

    def ready(self, parsed: Release) -> bool:
        """Return whether everything that a release reads of others is there."""
        read = _read_by(parsed, self._prepared.query)
        return all(name in self._tables for stage in read for name in stage.releases)

    def steps(self, parsed: Release) -> list[Step]:
        """Return the steps of a release."""
        return [step for step in self._prepared.steps if step.plan.release.name == parsed.name]

    def read(self, parsed: Release) -> list[StageTable]:
        """Return the stages that a release reads, which is ready."""
        read = _read_by(parsed, self._prepared.query)
        for stage in read:
            if stage.name not in self._stages:
                self._stages[stage.name] = _staged(stage, self._tables, self._post)
        return [self._stages[stage.name] for stage in read]

    def take(self, parsed: Release, noisy: list[Released]) -> None:
        """Go on with what a release gave, one a step."""
        self._noisy[parsed.name] = noisy
        plans = [step.plan for step in self.steps(parsed)]
        if self._catalog.consistent:
            noisy = consistent(list(zip(plans, noisy, strict=True)))
        shown = [without_empty(plan, some) for plan, some in zip(plans, noisy, strict=True)]
        self._released[parsed.name] = shown
        parts = list(zip(plans, shown, strict=True))
        columns = _columns(parsed, parts, self._catalog)
        if parsed.intervals:
            table = Groups(parsed, tuple(parts[part] for part in _order(parsed)))
            columns = (*columns, *interval_columns(table, self._post, self._redraws(parsed)))
        self._tables[parsed.name] = columns

    def finish(self, draw: Draw) -> Answer:
        """Take what is still to come from `draw`, and return the answer. The statement is paid."""
        while waiting := self.waiting():
            parsed = next((r for r in waiting if self.ready(r)), None)
            if parsed is None:
                raise InternalError("stages that wait for each other")
            self.take(parsed, draw(parsed, self.steps(parsed), self.read(parsed)))
        residual = self._prepared.query.residual
        return self._post.run(residual, self._tables, self._prepared.columns)

    def _redraws(self, parsed: Release) -> Redraws:
        """Return the same numbers for the same noisy values, before they are adjusted to each other."""
        return Redraws(self._noisy[parsed.name])

    def intervals(self, answer: Answer, level: float) -> list[tuple[Interval, ...]]:
        """Return an interval for every row and column of the answer, None where there is none."""
        items = self._prepared.query.residual.row_items
        if not items or not answer.groups:
            return [(None,) * len(answer.columns) for _ in answer.rows]
        (parsed,) = self._prepared.query.releases
        plans = [step.plan for step in self.steps(parsed)]
        shown = self._released[parsed.name]
        table = Groups(parsed, tuple((plans[part], shown[part]) for part in _order(parsed)))
        draws = self._redraws(parsed)
        chosen = item_ends(table, items, answer.groups, self._post, draws, level)
        return [tuple(chosen[g]) for g in answer.groups]


def fresh(engine: Engine, post: PostProcessor, sampler: Sampler) -> Draw:
    """Return what reads the protected rows of a release, which is paid, and adds noise."""
    return lambda _, steps, read: [_released(step, engine, post, sampler, read) for step in steps]


def _released(
    step: Step,
    engine: Engine,
    post: PostProcessor,
    sampler: Sampler,
    read: Sequence[StageTable],
) -> Released:
    """Return what one release gives, with noise; `read`: the stages that it reads."""
    plan, measurement = step.plan, step.measurement
    sums = engine.execute(plan, step.statements, read)
    before, selection = None, sums.selection
    if plan.second_relation is not None and selection is not None:
        before = selected(measurement.selection, measurement, selection, sampler)
        again = [*read, _shown(plan, before, post)]
        selection = engine.execute_second(plan, step.statements, again)
    return release(
        plan,
        measurement,
        sums.table,
        sampler,
        selection_table=selection,
        before=before,
        histograms=sums.histograms,
        distincts=sums.distincts,
        sampled=sums.sampled,
    )


def _shown(plan: PlannedRelease, before: list[Key], post: PostProcessor) -> StageTable:
    """Return the keys that a first round showed as what the second round's SQL reads."""
    columns = tuple(plan.keys[i] for i in plan.private)
    values = [
        ReleasedColumn(f"k{i}", column.type, [key[i] for key in before])
        for i, column in enumerate(columns)
    ]
    name = shown_keys(plan.release)
    sql = f"SELECT * FROM released.{name}"
    rows = post.texts(sql, (), {name: values}, len(columns))
    stage = Stage(name, sql, (), columns, single=False, releases=(plan.release.name,))
    return StageTable(stage, tuple(rows[: stage.most]))


def _read_by(release: Release, query: Query) -> list[Stage]:
    """Return the stages that a release's private rows read."""
    names = set(_stage_names(release.source))
    return [stage for stage in query.stages if stage.name in names]


def _stage_names(relation: Relation) -> Iterator[str]:
    if isinstance(relation, StageScan):
        yield relation.name
    for source in inputs(relation):
        yield from _stage_names(source)


def _staged(
    stage: Stage, tables: Mapping[str, Sequence[ReleasedColumn]], post: PostProcessor
) -> StageTable:
    """Return the rows of a stage. Raises QueryError where a single value has several rows."""
    read = {name: tables[name] for name in stage.releases}
    rows = post.texts(stage.sql, stage.public_tables, read, len(stage.columns))
    if stage.single and len(rows) > 1:
        raise QueryError(
            "a subquery that is a value gave several rows.", hint="an aggregate, or LIMIT 1"
        )
    if stage.single and not rows:
        rows = [(None,) * len(stage.columns)]
    return StageTable(stage, tuple(rows[: stage.most]))


def _columns(
    parsed: Release, parts: list[tuple[PlannedRelease, Released]], catalog: Catalog
) -> tuple[ReleasedColumn, ...]:
    """Return the released table: the groups of each set of keys in turn, as often as it is named."""
    found = read_sets(parts) if catalog.consistent else [read(*part) for part in parts]
    if any(catalog.tables[t].round_counts for t in parsed.tables):
        found = [
            [
                np.maximum(v, 0) if a.kind.value.startswith(("COUNT", "HISTOGRAM")) else v
                for a, v in zip(parsed.aggregates, values, strict=True)
            ]
            for values in found
        ]
    order = _order(parsed)
    keys = [key for part in order for key in padded(parsed, *parts[part])]
    values = [
        np.concatenate([found[part][i] for part in order]) for i in range(len(parsed.aggregates))
    ]
    sizes = [len(parts[part][1].keys) for part in order]
    columns = (*key_columns(parsed, keys), *value_columns(parsed, values))
    if not parsed.sets:
        return (*columns, number_column(len(keys)))
    places = np.repeat(np.arange(len(order), dtype=np.int64), sizes)
    return (*columns, ReleasedColumn(GROUPING_SET, BIGINT, places), number_column(len(keys)))


def _order(parsed: Release) -> list[int]:
    """Return the steps of a release's sets in the order of the text: equal sets are one step."""
    distinct = list(dict.fromkeys(parsed.sets))
    return [distinct.index(one) for one in parsed.sets] or [0]
