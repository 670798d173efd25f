"""`dpsql answers`: what was released before and is free again, and the acts that end it."""

from __future__ import annotations

from dp_sql.budget import open_answers
from dp_sql.budget.answers import MOST_BYTES
from dp_sql.budget.ledger import Ledger
from dp_sql.cli.budgets import identity_of
from dp_sql.cli.ledgers import Where, opened
from dp_sql.schema.catalog import TableSpec, ascii_lower
from dp_sql.schema.loader import load


def answers_text(where: Where) -> str:
    """Return how much the store of a ledger's answers holds, and of which data."""
    with opened(where) as ledger:
        tables = _tables(where, None, ledger)
        store = open_answers(where.place(), ledger)
        count, size = store.size()
        versions = store.versions(identity for identity, _ in tables) or {}
    counted = f"{count} answer{'' if count == 1 else 's'}"
    lines = [f"{counted}, {size / 2**20:.3g} of {MOST_BYTES / 2**20:g} MiB"]
    for identity, spec in tables:
        line = f"{spec.name}: data version {spec.data_version}"
        if identity in versions and versions[identity].time:
            version = versions[identity]
            times = "once" if version.number == 1 else f"{version.number} times"
            line += f", refreshed {times}, last {version.time.removesuffix('+00:00')}"
        lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def refresh(where: Where, table: str | None, by: str) -> str:
    """Have statements about a protected table, or about all, cost and be drawn anew.

    Raises LedgerError for an analyst, ParameterError for a table that has no budget.
    """
    with opened(where) as ledger:
        tables = _tables(where, table, ledger)
        open_answers(where.place(), ledger).refresh((identity for identity, _ in tables), by)
    return "".join(f"{spec.name}: what was asked before is asked anew\n" for _, spec in tables)


def clear(where: Where, by: str) -> str:
    """Forget every answer of a ledger. Raises LedgerError for an analyst."""
    with opened(where) as ledger:
        count = open_answers(where.place(), ledger).clear(by)
    return f"{count} answer{'' if count == 1 else 's'} forgotten; what was spent stays spent\n"


def _tables(where: Where, table: str | None, ledger: Ledger) -> list[tuple[str, TableSpec]]:
    """Return the identities of protected tables, and what is declared of them."""
    catalog = load(where.file, database=where.database)
    specs = [spec for spec in catalog.tables.values() if spec.budget is not None]
    if table is not None:
        specs = [catalog.protected(table)[0]]
    return [
        (ledger.account_of(identity_of(where, catalog, ascii_lower(s.name)), s.name), s)
        for s in specs
    ]
