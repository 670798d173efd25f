"""Released tables, and the answers over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dp_sql.dataclass import dataclass
from dp_sql.plan.release import GROUP_NUMBER, Residual
from dp_sql.schema.sqltype import BIGINT, DOUBLE, Kind, SqlType

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUMBERS = ((BIGINT, np.dtype(np.int64)), (DOUBLE, np.dtype(np.float64)))  # DuckDB gives them back

Columns: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]  # names, types


@dataclass(frozen=True, slots=True)
class ReleasedColumn:
    """One column of a released table: a key (`values` are Python values) or noisy numbers."""

    name: str
    type: SqlType
    values: Sequence[object] | NDArray[Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a residual. types: DuckDB's names. groups: by row, or empty where rows aren't groups."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    groups: tuple[int, ...]


def number_column(count: int) -> ReleasedColumn:
    """Return the column that numbers the groups of a released table."""
    return ReleasedColumn(GROUP_NUMBER, BIGINT, np.arange(count, dtype=np.int64))


def array_type(kind: SqlType) -> type[np.int64 | np.float64]:
    """Return the numpy type of an aggregate's column."""
    return np.int64 if kind.kind is Kind.BIGINT else np.float64


def shown_columns(
    residual: Residual, tables: Mapping[str, Sequence[tuple[str, SqlType]]]
) -> Columns:
    """Return names and types of an answer that is released columns as they are."""
    (columns,) = tables.values()
    kinds = {name: str(kind) for name, kind in columns}
    names = tuple(name for _, name in residual.shown)
    return names, tuple(kinds[column] for column, _ in residual.shown)


def shown_numbers(
    residual: Residual, tables: Mapping[str, Sequence[ReleasedColumn]], names: tuple[str, ...]
) -> Answer | None:
    """Return the answer where it is released numbers as they are, else None."""
    if not residual.shown or residual.order:
        return None
    (columns,) = tables.values()
    numbers = {
        c.name: (str(c.type), c.values.tolist())
        for c in columns
        if isinstance(c.values, np.ndarray) and (c.type, c.values.dtype) in _NUMBERS
    }
    if any(column not in numbers for column, _ in residual.shown):
        return None
    types, values = zip(*(numbers[column] for column, _ in residual.shown), strict=True)
    groups = tuple(numbers[GROUP_NUMBER][1])
    return Answer(names, types, list(zip(*values, strict=True)), groups)
