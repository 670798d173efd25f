"""The function table: every function and operator that private rows may pass through.

A row holds its typing, the interval of its values and its meaning. A function that isn't here is
refused; adding one is adding a row to one of the tuples below.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dp_sql.plan import (
    functions_arithmetic,
    functions_bits,
    functions_codes,
    functions_instant,
    functions_json,
    functions_list,
    functions_logic,
    functions_match,
    functions_moves,
    functions_numeric,
    functions_pieces,
    functions_real,
    functions_text,
    functions_time,
)
from dp_sql.plan.conversion import cast, chosen_type, step_of, unify
from dp_sql.plan.expression import Call, Case, Expression
from dp_sql.plan.functions_logic import condition
from dp_sql.plan.signature import Function, TypeProblem

__all__ = ["FUNCTIONS", "TypeProblem", "call", "case", "cast", "step_of"]

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        row.name: row
        for rows in (
            functions_arithmetic.ROWS,
            functions_bits.ROWS,
            functions_codes.ROWS,
            functions_instant.ROWS,
            functions_json.ROWS,
            functions_list.ROWS,
            functions_logic.ROWS,
            functions_match.ROWS,
            functions_moves.ROWS,
            functions_numeric.ROWS,
            functions_pieces.ROWS,
            functions_real.ROWS,
            functions_text.ROWS,
            functions_time.ROWS,
        )
        for row in rows
    }
)


def call(name: str, args: tuple[Expression, ...]) -> Call:
    """Return a typed call of a function of the table, its arguments converted.

    name: as in FUNCTIONS: DuckDB's name in lower case, or an operator.

    Raises:
        TypeProblem: for a name that isn't there, or arguments that it doesn't take.
    """
    row = FUNCTIONS.get(name)
    if row is None:
        raise TypeProblem(f"the function {name} isn't answered")
    typed, type_ = row.typing(args)
    return Call(name, typed, type_)


def case(branches: tuple[tuple[Expression, Expression], ...], otherwise: Expression) -> Case:
    """Return a typed CASE over one or more (condition, value), its values of their common type.

    Raises:
        TypeProblem: for a condition that isn't true or false, or values that don't go together.
    """
    conditions = condition("CASE", tuple(when for when, _ in branches))
    listed = (*(value for _, value in branches), otherwise)
    values, type_ = unify(listed, what="CASE", meet=chosen_type)
    return Case(tuple(zip(conditions, values[:-1], strict=True)), values[-1], type_)
