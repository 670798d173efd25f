"""The FROM clause: each item is bound once, then joined as private rows or kept for the residual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dp_sql.dataclass import dataclass
from dp_sql.errors import QueryError
from dp_sql.parser.correlated import outer_columns, outer_numbers
from dp_sql.parser.expressions import Expressions
from dp_sql.parser.from_forms import (
    alias_columns,
    as_query,
    pivot_alias,
    spread,
    tests_in_items,
    unpivoted,
    with_laterals,
)
from dp_sql.parser.join_tests import tests_in_where, tests_of_left
from dp_sql.parser.joins import Step, Way, split
from dp_sql.parser.joins import join as joined_rows
from dp_sql.parser.laterals import aggregates_of, expressions_of, lateral_of
from dp_sql.parser.links import conjunction, scan_of
from dp_sql.parser.names import deny_open, is_plain_table
from dp_sql.parser.own_names import is_join
from dp_sql.parser.release_block import RELEASED
from dp_sql.parser.renumber import renumbered
from dp_sql.parser.scope import (
    Environment,
    Named,
    OpenBlock,
    OpenName,
    PrivateRows,
    Scope,
    Source,
    Statement,
)
from dp_sql.parser.text import BY_FILTER, nearest
from dp_sql.parser.turned import check_turned
from dp_sql.parser.using import kept_sources, merge, named_column
from dp_sql.plan import functions
from dp_sql.plan.expression import Column, Expression, Literal, Ref, columns_of
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import TableSpec, ascii_lower

if TYPE_CHECKING:
    from dp_sql.parser.blocks import Blocks


@dataclass(frozen=True, slots=True)
class Item:
    """One item of FROM, bound. `tree` is what the residual reads when the block is open.

    group: the items of a join in parentheses.
    """

    node: exp.Expr
    join: exp.Join | None  # how it is joined to the items before it; None for the first
    alias: str
    rows: PrivateRows | None  # protected rows, or the rows of a public table
    tree: exp.Expr | None
    group: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class _Joined:
    """What the items that were met so far make; it grows."""

    steps: list[Step]
    sources: list[Source]
    merged: dict[str, Column]


class FromClause:
    """Binds the FROM clause of one block."""

    def __init__(self, statement: Statement, blocks: Blocks, env: Environment) -> None:
        self._statement = statement
        self._blocks = blocks
        self._env = env

    def items(self, node: exp.Select) -> list[Item]:
        """Return the items of a block's FROM in order, each bound once."""
        spread(node)
        for form in (tests_in_where, with_laterals, tests_in_items):
            form(node, self._env, self._statement.catalog)
        clause = node.args.get("from_")
        if clause is None:
            return []
        result = [self._item(clause.this, None)]
        result += [self._item(join.this, join) for join in node.args.get("joins") or []]
        return result

    def _group(self, node: exp.Subquery, join: exp.Join | None) -> Item:
        """Return a join in parentheses as one item, whose own items keep their names."""
        if any(v for k, v in node.args.items() if k not in ("this", "joins")):
            raise self._statement.unsupported(
                "a name for a join in parentheses isn't answered.",
                node,
                hint="(SELECT … FROM …) AS name, or the names of its tables",
            )
        bare = node.this.copy()
        bare.set("joins", None)
        items = [self._item(bare, None)]
        for inner in (node.this, node):
            items += [self._item(one.this, one) for one in inner.args.get("joins") or []]
        if len(items) == 1:
            raise self._statement.wrong("these parentheses hold no join and no query.", node)
        tree = None
        if all(item.tree is not None for item in items):
            tree = exp.Subquery(this=self._tree(items))
        return Item(node, join, "", None, tree, tuple(items))

    def _tree(self, items: Sequence[Item]) -> exp.Expr:
        """Return open items of a join as the residual reads them."""
        first, *rest = items
        joins = []
        for item in rest:
            assert item.join is not None  # noqa: S101  only the first item has no join
            args = {
                k: self._blocks.open_value(v, self._env)
                for k, v in item.join.args.items()
                if k != "this"
            }
            joins.append(exp.Join(this=item.tree, **args))
        assert first.tree is not None  # noqa: S101  the caller saw to it
        tree = first.tree.copy()
        tree.set("joins", joins)
        return tree

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
                tries=(self._statement.with_name(node, close),) if close else (),
            )
        return found

    def _item(self, node: exp.Expr, join: exp.Join | None) -> Item:
        if isinstance(node, exp.Subquery) and is_join(node):
            return self._group(node, join)
        check_turned(self._statement, node)
        alias = node.alias_or_name
        names = [i.name for i in alias_columns(node)]
        if isinstance(node, exp.Table) and is_plain_table(node):
            for key, value in node.args.items():
                if key not in ("this", "db", "catalog", "alias", "joins") and value not in (
                    None, False, [],
                ):  # fmt: skip
                    rate = "sample_rate=0.1 of the call, or OPTIONS(sample_rate = 0.1)"
                    raise self._statement.unsupported(
                        "samples and the like of a table aren't answered.",
                        node,
                        hint=rate if isinstance(value, exp.TableSample) else "filter with WHERE",
                    )
            cte = self._env.ctes.get(ascii_lower(node.name)) if not node.db else None
            if isinstance(cte, OpenName):
                return Item(node, join, alias, None, node.copy())
            if isinstance(cte, PrivateRows):
                self._statement.growth.use(node.name, cte.relation, node)
                fresh = renumbered(cte, self._statement)
                return Item(node, join, alias, self._blocks.rename(fresh, names, node), None)
            spec = self.spec(node)
            rows = self._blocks.rename(self._scan(spec), names, node)
            tree = self._blocks.open_table(node, self._env) if spec.public else None
            return Item(node, join, alias, rows, tree)
        if isinstance(node, exp.Subquery):
            outer = self._env.outer
            deep = (
                outer is not None
                and self._blocks.reads_protected(node, self._env)
                and bool(outer_columns(node, self._env, outer))
            )
            bare, pivots = unpivoted(node)
            bound = self._blocks.item(bare, self._env if deep else self._env.inside(None))
            if isinstance(bound, OpenBlock):
                kept = {k: v for k, v in node.args.items() if k == "alias"}
                kept["pivots"] = self._blocks.open_value(pivots, self._env)
                tree = exp.Subquery(this=bound.tree, **kept)
                return Item(node, join, pivot_alias(pivots) or alias, None, tree)
            if pivots:
                raise self._statement.not_private(
                    "PIVOT would make its columns of the rows.", node, hint=BY_FILTER
                )
            return Item(node, join, alias, self._blocks.rename(bound, names, node), None)
        if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            if self._blocks.reads_protected(node, self._env):
                return Item(node, join, alias, None, None)
            return Item(node, join, alias, None, self._blocks.open_expression(node, self._env))
        deny_open(self._statement, node)
        if not isinstance(node, exp.Values | exp.Unnest | exp.Table):
            raise self._statement.unsupported(
                "this item of FROM isn't answered.", node, hint="a table, a subquery or VALUES"
            )
        return Item(node, join, alias, None, self._blocks.open_expression(node, self._env))

    def _scan(self, spec: TableSpec) -> PrivateRows:
        """Return the rows of a declared table; every column gets a fresh number."""
        scan = scan_of(self._statement, spec, tuple(spec.columns))
        named = tuple(
            Named(s.name, c) for s, c in zip(spec.columns.values(), scan.columns, strict=True)
        )
        return PrivateRows(scan, named, not spec.public)

    def steps(self, items: Sequence[Item]) -> tuple[list[Step], Scope]:
        """Return how the items of a private block are joined, and what the block can name."""
        joined = self._joined(_comma_groups(items))
        return joined.steps, self._scope(joined)

    def _scope(self, joined: _Joined) -> Scope:
        return Scope(
            self._statement, tuple(joined.sources), joined.merged, self._env.outer, self._env.around
        )

    def _joined(self, items: Sequence[Item]) -> _Joined:
        joined = _Joined([], [], {})
        for item in items:
            if item.join is None and item.group:
                first = self._joined(item.group)
                joined.steps.extend(first.steps)
                joined.sources.extend(first.sources)
                joined.merged.update(first.merged)
            else:
                self._add(item, joined)
        return joined

    def _add(self, item: Item, joined: _Joined) -> None:
        """Join one item to those before it."""
        if item.join is not None and (
            select := lateral_of(item.node, self._env, self._scope(joined))
        ):
            self._compute(item, item.join, select, joined)
            return
        inner = self._joined(item.group) if item.group else None
        if inner is None:
            rows = self._rows(item, self._scope(joined))
            own = [Source(item.alias, rows.columns)]
        else:
            rows, own = self._grouped(item, inner), inner.sources
        for source in own:
            alias = ascii_lower(source.alias)
            if alias and any(ascii_lower(s.alias) == alias for s in joined.sources):
                raise self._statement.wrong(
                    f"two tables are called {source.alias!r}.", item.node, hint="give one an alias"
                )
        if item.join is None:
            joined.sources.extend(own)
            outside = tuple(rows.correlated)
            joined.steps.append(Step(rows, Way.INNER, (), item.node, item.alias, outside=outside))
            return
        left = Scope(self._statement, tuple(joined.sources), joined.merged)
        right = Scope(self._statement, tuple(own), {} if inner is None else inner.merged)
        way = self._way(item, item.join)
        shared = self._shared(item, item.join, left, rows)
        joined.sources.extend(
            kept_sources(self._statement, item.node, left, right, shared, joined.merged)
        )
        scope = self._scope(joined)
        tests, on = None, item.join.args.get("on")
        if way is not Way.INNER and on is not None:
            before, sides = [s.rows.relation for s in joined.steps], (left, right, scope)
            tests = tests_of_left(self._blocks, self._env, on, sides, before, way.value)
        binder = Expressions(scope, {}, () if tests is None else (tests.meaning,))
        condition = self._condition(item, item.join, left, right, shared, binder)
        outside = self._outside(item, way, rows.correlated)
        condition += [part for part in rows.correlated if part not in outside]
        kept = merge(self._statement, way, left, right, shared, joined.merged)
        if inner is not None and way is Way.INNER and _is_inner(inner.steps):
            *most, last = inner.steps  # inner joins alone: in any order
            more = replace(
                last, condition=(*last.condition, *condition), outside=(*last.outside, *outside)
            )
            joined.steps.extend([*most, more])
        else:
            name = own[0].alias
            step = Step(
                rows, way, tuple(condition), item.node, name, kept, outside=outside, tests=tests
            )
            joined.steps.append(step)
        if way in (Way.SEMI, Way.ANTI):
            del joined.sources[-len(own) :]

    def _outside(self, item: Item, way: Way, parts: Sequence[Expression]) -> tuple[Expression, ...]:
        """Return the conditions of an item that read the block around the subquery that it is in."""
        outer = outer_numbers(self._env.outer)
        found = tuple(p for p in parts if any(c.number in outer for c in columns_of(p)))
        if found and way is not Way.INNER:
            raise self._statement.unsupported(
                "a subquery of FROM can read the block around it where it is joined by an inner join.",
                item.node,
                hint="compare its columns in the WHERE of the block that it is in",
            )
        return found

    def _compute(self, item: Item, join: exp.Join, select: exp.Select, joined: _Joined) -> None:
        """Take the columns that a LATERAL makes of each row before it, one row for one.

        Raises UnsupportedSQLError for one that does more than that.
        """
        before = self._scope(joined)
        way = self._way(item, join)
        if way not in (Way.INNER, Way.LEFT):
            raise self._statement.unsupported(
                "LATERAL is answered in an inner or a left join.",
                item.node,
                hint="LEFT JOIN LATERAL",
            )
        if select.args.get("from_") is None:
            made, tests = expressions_of(self._statement, item.node, select, before)
        else:
            env, place = self._env.inside(before), (item.node, tuple(joined.steps))
            made, step, tests = aggregates_of(self._statement, self._blocks, env, select, place)
            joined.steps.append(step)
        columns = [self._statement.column(name, value.type) for name, value in made]
        named = tuple(Named(n, c) for (n, _), c in zip(made, columns, strict=True))
        names = [i.name for i in alias_columns(item.node)]
        rows = joined.steps[0].rows
        made_rows = PrivateRows(rows.relation, named, rows.protected)
        own = Source(item.alias, self._blocks.rename(made_rows, names, item.node).columns)
        values = [value for _, value in made]
        if way is Way.LEFT:
            on = join.args.get("on")
            scope = replace(before, sources=(*before.sources, own))
            tests += [] if on is None else [Expressions(scope).bind_condition(on)]
            tests = [t for t in tests if t != Literal(value=True, type=sqltype.BOOLEAN)]
            if any(c in columns for t in tests for c in columns_of(t)):
                raise self._statement.unsupported(
                    "ON can't read what this LATERAL makes.", item.node, hint="WHERE"
                )
            if tests:
                both, null = conjunction(tests), Literal(None, sqltype.NULL)
                values = [functions.case(((both, v),), null) for v in values]
            tests = []
        joined.sources.append(own)
        if way is Way.INNER and join.args.get("on") is not None:
            tests.append(Expressions(self._scope(joined)).bind_condition(join.args["on"]))
        pairs = tuple(zip(columns, values, strict=True))
        joined.steps.append(
            Step(rows, Way.COMPUTED, tuple(split(tests)), item.node, item.alias, (), pairs)
        )

    def _grouped(self, item: Item, inner: _Joined) -> PrivateRows:
        """Return the rows of a join in parentheses."""
        named = tuple(n for source in inner.sources for n in source.columns)
        protected = any(step.rows.protected for step in inner.steps)
        if _is_inner(inner.steps) and item.join and self._way(item, item.join) is Way.INNER:
            return PrivateRows(inner.steps[0].rows.relation, named, protected)  # joined one by one
        for step in inner.steps:
            self._outside(item, Way.LEFT, step.outside)
        found = joined_rows(self._statement, inner.steps, [])
        if found.padded:
            raise self._statement.not_private(
                "this outer join keeps rows of a public table, which belong to nobody.",
                item.node,
                hint="an inner join, or the public table first, without parentheses",
            )
        return PrivateRows(found.relation, named, protected)

    def _rows(self, item: Item, before: Scope) -> PrivateRows:
        """Return the rows of an item; what is LATERAL may read the items before it."""
        if item.rows is not None:
            return item.rows
        names = [i.name for i in alias_columns(item.node)]
        spread_out = isinstance(item.node, exp.Unnest)
        read = outer_columns(item.node, self._env, before) if spread_out else []
        if read:
            raise self._statement.unsupported(
                "UNNEST of columns isn't answered over protected rows.",
                read[0],
                hint="SELECT owner, a AS x FROM t UNION ALL SELECT owner, b FROM t",
            )
        if isinstance(item.node, exp.Lateral):
            bound = self._blocks.query(item.node.this, self._env.inside(before), rows=True)
            if isinstance(bound, PrivateRows):
                return self._blocks.rename(bound, names, item.node)
        if item.tree is None:
            raise self._statement.unsupported(
                "this LATERAL subquery isn't answered: it mixes aggregates with the outer row.",
                item.node,
                hint="aggregates alone, or a subquery that keeps rows",
            )
        plain = isinstance(item.node, exp.Subquery) and not item.node.args.get("pivots")
        if plain and not _reads_releases(item.tree):
            picked = self._blocks.query(item.node, self._env.inside(None), rows=True)
            if isinstance(picked, PrivateRows):  # of public tables: its keys keep their values
                return self._blocks.rename(picked, names, item.node)
        rows = self._blocks.stage(as_query(item.tree), item.node, self._env)
        return self._blocks.rename(rows, names, item.node)

    def _way(self, item: Item, join: exp.Join) -> Way:
        side, kind = str(join.side or "").upper(), str(join.kind or "").upper()
        method = str(join.method or "").upper()
        known = {
            ("", ""): Way.INNER, ("", "INNER"): Way.INNER, ("", "CROSS"): Way.INNER,
            ("LEFT", ""): Way.LEFT, ("LEFT", "OUTER"): Way.LEFT, ("RIGHT", ""): Way.RIGHT,
            ("RIGHT", "OUTER"): Way.RIGHT, ("FULL", ""): Way.FULL, ("FULL", "OUTER"): Way.FULL,
            ("", "SEMI"): Way.SEMI, ("", "ANTI"): Way.ANTI,
        }  # fmt: skip
        found = known.get((side, kind))
        if method == "ASOF" and found in (Way.INNER, Way.LEFT):
            return Way.ASOF if found is Way.INNER else Way.ASOF_LEFT
        if found is None or method not in ("", "NATURAL"):
            words = " ".join(w for w in (method, side, kind) if w)
            why = ": rows have no order" if method == "POSITIONAL" else ""
            raise self._statement.unsupported(
                f"{words} JOIN isn't answered{why}.",
                item.node,
                hint="an inner join on the owner's column",
            )
        return found

    def _shared(self, item: Item, join: exp.Join, left: Scope, rows: PrivateRows) -> list[str]:
        """Return the lower-cased names on which USING or NATURAL joins."""
        using = join.args.get("using") or []
        if using:
            return [ascii_lower(i.name) for i in using]
        if str(join.method or "").upper() != "NATURAL":
            return []
        before = {ascii_lower(n.name) for n in left.named()}
        names = dict.fromkeys(ascii_lower(n.name) for n in rows.columns)
        common = [name for name in names if name in before]
        if not common:
            raise self._statement.wrong("NATURAL JOIN finds no column in common.", item.node)
        return common

    def _condition(
        self,
        item: Item,
        join: exp.Join,
        left: Scope,
        right: Scope,
        shared: list[str],
        binder: Expressions,
    ) -> list[Expression]:
        if shared:
            parts = []
            for name in shared:
                a, b = left.find(named_column(name)), right.find(named_column(name))
                if a is None or b is None:
                    raise self._statement.wrong(
                        f"USING needs a column {name!r} on both sides.", item.node
                    )
                nearest = name == shared[-1] and str(join.method or "").upper() == "ASOF"
                sign = ">=" if nearest else "="
                parts.append(self._compared(sign, Ref(a), Ref(b), item.node))
            return parts
        on = join.args.get("on")
        if on is None:
            return []
        return split([binder.bind_condition(on)])

    def _compared(self, sign: str, a: Expression, b: Expression, node: exp.Expr) -> Expression:
        try:
            return functions.call(sign, (a, b))
        except functions.TypeProblem as problem:
            error: QueryError = self._statement.wrong(f"{problem}", node)
            raise error from None


def _is_inner(steps: Sequence[Step]) -> bool:
    return all(step.way is Way.INNER for step in steps)


def _comma_groups(items: Sequence[Item]) -> list[Item]:
    """Return the items with a RIGHT or FULL JOIN after a comma in parentheses: it binds closer."""
    found: list[list[Item]] = []
    for item in items:
        if item.join is None or not any(v for k, v in item.join.args.items() if k != "this"):
            found.append([item])
        else:
            found[-1].append(item)
    result: list[Item] = []
    for first, *rest in found:
        sides = [str(i.join.side or "").upper() for i in rest if i.join is not None]
        if first.join is not None and ("RIGHT" in sides or "FULL" in sides):
            group = (replace(first, join=None), *rest)
            result.append(Item(first.node, first.join, "", None, None, group))
        else:
            result += [first, *rest]
    return result


def _reads_releases(tree: exp.Expr) -> bool:
    return any(table.db == RELEASED for table in tree.find_all(exp.Table))
