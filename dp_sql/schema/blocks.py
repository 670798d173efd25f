"""`budget.blocks`: the columns whose values may have a budget each."""

from __future__ import annotations

from collections.abc import Mapping

from dp_sql.privacy.blocks import MOST_SPANNED, spanned
from dp_sql.privacy.unit import Level, PrivacyUnit
from dp_sql.schema import models
from dp_sql.schema.catalog import AccountantKind, BudgetSpec, ColumnSpec, TableSpec, ascii_lower
from dp_sql.schema.document import Document, Where, dotted
from dp_sql.schema.ownership import find_column
from dp_sql.schema.sqltype import Kind, SqlType
from dp_sql.schema.typename import KEY_TYPES, can_own

_SUMS = (AccountantKind.PURE, AccountantKind.SEQUENTIAL, AccountantKind.ZCDP)


def can_be_block(type_: SqlType) -> bool:
    """Return whether equal values of the type are the same bits, and each has a name of its own."""
    return can_own(type_) or type_.kind is Kind.BOOLEAN


def block_text(
    document: Document, where: Where, name: str | None, columns: Mapping[str, ColumnSpec]
) -> str | None:
    """Return what `BudgetSpec.blocks` holds of a declared column; None where none is named.

    where: the budget's place. Raises SchemaError for a column that isn't declared, or of a type
    without exact names of its values.
    """
    if name is None:
        return None
    place = (*where, "blocks")
    folded = find_column(document, place, name, str(where[1]), columns)
    type_ = columns[folded].type
    if not can_be_block(type_):
        hint = "declare the column as a date" if type_.kind is Kind.TIMESTAMP else None
        raise document.error(
            place,
            f"{dotted(place)}: `{columns[folded].name}` is a {type_}; the values of a block are "
            f"{KEY_TYPES}, or true and false.",
            hint=hint or "a column of one of these types, such as the day",
        )
    return f"{folded} {type_}"


def check_blocks(
    document: Document,
    model: models.SchemaFile,
    tables: Mapping[str, TableSpec],
    unit: PrivacyUnit,
) -> None:
    """Raise SchemaError where blocks aren't proved to compose in parallel, or a claim means nothing.

    tables: by lower-cased name, with owners that are checked.
    """
    for name, declared in model.tables.items():
        table = tables[ascii_lower(name)]
        column = None if table.budget is None else table.budget.block_column
        for key, spec in declared.columns.items():
            if spec.immutable and ascii_lower(key) != column:
                place = ("tables", name, "columns", key, "immutable")
                raise document.error(
                    place,
                    f"{dotted(place)} is a claim about the column that `budget.blocks` names.",
                    hint="remove it",
                    key=True,
                )
        if table.budget is not None and column is not None:
            where = ("tables", name, "budget")
            if unit.level is Level.USER:
                _check_owner(document, (*where, "blocks"), table, declared, column)
            _check_rule(document, where, table.budget, spanned(unit, ascii_lower(name), column))


def _check_owner(
    document: Document, where: Where, table: TableSpec, declared: models.Table, column: str
) -> None:
    """Raise SchemaError unless all rows of a user are in one block, for ever.

    Claim:   no two rows of the table that one user ever has differ in the column.
    Why:     it is the owner's column; or the user has one row, as the owner's column is unique, and
             the value of that row is declared never to change.
    Assumes: the database enforces the uniqueness (`executor.sources.require_one_row`); of
             `immutable` nothing but the owner's word.
    Source:  [McSherry2009]
    """
    if column == table.owner:
        return
    spec = table.columns[column]
    if not isinstance(table.owner, str):
        raise document.error(
            where,
            f"{dotted(where)}: rows of {table.name} belong to whom another table says, so no column "
            "here is the owner's.",
            hint="remove it; the table that holds the owner's column may have blocks",
        )
    owner = table.columns[table.owner]
    immutable = any(
        ascii_lower(key) == column and value.immutable for key, value in declared.columns.items()
    )
    if not (owner.unique or (table.owner,) in table.unique) or not immutable:
        raise document.error(
            where,
            f"{dotted(where)}: at level user all rows of one user have to be in one block. "
            f"`{spec.name}` may differ between a user's rows, or change.",
            hint=f"blocks: {owner.name}; or, where a user has one row whose `{spec.name}` never "
            f"changes, `unique: true` at `{owner.name}` and `immutable: true` at `{spec.name}`; or "
            "level event",
        )


def _check_rule(document: Document, where: Where, budget: BudgetSpec, times: int) -> None:
    """Raise SchemaError where neighbours differ in several blocks and the rule is no single sum."""
    if times > MOST_SPANNED:
        raise document.error(
            (*where, "blocks"),
            f"{dotted((*where, 'blocks'))}: neighbours may differ in {times:,} blocks, and each "
            f"would be debited so often; {MOST_SPANNED} is the most.",
            hint="remove `blocks`, or a smaller privacy.group_size",
        )
    if times > 1 and budget.accountant not in _SUMS:
        raise document.error(
            (*where, "blocks"),
            f"{dotted(where)}: neighbours may differ in {times} blocks here, and what two blocks "
            f"spend under the accountant {budget.accountant} doesn't add up.",
            hint="accountant: zcdp, sequential or pure",
        )
