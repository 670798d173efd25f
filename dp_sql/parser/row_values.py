"""Rows as values, and comparisons with several: (a, b) = (1, 2), x IN (VALUES (1), (2)), x > ANY ([1])."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from sqlglot import exp

from dp_sql.parser.scope import Statement
from dp_sql.plan import functions
from dp_sql.plan.conversion import unify
from dp_sql.plan.expression import Expression
from dp_sql.plan.signature import TypeProblem

SIGNS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=",
}  # fmt: skip
OPPOSITE = {"=": "<>", "<>": "=", ">": "<=", "<=": ">", "<": ">=", ">=": "<"}
_SAME = (exp.EQ, exp.NullSafeEQ)
_DIFFERENT = (exp.NEQ, exp.NullSafeNEQ)

Bind = Callable[[exp.Expr], Expression]


def row_of(node: exp.Expr) -> list[exp.Expr] | None:
    """Return the values of a row, None for what isn't written as one."""
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "row":
        return list(node.expressions)
    return None


def row_meaning(statement: Statement, node: exp.Expr, bind: Bind) -> Expression | None:
    """Return what a comparison of rows, or with several values, means; None for every other node.

    Two rows are the same where all their values are, NULL like NULL, and a NULL is larger than all
    else: DuckDB compares them as structs.
    In a list of VALUES, and for ANY and ALL, a comparison with NULL is NULL.
    """
    match node:
        case exp.EQ() | exp.NEQ() | exp.NullSafeEQ() | exp.NullSafeNEQ():
            quantified = _quantified(statement, node, bind)
            if quantified is not None:
                return quantified
            if row_of(node.this) is None and row_of(node.expression) is None:
                return None
            same = _same(statement, node, bind, node.this, node.expression)
            return functions.call("not", (same,)) if isinstance(node, _DIFFERENT) else same
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
            quantified = _quantified(statement, node, bind)
            if quantified is not None:
                return quantified
            if row_of(node.this) is None and row_of(node.expression) is None:
                return None
            flipped = isinstance(node, exp.GT | exp.LTE)
            sides = (node.this, node.expression)
            before = _before(statement, node, bind, *(sides[::-1] if flipped else sides))
            negated = isinstance(node, exp.GTE | exp.LTE)
            return functions.call("not", (before,)) if negated else before
        case exp.In() if node.expressions:
            return _listed(statement, node, bind)
        case _:
            return None


def _same(
    statement: Statement, node: exp.Expr, bind: Bind, left: exp.Expr, right: exp.Expr
) -> Expression:
    first, second = row_of(left), row_of(right)
    if first is None and second is None:
        return _call(statement, node, "is_not_distinct_from", bind(left), bind(right))
    if first is None or second is None or len(first) != len(second) or not first:
        raise statement.wrong("a row is compared with a row of as many values.", node)
    parts = [_same(statement, node, bind, a, b) for a, b in zip(first, second, strict=True)]
    return folded("and", parts)


def _before(
    statement: Statement, node: exp.Expr, bind: Bind, left: exp.Expr, right: exp.Expr
) -> Expression:
    """Return whether a row stands before another: by the first values that differ, NULL the last."""
    first, second = row_of(left), row_of(right)
    if first is None and second is None:
        value, other = bind(left), bind(right)
        known = _call(statement, node, "is_not_null", value)
        return functions.call("coalesce", (_call(statement, node, "<", value, other), known))
    if first is None or second is None or len(first) != len(second) or not first:
        raise statement.wrong("a row is compared with a row of as many values.", node)
    *others, (x, y) = zip(first, second, strict=True)
    result = _before(statement, node, bind, x, y)
    for a, b in reversed(others):
        later = functions.call("and", (_same(statement, node, bind, a, b), result))
        result = functions.call("or", (_before(statement, node, bind, a, b), later))
    return result


def _listed(statement: Statement, node: exp.In, bind: Bind) -> Expression | None:
    """Return what IN means for a list of rows or one of VALUES; None for a list of plain values."""
    if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Values):
        values = node.expressions[0]
        if any(v for k, v in values.args.items() if k != "expressions") or not values.expressions:
            raise statement.unsupported("this form of VALUES isn't answered.", node)
        lines = [row_of(line) or [] for line in values.expressions]
        operand = row_of(node.this) or [node.this]
        if any(len(line) != len(operand) for line in lines):
            raise statement.wrong("VALUES has as many columns as there are before IN.", node)
        bound = [bind(part) for part in operand]
        if len(bound) == 1:
            return _call(statement, node, "in", bound[0], *(bind(line[0]) for line in lines))
        rows = [
            folded("and", [_call(statement, node, "=", a, bind(b)) for a, b in pairs])
            for pairs in (zip(bound, line, strict=True) for line in lines)
        ]
        return folded("or", rows)
    if row_of(node.this) is None and all(row_of(e) is None for e in node.expressions):
        return None
    return folded("or", [_same(statement, node, bind, node.this, e) for e in node.expressions])


def _quantified(statement: Statement, node: exp.Binary, bind: Bind) -> Expression | None:
    """Return what x > ANY ([…]) means; None where what follows isn't a list of constants."""
    many = node.expression
    listed = many.this if isinstance(many, exp.Any) else None
    if isinstance(many, exp.Anonymous) and many.name.lower() == "all" and many.expressions:
        listed = many.expressions[0]  # the parser library reads it as a function
    listed = listed.unnest() if isinstance(listed, exp.Paren) else listed
    if not isinstance(listed, exp.Array) or not listed.expressions or type(node) not in SIGNS:
        return None
    left = bind(node.this)
    sign = SIGNS[type(node)]
    parts = [_call(statement, node, sign, left, bind(e)) for e in listed.expressions]
    return folded("or" if isinstance(many, exp.Any) else "and", parts)


def among(
    statement: Statement, node: exp.Expr, operand: Expression, values: Sequence[Expression]
) -> Expression:
    """Return what x IN (a, b) means where not all are constants: x = a OR x = b, of one type."""
    try:
        (operand, *values), _ = unify((operand, *values), what="IN")
    except TypeProblem as problem:
        raise statement.wrong(f"{problem}", node) from None
    return folded("or", [_call(statement, node, "=", operand, value) for value in values])


def folded(name: str, parts: Sequence[Expression]) -> Expression:
    """Return one or more conditions joined by AND or by OR."""
    return reduce(lambda a, b: functions.call(name, (a, b)), parts)


def _call(statement: Statement, node: exp.Expr, name: str, *args: Expression) -> Expression:
    try:
        return functions.call(name, args)
    except TypeProblem as problem:
        raise statement.wrong(f"{problem}", node) from None
