"""What planning may ask of public data: values of public keys, and how often one occurs."""

from __future__ import annotations

from typing import Protocol

from dp_sql.dataclass import dataclass
from dp_sql.plan.expression import Column, Expression
from dp_sql.plan.rows import Scan, StageScan


@dataclass(frozen=True, slots=True)
class ValueList:
    """A column that takes one of `values` (Python values, None for NULL)."""

    column: Column
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class PublicRows:
    """The rows of a public table, or of a stage of public data alone.

    padded: or a row of NULLs, where an outer join may add one.
    """

    scan: Scan | StageScan
    padded: bool


@dataclass(frozen=True, slots=True)
class Image:
    """The distinct values of `expressions` over the combinations of rows of `sources`.

    conditions: which combinations count; all of them have to be true.
    """

    sources: tuple[ValueList | PublicRows, ...]
    expressions: tuple[Expression, ...]
    conditions: tuple[Expression, ...] = ()


class PublicFacts(Protocol):
    """Free questions about public data; the executor answers them."""

    def image(self, image: Image, limit: int) -> tuple[tuple[object, ...], ...] | None:
        """Return the tuples of an image, or None where there are more than `limit`."""

    def frequency(self, table: str, columns: tuple[str, ...]) -> int | None:
        """Return how many rows of a public table may agree in `columns` (NULLs apart).

        1 where they are unique, the declared `max_frequency` where the table keeps to it, else None.
        """
