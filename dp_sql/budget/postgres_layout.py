"""The layout of a ledger in PostgreSQL: the tables of `layout`, guards over them, and roles.

Claim:   a role that `grant` lets ask can add charges and note what became of its own statements. It
         can't take a charge back, lower a sum, raise a budget, register a table, begin a period
         early, or read what another analyst asked.
Why:     it has INSERT and SELECT, UPDATE of sums and of the status alone, and row security shows it
         the statements of its analyst, and their entries, alone. Triggers, which hold for every
         role, refuse to change or remove a row, to lower a sum, to answer a statement twice and to
         break the chain. The functions of the triggers and the view of the chain's end belong to
         the owner, so they see every row.
Assumes: what a role is asked to write is right: the process that reads the data decides what fits.
         Owner and superuser can drop the triggers; then `verify` finds what was changed.
Source:  [PostgreSQLRowSecurity]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dp_sql.budget import layout
from dp_sql.budget.record import OWNER, digest
from dp_sql.errors import LedgerError

SCHEMA = "dp_sql"
GUARDED = "DP001"
"""The SQLSTATE of what a guard refuses."""
NOT_DURABLE = "DP002"
"""The SQLSTATE of a transaction on a server that may lose what it commits."""

_CHAIN = ("entries", "raises")
_KEPT = ("schema_version", "tables", "terms", "scopes", "cap_raises", *_CHAIN)  # never change
_COUNTED = ("sums", "accounts")  # only grow
_CHANGED = ("statements", *_COUNTED)
_PERIODS = {  # as `periods` names them
    "daily": "YYYY-MM-DD",
    "weekly": 'IYYY-"W"IW',
    "monthly": "YYYY-MM",
    "yearly": "YYYY",
}
_AMOUNTS = ("pure", "rdp", "selection_delta", "epsilon", "delta")


def steps(since: int) -> Iterator[str]:
    """Yield what gives a ledger of version `since` this layout and its guards; 0 is an empty one."""
    if since:
        yield "DROP TRIGGER IF EXISTS keep ON schema_version"
    for statement in layout.steps(since):
        if "CREATE TRIGGER" not in statement:  # SQLite's, for which there are guards here
            yield _portable(statement)
    yield from _guards()


def _portable(statement: str) -> str:
    """Return a statement of the layout with types as wide and in the order that SQLite has."""
    wide = re.sub(r"\bINTEGER\b", "BIGINT", statement)
    return re.sub(r"\bTEXT\b", 'TEXT COLLATE "C"', wide)


def _function(name: str, body: str, rights: str = "SECURITY DEFINER") -> str:
    return (
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql {rights} "
        f"SET search_path = {SCHEMA}, pg_temp AS $guard$ BEGIN {body} END $guard$"
    )


def _refuse(unless: str) -> str:
    message = f"RAISE EXCEPTION 'a ledger keeps what it holds' USING ERRCODE = '{GUARDED}';"
    return f"IF ({unless}) IS NOT TRUE THEN {message} END IF;"


def _guards() -> Iterator[str]:
    """Yield the functions and triggers that refuse to change what a ledger holds."""
    more = " AND ".join(f"at_least(NEW.{amount}, OLD.{amount})" for amount in _AMOUNTS)
    yield (
        "CREATE OR REPLACE FUNCTION at_least(new_ text, old_ text) RETURNS boolean LANGUAGE sql IMMUTABLE "
        "AS $$ SELECT new_ = 'inf' OR (old_ <> 'inf' AND new_::numeric >= old_::numeric) $$"
    )
    yield _function("keep", _refuse("FALSE") + " RETURN NULL;")
    reserved = "NEW.status = 'reserved' AND NEW.id = (SELECT id FROM next_statement)"
    yield _function("only_reserved", _refuse(reserved) + " RETURN NEW;")
    same = "to_jsonb(NEW) - 'status' = to_jsonb(OLD) - 'status' AND OLD.status = 'reserved'"
    yield _function("only_status", _refuse(same) + " RETURN NEW;")
    counts = "".join(f" - '{column}'" for column in ("entries", *_AMOUNTS, "digest"))
    same = f"to_jsonb(NEW){counts} = to_jsonb(OLD){counts}"
    grown = f"{same} AND NEW.entries >= OLD.entries AND {more}"
    yield _function("only_more", _refuse(grown) + " RETURN NEW;")
    end = "SELECT id, hash FROM chain_end"
    follows = (
        f"(NEW.id = 1 AND NEW.previous = repeat('0', 64) AND NOT EXISTS ({end}))"
        f" OR (NEW.id - 1, NEW.previous) = ({end})"
    )
    yield _function("follow", _refuse(follows) + " RETURN NEW;")
    begun = " ".join(
        f"WHEN '{renew}' THEN to_char(now() AT TIME ZONE 'UTC' + interval '5 minutes', '{form}')"
        for renew, form in _PERIODS.items()
    )
    period = f"(SELECT CASE renew {begun} END FROM terms WHERE identity = NEW.identity)"
    early = f"NOT row_security_active('accounts') OR NEW.period = '' OR NEW.period <= {period}"
    yield _function("only_begun", _refuse(early) + " RETURN NEW;", "SECURITY INVOKER")
    for table in _KEPT:
        yield _trigger("keep", table, "UPDATE OR DELETE")
    for table in _CHANGED:
        yield _trigger("keep_rows", table, "DELETE", "keep")
    for table in (*_KEPT, *_CHANGED):
        yield _trigger("keep_all", table, "TRUNCATE", "keep", "STATEMENT")
    yield _trigger("only_reserved", "statements", "INSERT")
    yield _trigger("only_status", "statements", "UPDATE")
    for table in _COUNTED:
        yield _trigger("only_more", table, "UPDATE")
    for table in _CHAIN:
        yield _trigger("follow", table, "INSERT")
    yield _trigger("only_begun", "accounts", "INSERT")
    for table in _shown(""):
        yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"


def _trigger(
    name: str, table: str, when: str, function: str | None = None, each: str = "ROW"
) -> str:
    return (
        f"CREATE OR REPLACE TRIGGER {name} BEFORE {when} ON {table} "
        f"FOR EACH {each} EXECUTE FUNCTION {function or name}()"
    )


def names(role: str, analyst: str) -> tuple[str, str, str]:
    """Return a role as a quoted name, the name of its policies, and the analyst as a literal.

    Raises LedgerError for names that no role or analyst has.
    """
    if not role or "\0" in role + analyst or analyst.strip().lower() in ("", OWNER):
        raise LedgerError(
            f"The role {role!r} can't ask as {analyst!r}.",
            hint="the names of a role and an analyst",
        )
    to = '"' + role.replace('"', '""') + '"'
    return to, f"role_{digest(role)[:16]}", _literal(analyst)


def grant(role: str, analyst: str) -> list[str]:
    """Return the statements that let a database role ask as `analyst`, and no more.

    Raises LedgerError as `names` does.
    """
    to, policy, literal = names(role, analyst)
    shown = _shown(literal)
    return [
        f"REVOKE ALL ON ALL TABLES IN SCHEMA {SCHEMA} FROM {to}",
        f"GRANT USAGE ON SCHEMA {SCHEMA} TO {to}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO {to}",
        f"GRANT INSERT ON statements, entries, scopes, accounts TO {to}",
        f"GRANT UPDATE (status) ON statements TO {to}",
        *(
            f"GRANT UPDATE (entries, {', '.join(_AMOUNTS)}, digest) ON {table} TO {to}"
            for table in _COUNTED
        ),
        *(f"DROP POLICY IF EXISTS {policy} ON {table}" for table in shown),
        *(
            f"CREATE POLICY {policy} ON {table} TO {to} USING ({rows}) WITH CHECK ({rows})"
            for table, rows in shown.items()
        ),
    ]


def _shown(analyst: str) -> dict[str, str]:
    """Return, by table, which rows a role is shown that asks as `analyst`, a literal."""
    return {
        "statements": f"analyst = {analyst}",
        "entries": "EXISTS (SELECT 1 FROM statements AS s WHERE s.id = entries.statement)",
        "scopes": "EXISTS (SELECT 1 FROM entries AS e WHERE e.id = scopes.entry)",
        "accounts": f"analyst IN ('', {analyst})",
    }


def _literal(text: str) -> str:
    """Return a text as a literal of standard SQL."""
    return "'" + text.replace("'", "''") + "'"
