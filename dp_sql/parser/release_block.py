"""A block that mixes units: its release, and the rest of its text over the released table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from dp_sql.errors import QueryError
from dp_sql.parser import aggregates, examples, nearby, options, truth
from dp_sql.parser.aggregate_calls import AggregateCalls
from dp_sql.parser.bin_calls import shown
from dp_sql.parser.correlated import outer_columns
from dp_sql.parser.dialect import unnamed
from dp_sql.parser.distinct_rows import Values
from dp_sql.parser.expressions import Expressions, merged_owners
from dp_sql.parser.group_keys import check_order, grouping
from dp_sql.parser.interval_calls import IntervalCalls, written
from dp_sql.parser.links import belongs_to_one
from dp_sql.parser.names import deny_open
from dp_sql.parser.ordering import named
from dp_sql.parser.scope import Environment, Scope, Statement
from dp_sql.parser.subqueries import Subqueries
from dp_sql.plan.expression import Column, Expression, Ref, columns_of
from dp_sql.plan.relation import Relation, inputs
from dp_sql.plan.release import GROUPING_SET, Key, Release
from dp_sql.plan.rows import Rows, Scan
from dp_sql.schema.catalog import ascii_lower
from dp_sql.schema.sqltype import Kind
from dp_sql.sensitivity.ownership import (
    holds_owner,
    holds_owner_or_null,
    owner_or_null,
    owners_of,
)

if TYPE_CHECKING:
    from dp_sql.parser.blocks import Blocks

RELEASED = "released"  # the schema of released tables in the residual


class ReleaseBlock:
    """Rewrites one block: aggregates and keys become columns of a released table."""

    def __init__(
        self,
        statement: Statement,
        scope: Scope,
        source: Rows,
        aliases: Mapping[str, exp.Expr],
        blocks: Blocks,
        env: Environment,
        padded: frozenset[int] = frozenset(),
        values: Values | None = None,
    ) -> None:
        self._statement = statement
        self._source = source
        self._aliases = aliases
        self._blocks = blocks
        self._env = env
        self._padded = padded
        self._values = values
        self._subqueries = Subqueries(statement, blocks, env, scope, (source,))
        merged = merged_owners(scope, source)
        self._binder = Expressions(scope, aliases, (self._subqueries.meaning, merged))
        self._plain = Expressions(scope, {}, (merged,))
        self._scope = scope
        self._owners = owners_of(source)
        self._nullable_owners = owner_or_null(source).keys() - self._owners
        self._keys: list[Key] = []
        self._written: list[tuple[exp.Expr, str]] = []  # keys as the text has them
        self._sets: list[tuple[int, ...]] = []
        self._in_having = False
        self._opening: list[str] = []  # the aliases inside which `_bare` is: none stands for itself
        self._calls = AggregateCalls(
            statement, scope, self._binder, self._owners, padded, self._source, values
        )
        self._intervals = IntervalCalls(statement)
        self._name, self._position = "", 0

    def rewrite(self, node: exp.Select, *, top: bool) -> exp.Select:
        """Return the block over its released table; the release joins the statement's releases."""
        check_order(self._statement, node)
        self._begin()
        self._bind_keys(node, top=top)
        items = [self._item(item) for item in node.expressions]
        args: dict[str, object] = {
            "expressions": items,
            "from_": exp.From(this=exp.table_(self._name, db=RELEASED, quoted=True)),
        }
        having = node.args.get("having")
        if having is not None:
            self._in_having = True
            args["where"] = exp.Where(this=self._open(having.this))
            self._in_having = False
        if node.args.get("order") is not None:
            args["order"] = self._order(node)
        for key in ("qualify", "limit", "offset", "distinct", "windows"):
            value = node.args.get(key)
            if value is not None and value != []:
                args[key] = self._value(value)
        self._end()
        return exp.Select(**args)

    def _order(self, node: exp.Select) -> exp.Expr:
        """Return ORDER BY, in which a name that stands alone is an alias first."""
        clause = node.args["order"]
        items = []
        for item in clause.expressions:
            shown = named(item.this, node)
            if shown is None:
                items.append(self._open(item))
                continue
            meant: exp.Expr
            if shown.find(exp.Query):  # written out again it would be released again
                place = next(i for i, e in enumerate(node.expressions, 1) if e is shown)
                meant = exp.Literal.number(place)
            else:
                meant = self._meant(shown.alias, shown.this)
            rest = {k: v for k, v in item.args.items() if k != "this"}
            items.append(exp.Ordered(this=meant, **rest))
        rest = {k: self._value(v) for k, v in clause.args.items() if k != "expressions"}
        return exp.Order(expressions=items, **rest)

    def by_columns(self, columns: list[Column], item: exp.Expr) -> exp.Select:
        """Return an expression over aggregates by some columns of the source, after these."""
        self._begin()
        self._keys = [Key(f"k{i}", Ref(column)) for i, column in enumerate(columns)]
        shown = [self._released(key.name) for key in self._keys]
        value = exp.Alias(this=self._open(item), alias=exp.to_identifier("value", quoted=True))
        self._end()
        source = exp.From(this=exp.table_(self._name, db=RELEASED, quoted=True))
        return exp.Select(expressions=[*shown, value], from_=source)

    def _begin(self) -> None:
        """Take a place among the releases, kept while subqueries add theirs."""
        options.check_owner(self._scope, frozenset(self._owners), self._env)
        self._position = len(self._statement.releases)
        self._name = f"r{self._position}"
        self._statement.releases.append(Release(self._name, self._source, (), (), ()))

    def _end(self) -> None:
        self._source = self._subqueries.applied(self._source)
        if self._values is not None:
            self._values.require_alone(self._source)
        self._statement.releases[self._position] = Release(
            self._name,
            self._source,
            tuple(self._keys),
            tuple(self._calls.found),
            tuple(sorted(_protected_tables(self._source))),
            self._env.options,
            tuple(self._sets) if len(self._sets) > 1 else (),
            bool(self._padded),
            tuple(self._intervals.found),
        )

    def _bind_keys(self, node: exp.Select, *, top: bool) -> None:
        nodes, sets = grouping(self._statement, node)
        distinct = node.args.get("distinct")
        if (
            top
            and node.args.get("group") is None
            and distinct is not None
            and not any(aggregates.has_aggregate(i) for i in node.expressions)
        ):
            if distinct.args.get("on") is not None:
                raise self._statement.unsupported("DISTINCT ON isn't answered.", node)
            nodes = [i.unalias() for i in node.expressions]
        places = []
        for item in nodes:
            if isinstance(item, exp.Star) or aggregates.has_aggregate(item):
                raise self._statement.wrong("this can't be a GROUP BY key.", item)
            bound = self._binder.bind(item)
            self._check_key(bound, item)
            if len(sets) > 1 and not columns_of(bound):
                raise self._statement.unsupported(
                    "a constant can't be one of several sets' keys.",
                    item,
                    hint="leave it out of GROUP BY",
                )
            found = next((key for key in self._keys if key.expression == bound), None)
            if found is None:
                found = Key(f"k{len(self._keys)}", bound)
                self._keys.append(found)
            places.append(self._keys.index(found))
            self._written.append((self._behind(item), found.name))
        self._sets = [tuple(sorted({places[i] for i in one})) for one in sets]

    def _behind(self, item: exp.Expr) -> exp.Expr:
        """Return the expression that an alias names, or the item itself."""
        if isinstance(item, exp.Column) and not item.table and self._scope.find(item) is None:
            return self._aliases.get(ascii_lower(item.name), item)
        return item

    def _in_months(self, node: exp.Expr) -> str | None:
        """Return the statement with whole months in the place of age(a, b), None for other intervals."""
        found = self._statement.call(node)
        if (
            (self._statement.word(node) or "").lower() != "age"
            or found is None
            or len(found[1]) != 2
        ):
            return None
        last, first = found[1]
        return self._statement.with_call(node, f"date_diff('month', {first}, {last})")

    def _check_key(self, bound: Expression, node: exp.Expr) -> None:
        if bound.type.kind is Kind.INTERVAL:
            raise self._statement.unsupported(
                "a key of type INTERVAL isn't answered: equal ones look different, as 1 month and 30 days.",
                node,
                hint="a number: date_diff('month', x, y), or epoch(y - x)",
                tries=[self._in_months(self._behind(node))],
            )
        if bound.type.kind is Kind.NULL:
            raise self._statement.unsupported("a key without a type isn't answered.", node)
        if any(c.number in self._padded for c in columns_of(bound)):
            raise self._statement.not_private(
                "this key is NULL for rows of the public table that match nobody.",
                node,
                hint="group by the public table's columns, or use an inner join",
            )
        if holds_owner_or_null(bound, self._nullable_owners | self._owners) and not holds_owner(
            bound, self._owners
        ):
            raise self._statement.not_private(
                "this key is the owner or NULL: a group for each person would show everybody's data.",
                node,
                hint="average over persons: group by the owner of the side that keeps its rows, or by "
                "COALESCE of both sides' owners, in a subquery",
                tries=(examples.per_person(self._source, self._statement.catalog),),
            )
        if holds_owner(bound, self._owners):
            raise self._statement.not_private(
                "a group for each person would show everybody's data.",
                node,
                hint="group by something that many people share, or average over persons",
                tries=(examples.per_person(self._source, self._statement.catalog),),
            )
        if (
            self._owners
            and isinstance(bound, Ref)
            and belongs_to_one(self._source, bound.column, self._statement.catalog) is not None
        ):
            raise self._statement.not_private(
                f"every value of {bound.column.name} belongs to one person, so each group would "
                "show one person's data.",
                node,
                hint="group by something that many people share, or average over persons",
                tries=(examples.per_person(self._source, self._statement.catalog),),
            )

    def _item(self, item: exp.Expr) -> exp.Expr:
        if isinstance(item, exp.Star) or (
            isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
        ):
            raise self._statement.wrong("* can't stand beside aggregates.", item)
        if isinstance(item, exp.Alias):
            return exp.Alias(this=self._open(item.this), alias=item.args["alias"].copy())
        name = item.name if isinstance(item, exp.Column) else written(item) or unnamed(item)
        return exp.Alias(this=self._open(item), alias=exp.to_identifier(name, quoted=True))

    def _open(self, node: exp.Expr) -> exp.Expr:
        """Rewrite an expression above the aggregates."""
        self._statement.growth.enter(node)
        try:
            return self._opened(node)
        finally:
            self._statement.growth.leave()

    def _opened(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return self._grouping(node)
        if isinstance(node, exp.Anonymous) and aggregates.is_interval(node):
            meant = self._open(self._intervals.argument(node))
            noisy = [aggregate.name for aggregate in self._calls.found]
            return self._released(self._intervals.column(node, meant, noisy))
        call = None if isinstance(node, exp.Window) else aggregates.read(node)
        if call is not None:
            self._calls.require_of_values(call)
        compared = None if call is None else truth.counted(call)
        if compared is not None:
            return self._open(compared)
        bins = None if call is None else self._calls.binned(call)
        if bins is not None:
            return shown(bins[0], [self._released(name) for name in bins[1]])
        if call is not None:
            names, listed = self._calls.columns(call)
            columns = [self._released(name) for name in names]
            return exp.Array(expressions=columns) if listed else columns[0]
        key = self._key(node)
        if key is not None:
            return self._released(key)
        if isinstance(node, exp.Query | exp.Subquery):
            return self._subquery(node)
        if isinstance(node, exp.Column):
            return self._bare(node)
        deny_open(self._statement, node)
        if isinstance(node, exp.Window):
            function, test = node.this, None
            if isinstance(function, exp.Filter):
                function, test = function.this, function.expression
            inner = type(function)(**{k: self._value(v) for k, v in function.args.items()})
            if test is not None:
                inner = exp.Filter(this=inner, expression=self._open(test))
            rest = {k: self._value(v) for k, v in node.args.items() if k != "this"}
            return exp.Window(this=inner, **rest)
        return type(node)(**{k: self._value(v) for k, v in node.args.items()})

    def _value(self, value: object) -> object:
        if isinstance(value, exp.Expr):
            return self._open(value)
        if isinstance(value, list):
            return [self._value(item) for item in value]
        return value

    def _released(self, column: str) -> exp.Expr:
        return exp.column(column, table=self._name, quoted=True)

    def _key(self, node: exp.Expr) -> str | None:
        """Return the released column of the key that `node` is, or None."""
        if not self._keys or isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.Var):
            return None
        if not isinstance(node, exp.Condition | exp.Query) or aggregates.has_aggregate(node):
            return None
        if isinstance(node, exp.Column) and node.find(exp.Star) is not None:
            return None
        if node.find(exp.Query):
            return next((name for tree, name in self._written if tree == node), None)
        try:
            if isinstance(node, exp.Column) and self._scope.find(node) is None:
                return None  # an alias; `bind` would look for names that are like it
            bound = self._plain.bind(node)
        except QueryError:
            return None
        return next((key.name for key in self._keys if key.expression == bound), None)

    def _subquery(self, node: exp.Expr) -> exp.Expr:
        """Rewrite a subquery above the aggregates: it reads public data, releases and this one's keys."""
        whole = node.copy()
        for column in outer_columns(whole, self._env, self._scope):
            key = self._key(column)
            if key is None:
                raise self._statement.wrong(
                    f"{column.name!r} has many values in a group, so a subquery above the aggregates "
                    "can't read it.",
                    column,
                    hint="the subquery's value as a key: SELECT k, COUNT(*) FROM (SELECT (SELECT …) AS k "
                    "FROM t) GROUP BY k",
                )
            if self._blocks.reads_protected(whole, self._env):
                raise self._statement.unsupported(
                    "a subquery over protected rows can't depend on a group of this block.",
                    column,
                    hint=f"two CTEs, each with GROUP BY {column.name}, joined on it",
                )
            column.replace(self._released(key))
        return self._blocks.open_expression(whole, self._env)

    def _grouping(self, node: exp.Grouping | exp.GroupingId) -> exp.Expr:
        """Rewrite GROUPING(k, …): a bit for each key, 1 where the group's set is without it."""
        names = [key.name for key in self._keys]
        keys = [self._open(item) for item in node.expressions] if names else []
        if not keys or any(not isinstance(k, exp.Column) or k.name not in names for k in keys):
            raise self._statement.wrong(
                "GROUPING takes keys of the GROUP BY.",
                node,
                hint=None if names else "GROUP BY ROLLUP (…)",
            )
        places = [names.index(key.name) for key in keys]
        masks = ["".join("01"[place not in one] for place in places) for one in self._sets]
        released = self._released(GROUPING_SET)
        ifs = [
            exp.If(this=released.copy().eq(number), true=exp.Literal.number(int(mask, 2)))
            for number, mask in enumerate(masks)
        ]
        several = len(self._sets) > 1
        return exp.cast(exp.Case(ifs=ifs) if several else exp.Literal.number(0), "BIGINT")

    def _bare(self, node: exp.Column) -> exp.Expr:
        """Rewrite a column that is no key: an alias of the select list, or an error."""
        name = ascii_lower(node.name)
        if not node.table and name in self._aliases and name not in self._opening:
            target = self._aliases[name]
            own = any(ascii_lower(c.name) == name for c in target.find_all(exp.Column))
            if self._in_having or not own or aggregates.has_aggregate(target):
                return self._meant(node.name, target)
        if self._scope.find(node) is None:
            raise self._scope.unknown(node)
        raise self._statement.wrong(
            f"{node.name!r} has many values in a group.",
            node,
            hint=f"put {node.name} into GROUP BY, or aggregate it",
            tries=nearby.grouped_by(node),
        )

    def _meant(self, alias: str, target: exp.Expr) -> exp.Expr:
        """Rewrite what an alias of the select list stands for, in the place of its name."""
        self._opening.append(ascii_lower(alias))
        with self._statement.growth.alias(alias):
            rewritten = self._open(target)
        self._opening.pop()
        return rewritten if isinstance(rewritten, exp.Column) else exp.Paren(this=rewritten)


def _protected_tables(relation: Relation) -> set[str]:
    if isinstance(relation, Scan):
        return set() if relation.public else {relation.table}
    return {name for source in inputs(relation) for name in _protected_tables(source)}
