"""Where a ledger lives: one SQLite database, in a file or in memory, and its transactions.

Claim:   what a transaction has committed survives a killed process and a power cut, and no two
         processes or threads are in a writing transaction at once.
Why:     write-ahead log with `synchronous = FULL`: SQLite syncs the log before COMMIT returns. Each
         writing transaction starts with BEGIN IMMEDIATE, which takes the one lock of writers before
         it reads. In a process a lock of ours admits one thread.
Assumes: a local file system whose locks and syncs work, and a log (`-wal`) that stays beside its
         file: a copy of the file alone may lack the last charges.
Source:  [SQLiteWAL], [SQLiteCorrupt]

A process that forks must not share a connection with its child, and SQLite's bookkeeping of locks
doesn't know of the fork: the child of a process with an open connection can lose what it commits
when the parent closes. So every connection to a file is closed before a fork, and opened again on
both sides when it is next used.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

from dp_sql.budget import layout
from dp_sql.errors import LedgerError

BUSY_SECONDS = 10.0
"""How long a transaction waits for another process's."""

_APPLICATION_ID = 0x64705371  # "dpSq", in the header of every ledger, where file(1) finds it too
_MAGIC = b"SQLite format 3\x00"


class Store:
    """The database of one ledger; `path` is None for one in memory, which dies with the process."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.name = ":memory:" if path is None else str(path)
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._file: tuple[int, int] | None = None
        self._closed = False
        self._running = False  # whether the thread that holds the lock is in a transaction
        with _OPEN_LOCK:
            _OPEN.add(self)

    def transaction(self, *, write: bool) -> AbstractContextManager[sqlite3.Connection]:
        """Run the body in one transaction: all of it is kept, or nothing where it raises.

        write: whether it may write; then no other process or thread writes meanwhile. When the body
        has ended without an error and this returns, what it wrote is on disk. Raises LedgerError
        when the database can't do it; then nothing was written, or all of it was.
        """
        return self._run("BEGIN IMMEDIATE" if write else "BEGIN", "FULL")

    def note(self) -> AbstractContextManager[sqlite3.Connection]:
        """Run the body in one writing transaction that needn't be on disk when this returns.

        For what may be lost with the machine, never for a charge. Raises LedgerError likewise.
        """
        return self._run("BEGIN IMMEDIATE", "NORMAL")

    @contextmanager
    def _run(self, begin: str, synchronous: str) -> Iterator[sqlite3.Connection]:
        with self._lock, self._plain_errors():
            if self._running:  # a second one would end the first, which then seems to be committed
                raise LedgerError(
                    f"The ledger {self.name} is in the middle of a transaction of this thread.",
                    hint="use the ledger after it, not from a signal handler inside it",
                )
            connection = self._connect()
            try:
                self._running = True
                connection.execute(f"PRAGMA synchronous = {synchronous}")
                connection.execute(begin)
                yield connection
                connection.commit()
            except BaseException:
                self._undo(connection)
                raise
            finally:
                self._running = False

    def close(self) -> None:
        """Close the database; every later transaction raises LedgerError."""
        with self._lock:
            self._closed = True
            self._disconnect()

    def before_fork(self) -> None:
        """Let no other thread in until `after_fork`, and close what a child must not share."""
        self._lock.acquire()
        if self.path is not None:
            self._disconnect()

    def after_fork(self, *, child: bool) -> None:
        """Go on, in the parent or in the child, where a ledger in memory stays the parent's."""
        if child and self.path is not None:
            self._process = os.getpid()
        self._lock.release()

    def _connect(self) -> sqlite3.Connection:
        """Return the one connection of this process, opened anew where there is none."""
        if self._closed:
            raise LedgerError(f"The ledger {self.name} is closed.", hint="open it again")
        if self._process != os.getpid():
            raise LedgerError(
                f"The ledger {self.name} was opened by the process that forked this one.",
                hint="open the ledger in this process"
                + (", in a file: memory isn't shared" if self.path is None else ""),
            )
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
                layout.create(connection)
            layout.upgrade(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _undo(self, connection: sqlite3.Connection) -> None:
        """Roll back; where that fails too, start again with a new connection next time."""
        try:
            connection.rollback()
        except (sqlite3.Error, UnicodeDecodeError):
            if self.path is not None:
                self._disconnect()

    def _disconnect(self) -> None:
        """Close the connection, if there is one. The caller holds the lock."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error, UnicodeDecodeError):
                connection.close()

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Replace the errors of the driver and of the operating system by LedgerError."""
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


def open_store(where: str | Path) -> Store:
    """Return the store at `where`, made first if there is none; ":memory:" is a new one in memory.

    Raises LedgerError, and changes nothing, where the folder is missing or can't be written, the
    file is no ledger, is empty, damaged, of another layout or can't be written, or another process
    holds it for longer than BUSY_SECONDS.
    """
    path = None if str(where) == ":memory:" else _locate(Path(where))
    store = Store(path)
    try:
        with store.transaction(write=True):
            pass  # a ledger that can't be written is refused now rather than at the first statement
    except LedgerError:
        store.close()
        raise
    return store


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
            layout.create(connection)
            connection.commit()
        finally:
            connection.close()  # moves the log into the file and removes the log
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
        timeout=BUSY_SECONDS,
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


def _configure(connection: sqlite3.Connection, path: Path | None) -> None:
    """Make every commit durable, or raise LedgerError where the file system can't have it so."""
    for pragma in ("foreign_keys = ON", "cell_size_check = ON", "fullfsync = ON"):
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
            message = f"The ledger {name} was held by another process for {BUSY_SECONDS:g} seconds."
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


_OPEN: weakref.WeakSet[Store] = weakref.WeakSet()
_OPEN_LOCK = threading.RLock()
_HELD: list[Store] = []  # between the two halves of a fork, under _OPEN_LOCK


def _before_fork() -> None:
    _OPEN_LOCK.acquire()
    _HELD.extend(_OPEN)
    for store in _HELD:
        store.before_fork()


def _after_fork(*, child: bool) -> None:
    while _HELD:
        _HELD.pop().after_fork(child=child)
    _OPEN_LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=partial(_after_fork, child=False),
        after_in_child=partial(_after_fork, child=True),
    )
