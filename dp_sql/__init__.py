"""dp_sql: a differentially private SQL engine.

SQL text
  parser       -> a typed plan, or an error with a caret under the word
  planner      -> the same plan made answerable: aggregates as integer vectors, contributions bounded
  sensitivity  -> what one privacy unit can change, derived from the finished plan
  mechanisms   -> the noise for those facts and the epsilon asked for, and its privacy event
  budget       -> the event reserved in the ledger of every protected table, before any row is read
  executor     -> one SQL statement of ours, run by DuckDB: sealed exact integers
  mechanisms   -> the seal opened, noise added: released values
  postprocess  -> the rest of the analyst's SQL over released values, in a DuckDB without rows
  result       -> rows, intervals, cost
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dp_sql.errors import (
    BudgetExceededError,
    DPSQLError,
    EngineError,
    InternalError,
    LedgerError,
    NotPrivateError,
    ParameterError,
    QueryError,
    SchemaError,
    UnsupportedSQLError,
)
from dp_sql.version import VERSION

if TYPE_CHECKING:
    from dp_sql.connection import Connection, connect
    from dp_sql.result import Result

__version__ = VERSION

Error = DatabaseError = DPSQLError
"""What PEP 249 calls the errors above; one class may have several of its names."""
ProgrammingError = DataError = QueryError
NotSupportedError = UnsupportedSQLError
InterfaceError = ParameterError
OperationalError = EngineError
IntegrityError = LedgerError

apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"

__all__ = [
    "BudgetExceededError",
    "Connection",
    "DPSQLError",
    "DataError",
    "DatabaseError",
    "EngineError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "LedgerError",
    "NotPrivateError",
    "NotSupportedError",
    "OperationalError",
    "ParameterError",
    "ProgrammingError",
    "QueryError",
    "Result",
    "SchemaError",
    "UnsupportedSQLError",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

_LAZY = {"connect": "connection", "Connection": "connection", "Result": "result"}


def __getattr__(name: str) -> Any:
    """Import what costs time (DuckDB, sqlglot, numpy) when it is first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'dp_sql' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"dp_sql.{_LAZY[name]}"), name)
