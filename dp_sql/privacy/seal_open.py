"""The one function that opens a sealed value. Only mechanisms.release imports this module."""

from __future__ import annotations

from typing import TypeVar, cast

from dp_sql.privacy.sealed import Sealed

T = TypeVar("T")


def open_sealed(sealed: Sealed[T]) -> T:
    """Return the exact value inside `sealed`, for the mechanism that adds noise to it."""
    return cast("T", object.__getattribute__(sealed, "_Sealed__value"))
