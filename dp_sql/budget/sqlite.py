"""A ledger in one SQLite database, in a file or in memory, and its transactions.

Claim:   what a transaction has committed survives a killed process and a power cut, and no two
         processes or threads are in a writing transaction at once.
Why:     write-ahead log with `synchronous = FULL`: SQLite syncs the log before COMMIT returns. Each
         writing transaction starts with BEGIN IMMEDIATE, which takes the one lock of writers before
         it reads. In a process a lock of ours admits one thread.
Assumes: a local file system whose locks and syncs work, and a log (`-wal`) that stays beside its
         file: a copy of the file alone may lack the last charges.
Source:  [SQLiteWAL], [SQLiteCorrupt]

SQLite's bookkeeping of locks doesn't know of a fork: the child of a process with an open connection
can lose what it commits when the parent closes. `Store` closes it before the fork.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

from dp_sql.budget import layout, store
from dp_sql.budget.store import Kind, Store, Transaction
from dp_sql.errors import LedgerError

_APPLICATION_ID = 0x64705371  # "dpSq", in the header of every ledger, where file(1) finds it too
_MAGIC = b"SQLite format 3\x00"


class SQLiteStore(Store):
    """The database of one ledger; `path` is None for one in memory, which dies with the process."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        super().__init__(":memory:" if path is None else str(path), shared=path is not None)

    def check_whole(self, transaction: Transaction) -> None:
        """Do nothing: whoever reads a file reads all of it."""

    def damage(self, transaction: Transaction) -> list[str]:
        """Return what SQLite finds wrong with the pages of the file."""
        found = [row[0] for row in transaction.execute("PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else [f"SQLite: {line}" for line in found]

    def _begin(self, kind: Kind) -> sqlite3.Connection:
        connection = self._connect()
        synchronous = "NORMAL" if kind is Kind.NOTE else "FULL"
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("BEGIN" if kind is Kind.READ else "BEGIN IMMEDIATE")
        return connection

    def _commit(self) -> None:
        if self._connection is None:
            raise LedgerError(f"The ledger {self.name} was closed by a fork inside a transaction.")
        self._connection.commit()

    def _connect(self) -> sqlite3.Connection:
        """Return the one connection of this process, opened anew where there is none."""
        if self._connection is None:
            self._connection = self._open()
        elif self.path is not None and file_identity(self.path) != self._file:
            raise LedgerError(
                f"The ledger {self.name} was moved, replaced or removed while it was open.",
                hint="put the file back, with its -wal, before anything else is asked",
            )
        return self._connection

    def _open(self) -> sqlite3.Connection:
        """Return a new connection to a ledger that exists, or to a new one in memory."""
        if self.path is not None:
            _check_header(self.path)
            self._file = file_identity(self.path)
        connection = _connected(self.path)
        try:
            if self.path is None:
                _make(connection)
            else:
                _check_version_table(connection, self.name)
            _upgrade(connection)
            _check_rules(connection, self.name)
        except BaseException:
            connection.close()
            raise
        return connection

    def _undo(self) -> None:
        if self._connection is None:
            return
        try:
            self._connection.rollback()
        except (sqlite3.Error, UnicodeDecodeError):
            if self.path is not None:
                self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error, UnicodeDecodeError):
                connection.close()

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:  # also of a connection that a fork has closed
            raise _ledger_error(self.name, error) from None
        except UnicodeDecodeError:  # SQLite quotes damaged text in its messages
            raise _damaged(self.name) from None
        except BrokenPipeError:
            raise  # of what reads the lines, not of the ledger
        except OSError as error:
            raise LedgerError(f"The ledger {self.name} can't be read: {error.strerror}.") from None


def open_sqlite(where: str | Path) -> SQLiteStore:
    """Return the store at `where`, made first if there is none; ":memory:" is a new one in memory.

    Raises LedgerError, and changes nothing, where the folder is missing or can't be written, the
    file is no ledger, is empty, damaged, of another layout or can't be written, or another process
    holds it for longer than BUSY_SECONDS.
    """
    path = None if str(where) == ":memory:" else _locate(Path(where))
    return store.tried(SQLiteStore(path))


def known_tables(path: Path) -> list[tuple[str, str]]:
    """Return identities and names of a ledger's tables; none where it can't be read. Nothing is locked."""
    asked = "SELECT identity, name FROM tables"
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection,
    ):
        return [(str(identity), str(name)) for identity, name in connection.execute(asked)]
    return []


def _locate(where: Path) -> Path:
    """Return the absolute path of a ledger, which is made first if there is none."""
    try:
        path = where.expanduser().resolve()
        if path.exists():
            return path
    except (OSError, RuntimeError):
        raise LedgerError(
            f"The ledger {where} can't be reached.", hint="a path that this user may read"
        ) from None
    _create(path)
    return path


