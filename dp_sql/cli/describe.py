r"""What the schema file says about tables, for `\d` and `dpsql check`. Reads no data."""

from __future__ import annotations

from dp_sql.cli.grid import table
from dp_sql.cli.values import exact_text
from dp_sql.errors import QueryError
from dp_sql.explain import unprotected
from dp_sql.privacy.amount import show
from dp_sql.privacy.unit import Level
from dp_sql.schema.catalog import (
    BudgetSpec,
    Catalog,
    ColumnSpec,
    OwnerThrough,
    Renew,
    TableSpec,
    ascii_lower,
)

_MOST_VALUES = 8  # declared values that are shown before "…"


def tables_text(catalog: Catalog, width: int | None = None) -> str:
    """Return the declared tables as a table."""
    rows = [
        [
            t.name,
            "public" if t.public else "protected",
            owner_text(t, catalog),
            budget_text(t.budget),
        ]
        for t in catalog.tables.values()
    ]
    return table(["table", "kind", "owner", "budget"], rows, [False] * 4, width)


def table_text(catalog: Catalog, name: str, width: int | None = None) -> str:
    """Return the declared columns of a table and what holds for it.

    Raises QueryError for a table that isn't declared.
    """
    spec = catalog.table(name.strip().strip('"'))
    if spec is None:
        names = ", ".join(t.name for t in catalog.tables.values())
        raise QueryError(f"there is no table {name!r}.", hint=f"one of {names}")
    rows = [[c.name, str(c.type), domain_text(c), _notes(c, spec)] for c in spec.columns.values()]
    lines = table(["column", "type", "values", "notes"], rows, [False] * 4, width)
    return lines + "".join(f"{line}\n" for line in _facts(spec, catalog))


def owner_text(spec: TableSpec, catalog: Catalog) -> str:
    """Return whose a row of a table is."""
    if spec.public:
        return ""
    match spec.owner:
        case None:
            return "each row its own" if catalog.unit.level is Level.EVENT else ""
        case str():
            return spec.owner
        case OwnerThrough():
            return f"through {spec.owner.table}"


def is_owner(column: ColumnSpec, spec: TableSpec) -> bool:
    """Return whether a column holds the privacy key of its table."""
    return isinstance(spec.owner, str) and spec.owner.lower() == column.name.lower()


def budget_text(budget: BudgetSpec | None) -> str:
    """Return a declared budget in a line."""
    if budget is None:
        return ""
    each = "" if budget.block_column is None else f" for each {budget.block_column}"
    amounts = f"epsilon {show(budget.epsilon)}, delta {show(budget.delta)}"
    text = f"{amounts}{each} ({budget.accountant.value})"
    if budget.renew is not Renew.NEVER:
        text += f", {budget.renew}"
    if budget.cap is not None:
        text += f", epsilon {show(budget.cap.epsilon)} an analyst"
    return text


def domain_text(column: ColumnSpec) -> str:
    """Return which values a column may hold, as declared."""
    if column.values is not None:
        shown = ", ".join(exact_text(v) for v in column.values[:_MOST_VALUES])
        return shown + (", …" if len(column.values) > _MOST_VALUES else "")
    if column.low is not None or column.high is not None:
        return f"{exact_text(column.low)} to {exact_text(column.high)}"
    return ""


def _notes(column: ColumnSpec, spec: TableSpec) -> str:
    notes = [
        ("owner", is_owner(column, spec)),
        ("unique", column.unique),
        ("never NULL", not column.nullable),
    ]
    return ", ".join(text for text, holds in notes if holds)


def _facts(spec: TableSpec, catalog: Catalog) -> list[str]:
    if spec.public:
        return ["Public: read as it is, at no cost."]
    facts = []
    if catalog.unit.level is Level.USER:
        facts.append(f"Protects everything of one {catalog.unit.name}.")
    else:
        facts.append("Protects one row.")
    facts += unprotected(catalog, ascii_lower(spec.name))
    if spec.limits is not None:
        facts.append(
            f"A statement uses at most {spec.limits.max_groups} groups of one "
            f"{catalog.unit.name} and {spec.limits.max_rows_per_group} rows in each."
        )
    if spec.budget is not None:
        facts.append(f"Budget: {budget_text(spec.budget)}.")
    return facts
