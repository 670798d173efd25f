"""Where a ledger lies, and what an analyst may be called."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from dp_sql.budget import is_url, place_text
from dp_sql.budget.moved import holds
from dp_sql.budget.record import OWNER
from dp_sql.errors import LedgerError, ParameterError
from dp_sql.executor.sources import Sources, data_folder, database_file
from dp_sql.schema.catalog import Catalog

_FORGOTTEN = ":memory:"


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
    the name that it had before, or where these data are known to another that lies there; whoever
    names another ledger has to move that one, too. Several that are named don't know of each other.
    """
    asked: str | Path | None = None
    if ledger is not None:
        asked = str(ledger) if is_url(ledger) or str(ledger) == _FORGOTTEN else Path(ledger)
    elif catalog.ledger is not None:
        asked = catalog.ledger if is_url(catalog.ledger) else catalog.path.parent / catalog.ledger
    if asked == _FORGOTTEN:
        return _FORGOTTEN
    url = database if database is not None else catalog.database
    file, folder = database_file(catalog, url), data_folder(catalog, url, data_dir)
    protected = {name: spec for name, spec in catalog.tables.items() if spec.budget is not None}
    files = {
        name: Path(os.path.realpath(folder / spec.source))
        for name, spec in protected.items()
        if spec.source is not None
    }
    wanted = {Sources(file, files).identity(n, spec): spec.name for n, spec in protected.items()}
    place = folder / "dp_sql.ledger" if file is None else file.with_name(f"{file.name}.ledger")
    former = catalog.path.with_suffix(".ledger")
    if asked is None and file is None and former.exists() and not place.exists():
        raise LedgerError(
            f"The ledger of these data is {place}; {former} has the name of the schema.",
            hint=f"move that file there, with its -wal, or write `ledger: {former.name}` in the schema",
        )
    chosen = place if asked is None else asked
    others = {parent / "dp_sql.ledger" for path in files.values() for parent in path.parents}
    if asked is not None:
        others.add(place)
    elif not place.exists():
        others.update(place.parent.glob("*.ledger"))
    _require_alone(chosen, {o for o in others if not _same(chosen, o)}, wanted)
    return chosen


def _same(asked: str | Path, place: Path) -> bool:
    return isinstance(asked, Path) and os.path.realpath(asked) == os.path.realpath(place)


def _require_alone(place: str | Path, others: set[Path], wanted: Mapping[str, str]) -> None:
    """Raise LedgerError where one of some ledgers knows the data of a table, as `holds` finds it."""
    for other in sorted(others):
        if other.is_file() and holds(other, wanted):
            raise LedgerError(
                f"The ledger {other} knows these data; {place_text(place)} would be a second one.",
                hint="name it by `ledger: …` in the schema; or move it there, with its -wal",
            )