def _create(path: Path) -> None:
    """Make an empty ledger at `path` in one step, unless another process is quicker.

    It is built under another name and linked: nobody ever sees half a ledger, so an empty or short
    file is damage and never mistaken for a new ledger.
    """
    if not path.parent.is_dir():
        raise LedgerError(
            f"The folder of the ledger {path} doesn't exist.", hint="make the folder first"
        )
    for suffix in ("-wal", "-journal"):
        if path.with_name(path.name + suffix).exists():
            raise LedgerError(
                f"There is no ledger {path}, but its {suffix} file was left behind.",
                hint="put the ledger back beside it; to start anew, remove that file",
            )
    draft = path.with_name(f".{path.name}.{uuid4().hex}.new")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = _connected(draft)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            _make(connection)
            connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # raises where a disk is full
        finally:
            connection.close()
        with suppress(FileExistsError):
            os.link(draft, path)
        _sync_folder(path.parent)
    except sqlite3.Error as error:
        raise _ledger_error(str(path), error) from None
    except OSError as error:
        raise LedgerError(
            f"The ledger {path} can't be made: {error.strerror}.",
            hint="a folder that can be written, on a local file system",
        ) from None
    finally:
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                draft.with_name(draft.name + suffix).unlink()


def _connected(path: Path | None) -> sqlite3.Connection:
    """Return a new connection that leaves transactions to us."""
    connection = sqlite3.connect(
        ":memory:" if path is None else path.as_uri() + "?mode=rw",
        uri=path is not None,
        timeout=store.BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.row_factory = sqlite3.Row
        _configure(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _make(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty ledger."""
    for statement in layout.steps(0):
        connection.execute(statement)


def _check_version_table(connection: sqlite3.Connection, name: str) -> None:
    """Raise LedgerError where the version isn't a table's: reading a view could take for ever."""
    asked = "SELECT type FROM sqlite_master WHERE lower(name) = 'schema_version'"
    if [str(kind) for (kind,) in connection.execute(asked)] not in ([], ["table"]):
        raise _damaged(name)


def _rules(connection: sqlite3.Connection) -> frozenset[tuple[str, str, str]]:
    """Return kind, name and text of what isn't a table or index: triggers could undo a charge."""
    asked = "SELECT type, name, sql FROM sqlite_master WHERE type NOT IN ('table', 'index')"
    return frozenset(
        (str(kind), str(name), str(sql)) for kind, name, sql in connection.execute(asked)
    )


def _check_rules(connection: sqlite3.Connection, name: str) -> None:
    """Raise LedgerError where the triggers and views aren't those of a ledger."""
    if _rules(connection) != _own_rules():
        raise _damaged(name)


@cache
def _own_rules() -> frozenset[tuple[str, str, str]]:
    """Return the triggers and views of a new ledger."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _make(connection)
        return _rules(connection)


def _upgrade(connection: sqlite3.Connection) -> None:
    """Give a ledger of an earlier version this layout, durably; do nothing where it has it.

    The connection is in no transaction. Raises LedgerError for a later layout.
    """
    if layout.version(connection) == layout.VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = layout.version(connection)
        if found != layout.VERSION:  # nobody was quicker
            for statement in layout.steps(found):
                connection.execute(statement)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def _configure(connection: sqlite3.Connection, path: Path | None) -> None:
    """Make every commit durable, or raise LedgerError where the file system can't have it so."""
    for pragma in (
        "foreign_keys = ON",
        "cell_size_check = ON",
        "fullfsync = ON",
        "trusted_schema = OFF",
    ):
        connection.execute(f"PRAGMA {pragma}")
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute("PRAGMA synchronous = FULL")
    if path is not None and mode != "wal":
        raise LedgerError(
            f"The file system of the ledger {path} doesn't allow a write-ahead log.",
            hint="a local file system",
        )


def _check_header(path: Path) -> None:
    """Raise LedgerError unless the file says that it is a ledger; SQLite hasn't touched it yet."""
    if not path.is_file():
        raise LedgerError(f"{path} is no file, so no ledger.", hint="the path of a file")
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        raise LedgerError(
            f"The ledger {path} is an empty file. A new ledger is never empty: this one was cut.",
            hint="a backup; to start anew, remove the file",
        )
    if header[:16] != _MAGIC or header[68:72] != _APPLICATION_ID.to_bytes(4, "big"):
        raise LedgerError(
            f"The file {path} is no ledger of dp_sql. It was left as it is.",
            hint="another path for the ledger",
        )


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return what tells this file from one that takes its place, or None where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the operating system knows how."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _ledger_error(name: str, error: sqlite3.Error) -> LedgerError:
    """Return what an error of SQLite means for the ledger `name`."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            message = (
                f"The ledger {name} was held by another process for {store.BUSY_SECONDS:g} seconds."
            )
            return LedgerError(message, hint="end the process that holds it, or ask again")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            message = f"The ledger {name} or its folder can't be written."
            return LedgerError(message, hint="give this user the right to write file and folder")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_ERROR:
            return _damaged(name)
        case sqlite3.SQLITE_FULL:
            message = f"The ledger {name} can't grow: the disk is full."
            return LedgerError(message, hint="make room, then ask again")
        case sqlite3.SQLITE_CONSTRAINT:
            message = f"The ledger {name} holds a statement of this query id already."
            return LedgerError(message, hint="a new query id for each statement")
        case _:
            kind = getattr(error, "sqlite_errorname", type(error).__name__)
            return LedgerError(f"The ledger {name} can't be read or written ({kind}).")


def _damaged(name: str) -> LedgerError:
    return LedgerError(f"The ledger {name} is damaged.", hint="a backup of the ledger")
