"""What a ledger keeps, as values, and the digests that make a change of it visible.

The digests are a chain of SHA-256: each entry's is taken over its own content, over the
registration of its table and over the digest before it. Whoever can write the file can compute them
anew: they find damage, careless edits and removed rows, not a forger.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from typing import assert_never

from dp_sql.budget.accountant import Filter, Spend, filter_of
from dp_sql.budget.lines import Blocks
from dp_sql.dataclass import dataclass
from dp_sql.privacy.cost import Cost
from dp_sql.privacy.event import Event
from dp_sql.privacy.unit import Adjacency, Level, Named, PrivacyUnit
from dp_sql.schema.catalog import BudgetSpec, Cap, Renew

AMOUNTS = ("pure", "rdp", "selection_delta", "epsilon", "delta")
"""The amounts of a Spend, as the columns of a ledger are called, in the order of `spend_texts`."""

PEOPLE = "people:"
"""How the identity of a budget over all tables begins. No table's does."""

OWNER = "owner"
"""Who asks where no analyst is named. No analyst may have this name."""

GENESIS = "0" * 64
"""What stands for the digest before the first entry."""


class Status(StrEnum):
    """What became of a statement. One that was reserved and never finished is unanswered."""

    RESERVED = "reserved"
    ANSWERED = "answered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class StatementRecord:
    """Who asks what. `query_id`: a text that no other statement of the ledger has (a UUID)."""

    query_id: str
    analyst: str
    sql: str

    def __post_init__(self) -> None:
        if not self.analyst:
            raise ValueError("an analyst has a name")


@dataclass(frozen=True, slots=True)
class Charge:
    """What a statement costs a table, and which of its blocks.

    cost: what the table's rule has to bear in each of the blocks that are named. Under adjacencies
    that move a unit from one block to another the caller has doubled it. blocks: every block from
    whose rows the answer may depend; None is all, those that are yet to come too, and the only
    choice for a table without blocks. learned: what counts against the analyst's cap, where that is
    more than the cost: answers that were released before, and are shown to this analyst for the first
    time, cost the table nothing.
    """

    cost: Cost
    blocks: Blocks = None
    learned: Cost | None = None

    @property
    def of_analyst(self) -> Charge:
        """What is charged to the analyst's own line."""
        return self if self.learned is None else Charge(self.learned, self.blocks)


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a statement is paid for: its number in the ledger and its query id."""

    statement: int
    query_id: str


@dataclass(frozen=True, slots=True)
class Registration:
    """A table as it was registered, for life. `registered_at`: ISO 8601, UTC, for people only.

    unit: as it is for this table (`PrivacyUnit.of_table`). spec: the budget on that day. alpha: the
    order of its filter, None where it has none. raised: the budget since the last raise, None where
    there was none. cap_alpha: the order of the filter of each analyst. people: the identity of the
    budget over all tables that its statements are charged to as well, or None.
    """

    identity: str
    name: str
    unit: PrivacyUnit
    spec: BudgetSpec
    alpha: float | None
    registered_at: str
    raised: BudgetSpec | None = None
    cap_alpha: float | None = None
    people: str | None = None

    @property
    def budget(self) -> BudgetSpec:
        """The budget as it is now."""
        return self.spec if self.raised is None else self.raised

    @property
    def rule(self) -> Filter:
        """The filter that guards the table."""
        return filter_of(self.budget, self.alpha)

    @property
    def cap_rule(self) -> Filter | None:
        """The filter that guards what each named analyst sees, None where there is no cap."""
        spec = self.budget.of_analyst
        return None if spec is None else filter_of(spec, self.cap_alpha)

    @property
    def is_of_people(self) -> bool:
        """Whether it is no table but a budget over all tables."""
        return self.identity.startswith(PEOPLE)

    @property
    def has_lines(self) -> bool:
        """Whether its filter looks at a period or at blocks, and not at the sum of all charges."""
        return self.spec.renew is not Renew.NEVER or self.spec.blocks is not None

    @property
    def has_terms(self) -> bool:
        """Whether its charges have a scope: a period, blocks or an analyst's cap."""
        return self.has_lines or self.spec.cap is not None

    @property
    def account(self) -> str:
        """What it is, in a sentence."""
        if self.is_of_people:
            return f"the budget of each `{self.name}` over all tables"
        return f"`{self.name}`"

    @property
    def digest(self) -> str:
        """The digest of everything that was registered; raises have their own."""
        unit, spec = self.unit, self.spec
        size = str(unit.group_size)
        fields = (self.identity, self.name, unit.level, adjacency_text(unit), size)
        amounts = map(fraction_text, (spec.epsilon, spec.delta, spec.selection_delta))
        order = repr(self.alpha)
        more = terms_texts(self)
        return digest(
            *fields, unit.name, spec.accountant, *amounts, order, self.registered_at, *more
        )


