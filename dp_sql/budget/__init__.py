"""Accountants that decide whether one more statement fits, and ledgers that remember for good."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from dp_sql.errors import LedgerError

if TYPE_CHECKING:
    from dp_sql.budget.answers import Answers
    from dp_sql.budget.ledger import Ledger
    from dp_sql.budget.store import Store

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_POSTGRES = frozenset(("postgresql", "postgres", "postgresql+psycopg"))
_HOST = r"(?:\[[0-9A-Fa-f:.]*\]|[^@/?#:,\[\]]*)(?::\d+)?"
_PLAIN_URL = re.compile(
    rf"[^:]+://(?:[^@/?#]*@)?(?P<place>{_HOST}(?:,{_HOST})*(?:/[^@?#]*)?)(?:\?[^@]*)?"
)


def open_ledger(where: str | Path) -> Ledger:
    """Return the ledger at `where`, made first if there is none; ":memory:" dies with the process.

    where: a path, or the URL of a PostgreSQL database (postgresql://…). Raises LedgerError, and
    changes nothing, where the folder is missing or can't be written, the file or the database is no
    ledger, is empty, damaged or of another layout, can't be reached, or another process holds it.
    """
    from dp_sql.budget.ledger import Ledger  # noqa: PLC0415  only who opens one needs a database

    return Ledger(open_store(where))


def open_answers(where: str | Path, ledger: Ledger) -> Answers:
    """Return the store of answers beside the ledger at `where`; for one in memory it is in memory too."""
    if is_url(where):
        from dp_sql.budget.postgres_answers import PostgresAnswers  # noqa: PLC0415  likewise

        return PostgresAnswers(ledger.store)
    from dp_sql.budget.answers import Answers, store_beside  # noqa: PLC0415  likewise

    return Answers(store_beside(where), ledger.charged)


def open_store(where: str | Path) -> Store:
    """Return the database of the ledger at `where`, which `open_ledger` opens."""
    if is_url(where):
        _check_scheme(str(where))
        from dp_sql.budget.postgres import open_postgres  # noqa: PLC0415

        return open_postgres(str(where))
    from dp_sql.budget.sqlite import open_sqlite  # noqa: PLC0415

    return open_sqlite(where)


def existing_ledger(where: str | Path) -> Ledger | None:
    """Return the ledger at `where`, or None where there is none: it is never made.

    Raises LedgerError as `open_ledger` does.
    """
    if not is_url(where):
        return open_ledger(where) if Path(where).exists() else None
    _check_scheme(str(where))
    from dp_sql.budget.ledger import Ledger  # noqa: PLC0415
    from dp_sql.budget.postgres import find_postgres  # noqa: PLC0415

    found = find_postgres(str(where))
    return None if found is None else Ledger(found)


def is_url(where: object) -> bool:
    """Return whether a ledger lies at a URL rather than in a file."""
    return isinstance(where, str) and _URL.match(where) is not None


def place_text(where: str | Path) -> str:
    """Return what may be shown of where a ledger lies: of a URL no user, password and options."""
    if not is_url(where):
        return str(where)
    plain = _PLAIN_URL.fullmatch(str(where))
    return f"{_scheme(str(where))}://{plain['place'] if plain else '…'}"


def _scheme(url: str) -> str:
    return url.partition("://")[0]


def _check_scheme(url: str) -> None:
    if _scheme(url).lower() not in _POSTGRES:
        raise LedgerError(
            f"There are no ledgers at {_scheme(url)}:// URLs.",
            hint="the path of a file, or postgresql://USER@HOST/DATABASE",
        )
