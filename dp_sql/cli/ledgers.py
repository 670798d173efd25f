"""`dpsql ledger`: what was asked and what it cost, whether the chain is whole, and all of it as JSON."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from dp_sql.budget import existing_ledger, place_text
from dp_sql.budget.accountant import DELTA_UNITS, EPSILON_UNITS
from dp_sql.budget.export import verify_export
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.record import OWNER, Asked, Entry, Raise, Registration, Status, Verification
from dp_sql.cli.grid import table
from dp_sql.dataclass import dataclass
from dp_sql.errors import LedgerError, ParameterError
from dp_sql.places import ledger_place
from dp_sql.privacy.amount import show, show_up
from dp_sql.privacy.event import Event
from dp_sql.privacy.event_json import event_to_json
from dp_sql.schema.loader import load

_SQLITE = b"SQLite format 3\x00"
_COLUMNS = ("entry", "time", "analyst", "table", "epsilon", "delta", "noise", "status", "statement")
_NUMERIC = (True, False, False, False, True, True, False, False, False)


@dataclass(frozen=True, slots=True)
class Where:
    """What a command line names: a schema, or the ledger's own file, or an export of it."""

    file: Path
    data_dir: Path | None = None
    database: str | None = None
    ledger: str | None = None

    def place(self) -> str | Path:
        """Return where the ledger lies. Raises LedgerError for one in memory."""
        if _begins(self.file, _SQLITE):
            return self.file
        catalog = load(self.file, database=self.database)
        place = ledger_place(catalog, self.ledger, self.database, self.data_dir)
        if str(place) == ":memory:":
            raise LedgerError(
                "A ledger in memory is gone with the process that wrote it.",
                hint="--ledger FILE, or `ledger: FILE` in the schema",
            )
        return place


@contextmanager
def opened(where: Where) -> Iterator[Ledger]:
    """Open a ledger that exists; none is ever made."""
    place = where.place()
    ledger = existing_ledger(place)
    if ledger is None:
        raise LedgerError(
            f"There is no ledger {place_text(place)}: nothing was asked yet.",
            hint="the first connection makes it; --ledger names another",
        )
    with ledger:
        yield ledger


def moment(text: str | None) -> str | None:
    """Return a date or time of the command line as the ledger writes times; None stays None."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ParameterError(
            f"{text!r} is no date or time.", hint="2026-01-31, or 2026-01-31T12:00:00, in UTC"
        ) from None
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="seconds")


def entries_text(
    where: Where,
    table_name: str | None,
    analyst: str | None,
    span: tuple[str | None, str | None],
    width: int | None,
) -> str:
    """Return the charges that are asked for and the raises among them, as a table.

    analyst: None is everybody, raises included. span: since and until, as `moment` gives them.
    """
    with opened(where) as ledger:
        known = {found.identity: found for found in ledger.registrations()}
        identity = None if table_name is None else _identity(known, table_name)
        asked = Asked(identity, analyst, *span)
        found: list[Entry | Raise] = list(ledger.entries(asked))
        if analyst in (None, OWNER):
            found += [entry for entry in ledger.raises() if _within(entry, asked)]
    found.sort(key=lambda entry: entry.number)
    rows = [_row(entry, _place(entry, known[entry.identity])) for entry in found]
    statements = len({entry.statement for entry in found if isinstance(entry, Entry)})
    counted = f"{statements} statement{'' if statements == 1 else 's'}"
    return (table(_COLUMNS, rows, _NUMERIC, width) if rows else "") + f"{counted}.\n"


def verification_text(where: Where, known_head: str | None) -> tuple[str, bool]:
    """Return what is wrong with a ledger or an export, first things first, and whether nothing is."""
    found = _verified(where, known_head)
    if not found.problems:
        entries = f"{found.entries} entr{'y' if found.entries == 1 else 'ies'}"
        return f"{entries}, nothing is wrong.\nhead: {found.head}\n", True
    return "".join(f"{problem}\n" for problem in found.problems), False


def export(where: Where, output: Path | None) -> str:
    """Write a whole ledger to a new file, or to standard output; return what to say about it."""
    with opened(where) as ledger:
        if output is None:
            ledger.export(lambda line: sys.stdout.write(line + "\n"))
            return ""
        try:
            with output.open("x", encoding="utf-8") as file:
                ledger.export(lambda line: file.write(line + "\n"))
        except FileExistsError:
            raise LedgerError(
                f"{str(output)!r} is there already, and is left as it is.", hint="another file"
            ) from None
        except OSError as error:
            raise LedgerError(f"{str(output)!r} can't be written: {error.strerror}.") from None
    return f"wrote {output}; `dpsql ledger verify {output}` reads it\n"


def grant(where: Where, role: str, analyst: str) -> str:
    """Let a role of the ledger's database ask as an analyst; return the statements that did it."""
    with opened(where) as ledger:
        return "".join(f"{statement};\n" for statement in ledger.grant(role, analyst))


