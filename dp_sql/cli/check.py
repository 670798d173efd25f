"""`dpsql check`: the schema file, the data it names and the ledger, without asking anything."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from dp_sql.budget import existing_ledger, place_text
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.record import people_identity
from dp_sql.cli.describe import budget_text, is_owner, owner_text
from dp_sql.cli.failures import message_of
from dp_sql.dataclass import dataclass
from dp_sql.errors import DPSQLError, SchemaError
from dp_sql.executor.confine import missing
from dp_sql.executor.duckdb_engine import DuckDBEngine
from dp_sql.executor.sources import locate
from dp_sql.owners import registered_owner
from dp_sql.payment import check_public
from dp_sql.places import ledger_place
from dp_sql.privacy.unit import PrivacyUnit
from dp_sql.schema.catalog import BudgetSpec, Catalog, TableSpec
from dp_sql.schema.loader import load
from dp_sql.schema.undecided import Undecided, undecided

ONLY_THE_OWNER = "the data, for the owner alone: exact counts, which no analyst may see"


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found, line by line, and how many errors are among it."""

    lines: tuple[str, ...]
    errors: int


@dataclass(frozen=True, slots=True)
class _Finding:
    """One thing found: good to know, or an error that keeps the tables shut."""

    text: str
    error: bool = False


