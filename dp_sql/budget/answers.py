"""The store of answers: what was released before, so that asking it again costs nothing.

Claim:   a release that is found here was charged in this ledger to every table that it reads, and is
         an output of that charge; showing it again is post-processing.
Why:     an answer is kept after the release, which comes after its charge is on disk, and with the
         statement that paid. It is found only where the ledger, asked then, has that statement's entry
         for each of those tables: an answer of another ledger, or of one that was put back from a
         backup, is none. A ledger that has the entry of a topped-up answer has those of what was topped
         up too: they came before. A row whose digest is wrong is none. Whatever isn't found is charged and
         drawn anew, so a store that is lost, full, locked or cleared costs budget, never privacy.
Assumes: who can write the file doesn't forge it; it holds what analysts were shown and nothing else.
Source:  [Dwork2006]

An answer depends on a version of each table's data, which changes by `refresh` alone: a version that
followed the data would tell whether somebody came or went. Versions live here, since they mean nothing
without the answers: where both are lost, no answer is found.

The store is a file of its own beside the ledger; for a ledger in PostgreSQL it is tables beside its own
(`postgres_answers`). Nothing of the file is synced: a power cut may lose it, and a damaged one is
replaced by an empty one.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dp_sql.budget.record import OWNER, digest
from dp_sql.budget.sqlite import file_identity
from dp_sql.budget.store import Kind, Transaction
from dp_sql.dataclass import dataclass
from dp_sql.errors import LedgerError

MOST_ANSWERS = 10_000
MOST_BYTES = 64 * 2**20
"""What a store holds at most; the answer that was used longest ago makes room."""
MOST_BYTES_OF_ONE = 8 * 2**20
"""A larger answer isn't kept."""

