"""How statements are paid: debited before a row is read, and noted as answered or failed after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dp_sql.budget.ledger import Ledger
from dp_sql.budget.record import Receipt, Status
from dp_sql.charges import Records, with_times
from dp_sql.errors import BudgetExceededError
from dp_sql.repeats import Known
from dp_sql.schema.catalog import Catalog


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
