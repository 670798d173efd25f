"""A whole ledger as lines of JSON, which anybody can verify without the ledger.

    {"kind": "ledger", "layout": 3}
    {"kind": "table", "identity": …, "accountant": "renyi", "epsilon": "10/1", …, "digest": …}
    {"kind": "charge", "number": 1, "analyst": …, "sql": …, "events": […], "previous": …, "hash": …}
    {"kind": "raise", "number": 2, "identity": …, "epsilon": "20/1", …, "previous": …, "hash": …}
    {"kind": "end", "entries": 2, "hash": …}

Tables come first, charges and raises in the order of their numbers. Amounts are texts, as in the
ledger: fractions p/q, and sums in the units of `accountant`. What only a table with blocks, periods or
caps has is null elsewhere. A text of layout 2, which had none of these, is verified too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dp_sql.budget import rows
from dp_sql.budget.damage import readable
from dp_sql.budget.layout import VERSION
from dp_sql.budget.record import AMOUNTS, GENESIS, Registration, Verification, spend_texts
from dp_sql.budget.verify import Checker
from dp_sql.errors import LedgerError
from dp_sql.privacy.event_json import events_to_json


def lines(
    tables: Iterable[Registration], chain: Iterable[rows.Link | rows.RaiseLink]
) -> Iterator[str]:
    """Yield the lines of an export, without line breaks."""
    yield _line("ledger", {"layout": VERSION})
    for table in tables:
        yield _line("table", rows.registration_row(table))
    number, last = 0, GENESIS
    for link in chain:
        number, last = link.entry.number, link.hash
        match link:
            case rows.Link():
                yield _line("charge", _charge(link))
            case rows.RaiseLink():
                yield _line("raise", _raise(link))
    yield _line("end", {"entries": number, "hash": last})


def verify_export(text: Iterable[str], known_head: str | None = None) -> Verification:
    """Return what is wrong with an export, read line by line: nothing, in a sound one.

    known_head: as `Ledger.verify` has it.
    """
    reader = _Reader(known_head)
    try:
        for number, line in enumerate(text, 1):
            with readable(f"line {number}"):
                reader.take(number, line)
    except LedgerError as error:
        return Verification(0, (*reader.problems(), error.message))
    return reader.verification()


class _Reader:
    """Takes the lines of an export in order: the head, the tables, the chain, the end."""

    def __init__(self, known_head: str | None) -> None:
        self._known_head = known_head
        self._tables: list[Registration] = []
        self._checker: Checker | None = None
        self._ended = False

    def take(self, number: int, line: str) -> None:
        """Check the next line. Raises ValueError, TypeError or LedgerError for one that can't be."""
        kind, row = _parsed(line)
        if (number == 1) != (kind == "ledger") or self._ended:
            raise ValueError("an export begins with its head and ends with its end")
        if kind == "ledger":
            if row.get("layout") not in (2, VERSION):
                raise ValueError("an export of another layout")
        elif kind == "table" and self._checker is None:
            self._tables.append(rows.registered({**rows.NO_TERMS, **row}))
        else:
            self._checker = self._checker or Checker(self._tables, self._known_head)
            if kind == "end":
                self._ended = True
                self._checker.end(row["entries"], row["hash"])
            else:
                self._checker.take(_link(kind, row))

    def problems(self) -> tuple[str, ...]:
        """Return what was found so far."""
        return () if self._checker is None else tuple(self._checker.problems)

    def verification(self) -> Verification:
        """Return what was found, at the end of the text."""
        if self._checker is None or not self._ended:
            return Verification(0, (*self.problems(), "The last lines are missing."))
        return self._checker.verification()


def _line(kind: str, fields: Mapping[str, object]) -> str:
    return json.dumps({"kind": kind, **fields}, ensure_ascii=False)


def _charge(link: rows.Link) -> dict[str, object]:
    entry = link.entry
    return {
        "number": entry.number,
        "statement": entry.statement,
        "query_id": entry.query_id,
        "time": entry.time,
        "analyst": entry.analyst,
        "status": entry.status.value,
        "sql": entry.sql,
        "sql_hash": link.sql_hash,
        "identity": entry.identity,
        **dict(zip(AMOUNTS, spend_texts(entry.spend), strict=True)),
        "events": json.loads(events_to_json(entry.events)),
        **rows.scope_row(entry.scope),
        "previous": link.previous,
        "hash": link.hash,
    }


def _raise(link: rows.RaiseLink) -> dict[str, object]:
    entry = link.entry
    return {
        "number": entry.number,
        "time": entry.time,
        "identity": entry.identity,
        **rows.amount_texts(entry),
        **rows.cap_row(entry.cap),
        "reason": entry.reason,
        "previous": link.previous,
        "hash": link.hash,
    }


def _parsed(line: str) -> tuple[str, dict[str, Any]]:
    """Return kind and fields of a line. Raises ValueError or TypeError for anything else."""
    row = json.loads(line)
    if not isinstance(row, dict):
        raise TypeError("a line is an object")
    return str(row.get("kind")), row


def _link(kind: str, row: Mapping[str, Any]) -> rows.Link | rows.RaiseLink:
    stored = {**rows.scope_row(None), **rows.cap_row(None), **row, "id": row["number"]}
    if kind == "charge":
        return rows.link_of({**stored, "events": json.dumps(row["events"], separators=(",", ":"))})
    if kind == "raise":
        return rows.raise_link_of(stored)
    raise ValueError("there is no such kind of line")
