"""The layout of the store of answers in PostgreSQL: its tables, its functions, and who may do what.

`postgres_answers` says what is promised of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from dp_sql.budget.answers import MOST_ANSWERS, MOST_BYTES, MOST_BYTES_OF_ONE
from dp_sql.budget.postgres_layout import GUARDED, SCHEMA
from dp_sql.budget.store import Transaction

VERSION = 1
"""The layout below. Earlier ones are upgraded, a later one is left alone and not used."""

_VERSION_OF = "SELECT version FROM answers_layout"
_TEXT = 'TEXT COLLATE "C" NOT NULL'
_RIGHTS = f"SECURITY DEFINER SET search_path = {SCHEMA}, pg_temp"


def version(connection: Transaction) -> int:
    """Return the version of the layout that is there, 0 for none."""
    there = "SELECT to_regclass('answers_layout') IS NOT NULL AS there"
    if not connection.execute(there).fetchone()["there"]:
        return 0
    found = connection.execute(_VERSION_OF).fetchone()
    return 0 if found is None else int(found["version"])


def steps(since: int) -> Iterator[str]:
    """Yield the statements that give a store of version `since` this layout; 0 is none."""
    if since < 1:
        yield from _first()


def _first() -> Iterator[str]:
    yield "CREATE TABLE answers_layout (version BIGINT NOT NULL)"
    yield f"INSERT INTO answers_layout VALUES ({VERSION})"
    yield "CREATE SEQUENCE answer_uses"
    yield (
        f"CREATE TABLE answers (fingerprint {_TEXT} PRIMARY KEY CHECK (length(fingerprint) <= 64), "
        f"query_id {_TEXT}, identities {_TEXT} CHECK (length(identities) <= {2**16}), "
        f"body BYTEA NOT NULL CHECK (octet_length(body) <= {MOST_BYTES_OF_ONE}), "
        f"size BIGINT NOT NULL, used BIGINT NOT NULL, root {_TEXT} CHECK (length(root) <= 64), "
        f"noise {_TEXT} CHECK (length(noise) <= {2**20}), "
        f"digest {_TEXT} CHECK (length(digest) <= 64))"
    )
    yield "CREATE INDEX answers_by_root ON answers (root, used) WHERE root <> ''"
    yield "CREATE INDEX answers_by_use ON answers (used) INCLUDE (size, fingerprint)"
    yield (
        f"CREATE TABLE seen (fingerprint {_TEXT} REFERENCES answers ON DELETE CASCADE, "
        f"analyst {_TEXT}, PRIMARY KEY (fingerprint, analyst))"
    )
    yield f"CREATE TABLE versions (identity {_TEXT} PRIMARY KEY, version BIGINT NOT NULL, time {_TEXT})"
    yield (
        f"CREATE FUNCTION charged_to(query TEXT) RETURNS TABLE (identity TEXT) LANGUAGE sql STABLE {_RIGHTS} "
        "AS $$ SELECT e.identity FROM statements AS s JOIN entries AS e ON e.statement = s.id "
        "WHERE s.query_id = query AND e.epsilon <> '0' $$"
    )
    yield (
        f"CREATE FUNCTION use_answer(name TEXT) RETURNS void LANGUAGE sql {_RIGHTS} AS "
        "$$ UPDATE answers SET used = nextval('answer_uses') WHERE fingerprint = name $$"
    )
    yield (
        f"CREATE FUNCTION only_paid() RETURNS trigger LANGUAGE plpgsql {_RIGHTS} AS $$ BEGIN "
        "IF NEW.identities::jsonb = '[]' OR EXISTS (SELECT jsonb_array_elements_text(NEW.identities::jsonb) "
        "EXCEPT SELECT identity FROM charged_to(NEW.query_id)) "
        f"THEN RAISE EXCEPTION 'nobody paid for it' USING ERRCODE = '{GUARDED}'; END IF; "
        "NEW.size := octet_length(NEW.body); NEW.used := nextval('answer_uses'); RETURN NEW; END $$"
    )
    yield (
        f"CREATE FUNCTION make_room() RETURNS trigger LANGUAGE plpgsql {_RIGHTS} AS $$ "
        "DECLARE left_ BIGINT; bytes_ BIGINT; gone BIGINT; BEGIN "
        "SELECT count(*), COALESCE(sum(size), 0) INTO left_, bytes_ FROM answers; "
        f"WHILE left_ > {MOST_ANSWERS} OR bytes_ > {MOST_BYTES} LOOP "
        "DELETE FROM answers WHERE fingerprint = "
        "(SELECT fingerprint FROM answers ORDER BY used LIMIT 1) RETURNING size INTO STRICT gone; "
        "left_ := left_ - 1; bytes_ := bytes_ - gone; END LOOP; RETURN NULL; END $$"
    )
    yield (
        "CREATE TRIGGER only_paid BEFORE INSERT ON answers FOR EACH ROW EXECUTE FUNCTION only_paid()"
    )
    yield (
        "CREATE TRIGGER make_room AFTER INSERT ON answers FOR EACH STATEMENT EXECUTE FUNCTION make_room()"
    )
    for table in ("answers", "seen"):
        yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"


def grants(to: str, policy: str, analyst: str) -> list[str]:
    """Return the statements that let a role, quoted, find and keep answers as an analyst, a literal.

    It may select from all tables already.
    """
    own = "EXISTS (SELECT 1 FROM statements AS s WHERE s.query_id = answers.query_id)"
    rules = {"answers": ("TRUE", own), "seen": (f"analyst = {analyst}", f"analyst = {analyst}")}
    return [
        f"GRANT INSERT ON answers, seen TO {to}",
        *(f"DROP POLICY IF EXISTS {policy} ON {table}" for table in rules),
        *(
            f"CREATE POLICY {policy} ON {table} TO {to} USING ({shown}) WITH CHECK ({added})"
            for table, (shown, added) in rules.items()
        ),
    ]