_WAIT_SECONDS = 5.0
_RECENT = 16  # an answer that was among the last so many is as good as used now
_ALIKE = 16  # answers that are looked at for one that may be topped up
_LAYOUT = 2
_TABLES = (
    """
    CREATE TABLE answers (
        fingerprint TEXT NOT NULL PRIMARY KEY,
        query_id TEXT NOT NULL,
        identities TEXT NOT NULL,
        body BLOB NOT NULL,
        size INTEGER NOT NULL,
        used INTEGER NOT NULL,
        root TEXT NOT NULL,
        noise TEXT NOT NULL,
        digest TEXT NOT NULL
    )
    """,
    "CREATE INDEX answers_by_use ON answers (used, size)",
    "CREATE INDEX answers_by_root ON answers (root, used) WHERE root <> ''",
    """
    CREATE TABLE seen (
        fingerprint TEXT NOT NULL,
        analyst TEXT NOT NULL,
        PRIMARY KEY (fingerprint, analyst)
    )
    """,
    """
    CREATE TABLE versions (
        identity TEXT NOT NULL PRIMARY KEY,
        version INTEGER NOT NULL,
        time TEXT NOT NULL
    )
    """,
    f"PRAGMA user_version = {_LAYOUT}",
)
_ROW = "SELECT fingerprint, query_id, identities, body, root, noise, digest FROM answers"
_FIND = f"{_ROW} WHERE fingerprint = :fingerprint"
_FIND_ALIKE = f"{_ROW} WHERE root = :root AND root <> '' ORDER BY used DESC LIMIT {_ALIKE}"
_HAS_SEEN = "SELECT 1 FROM seen WHERE fingerprint = :fingerprint AND analyst = :analyst"
_LONG_AGO = (
    "SELECT 1 FROM answers WHERE fingerprint = :fingerprint "
    "AND used < (SELECT MAX(used) FROM answers) - :recent"
)
_TOUCH = (
    "UPDATE answers SET used = (SELECT MAX(used) + 1 FROM answers) WHERE fingerprint = :fingerprint"
)
_ADD = (
    "INSERT INTO answers (fingerprint, query_id, identities, body, size, used, root, noise, digest) "
    "VALUES (:fingerprint, :query_id, :identities, :body, :size, "
    "(SELECT COALESCE(MAX(used), 0) + 1 FROM answers), :root, :noise, :digest) ON CONFLICT DO NOTHING"
)
_ADD_SEEN = (
    "INSERT INTO seen (fingerprint, analyst) SELECT :fingerprint, :analyst WHERE EXISTS "
    "(SELECT 1 FROM answers WHERE fingerprint = :fingerprint) ON CONFLICT DO NOTHING"
)
_TOTALS = "SELECT COUNT(*), COALESCE(SUM(size), 0) FROM answers"
_OLDEST = "SELECT fingerprint FROM answers ORDER BY used LIMIT 1"
_READ_BY = "SELECT fingerprint, identities FROM answers"
_FORGET = "DELETE FROM answers WHERE fingerprint = :fingerprint"
_FORGET_SEEN = "DELETE FROM seen WHERE fingerprint = :fingerprint"
_VERSION = "SELECT version, time FROM versions WHERE identity = :identity"
_SET_VERSION = (
    "INSERT INTO versions (identity, version, time) VALUES (:identity, 1, :time) "
    "ON CONFLICT (identity) DO UPDATE SET version = versions.version + 1, time = :time"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A stored answer. seen: whether the analyst who asks was shown it, or paid for it.

    noise: what `keep` was told of its noise; "" where nothing may be added to it.
    """

    body: bytes
    seen: bool
    noise: str = ""


@dataclass(frozen=True, slots=True)
class Version:
    """Which version of a table's data answers are of, beside what the schema says.

    number: how often the table was refreshed. time: when last, ISO 8601 in UTC; "" for never.
    """

    number: int
    time: str


_NEVER = Version(0, "")


class Answers:
    """The store of one ledger's answers. Threads may share one; a forked process opens its own.

    Where the file can't be read or written nothing is found, nothing is kept, and nothing raises.
    """

    _lost: tuple[type[Exception], ...] = (sqlite3.Error,)
    """What a store raises that can't be read or written."""

    def __init__(self, path: Path | None, charged: Callable[[str], frozenset[str]]) -> None:
        """Use the store at `path`, made when something is kept; None is a new one in memory.

        charged: gives the identities of the tables that a statement of the ledger was charged to, by
        its query id; none for one that the ledger doesn't know.
        """
        self._path = path
        self._charged = charged
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        _OPEN.add(self)

    def find(self, fingerprint: str, analyst: str) -> Answer | None:
        """Return the answer with that fingerprint, or None where there is none that was paid for."""
        found = self._paid(_FIND, {"fingerprint": fingerprint}, analyst)
        return found[0] if found else None

    def alike(self, root: str, analyst: str) -> list[Answer]:
        """Return answers that were paid for and kept with that root, those used last first, not many."""
        return self._paid(_FIND_ALIKE, {"root": root}, analyst)

    def _paid(self, query: str, wanted: Mapping[str, object], analyst: str) -> list[Answer]:
        """Return the answers of some rows, and forget those that nobody paid for or that are damaged."""
        rows: list[tuple[Any, ...]] = []
        seen, long_ago = dict[str, bool](), list[str]()
        with suppress(*self._lost), self._session(Kind.READ) as connection:
            rows = [tuple(row) for row in connection.execute(query, wanted)]
            for fingerprint, *_ in reversed(rows):
                asked = {"fingerprint": fingerprint, "analyst": analyst, "recent": _RECENT}
                seen[fingerprint] = connection.execute(_HAS_SEEN, asked).fetchone() is not None
                if connection.execute(_LONG_AGO, asked).fetchone() is not None:
                    long_ago.append(fingerprint)
        if long_ago:
            with suppress(*self._lost), self._session(Kind.NOTE) as connection:
                for fingerprint in long_ago:
                    self._touch(connection, fingerprint)
        found = []
        for fingerprint, query_id, identities, body, root, noise, stored in rows:
            sound = stored == _digest(fingerprint, query_id, identities, body, root, noise)
            if sound and set(json.loads(identities)) <= self._charged(query_id):
                found.append(Answer(body, seen.get(fingerprint, False), noise))
                continue
            with suppress(*self._lost), self._session(Kind.NOTE) as connection:
                _forget(connection, fingerprint)
        return found

    def keep(
        self,
        fingerprint: str,
        query_id: str,
        identities: Iterable[str],
        body: bytes,
        analyst: str,
        root: str = "",
        noise: str = "",
    ) -> None:
        """Keep an answer that was drawn for a statement that is charged, unless there is one.

        identities: of the tables that it reads. The analyst who asked has seen it. root, noise: where more
        may be added to it, the digest of everything but its noise, and that noise.
        """
        if len(body) > MOST_BYTES_OF_ONE:
            return
        read = json.dumps(sorted(identities))
        row = {
            "fingerprint": fingerprint,
            "query_id": query_id,
            "identities": read,
            "body": body,
            "size": len(body),
            "root": root,
            "noise": noise,
            "digest": _digest(fingerprint, query_id, read, body, root, noise),
        }
        with suppress(*self._lost), self._session(Kind.NOTE) as connection:
            if connection.execute(_ADD, row).rowcount == 1:
                connection.execute(_ADD_SEEN, {"fingerprint": fingerprint, "analyst": analyst})
                self._make_room(connection)

    def saw(self, fingerprints: Iterable[str], analyst: str) -> None:
        """Note that an analyst was charged for these answers, or drew them."""
        with suppress(*self._lost), self._session(Kind.NOTE) as connection:
            for fingerprint in fingerprints:
                connection.execute(_ADD_SEEN, {"fingerprint": fingerprint, "analyst": analyst})

    def versions(self, identities: Iterable[str]) -> dict[str, Version] | None:
        """Return the versions of tables' data, or None where the store can't be read now."""
        with suppress(*self._lost, ValueError), self._session(Kind.READ) as connection:
            return {identity: _version(connection, identity) for identity in identities}
        return None

    def refresh(self, identities: Iterable[str], by: str) -> dict[str, Version]:
        """Forget every answer that reads one of these tables, and return their new versions.

        by: who asks; only OWNER may. Raises LedgerError for an analyst, and where the store can't be
        written: then the answers are still there.
        """
        wanted = set(identities)
        _require_owner(by)
        with self._or_raise() as connection:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            for identity in sorted(wanted):
                connection.execute(_SET_VERSION, {"identity": identity, "time": now})
            self._forget_of(connection, wanted)
            return {identity: _version(connection, identity) for identity in sorted(wanted)}

    def clear(self, by: str) -> int:
        """Forget every answer, and return how many there were; versions stay.

        Raises LedgerError as `refresh`.
        """
        _require_owner(by)
        with self._or_raise() as connection:
            count, _ = connection.execute(_TOTALS).fetchone()
            connection.execute("DELETE FROM answers")
            connection.execute("DELETE FROM seen")
        return int(count)

    def size(self) -> tuple[int, int]:
        """Return how many answers are kept, and their bytes."""
        with suppress(*self._lost), self._session(Kind.READ) as connection:
            count, total = connection.execute(_TOTALS).fetchone()
            return int(count), int(total)
        return 0, 0

    def close(self) -> None:
        """Close the file; a store in memory is gone."""
        with self._lock:
            self._disconnect()

    def after_fork(self) -> None:
        """Go on in a child: what the parent has open is the parent's, and never closed here."""
        self._lock = threading.Lock()
        if self._connection is not None:
            _PARENTS.append(self._connection)
            self._connection = None

    @contextmanager
    def _or_raise(self) -> Iterator[Transaction]:
        try:
            with self._session(Kind.WRITE) as connection:
                yield connection
        except (sqlite3.Error, ValueError):
            raise LedgerError(
                f"The store of answers {self._path} can't be written.",
                hint="give this user the right to write it, or remove the file",
            ) from None

    def _forget_of(self, connection: Transaction, tables: set[str]) -> None:
        """Forget every answer that reads one of these tables, by identity."""
        for fingerprint, read in list(connection.execute(_READ_BY)):
            if not tables.isdisjoint(_identities(read, tables)):
                _forget(connection, fingerprint)

    def _touch(self, connection: Transaction, fingerprint: str) -> None:
        """Note that an answer was used now."""
        connection.execute(_TOUCH, {"fingerprint": fingerprint})

    def _make_room(self, connection: Transaction) -> None:
        """Forget the answers that were used longest ago until the others keep to the bounds."""
        while True:
            count, total = connection.execute(_TOTALS).fetchone()
            if count <= MOST_ANSWERS and total <= MOST_BYTES:
                return
            (oldest,) = connection.execute(_OLDEST).fetchone()
            _forget(connection, oldest)

    @contextmanager
    def _session(self, kind: Kind) -> Iterator[Transaction]:  # noqa: ARG002  a file has one kind
        """Give a connection for one transaction. Raises what is in `_lost`."""
        with self._lock:
            connection = self._opened()
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.commit()
            except BaseException as error:
                with suppress(sqlite3.Error):
                    connection.rollback()
                if self._path is not None and _is_damage(error):
                    self._disconnect()
                    _remove(self._path)
                raise

    def _opened(self) -> sqlite3.Connection:
        """Return the connection of this process, opened anew where another file has taken its place."""
        if self._path is None:
            if self._connection is None:
                self._connection = _laid_out(":memory:", None)
            return self._connection
        try:
            if self._connection is not None and file_identity(self._path) != self._file:
                self._disconnect()
            if self._connection is None:
                self._connection = _ready(self._path)
                self._file = file_identity(self._path)
        except OSError as error:
            raise sqlite3.OperationalError(str(error)) from None
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


def store_beside(ledger: str | Path) -> Path | None:
    """Return the file of the answers of a ledger in a file, None where both are in memory."""
    if str(ledger) == ":memory:":
        return None
    return Path(f"{Path(ledger).expanduser().resolve()}.answers")


_OPEN: weakref.WeakSet[Answers] = weakref.WeakSet()
_PARENTS: list[sqlite3.Connection] = []
"""Connections that a fork copied: closing them here would end the parent's locks."""


def _after_fork() -> None:
    for store in list(_OPEN):
        store.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _ready(path: Path) -> sqlite3.Connection:
    """Return a connection to a store, which is made anew where there is none that can be read."""
    try:
        return _laid_out(str(path), path)
    except sqlite3.Error as error:
        if not _is_damage(error):
            raise
        _remove(path)
        return _laid_out(str(path), path)


def _laid_out(place: str, path: Path | None) -> sqlite3.Connection:
    if path is not None:
        with suppress(OSError):  # what is wrong with the place, SQLite says
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(
        place, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        connection.text_factory = _as_text
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = TRUNCATE")
        if _layout(connection) == 0:
            connection.execute("BEGIN IMMEDIATE")
            if _layout(connection) == 0:  # nobody was quicker
                for statement in _TABLES:
                    connection.execute(statement)
            connection.commit()
        _require_layout(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _layout(connection: sqlite3.Connection) -> int:
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    return int(layout)


def _require_layout(connection: sqlite3.Connection) -> None:
    if _layout(connection) != _LAYOUT:
        raise sqlite3.DatabaseError("a store of another layout")


def _is_damage(error: BaseException) -> bool:
    """Return whether an error says that the file is no store, or no longer one."""
    if type(error) is sqlite3.DatabaseError:
        return True
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _remove(path: Path) -> None:
    """Remove a store, and first the journal, which a new one mustn't be restored from."""
    for file in (Path(f"{path}-journal"), path):
        with suppress(OSError):
            file.unlink()


def _as_text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")


def _version(connection: Transaction, identity: str) -> Version:
    found = connection.execute(_VERSION, {"identity": identity}).fetchone()
    if found is None:
        return _NEVER
    number, time = found
    return Version(int(number), str(time))


def _identities(stored: object, otherwise: set[str]) -> set[str]:
    """Return the stored identities; `otherwise` where they are damaged."""
    try:
        return set(json.loads(str(stored)))
    except (ValueError, TypeError):
        return otherwise


def _digest(
    fingerprint: object,
    query_id: object,
    identities: object,
    body: object,
    root: object,
    noise: object,
) -> str | None:
    """Return the digest of a row, None where a value has another type than it was written with."""
    texts = [
        text for text in (fingerprint, query_id, identities, root, noise) if isinstance(text, str)
    ]
    if len(texts) < 5 or not isinstance(body, bytes):
        return None
    return digest("answer", *texts, hashlib.sha256(body).hexdigest())


def _forget(connection: Transaction, fingerprint: str) -> None:
    for statement in (_FORGET, _FORGET_SEEN):
        connection.execute(statement, {"fingerprint": fingerprint})


def _require_owner(by: str) -> None:
    if by != OWNER:
        raise LedgerError(
            f"{by!r} is an analyst, and only the owner makes answers cost anew.",
            hint="ask the owner of the data",
        )
