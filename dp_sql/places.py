"""Where a ledger lies, and what an analyst may be called."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from dp_sql.budget import is_url
from dp_sql.budget.record import OWNER
from dp_sql.errors import LedgerError, ParameterError
from dp_sql.executor.sources import data_folder, database_file
from dp_sql.schema.catalog import Catalog


def analyst_named(name: str) -> str:
    """Return the name of an analyst. Raises ParameterError for the owner's, and for none at all."""
    if name.strip().lower() in ("", OWNER) or not name.isprintable():
        raise ParameterError(
            f"an analyst can't be called {name!r}.",
            hint="another name; leave `analyst` out to ask as the owner",
        )
    return name


def ledger_place(
    catalog: Catalog,
    ledger: str | PathLike[str] | None,
    database: str | None,
    data_dir: Path | None = None,
) -> str | Path:
    """Return where the ledger lies: as asked, as the schema says, or beside the data.

    ledger, database, data_dir: as `connect` gets them. The result is a file, ":memory:", or a URL. Beside
    a database it has the database's name, in a folder of files it is `dp_sql.ledger`: whatever a schema
    is called and wherever it lies, the data have one ledger. Raises LedgerError where one lies under
    the name that it had before.
    """
    if ledger is not None:
        return str(ledger) if is_url(ledger) or str(ledger) == ":memory:" else Path(ledger)
    if catalog.ledger is not None:
        return catalog.ledger if is_url(catalog.ledger) else catalog.path.parent / catalog.ledger
    url = database if database is not None else catalog.database
    file = database_file(catalog, url)
    if file is not None:
        return file.with_name(f"{file.name}.ledger")
    place = data_folder(catalog, url, data_dir) / "dp_sql.ledger"
    former = catalog.path.with_suffix(".ledger")
    if former.exists() and not place.exists():
        raise LedgerError(
            f"The ledger of these data is {place}; {former} has the name of the schema.",
            hint=f"move that file there, with its -wal, or write `ledger: {former.name}` in the schema",
        )
    return place
