"""How statements are paid: debited before a row is read, and noted as answered or failed after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dp_sql.budget.ledger import Ledger
from dp_sql.budget.record import Receipt, Status
from dp_sql.charges import Records, with_times
from dp_sql.errors import BudgetExceededError
from dp_sql.executor.engine import Engine
from dp_sql.repeats import Known
from dp_sql.schema.catalog import Catalog


def register(ledger: Ledger, catalog: Catalog, engine: Engine) -> dict[str, str]:
    """Make the protected tables of a schema known to a ledger; return their identities by name.

    Raises LedgerError as `Ledger.register` does, EngineError for a table without data.
    """
    identities, unit, people = {}, catalog.unit, None
    if catalog.people is not None:
        people = unit.name
        ledger.register_people(people, unit, catalog.people)
    for name, spec in catalog.tables.items():
        if spec.budget is not None:
            identities[name] = ledger.account_of(engine.identity(name), spec.name, engine.has)
            ledger.register(identities[name], spec.name, unit, spec.budget, people)
    return identities


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
