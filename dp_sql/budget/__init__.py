"""Accountants that decide whether one more statement fits, and ledgers that remember for good."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dp_sql.budget.answers import Answers
    from dp_sql.budget.ledger import Ledger


def open_ledger(where: str | Path) -> Ledger:
    """Return the ledger at `where`, made first if there is none; ":memory:" dies with the process.

    Raises LedgerError, and changes nothing, where the folder is missing or can't be written, the
    file is no ledger, is empty, damaged or of another layout, or another process holds it.
    """
    from dp_sql.budget.ledger import Ledger  # noqa: PLC0415  only who opens one needs SQLite
    from dp_sql.budget.store import open_store  # noqa: PLC0415

    return Ledger(open_store(where))


def open_answers(where: str | Path, ledger: Ledger) -> Answers:
    """Return the store of answers beside the ledger at `where`; for one in memory it is in memory too."""
    from dp_sql.budget.answers import Answers, store_beside  # noqa: PLC0415  likewise

    return Answers(store_beside(where), ledger.charged)
