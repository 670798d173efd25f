"""What a statement asks that was released before: it costs nothing, and is shown again bit for bit.

What was released with more noise than is asked now is topped up: what it lacks is drawn and paid.

Claim:   every release that is shown was charged: it is in the store of answers (`budget.answers` says
         why that is enough), or was drawn for a statement that is paid together with this one, or is
         drawn now and was reserved, or is computed from one that is stored and one that is drawn now.
Why:     `known` looks before the charge, takes the answers into its hands then, and leaves the cost of
         everything else in `prepared.costs`, and everything else itself in `drawn`. That is what is
         reserved: of a release that is topped up, the cost of the measurement that it lacks. After that
         `run` shows what is in its hands, and draws what isn't, with the noise that was priced: it
         raises where a release counted as free would have to be drawn. Whether an answer is found
         depends on what was asked before, on released values and on public data, never on a protected
         row. An analyst who wasn't told of what is topped up has the whole release counted against his
         or her part (`mechanisms.topup.missing`).
Assumes: between the two the caller reserves the costs of each statement, or for all statements that are
         paid together one guarantee of all that is in their `drawn` (`joint`), where nothing is topped up.
Source:  [Dwork2006]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from dp_sql.budget.answers import Answers, Version
from dp_sql.budget.record import OWNER, Charge, Receipt
from dp_sql.charges import Records, charges_beside, records_of, with_learned
from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError
from dp_sql.executor.engine import Engine
from dp_sql.mechanisms.release import Released
from dp_sql.mechanisms.sampler import Sampler
from dp_sql.mechanisms.stored import from_bytes, to_bytes
from dp_sql.mechanisms.topup import Noises
from dp_sql.plan.fingerprint import CanonicalText
from dp_sql.plan.release import Release, StageTable
from dp_sql.postprocess.processor import PostProcessor
from dp_sql.postprocess.released import Answer
from dp_sql.privacy.cost import Cost
from dp_sql.schema.catalog import Catalog
from dp_sql.stages import Course, Prepared, Step, costs_of, fresh
from dp_sql.topup import TopUp, noises_to_keep, topped_up, with_steps
from dp_sql.version import VERSION

MOST_NUMBERS = 200_000
"""An answer of more keys and numbers isn't kept: writing it down would take longer than asking."""

TOPPED_UP = "An earlier answer was topped up: the cost is that of what it lacked."

