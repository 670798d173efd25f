"""Lowers row expressions to DuckDB's SQL: total by construction, canonical, parenthesised."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from dp_sql.plan.expression import Call, Case, Cast, Column, Expression, Literal, Ref
from dp_sql.plan.functions import FUNCTIONS
from dp_sql.plan.sql_text import canonical, cast_text, identifier, literal, text_literal

__all__ = ["canonical", "identifier", "literal", "lower", "text_literal"]


def lower(expression: Expression, name: Callable[[Column], str]) -> str:
    """Return DuckDB's text of an expression over canonical columns; `name` gives a column's text.

    Claim:   the text raises for no row, reads this row alone, and its value is canonical: equal
             values have the same bits, so no row's neighbours can change what it gives.
    Why:     every function of the table is total and canonical over total and canonical arguments,
             casts give NULL where a value has none, and CASE guards what it guards.
    Assumes: the columns are canonical (`canonical`); `ieee_floating_point_ops` is on, as by
             default; each function of the table was tried on extreme values of every type.
    Source:  [DuckDB2025]
    """
    match expression:
        case Literal(value=value, type=type_):
            return literal(value, type_)
        case Ref(column=column):
            return name(column)
        case Call(function=function, args=args):
            return FUNCTIONS[function].text(tuple(lower(arg, name) for arg in args), expression)
        case Case(branches=branches, otherwise=otherwise):
            whens = " ".join(
                f"WHEN {lower(condition, name)} THEN {lower(value, name)}"
                for condition, value in branches
            )
            return f"(CASE {whens} ELSE {lower(otherwise, name)} END)"
        case Cast(operand=operand, type=type_):
            return cast_text(lower(operand, name), operand.type, type_)
        case _:
            assert_never(expression)
