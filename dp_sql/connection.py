"""The drawing as code: SQL in, noisy answer out, budget debited. `Connection.sql` reads like it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from fractions import Fraction
from functools import cache
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dp_sql import stages
from dp_sql.accuracy import accurate, read_asked, too_dear
from dp_sql.advice import advised
from dp_sql.amounts import Amounts, after_set, parts, read_amounts
from dp_sql.batch import Batch, Spending, read_batch
from dp_sql.budget import open_answers, open_ledger
from dp_sql.budget.record import OWNER, Asked, Entry, Receipt
from dp_sql.budget.state import BudgetState
from dp_sql.charges import charges_of
from dp_sql.cursor import Cursor
from dp_sql.errors import (
    BudgetExceededError,
    EngineError,
    InternalError,
)
from dp_sql.executor import spawn
from dp_sql.executor.duckdb_engine import DuckDBEngine
from dp_sql.executor.sources import locate
from dp_sql.explain import explanation
from dp_sql.joint import JOINT, Way, in_order, ways
from dp_sql.mechanisms.sampler import sampler_named
from dp_sql.pace import Pace
from dp_sql.parser.advice import with_example
from dp_sql.parser.setting import read_setting
from dp_sql.parser.statement import parse
from dp_sql.parser.text import explained_by
from dp_sql.payment import answering, register, reserve
from dp_sql.places import analyst_named, ledger_place
from dp_sql.plan.accuracy import Accuracy
from dp_sql.plan.release import Release
from dp_sql.postprocess.opening import open_above
from dp_sql.postprocess.released import Answer
from dp_sql.privacy.amount import Amount
from dp_sql.privacy.cost import Cost
from dp_sql.repeats import TOPPED_UP, Draws, Known, Repeats
from dp_sql.result import Interval, Result
from dp_sql.sampling import sampled
from dp_sql.schema.catalog import Catalog, ascii_lower
from dp_sql.schema.loader import load
from dp_sql.tune import Ends, Tuning, place_of, tune


class Connection:
    """An analyst's way to the protected tables of one schema. Use it as a context manager."""

    def __init__(
        self,
        schema: str | PathLike[str],
        *,
        database: str | None = None,
        data_dir: str | PathLike[str] | None = None,
        ledger: str | PathLike[str] | None = None,
        analyst: str | None = None,
        reuse: bool = True,
        in_process: bool | None = None,
    ) -> None:
        with (
            spawn.prepared(wanted=not in_process),
            ExitStack() as undo,
        ):  # they load beside the schema
            self._catalog: Catalog = load(schema, database=database)
            self._analyst = OWNER if analyst is None else analyst_named(analyst)
            folder = None if data_dir is None else Path(data_dir)
            self._sampler = sampler_named(self._catalog.sampler)
            limits = self._catalog.worker
            worker = None if (limits.in_process if in_process is None else in_process) else limits
            sources = locate(self._catalog, folder, database)
            files = sources.public_parquet(self._catalog)
            engines: list[DuckDBEngine] = []

            def rows_of(table: str) -> Mapping[str, Any]:
                return engines[0].public_columns(table)

            with ThreadPoolExecutor(max_workers=1) as aside:  # a database takes its time to start
                above = (self._catalog, files, rows_of, self._sampler, worker)
                started = aside.submit(open_above, *above)
                undo.callback(lambda: started.exception() or started.result().close())
                self._engine = DuckDBEngine(self._catalog, sources, worker)
                undo.callback(self._engine.close)
            self._post = started.result()
            engines.append(self._engine)
            place = ledger_place(self._catalog, ledger, database, folder)
            self._ledger = open_ledger(place)
            undo.callback(self._ledger.close)
            self._answers = open_answers(place, self._ledger)
            self._identities = register(self._ledger, self._catalog, self._engine)
            undo.pop_all()
        self._process = os.getpid()
        self._pace = Pace(bucketed=self._catalog.bucketed)
        self._session = Amounts()
        self._closed = False
        parts = (self._catalog, self._engine, self._post, self._sampler, self._identities)
        self._reuse = reuse
        self._repeats = Repeats(self._answers if reuse else None, *parts, self._analyst)

    def sql(
        self,
        query: str,
        *,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        within: Amount | None = None,
        confidence: Amount | None = None,
        sample_rate: Amount | None = None,
    ) -> Result:
        """Answer one statement and debit its cost.

        epsilon, delta: of the whole statement. Where not given: what the statement's own privacy
        clause says, else the session (`SET epsilon = 0.5`, until `RESET epsilon`), else the schema.
        within: in place of epsilon, how far each shown count and sum may be from its value without
        noise in a share of `confidence` of all runs (0.95 where not given): the statement then takes
        the smallest epsilon of three digits for that, which `explain` tells beforehand.
        sample_rate: each release of the statement reads a fresh sample that holds each unit with this
        probability, between 0 and 1; its numbers are those of the sample, and epsilon and delta are
        still what the statement costs.
        Raises QueryError (nothing was run or charged), BudgetExceededError (likewise), LedgerError,
        EngineError (the cost stays charged).
        """
        self._open()
        began = self._pace.now()
        with self._shown(query, delta):
            explained = explained_by(query) if isinstance(query, str) else None
            if explained is not None:
                return self._explained(explained, epsilon, delta, within, confidence, sample_rate)
            setting = read_setting(query) if isinstance(query, str) else None
            if setting is not None:
                self._session = after_set(self._session, setting, query, self._catalog.defaults)
                return Result(Answer(("Success",), ("BOOLEAN",), [], ()), {}, lambda _: [])
            prepared = self._prepare(query, epsilon, delta, within, confidence, sample_rate)
            draws = Draws()
            known = self._repeats.known(prepared, draws)
        try:
            records = self._repeats.records([query], [known])
            receipts = reserve(self._ledger, records, [known], self._catalog)
        except BudgetExceededError as error:

            def fits(smaller: Fraction) -> bool:
                one = self._prepare(query, smaller, delta, None, None, sample_rate)
                again = [self._repeats.known(one, Draws())]
                return self._ledger.has_room(self._repeats.records([query], again))

            error = advised(error, [prepared], fits, 1)
            raise too_dear(error, prepared.query) from None
        return self._answers_of([known], receipts, draws, began, [None])[0]

    def batch(
        self,
        queries: Sequence[str],
        *,
        epsilon: Amount,
        delta: Amount | None = None,
        weights: Sequence[Amount] | None = None,
        sample_rate: Amount | None = None,
    ) -> list[Result]:
        """Answer statements that are declared together and share one epsilon; results in their order.

        epsilon, delta: of all of them together. weights: how much each statement's squared error
        counts, 1 where not given; the parts of epsilon are then those at which the sum is least
        (`Result.cost` tells them). Where noise for all together is less, each result has the cost of
        the whole batch, and a note. Without delta it is the session's or the schema's, in parts each.
        sample_rate: each release of each statement reads a fresh sample of the units, as with `sql`.
        A text that stands twice is answered once, unless the connection doesn't reuse answers or the
        batch reads samples: then each statement has its own.
        All are charged in one transaction, or none is. Raises what `sql` raises; where one of them
        fails after that, all stay charged and none is returned.
        """
        self._open()
        began = self._pace.now()
        given = read_batch(queries, epsilon, delta, weights)
        asked = given.distinct() if self._reuse and sample_rate is None else given
        refused: BudgetExceededError | None = None
        for way in self._ways(asked, sample_rate):
            draws, known, records = way.asked(asked, self._repeats)
            try:
                receipts = reserve(self._ledger, records, known, self._catalog)
            except BudgetExceededError as error:
                refused = error
                continue
            results = self._answers_of(known, receipts, draws, began, way.costs(known))
            return in_order(given, asked, results)
        if refused is None:
            raise InternalError("a batch has a way to be answered")

        def fits(smaller: Fraction) -> bool:
            ways = self._ways(replace(asked, epsilon=smaller), sample_rate)
            return any(self._ledger.has_room(way.asked(asked, self._repeats)[2]) for way in ways)

        raise advised(refused, way.prepared, fits, 8 * len(asked.queries))

    def _ways(self, asked: Batch, sample_rate: Amount | None) -> Iterator[Way]:
        """Yield the ways to answer a batch, as `joint.ways` does."""
        defaults, session = self._catalog.defaults, self._session
        delta = next((d for d in (asked.delta, session.delta, defaults.delta) if d is not None), 0)

        @cache
        def parsed(query: str) -> stages.Parsed:
            return self._parse(query, sample_rate)

        def prepare(query: str, spent: Spending) -> stages.Prepared:
            with self._shown(query, spent.delta):
                amounts = spent.epsilon, spent.delta, None, None, sample_rate
                return self._prepare(query, *amounts, gaussian=spent.gaussian, parsed=parsed(query))

        return ways(asked, Fraction(delta), prepare, self._catalog)

    def _answers_of(
        self,
        known: Sequence[Known],
        receipts: Sequence[Receipt | None],
        draws: Draws,
        began: float,
        joint: Sequence[Mapping[str, Cost] | None],
    ) -> list[Result]:
        """Answer statements that are paid. Nobody finds a trace of how far they came before their step."""
        with answering(self._ledger, receipts):
            try:
                with self._pace.until_step(began, draws.forget):
                    each = zip(known, receipts, joint, strict=True)
                    return [self._run(one, paid, draws, cost) for one, paid, cost in each]
            finally:
                self._repeats.keep(draws)

    def _run(
        self,
        known: Known,
        receipt: Receipt | None,
        draws: Draws,
        joint: Mapping[str, Cost] | None = None,
    ) -> Result:
        """Answer a statement that is paid. joint: what it cost with others, where noise is joint."""
        answer = self._repeats.run(known, receipt, draws)

        def spread(level: float) -> list[tuple[Interval, ...]]:
            return known.course.intervals(answer, level)

        costs = self._costs(known.prepared.costs if joint is None else joint)
        topped = [TOPPED_UP] if known.topped else []
        notes = (*known.prepared.query.notes, *([JOINT] if joint else []), *topped)
        return Result(answer, costs, spread, notes, repeated=bool(known.free))

    def explain(
        self,
        query: str,
        *,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        within: Amount | None = None,
        confidence: Amount | None = None,
        sample_rate: Amount | None = None,
    ) -> str:
        """Return what a statement would do and cost, as text. Reads no protected row, costs nothing."""
        self._open()
        with self._shown(query, delta):
            prepared = self._prepare(query, epsilon, delta, within, confidence, sample_rate)
            known = self._repeats.known(prepared, Draws())
        states = {
            table: self._ledger.state(self._identities[table], self._own, charge.blocks)
            for table, charge in charges_of(known.prepared, self._catalog).items()
        }
        learned = self._repeats.learned(known)
        return explanation(known.prepared, self._catalog, states, known.before, learned)

    def tune(
        self,
        table: str,
        *,
        epsilon: Amount,
        by: Sequence[str] = (),
        bounds: Mapping[str, Ends | None] | None = None,
    ) -> Tuning:
        """Return proposals for a table's limits and bounds, from private quantiles that cost `epsilon`.

        by: the columns that statements will group by. bounds: by column, wide public bounds to look
        between, None for the declared ones; without any, all numeric columns that have some.
        Raises QueryError where there is nothing to tune, and what `sql` raises.
        """
        self._open()
        place = place_of(self._catalog, self._engine, table, by)
        return tune(place, bounds or {}, epsilon, lambda query: self.sql(query, epsilon=epsilon))

    def budget(self) -> dict[str, BudgetState]:
        """Return the state of each protected table's budget, by its name in the schema.

        An analyst is told of his or her own part of the budget, and how many more of his or her own
        last statement fit; the owner of everybody's.
        """
        self._open()
        return {
            self._catalog.tables[name].name: self._state(identity)
            for name, identity in self._identities.items()
        }

    def refresh(self, *tables: str) -> None:
        """Have statements about these protected tables drawn anew, because their data are new.

        Without a name, about all of them. What was asked before costs again then. Only the owner may:
        raises LedgerError for an analyst, ParameterError for a table that has no budget.
        """
        self._open()
        named = [ascii_lower(self._catalog.protected(table)[0].name) for table in tables]
        names = named or list(self._identities)
        self._answers.refresh((self._identities[name] for name in names), self._analyst)

    def ledger(self) -> Iterator[Entry]:
        """Yield what was asked and what it cost, oldest first: an analyst's own, for the owner all."""
        self._open()
        return self._ledger.entries(Asked(analyst=self._own))

    @property
    def _own(self) -> str | None:
        """Whose statements this connection may see: an analyst's own, None for all."""
        return None if self._analyst == OWNER else self._analyst

    def _state(self, identity: str) -> BudgetState:
        return self._ledger.state(identity, self._own)

    def cursor(self) -> Cursor:
        """Return a PEP 249 cursor over this connection."""
        self._open()
        return Cursor(self.sql)

    def commit(self) -> None:
        """Do nothing: what was charged is durable already, and nothing takes it back (PEP 249)."""
        self._open()

    @property
    def session(self) -> Amounts:
        """The epsilon and delta that SET statements gave; None where none did."""
        return self._session

    @property
    def confined(self) -> tuple[str, ...]:
        """What both workers took from themselves, in words; empty without them."""
        return tuple(wall for wall in self._engine.confined if wall in self._post.confined)

    @property
    def catalog(self) -> Catalog:
        """The schema that this connection was opened with."""
        return self._catalog

    def interrupt(self) -> None:
        """Stop the statement that runs now, from another thread. It stays charged."""
        self._pace.interrupt()
        self._engine.interrupt()
        self._post.interrupt()

    def close(self) -> None:
        """Close the data, the ledger and everything else. Closing twice, or in a fork, does nothing."""
        if not self._closed and os.getpid() == self._process:
            self._closed = True
            self._engine.close()
            self._post.close()
            self._answers.close()
            self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> None:
        if self._closed:
            raise EngineError("the connection is closed.", hint="dp_sql.connect(…)")
        if os.getpid() != self._process:  # whose threads it hasn't
            raise EngineError(
                "a connection can't be used in a fork of its process.",
                hint="dp_sql.connect(…) in the fork",
            )

    def _shown(self, query: str, delta: Amount | None) -> AbstractContextManager[None]:
        def answer(text: str) -> object:
            setting = read_setting(text)
            if setting is not None:
                return after_set(self._session, setting, text, self._catalog.defaults)
            return self._prepare(text, 1, delta, None, None, None)

        return with_example(self._catalog, query, answer)

    def _prepare(
        self,
        query: str,
        epsilon: Amount | None,
        delta: Amount | None,
        within: Amount | None,
        confidence: Amount | None,
        sample_rate: Amount | None,
        *,
        gaussian: bool = False,
        parsed: stages.Parsed | None = None,
    ) -> stages.Prepared:
        defaults = self._catalog.defaults
        call = read_amounts(epsilon, delta, defaults)
        asked = read_asked(within, confidence, epsilon)
        plan, public = parsed or self._parse(query, sample_rate, asked)
        plan, call = accurate(plan, asked, call, self._session, self._catalog, public)
        shared = parts(plan, call, self._session, defaults)
        spent = tuple(replace(part, gaussian=gaussian) for part in shared)
        return stages.prepare(plan, self._catalog, self._engine, public, spent)

    def _parse(
        self, query: str, sample_rate: Amount | None, asked: Accuracy | None = None
    ) -> stages.Parsed:
        plan = sampled(parse(query, self._catalog, self._describe), sample_rate, asked)
        return plan, stages.StagedFacts(plan, self._engine, self._post)

    def _describe(
        self, sql: str, public_tables: tuple[str, ...], releases: Sequence[Release]
    ) -> tuple[tuple[str, str], ...]:
        tables = {release.name: stages.declared(release) for release in releases}
        return self._post.columns(sql, public_tables, tables)

    def _explained(
        self,
        rest: str,
        epsilon: Amount | None,
        delta: Amount | None,
        within: Amount | None,
        confidence: Amount | None,
        sample_rate: Amount | None,
    ) -> Result:
        text = self.explain(
            rest,
            epsilon=epsilon,
            delta=delta,
            within=within,
            confidence=confidence,
            sample_rate=sample_rate,
        )
        rows: list[tuple[Any, ...]] = [(line,) for line in text.splitlines()]
        answer = Answer(("explain",), ("VARCHAR",), rows, ())
        return Result(answer, {}, lambda _: [(None,) for _ in rows])

    def _costs(self, costs: Mapping[str, Cost]) -> dict[str, Cost]:
        return {self._catalog.tables[table].name: cost for table, cost in costs.items()}


