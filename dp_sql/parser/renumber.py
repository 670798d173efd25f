"""A CTE that is named twice is two relations: every use gets columns of its own."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from dp_sql.parser.scope import Named, PrivateRows, Statement
from dp_sql.plan.expression import Column


def renumbered(rows: PrivateRows, statement: Statement) -> PrivateRows:
    """Return the same rows with fresh numbers for all columns.

    Claim:   no column of one use can be taken for that of another.
    Why:     columns are known by their numbers alone, and every number below is replaced.
    Assumes: relations and expressions hold columns in dataclasses and tuples.
    """
    fresh: dict[int, Column] = {}

    def walk(value: Any) -> Any:
        if isinstance(value, Column):
            if value.number not in fresh:
                fresh[value.number] = statement.column(
                    value.name, value.type, nullable=value.nullable
                )
            return fresh[value.number]
        if isinstance(value, tuple):
            return tuple(walk(item) for item in value)
        if is_dataclass(value) and not isinstance(value, type):
            parts = {f.name: getattr(value, f.name) for f in fields(value)}
            changed = {n: new for n, old in parts.items() if (new := walk(old)) is not old}
            return replace(value, **changed) if changed else value
        return value

    relation = walk(rows.relation)
    named = tuple(Named(n.name, walk(n.column)) for n in rows.columns)
    return PrivateRows(
        relation, named, rows.protected, walk(rows.correlated), rows.personal, rows.mixed
    )