def _verified(where: Where, known_head: str | None) -> Verification:
    if _begins(where.file, b"{"):
        try:
            with where.file.open(encoding="utf-8") as lines:
                return verify_export(lines, known_head)
        except (OSError, UnicodeDecodeError):
            raise LedgerError(f"{str(where.file)!r} can't be read as text.") from None
    with opened(where) as ledger:
        return ledger.verify(known_head)


def _begins(file: Path, beginning: bytes) -> bool:
    try:
        with file.open("rb") as opened_file:
            return opened_file.read(len(beginning)) == beginning
    except OSError:
        return False  # whoever reads it as a schema says what is wrong


def _identity(known: dict[str, Registration], name: str) -> str:
    """Return the identity of a table that is named, or given by its identity."""
    if name in known:
        return name
    found = [table for table in known.values() if table.name.lower() == name.lower()]
    if len(found) == 1:
        return found[0].identity
    if found:
        raise ParameterError(
            f"the ledger knows {len(found)} tables {name!r}.",
            hint="one of " + ", ".join(table.identity for table in found),
        )
    raise ParameterError(
        f"the ledger knows no table {name!r}.",
        hint="one of " + (", ".join(table.name for table in known.values()) or "none"),
    )


def _place(entry: Entry | Raise, known: Registration) -> str:
    """Return what was charged: a table, its period, and of its blocks the first and the last."""
    if known.is_of_people:
        return f"each {known.name}"
    scope = entry.scope if isinstance(entry, Entry) else None
    words = [known.name]
    if scope is not None and scope.period:
        words.append(scope.period)
    if scope is not None and scope.blocks is not None:
        blocks = sorted(scope.blocks)
        many = f" to {blocks[-1]} ({len(blocks)})" if len(blocks) > 1 else ""
        words.append(f"{known.spec.blocks} {blocks[0]}{many}" if blocks else "no block")
    return ", ".join(words)


def _within(entry: Raise, asked: Asked) -> bool:
    return (
        asked.identity in (None, entry.identity)
        and (asked.since is None or entry.time >= asked.since)
        and (asked.until is None or entry.time < asked.until)
    )


def _row(entry: Entry | Raise, name: str) -> list[str]:
    number, time = str(entry.number), entry.time.removesuffix("+00:00")
    match entry:
        case Raise():
            amounts = [show(entry.epsilon), show(entry.delta)]
            reason = f"BUDGET RAISED: {entry.reason}" if entry.reason else "BUDGET RAISED"
            return [number, time, OWNER, name, *amounts, "", "raised to", reason]
        case Entry():
            spent = entry.spend
            epsilon = show_up(Fraction(spent.epsilon, EPSILON_UNITS))
            delta = show_up(Fraction(spent.delta, DELTA_UNITS)) if spent.delta else "0"
            status = "unanswered" if entry.status is Status.RESERVED else entry.status.value
            noise = _noise(entry.events) or "released before"
            sql = " ".join(entry.sql.split())
            return [number, time, entry.analyst, name, epsilon, delta, noise, status, sql]


def _noise(events: tuple[Event, ...]) -> str:
    """Return the events by kind, in their order."""
    counts = Counter(_word(event) for event in events)
    return ", ".join(word if n == 1 else f"{n} {word}" for word, n in counts.items())


def _word(event: Event) -> str:
    word: str = json.loads(event_to_json(event))["event"]
    return word.replace("_", " ")