@dataclass(frozen=True, slots=True)
class Scope:
    """Which accounts below a table a charge went to.

    period: "" where the budget isn't renewed. blocks: as Charge has them. cap: what it took of the
    analyst's own line, None where the analyst has none.
    """

    period: str
    blocks: Blocks
    cap: Spend | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One statement's charge to one table.

    number: counts all entries of the ledger from 1. statement: counts its statements. time: ISO
    8601, UTC; the order is that of the numbers. scope: None for a table that is one account.
    """

    number: int
    statement: int
    query_id: str
    time: str
    analyst: str
    sql: str
    status: Status
    identity: str
    spend: Spend
    events: tuple[Event, ...]
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Raise:
    """One act of the owner: the amounts of a table's budget from then on.

    number: in one count with the entries. time: ISO 8601, UTC, for people only. cap: of each analyst,
    None where the table has no cap.
    """

    number: int
    time: str
    identity: str
    epsilon: Fraction
    delta: Fraction
    selection_delta: Fraction
    reason: str
    cap: Cap | None = None

    def of(self, known: Registration) -> BudgetSpec:
        """Return the budget of a table since this raise: all but the amounts stays."""
        return replace(
            known.spec,
            epsilon=self.epsilon,
            delta=self.delta,
            selection_delta=self.selection_delta,
            cap=self.cap,
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """Which entries are wanted; None is all. since, until: ISO 8601, UTC, as entries have it."""

    identity: str | None = None
    analyst: str | None = None
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found: how many entries it read, and one sentence for each thing wrong.

    Raises count as entries. head: the digest of the last one, which stands for all of them.
    """

    entries: int
    problems: tuple[str, ...]
    head: str = GENESIS


def people_identity(name: str) -> str:
    """Return what the budget over all tables is known by."""
    return f"{PEOPLE}{name}"


def digest(*fields: str) -> str:
    """Return the SHA-256 of the fields, as 64 hexadecimal digits; no two lists share a digest."""
    return hashlib.sha256(json.dumps(fields).encode("ascii")).hexdigest()


def terms_texts(known: Registration) -> tuple[str, ...]:
    """Return what a registration says beyond one sum for all time and everybody; nothing, often."""
    if not known.has_terms and known.people is None:
        return ()
    spec = known.spec
    cap = () if spec.cap is None else (*cap_texts(spec.cap), repr(known.cap_alpha))
    return ("terms", spec.renew, spec.blocks or "", known.people or "", *cap)


def cap_texts(cap: Cap) -> tuple[str, str, str]:
    """Return the amounts of a cap as a ledger stores them."""
    epsilon, delta, selected = map(fraction_text, (cap.epsilon, cap.delta, cap.selection_delta))
    return epsilon, delta, selected


def cap_from_texts(texts: Iterable[object]) -> Cap | None:
    """Return what `cap_texts` wrote, None for what isn't there. Raises ValueError for anything else."""
    found = list(texts)
    if all(amount is None for amount in found):
        return None
    epsilon, delta, selected = map(fraction_from_text, found)
    return Cap(epsilon, delta, selected)


def scope_texts(scope: Scope) -> tuple[str, str | None, str | None]:
    """Return a scope as a ledger stores it: the period, then JSON or nothing."""
    blocks = None if scope.blocks is None else json.dumps(sorted(scope.blocks))
    return scope.period, blocks, None if scope.cap is None else json.dumps(spend_texts(scope.cap))


