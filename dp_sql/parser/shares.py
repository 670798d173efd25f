"""Shares and means of one person's rows, as ratios: COUNT(x) / COUNT(*) lies between 0 and 1."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp


def largest_share(node: exp.Expr) -> Decimal | None:
    """Return the most that a count of some rows, over the count of all, can be; None for other nodes.

    `100 * COUNT_IF(p) / COUNT(*)` is at most 100. A count of no rows over none is NULL.
    """
    if not isinstance(node, exp.Div) or not _counts_all(node.expression):
        return None
    return _most_for_each(node.this)


def averaged(node: exp.Expr) -> exp.Expr | None:
    """Return SUM(x) / COUNT(*) as AVG(x) * (COUNT(x) / COUNT(*)), which has x's bounds; None for others."""
    if not isinstance(node, exp.Div) or not _counts_all(node.expression):
        return None
    filtered = node.this if isinstance(node.this, exp.Filter) else None
    total = node.this if filtered is None else filtered.this
    if not isinstance(total, exp.Sum) or isinstance(total.this, exp.Distinct):
        return None

    def over(name: str) -> exp.Expr:
        made: exp.Expr = exp.func(name, total.this.copy(), dialect="duckdb")
        made.meta.update(total.meta)
        where = filtered and filtered.expression.copy()
        return made if where is None else exp.Filter(this=made, expression=where)

    share = exp.Div(this=over("count"), expression=node.expression.copy())
    return exp.Mul(this=over("avg"), expression=exp.Paren(this=share))


def _most_for_each(node: exp.Expr) -> Decimal | None:
    """Return the most that each row adds to an expression that counts some of them; None for others."""
    match node:
        case exp.Cast() if node.this.find(exp.Mul) is not None:
            return None  # it may round what a row adds
        case exp.Paren() | exp.Cast() | exp.Filter():
            return _most_for_each(node.this)
        case exp.Mul():
            for factor, counted in ((node.this, node.expression), (node.expression, node.this)):
                if isinstance(factor, exp.Literal) and not factor.is_string:
                    most = _most_for_each(counted)
                    return None if most is None else most * Decimal(factor.name)
            return None
        case exp.Count() | exp.CountIf():
            return Decimal(1)
        case exp.Sum(this=exp.Case() as case):
            values = [branch.args["true"] for branch in case.args["ifs"]]
            values += [case.args["default"]] if case.args.get("default") else []
            plain = all(isinstance(v, exp.Literal) and v.name in ("0", "1") for v in values)
            return Decimal(1) if plain else None
        case _:
            return None


def _counts_all(node: exp.Expr) -> bool:
    """Return whether an expression is COUNT(*), cast or with NULL for 0."""
    match node:
        case exp.Paren() | exp.Cast():
            return _counts_all(node.this)
        case exp.Nullif(expression=exp.Literal(this="0")):
            return _counts_all(node.this)
        case exp.Count(this=exp.Star()):
            return not node.args.get("expressions")
        case _:
            return False
