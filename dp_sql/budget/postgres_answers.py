"""The store of answers of a ledger in PostgreSQL: in its database, for all connections and analysts.

Claim:   what `answers` says of the file holds here, for an analyst's role too. A role reads answers and
         adds those of its own statements; it can't change or remove one, refresh, clear, or see which
         analyst asked or was shown what.
Why:     roles have SELECT and INSERT alone. Row security lets a role add an answer of its own
         statements, and shows it its own rows of `seen`. What an answer was charged to is asked of the
         ledger by a function of the owner's, which sees every entry: a trigger asks it when an answer
         is kept, and `find` when it is shown. Making room and noting a use are functions of the
         owner's too.
Assumes: that a role writes what it was shown. Who holds a role's password can write a made-up answer to
         one of its own statements: whoever asks the same is misled, and told nothing about anybody,
         since it is computed from what that role was told. The ledger names the statement. Nor is such
         a role held to its part of a budget `per_analyst` where it reads the answers itself.
Source:  [Dwork2006], [PostgreSQLRowSecurity]

The owner's connection brings the layout, as it does that of the ledger; where it isn't there, or isn't
granted, no answer is found and none is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dp_sql.budget.answers import Answers
from dp_sql.budget.store import Kind, Store, Transaction
from dp_sql.errors import LedgerError


class PostgresAnswers(Answers):
    """The answers beside the ledger of `store`, over its connection."""

    _lost = (LedgerError,)

    def __init__(self, store: Store) -> None:
        super().__init__(None, self._charged_to)
        self._store = store

    def close(self) -> None:
        """Do nothing: the connection is the ledger's."""

    def _charged_to(self, query_id: str) -> frozenset[str]:
        asked = "SELECT identity FROM charged_to(:query_id)"
        with self._session(Kind.READ) as connection:
            return frozenset(
                identity for (identity,) in connection.execute(asked, {"query_id": query_id})
            )

    def _forget_of(self, connection: Transaction, tables: set[str]) -> None:
        forget = "DELETE FROM answers WHERE CAST(identities AS jsonb) ?| CAST(:tables AS text[])"
        connection.execute(forget, {"tables": sorted(tables)})

    def _touch(self, connection: Transaction, fingerprint: str) -> None:
        connection.execute("SELECT use_answer(:fingerprint)", {"fingerprint": fingerprint})

    def _make_room(self, connection: Transaction) -> None:
        """Do nothing: a trigger has."""

    @contextmanager
    def _or_raise(self) -> Iterator[Transaction]:
        with self._session(Kind.WRITE) as connection:
            yield connection

    @contextmanager
    def _session(self, kind: Kind) -> Iterator[Transaction]:
        match kind:
            case Kind.NOTE:
                session = self._store.note()
            case Kind.READ | Kind.WRITE:
                session = self._store.transaction(write=kind is Kind.WRITE)
        with session as connection:
            yield connection
