"""Released tables, and the answers over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dp_sql.dataclass import dataclass
from dp_sql.plan.release import GROUP_NUMBER, Residual, ShownOrder
from dp_sql.schema.sqltype import BIGINT, DOUBLE, INTEGER_BITS, Kind, SqlType

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUMBERS = ((BIGINT, np.dtype(np.int64)), (DOUBLE, np.dtype(np.float64)))  # DuckDB gives them back
_SAME: dict[Kind, type] = {Kind.VARCHAR: str, Kind.BOOLEAN: bool, Kind.DATE: date}  # and these

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


def shown_rows(
    residual: Residual, tables: Mapping[str, Sequence[ReleasedColumn]], names: tuple[str, ...]
) -> Answer | None:
    """Return the answer where it is released columns that need no cast, as they are, else None."""
    if not residual.shown:
        return None
    (columns,) = tables.values()
    wanted = {GROUP_NUMBER, *(c for c, _ in residual.shown), *(o.column for o in residual.order)}
    known = {c.name: (str(c.type), _as_fetched(c)) for c in columns if c.name in wanted}
    values = {name: found for name, (_, found) in known.items() if found is not None}
    if len(values) < len(wanted):
        return None
    order = list(range(len(values[GROUP_NUMBER])))
    for place in reversed(residual.order):
        order = _sorted(order, values[place.column], place)
    types = tuple(known[column][0] for column, _ in residual.shown)
    shown = [[values[column][i] for i in order] for column, _ in residual.shown]
    groups = tuple(values[GROUP_NUMBER][i] for i in order)
    return Answer(names, types, list(zip(*shown, strict=True)), groups)


def _as_fetched(column: ReleasedColumn) -> list[Any] | None:
    """Return a column's values as DuckDB would give them back, None where it would change some."""
    values = column.values
    if isinstance(values, np.ndarray):
        return values.tolist() if (column.type, values.dtype) in _NUMBERS else None
    kind = int if column.type.kind in INTEGER_BITS else _SAME.get(column.type.kind)
    same = all(value is None or type(value) is kind for value in values)
    return list(values) if same else None


def _sorted(places: list[int], values: list[Any], order: ShownOrder) -> list[int]:
    """Return places in the order of their values; equals stay as they are. NaN is above all numbers."""
    nulls = [place for place in places if values[place] is None]
    rest = [place for place in places if values[place] is not None]

    def key(place: int) -> tuple[bool, Any]:
        value = values[place]
        return (True, 0) if value != value else (False, value)  # noqa: PLR0124  of NaN alone

    rest.sort(key=key, reverse=order.descending)
    return [*nulls, *rest] if order.nulls_first else [*rest, *nulls]
