"""Refuses what the parser library reads and SQL has no meaning for: calls and lists that hold nothing."""

from __future__ import annotations

from sqlglot import exp

from dp_sql.parser.aggregates import aggregate_name
from dp_sql.parser.scope import Statement


def check_filled(statement: Statement, tree: exp.Expr) -> None:
    """Raise QueryError for an aggregate without its argument, one written x.f(), an empty select list."""
    for node in tree.walk():
        if isinstance(node, exp.Select) and not node.expressions:
            raise statement.wrong(
                "this SELECT names no columns.", node, hint="SELECT COUNT(*) FROM …"
            )
        name = None if isinstance(node, exp.WithinGroup) else aggregate_name(node)
        if name is None:
            continue
        if isinstance(node.parent, exp.Dot) and node.arg_key == "expression":
            raise statement.wrong(
                f"{name} is written around its argument, not behind it.", node, hint=f"{name}(x)"
            )
        if not _has_argument(node):
            raise statement.wrong(f"{name} takes an argument.", node, hint=f"{name}(x)")


def _has_argument(node: exp.Expr) -> bool:
    """Return whether an aggregate has its first argument, or needs none where it stands."""
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):  # those read how many they have
        return True
    if "this" not in node.arg_types:  # of a window
        return True
    first = node.args.get("this")
    if first is None:
        return isinstance(node, exp.Count) or isinstance(node.parent, exp.WithinGroup)
    if isinstance(first, exp.Distinct):
        first = first.expressions[0] if first.expressions else None
    if isinstance(first, exp.Order):
        first = first.this
    return first is not None and not (isinstance(first, exp.Tuple) and not first.expressions)
