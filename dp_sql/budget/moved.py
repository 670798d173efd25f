"""Which account a table has whose data lie under another path than they did.

Claim:   data that a ledger knows are charged to the account that they have, also where their file was
         moved or renamed since, or is reached by another path.
Why:     a file is its device and inode, so a path that leads to a known one is that one. Where a known
         file is gone, and a table of the same name has its data in a file that is not known, these are
         taken for the same data: if they are others, they share a budget, which loses nobody anything.
         Where several such files are gone the owner has to say which it is. A table that isn't known, in
         a database where a known one is gone, may be that one under another name: the owner has to say
         so too, since as often it is another one.
Assumes: a copy of the data, a view of them, or a move together with another name of the table, is the
         owner's to name by `id`. A file that is moved and put back as a copy, too, has two paths and
         two accounts.
Source:  [Dwork2006b]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from dp_sql.budget.sqlite import known_tables
from dp_sql.errors import LedgerError

_ID = "id:"  # what an identity begins with that the owner gave, by `id` in the schema
_FILES = (".csv", ".parquet")


def account_of(
    identity: str,
    name: str,
    known: Iterable[tuple[str, str]],
    there: Callable[[str], bool] | None = None,
) -> str:
    """Return the identity under which a table's data are known, or its own where they are new.

    identity, name: of the table now; an `id` may be the identity of an account. known: identities
    and names of all accounts of the ledger. there: whether the table's database has a table of a
    name, None where nobody has opened it. Raises LedgerError where they may be those of several
    accounts, or of a table that is gone.
    """
    accounts = dict(known)
    chosen = identity.removeprefix(_ID)
    if chosen in accounts:
        return chosen
    mine = _place(identity)
    if mine is None or identity in accounts:
        return identity
    gone, renamed = [], []
    for other, called in accounts.items():
        place = _place(other)
        if place is None or bool(place[1]) != bool(mine[1]):
            continue
        if place[1] == mine[1] and _same_file(place[0], mine[0]):
            return other
        if called.lower() == name.lower() and not place[0].exists():
            gone.append(other)
        if there is not None and mine[1] and _same_file(place[0], mine[0]) and not there(place[1]):
            renamed.append(other)
    if len(gone) > 1:
        raise LedgerError(
            f"The ledger knows {len(gone)} tables `{name}` whose files are gone; whether one of them was "
            "moved here can't be told.",
            hint=_either(gone),
        )
    if gone:
        return gone[0]
    if renamed:
        raise LedgerError(
            f"The ledger knows {_listed(renamed)} of this database, which {_are(renamed)} gone; whether "
            f"`{name}` is the same under another name can't be told.",
            hint=_either(renamed),
        )
    return identity


def _listed(accounts: list[str]) -> str:
    return " and ".join(f"`{account.rpartition('#')[2]}`" for account in accounts)


def _are(accounts: list[str]) -> str:
    return "is" if len(accounts) == 1 else "are"


def _either(accounts: list[str]) -> str:
    return f'`id: "{accounts[0]}"` in the schema where it is the same, another `id` for a budget of its own'


def holds(ledger: Path, wanted: Mapping[str, str]) -> bool:
    """Return whether a ledger in a file knows the data of a table; False where it can't be read.

    wanted: names by identity. It may know them under a place where they aren't any more.
    """
    known = known_tables(ledger)
    identities = {identity for identity, _ in known}
    for identity, name in wanted.items():
        with suppress(LedgerError):
            if account_of(identity, name, known) in identities:
                return True
    return False


def _place(identity: str) -> tuple[Path, str] | None:
    """Return the file of a table's data and its name there, "" for all of it; None without a file."""
    file, found, table = identity.rpartition("#")
    if found and Path(file).suffix.lower() not in _FILES:
        return (Path(file), table) if Path(file).is_absolute() else None
    return (Path(identity), "") if Path(identity).is_absolute() else None


def _same_file(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.samefile(other)
    return False
