"""What a statement asks that was released before: it costs nothing, and is shown again bit for bit.

Claim:   every release that is shown was charged: it is in the store of answers (`budget.answers` says
         why that is enough), or was drawn for a statement that is paid together with this one, or is
         drawn now and was reserved.
Why:     `known` looks before the charge, takes the answers into its hands then, and leaves the cost of
         everything else in `prepared.costs`, which is what is reserved. After that `run` shows what
         is in its hands, and draws what isn't: it raises where a release counted as free would have
         to be drawn. Whether an answer is found depends on what was asked before, on released values
         and on public data, never on a protected row.
Assumes: the caller reserves `prepared.costs` between the two.
Source:  [Dwork2006]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from dp_sql.budget.answers import Answers, Version
from dp_sql.budget.record import OWNER, Charge, Receipt
from dp_sql.charges import Records, charges_beside, records_of
from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError
from dp_sql.executor.engine import Engine
from dp_sql.mechanisms.release import Released
from dp_sql.mechanisms.sampler import Sampler
from dp_sql.mechanisms.stored import from_bytes, to_bytes
from dp_sql.plan.fingerprint import CanonicalText
from dp_sql.plan.release import Release, StageTable
from dp_sql.postprocess.processor import PostProcessor
from dp_sql.postprocess.released import Answer
from dp_sql.privacy.cost import Cost
from dp_sql.schema.catalog import Catalog
from dp_sql.stages import Course, Prepared, Step, costs_of, fresh
from dp_sql.version import VERSION

MOST_NUMBERS = 200_000
"""An answer of more keys and numbers isn't kept: writing it down would take longer than asking."""

_FORM = "1"  # of fingerprints: another one makes every answer a new one


@dataclass(frozen=True, slots=True)
class Known:
    """A statement, and which of its releases were there before it is paid.

    prepared: its costs are those of the releases that are to be drawn. listed: with the costs of all
    of it, as if nothing had been released before. learned: with those of `prepared`, and of the
    answers that this analyst is shown for the first time: what counts against a cap on what one
    analyst has seen. free: by the name of each release that costs nothing, why.
    course: goes as far as answers are known. keys: the fingerprints so far, by release. unseen: those of
    answers that count in `learned`.
    """

    prepared: Prepared
    listed: Prepared
    learned: Prepared
    free: Mapping[str, str]
    course: Course
    keys: Mapping[str, str]
    unseen: tuple[str, ...]


class Draws:
    """What is drawn for statements that are paid together: releases that are the same, once.

    promised: the fingerprints of what the statements so far will draw. learned: of the answers that
    count against the analyst's cap. drawn: what they have drawn. kept: what is to be kept of it, as
    fingerprint, charge, identities of tables, and the answer as bytes.
    """

    def __init__(self) -> None:
        self.promised: set[str] = set()
        self.learned: set[str] = set()
        self.drawn: dict[str, list[Released]] = {}
        self.kept: list[tuple[str, str, list[str], bytes]] = []

    def forget(self) -> None:
        """Keep nothing of what was drawn so far."""
        self.kept.clear()