def connect(
    schema: str | PathLike[str],
    *,
    database: str | None = None,
    data_dir: str | PathLike[str] | None = None,
    ledger: str | PathLike[str] | None = None,
    analyst: str | None = None,
    reuse: bool = True,
    in_process: bool | None = None,
) -> Connection:
    """Open the protected tables that a schema file declares.

    schema: the YAML file of the data owner. database: overrides its `database`. data_dir: the folder
    of `source` files. ledger: the file that holds the budget, the URL of a PostgreSQL database that
    does (postgresql://…), or ":memory:" for one that is forgotten; by default it lies beside the
    data. analyst: who asks, for the ledger; None is the owner, who sees everybody's statements.
    reuse: whether what was released before is shown again at no cost; without it every statement is
    drawn anew and paid, and nothing is kept for later. in_process: False to read the data, and to run
    what is above the releases, in processes of their own, within the limits that the schema gives
    them, True to do it in this one, without limits; by default what the schema says, which is
    processes of their own unless it says `in_process: true`.

    Raises SchemaError, EngineError, LedgerError, or ParameterError for an analyst called "owner".
    """
    return Connection(
        schema,
        database=database,
        data_dir=data_dir,
        ledger=ledger,
        analyst=analyst,
        reuse=reuse,
        in_process=in_process,
    )