def check_schema(
    schema: Path,
    *,
    database: str | None = None,
    data_dir: Path | None = None,
    ledger: str | os.PathLike[str] | None = None,
    data: bool = False,
) -> Report:
    """Return what holds of a schema file, its data and its ledger. Registers and charges nothing.

    The options are those of `connect`. data: count in the rows what breaks the declarations; the
    report is then for the owner alone. Raises SchemaError where the file itself is wrong: then
    nothing else can be said.
    """
    marked = _marked(schema)
    try:
        catalog = load(schema, database=database)
    except SchemaError as error:
        if not marked:
            raise
        return _unfinished(schema, marked, error)
    place = ledger_place(catalog, ledger, database, data_dir)
    lines = [f"{schema}: {_count(len(catalog.tables), 'table')}", *_decisions(marked)]
    errors = len(marked)
    with ExitStack() as stack:
        found, opened = _ledger(place, stack)
        findings = [("ledger", [found]), ("workers", list(_walls(catalog)))]
        if catalog.people is not None:
            about = [] if opened is None else [_people(opened, catalog.unit, catalog.people)]
            head = (
                f"each {catalog.unit.name}, over all tables, budget: {budget_text(catalog.people)}"
            )
            findings.append((head, about))
        for name, spec in catalog.tables.items():
            about = [*_table(catalog, name, opened, database, data_dir), *_missing(spec)]
            findings.append((f"{spec.name}, {_summary(spec, catalog)}", about))
    if data:
        findings.append((ONLY_THE_OWNER, list(_faults(catalog, database, data_dir))))
    for head, about in findings:
        lines.append(head)
        lines += [f"  {line}" for finding in about for line in finding.text.splitlines()]
        errors += sum(finding.error for finding in about)
    lines.append("Nothing is wrong." if not errors else f"{_count(errors, 'error')}.")
    return Report(tuple(lines), errors)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _marked(schema: Path) -> tuple[Undecided, ...]:
    """Return what the file leaves to a person; nothing where it can't be read, as `load` will say."""
    try:
        return undecided(schema.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ()


def _decisions(marked: tuple[Undecided, ...]) -> list[str]:
    if not marked:
        return []
    return ["yours to decide", *(f"  line {found.line}: {found.text}" for found in marked)]


def _unfinished(schema: Path, marked: tuple[Undecided, ...], error: SchemaError) -> Report:
    """Return the report on a file that can't be loaded, at least for what is undecided in it."""
    lines, errors = [f"{schema}: not finished", *_decisions(marked)], len(marked)
    lines_marked = {found.line for found in marked}
    if error.position is None or error.position.line not in lines_marked | {
        m - 1 for m in lines_marked
    }:
        lines += message_of(error).splitlines()
        errors += 1
    lines.append(f"{_count(errors, 'error')}. The data and the ledger were not looked at.")
    return Report(tuple(lines), errors)


def _faults(catalog: Catalog, database: str | None, data_dir: Path | None) -> Iterator[_Finding]:
    """Yield what the rows break; not one count is noisy."""
    try:
        engine = DuckDBEngine(catalog, locate(catalog, data_dir, database))
    except DPSQLError as error:
        yield _Finding(message_of(error), error=True)
        return
    try:
        found = [(s.name, *fault) for n, s in catalog.tables.items() for fault in engine.faults(n)]
        for table, words, number in found:
            yield _Finding(f"{table}: {words}: {number:,}")
        if not found:
            yield _Finding("the data keep everything that is declared")
    except DPSQLError as error:
        yield _Finding(message_of(error), error=True)
    finally:
        engine.close()


def _walls(catalog: Catalog) -> Iterator[_Finding]:
    """Yield what keeps statements to themselves on this machine, and what doesn't."""
    if catalog.worker.in_process:
        yield _Finding("none: the process that connects reads the data, without limits and walls")
        return
    lacking = missing()
    for wall, takes in lacking.items():
        yield _Finding(f"not confined on this system: {wall}, which takes {takes}")
    if not lacking:
        yield _Finding("confined: files, network, memory, processor time and core dumps")


def _summary(spec: TableSpec, catalog: Catalog) -> str:
    columns = _count(len(spec.columns), "column")
    if spec.public:
        return f"public, {columns}"
    owner = owner_text(spec, catalog)
    return f"protected, {columns}, owner: {owner}, budget: {budget_text(spec.budget)}"


def _ledger(place: str | Path, stack: ExitStack) -> tuple[_Finding, Ledger | None]:
    """Return how the ledger is, and the ledger itself where there is one."""
    if str(place) == ":memory:":
        return _Finding("in memory: every process begins with a full budget"), None
    shown = place_text(place)
    try:
        ledger = existing_ledger(place)
        if ledger is None:
            return _Finding(f"{shown} isn't there yet; the first connection makes it"), None
        stack.enter_context(ledger)
        registered = [known for known in ledger.registrations() if not known.is_of_people]
    except DPSQLError as error:
        return _Finding(message_of(error), error=True), None
    return _Finding(f"{shown} knows {_count(len(registered), 'table')}"), ledger


def _table(
    catalog: Catalog,
    name: str,
    ledger: Ledger | None,
    database: str | None,
    data_dir: Path | None,
) -> Iterator[_Finding]:
    """Yield whether the data of a table and its columns are there, and what its ledger says.

    Faults of the catalog's other tables are told with them.
    """
    spec = catalog.tables[name]
    alone = replace(catalog, tables={name: spec})
    try:
        with closing(DuckDBEngine(alone, locate(alone, data_dir, database))) as engine:
            if ledger is not None:
                check_public(ledger, alone, engine)
    except DPSQLError as error:
        yield _Finding(message_of(error), error=True)
        return
    yield _Finding("its data are there, with every declared column")
    if spec.budget is not None and ledger is not None:

        def account(table: str) -> str:
            its = catalog.tables[table]
            found = locate(replace(catalog, tables={table: its}), data_dir, database)
            return ledger.account_of(found.identity(table, its), its.name)

        yield _registration(ledger, account, catalog, name, spec.budget)


def _registration(
    ledger: Ledger,
    account: Callable[[str], str],
    catalog: Catalog,
    name: str,
    budget: BudgetSpec,
) -> _Finding:
    """Return whether the ledger knows a protected table with this very budget."""
    try:
        spec, identity = catalog.tables[name], account(name)
        if all(known.identity != identity for known in ledger.registrations()):
            return _Finding("not registered yet; the first connection does it")
        people = None if catalog.people is None else catalog.unit.name
        unit = replace(catalog.unit, owner=registered_owner(spec, catalog, account))
        ledger.register(identity, spec.name, unit, budget, people)  # known: this only compares
        left = ledger.state(identity).lines()
    except DPSQLError as error:
        return _Finding(message_of(error), error=True)
    return _Finding("registered; " + "; ".join(left))


def _people(ledger: Ledger, unit: PrivacyUnit, budget: BudgetSpec) -> _Finding:
    """Return whether the ledger knows the budget over all tables as it is declared."""
    identity = people_identity(unit.name)
    try:
        if all(known.identity != identity for known in ledger.registrations()):
            return _Finding("not registered yet; the first connection does it")
        ledger.register_people(unit.name, unit, budget)  # known: this only compares
        left = ledger.state(identity).lines()
    except DPSQLError as error:
        return _Finding(message_of(error), error=True)
    return _Finding("registered; " + "; ".join(left))


def _missing(spec: TableSpec) -> Iterator[_Finding]:
    """Yield what the owner may want to declare."""
    unbounded = [
        column.name
        for column in spec.columns.values()
        if column.type.is_numeric
        and column.low is None
        and column.values is None
        and not column.unique
        and not is_owner(column, spec)
    ]
    if unbounded and not spec.public:
        yield _Finding(f"without bounds, so never summed or averaged: {', '.join(unbounded)}")
