"""A ledger in a PostgreSQL database, in a schema of its own, and its transactions.

Claim:   what a transaction has committed survives a killed process, a killed server and a power cut,
         and no two of them are in a writing transaction at once.
Why:     each writing transaction takes one advisory lock before its first look at the tables, and
         PostgreSQL gives it back when the transaction is over, however it ends. It reads at READ
         COMMITTED, so whatever it reads after the lock is what the holder before it committed.
         `synchronous_commit` is set for the transaction, and `fsync` and `full_page_writes` of the
         server are looked at inside it: COMMIT returns when the log is on disk. COMMIT itself is
         only sent while the transaction is sound, since PostgreSQL answers the COMMIT of a failed
         one without an error.
Assumes: one server that writes: after a failover to a standby that lagged, its last charges are
         gone, unless the standby is a synchronous one. Disks that keep what they say they keep.
         Whoever owns the tables, or is a superuser, is the owner of the budgets.
Source:  [PostgreSQLWAL], [PostgreSQLLocks]

All settings are set for the transaction, never for the session: a pooler may lend the session to
somebody else in between. A connection that was lost before a transaction began is replaced; one that
is lost later is an error, and if that was at COMMIT, nobody knows whether the charge stands. Then
there is no answer either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from dp_sql.budget import (
    layout,
    place_text,
    postgres_answers_layout,
    postgres_layout,
    store,
)
from dp_sql.budget.postgres_layout import SCHEMA
from dp_sql.budget.store import Kind, Store, Transaction
from dp_sql.errors import LedgerError

try:
    import psycopg
    import sqlalchemy
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError
    from sqlalchemy.pool import NullPool
except ImportError:
    raise LedgerError(
        "A ledger in PostgreSQL needs SQLAlchemy and psycopg, which are not installed.",
        hint="pip install 'dp-sql[postgres]'",
    ) from None

_LOCK = 0x6470_5371_6C65_6467  # "dpSqledg": one ledger a database
_OLDEST = 140000  # of the servers that are still looked after
_LINK = {  # what notices that the other side is gone; each may be set in the URL
    "connect_timeout": "10",
    "tcp_user_timeout": "30000",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "application_name": "dp_sql",
}
_PATH = f"SET LOCAL search_path = {SCHEMA}, pg_temp"
# A COMMIT that waits for a standby must not be cut short: it would count all the same.
_SETTINGS = (
    f"{_PATH}; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; "
    "SET LOCAL standard_conforming_strings = on"
)
_READ = f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; {_SETTINGS}"
_WRITE = (
    f"SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; {_SETTINGS}; "
    "SET LOCAL lock_timeout = {wait:d}; SET LOCAL idle_in_transaction_session_timeout = {idle:d}; "
    "SET LOCAL synchronous_commit = {durable}; "
    f"DO $$ BEGIN PERFORM pg_advisory_xact_lock({_LOCK}); "
    "IF current_setting('fsync') <> 'on' OR current_setting('full_page_writes') <> 'on' "
    f"THEN RAISE EXCEPTION 'not durable' USING ERRCODE = '{postgres_layout.NOT_DURABLE}'; END IF; END $$"
)
_SERVER = (
    "SELECT CAST(current_setting('server_version_num') AS integer) AS version,"
    " pg_is_in_recovery() AS standby,"
    f" to_regnamespace('{SCHEMA}') IS NOT NULL AS made,"
    f" to_regclass('{SCHEMA}.schema_version') IS NOT NULL AS filled,"
    " (SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace"
    f" WHERE nspname = '{SCHEMA}') AS own"
)
_POWERS = (
    "SELECT r.rolsuper OR r.rolbypassrls OR pg_has_role(r.oid, c.relowner, 'MEMBER') AS above"
    " FROM pg_roles AS r, pg_class AS c"
    " WHERE r.rolname = :role AND c.oid = to_regclass('statements')"
)


class PostgresStore(Store):
    """The ledger of one PostgreSQL database. Its name is the URL without user and password."""

    def __init__(self, url: str, *, make: bool) -> None:
        self._link = _link(url)
        self._make = make
        self._connection: sqlalchemy.Connection | None = None
        self._engine = sqlalchemy.create_engine(
            "postgresql+psycopg://",
            creator=self._connected,
            poolclass=NullPool,
            hide_parameters=True,
            use_native_hstore=False,
        )
        super().__init__(place_text(url), shared=True)

    def check_whole(self, transaction: Transaction) -> None:
        """Raise LedgerError for a role that sees the statements of one analyst alone."""
        hidden = transaction.execute("SELECT row_security_active('statements') AS hidden")
        if hidden.fetchone()["hidden"]:
            raise LedgerError(
                f"This database role sees its own statements of the ledger {self.name} alone.",
                hint="the owner of the ledger can read it all",
            )

    def grant(self, role: str, analyst: str) -> list[str]:
        """Let a database role ask as `analyst`, and no more; return the statements for it."""
        statements = postgres_layout.grant(role, analyst)
        statements += postgres_answers_layout.grants(*postgres_layout.names(role, analyst))
        with self.transaction(write=True) as transaction:
            found = transaction.execute(_POWERS, {"role": role}).fetchone()
            if found is None:
                raise LedgerError(
                    f"The server of the ledger {self.name} has no role {role!r}.",
                    hint=f"CREATE ROLE {role} LOGIN",
                )
            if found["above"]:
                raise LedgerError(
                    f"The role {role!r} owns the ledger or stands above its rules.",
                    hint="a role that is no superuser, doesn't bypass row security, and is no member "
                    "of the owner's",
                )
            for statement in statements:
                transaction.execute(statement.replace(":", r"\:"))  # these are no binds
        return statements

    def _begin(self, kind: Kind) -> Transaction:
        kept = self._connection is not None
        try:
            return self._prepared(kind)
        except DBAPIError as error:
            if not (kept and error.connection_invalidated):
                raise
        self._disconnect()  # the server was restarted since; nothing was asked of it yet
        return self._prepared(kind)

    def _prepared(self, kind: Kind) -> _Transaction:
        """Return a transaction that has begun, on a connection whose ledger has our layout."""
        if self._connection is None:
            opened = self._engine.connect()
            try:
                self._bring(opened)
            except BaseException:  # its layout isn't known, so nothing is asked of it
                with suppress(SQLAlchemyError):
                    opened.close()
                raise
            self._connection = opened
        return self._started(self._connection, kind)

    def _started(self, connection: sqlalchemy.Connection, kind: Kind) -> _Transaction:
        begun = _Transaction(connection)
        if kind is Kind.READ:
            begun.script(_READ)
            return begun
        wait = max(1, round(store.BUSY_SECONDS * 1000))
        durable = "off" if kind is Kind.NOTE else "on"
        begun.script(_WRITE.format(wait=wait, idle=3 * wait, durable=durable))
        return begun

    def _bring(self, connection: sqlalchemy.Connection) -> None:
        """Make the ledger where there is none, or give it this version's layout."""
        begun = _Transaction(connection)
        begun.script(_READ)
        missing = self._missing(begun)
        connection.rollback()
        if not missing:
            return
        begun = self._started(connection, Kind.WRITE)
        for statement in self._missing(begun):  # somebody may have been quicker
            begun.script(statement)
        connection.commit()

    def _missing(self, begun: _Transaction) -> list[str]:
        """Return the statements that give the database this version's layout."""
        found = begun.execute(_SERVER).fetchone()
        self._check_server(found)
        if not found["made"]:
            made = f"CREATE SCHEMA {SCHEMA}"
            return [made, *postgres_layout.steps(0), *postgres_answers_layout.steps(0)]
        since = layout.version(begun)
        missing = list(postgres_layout.steps(since)) if since < layout.VERSION else []
        if found["own"]:
            missing += postgres_answers_layout.steps(postgres_answers_layout.version(begun))
        return missing

    def _check_server(self, found: Any) -> None:
        if found["version"] < _OLDEST:
            raise LedgerError(
                f"The server of the ledger {self.name} is older than PostgreSQL {_OLDEST // 10000}.",
                hint="a later one",
            )
        if found["standby"]:
            raise LedgerError(
                f"The server of the ledger {self.name} is a standby, where nothing can be charged.",
                hint="the URL of the primary, or target_session_attrs=read-write in it",
            )
        if found["made"] and not found["filled"]:
            raise LedgerError(
                f"The schema {SCHEMA} of {self.name} is no ledger of dp_sql. It was left as it is.",
                hint="another database; to start anew, drop the schema",
            )
        if not (found["made"] or self._make):
            raise _AbsentError(f"There is no ledger {self.name} yet.")

    def _commit(self) -> None:
        connection = self._connection
        driver: Any = None if connection is None else connection.connection.driver_connection
        sound = psycopg.pq.TransactionStatus.INTRANS
        if connection is None or driver.info.transaction_status is not sound:
            raise LedgerError(
                f"A transaction of the ledger {self.name} failed or was cut off by a fork."
            )
        connection.commit()

    def _undo(self) -> None:
        if self._connection is None:
            return
        try:
            self._connection.rollback()
        except SQLAlchemyError:
            self._disconnect()
            return
        if self._connection.invalidated:
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.close()

    def _connected(self) -> psycopg.Connection[Any]:
        """Return a new connection; what SQLAlchemy asks of it first finds PostgreSQL's own names."""
        try:
            made = psycopg.connect(**self._link)  # type: ignore[arg-type]
        except psycopg.OperationalError:
            raise LedgerError(
                f"The ledger {self.name} can't be reached: no server is there, it has no such database, "
                "or it refused the role or its password.",
                hint="a password comes from the URL, PGPASSWORD or a passfile",
            ) from None
        try:
            made.prepare_threshold = None  # poolers may not know what another session prepared
            made.execute("SET LOCAL search_path = pg_catalog")
        except BaseException:
            made.close()
            raise
        return made

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, psycopg.Error) as error:
            raise _ledger_error(self.name, error) from None
        except UnicodeError:
            raise LedgerError(f"The ledger {self.name} can't hold such a text.") from None


