"""The rows of a ledger's accounts below a table, as plain SQL: lines, and the blocks in them.

Each function runs inside a transaction of its caller and raises LedgerError for a row that no ledger
would hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dp_sql.budget.accountant import Spend
from dp_sql.budget.damage import readable
from dp_sql.budget.lines import NONE, Line, Sums
from dp_sql.budget.record import AMOUNTS, digest, spend_from_texts, spend_texts, text
from dp_sql.budget.store import Transaction
from dp_sql.dataclass import dataclass

_EVERY, _PEAK, _BLOCK = "every", "peak", "block"
_KEY = ("identity", "analyst", "period")
_PLACE = (*_KEY, "part", "block")
_COLUMNS = (*_PLACE, "entries", *AMOUNTS, "digest")
_AT_ONCE = 500  # binds of one statement

_OF_LINE = "identity = :identity AND analyst = :analyst AND period = :period"
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM accounts"
_WHOLE = f"{_SELECT} WHERE {_OF_LINE} AND part <> '{_BLOCK}'"
_NAMED = f"{_SELECT} WHERE {_OF_LINE} AND part = '{_BLOCK}' AND block IN ({{}})"
_BLOCKS = f"{_SELECT} WHERE {_OF_LINE} AND part = '{_BLOCK}' ORDER BY block"
_ALL = f"{_SELECT} ORDER BY {', '.join(_PLACE)}"
_LAST = (
    "SELECT MAX(period) AS period FROM accounts WHERE identity = :identity AND analyst = :analyst"
)
_ANALYSTS = (
    "SELECT DISTINCT analyst FROM accounts "
    "WHERE identity = :identity AND analyst <> '' AND period = :period ORDER BY analyst"
)
_PUT = (
    f"INSERT INTO accounts ({', '.join(_COLUMNS)}) "
    f"VALUES ({', '.join(f':{column}' for column in _COLUMNS)}) "
    f"ON CONFLICT ({', '.join(_PLACE)}) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in ("entries", *AMOUNTS, "digest"))
)


@dataclass(frozen=True, slots=True)
class Key:
    """Whose line it is. analyst: "" for everybody's. period: "" where the budget isn't renewed."""

    identity: str
    analyst: str = ""
    period: str = ""


def last_period(connection: Transaction, identity: str) -> str:
    """Return the last period of a table that was charged, "" where none was."""
    found = connection.execute(_LAST, {"identity": identity, "analyst": ""}).fetchone()["period"]
    return "" if found is None else str(found)


def line_of(connection: Transaction, key: Key, blocks: Iterable[str] = ()) -> Line:
    """Return a line with those of its blocks. Nothing is spent of one that has no rows."""
    whole = dict(_accounts(connection.execute(_WHOLE, _where(key))))
    found = dict[str, Sums]()
    wanted = sorted(blocks)
    for start in range(0, len(wanted), _AT_ONCE):
        names = {f"b{i}": name for i, name in enumerate(wanted[start : start + _AT_ONCE])}
        query = _NAMED.format(", ".join(f":{name}" for name in names))
        rows = _accounts(connection.execute(query, {**_where(key), **names}))
        found.update((block, sums) for (_, block), sums in rows)
    return Line(whole.get((_EVERY, ""), NONE), whole.get((_PEAK, ""), NONE), found)


def blocks_of(connection: Transaction, key: Key) -> Iterator[tuple[str, Spend]]:
    """Yield the blocks of a line that have spends of their own, and these, by name."""
    for (_, block), sums in _accounts(connection.execute(_BLOCKS, _where(key))):
        yield block, sums.spent


def analysts_of(connection: Transaction, key: Key) -> list[str]:
    """Return who has a line of a table in the period of a line of it, by name."""
    return [str(row["analyst"]) for row in connection.execute(_ANALYSTS, _where(key))]


def put_line(connection: Transaction, key: Key, line: Line) -> None:
    """Replace a line and those of its blocks that are looked at."""
    rows = [(_EVERY, "", line.every)]
    if line.peak.entries:
        rows.append((_PEAK, "", line.peak))
    rows += [(_BLOCK, block, sums) for block, sums in line.blocks.items()]
    connection.executemany(_PUT, [_row(key, *row) for row in rows])


def all_lines(connection: Transaction) -> dict[Key, Line]:
    """Return every line with all its blocks."""
    found: dict[Key, dict[tuple[str, str], Sums]] = {}
    for row in connection.execute(_ALL):
        with readable(_named(row)):
            key = Key(text(row["identity"]), text(row["analyst"]), text(row["period"]))
        found.setdefault(key, {}).update(_accounts([row]))
    return {
        key: Line(
            parts.get((_EVERY, ""), NONE),
            parts.get((_PEAK, ""), NONE),
            {block: sums for (part, block), sums in parts.items() if part == _BLOCK},
        )
        for key, parts in found.items()
    }


def _accounts(rows: Iterable[Any]) -> Iterator[tuple[tuple[str, str], Sums]]:
    """Yield part, block and sums of rows. Raises LedgerError where a digest is wrong."""
    for row in rows:
        with readable(_named(row)):
            *place, entries, pure, rdp, selected, epsilon, delta, stored = row
            amounts = (pure, rdp, selected, epsilon, delta)
            if stored != digest(*place, str(entries), *amounts):
                raise ValueError("wrong digest")
            sums = Sums(entries, spend_from_texts(amounts))
        yield (place[3], place[4]), sums


def _where(key: Key) -> dict[str, str]:
    return {name: getattr(key, name) for name in _KEY}


def _row(key: Key, part: str, block: str, sums: Sums) -> dict[str, object]:
    place = {**_where(key), "part": part, "block": block}
    amounts = dict(zip(AMOUNTS, spend_texts(sums.spent), strict=True))
    check = digest(*place.values(), str(sums.entries), *amounts.values())
    return {**place, "entries": sums.entries, **amounts, "digest": check}


def _named(row: Any) -> str:
    return f"an account of {row['identity']!r}"
