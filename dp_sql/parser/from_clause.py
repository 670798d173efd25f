"""The FROM clause: each item is bound once, then joined as private rows or kept for the residual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from dp_sql.errors import QueryError
from dp_sql.parser.expressions import Expressions
from dp_sql.parser.names import deny_open, is_plain_table
from dp_sql.parser.scope import (
    Environment,
    Named,
    OpenBlock,
    PrivateRows,
    Scope,
    Source,
    Statement,
)
from dp_sql.parser.text import nearest
from dp_sql.plan import functions
from dp_sql.plan.expression import Column, Expression, Literal, Ref
from dp_sql.plan.relation import Join, JoinKind, Relation, Scan
from dp_sql.privacy.unit import Level
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import OwnerThrough, TableSpec, ascii_lower

if TYPE_CHECKING:
    from dp_sql.parser.blocks import Blocks


@dataclass(frozen=True, slots=True)
class Item:
    """One item of FROM, bound. `tree` is what the residual reads when the block is open."""

    node: exp.Expr
    join: exp.Join | None  # how it is joined to the items before it; None for the first
    alias: str
    rows: PrivateRows | None  # protected rows, or the rows of a public table
    tree: exp.Expr | None


class FromClause:
    """Binds the FROM clause of one block."""

    def __init__(self, statement: Statement, blocks: Blocks, env: Environment) -> None:
        self._statement = statement
        self._blocks = blocks
        self._env = env

    def items(self, node: exp.Select) -> list[Item]:
        """Return the items of a block's FROM in order, each bound once."""
        clause = node.args.get("from_")
        if clause is None:
            return []
        result = [self._item(clause.this, None)]
        result += [self._item(join.this, join) for join in node.args.get("joins") or []]
        for item in result:
            for join in item.node.args.get("joins") or []:
                raise self._statement.unsupported(
                    "a join inside parentheses isn't answered.", join, hint="join without them"
                )
        return result

    def spec(self, node: exp.Table) -> TableSpec:
        """Return the declared table that a name means, or raise QueryError."""
        schema = ascii_lower(node.db)
        found = self._statement.catalog.table(node.name)
        if node.args.get("catalog") is not None or schema not in ("", "main") or found is None:
            tables = [t.name for t in self._statement.catalog.tables.values()]
            close = nearest(node.name, [*tables, *self._env.ctes])
            raise self._statement.wrong(
                f"no table is called {node.sql(dialect='duckdb')!r}.",
                node,
                hint=close or f"one of {', '.join(tables[:12])}",
            )
        return found

    def _item(self, node: exp.Expr, join: exp.Join | None) -> Item:
        alias = node.alias_or_name
        names = [i.name for i in _alias_columns(node)]
        if isinstance(node, exp.Table) and is_plain_table(node):
            for key, value in node.args.items():
                if key not in ("this", "db", "catalog", "alias", "joins") and value not in (
                    None, False, [],
                ):  # fmt: skip
                    raise self._statement.unsupported(
                        "samples, pivots and the like of a table aren't answered.",
                        node,
                        hint="filter with WHERE",
                    )
            cte = self._env.ctes.get(ascii_lower(node.name)) if not node.db else None
            if isinstance(cte, str):
                return Item(node, join, alias, None, node.copy())
            if isinstance(cte, PrivateRows):
                return Item(node, join, alias, self._blocks.rename(cte, names, node), None)
            spec = self.spec(node)
            rows = self._blocks.rename(self._scan(spec, node), names, node)
            tree = self._blocks.open_table(node, self._env) if spec.public else None
            return Item(node, join, alias, rows, tree)
        if isinstance(node, exp.Subquery):
            bound = self._blocks.query(node, self._env)
            if isinstance(bound, OpenBlock):
                kept = {k: v for k, v in node.args.items() if k == "alias"}
                return Item(node, join, alias, None, exp.Subquery(this=bound.tree, **kept))
            return Item(node, join, alias, self._blocks.rename(bound, names, node), None)
        deny_open(self._statement, node)
        if not isinstance(node, exp.Values | exp.Unnest | exp.Table):
            raise self._statement.unsupported("this item of FROM isn't answered.", node)
        return Item(node, join, alias, None, self._blocks.open_expression(node, self._env))

    def _scan(self, spec: TableSpec, node: exp.Expr) -> PrivateRows:
        """Return the rows of a declared table; every column gets a fresh number."""
        if isinstance(spec.owner, OwnerThrough):
            raise self._statement.unsupported(
                f"{spec.name} is owned through {spec.owner.table}; such tables aren't answered yet.",
                node,
                hint=f"query {spec.owner.table}, which holds its owner",
            )
        columns = tuple(
            self._statement.column(c.name, c.type, nullable=c.nullable)
            for c in spec.columns.values()
        )
        names = tuple(spec.columns)
        user = self._statement.catalog.unit.level is Level.USER and not spec.public
        owner = columns[names.index(ascii_lower(str(spec.owner)))] if user else None
        scan = Scan(ascii_lower(spec.name), spec.public, columns, names, owner)
        named = tuple(Named(s.name, c) for s, c in zip(spec.columns.values(), columns, strict=True))
        return PrivateRows(scan, named, not spec.public)

    def join(self, items: Sequence[Item]) -> tuple[Relation, Scope]:
        """Return the joined rows of a block that reads protected rows, and what it can name."""
        first, *rest = items
        rows = self._rows(first)
        relation, protected = rows.relation, rows.protected
        sources = [Source(first.alias, rows.columns)]
        merged: dict[str, Column] = {}
        for item in rest:
            assert item.join is not None  # noqa: S101  only the first item has no join
            rows = self._rows(item)
            if any(ascii_lower(s.alias) == ascii_lower(item.alias) for s in sources):
                raise self._statement.wrong(
                    f"two tables are called {item.alias!r}.", item.node, hint="give one an alias"
                )
            if protected and rows.protected:
                raise self._statement.unsupported(
                    "joins between protected tables aren't answered.",
                    item.node,
                    hint="query each table in a statement of its own",
                )
            left = Scope(self._statement, tuple(sources), merged)
            sources.append(Source(item.alias, rows.columns))
            shared = self._shared(item, left, rows)
            right = Scope(self._statement, (Source(item.alias, rows.columns),))
            condition = self._condition(item, left, right, shared, sources, merged)
            kind = self._kind(item, left_protected=protected, right_protected=rows.protected)
            for name in shared:
                column = left.find(exp.column(name, quoted=True))
                other = right.find(exp.column(name, quoted=True))
                kept = other if kind is None else column  # kind None: the right side is preserved
                if kept is not None:
                    merged[name] = kept
            if kind is None:
                relation = Join(rows.relation, relation, JoinKind.LEFT, condition)
            else:
                relation = Join(relation, rows.relation, kind, condition)
            protected = protected or rows.protected
        return relation, Scope(self._statement, tuple(sources), merged)

    def _rows(self, item: Item) -> PrivateRows:
        if item.rows is None:
            raise self._statement.unsupported(
                "a released result or a computed public table can't be joined with protected rows.",
                item.node,
                hint="join it with the aggregated result instead",
            )
        return item.rows

    def _kind(self, item: Item, *, left_protected: bool, right_protected: bool) -> JoinKind | None:
        """Return the kind of a join, None for one that preserves the right side's rows."""
        join = item.join
        assert join is not None  # noqa: S101
        side, kind = str(join.side or "").upper(), str(join.kind or "").upper()
        method = str(join.method or "").upper()
        if kind not in ("", "INNER", "CROSS", "OUTER") or method not in ("", "NATURAL"):
            raise self._statement.unsupported(
                f"{(method or kind)} JOIN isn't answered.", item.node, hint="an inner join"
            )
        if side == "":
            return JoinKind.INNER
        if side == "LEFT" and not right_protected:
            return JoinKind.LEFT
        if side == "RIGHT" and not left_protected:
            return None
        raise self._statement.unsupported(
            f"this {side} JOIN keeps rows that belong to nobody.",
            item.node,
            hint="an inner join, or put the protected table on the side that is kept",
        )

    def _shared(self, item: Item, left: Scope, rows: PrivateRows) -> list[str]:
        """Return the lower-cased names on which USING or NATURAL joins."""
        assert item.join is not None  # noqa: S101
        using = item.join.args.get("using") or []
        if using:
            return [ascii_lower(i.name) for i in using]
        if str(item.join.method or "").upper() != "NATURAL":
            return []
        before = {ascii_lower(n.name) for n in left.named()}
        common = [ascii_lower(n.name) for n in rows.columns if ascii_lower(n.name) in before]
        if not common:
            raise self._statement.wrong("NATURAL JOIN finds no column in common.", item.node)
        return common

    def _condition(
        self,
        item: Item,
        left: Scope,
        right: Scope,
        shared: list[str],
        sources: list[Source],
        merged: dict[str, Column],
    ) -> Expression:
        assert item.join is not None  # noqa: S101
        if shared:
            parts = []
            for name in shared:
                node = exp.column(name, quoted=True)
                a, b = left.find(node), right.find(node)
                if a is None or b is None:
                    raise self._statement.wrong(
                        f"USING needs a column {name!r} on both sides.", item.node
                    )
                parts.append(self._equal(Ref(a), Ref(b), item.node))
            return conjunction(parts)
        on = item.join.args.get("on")
        if on is None:
            return Literal(value=True, type=sqltype.BOOLEAN)
        scope = Scope(self._statement, tuple(sources), merged)
        return Expressions(scope).bind_condition(on)

    def _equal(self, a: Expression, b: Expression, node: exp.Expr) -> Expression:
        try:
            return functions.call("=", (a, b))
        except functions.TypeProblem as problem:
            error: QueryError = self._statement.wrong(f"{problem}", node)
            raise error from None


def conjunction(parts: Sequence[Expression]) -> Expression:
    """Return the AND of one or more conditions."""
    result = parts[0]
    for part in parts[1:]:
        result = functions.call("and", (result, part))
    return result


def _alias_columns(node: exp.Expr) -> list[exp.Identifier]:
    alias = node.args.get("alias")
    return list(alias.args.get("columns") or []) if isinstance(alias, exp.TableAlias) else []