class _Transaction:
    """The statements of `rows` over one connection."""

    def __init__(self, connection: sqlalchemy.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, binds: Mapping[str, Any] | None = None, /) -> _Rows:
        return _Rows(self._connection.execute(_text(statement), binds))

    def executemany(self, statement: str, binds: Sequence[Mapping[str, Any]], /) -> _Rows:
        return _Rows(self._connection.execute(_text(statement), binds))

    def script(self, statements: str) -> None:
        """Run statements without binds, one after another, in one message to the server."""
        self._connection.exec_driver_sql(statements, execution_options={"no_parameters": True})


class _Rows:
    def __init__(self, result: sqlalchemy.CursorResult[Any]) -> None:
        self._result = result

    @property
    def rowcount(self) -> int:
        return self._result.rowcount

    def fetchone(self) -> Any:
        row = self._result.fetchone()
        return None if row is None else _Row(self._result.keys(), row)

    def __iter__(self) -> Iterator[Any]:
        names = tuple(self._result.keys())
        return (_Row(names, row) for row in self._result)


class _Row:
    """The values of a row, in order and by name, as sqlite3.Row has them."""

    __slots__ = ("_values",)

    def __init__(self, names: Iterable[str], values: Iterable[Any]) -> None:
        self._values = dict(zip(names, values, strict=True))

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values.values())