def scope_from_texts(period: object, blocks: object, cap: object) -> Scope:
    """Return what `scope_texts` wrote. Raises ValueError for anything else."""
    found = Scope(
        text(period),
        None if blocks is None else frozenset(map(text, json.loads(text(blocks)))),
        None if cap is None else spend_from_texts(json.loads(text(cap))),
    )
    if scope_texts(found) != (period, blocks, cap):
        raise ValueError("a scope of a ledger is stored as it is written")
    return found


def adjacency_text(unit: PrivacyUnit) -> str:
    """Return the adjacency of one table's unit, with the columns, radius and owner that define it.

    The columns are those of `PrivacyUnit.of_table`.
    """
    details: dict[str, object] = {}
    match unit.adjacency:
        case Adjacency.ADD_REMOVE | Adjacency.SUBSTITUTION:
            pass
        case Adjacency.ZERO_OUT:
            details = {"kept": _columns(unit.kept)}
        case Adjacency.METRIC:
            details = {
                "latitude": _columns(unit.latitudes),
                "longitude": _columns(unit.longitudes),
                "radius": fraction_text(unit.radius or Fraction(0)),
            }
        case _:
            assert_never(unit.adjacency)
    if unit.owner:
        details["owner"] = unit.owner
    return f"{unit.adjacency.value} {json.dumps(details)}" if details else unit.adjacency.value


def _columns(columns: frozenset[Named]) -> list[str]:
    return sorted(column for _, column in columns)


def unit_from_texts(level: str, stored: str, group_size: int, name: str) -> PrivacyUnit:
    """Return one table's unit from what `adjacency_text` wrote. Raises ValueError for anything else."""
    word, _, rest = stored.partition(" ")
    details = json.loads(rest) if rest else {}
    if not isinstance(details, dict):
        raise ValueError("what defines an adjacency is a mapping")  # noqa: TRY004

    def columns(key: str) -> frozenset[Named]:
        return frozenset(("", text(column)) for column in details.get(key, ()))

    unit = PrivacyUnit(
        Level(level),
        Adjacency(word),
        group_size,
        name,
        columns("kept"),
        columns("latitude"),
        columns("longitude"),
        fraction_from_text(details["radius"]) if "radius" in details else None,
        text(details.get("owner", "")),
    )
    if adjacency_text(unit) != stored:
        raise ValueError("an adjacency of a ledger is stored as it is written")
    return unit


def spend_texts(spend: Spend) -> tuple[str, str, str, str, str]:
    """Return the amounts of `spend` in order, as a ledger stores them: digits, or "inf"."""
    pure, rdp = (("inf" if a is None else str(a)) for a in (spend.pure, spend.rdp))
    return (pure, rdp, str(spend.selection_delta), str(spend.epsilon), str(spend.delta))


def spend_from_texts(texts: Iterable[object]) -> Spend:
    """Return what `spend_texts` wrote. Raises ValueError for anything else."""
    pure, rdp, selection_delta, epsilon, delta = texts
    return Spend(
        None if pure == "inf" else natural(pure),
        None if rdp == "inf" else natural(rdp),
        natural(selection_delta),
        natural(epsilon),
        natural(delta),
    )


def fraction_text(amount: Fraction) -> str:
    """Return the amount as p/q in lowest terms."""
    return f"{amount.numerator}/{amount.denominator}"


def fraction_from_text(stored: object) -> Fraction:
    """Return what `fraction_text` wrote of an amount that is not negative, or raise ValueError."""
    numerator, _, denominator = text(stored).partition("/")
    if natural(denominator) == 0:
        raise ValueError("a fraction of a ledger has a denominator above 0")
    amount = Fraction(natural(numerator), natural(denominator))
    if fraction_text(amount) != stored:
        raise ValueError("a fraction of a ledger is in lowest terms")
    return amount


def natural(stored: object) -> int:
    """Return the integer that is stored as ASCII digits. Raises ValueError for anything else."""
    digits = text(stored)
    if not (digits.isascii() and digits.isdigit()) or (digits[0] == "0" and digits != "0"):
        raise ValueError("a number of a ledger is written in digits, without zeros before them")
    return int(digits)


def text(stored: object) -> str:
    """Return a stored text. Raises ValueError for a value of another type."""
    match stored:
        case str():
            return stored
        case _:
            raise ValueError("a ledger holds text here")
