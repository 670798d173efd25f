"""Typed expressions over the columns of private rows. A closed union: every pass matches all of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal

from dp_sql.dataclass import dataclass
from dp_sql.schema.sqltype import SqlType


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a relation. Its `number` is unique in a statement: identity never rests on names."""

    number: int
    name: str
    type: SqlType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class IntervalValue:
    """A constant interval, in DuckDB's three parts."""

    months: int = 0
    days: int = 0
    microseconds: int = 0


LiteralValue = None | bool | int | float | Decimal | str | date | datetime | time | IntervalValue


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant of the statement. `value` is None for NULL; floats are finite."""

    value: LiteralValue
    type: SqlType


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of a column in this row."""

    column: Column

    @property
    def type(self) -> SqlType:
        """The column's type."""
        return self.column.type


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator of the function table (`plan.functions.FUNCTIONS`), by its name there."""

    function: str
    args: tuple[Expression, ...]
    type: SqlType


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true, else `otherwise`."""

    branches: tuple[tuple[Expression, Expression], ...]  # (condition, value); at least one
    otherwise: Expression  # a NULL literal where the text has no ELSE
    type: SqlType


@dataclass(frozen=True, slots=True)
class Cast:
    """`operand` as another type; NULL where the value has none. Always lowered to TRY_CAST."""

    operand: Expression
    type: SqlType


Expression = Literal | Ref | Call | Case | Cast


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct sub-expressions, in the order of evaluation."""
    match expression:
        case Literal() | Ref():
            return ()
        case Call(args=args):
            return args
        case Case(branches=branches, otherwise=otherwise):
            return (*(part for branch in branches for part in branch), otherwise)
        case Cast(operand=operand):
            return (operand,)


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and everything below it, top down."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def columns_of(expression: Expression) -> tuple[Column, ...]:
    """Return the columns that the expression reads, each once, in order of first use."""
    return tuple(dict.fromkeys(e.column for e in walk(expression) if isinstance(e, Ref)))
