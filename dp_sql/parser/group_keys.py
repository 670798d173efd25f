"""What a GROUP BY names: positions, aliases, expressions, ALL; and the names a subquery brings."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dp_sql.dataclass import dataclass
from dp_sql.parser.aggregates import has_aggregate
from dp_sql.parser.scope import Environment, PrivateRows, Statement
from dp_sql.schema.catalog import Catalog, ascii_lower


def key_nodes(statement: Statement, node: exp.Select) -> list[exp.Expr]:
    """Return the expressions that a block groups by; none where it has no GROUP BY.

    Raises QueryError for a position that isn't there and for several sets of keys.
    """
    group = node.args.get("group")
    if group is None:
        return []
    for key, value in group.args.items():
        if key not in ("expressions", "all") and value not in (None, False, []):
            raise statement.unsupported(f"GROUP BY {key.upper()} isn't answered.", group)
    if group.args.get("all"):
        return [i.unalias() for i in node.expressions if not has_aggregate(i)]
    return [_meant(statement, item, node) for item in group.expressions]


def _meant(statement: Statement, item: exp.Expr, node: exp.Select) -> exp.Expr:
    """Return what an item of GROUP BY means: a position, an alias or an expression."""
    inner = item.unnest() if isinstance(item, exp.Paren) else item
    if isinstance(inner, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
        raise statement.unsupported(
            "ROLLUP, CUBE and GROUPING SETS aren't answered.",
            inner,
            hint="one statement for each set of keys",
        )
    if isinstance(inner, exp.Literal) and not inner.is_string:
        index = int(inner.name) if inner.is_int else 0
        if not 1 <= index <= len(node.expressions):
            raise statement.wrong(
                f"GROUP BY {inner.name}: there are {len(node.expressions)} columns.", inner
            )
        chosen: exp.Expr = node.expressions[index - 1]
        return chosen.unalias()
    return item


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a subquery's own FROM gives: aliases, and columns where they are known."""

    columns: Mapping[str, frozenset[str] | None]  # by alias; None: any

    def knows(self, column: exp.Column) -> bool:
        """Return whether a column is the subquery's own, as far as names tell."""
        if column.table:
            return ascii_lower(column.table) in self.columns
        name = ascii_lower(column.name)
        return any(known is None or name in known for known in self.columns.values())


def names_of(query: exp.Expr, env: Environment, catalog: Catalog) -> Names:
    """Return the names that all FROM clauses inside a query give."""
    found: dict[str, frozenset[str] | None] = {}
    for item in query.find_all(exp.Table, exp.Subquery, exp.Values, exp.Unnest):
        alias = ascii_lower(item.alias_or_name)
        if not alias:
            continue
        found[alias] = None
        if isinstance(item, exp.Table) and not _renamed(item):
            cte = env.ctes.get(ascii_lower(item.name)) if not item.db else None
            spec = catalog.table(item.name)
            if isinstance(cte, PrivateRows):
                found[alias] = frozenset(ascii_lower(n.name) for n in cte.columns)
            elif cte is None and spec is not None:
                found[alias] = frozenset(spec.columns)
    return Names(found)


def _renamed(item: exp.Expr) -> bool:
    alias = item.args.get("alias")
    return isinstance(alias, exp.TableAlias) and bool(alias.args.get("columns"))
