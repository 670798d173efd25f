"""The items of a select list over private rows: expressions, and what * stands for."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dp_sql.errors import QueryError
from dp_sql.parser.dialect import unnamed
from dp_sql.parser.expressions import Expressions, Hook
from dp_sql.parser.scope import Named, Scope
from dp_sql.plan.expression import Expression, Ref
from dp_sql.schema.catalog import ascii_lower

_CHANGES = ("except_", "replace", "rename")


def listed(item: exp.Expr, scope: Scope, binder: Expressions) -> list[tuple[str, Expression]]:
    """Return the (name, expression) pairs that one item stands for.

    Raises QueryError for a name in EXCLUDE, REPLACE or RENAME that * doesn't stand for.
    """
    if isinstance(item, exp.Star):
        return _star(item, scope.named(), scope, binder)
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        wanted = [s for s in scope.sources if ascii_lower(s.alias) == ascii_lower(item.table)]
        if not wanted:
            raise scope.statement.wrong(f"no table is called {item.table!r} here.", item)
        return _star(item.this, wanted[0].columns, scope, binder)
    if isinstance(item, exp.Alias):
        return [(item.alias, binder.bind(item.this))]
    bound = binder.bind(item)
    name = item.name if isinstance(item, exp.Column) else unnamed(item)
    return [(name, bound)]


def _star(
    star: exp.Star, named: tuple[Named, ...], scope: Scope, binder: Expressions
) -> list[tuple[str, Expression]]:
    """Return what * stands for, changed as EXCLUDE, REPLACE and RENAME say."""
    for key, value in star.args.items():
        if key not in _CHANGES and value not in (None, False, []):
            raise scope.statement.unsupported(
                "this form of * isn't answered over protected rows.", star, hint="name the columns"
            )
    left = {ascii_lower(node.name): node for node in star.args.get("except_") or []}
    made = {ascii_lower(node.alias): node for node in star.args.get("replace") or []}
    renamed = star.args.get("rename") or []
    names = {ascii_lower(node.this.name if node.this else ""): node for node in renamed}
    known = {ascii_lower(n.name) for n in named}
    for name, node in (*left.items(), *made.items(), *names.items()):
        if name not in known:
            raise scope.statement.wrong(f"* has no column {name!r}.", node)
    found: list[tuple[str, Expression]] = []
    for item in named:
        name = ascii_lower(item.name)
        if name in left:
            continue
        value = binder.bind(made[name].this) if name in made else Ref(item.column)
        found.append((names[name].alias if name in names else item.name, value))
    return found


def in_having(
    scope: Scope, aliases: Mapping[str, exp.Expr], hooks: tuple[Hook, ...]
) -> Expressions:
    """Return what binds HAVING: a name that is no key of the groups is an alias before an error."""
    binder = Expressions(scope, {}, hooks)

    def meaning(node: exp.Expr) -> Expression | None:
        if not isinstance(node, exp.Column) or node.table:
            return None
        target = aliases.get(ascii_lower(node.name))
        if target is None:
            return None
        try:
            return binder.bind(node)
        except QueryError:
            with scope.statement.growth.alias(node.name):
                return binder.bind(target)

    return Expressions(scope, aliases, (meaning, *hooks))
