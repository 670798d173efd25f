"""What planning may ask of public data: values of public keys, and whether a public key is unique."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dp_sql.plan.expression import Column, Expression
from dp_sql.plan.relation import Scan


@dataclass(frozen=True, slots=True)
class ValueList:
    """A column that takes one of `values` (Python values, None for NULL)."""

    column: Column
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class PublicRows:
    """A public table's rows; `padded`: or a row of NULLs, where an outer join may add one."""

    scan: Scan
    padded: bool


@dataclass(frozen=True, slots=True)
class Image:
    """The distinct values of `expressions` over every combination of rows of `sources`."""

    sources: tuple[ValueList | PublicRows, ...]
    expressions: tuple[Expression, ...]


class PublicFacts(Protocol):
    """Free questions about public data; the executor answers them."""

    def image(self, image: Image, limit: int) -> tuple[tuple[object, ...], ...] | None:
        """Return the tuples of an image, or None where there are more than `limit`."""

    def is_unique(self, table: str, columns: tuple[str, ...]) -> bool:
        """Return whether no two rows of a public table agree in `columns` (NULLs apart)."""
