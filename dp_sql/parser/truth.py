"""BOOL_AND and BOOL_OR of a release: comparisons of two counts."""

from __future__ import annotations

from sqlglot import exp

from dp_sql.parser import aggregates

_EVERY = {"BOOL_AND": True, "LOGICAL_AND": True, "BOOL_OR": False, "LOGICAL_OR": False}


def counted(call: aggregates.Call) -> exp.Expr | None:
    """Return what a call of BOOL_AND or BOOL_OR is above the counts of its rows; None for all others.

    Of n rows where the condition isn't NULL it is true on s: all of them where n - s is nearer to 0
    than to 1, any where s isn't; and the answer is NULL where n is nearer to 0. COUNT and SUM of one
    condition are one release, of which one row changes one number by 1.
    """
    node = call.node.this if isinstance(call.node, exp.Filter) else call.node
    every = _EVERY.get(call.name)
    held = list(node.iter_expressions())
    if len(held) == 1 and isinstance(held[0], exp.Distinct):  # which values repeat is all the same
        held = held[0].expressions
    if every is None or len(held) != 1 or call.bounds:
        return None

    def over(function: type[exp.AggFunc], argument: exp.Expr) -> exp.Expr:
        found: exp.Expr = function(this=argument)
        found.update_positions(node)
        if call.condition is None:
            return found
        return exp.Filter(this=found, expression=exp.Where(this=call.condition.copy()))

    truth = exp.And(this=exp.Paren(this=held[0].copy()), expression=exp.true())
    rows, true = over(exp.Count, truth), over(exp.Sum, truth.copy())
    half = exp.Literal.number("0.5")
    answer = (exp.Paren(this=rows.copy() - true) < half) if every else (true > half.copy())
    return exp.Paren(this=exp.Case(ifs=[exp.If(this=rows > half.copy(), true=answer)]))
