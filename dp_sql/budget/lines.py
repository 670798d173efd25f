"""A line of a budget: what every block and each block of one table have spent, under one rule.

A line belongs to a table, to one of its periods, and to everybody or to one analyst. A table without
blocks has lines in which all is charged to every block.

Claim:   where each unit's rows lie in one block, everything that is charged to a line is together
         within its rule for every unit, whichever block is its own, known to the ledger or not.
Why:     fix two neighbours that differ in a unit of block b. A charge to named blocks without b is
         for an answer whose law is the same under both. The others, chosen by the past alone like
         all charges, are those to every block and those that name b: `over` admits a charge only
         where spent(every) + spent(b) fits the rule afterwards, for each b that it touches, and the
         filter's theorem (`accountant`) holds of these answers. A block without spends of its own
         has spent(every), which is what `over` checks for blocks that nobody named yet.
         The peak is, amount by amount, the most that any block has spent. `fits` can only turn false
         as an amount grows, so a charge that fits above the peak fits above each block; only where it
         doesn't are the blocks looked at one by one (under two rules each may fit by another).
Assumes: a charge names every block whose rows its answer may depend on; a neighbour changes rows of
         one block, or the events are priced so that the rule holds for all that it changes, as with
         the doubled events of a unit that moves; `Spend` only grows.
Source:  [McSherry2009] (parallel composition), [Rogers2016]; the sum of both parts is proved here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce

from dp_sql.budget.accountant import NOTHING, Filter, Spend, fits
from dp_sql.dataclass import dataclass

Blocks = frozenset[str] | None
"""The blocks that a charge names; None is every block, and the whole of a table without blocks."""


@dataclass(frozen=True, slots=True)
class Sums:
    """What was spent, in how many charges."""

    entries: int
    spent: Spend

    def __add__(self, other: Sums) -> Sums:
        """Return both together."""
        return Sums(self.entries + other.entries, self.spent + other.spent)


NONE = Sums(0, NOTHING)


@dataclass(frozen=True, slots=True)
class Line:
    """What a line has spent.

    every: charges to every block. peak: those to named blocks, and the most of each amount that any
    block has. blocks: what those blocks have that are looked at; the line may have others.
    """

    every: Sums
    peak: Sums
    blocks: Mapping[str, Sums]

    @property
    def fullest(self) -> Spend:
        """What no block has spent more of, amount by amount."""
        return self.every.spent + self.peak.spent

    def at(self, block: str) -> Spend:
        """Return what has been charged to one of the blocks that are looked at."""
        return self.every.spent + self.blocks.get(block, NONE).spent

    def most(self, blocks: Blocks) -> Spend:
        """Return the most of each amount that any of some blocks that are looked at has spent.

        blocks: None for all blocks.
        """
        if blocks is None:
            return self.fullest
        return reduce(_most, (self.at(block) for block in blocks), self.every.spent)

    def plus(self, charges: Charges) -> Line:
        """Return the line after some charges. All blocks that they name are looked at."""
        blocks = dict(self.blocks)
        for block, added in charges.named.items():
            blocks[block] = blocks.get(block, NONE) + added
        most = self.peak.spent
        for spent in {blocks[block].spent for block in charges.named}:
            most = _most(most, spent)
        peak = Sums(self.peak.entries + charges.naming, most)
        return Line(self.every + charges.every, peak, blocks)


@dataclass(frozen=True, slots=True)
class Charges:
    """Charges that are made together. naming: how many name blocks."""

    every: Sums
    named: Mapping[str, Sums]
    naming: int


@dataclass(frozen=True, slots=True)
class Over:
    """Where charges don't fit: a block, None for one without spends of its own; what it has spent."""

    block: str | None
    spent: Spend


def unbroken(every: Sums = NONE) -> Line:
    """Return the line of a table without blocks that has spent `every`."""
    return Line(every, NONE, {})


def together(charges: Iterable[tuple[Blocks, Spend]]) -> Charges:
    """Return what charges add to every block and to each that they name."""
    every, naming, named = NONE, 0, dict[str, Sums]()
    for blocks, spend in charges:
        one = Sums(1, spend)
        if blocks is None:
            every += one
        else:
            naming += 1
            named.update({block: named[block] + one if block in named else one for block in blocks})
    return Charges(every, dict(sorted(named.items())), naming)


def over(
    rule: Filter,
    line: Line,
    charges: Charges,
    others: Callable[[], Iterable[tuple[str, Spend]]],
) -> Iterator[Over]:
    """Yield where charges have no room; nothing where they fit.

    line: in which all blocks that they name are looked at. others: yields all blocks of the line
    with what each has spent of its own; called only where the peak leaves no room.
    """
    every = charges.every.spent
    for block, added in charges.named.items():
        before = line.at(block)
        if not fits(rule, before, every + added.spent if charges.every.entries else added.spent):
            yield Over(block, before)
    if charges.every.entries:
        if not fits(rule, line.every.spent, every):
            yield Over(None, line.every.spent)
        elif not fits(rule, line.fullest, every):
            for block, own in others():
                if not fits(rule, line.every.spent + own, every):
                    yield Over(block, line.every.spent + own)


def _most(one: Spend, other: Spend) -> Spend:
    """Return the greater of each amount; None is infinite."""
    return Spend(
        _greater(one.pure, other.pure),
        _greater(one.rdp, other.rdp),
        max(one.selection_delta, other.selection_delta),
        max(one.epsilon, other.epsilon),
        max(one.delta, other.delta),
    )


def _greater(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)
