"""Whose the rows of a table are, as a ledger keeps it for life."""

from __future__ import annotations

from collections.abc import Callable
from json import dumps

from dp_sql.schema.catalog import Catalog, OwnerThrough, TableSpec


def registered_owner(spec: TableSpec, catalog: Catalog, account: Callable[[str], str]) -> str:
    """Return whose the rows of a table are, as a text for its registration; "" for rows that nobody owns.

    account: gives what the ledger knows a table by that the path of ownership leads to.

    Claim:   a schema that tells apart other persons than the first did is refused for the same account.
    Why:     who a row's person is follows from the owner column and from the foreign keys that lead to
             it, through which data; the text has all of these, each quoted, so two paths differ in it.
             Tables stand in it by their accounts: under another name they are the same, other data
             under the same name are not.
    Assumes: the data keep what the columns mean.
    Source:  [Kotsogiannis2019]
    """
    steps = [
        " and ".join(f"{dumps(child)} = {dumps(parent)}" for child, parent in sorted(owner.pairs))
        + f" of {dumps(account(owner.table))}"
        if isinstance(owner, OwnerThrough)
        else dumps(owner)
        for owner in path(spec, catalog)
    ]
    return ", ".join(steps)


def path(spec: TableSpec, catalog: Catalog) -> list[str | OwnerThrough]:
    """Return the steps from a table's rows to their owner's column."""
    steps = list[str | OwnerThrough]()
    owner = spec.owner
    while isinstance(owner, OwnerThrough):
        steps.append(owner)
        owner = catalog.tables[owner.table].owner
    return steps if owner is None else [*steps, owner]
