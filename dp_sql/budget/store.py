"""What a ledger needs of the database that it lives in, and what all such databases have in common.

A process that forks must not share a connection with its child. So every connection that both could
use is closed before a fork, and opened again on both sides when it is next used.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import Enum, auto
from functools import partial
from typing import Any, Protocol, TypeVar

from dp_sql.errors import LedgerError

BUSY_SECONDS = 10.0
"""How long a transaction waits for another process's."""


class Rows(Protocol):
    """What a statement returned: rows that yield their values, and find them by column names, too."""

    @property
    def rowcount(self) -> int:
        """How many rows an UPDATE changed."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that are left."""


class Transaction(Protocol):
    """One transaction of a store. It ends with the body that it was given to."""

    def execute(self, statement: str, binds: Mapping[str, Any] = ..., /) -> Rows:
        """Run a statement whose `:name`s stand for `binds`."""

    def executemany(self, statement: str, binds: Sequence[Mapping[str, Any]], /) -> Rows:
        """Run a statement once for each of `binds`."""


class Kind(Enum):
    """What a transaction is for."""

    READ = auto()
    WRITE = auto()
    NOTE = auto()


AnyStore = TypeVar("AnyStore", bound="Store")


class Store(ABC):
    """The database of one ledger, one connection a process, under one lock of its threads.

    name: how messages call it; never with a password. shared: whether a child of this process may
    go on with it.
    """

    def __init__(self, name: str, *, shared: bool) -> None:
        self.name = name
        self._shared = shared
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._closed = False
        self._running = False  # whether the thread that holds the lock is in a transaction
        with _OPEN_LOCK:
            _OPEN.add(self)

    def transaction(self, *, write: bool) -> AbstractContextManager[Transaction]:
        """Run the body in one transaction: all of it is kept, or nothing where it raises.

        write: whether it may write; then no other process or thread writes meanwhile. When the body
        has ended without an error and this returns, what it wrote is on disk. Raises LedgerError
        when the database can't do it; then nothing was written, or all of it was.
        """
        return self._run(Kind.WRITE if write else Kind.READ)

    def note(self) -> AbstractContextManager[Transaction]:
        """Run the body in one writing transaction that needn't be on disk when this returns.

        For what may be lost with the machine, never for a charge. Raises LedgerError likewise.
        """
        return self._run(Kind.NOTE)

    def close(self) -> None:
        """Close the database; every later transaction raises LedgerError."""
        with self._lock:
            self._closed = True
            self._disconnect()

    def damage(self, transaction: Transaction) -> list[str]:  # noqa: ARG002  some databases can't look
        """Return what the database itself finds wrong with its pages, a sentence each."""
        return []

    @abstractmethod
    def check_whole(self, transaction: Transaction) -> None:
        """Raise LedgerError unless the transaction can read the whole ledger."""

    def grant(self, role: str, analyst: str) -> list[str]:
        """Let a role of the database ask as `analyst`, and no more; return the statements for it.

        Raises LedgerError where the database has no roles or this one may not grant.
        """
        raise LedgerError(
            f"The ledger {self.name} is a file, so {role!r} can be no role that asks as {analyst!r}.",
            hint="a ledger in PostgreSQL; a file is as open as its permissions",
        )

    @abstractmethod
    def _begin(self, kind: Kind) -> Transaction:
        """Begin a transaction on the connection of this process, opened anew where there is none."""

    @abstractmethod
    def _commit(self) -> None:
        """Commit; raise unless all of the transaction is kept."""

    @abstractmethod
    def _undo(self) -> None:
        """Roll back; where that fails too, start again with a new connection next time."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connection, if there is one. The caller holds the lock."""

    @abstractmethod
    def _plain_errors(self) -> AbstractContextManager[None]:
        """Replace the errors of the driver and of the operating system by LedgerError."""

    @contextmanager
    def _run(self, kind: Kind) -> Iterator[Transaction]:
        with self._lock, self._plain_errors():
            if self._running:  # a second one would end the first, which then seems to be committed
                raise LedgerError(
                    f"The ledger {self.name} is in the middle of a transaction of this thread.",
                    hint="use the ledger after it, not from a signal handler inside it",
                )
            self._check_usable()
            try:
                self._running = True
                yield self._begin(kind)
                self._commit()
            except BaseException:
                self._undo()
                raise
            finally:
                self._running = False

    def _check_usable(self) -> None:
        if self._closed:
            raise LedgerError(f"The ledger {self.name} is closed.", hint="open it again")
        if self._process != os.getpid():
            raise LedgerError(
                f"The ledger {self.name} was opened by the process that forked this one.",
                hint="open the ledger in this process"
                + ("" if self._shared else ", in a file: memory isn't shared"),
            )

    def before_fork(self) -> None:
        """Let no other thread in until `after_fork`, and close what a child must not share."""
        self._lock.acquire()
        if self._shared:
            self._disconnect()

    def after_fork(self, *, child: bool) -> None:
        """Go on, in the parent or in the child, where a ledger in memory stays the parent's."""
        if child and self._shared:
            self._process = os.getpid()
        self._lock.release()


def tried(opened: AnyStore) -> AnyStore:
    """Return a store that can be written, or close it and raise LedgerError: now, not when asked."""
    try:
        with opened.transaction(write=True):
            return opened
    except LedgerError:
        opened.close()
        raise


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
