"""Subqueries that depend on the outer row: what of it they read, and the keys that match them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from dp_sql.parser import examples
from dp_sql.parser.links import belongs_to_one, conjunction
from dp_sql.parser.own_names import Names
from dp_sql.parser.scope import Environment, Scope, Statement
from dp_sql.plan.expression import Call, Expression, Ref, columns_of
from dp_sql.plan.relation import output
from dp_sql.plan.rows import Rows
from dp_sql.schema.catalog import Catalog
from dp_sql.sensitivity.ownership import equal_columns, is_protected, owner_of, owners_of


def reads_outer(query: exp.Select, env: Environment, outer: Scope) -> bool:
    """Return whether a subquery names a column of the block around it."""
    return bool(outer_columns(query, env, outer))


def outer_columns(query: exp.Expr, env: Environment, outer: Scope) -> list[exp.Column]:
    """Return the names in a subquery that are columns of the block around it, not its own."""
    inner = Names(query, env, outer.statement.catalog)
    return [
        column
        for column in query.find_all(exp.Column)
        if not isinstance(column.this, exp.Star)
        and not inner.knows(column, aliases=True)
        and outer.finds(column)
    ]


def pair(part: Expression, rows: Rows) -> tuple[Expression, Expression] | None:
    """Return (inner, outer) where a condition is that the rows equal the outer row in something."""
    own = {c.number for c in output(rows)}
    if isinstance(part, Call) and part.function == "=":
        for inner, outer in (part.args, part.args[::-1]):
            reads = {c.number for c in columns_of(inner)}
            if reads and reads <= own and not {c.number for c in columns_of(outer)} & own:
                return inner, outer
    return None


def keys_of(rows: Rows, correlated: Sequence[Expression], catalog: Catalog) -> list[Expression]:
    """Return the expressions that each have one value in what an outer row sees of the rows.

    None at all where a condition is no equality, or where an outer row sees several owners' rows.

    Claim:   a window, a group, DISTINCT and a LIMIT over all rows, apart for each value of the keys,
             are for an outer row what they are over the rows that it sees.
    Why:     every condition that reads the outer row says that a key equals one value of it, so it
             sees all rows of one value of the keys or none. The owner is one of the keys, or has
             one value for each value of a key.
    Assumes: values that are equal are one value of a partition. That a key leads to one owner is
             declared: only meaning rests on it, as the engine compares the owners too.
    """
    pairs = [pair(part, rows) for part in correlated]
    keys = [found[0] for found in pairs if found is not None]
    if not keys or len(keys) < len(pairs):
        return []
    if not is_protected(rows):
        return keys
    own = {c.number: c for c in output(rows)}
    same = {a.number for a, _ in equal_columns(conjunction(list(correlated)))} & own.keys()
    owner = owner_of(rows)
    if owner is None or not (
        same & owners_of(rows) or any(belongs_to_one(rows, own[n], catalog) for n in same)
    ):
        return []
    return keys if Ref(owner) in keys else [*keys, Ref(owner)]


def mixing(
    statement: Statement, node: exp.Expr, rows: Rows, right: Rows, tries: Iterable[str] = ()
) -> Exception:
    """Return the error for a subquery over rows that aren't matched on the owner.

    tries: statements that are nearer than a count of the owners who have rows on both sides.
    """
    first, second = owner_of(rows), owner_of(right)
    tries = tuple(tries)
    hint = "compare the owner's columns in the subquery's WHERE"
    if first is not None and second is not None:
        hint = f"WHERE inner.{second.name} = outer.{first.name} in the subquery"
    if tries:
        hint += ", for the person's own rows; for everybody's, a join with a release by that key"
    return statement.not_private(
        "this subquery lets the rows of one person decide about another's.",
        node,
        hint=hint,
        tries=(*tries, examples.among(rows, right, statement.catalog)),
    )


def unmatched(statement: Statement, node: exp.Expr, rows: Rows, what: str) -> Exception:
    """Return the error for what an outer row would see of rows that equalities don't set apart."""
    owner = owner_of(rows)
    name = "the owner's column" if owner is None else owner.name
    return statement.unsupported(
        f"{what} in a subquery that depends on the outer row needs conditions on it that are "
        f"equalities, one of them of {name}.",
        node,
        hint="WHERE inner.column = outer.column"
        if owner is None
        else f"WHERE inner.{name} = outer.{name} alone; with more conditions join the tables, and "
        f"use windows with PARTITION BY {name}",
    )


def outer_numbers(around: Scope | None) -> set[int]:
    """Return the numbers of the columns of a block and of those around it."""
    found = set[int]()
    while around is not None:
        found |= {n.column.number for s in around.sources for n in s.columns}
        found |= {c.number for c in around.merged.values()}
        around = around.outer
    return found


def require_own(scope: Scope, node: exp.Expr, parts: Sequence[Expression]) -> None:
    """Raise UnsupportedSQLError where a window, an aggregate or an order reads an outer row."""
    outer = outer_numbers(scope.outer)
    if any(c.number in outer for part in parts for c in columns_of(part)):
        raise scope.statement.unsupported(
            "a column of the block around a subquery can be compared in its WHERE only.", node
        )


def require_near(
    statement: Statement, node: exp.Expr, parts: Sequence[Expression], *sides: Rows
) -> None:
    """Raise UnsupportedSQLError where conditions read a block further out than the one around."""
    visible = {c.number for side in sides for c in output(side)}
    if any(c.number not in visible for part in parts for c in columns_of(part)):
        raise statement.unsupported(
            "a subquery can read the block around it, not one further out.",
            node,
            hint="join the tables in one block",
        )
