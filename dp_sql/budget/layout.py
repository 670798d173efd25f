"""The layout of a ledger: its tables, and how one of an earlier version gets those of this one.

Every version only adds to the one before, so an upgrade is a transaction that changes no row.
"""

from __future__ import annotations

from collections.abc import Iterator

from dp_sql.budget.store import Transaction
from dp_sql.errors import LedgerError

VERSION = 3
"""The layout below. Earlier ones are upgraded, later ones refused."""

_FIRST = (
    "CREATE TABLE schema_version (version INTEGER NOT NULL)",
    """
    CREATE TABLE tables (
        identity TEXT NOT NULL PRIMARY KEY,
        name TEXT NOT NULL,
        level TEXT NOT NULL,
        adjacency TEXT NOT NULL,
        group_size INTEGER NOT NULL,
        unit TEXT NOT NULL,
        accountant TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        selection_delta TEXT NOT NULL,
        alpha TEXT,
        registered_at TEXT NOT NULL,
        digest TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE statements (
        id INTEGER NOT NULL PRIMARY KEY,
        query_id TEXT NOT NULL UNIQUE,
        time TEXT NOT NULL,
        analyst TEXT NOT NULL,
        status TEXT CHECK (status IN ('reserved', 'answered', 'failed')),
        sql_hash TEXT NOT NULL,
        sql TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE entries (
        id INTEGER NOT NULL PRIMARY KEY,
        statement INTEGER NOT NULL REFERENCES statements (id),
        identity TEXT NOT NULL REFERENCES tables (identity),
        pure TEXT NOT NULL,
        rdp TEXT NOT NULL,
        selection_delta TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        events TEXT NOT NULL,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL
    )
    """,
    "CREATE INDEX entries_of_table ON entries (identity, id)",
    """
    CREATE TABLE sums (
        identity TEXT NOT NULL PRIMARY KEY REFERENCES tables (identity),
        entries INTEGER NOT NULL,
        pure TEXT NOT NULL,
        rdp TEXT NOT NULL,
        selection_delta TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        digest TEXT NOT NULL
    )
    """,
)

# An earlier dp_sql that had the ledger open before the upgrade knows entries alone, and would give
# the number of a raise to an entry: the trigger refuses it.
_SECOND = (
    """
    CREATE TABLE raises (
        id INTEGER NOT NULL PRIMARY KEY,
        identity TEXT NOT NULL REFERENCES tables (identity),
        time TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        selection_delta TEXT NOT NULL,
        reason TEXT NOT NULL,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL
    )
    """,
    "CREATE INDEX raises_of_table ON raises (identity, id)",
    "CREATE INDEX entries_of_statement ON entries (statement)",
    "CREATE INDEX statements_of_analyst ON statements (analyst, id)",
    """
    CREATE TRIGGER entries_follow_raises BEFORE INSERT ON entries
    WHEN NEW.id <= (SELECT COALESCE(MAX(id), 0) FROM raises)
    BEGIN SELECT RAISE(ABORT, 'an entry follows the last raise'); END
    """,
)

# A table has terms where its budget is more than one sum for all time and everybody. Its digest
# covers them, so an earlier dp_sql, which doesn't know of them, can't charge such a table.
# `part` is 'every' (charges to every block), 'block', or 'peak' (the most that any block has).
# The views are what every role may see of a ledger in PostgreSQL, of all entries and statements.
_THIRD = (
    """
    CREATE TABLE terms (
        identity TEXT NOT NULL PRIMARY KEY REFERENCES tables (identity),
        renew TEXT NOT NULL,
        blocks TEXT,
        cap_epsilon TEXT,
        cap_delta TEXT,
        cap_selection_delta TEXT,
        cap_alpha TEXT,
        people TEXT
    )
    """,
    """
    CREATE TABLE scopes (
        entry INTEGER NOT NULL PRIMARY KEY REFERENCES entries (id),
        period TEXT NOT NULL,
        blocks TEXT,
        cap TEXT
    )
    """,
    """
    CREATE TABLE cap_raises (
        raise INTEGER NOT NULL PRIMARY KEY REFERENCES raises (id),
        cap_epsilon TEXT NOT NULL,
        cap_delta TEXT NOT NULL,
        cap_selection_delta TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE accounts (
        identity TEXT NOT NULL REFERENCES tables (identity),
        analyst TEXT NOT NULL,
        period TEXT NOT NULL,
        part TEXT NOT NULL CHECK (part IN ('every', 'peak', 'block')),
        block TEXT NOT NULL,
        entries INTEGER NOT NULL,
        pure TEXT NOT NULL,
        rdp TEXT NOT NULL,
        selection_delta TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        digest TEXT NOT NULL,
        PRIMARY KEY (identity, analyst, period, part, block)
    )
    """,
    """
    CREATE VIEW chain_end AS
    SELECT * FROM (SELECT id, hash FROM entries ORDER BY id DESC LIMIT 1) AS last_entry
    UNION ALL
    SELECT * FROM (SELECT id, hash FROM raises ORDER BY id DESC LIMIT 1) AS last_raise
    ORDER BY id DESC LIMIT 1
    """,
    "CREATE VIEW next_statement AS SELECT COALESCE(MAX(id), 0) + 1 AS id FROM statements",
)

_VERSIONS = (_FIRST, _SECOND, _THIRD)
"""What each version adds to the one before."""


def steps(since: int) -> Iterator[str]:
    """Yield the statements that give a ledger of version `since` this layout; 0 is an empty one."""
    for version in _VERSIONS[since:]:
        yield from version
    if since == 0:
        yield f"INSERT INTO schema_version VALUES ({VERSION})"
    else:
        yield f"UPDATE schema_version SET version = {VERSION}"


def version(connection: Transaction) -> int:
    """Return the version of the layout, or raise LedgerError where this module doesn't know it."""
    found = [row["version"] for row in connection.execute("SELECT version FROM schema_version")]
    if len(found) == 1 and found[0] in range(1, VERSION + 1):
        return int(found[0])
    shown = found[0] if len(found) == 1 else "none"
    raise LedgerError(
        f"The ledger has layout {shown}; this version of dp_sql writes layout {VERSION}.",
        hint="the version of dp_sql that wrote the ledger, or a later one",
    )
