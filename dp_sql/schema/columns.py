"""One declared column: its type, bounds and public values, exactly and in that type."""

from __future__ import annotations

from dp_sql.schema import models
from dp_sql.schema.catalog import ColumnSpec, Scalar
from dp_sql.schema.document import Document, Problem, Where, describe, dotted, spot
from dp_sql.schema.scalars import Ordered, ordered, typed
from dp_sql.schema.sqltype import Kind, SqlType
from dp_sql.schema.typename import parse_type


def column_spec(
    document: Document, where: Where, name: str, column: models.Column, *, public: bool
) -> ColumnSpec:
    """Return the column declared at `where`; raise SchemaError where its keys clash.

    public: whether its table is.
    """
    with document.at((*where, "type")):
        type_ = parse_type(column.type)
    if column.max_length is not None and type_.kind is not Kind.VARCHAR:
        raise document.error(
            (*where, "max_length"),
            f"{dotted((*where, 'max_length'))} belongs to varchar columns; this is a {type_}.",
            hint="remove it",
            key=True,
        )
    if column.max_frequency is not None and not public:
        raise document.error(
            (*where, "max_frequency"),
            f"{dotted((*where, 'max_frequency'))} belongs to public tables: on a protected table "
            "nothing could verify it.",
            hint="remove it; `limits` bound how often a unit counts",
            key=True,
        )
    low, high = _bounds(document, where, column.bounds, type_)
    return ColumnSpec(
        name=name,
        type=type_,
        low=low,
        high=high,
        values=_values(document, where, column, type_, (low, high)),
        unique=column.unique,
        nullable=column.nullable,
        max_length=column.max_length,
        max_frequency=column.max_frequency,
    )


def _bounds(
    document: Document, where: Where, bounds: list[object] | None, type_: SqlType
) -> tuple[Ordered | None, Ordered | None]:
    """Return the inclusive bounds in the column's type, or two None."""
    if bounds is None:
        return None, None
    where = (*where, "bounds")
    ends = list[Ordered]()
    for index, end in enumerate(bounds):
        with document.at(where if end is None else (*where, index)):
            if end is None:
                raise Problem(
                    "bounds need both ends.", hint="[lowest, highest], generously if need be"
                )
            ends.append(ordered(end, type_))
    low, high = ends
    if low > high:  # type: ignore[operator]
        raise document.error(
            where,
            f"{dotted(where)}: the lowest value, {low}, is above the highest, {high}.",
            hint=f"[{high}, {low}]",
        )
    return low, high


def _values(
    document: Document,
    where: Where,
    column: models.Column,
    type_: SqlType,
    bounds: tuple[Ordered | None, Ordered | None],
) -> tuple[Scalar, ...] | None:
    """Return the public values in the column's type, in the order of the file, or None."""
    if column.values is None:
        return None
    where = (*where, "values")
    low, high = bounds
    seen: dict[Scalar, int] = {}
    for index, value in enumerate(column.values):
        with document.at((*where, index)):
            found = typed(value, type_)
            if found in seen:
                first = document.position((*where, seen[found]))
                raise Problem(
                    f"{describe(value)} stands here twice; it is first at {spot(first)}.",
                    hint="keep one of them",
                )
            if low is not None and not low <= found <= high:  # type: ignore[operator]
                raise Problem(
                    f"{describe(value)} is outside of the column's bounds.",
                    hint="widen the bounds, or remove the value",
                )
            if (
                column.max_length is not None
                and isinstance(found, str)
                and len(found) > column.max_length
            ):
                raise Problem(
                    f"{describe(value)} is longer than max_length {column.max_length}.",
                    hint="raise max_length, or remove the value",
                )
        seen[found] = index
    return tuple(seen)
