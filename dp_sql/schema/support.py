"""Keys that a schema may have and that dp_sql can't honour yet: refused by name, never ignored."""

from __future__ import annotations

from collections.abc import Iterator

from dp_sql.dataclass import dataclass
from dp_sql.schema import models
from dp_sql.schema.document import Document, Where, dotted


@dataclass(frozen=True, slots=True)
class _Unsupported:
    """A key (or one of its values) that the file uses, and what to write instead."""

    where: Where
    instead: str
    value: str | None = None  # where only this value of the key is unsupported


def refuse_unsupported(model: models.SchemaFile, document: Document) -> None:
    """Raise SchemaError at the first key or value whose meaning isn't supported yet."""
    for found in _unsupported(model):
        what = dotted(found.where) + ("" if found.value is None else f": {found.value}")
        raise document.error(
            found.where,
            f"{what} is not supported yet.",
            hint=found.instead,
            key=found.value is None,
        )


def _unsupported(model: models.SchemaFile) -> Iterator[_Unsupported]:
    """Yield what the file asks for and can't have, top down."""
    for name, table in model.tables.items():
        if table.budget is not None:
            yield from _in_budget(("tables", name, "budget"), table.budget)
        for column_name, column in table.columns.items():
            yield from _in_column(("tables", name, "columns", column_name), column)


def _in_budget(where: Where, budget: models.Budget) -> Iterator[_Unsupported]:
    if budget.accountant == "gdp":
        yield _Unsupported(
            (*where, "accountant"),
            "use renyi: by how much noise on integers raises the mu of a Gaussian is not proved",
            budget.accountant,
        )


def _in_column(where: Where, column: models.Column) -> Iterator[_Unsupported]:
    if column.constant_per_unit:
        yield _Unsupported((*where, "constant_per_unit"), "remove it", "true")
