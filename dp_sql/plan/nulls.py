"""Whether an expression is NULL, or a condition not true, on a row whose columns of one side are NULL."""

from __future__ import annotations

from collections.abc import Collection

from dp_sql.plan.conversion import is_null
from dp_sql.plan.expression import Call, Case, Cast, Expression, Literal, Ref

_STRICT = frozenset(
    "+ - * / // % = <> < <= > >= || negate abs sign floor ceil round trunc sqrt ln log log2 exp power "
    "like ilike lower upper trim ltrim rtrim length substring left right replace starts_with "
    "ends_with contains year month day quarter week dayofweek dayofyear hour minute second "
    "date_part date_trunc date_diff not clamp nullif".split()
)  # NULL where their first argument is; of an operator, where any is
_OPERATORS = frozenset("+ - * / // % = <> < <= > >= ||".split())


def null_on(expression: Expression, columns: Collection[int]) -> bool:
    """Return whether an expression is surely NULL where these columns (by number) are.

    False where that isn't known.
    """
    match expression:
        case Literal():
            return expression.value is None
        case Ref(column=column):
            return column.number in columns
        case Cast(operand=operand):
            return null_on(operand, columns)
        case Call(function=name, args=args) if name in _OPERATORS:
            return any(null_on(arg, columns) for arg in args)
        case Call(function=name, args=args) if name in _STRICT:
            return null_on(args[0], columns)
        case Call(function="coalesce" | "least" | "greatest" | "and" | "or", args=args):
            return all(null_on(arg, columns) for arg in args)
        case Call(function="if", args=(condition, _, otherwise)):
            return not_true_on(condition, columns) and null_on(otherwise, columns)
        case Call(function="between" | "in", args=args):
            return null_on(args[0], columns)
        case Case(branches=branches, otherwise=otherwise):
            return all(
                not_true_on(condition, columns) or is_null(value) for condition, value in branches
            ) and null_on(otherwise, columns)
        case _:
            return False


def not_true_on(condition: Expression, columns: Collection[int]) -> bool:
    """Return whether a condition is surely not true where these columns are NULL."""
    match condition:
        case Call(function="and", args=args):
            return any(not_true_on(arg, columns) for arg in args)
        case Call(function="or", args=args):
            return all(not_true_on(arg, columns) for arg in args)
        case Call(function="is_not_null", args=(arg,)):
            return null_on(arg, columns)
        case _:
            return null_on(condition, columns)
