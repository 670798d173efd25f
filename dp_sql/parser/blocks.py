"""Binds query blocks: each is private rows, a release, or open (released and public data alone)."""

from __future__ import annotations

from sqlglot import exp

from dp_sql.parser.aggregates import has_aggregate
from dp_sql.parser.expressions import Expressions
from dp_sql.parser.from_clause import FromClause, Item
from dp_sql.parser.names import deny_open, is_plain_table
from dp_sql.parser.release_block import ReleaseBlock
from dp_sql.parser.scope import (
    Bound,
    Environment,
    Named,
    OpenBlock,
    PrivateRows,
    Scope,
    Statement,
)
from dp_sql.plan.expression import Column, Expression, Ref
from dp_sql.plan.relation import Filter, Project, Relation
from dp_sql.schema.catalog import ascii_lower
from dp_sql.sensitivity.ownership import owner_of

_SELECT_PARTS = {
    "expressions", "from_", "joins", "where", "group", "having", "qualify", "order", "limit",
    "offset", "distinct", "with_", "windows",
}  # fmt: skip


class Blocks:
    """Binds the blocks of one statement."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement

    def query(self, node: exp.Expr, env: Environment, *, top: bool = False) -> Bound:
        """Return what a query is; `top` for the statement's own block."""
        match node:
            case exp.Subquery():
                for key, value in node.args.items():
                    if key not in ("this", "alias", "with_") and value not in (None, False, []):
                        raise self._statement.unsupported("this subquery isn't answered.", node)
                return self.query(node.this, env, top=top)
            case exp.Select():
                return self._select(node, env, top=top)
            case exp.SetOperation():
                return self._set_operation(node, env)
            case _:
                raise self._statement.unsupported(
                    f"{type(node).__name__.upper()} isn't answered here.", node
                )

    def _ctes(self, node: exp.Expr, env: Environment) -> tuple[Environment, list[exp.CTE]]:
        """Bind the WITH of a block; return the environment and the open CTEs that stay in the text."""
        clause = node.args.get("with_")
        if clause is None:
            return env, []
        recursive = bool(clause.args.get("recursive"))
        kept = []
        for cte in clause.expressions:
            name = cte.alias
            inner = env
            if recursive and _names_table(cte.this, name):
                if self._reads_protected(cte.this, env):
                    raise self._statement.not_private(
                        "a recursive CTE can't read protected rows.",
                        cte.args.get("alias"),
                        hint="recursion over public tables only",
                    )
                inner = env.with_cte(name, name)
            bound = self.query(cte.this, inner)
            columns = [i.name for i in (cte.args["alias"].args.get("columns") or [])]
            if isinstance(bound, PrivateRows):
                bound = self.rename(bound, columns, cte)
                env = env.with_cte(name, bound)
            else:
                copy = cte.copy()
                copy.set("this", bound.tree)
                kept.append(copy)
                env = env.with_cte(name, name)
        return env, kept

    def _reads_protected(self, node: exp.Expr, env: Environment) -> bool:
        for table in node.find_all(exp.Table):
            if not is_plain_table(table):
                continue
            found = env.ctes.get(ascii_lower(table.name)) if not table.db else None
            spec = self._statement.catalog.table(table.name)
            if isinstance(found, PrivateRows):
                return True
            if found is None and spec is not None and not spec.public:
                return True
        return False

    def rename(self, rows: PrivateRows, names: list[str], node: exp.Expr) -> PrivateRows:
        """Return the rows with the column names of an alias list; ownership stays with the column."""
        if not names:
            return rows
        if len(names) > len(rows.columns):
            raise self._statement.wrong(
                f"{len(names)} names for {len(rows.columns)} columns.", node
            )
        renamed = [
            Named(names[i] if i < len(names) else item.name, item.column)
            for i, item in enumerate(rows.columns)
        ]
        return PrivateRows(rows.relation, tuple(renamed), rows.protected)

    def _select(self, node: exp.Select, env: Environment, *, top: bool) -> Bound:
        for key, value in node.args.items():
            if key not in _SELECT_PARTS and value not in (None, False, []):
                raise self._statement.unsupported(
                    f"the clause {key.strip('_').upper()} isn't answered.", node
                )
        env, kept = self._ctes(node, env)
        clause = FromClause(self._statement, self, env)
        items = clause.items(node)
        if not any(item.rows is not None and item.rows.protected for item in items):
            return OpenBlock(self._with(self._open(node, items, env), kept))
        rows, scope = clause.join(items)
        where = node.args.get("where")
        aliases = {
            ascii_lower(item.alias): item.this
            for item in node.expressions
            if isinstance(item, exp.Alias)
        }
        relation = rows
        if where is not None:
            if has_aggregate(where.this):
                raise self._statement.wrong(
                    "an aggregate can't stand in WHERE.", where, hint="use HAVING"
                )
            relation = Filter(relation, Expressions(scope, aliases).bind_condition(where.this))
        grouped = node.args.get("group") is not None
        aggregated = any(
            has_aggregate(part)
            for part in (
                *node.expressions,
                *(node.args[k] for k in ("having", "qualify", "order") if node.args.get(k)),
            )
        )
        keys_alone = top and node.args.get("distinct") is not None
        if grouped or aggregated or keys_alone:
            block = ReleaseBlock(self._statement, scope, relation, aliases, self, env)
            return OpenBlock(self._with(block.rewrite(node, top=top), kept))
        if node.args.get("having") is not None:
            raise self._statement.wrong("HAVING needs an aggregate.", node.args["having"])
        return self._private(node, scope, relation, aliases)

    def _private(
        self,
        node: exp.Select,
        scope: Scope,
        relation: Relation,
        aliases: dict[str, exp.Expr],
    ) -> PrivateRows:
        for key, what in (
            ("distinct", "DISTINCT"), ("limit", "LIMIT"), ("offset", "OFFSET"), ("qualify", "QUALIFY"),
        ):  # fmt: skip
            if node.args.get(key) is not None:
                raise self._statement.unsupported(
                    f"{what} on protected rows isn't answered: which rows stay would depend on "
                    "the rows of everybody.",
                    node.args[key],
                    hint=f"aggregate first and use {what} on the result",
                )
        binder = Expressions(scope, aliases)
        order = node.args.get("order")
        for item in order.expressions if order is not None else ():
            if not isinstance(item.this, exp.Literal):
                binder.bind(
                    item.this
                )  # without LIMIT an order changes nothing; its names must exist
        visible: list[Named] = []
        columns: dict[int, Column] = {}
        expressions: dict[int, Expression] = {}
        for item in node.expressions:
            for name, bound in self._items(item, scope, binder):
                column = (
                    bound.column
                    if isinstance(bound, Ref)
                    else self._statement.column(name, bound.type)
                )
                visible.append(Named(name, column))
                columns[column.number] = column
                expressions[column.number] = bound
        owner = owner_of(relation)
        if owner is not None and owner.number not in columns:
            columns[owner.number] = owner
            expressions[owner.number] = Ref(owner)
        return PrivateRows(
            Project(relation, tuple(columns.values()), tuple(expressions.values())), tuple(visible)
        )

    def _items(
        self, item: exp.Expr, scope: Scope, binder: Expressions
    ) -> list[tuple[str, Expression]]:
        """Return the (name, expression) pairs that one item of a select list stands for."""
        if isinstance(item, exp.Star) or (
            isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
        ):
            star = item if isinstance(item, exp.Star) else item.this
            if any(value for key, value in star.args.items() if key != "this"):
                raise self._statement.unsupported(
                    "* with EXCLUDE, REPLACE or RENAME isn't answered over protected rows.",
                    item,
                    hint="name the columns",
                )
            named = scope.named()
            if isinstance(item, exp.Column):
                wanted = [
                    s for s in scope.sources if ascii_lower(s.alias) == ascii_lower(item.table)
                ]
                if not wanted:
                    raise self._statement.wrong(f"no table is called {item.table!r} here.", item)
                named = wanted[0].columns
            return [(n.name, Ref(n.column)) for n in named]
        if isinstance(item, exp.Alias):
            return [(item.alias, binder.bind(item.this))]
        bound = binder.bind(item)
        name = item.name if isinstance(item, exp.Column) else item.sql(dialect="duckdb")
        return [(name, bound)]

    def _set_operation(self, node: exp.SetOperation, env: Environment) -> Bound:
        env, kept = self._ctes(node, env)
        sides = [self.query(side, env) for side in (node.left, node.right)]
        if any(isinstance(side, PrivateRows) for side in sides):
            raise self._statement.unsupported(
                f"{type(node).__name__.upper()} of protected rows isn't answered.",
                node,
                hint="aggregate each part and combine the results",
            )
        copy = node.copy()
        copy.set("with_", None)
        for key, side in zip(("this", "expression"), sides, strict=True):
            if isinstance(side, OpenBlock):
                copy.set(key, side.tree)
        for key in ("order", "limit", "offset"):
            if node.args.get(key) is not None:
                copy.set(key, self.open_expression(node.args[key], env))
        return OpenBlock(self._with(copy, kept))

    def _with(self, tree: exp.Expr, kept: list[exp.CTE]) -> exp.Expr:
        if kept:
            recursive = any(_names_table(cte.this, cte.alias) for cte in kept)
            tree.set("with_", exp.With(expressions=kept, recursive=recursive))
        return tree

    def _open(self, node: exp.Select, items: list[Item], env: Environment) -> exp.Select:
        """Rewrite a block over released and public data: tables named, subqueries bound."""
        args = {
            key: self._open_value(value, env)
            for key, value in node.args.items()
            if key not in ("with_", "from_", "joins")
        }
        if items:
            args["from_"] = exp.From(this=items[0].tree)
            joins = []
            for item in items[1:]:
                assert item.join is not None  # noqa: S101  only the first item has no join
                rest = {
                    k: self._open_value(v, env) for k, v in item.join.args.items() if k != "this"
                }
                joins.append(exp.Join(this=item.tree, **rest))
            args["joins"] = joins
        return exp.Select(**args)

    def open_expression(self, node: exp.Expr, env: Environment) -> exp.Expr:
        """Rewrite an expression above the releases; every subquery in it has to be open."""
        match node:
            case exp.Table():
                return self.open_table(node, env)
            case exp.Subquery() | exp.Select() | exp.SetOperation():
                bound = self.query(node, env)
                if isinstance(bound, PrivateRows):
                    raise self._statement.not_private(
                        "the rows of a protected table can't be used here.",
                        node,
                        hint="aggregate them in the subquery",
                    )
                if not isinstance(node, exp.Subquery):
                    return bound.tree
                kept = {k: v for k, v in node.args.items() if k not in ("this", "with_")}
                return exp.Subquery(this=bound.tree, **kept)
            case _:
                deny_open(self._statement, node)
                return type(node)(**{k: self._open_value(v, env) for k, v in node.args.items()})

    def _open_value(self, value: object, env: Environment) -> object:
        if isinstance(value, exp.Expr):
            return self.open_expression(value, env)
        if isinstance(value, list):
            return [self._open_value(item, env) for item in value]
        return value

    def open_table(self, node: exp.Table, env: Environment) -> exp.Expr:
        """Rewrite a table that an open block reads: a public one, an open CTE or a list of constants."""
        if isinstance(node.this, exp.Identifier):
            found = env.ctes.get(ascii_lower(node.name)) if not node.db else None
            if isinstance(found, str):
                return node.copy()
            spec = FromClause(self._statement, self, env).spec(node)
            if spec.public:
                self._statement.public_tables.add(ascii_lower(spec.name))
                copy = node.copy()
                copy.set("this", exp.to_identifier(ascii_lower(spec.name), quoted=True))
                copy.set("db", exp.to_identifier("public", quoted=True))
                copy.set("catalog", None)
                if node.args.get("alias") is None:
                    copy.set(
                        "alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True))
                    )
                return copy
            raise self._statement.not_private(
                f"{node.name!r} is protected; it can't be read here.", node
            )
        deny_open(self._statement, node)
        return type(node)(**{k: self._open_value(v, env) for k, v in node.args.items()})


def _names_table(node: exp.Expr, name: str) -> bool:
    lowered = ascii_lower(name)
    return any(ascii_lower(t.name) == lowered for t in node.find_all(exp.Table))
