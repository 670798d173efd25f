"""How large and how deep a statement's plan may grow: counted from its text, while it grows.

What an alias or a CTE stands for is planned once for each use, so a short text can mean a plan of any
size, and a long chain one of any depth. Both are refused before they take time or memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from sqlglot import exp

from dp_sql.errors import QueryError
from dp_sql.parser.text import position_of

MAX_PARTS = 10_000
"""Columns, constants and calls of a statement's expressions, those of an alias once for each use."""

MAX_COPIES = 100_000
"""Columns, constants, calls and relations of the CTEs over protected rows, once for each use of them."""

MAX_LEVELS = 100
"""Levels of a statement's tree, and of an expression with its aliases written out."""

_CHAINS = (exp.And, exp.Or)
_SHORT = 8  # terms of a chain that stays as it is


class Growth:
    """What one statement's plan has grown to so far, and how deep in an expression the parser is."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parts = 0
        self._copies = 0
        self._level = 0
        self._aliases: list[str] = []
        self._refusal: QueryError | None = None

    @property
    def parts(self) -> int:
        """The parts of expressions so far."""
        return self._parts

    @property
    def copies(self) -> int:
        """The parts of CTEs so far, once for each use."""
        return self._copies

    def enter(self, node: exp.Expr) -> None:
        """Count a part of an expression, and a level until `leave`. Raises QueryError beyond a limit."""
        self._level += 1
        self._parts += 1
        if self._level > MAX_LEVELS:
            self._refuse(too_deep(self._text, node))
        if self._parts > MAX_PARTS:
            alias = self._aliases[0] if self._aliases else None
            self._refuse(
                self._error(
                    f"the statement has more than {MAX_PARTS:,} parts"
                    + (f": the alias {alias!r} is written out at each use." if alias else "."),
                    node,
                    f"a subquery of FROM that computes {alias} as a column"
                    if alias
                    else "several statements",
                )
            )

    def leave(self) -> None:
        """Go back one level."""
        self._level -= 1

    @contextmanager
    def alias(self, name: str) -> Iterator[None]:
        """Count what follows as one use of an alias of the select list."""
        self._aliases.append(name)
        try:
            yield
        finally:
            self._aliases.pop()

    def use(self, name: str, relation: object, node: exp.Expr) -> None:
        """Count one use of a CTE over protected rows. Raises QueryError beyond the limit."""
        self._copies += size(relation)
        if self._copies > MAX_COPIES:
            self._refuse(
                self._error(
                    f"the CTE {name!r} is written out at each use, and makes the statement's plan larger "
                    f"than {MAX_COPIES:,} parts.",
                    node,
                    f"read {name} once, with fewer columns and CTEs below it, or aggregate in it",
                )
            )

    def check(self) -> None:
        """Raise the error of a limit again that was passed while something else was tried."""
        if self._refusal is not None:
            raise self._refusal

    def _refuse(self, error: QueryError) -> NoReturn:
        self._refusal = error
        raise error

    def _error(self, message: str, node: exp.Expr, hint: str) -> QueryError:
        place = position_of(self._text, node)
        return QueryError(message, hint=hint, text=self._text, position=place)


def size(value: object) -> int:
    """Return how many columns, constants, calls and relations a plan is made of."""
    found, left = 0, [value]
    while left:
        item = left.pop()
        if isinstance(item, tuple):
            left.extend(item)
        elif hasattr(item, "__dataclass_fields__"):
            found += 1
            if type(item).__name__ != "Column":
                left.extend(getattr(item, name) for name in item.__dataclass_fields__)
    return found


def balance(tree: exp.Expr) -> None:
    """Give long chains of AND and of OR the shape of a bush, in place: their order stays."""
    tops = [
        node
        for node in tree.find_all(*_CHAINS)
        if type(node.parent) is not type(node) and type(node.this) is type(node)
    ]
    for top in tops:
        terms = list(top.flatten(unnest=False))
        if len(terms) > _SHORT:
            top.set("this", _bush(type(top), terms[: len(terms) // 2]))
            top.set("expression", _bush(type(top), terms[len(terms) // 2 :]))


def _bush(kind: type[exp.Expr], terms: list[exp.Expr]) -> exp.Expr:
    while len(terms) > 1:
        pairs = [kind(this=a, expression=b) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(pairs) * 2 :]
    return terms[0]


def check_levels(text: str, tree: exp.Expr) -> None:
    """Raise QueryError where a statement's tree has more than MAX_LEVELS levels."""
    row = [tree]
    for _ in range(MAX_LEVELS):
        row = [child for node in row for child in node.iter_expressions()]
        if not row:
            return
    raise too_deep(text, row[0])


@contextmanager
def within_levels() -> Iterator[None]:
    """Make a QueryError of a RecursionError: of a caller deep in its own calls, whatever the statement.

    For what comes before a charge alone.
    """
    try:
        yield
    except RecursionError:
        raise too_deep(None, None) from None


def too_deep(text: str | None, node: exp.Expr | None) -> QueryError:
    """Return the error for a statement of too many levels."""
    return QueryError(
        f"the statement is nested too deeply: more than {MAX_LEVELS} levels.",
        hint="name the inner parts with WITH, as columns; chains of AND and OR may be long",
        text=text,
        position=None if text is None else position_of(text, node),
    )
