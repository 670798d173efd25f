"""USING and NATURAL: what a name means that two columns share, within a join and after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dp_sql.parser.joins import Way
from dp_sql.parser.scope import Scope, Source, Statement
from dp_sql.plan.expression import Column
from dp_sql.schema.catalog import ascii_lower


def named_column(name: str) -> exp.Column:
    """Return a column as it is written with its name alone."""
    return exp.column(name, quoted=True)


def merge(
    statement: Statement,
    way: Way,
    left: Scope,
    right: Scope,
    shared: list[str],
    merged: dict[str, Column],
) -> tuple[tuple[Column, Column, Column], ...]:
    """Note which column a shared name means from here on; return what a full join has to make."""
    made = []
    for name in shared:
        a, b = left.find(named_column(name)), right.find(named_column(name))
        assert a is not None and b is not None  # noqa: S101, PT018  the condition found them
        merged[name] = b if way is Way.RIGHT else a
        if way is Way.FULL:
            merged[name] = statement.column(a.name, a.type)
            made.append((merged[name], a, b))
    return tuple(made)


def kept_sources(
    statement: Statement,
    node: exp.Expr,
    left: Scope,
    right: Scope,
    shared: Sequence[str],
    merged: dict[str, Column],
) -> list[Source]:
    """Note what a name that USING made one in parentheses means after them; return the sources.

    Where an item before them has that name too, it means nothing without its table, and * shows
    the column once.
    """
    own = list(right.sources)
    for name, column in right.merged.items():
        if name in shared:
            continue
        if all(ascii_lower(n.name) != name for n in left.named()):
            merged[name] = column
            continue
        alike = {n.column.number for s in own for n in s.columns if ascii_lower(n.name) == name}
        if name in left.merged or column.number not in alike:
            raise statement.unsupported(
                f"{name!r} is a column that USING made of two in these parentheses, and an item "
                "before them has it too.",
                node,
                hint=f"USING ({name}) for this join too",
            )
        own = [replace(s, hidden=s.hidden | alike - {column.number}) for s in own]
    return own