_FORM = "2"  # of fingerprints: another one makes every answer a new one


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a release depends on, as a digest. root: all of it but its noise and what that costs."""

    whole: str
    root: str


@dataclass(frozen=True, slots=True)
class Known:
    """A statement, and which of its releases were there before it is paid.

    prepared: its costs are those of the releases that are to be drawn. listed: with the costs of all
    of it, as if nothing had been released before. learned: with those of `prepared`, and of the
    answers that this analyst is shown for the first time: what counts against a cap on what one
    analyst has seen. free: by the name of each release that costs nothing, why.
    course: goes as far as answers are known. keys: the fingerprints so far, by release. unseen: those of
    answers that count in `learned`. topped: what is topped up, by the name of the release.
    """

    prepared: Prepared
    listed: Prepared
    learned: Prepared
    free: Mapping[str, str]
    course: Course
    keys: Mapping[str, Fingerprint]
    unseen: tuple[str, ...]
    topped: Mapping[str, TopUp]

    @property
    def before(self) -> dict[str, str]:
        """In words, what was released before, by the name of each release that is free or topped up."""
        free = {name: f"free: {why}" for name, why in self.free.items()}
        return free | {name: str(top) for name, top in self.topped.items()}

    @property
    def drawn(self) -> Prepared:
        """The releases that are to be drawn, with their costs and their steps alone."""
        return self._of(self.prepared, set(self.free))

    @property
    def shown(self) -> Prepared:
        """The releases that count in `learned`, with their costs and their steps alone."""
        unseen = {name for name, key in self.keys.items() if key.whole in self.unseen}
        return self._of(self.learned, set(self.free) - unseen)

    def _of(self, owing: Prepared, without: set[str]) -> Prepared:
        steps = tuple(s for s in owing.steps if s.plan.release.name not in without)
        return replace(owing, steps=steps)


class Draws:
    """What is drawn for statements that are paid together: releases that are the same, once.

    But each that reads a sample of the units has a sample of its own, and so a fingerprint of its own.

    promised: the fingerprints of what the statements so far will draw. learned: of the answers that
    count against the analyst's cap. drawn: what they have drawn. kept: what is to be kept of it, as
    fingerprint, charge, identities of tables, the answer as bytes, and its noise. samples: how many
    releases on samples were the same so far, by fingerprint.
    """

    def __init__(self) -> None:
        self.samples: Counter[str] = Counter()
        self.promised: set[str] = set()
        self.learned: set[str] = set()
        self.drawn: dict[str, list[Released]] = {}
        self.kept: list[tuple[Fingerprint, str, list[str], bytes, Noises | None]] = []

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

    def known(self, prepared: Prepared, draws: Draws, *, joint: bool = False) -> Known:
        """Return a statement with what is known of it. No protected row is read.

        draws: of the statements that are paid together with it. joint: whether their noise is priced
        together, so that nothing is topped up. Raises QueryError where a stage of known answers can't be
        computed.
        """
        course = Course(prepared, self._catalog, self._post)
        free: dict[str, str] = {}
        new: list[Release] = []
        learned: list[Release] = []
        keys: dict[str, Fingerprint] = {}
        topped: dict[str, TopUp] = {}
        waiting = course.waiting()
        while parsed := next((r for r in waiting if course.ready(r)), None):
            waiting.remove(parsed)
            steps = course.steps(parsed)
            versions = self._versions(parsed, steps)
            if self._answers is None or versions is None:
                new.append(parsed)
                continue
            keys[parsed.name] = self._key(steps, course.read(parsed), versions, draws)
            key = keys[parsed.name].whole
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
                if not joint and noises_to_keep(steps) is not None:
                    stored = self._answers.alike(keys[parsed.name].root, self._analyst)
                    top = topped_up(steps, stored, self._words(versions))
                    if top is not None:
                        topped[parsed.name] = top
        new += waiting
        seen = {name: top for name, top in topped.items() if top.seen}
        return Known(
            self._owing(prepared, new, topped),
            prepared,
            self._owing(prepared, [*new, *learned], seen),
            free,
            course,
            keys,
            tuple(keys[parsed.name].whole for parsed in learned),
            topped,
        )

    def records(self, queries: Sequence[str], known: Sequence[Known]) -> Records:
        """Return what the ledger is to note of statements, each of those that read protected tables."""
        owed = [self._charges(one) for one in known]
        return records_of(zip(queries, owed, strict=True), self._identities, self._analyst)

    def record(self, text: str, charges: Mapping[str, Charge]) -> Records:
        """Return what the ledger is to note of statements that are charged as one, by table."""
        return records_of([(text, charges)], self._identities, self._analyst)

    def with_learned(
        self, owed: Mapping[str, Charge], learned: Mapping[str, Charge]
    ) -> dict[str, Charge]:
        """Return charges by table, with what counts against the analyst's part where that is more."""
        if self._analyst == OWNER:
            return dict(owed)
        tables = self._catalog.tables
        return {t: with_learned(one, learned.get(t), tables[t].budget) for t, one in owed.items()}

    def learned(self, known: Known) -> dict[str, Cost]:
        """Return what counts against the analyst's own parts, by table, where it isn't the cost."""
        charges = self._charges(known).items()
        return {table: charge.learned for table, charge in charges if charge.learned is not None}

    def _charges(self, known: Known) -> dict[str, Charge]:
        prepared = (known.prepared, known.listed, known.learned)
        return charges_beside(*prepared, self._catalog, capped=self._analyst != OWNER)

    def _owing(
        self, prepared: Prepared, releases: Sequence[Release], topped: Mapping[str, TopUp]
    ) -> Prepared:
        """Return a statement with the costs of some of its releases alone, some of them topped up."""
        costs, debits = costs_of(releases, with_steps(prepared.steps, topped), self._catalog)
        return replace(prepared, costs=costs, debits=debits)

    def run(self, known: Known, receipt: Receipt | None, draws: Draws) -> Answer:
        """Return the answer of a statement that is paid.

        receipt: of `known.prepared.costs`, None where nothing was charged. draws: as for `known`.
        """

        def draw(parsed: Release, steps: list[Step], read: list[StageTable]) -> list[Released]:
            key = known.keys.get(parsed.name)
            if parsed.name in known.free:
                if key is None or key.whole not in draws.drawn:
                    raise InternalError("a release that is neither known nor paid")
                return draws.drawn[key.whole]
            if key is None and (versions := self._versions(parsed, steps)) is not None:
                key = self._key(steps, read, versions, draws)
            top = known.topped.get(parsed.name)
            try:
                noisy = self._anew(parsed, steps if top is None else [*top.steps], read)
            except BaseException:
                draws.forget()
                raise
            noises = noises_to_keep(steps)
            if top is not None:
                noisy, noises = top.with_earlier(noisy), top.noises
            if key is None or receipt is None or self._answers is None:
                return noisy
            draws.drawn[key.whole] = noisy
            if sum(map(_numbers, noisy)) <= MOST_NUMBERS:
                charged, _ = costs_of([parsed], steps, self._catalog)
                identities = [self._identities[table] for table in charged]
                draws.kept.append((key, receipt.query_id, identities, to_bytes(noisy), noises))
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
            for key, query_id, identities, body, noises in draws.kept:
                more = ("", "") if noises is None else (key.root, noises.to_text())
                self._answers.keep(key.whole, query_id, identities, body, self._analyst, *more)

    def _versions(self, parsed: Release, steps: Sequence[Step]) -> dict[str, Version] | None:
        """Return the versions of a release's tables, by name; None where it isn't looked for at all."""
        if self._answers is None or not costs_of([parsed], steps, self._catalog)[0]:
            return None
        found = self._answers.versions(self._identities[table] for table in parsed.tables)
        if found is None:
            return None
        return {table: found[self._identities[table]] for table in parsed.tables}

    def _key(
        self,
        steps: Sequence[Step],
        read: Sequence[StageTable],
        versions: Mapping[str, Version],
        draws: Draws,
    ) -> Fingerprint:
        """Return the fingerprint of a release, which is another for each of equal ones on samples."""
        found = self._fingerprint(steps, read, versions)
        if all(step.facts.sample_rate is None for step in steps):
            return found
        draws.samples[found.whole] += 1
        text = CanonicalText()
        text.add(found.whole, draws.samples[found.whole])
        return replace(found, whole=text.digest())

    def _fingerprint(
        self, steps: Sequence[Step], read: Sequence[StageTable], versions: Mapping[str, Version]
    ) -> Fingerprint:
        """Return the digest of everything that a release depends on.

        That is: its plan with every literal, bound, limit and public key; the rows of the stages it
        reads; its noise and what that costs; the unit; which data its tables are, and in which
        version; the rows of the public tables that it joins; who computes and who draws.
        """
        tables = self._catalog.tables
        text = CanonicalText(read)
        text.add(tuple(step.plan for step in steps), self._catalog.unit)
        text.add(
            tuple(
                (name, self._identities[name], tables[name].data_version, version.number)
                for name, version in versions.items()
            ),
            tuple((name, self._engine.content(name)) for name in sorted(text.public_tables)),
            (_FORM, VERSION, self._engine.version, self._sampler),
        )
        root = text.digest()
        text.add(tuple(step.measurement for step in steps))
        return Fingerprint(text.digest(), root)

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
