"""Tests by subquery in the ON of a join: they stand as well in WHERE, or belong to the left side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dp_sql.parser.expressions import IN_A_COLUMN
from dp_sql.parser.own_names import outside
from dp_sql.parser.scope import Environment, Scope
from dp_sql.parser.subqueries import Subqueries
from dp_sql.plan.rows import Rows
from dp_sql.schema.catalog import Catalog

if TYPE_CHECKING:
    from dp_sql.parser.blocks import Blocks


def tests_in_where(node: exp.Select, env: Environment, catalog: Catalog) -> None:
    """Move the conditions of a block's inner joins that hold a subquery to its WHERE.

    Claim:   the block has the same rows.
    Why:     an inner join keeps the pairs for which ON is true, WHERE the rows for which it is. Further
             inner and left joins keep each of these rows' values, whether it is dropped before them or
             after; what isn't the last join's names its columns with their tables, so that none of a
             further join is meant.
    Assumes: nothing.  Source: SQL's joins.
    """
    if node.args.get("laterals"):
        return
    joins: list[exp.Join] = node.args.get("joins") or []
    moved: list[exp.Expr] = []
    for join in reversed(joins):
        inner = not join.side and join.kind in ("", "INNER", "CROSS")
        left = join.side == "LEFT" and join.kind in ("", "OUTER")
        if join.method or not (inner or left):
            break
        on = join.args.get("on")
        if on is None or not inner:
            continue
        parts = list(on.flatten()) if isinstance(on, exp.And) else [on]
        some = [
            part
            for part in parts
            if part.find(exp.Query) is not None
            and (join is joins[-1] or all(c.table for c in outside(part, env, catalog)))
        ]
        if some:
            rest = [part for part in parts if part not in some] or [exp.true()]
            join.set("on", exp.and_(*rest, copy=False))
            moved = [*some, *moved]
    if not moved:
        return
    where = node.args.get("where")
    before = [] if where is None else [where.this]
    node.set("where", exp.Where(this=exp.and_(*before, *moved, copy=False)))


def tests_of_left(
    blocks: Blocks,
    env: Environment,
    on: exp.Expr,
    sides: tuple[Scope, Scope, Scope],
    around: Sequence[Rows],
    word: str,
) -> Subqueries | None:
    """Return what the subqueries in the ON of a left join are, as columns of its left side; or None.

    sides: what the left side, the right side and both can name. around: the rows of the left side.
    word: which join it is. None where ON holds no subquery.

    Claim:   the join is the same where its left side has each subquery's result as a column.
    Why:     a subquery that reads the outer row in columns of the left side alone has one result for
             each row of it, whatever row of the right side it meets.
    Assumes: nothing for privacy: the results are those of a subquery in WHERE.  Source: SQL's joins.

    Raises UnsupportedSQLError for a subquery that reads the right side, and for any other join.
    """
    left, right, scope = sides
    statement = scope.statement
    found = list(_tested(on))
    if not found:
        return None
    if word != "LEFT":
        raise statement.unsupported(
            f"a subquery can't stand in the ON of a {word} JOIN.",
            found[0],
            hint=IN_A_COLUMN,
        )
    for node in found:
        for column in outside(node, env, statement.catalog):
            if right.finds(column) or not left.finds(column):
                raise statement.unsupported(
                    "a subquery in the ON of a left join reads one of its sides alone.",
                    column,
                    hint="in the subquery the columns of one side; compare the other's outside of "
                    "it, or write an inner join",
                )
    return Subqueries(statement, blocks, env, scope, around)


def _tested(on: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the parts of a condition that become a column each, with what they compare."""
    for node in on.walk(prune=_is_test):
        if _is_test(node):
            yield node


def _is_test(node: exp.Expr) -> bool:
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    if isinstance(node, exp.Binary) and isinstance(node.expression, exp.Any | exp.All):
        return node.find(exp.Query) is not None
    return isinstance(node, exp.Exists | exp.Query)
