"""Every exception that dp_sql raises, one stable code each.

    DPSQLError
    ├── SchemaError            the YAML file of the data owner is wrong
    ├── QueryError             the statement is wrong; nothing was run, nothing was charged
    │   ├── UnsupportedSQLError    a construct that dp_sql doesn't answer
    │   ├── NotPrivateError        an answer would show somebody's row
    │   └── ParameterError         epsilon, delta or another option is out of range
    ├── BudgetExceededError    the table's budget has no room for this statement; nothing was charged
    ├── LedgerError            the ledger can't be opened, read or written
    ├── EngineError            the database can't be opened or the statement failed while it ran
    └── InternalError          a bug in dp_sql

No message, code or attribute depends on protected values.
"""

from __future__ import annotations

import re
from fractions import Fraction

from dp_sql.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text: line and column count from 1, `length` characters are meant."""

    line: int
    column: int
    length: int = 1


def caret(text: str, position: Position) -> str:
    """Return the line of `text` that `position` names with carets under the characters meant."""
    lines = text.splitlines() or [""]
    line = _without_secrets(lines[min(position.line, len(lines)) - 1])
    start = max(0, min(position.column - 1, len(line)))
    if len(line) > 160:
        cut = max(0, start - 60)
        line, start = line[cut : cut + 160], start - cut
    return f"  {line}\n  {' ' * start}{'^' * max(1, min(position.length, len(line) - start))}"


def _without_secrets(line: str) -> str:
    """Return a line with stars for what a URL of PostgreSQL says: it may hold a password."""
    return re.sub(r"(?<=://)\S+", lambda m: "*" * len(m[0]), line) if "postgres" in line else line


class DPSQLError(Exception):
    """The base of every error that dp_sql raises.

    Attributes:
        code: stable name of the kind of error, as the README lists it.
        hint: what to write or do instead, or None.
        example: a statement that is answered, or None.
        position: where in the statement or file, or None.
    """

    code = "error"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        text: str | None = None,
        position: Position | None = None,
        example: str | None = None,
    ) -> None:
        self.message = message
        self.hint = hint
        self.position = position
        self.example: str | None = None
        parts = [message]
        if text is not None and position is not None:
            parts.append(caret(text, position))
        if hint is not None:
            parts.append(f"Instead: {hint}")
        super().__init__("\n".join(parts))
        if example is not None:
            self.show(example)

    def show(self, example: str) -> None:
        """Add a statement that is answered, where the error shows none yet."""
        if self.example is None:
            self.example = example
            self.args = (f"{self.args[0]}\nFor example: {example}",)


class SchemaError(DPSQLError):
    """The schema file is missing, malformed or contradicts itself.

    Attributes:
        others: further problems of the same file, each a sentence with its line and column.
    """

    code = "schema"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        text: str | None = None,
        position: Position | None = None,
        others: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, hint=hint, text=text, position=position)
        self.others = others
        if others:
            self.args = ("\n".join((*self.args, "Also:", *(f"  {other}" for other in others))),)


class QueryError(DPSQLError):
    """The statement can't be answered as it stands. It cost nothing and ran nothing.

    Attributes:
        tries: statements near it, the likeliest first; the first that is answered is its example.
    """

    code = "query"
    tries: tuple[str, ...] = ()


class UnsupportedSQLError(QueryError):
    """The statement uses a construct that dp_sql doesn't answer."""

    code = "unsupported_sql"


class NotPrivateError(QueryError):
    """No noise could make this answer private: it would return rows, or can't be bounded."""

    code = "not_private"


class ParameterError(QueryError):
    """An option of the call (epsilon, delta, …) is out of its range."""

    code = "parameter"


class BudgetExceededError(DPSQLError):
    """The budget has no room for the statement. Nothing was charged.

    Attributes:
        fitting: an epsilon at which it would fit, as a fraction, or None where none is known.
        by_epsilon: whether it is epsilon that there is too little of, and not delta.
    """

    code = "budget_exceeded"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        fitting: Fraction | None = None,
        by_epsilon: bool = True,
    ) -> None:
        super().__init__(message, hint=hint)
        self.fitting = fitting
        self.by_epsilon = by_epsilon


class LedgerError(DPSQLError):
    """The ledger can't be opened, read or written, or doesn't belong to this data."""

    code = "ledger"


class EngineError(DPSQLError):
    """The database can't be opened, or the statement failed while it ran."""

    code = "engine"


class InternalError(DPSQLError):
    """A broken promise inside dp_sql: please report it."""

    code = "internal"