@lru_cache(maxsize=64)
def _text(statement: str) -> sqlalchemy.TextClause:
    return sqlalchemy.text(statement)


def open_postgres(url: str) -> PostgresStore:
    """Return the store of the database at `url`, made first where there is none.

    url: postgresql://…, as libpq reads it; what it leaves out comes from PGPASSWORD, the passfile
    and libpq's other variables. Raises LedgerError, and changes nothing, where the database can't be
    reached, isn't durable, or its schema `dp_sql` is no ledger.
    """
    return store.tried(PostgresStore(url, make=True))


def find_postgres(url: str) -> PostgresStore | None:
    """Return the store of the database at `url`, or None where it has none. Else `open_postgres`."""
    try:
        return store.tried(PostgresStore(url, make=False))
    except _AbsentError:
        return None


class _AbsentError(LedgerError):
    """A database has no ledger, and none is to be made."""


def _link(url: str) -> dict[str, str]:
    """Return what libpq makes of a URL. Raises LedgerError, without the URL, where it can't read it."""
    rest = url.partition("://")[2]
    try:
        given = psycopg.conninfo.conninfo_to_dict(f"postgresql://{rest}")
    except (psycopg.Error, UnicodeError):
        raise LedgerError(
            "The URL of the ledger can't be read.",
            hint="postgresql://USER@HOST:PORT/DATABASE, with %40 for an @ in a name",
        ) from None
    return _LINK | {key: str(value) for key, value in given.items()}


def _ledger_error(name: str, error: Exception) -> LedgerError:
    """Return what an error of the driver means for the ledger `name`. The driver's text isn't shown."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlstate", None)
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    if code is None or code[:2] == "08" or lost:
        if not isinstance(cause, psycopg.OperationalError):
            return LedgerError(f"The ledger {name} can't hold such a value.")
        return LedgerError(
            f"The ledger {name} lost its connection to the server.",
            hint="ask again; `dpsql ledger show` lists what was charged all the same",
        )
    match code:
        case "55P03":
            message = (
                f"The ledger {name} was held by another process for {store.BUSY_SECONDS:g} seconds."
            )
            return LedgerError(message, hint="end the process that holds it, or ask again")
        case "42501":
            message = f"This database role may not do that with the ledger {name}."
            return LedgerError(
                message, hint="the owner's role; `dpsql ledger grant` lets a role ask as an analyst"
            )
        case postgres_layout.GUARDED:
            message = f"The ledger {name} keeps what it holds: that would have changed it."
            return LedgerError(message, hint="`dpsql ledger verify`")
        case postgres_layout.NOT_DURABLE:
            message = f"A power cut could take charges of the ledger {name} away."
            return LedgerError(
                message, hint="fsync = on and full_page_writes = on in its server's postgresql.conf"
            )
        case "25006":
            return LedgerError(f"The ledger {name} can't be written: its server only reads.")
        case "53100":
            message = f"The ledger {name} can't grow: the disk is full."
            return LedgerError(message, hint="make room, then ask again")
        case "23505":
            message = f"The ledger {name} holds a statement of this query id already."
            return LedgerError(message, hint="a new query id for each statement")
        case "42P01" | "42703" | "42883" | "3F000" | "XX001" | "XX002":
            return LedgerError(f"The ledger {name} is damaged.", hint="a backup of the ledger")
        case _:
            return LedgerError(f"The ledger {name} can't be read or written (SQLSTATE {code}).")
