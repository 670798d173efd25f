"""Lowers the public values that keys keep to: the conditions that a key is one of them."""

from __future__ import annotations

from collections.abc import Iterator

from dp_sql.executor.lower_expression import literal
from dp_sql.executor.lower_public import contiguous
from dp_sql.executor.lower_rows import name
from dp_sql.plan.expression import Column
from dp_sql.plan.relation import KeepKeys, Relation, SumPerUnit
from dp_sql.schema.sqltype import SqlType


def early(values: list[object]) -> bool:
    """Return whether it is cheap to test a public key on every row: a range, or two values."""
    known = [v for v in values if v is not None]
    return len(known) <= 2 or contiguous(known) is not None


def kept(relation: Relation, counted: str) -> str:
    """Return the WHERE that keeps public keys in their domain, over rows that are grouped by them.

    counted: an accumulator, never NULL. The condition reads it so that DuckDB can't move the test
    below the grouping, where a list of texts would be searched for every row.
    """
    while isinstance(relation, SumPerUnit):
        relation = relation.source
    conditions = [among(name(c), c.type, values) for c, values in public_values(relation)]
    if not conditions:
        return ""
    return f" WHERE CASE WHEN {counted} IS NOT NULL THEN {' AND '.join(conditions)} ELSE FALSE END"


def public_values(relation: Relation) -> Iterator[tuple[Column, list[object]]]:
    """Yield each column that KeepKeys keeps in its public values, with these, each once."""
    while isinstance(relation, KeepKeys):
        for index, column in enumerate(relation.columns):
            yield column, list(dict.fromkeys(row[index] for row in relation.values))
        relation = relation.source


def among(text: str, kind: SqlType, listed: list[object]) -> str:
    """Return the condition that a value is one of those listed, None standing for NULL."""
    missing = f"{text} IS NULL"
    values = [v for v in listed if v is not None]
    null = len(values) < len(listed)
    if not values:
        return f"({missing})" if null else "(FALSE)"
    run = contiguous(values)
    if run is not None:
        low, high = (literal(v, kind) for v in run)  # type: ignore[arg-type]
        inside = f"{text} BETWEEN {low} AND {high}"
    else:
        inside = f"{text} IN ({', '.join(literal(v, kind) for v in values)})"  # type: ignore[arg-type]
    return f"({inside} OR {missing})" if null else f"({inside})"
