"""ORDER BY and LIMIT over one person's rows: the first ones, by an order that is total."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dp_sql.parser.expressions import Expressions
from dp_sql.parser.scope import Scope, Statement
from dp_sql.parser.select_list import listed
from dp_sql.plan import functions
from dp_sql.plan.expression import Column, Expression, Literal, Ref
from dp_sql.plan.relation import output
from dp_sql.plan.rows import Filter, Order, Rows, WindowFunction, WindowRows
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import ascii_lower

_MOST = 1_000_000  # rows of a LIMIT or an OFFSET

Kept = tuple[int, int | None]
"""(rows skipped, rows kept after them); None: all."""


def named(item: exp.Expr, node: exp.Select) -> exp.Alias | None:
    """Return the item of the select list that an item of ORDER BY or DISTINCT ON names, or None.

    A name that stands alone is the alias first and then the source's column, as in DuckDB; inside
    an expression, or behind its table's name, it is the column. Of equal aliases it is the last.
    """
    inner = item.unnest() if isinstance(item, exp.Paren) else item
    if not isinstance(inner, exp.Column) or inner.table or isinstance(inner.this, exp.Star):
        return None
    wanted = ascii_lower(inner.name)
    for shown in reversed(node.expressions):
        if isinstance(shown, exp.Alias) and ascii_lower(shown.alias) == wanted:
            return shown
    return None


def bind_item(scope: Scope, item: exp.Expr, node: exp.Select, binder: Expressions) -> Expression:
    """Return what an item of ORDER BY or DISTINCT ON means, bound: a position, or see `named`."""
    if isinstance(item, exp.Literal) and item.is_int:
        shown, place = _shown(scope, node, binder), int(item.name)
        if not 1 <= place <= len(shown):
            raise scope.statement.wrong(f"ORDER BY {place}: there is no such column.", item)
        return shown[place - 1]
    alias = named(item, node)
    if alias is None:
        return binder.bind(item)
    with scope.statement.growth.alias(alias.alias):
        return binder.bind(alias.this)


def order_of(scope: Scope, node: exp.Select, binder: Expressions) -> list[Order]:
    """Return the ORDER BY of a block, bound: names of the select list, positions and ALL count."""
    clause = node.args.get("order")
    order = []
    for item in clause.expressions if clause is not None else ():
        inner = item.this
        if inner.find(exp.Star):
            raise scope.statement.unsupported(
                "* isn't answered in the ORDER BY of one person's rows.", item, hint="ORDER BY ALL"
            )
        everything = isinstance(inner, exp.Var) and inner.name.upper() == "ALL"
        bound = (
            _shown(scope, node, binder) if everything else [bind_item(scope, inner, node, binder)]
        )
        down, nulls = bool(item.args.get("desc")), bool(item.args.get("nulls_first"))
        order += [Order(expression, down, nulls) for expression in bound]
    return order


def _shown(scope: Scope, node: exp.Select, binder: Expressions) -> list[Expression]:
    """Return the columns of the select list, with those that * stands for."""
    return [bound for item in node.expressions for _, bound in listed(item, scope, binder)]


def limit_of(statement: Statement, node: exp.Select) -> Kept | None:
    """Return which rows LIMIT and OFFSET keep of a block in its order; None where it has neither.

    Raises UnsupportedSQLError for numbers that aren't whole constants, and without an ORDER BY.
    """
    limit, offset = node.args.get("limit"), node.args.get("offset")
    if limit is None and offset is None:
        return None
    skipped = 0 if offset is None else _whole(statement, offset)
    if isinstance(limit, exp.Fetch) or (limit is not None and limit.args.get("limit_options")):
        raise statement.unsupported("this form of LIMIT isn't answered.", limit, hint="LIMIT 3")
    most = None if limit is None else _whole(statement, limit)
    if node.args.get("order") is None and most != 0:
        raise statement.unsupported(
            "LIMIT without an order keeps any rows.", limit or offset, hint="ORDER BY … LIMIT 3"
        )
    return skipped, most


def _whole(statement: Statement, clause: exp.Limit | exp.Offset) -> int:
    node = clause.expression
    if isinstance(node, exp.Literal) and node.is_int and int(node.name) <= _MOST:
        return int(node.name)
    raise statement.unsupported(
        f"LIMIT and OFFSET over one person's rows are constants up to {_MOST:,}.", clause
    )


def first_rows(
    statement: Statement,
    rows: Rows,
    by: Sequence[Expression],
    order: Sequence[Order],
    kept: Kept = (0, 1),
) -> Rows:
    """Return the first rows of each value of `by`.

    Claim:   which rows are kept doesn't depend on the order in which rows are read.
    Why:     all columns are among the items of the order, so rows that tie are equal.
    Assumes: equal values have equal bits (canonical rows); `by` holds the owner of protected rows,
             which `sensitivity.locality` checks.
    """
    column = statement.column("row_number", sqltype.BIGINT, nullable=False)
    read = {item.expression for item in order}
    rest = [Order(Ref(c), descending=False, nulls_first=False) for c in output(rows)]
    total = (*order, *(o for o in rest if o.expression not in read))
    numbered = WindowRows(rows, (WindowFunction("row_number", (), tuple(by), total, "", column),))
    skipped, most = kept
    if kept == (0, 1):
        return Filter(numbered, _compared("=", column, 1))
    tests = [] if skipped == 0 and most is not None else [_compared(">", column, skipped)]
    if most is not None:
        tests.append(_compared("<=", column, skipped + most))
    return Filter(numbered, tests[0] if len(tests) == 1 else functions.call("and", tuple(tests)))


def _compared(sign: str, column: Column, number: int) -> Expression:
    return functions.call(sign, (Ref(column), Literal(number, sqltype.BIGINT)))