class Repeats:
    """Finds the answers of one connection's statements, and keeps the new ones."""

    def __init__(
        self,
        answers: Answers | None,
        catalog: Catalog,
        engine: Engine,
        post: PostProcessor,
        sampler: Sampler,
        identities: Mapping[str, str],
        analyst: str,
    ) -> None:
        """Use a store of answers. answers: None where every release is drawn anew, and none is kept."""
        self._answers = answers
        self._catalog, self._engine, self._post = catalog, engine, post
        self._sampler = sampler.name
        self._identities, self._analyst = identities, analyst
        self._anew = fresh(engine, post, sampler)

    def known(self, prepared: Prepared, draws: Draws) -> Known:
        """Return a statement with what is known of it. No protected row is read.

        draws: of the statements that are paid together with it. Raises QueryError where a stage of
        known answers can't be computed.
        """
        course = Course(prepared, self._catalog, self._post)
        free: dict[str, str] = {}
        new: list[Release] = []
        learned: list[Release] = []
        keys: dict[str, str] = {}
        waiting = course.waiting()
        while parsed := next((r for r in waiting if course.ready(r)), None):
            waiting.remove(parsed)
            steps = course.steps(parsed)
            versions = self._versions(parsed, steps)
            if self._answers is None or versions is None:
                new.append(parsed)
                continue
            key = self._fingerprint(steps, course.read(parsed), versions)
            keys[parsed.name] = key
            found = self._answers.find(key, self._analyst)
            noisy = None if found is None else _restored(found.body, steps)
            if found is not None and noisy is not None:
                course.take(parsed, noisy)
                free[parsed.name] = f"released before ({self._words(versions)})"
                if not found.seen and key not in draws.learned:
                    draws.learned.add(key)
                    learned.append(parsed)
            elif key in draws.promised:
                free[parsed.name] = "the same as another release that is paid with it"
            else:
                draws.promised.add(key)
                new.append(parsed)
        new += waiting
        return Known(
            self._owing(prepared, new),
            prepared,
            self._owing(prepared, [*new, *learned]),
            free,
            course,
            keys,
            tuple(keys[parsed.name] for parsed in learned),
        )

    def records(self, queries: Sequence[str], known: Sequence[Known]) -> Records:
        """Return what the ledger is to note of statements, each of those that read protected tables."""
        owed = [self._charges(one) for one in known]
        return records_of(zip(queries, owed, strict=True), self._identities, self._analyst)

    def record(self, text: str, charges: Mapping[str, Charge]) -> Records:
        """Return what the ledger is to note of statements that are charged as one, by table."""
        return records_of([(text, charges)], self._identities, self._analyst)

    def learned(self, known: Known) -> dict[str, Cost]:
        """Return what counts against the analyst's own parts, by table, where it isn't the cost."""
        charges = self._charges(known).items()
        return {table: charge.learned for table, charge in charges if charge.learned is not None}

    def _charges(self, known: Known) -> dict[str, Charge]:
        prepared = (known.prepared, known.listed, known.learned)
        return charges_beside(*prepared, self._catalog, capped=self._analyst != OWNER)

    def _owing(self, prepared: Prepared, releases: Sequence[Release]) -> Prepared:
        """Return a statement with the costs of some of its releases alone."""
        costs, debits = costs_of(releases, prepared.steps, self._catalog)
        return replace(prepared, costs=costs, debits=debits)

    def run(self, known: Known, receipt: Receipt | None, draws: Draws) -> Answer:
        """Return the answer of a statement that is paid.

        receipt: of `known.prepared.costs`, None where nothing was charged. draws: as for `known`.
        """

        def draw(parsed: Release, steps: list[Step], read: list[StageTable]) -> list[Released]:
            key = known.keys.get(parsed.name)
            if parsed.name in known.free:
                if key not in draws.drawn:
                    raise InternalError("a release that is neither known nor paid")
                return draws.drawn[key]
            if key is None and (versions := self._versions(parsed, steps)) is not None:
                key = self._fingerprint(steps, read, versions)
            try:
                noisy = self._anew(parsed, steps, read)
            except BaseException:
                draws.forget()
                raise
            if key is None or receipt is None or self._answers is None:
                return noisy
            draws.drawn[key] = noisy
            if sum(map(_numbers, noisy)) <= MOST_NUMBERS:
                charged, _ = costs_of([parsed], steps, self._catalog)
                identities = [self._identities[table] for table in charged]
                draws.kept.append((key, receipt.query_id, identities, to_bytes(noisy)))
            return noisy

        if self._answers is not None and known.unseen:
            self._answers.saw(known.unseen, self._analyst)
        return known.course.finish(draw)

    def keep(self, draws: Draws) -> None:
        """Keep what was drawn of statements that have come to their end, or failed above their releases.

        Claim:   what is free later tells of no statement how far it came before the data made it fail
                 or it was stopped.
        Why:     a release that fails takes with it what was drawn before (`run`), and so does a
                 statement that is stopped (`Pace.until_step`). Else each failure is one of released values.
        Assumes: this is called once all that is paid together has ended, and its step has come.
        Source:  [Haeberlen2011]
        """
        if self._answers is not None:
            for key, query_id, identities, body in draws.kept:
                self._answers.keep(key, query_id, identities, body, self._analyst)

    def _versions(self, parsed: Release, steps: Sequence[Step]) -> dict[str, Version] | None:
        """Return the versions of a release's tables, by name; None where it isn't looked for at all."""
        if self._answers is None or not costs_of([parsed], steps, self._catalog)[0]:
            return None
        found = self._answers.versions(self._identities[table] for table in parsed.tables)
        if found is None:
            return None
        return {table: found[self._identities[table]] for table in parsed.tables}

    def _fingerprint(
        self, steps: Sequence[Step], read: Sequence[StageTable], versions: Mapping[str, Version]
    ) -> str:
        """Return the digest of everything that a release depends on.

        That is: its plan with every literal, bound, limit and public key; the rows of the stages it
        reads; its noise and what that costs; the unit; which data its tables are, and in which
        version; the rows of the public tables that it joins; who computes and who draws.
        """
        tables = self._catalog.tables
        text = CanonicalText(read)
        text.add(tuple((step.plan, step.measurement) for step in steps), self._catalog.unit)
        text.add(
            tuple(
                (name, self._identities[name], tables[name].data_version, version.number)
                for name, version in versions.items()
            ),
            tuple((name, self._engine.content(name)) for name in sorted(text.public_tables)),
            (_FORM, VERSION, self._engine.version, self._sampler),
        )
        return text.digest()

    def _words(self, versions: Mapping[str, Version]) -> str:
        found = []
        for name, version in versions.items():
            spec = self._catalog.tables[name]
            since = f" refreshed {version.time[:10]}" if version.time else ""
            found.append(f"data version {spec.data_version}{since} of {spec.name}")
        return ", ".join(found)


def _numbers(released: Released) -> int:
    """Return how many keys and numbers were released."""
    columns = sum(len(vector) for vector in released.vectors)
    columns += sum(len(ranks) for ranks in released.chosen) + len(released.distinct)
    return len(released.keys) * (1 + columns)


def _restored(body: bytes, steps: Sequence[Step]) -> list[Released] | None:
    with suppress(ValueError):
        return from_bytes(body, [step.measurement for step in steps])
    return None
