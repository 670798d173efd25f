"""`dpsql budget`: how each table's budget stands, and the one act that raises one."""

from __future__ import annotations

from dataclasses import replace

from dp_sql.budget import existing_ledger, open_ledger
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.left import fullness
from dp_sql.budget.raising import budget_words
from dp_sql.budget.record import people_identity
from dp_sql.cli.describe import budget_text
from dp_sql.cli.ledgers import Where, opened
from dp_sql.cli.values import visible
from dp_sql.errors import ParameterError
from dp_sql.executor.sources import locate
from dp_sql.places import ledger_place
from dp_sql.privacy.amount import show
from dp_sql.schema.catalog import BudgetSpec, Catalog, ascii_lower
from dp_sql.schema.loader import load


def budgets_text(where: Where, analyst: str | None, block: str | None = None) -> str:
    """Return what is registered, used and left of the budget of each protected table of a schema.

    analyst: whose last statement tells how many more fit; None is anybody's. block: a value of the
    column of tables with blocks, of which more is told. Registers nothing. Raises ParameterError
    where there is no such table.
    """
    catalog = load(where.file, database=where.database)
    budgets = [spec.budget for spec in catalog.tables.values()]
    if block is not None and not any(b is not None and b.blocks is not None for b in budgets):
        raise ParameterError(
            "no table of this schema has blocks.", hint="leave --block out, or budget: {blocks: …}"
        )
    place = ledger_place(catalog, where.ledger, where.database, where.data_dir)
    found = None if str(place) == ":memory:" else existing_ledger(place)
    lines: list[str] = []
    with found or open_ledger(":memory:") as ledger:
        known = {found.identity for found in ledger.registrations()}
        for name, spec in catalog.tables.items():
            if spec.budget is not None:
                identity = ledger.account_of(identity_of(where, catalog, name), spec.name)
                lines.append(spec.name)
                if identity in known:
                    lines += _standing(ledger, identity, spec.budget, analyst)
                    if spec.budget.blocks is not None:
                        lines += _blocks(ledger, identity, block)
                else:
                    lines.append(f"  not registered yet; declared: {budget_text(spec.budget)}")
        if catalog.people is not None:
            over_all = people_identity(catalog.unit.name)
            lines.append(f"each {catalog.unit.name}, over all tables")
            if over_all in known:
                lines += _standing(ledger, over_all, catalog.people, analyst)
            else:
                lines.append(f"  not registered yet; declared: {budget_text(catalog.people)}")
    return "".join(f"{line}\n" for line in lines)


def raise_budget(where: Where, table: str, by: str, reason: str) -> str:
    """Raise the budget of a table, or of the unit, to what the schema declares; return what happened.

    Raises ParameterError for a table that has no budget, LedgerError where it isn't registered or
    it is no raise of the owner.
    """
    catalog = load(where.file, database=where.database)
    name, identity, wanted = _declared(where, catalog, table)
    if not reason.isprintable():
        raise ParameterError("a reason is one line of text.", hint='--reason "a new consent"')
    with opened(where) as ledger:
        identity = ledger.account_of(identity, name)
        before = ledger.raise_budget(identity, wanted, by, reason)
        lines = ledger.state(identity).lines()
    return (
        f"{name}: raised from {budget_words(before.budget)}\n"
        f"  to {budget_words(wanted)}, for good: what is promised of the answers before, too\n"
        + "".join(f"  {line}\n" for line in lines[2:])
    )


def _declared(where: Where, catalog: Catalog, name: str) -> tuple[str, str, BudgetSpec]:
    """Return name, identity and declared budget of a table, or of the unit over all tables."""
    spec = catalog.table(name)
    if spec is not None and spec.budget is not None:
        return spec.name, identity_of(where, catalog, ascii_lower(spec.name)), spec.budget
    unit = catalog.unit.name
    if catalog.people is not None and name == unit:
        return unit, people_identity(unit), catalog.people
    names = [t.name for t in catalog.tables.values() if t.budget is not None]
    names += [unit] if catalog.people is not None else []
    raise ParameterError(
        f"there is no protected table {name!r}.", hint=f"one of {', '.join(names)}"
    )


def _standing(
    ledger: Ledger, identity: str, declared: BudgetSpec, analyst: str | None
) -> list[str]:
    """Return how a registered table stands, and its raises."""
    state = ledger.state(identity, analyst)
    lines = list(state.lines())
    for raised in ledger.raises():
        if raised.identity == identity:
            cap = "" if raised.cap is None else f", per analyst epsilon {show(raised.cap.epsilon)}"
            why = f": {raised.reason}" if raised.reason else ""
            lines.append(
                f"{raised.time[:10]} raised to epsilon {show(raised.epsilon)}, "
                f"delta {show(raised.delta)}{cap}{why}"
            )
    if state.registration.budget != declared:
        lines.append(f"the schema declares another: {budget_words(declared)}")
    return [f"  {visible(line)}" for line in lines]


def _blocks(ledger: Ledger, identity: str, block: str | None) -> list[str]:
    """Return how many blocks were debited by name, which is the fullest, and how one of them stands."""
    state = ledger.state(identity)
    known, named = state.registration, ledger.blocks(identity)
    column = str(known.spec.block_column)
    lines = [f"blocks of {column}: {len(named):,} debited by name"]
    if named:
        name, spent = max(named, key=lambda found: fullness(known.rule, found[1]))
        lines[0] += f"; the fullest, {name}: {float(100 * fullness(known.rule, spent)):.3g} % used"
    if block is not None:
        own = ledger.state(identity, blocks=frozenset({block}))
        lines.append(f"block {block}" + ("" if block in dict(named) else ", never debited by name"))
        lines += [f"  {line}" for line in own.used]
    return [f"  {visible(line)}" for line in lines]


def identity_of(where: Where, catalog: Catalog, name: str) -> str:
    """Return what a ledger knows a table by that has just met it. Its data must be there."""
    alone = replace(catalog, tables={name: catalog.tables[name]})
    found = locate(alone, where.data_dir, where.database)
    return found.identity(name, catalog.tables[name])
