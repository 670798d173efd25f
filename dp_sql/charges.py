"""What a prepared statement takes of the ledger: its cost, of which blocks, how often."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from dp_sql.budget.record import Charge, StatementRecord
from dp_sql.errors import BudgetExceededError
from dp_sql.privacy.blocks import spanned
from dp_sql.privacy.cost import FREE
from dp_sql.schema.catalog import BudgetSpec, Catalog
from dp_sql.stages import Prepared

Records = list[tuple[StatementRecord, dict[str, Charge]]]
"""What a ledger notes of statements, and what each owes every table, by identity."""

_SHOWN = 3  # names of blocks in a sentence


def charges_of(prepared: Prepared, catalog: Catalog) -> dict[str, Charge]:
    """Return what a statement owes each table, by its lower-cased name.

    Claim:   what is charged covers what its answer tells of each table's blocks.
    Why:     a debit of named blocks is made as often as neighbours may differ in blocks, one of every
             block once (`privacy.blocks.spanned`). The blocks are those of all its releases.
    Assumes: `sensitivity.blocks.debit`, and what `spanned` assumes.
    Source:  [McSherry2009]
    """
    found = {}
    for table, cost in prepared.costs.items():
        debit = prepared.debits.get(table)
        blocks = None if debit is None else debit.blocks
        found[table] = Charge(cost.times(times(prepared, catalog, table)), blocks)
    return found


def records_of(
    asked: Iterable[tuple[str, Mapping[str, Charge]]], identities: Mapping[str, str], analyst: str
) -> Records:
    """Return what the ledger is to note of each statement that owes something, and what it owes.

    asked: texts, each with what it owes by lower-cased names of tables. identities: of each of these.
    """
    records = []
    for query, charges in asked:
        owed: dict[str, Charge] = {}
        for table, charge in charges.items():
            identity = identities[table]
            owed[identity] = together(owed[identity], charge) if identity in owed else charge
        if owed:
            records.append((StatementRecord(uuid.uuid4().hex, analyst, query), owed))
    return records


def charges_beside(
    new: Prepared, listed: Prepared, learned: Prepared, catalog: Catalog, *, capped: bool
) -> dict[str, Charge]:
    """Return what a statement owes each table, where parts of it were released before.

    new: with the costs of what is drawn now. listed: of all of it: its tables owe at least nothing, which
    is recorded. learned: of what is drawn and of what the analyst is shown for the first time; capped:
    whether he or she may have a part of a budget, against which that counts.
    Where the two differ, what is drawn is debited of the blocks of both.
    """
    drawn, seen = charges_of(new, catalog), charges_of(learned, catalog)
    found = {}
    for table, whole in charges_of(listed, catalog).items():
        charge = found[table] = drawn.get(table, Charge(FREE, whole.blocks))
        if capped:
            found[table] = with_learned(charge, seen.get(table), catalog.tables[table].budget)
    return found


def with_learned(charge: Charge, more: Charge | None, budget: BudgetSpec | None) -> Charge:
    """Return what an analyst's statement owes a table whose answers are `more` to him or her."""
    apart = budget is not None and budget.cap is not None
    if apart and more is not None and more.cost != charge.cost:
        return Charge(charge.cost, more.blocks, more.cost)
    return charge


def times(prepared: Prepared, catalog: Catalog, table: str) -> int:
    """Return how often a statement debits what it debits of a table."""
    debit, budget = prepared.debits.get(table), catalog.tables[table].budget
    column = None if budget is None else budget.block_column
    if debit is None or debit.blocks is None or column is None:
        return 1
    return spanned(catalog.unit, table, column)


def together(one: Charge, other: Charge) -> Charge:
    """Return both charges of one table as one."""
    named = None if one.blocks is None or other.blocks is None else one.blocks | other.blocks
    learned = None
    if one.learned is not None or other.learned is not None:
        learned = one.of_analyst.cost.then(other.of_analyst.cost)
    return Charge(one.cost.then(other.cost), named, learned)


def debit_lines(prepared: Prepared, catalog: Catalog, table: str) -> list[str]:
    """Return which blocks of a table a statement debits, in sentences; none for a table without."""
    debit, budget = prepared.debits.get(table), catalog.tables[table].budget
    if debit is None or budget is None or budget.block_column is None:
        return []
    column = catalog.tables[table].columns[budget.block_column].name
    if debit.blocks is None:
        return [f"debits every block of {column}: {debit.why}"]
    count = len(debit.blocks)
    lines = [f"debits {count:,} block{'s' * (count > 1)} of {column}: {_listed(debit.blocks)}"]
    often = times(prepared, catalog, table)
    if often > 1:
        lines.append(f"each of them {often} times, as neighbours may differ in {often} blocks")
    return lines


def with_times(
    error: BudgetExceededError, asked: Iterable[Prepared], catalog: Catalog
) -> BudgetExceededError:
    """Return the error of statements that don't fit, with how often each block is debited."""
    often = max(times(one, catalog, table) for one in asked for table in one.costs)
    if often == 1:
        return error
    return BudgetExceededError(
        f"{error.message} Each block is debited {often} times, as neighbours may differ in {often} "
        "blocks.",
        hint=error.hint if error.fitting is None else None,
        fitting=None if error.fitting is None else error.fitting / often,
        by_epsilon=error.by_epsilon,
    )


def _listed(blocks: frozenset[str]) -> str:
    whole = all(block.lstrip("-").isdigit() for block in blocks)
    names = sorted(blocks, key=int) if whole else sorted(blocks)
    if len(names) <= _SHOWN:
        return ", ".join(names)
    return f"{names[0]}, {names[1]}, … {names[-1]}"
