"""What is said of a stored value that no ledger would hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dp_sql.errors import LedgerError


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Turn the error about a stored value, or one that is missing, into a LedgerError naming `what`."""
    try:
        yield
    except (ValueError, TypeError, LookupError):
        message = f"The ledger is damaged: {what} can't be read."
        raise LedgerError(message, hint="a backup of the ledger") from None
