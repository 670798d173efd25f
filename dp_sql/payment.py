"""How statements are paid: debited before a row is read, and noted as answered or failed after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from dp_sql.budget.ledger import Ledger
from dp_sql.budget.moved import account_of
from dp_sql.budget.record import Receipt, Status
from dp_sql.charges import Records, with_times
from dp_sql.errors import BudgetExceededError, LedgerError
from dp_sql.executor.engine import Engine
from dp_sql.owners import path, registered_owner
from dp_sql.repeats import Known
from dp_sql.schema.catalog import Catalog


def register(ledger: Ledger, catalog: Catalog, engine: Engine) -> dict[str, str]:
    """Make the protected tables of a schema known to a ledger; return their identities by name.

    Raises LedgerError as `Ledger.register` does and where the ledger knows a public table's data as
    protected, EngineError for a table without data.
    """
    check_public(ledger, catalog, engine)
    identities, unit, people = {}, catalog.unit, None
    if catalog.people is not None:
        people = unit.name
        ledger.register_people(people, unit, catalog.people)
    protected = {name: spec for name, spec in catalog.tables.items() if spec.budget is not None}
    for name, spec in sorted(protected.items(), key=lambda item: len(path(item[1], catalog))):
        if spec.budget is not None:
            identities[name] = ledger.account_of(engine.identity(name), spec.name, engine.has)
            own = replace(unit, owner=registered_owner(spec, catalog, identities.__getitem__))
            ledger.register(identities[name], spec.name, own, spec.budget, people)
    return {name: identities[name] for name in protected}


def check_public(ledger: Ledger, catalog: Catalog, engine: Engine) -> None:
    """Raise LedgerError where the data of a public table are those of an account, whatever `id` it has."""
    public = {name: spec for name, spec in catalog.tables.items() if spec.public}
    known = [(table.identity, table.name) for table in ledger.registrations()] if public else []
    for name, spec in public.items():
        asked = ((engine.identity(name), spec.name), (engine.place(name), ""))
        if not dict(known).keys().isdisjoint(account_of(*a, known) for a in asked):
            raise LedgerError(
                f"`{spec.name}` is public in this schema, and the ledger knows its data as protected.",
                hint="declare it as it was, with its owner and budget; a new `id` where it is other data",
            )


def reserve(
    ledger: Ledger, records: Records, known: Sequence[Known], catalog: Catalog
) -> list[Receipt | None]:
    """Debit every table of some statements, all or none, durably, before a row is read.

    A statement that was free because it was asked before is recorded at no cost: its receipt is
    like the others. None is that of a statement that nothing protected decides. One record may be
    that of all statements. Raises BudgetExceededError where they don't fit, LedgerError.
    """
    try:
        found = ledger.reserve_all(records) if records else ()
    except BudgetExceededError as error:
        raise with_times(error, [one.learned for one in known], catalog) from None
    charged = [bool(one.listed.costs) for one in known]
    receipts = iter(found * sum(charged) if len(found) == 1 else found)
    return [next(receipts) if some else None for some in charged]


@contextmanager
def answering(ledger: Ledger, receipts: Sequence[Receipt | None]) -> Iterator[None]:
    """Note in the ledger whether statements that are paid were answered: all of them, or none."""
    status = Status.FAILED
    try:
        yield
        status = Status.ANSWERED
    finally:
        for receipt in receipts:
            if receipt is not None:
                ledger.finish(receipt, status)
