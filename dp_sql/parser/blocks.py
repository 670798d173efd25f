"""Binds query blocks: each is private rows, a release, or open (released and public data alone)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dp_sql.parser import nearby
from dp_sql.parser.aggregates import has_aggregate
from dp_sql.parser.correlated import outer_columns, reads_outer
from dp_sql.parser.distinct_rows import groups_to_distinct
from dp_sql.parser.from_clause import FromClause, Item
from dp_sql.parser.names import deny_open, draws, is_plain_table
from dp_sql.parser.options import entered
from dp_sql.parser.private_block import PrivateBlock
from dp_sql.parser.release_block import RELEASED, ReleaseBlock
from dp_sql.parser.render import render
from dp_sql.parser.scope import (
    Bound,
    Environment,
    Named,
    OpenBlock,
    OpenName,
    PrivateRows,
    Scope,
    Statement,
)
from dp_sql.parser.set_operations import set_rows
from dp_sql.parser.stage_keys import most_rows, telling
from dp_sql.parser.untyped import NULL_TYPE, untyped
from dp_sql.plan.expression import Column, Expression
from dp_sql.plan.release import Stage
from dp_sql.plan.rows import Rows, StageScan
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import ascii_lower
from dp_sql.schema.document import Problem
from dp_sql.schema.typename import parse_type

_SELECT_PARTS = {
    "expressions", "from_", "joins", "where", "group", "having", "qualify", "order", "limit",
    "offset", "distinct", "with_", "windows", "hint",
}  # fmt: skip


class Blocks:
    """Binds the blocks of one statement."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement

    def query(
        self, node: exp.Expr, env: Environment, *, top: bool = False, rows: bool = False
    ) -> Bound:
        """Return what a query is.

        top: the statement's own block. rows: a plain block over public tables is rows, not open.
        """
        bound = self.item(node, env, top=top, rows=rows)
        if isinstance(bound, PrivateRows) and bound.mixed is not None:
            raise bound.mixed()
        return bound

    def item(
        self, node: exp.Expr, env: Environment, *, top: bool = False, rows: bool = False
    ) -> Bound:
        """Return what a query is that may be an item of FROM: distinct rows of several persons, too."""
        match node:
            case exp.Subquery():
                for key, value in node.args.items():
                    if key not in ("this", "alias", "with_") and value not in (None, False, []):
                        raise self._statement.unsupported("this subquery isn't answered.", node)
                return self.item(node.this, env, top=top, rows=rows)
            case exp.Select():
                with entered(self._statement, node, env) as inner:
                    return self._select(node, inner, top=top, rows=rows)
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
        names = [ascii_lower(cte.alias) for cte in clause.expressions]
        for cte in clause.expressions:
            name = cte.alias
            if names.count(ascii_lower(name)) > 1:
                raise self._statement.wrong(
                    f"two CTEs of one WITH are called {name!r}.",
                    cte.args.get("alias"),
                    hint="two names",
                )
            inner = env
            if recursive and _names_table(cte.this, name):
                if self.reads_protected(cte.this, env):
                    raise self._statement.not_private(
                        "a recursive CTE can't read protected rows.",
                        cte.args.get("alias"),
                        hint="recursion over public tables only",
                    )
                inner = env.with_cte(name, OpenName(cte, recursive=True))
            bound = self.item(cte.this, inner.inside(None))
            columns = [i.name for i in (cte.args["alias"].args.get("columns") or [])]
            if isinstance(bound, PrivateRows):
                bound = self.rename(bound, columns, cte)
                env = env.with_cte(name, bound)
            else:
                copy = cte.copy()
                copy.set("this", bound.tree)
                kept.append(copy)
                env = env.with_cte(name, OpenName(copy, inner is not env))
        return env, kept

    def reads_protected(self, node: exp.Expr, env: Environment) -> bool:
        """Return whether some table inside a tree is protected."""
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
        return replace(rows, columns=tuple(renamed))

    def _select(self, node: exp.Select, env: Environment, *, top: bool, rows: bool) -> Bound:
        for key, value in node.args.items():
            if key not in _SELECT_PARTS and value not in (None, False, []):
                sample = isinstance(value, exp.TableSample)
                raise self._statement.unsupported(
                    f"the clause {key.strip('_').upper()} isn't answered.",
                    value if sample and value.find(exp.Literal) else node,
                    hint="sample_rate=0.1 of the call, or OPTIONS(sample_rate = 0.1), for a sample of "
                    "persons; or some rows by a condition of WHERE, such as id % 10 = 0"
                    if sample
                    else None,
                )
        groups_to_distinct(node, env, self._statement.catalog)
        env, kept = self._ctes(node, env)
        clause = FromClause(self._statement, self, env)
        items = clause.items(node)
        protected = any(
            (item.rows is not None and item.rows.protected)
            or (item.rows is None and item.tree is None)
            for item in items
        )
        picks = _is_plain(node) or (env.outer is not None and reads_outer(node, env, env.outer))
        if not protected and not (rows and items and picks):
            return OpenBlock(self._with(self._open(node, items, env), kept))
        block = PrivateBlock(self._statement, self, env, node, clause.steps(items))
        bound = block.bound(top=top)
        return bound if isinstance(bound, PrivateRows) else OpenBlock(self._with(bound.tree, kept))

    def rows_of(
        self, node: exp.Select, env: Environment
    ) -> tuple[Rows, Scope, tuple[Expression, ...]]:
        """Return the rows of a block's FROM and WHERE, and the conditions that reach outside."""
        if node.args.get("hint") is not None:
            raise self._statement.unsupported(
                "a subquery that belongs to one row has no privacy options.", node.args["hint"]
            )
        clause = FromClause(self._statement, self, env)
        steps, scope = clause.steps(clause.items(node))
        block = PrivateBlock(self._statement, self, env, node, (steps, scope))
        if block.values is not None:
            raise block.values.refused()
        return block.relation, scope, block.correlated

    def released(
        self,
        scope: Scope,
        source: Rows,
        keys: list[Column],
        item: exp.Expr,
        env: Environment,
    ) -> exp.Select:
        """Return an aggregate over private rows by some columns, as an open query."""
        block = ReleaseBlock(self._statement, scope, source, {}, self, env)
        return block.by_columns(keys, item)

    def stage(
        self, tree: exp.Expr, node: exp.Expr, env: Environment, *, single: bool = False
    ) -> PrivateRows:
        """Return the results of an open query as rows that a private block can read.

        Raises QueryError for columns of a type that expressions don't have.
        """
        statement = self._statement
        if statement.describe is None:
            raise statement.unsupported("results of releases can't be read here.", node)
        query = tree.copy()
        known = _named(query, env.open_names())
        if any(draws(name.cte.this) for name in known):
            raise statement.unsupported(
                "a CTE that draws at random is drawn anew for each block over protected rows that "
                "reads it.",
                node,
                hint="a column of a public table in the place of the draw",
            )
        if known:
            recursive = any(name.recursive for name in known)
            query = exp.Select(expressions=[exp.Star()], from_=exp.From(
                this=exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier("stage_")))
            ))  # fmt: skip
            ctes = [name.cte.copy() for name in known]
            query.set("with_", exp.With(expressions=ctes, recursive=recursive))
        sql = render(query.copy())
        tables = tuple(sorted(statement.public_tables))
        columns, nulls = [], []
        for name, text in statement.describe(sql, tables, statement.releases):
            try:
                kind = sqltype.INTEGER if text == NULL_TYPE else parse_type(text)
            except Problem:
                raise statement.unsupported(
                    f"the column {name!r} of this result is of type {text}, which can't be used "
                    "over protected rows.",
                    node,
                    hint="CAST it to a number, a text or a date",
                ) from None
            columns.append(statement.column(name, kind))
            nulls.append(text == NULL_TYPE)
        label = f"s{len(statement.stages)}"
        read = tuple(sorted({t.name for t in query.find_all(exp.Table) if t.db == RELEASED}))
        unique = telling(statement, env, tree, [c.type for c in columns])
        most = most_rows(env, tree)
        made = Stage(label, sql, tables, tuple(columns), single, read, unique, most)
        statement.stages.append(made)
        told = tuple(columns[i] for i in unique)
        scan = StageScan(label, tuple(columns), single, told, not read, most)
        return PrivateRows(*untyped(statement, scan, nulls), protected=False)

    def _set_operation(self, node: exp.SetOperation, env: Environment) -> Bound:
        env, kept = self._ctes(node, env)
        around = env.outer
        read = [
            around is not None and bool(outer_columns(side, env, around))
            for side in (node.left, node.right)
        ]
        sides = [
            self.query(side, env, rows=rows)
            for side, rows in zip((node.left, node.right), read, strict=True)
        ]
        if any(isinstance(side, PrivateRows) for side in sides):
            rows = [
                side if isinstance(side, PrivateRows) else self.stage(side.tree, node, env)
                for side in sides
            ]
            return set_rows(self._statement, node, rows[0], rows[1])
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
        env = replace(env, around=env.around | {ascii_lower(item.alias) for item in items})
        args = {
            key: self.open_value(value, env)
            for key, value in node.args.items()
            if key not in ("with_", "from_", "joins", "hint")
        }
        if items:
            args["from_"] = exp.From(this=items[0].tree)
            joins = []
            for item in items[1:]:
                assert item.join is not None  # noqa: S101  only the first item has no join
                rest = {
                    k: self.open_value(v, env) for k, v in item.join.args.items() if k != "this"
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
                    tested = node.find_ancestor(exp.In, exp.Exists, exp.Select)
                    if isinstance(tested, exp.In | exp.Exists):
                        raise self._statement.not_private(
                            "whether rows of a protected table are there can't decide about public "
                            "rows.",
                            node,
                            hint="how many there are: FROM … LEFT JOIN … ON … GROUP BY the public "
                            "columns",
                            tries=nearby.of_members(tested),
                        )
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
                return type(node)(**{k: self.open_value(v, env) for k, v in node.args.items()})

    def open_value(self, value: object, env: Environment) -> object:
        """Rewrite what a node above the releases holds."""
        if isinstance(value, exp.Expr):
            return self.open_expression(value, env)
        if isinstance(value, list):
            return [self.open_value(item, env) for item in value]
        return value

    def open_table(self, node: exp.Table, env: Environment) -> exp.Expr:
        """Rewrite a table that an open block reads: a public one, an open CTE or a list of constants."""
        if isinstance(node.this, exp.Identifier):
            found = env.ctes.get(ascii_lower(node.name)) if not node.db else None
            if isinstance(found, OpenName):
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
        return type(node)(**{k: self.open_value(v, env) for k, v in node.args.items()})


def _is_plain(node: exp.Select) -> bool:
    """Return whether a block only picks rows, or their distinct values: no groups, windows, limits.

    Nor a full join, whose rows no block over protected rows has without an owner.
    """
    if any(node.args.get(k) for k in ("group", "having", "qualify", "limit", "offset")):
        return False
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        return False
    if any(str(join.side or "").upper() == "FULL" for join in node.args.get("joins") or []):
        return False
    return not any(has_aggregate(i) or i.find(exp.Window) for i in node.expressions)


def _named(query: exp.Expr, known: Sequence[OpenName]) -> list[OpenName]:
    """Return the CTEs that a query names, or that those name in turn, in their order."""
    wanted = {ascii_lower(t.name) for t in query.find_all(exp.Table) if not t.db}
    kept = []
    for name in reversed(known):
        if ascii_lower(name.cte.alias) in wanted:
            kept.append(name)
            wanted |= {ascii_lower(t.name) for t in name.cte.this.find_all(exp.Table) if not t.db}
    return kept[::-1]


def _names_table(node: exp.Expr, name: str) -> bool:
    lowered = ascii_lower(name)
    return any(ascii_lower(t.name) == lowered for t in node.find_all(exp.Table))
